use super::*;
use crate::evidence::chain::tests::{draft, key};
use crate::evidence::chain::{ChainStartReason, DropReason, HeadDraft, seal};
use crate::id::{Hash, NodeId};
use crate::segment::Block;
use crate::segment::fixture::small_events;
use crate::time::{Period, Timestamp};

const HEADER: FileHeader = FileHeader { chain: ChainId([3; 16]), public_key: [7; 32] };

fn start() -> Vec<u8> {
    let start = ChainStart {
        node: NodeId([1; 16]),
        chain: HEADER.chain,
        at: Timestamp(1_800_000_000_000),
        reason: ChainStartReason::Joined,
    };
    encode_chain_start(&start.statement(), &[5; 64])
}

fn drop_of(first: u64, last: u64) -> Vec<u8> {
    let at = Timestamp(1_800_000_000_000);
    let drop = Drop {
        node: NodeId([1; 16]),
        chain: HEADER.chain,
        first: Sequence(first),
        last: Sequence(last),
        period: Period::new(at, at.plus_ms(60_000)),
        reason: DropReason::Quota,
        last_head: Hash([2; 32]),
    };
    encode_drop(drop.last, &drop.statement(), &[6; 64])
}

fn sealed_at(sequence: u64) -> SealedSegment {
    let draft = HeadDraft { sequence: Sequence(sequence), ..draft() };
    seal(draft, &[Block::Events(small_events())], &key()).unwrap()
}

/// Header, start, segments of these sequences, and a drop.
fn file(sequences: &[u64]) -> Vec<u8> {
    let mut bytes = HEADER.encode().to_vec();
    bytes.extend(start());
    for sequence in sequences {
        bytes.extend(encode_segment(&sealed_at(*sequence)));
    }
    bytes.extend(drop_of(1, 2));
    bytes
}

fn sequences(scan: &Scan) -> Vec<u64> {
    let segments = scan.records.iter().filter_map(|found| match &found.content {
        Content::Segment(sealed) => Some(sealed.signed.head.sequence.0),
        Content::Drop(_) | Content::ChainStart(_) => None,
    });
    segments.collect()
}

#[test]
fn what_was_written_is_read() {
    let bytes = file(&[3, 4]);
    assert_eq!(FileHeader::decode(&bytes), Ok(HEADER));
    let found = scan(&bytes);
    assert_eq!((sequences(&found), found.end), (vec![3, 4], bytes.len()));
    assert_eq!(found.damaged, []);
    assert!(
        matches!(&found.records[0].content, Content::ChainStart(start) if start.signature == [5; 64])
    );
    let Content::Segment(sealed) = &found.records[1].content else { panic!("no segment") };
    assert_eq!(**sealed, sealed_at(3));
    assert!(
        matches!(&found.records[3].content, Content::Drop(drop) if drop.says.last == Sequence(2))
    );
}

#[test]
fn a_header_that_is_torn_foreign_or_of_another_version_is_told_apart() {
    let bytes = HEADER.encode();
    for length in 0..HEADER_BYTES {
        assert_eq!(FileHeader::decode(&bytes[..length]), Err(HeaderError::Torn), "{length}");
    }
    let mut later = bytes;
    later[18] = b'2';
    assert_eq!(FileHeader::decode(&later), Err(HeaderError::Version));
    assert_eq!(FileHeader::decode(b"something else"), Err(HeaderError::Foreign));
    for at in 20..HEADER_BYTES {
        let mut flipped = bytes;
        flipped[at] ^= 1;
        assert_eq!(FileHeader::decode(&flipped), Err(HeaderError::Foreign), "{at}");
    }
}

#[test]
fn every_truncation_keeps_the_whole_records_before_it() {
    let bytes = file(&[3, 4, 5]);
    let whole = scan(&bytes).records;
    for length in HEADER_BYTES..bytes.len() {
        let expected: Vec<_> =
            whole.iter().filter(|found| found.offset + found.bytes <= length).cloned().collect();
        let found = scan(&bytes[..length]);
        assert_eq!(found.records, expected, "{length}");
        assert_eq!(found.damaged, []);
    }
}

#[test]
fn a_flipped_bit_costs_the_record_that_it_is_in_and_no_other() {
    let bytes = file(&[3, 4, 5]);
    let whole = scan(&bytes).records;
    for at in (HEADER_BYTES..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let expected: Vec<_> = whole
            .iter()
            .filter(|found| !(found.offset..found.offset + found.bytes).contains(&at))
            .cloned()
            .collect();
        assert_eq!(scan(&flipped).records, expected, "byte {at}");
    }
}
