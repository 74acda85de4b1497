//! D6: the agent always starts, whatever its spool holds, and has all that is not damaged.

use leasewatch_core::delivery::{ItemKind, SpoolIndex as _};
use leasewatch_core::evidence::spool::{HEADER_BYTES, scan};
use leasewatch_core::id::Sequence;

use super::rig::{Chain, Crash, Forgetful, OWNER, Sabotage, instant};
use super::{append, assert_whole};
use crate::spool::disk::Disk as _;
use crate::spool::{ChainEnd, Quota, Spool};

const QUOTA: Quota = Quota { bytes: 64 << 10, hours: 24, reserve_bytes: 0 };
/// Two files, the second with a few records.
const SEGMENTS: u64 = 6;

fn written() -> Forgetful {
    let disk = Forgetful::new(Sabotage::Nothing);
    let mut spool = Spool::on(Box::new(disk.clone()), QUOTA, OWNER, ChainEnd::START);
    append(&mut spool, SEGMENTS);
    assert_eq!(disk.list().unwrap().len(), 2);
    disk
}

/// Opens what is left, and asks for every segment outside of the damage. `known` is the state.
fn opened(disk: &Forgetful, whole: &[u64], known: ChainEnd) -> Result<Spool, String> {
    let mut spool = Spool::on(Box::new(disk.clone()), QUOTA, OWNER, known);
    for sequence in whole {
        let segment = spool.segment(Sequence(*sequence));
        if segment.as_ref() != Some(&*Chain::shared().segment(*sequence)) {
            return Err(format!("{sequence} is whole and was not found"));
        }
    }
    assert_whole(&mut spool);
    Ok(spool)
}

/// The segments of a file whose bytes are outside of `from .. to`.
fn spared(disk: &Forgetful, number: u64, from: usize, to: usize) -> Vec<u64> {
    let bytes = disk.read(number, u64::MAX).unwrap();
    let records = scan(&bytes).records.into_iter();
    let spared = records.filter(|r| r.offset + r.bytes <= from || r.offset >= to);
    let sequence = |content| match content {
        leasewatch_core::evidence::spool::Content::Segment(sealed) => {
            Some(sealed.signed.head.sequence.0)
        }
        _ => None,
    };
    spared.filter_map(|record| sequence(record.content)).collect()
}

/// The chain goes on, and what was added is there at the next start too.
fn goes_on(mut spool: Spool, disk: &Forgetful) {
    let next = spool.end().sequence.0 + 1;
    spool.append(&Chain::shared().segment(next), instant(next));
    drop(spool);
    let mut again = opened(disk, &[next], ChainEnd::START).unwrap();
    assert_eq!(again.item(Sequence(next)).unwrap().kind, ItemKind::Segment);
    assert_whole(&mut again);
}

fn files(disk: &Forgetful) -> [(u64, usize); 2] {
    let list = disk.list().unwrap();
    let file = |at: usize| (list[at].0, usize::try_from(list[at].1).unwrap());
    [file(0), file(1)]
}

/// Cuts each file at each byte; returns how often.
fn every_truncation(written: &Forgetful) -> u64 {
    let mut count = 0;
    let [first, last] = files(written);
    for (number, length) in [first, last] {
        for at in 0..length {
            let disk = written.revive(Crash::Kill);
            let mut whole = spared(written, number, at, usize::MAX);
            let other = if number == first.0 { last.0 } else { first.0 };
            whole.extend(spared(written, other, usize::MAX, usize::MAX));
            disk.damage(number, |bytes| bytes.truncate(at));
            let spool = opened(&disk, &whole, ChainEnd::START).unwrap();
            if at % 16 == 0 {
                goes_on(spool, &disk);
            }
            count += 1;
        }
    }
    count
}

#[test]
fn a_spool_opens_whatever_was_cut_off() {
    let written = written();
    let count = every_truncation(&written);
    assert!(count >= 4_000, "{count}");
}

/// One random flip, or a stretch of random bytes, in one file; several times over.
#[test]
fn a_spool_opens_whatever_was_altered() {
    let written = written();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % u64::try_from(below).unwrap()).unwrap()
    };
    let campaign = std::env::var_os("LEASEWATCH_CAMPAIGN").map_or(1, |_| 50);
    for turn in 0..800 * campaign {
        let disk = written.revive(Crash::Kill);
        let [first, last] = files(&written);
        let ((number, length), (other, _)) =
            if turn % 2 == 0 { (first, last) } else { (last, first) };
        let span = if turn % 5 == 0 { 1 + next(600) } else { 1 };
        let from = HEADER_BYTES + next(length - HEADER_BYTES);
        let to = (from + span).min(length);
        let mut whole = spared(&written, number, from, to);
        whole.extend(spared(&written, other, usize::MAX, usize::MAX));
        disk.damage(number, |bytes| {
            for byte in &mut bytes[from..to] {
                *byte ^= u8::try_from(1 + next(255)).unwrap();
            }
        });
        let spool = opened(&disk, &whole, Chain::shared().end(SEGMENTS)).unwrap();
        if turn % 8 == 0 {
            goes_on(spool, &disk);
        }
    }
}

#[test]
fn files_of_others_are_set_aside() {
    let written = written();
    let [(first, _), (last, _)] = files(&written);
    let mut turns = 0;
    for number in [first, last] {
        let whole = spared(&written, if number == first { last } else { first }, 0, 0);
        for at in 0..HEADER_BYTES {
            // The version, the chain, the key and the sum: whatever it is, it is not this chain's.
            for bit in [1, 64] {
                let disk = written.revive(Crash::Kill);
                disk.damage(number, |bytes| bytes[at] ^= bit);
                let spool = opened(&disk, &whole, Chain::shared().end(SEGMENTS)).unwrap();
                goes_on(spool, &disk);
                turns += 1;
            }
        }
        for content in
            [&b"not a spool"[..], b"", b"leasewatch-spool/v2\nof the future", &[0; 4_096]]
        {
            let disk = written.revive(Crash::Kill);
            disk.damage(number, |bytes| *bytes = content.to_vec());
            let spool = opened(&disk, &whole, Chain::shared().end(SEGMENTS)).unwrap();
            goes_on(spool, &disk);
            turns += 1;
        }
    }
    assert!(turns >= 200, "{turns}");
}

/// The same check has to fail where a whole record is not found.
#[test]
fn a_reader_that_stops_too_early_would_be_noticed() {
    let disk = Forgetful::new(Sabotage::ShortRead);
    let mut spool = Spool::on(Box::new(disk.clone()), QUOTA, OWNER, ChainEnd::START);
    append(&mut spool, SEGMENTS);
    let all: Vec<u64> = (1..=SEGMENTS).collect();
    assert!(opened(&disk, &all, ChainEnd::START).is_err());
}
