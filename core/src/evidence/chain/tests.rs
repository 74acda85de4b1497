mod slices;

use super::*;
use crate::id::{BusId, ChainId, EpochId, GpuUuid, LifeUnitId, NodeId, Sequence, Slug};
use crate::segment::fixture::{START, small_events, small_gpu, small_host};
use crate::segment::{EventsBlock, GpuBlock, Origin, TrackSource};
use crate::time::{Period, Timestamp};

/// The node key of the test vectors: 32 bytes 0x01. Never a key of a real node.
pub(crate) fn key() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

/// The head of the test vectors, before its blocks.
pub(crate) fn draft() -> HeadDraft {
    HeadDraft {
        tenant: Slug::new("default").unwrap(),
        node: NodeId([0x22; 16]),
        chain: ChainId([0x33; 16]),
        epoch: EpochId([0x44; 8]),
        life_unit: LifeUnitId([0x55; 16]),
        sequence: Sequence(2),
        period: Period::new(START.plus_ms(-1_000), START.plus_ms(59_999)),
        cadence_ms: 1_000,
        origin: Origin::Simulated,
        gpu_count: 1,
        previous: Some(Hash([0x66; 32])),
        clock: ClockState {
            anchor_wall: START,
            anchor_boot_ms: 86_400_000,
            offset_ms: Some(-12),
            bound_ms: Some(3),
            source: ClockSource::Ntp,
        },
        checkpoint: None,
        agent_version: "0.1.0".into(),
        agent_digest: None,
    }
}

/// The segment of the test vectors.
pub(crate) fn small_segment() -> SealedSegment {
    seal(draft(), &small_blocks(), &key()).unwrap()
}

fn small_blocks() -> Vec<Block> {
    // Not in the order of the format, which is the sealer's work.
    vec![Block::Events(small_events()), Block::Host(small_host()), Block::Gpu(small_gpu())]
}

fn open_sealed(sealed: &SealedSegment) -> Result<OpenSegment, OpenError> {
    let SealedSegment { signed, blocks } = sealed;
    open(&signed.statement, &signed.signature, blocks, &key().verifying_key())
}

/// A segment that a dishonest node signs: any blocks under a head that fits their bytes.
fn signed_anyway(draft: HeadDraft, blocks: Vec<Vec<u8>>) -> SealedSegment {
    let root = root_of(&blocks).unwrap_or(Hash([0; 32]));
    let head = draft.with_blocks(u16::try_from(blocks.len()).unwrap(), root);
    let statement = head.statement();
    let signature = sign(StatementKind::Head, &statement, &key());
    SealedSegment { signed: SignedHead { head, statement, signature }, blocks }
}

/// What seal says, and what open says when it is signed all the same: both refuse.
fn refusal(draft: HeadDraft, blocks: &[Block]) -> &'static str {
    assert!(seal(draft.clone(), blocks, &key()).is_err());
    let encoded = blocks.iter().map(|block| block.encode().unwrap()).collect();
    open_sealed(&signed_anyway(draft, encoded)).unwrap_err().code()
}

fn gpu(uuid: &str, bus_id: &str) -> GpuBlock {
    let (uuid, bus_id) = (GpuUuid::new(uuid).unwrap(), BusId::new(bus_id).unwrap());
    GpuBlock { uuid, bus_id, ..small_gpu() }
}

#[test]
fn what_is_sealed_opens() {
    let sealed = small_segment();
    let open = open_sealed(&sealed).unwrap();
    assert_eq!(open.head, sealed.signed.head);
    assert_eq!(open.hash, open.head.hash());
    assert_eq!(
        open.blocks,
        [Block::Gpu(small_gpu()), Block::Host(small_host()), Block::Events(small_events())]
    );
    let signed = &sealed.signed;
    let key = key().verifying_key();
    assert_eq!(open_head(&signed.statement, &signed.signature, &key).as_ref(), Ok(signed));
}

#[test]
fn an_empty_events_block_is_left_out() {
    let blocks = [Block::Host(small_host()), Block::Events(EventsBlock::default())];
    assert_eq!(seal(draft(), &blocks, &key()).unwrap().blocks.len(), 1);
    let none = seal(draft(), &blocks[1..], &key());
    assert_eq!(none, Err(SealError::Content(ContentError::NoBlocks)));
    assert_eq!(open_sealed(&signed_anyway(draft(), vec![])).unwrap_err().code(), "no_blocks");
}

#[test]
fn every_altered_byte_is_refused() {
    let sealed = small_segment();
    let refused = |sealed: &SealedSegment| open_sealed(sealed).unwrap_err().code();
    for bit in [0x01, 0x80] {
        for at in 0..sealed.signed.statement.len() {
            let mut altered = sealed.clone();
            altered.signed.statement[at] ^= bit;
            let code = refused(&altered);
            assert!(matches!(code, "not_canonical" | "bad_statement" | "bad_signature"), "{code}");
        }
        for at in 0..64 {
            let mut altered = sealed.clone();
            altered.signed.signature[at] ^= bit;
            assert_eq!(refused(&altered), "bad_signature");
        }
        for block in 0..sealed.blocks.len() {
            for at in 0..sealed.blocks[block].len() {
                let mut altered = sealed.clone();
                altered.blocks[block][at] ^= bit;
                assert_eq!(refused(&altered), "bad_root");
            }
        }
    }
}

#[test]
fn missing_added_and_swapped_blocks_are_refused() {
    let sealed = small_segment();
    let refused = |change: fn(&mut Vec<Vec<u8>>)| {
        let mut altered = sealed.clone();
        change(&mut altered.blocks);
        open_sealed(&altered).unwrap_err().code()
    };
    assert_eq!(refused(|blocks| blocks.truncate(2)), "block_count");
    assert_eq!(refused(|blocks| blocks.push(blocks[0].clone())), "block_count");
    assert_eq!(refused(|blocks| blocks.swap(0, 1)), "bad_root");
    assert_eq!(refused(Vec::clear), "no_blocks");
}

#[test]
fn keys_and_signatures_are_checked_strictly() {
    let sealed = small_segment();
    let SignedHead { statement, signature, .. } = &sealed.signed;
    let open_with = |signature: &[u8], key: &VerifyingKey| {
        open(statement, signature, &sealed.blocks, key).unwrap_err().code()
    };
    let right = key().verifying_key();
    let other = SigningKey::from_bytes(&[2; 32]);
    assert_eq!(open_with(signature, &other.verifying_key()), "bad_signature");
    assert_eq!(open_with(&signature[..63], &right), "bad_signature");
    let other_kind = sign(StatementKind::Drop, statement, &key());
    assert_eq!(open_with(&other_kind, &right), "bad_signature");
    // The neutral element as key and as R with s = 0: such a signature holds for any message
    // where keys of small order are let through.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    assert_eq!(public_key(&neutral), Err(SignatureError::Key));
    let weak = VerifyingKey::from_bytes(&neutral).unwrap();
    let mut forged = [0; 64];
    forged[0] = 1;
    assert_eq!(open_with(&forged, &weak), "bad_key");
    assert_eq!(public_key(&[0; 31]), Err(SignatureError::Key));
    assert_eq!(public_key(right.as_bytes()), Ok(right));
    // s + L in place of s: the malleable twin of a valid signature.
    assert_eq!(open_with(&plus_group_order(*signature), &right), "bad_signature");
}

/// The same signature with the group order added to its scalar.
fn plus_group_order(mut signature: [u8; 64]) -> [u8; 64] {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0;
    for (byte, order) in signature[32..].iter_mut().zip(ORDER) {
        let [low, high] = (u16::from(*byte) + u16::from(order) + carry).to_le_bytes();
        (*byte, carry) = (low, high.into());
    }
    signature
}

#[test]
fn another_spelling_of_the_head_is_refused_even_when_signed() {
    let sealed = small_segment();
    let text = String::from_utf8(sealed.signed.statement.clone()).unwrap();
    let spellings = [
        text.replace(",", ", "),
        text.replace("\"default\"", "\"\\u0064efault\""),
        text.replace("1000,", "1000.0,"),
        text.replacen("{", "{\"a\":1,", 1),
        text.replace("\"sequence\":2", "\"sequence\":\"2\""),
        text.replace("\"kind\":\"head\"", "\"kind\":\"drop\""),
        text.replace("\"started_at\"", "\"started\""),
        text + "\n",
    ];
    for spelling in spellings {
        let signature = sign(StatementKind::Head, spelling.as_bytes(), &key());
        let verifying_key = key().verifying_key();
        let code = open(spelling.as_bytes(), &signature, &sealed.blocks, &verifying_key);
        let code = code.unwrap_err().code();
        assert!(matches!(code, "not_canonical" | "bad_statement"), "{code}: {spelling}");
    }
}

#[test]
fn a_block_in_another_encoding_is_refused_even_when_signed() {
    let sealed = small_segment();
    let mut blocks = sealed.blocks;
    blocks[2].insert(3, b' ');
    assert_eq!(open_sealed(&signed_anyway(draft(), blocks)).unwrap_err().code(), "not_canonical");
}

#[test]
fn gpus_are_unique_and_blocks_in_order() {
    let [a, b] = [gpu("GPU-a", "0:1"), gpu("GPU-b", "0:2")].map(Block::Gpu);
    let host = || Block::Host(small_host());
    assert!(seal(draft(), &[b.clone(), host(), a.clone()], &key()).is_ok());
    assert_eq!(refusal(draft(), &[a.clone(), a.clone()]), "duplicate_gpu");
    assert_eq!(refusal(draft(), &[a.clone(), Block::Gpu(gpu("GPU-b", "0:1"))]), "duplicate_bus_id");
    assert_eq!(refusal(draft(), &[host(), host()]), "block_order");
    let encoded = |blocks: &[&Block]| blocks.iter().map(|block| block.encode().unwrap()).collect();
    let order = |blocks: &[&Block]| {
        open_sealed(&signed_anyway(draft(), encoded(blocks))).unwrap_err().code()
    };
    assert_eq!(order(&[&b, &a]), "block_order");
    assert_eq!(order(&[&host(), &a]), "block_order");
    assert_eq!(order(&[&Block::Events(small_events()), &host()]), "block_order");
}

#[test]
fn times_lie_in_the_period_and_the_span() {
    let blocks = [Block::Gpu(small_gpu())];
    let with = |start: i64, end: i64, origin: Origin| HeadDraft {
        period: Period::new(START.plus_ms(start), START.plus_ms(end)),
        origin,
        ..draft()
    };
    let measured = |start, end| with(start, end, Origin::Measured);
    assert!(seal(measured(0, 2_000), &blocks, &key()).is_ok());
    assert_eq!(refusal(measured(1, 2_000), &blocks), "outside_period");
    assert_eq!(refusal(measured(0, 1_999), &blocks), "outside_period");
    assert_eq!(refusal(measured(2_000, 1_000), &blocks), "bad_statement");
    let span = limits::SPAN_MS;
    assert!(seal(measured(-span, span), &blocks, &key()).is_ok());
    assert_eq!(refusal(measured(-span - 1, span), &blocks), "span_too_long");
    assert_eq!(refusal(measured(0, span + 1), &blocks), "span_too_long");
    let mut track = small_gpu().track;
    track.source = TrackSource::Import;
    let imported = [Block::Gpu(GpuBlock { track, ..small_gpu() })];
    let day = with(0, limits::IMPORTED_SPAN_MS, Origin::Imported);
    assert!(seal(day, &imported, &key()).is_ok());
    let longer = with(0, limits::IMPORTED_SPAN_MS + 1, Origin::Imported);
    assert_eq!(refusal(longer, &imported), "span_too_long");
    assert_eq!(refusal(with(0, 2_000, Origin::Imported), &blocks), "origin_mismatch");
    assert_eq!(refusal(measured(0, 2_000), &imported), "origin_mismatch");
    let events = [Block::Events(small_events())];
    assert!(seal(measured(900, 2_000), &events, &key()).is_ok());
    assert_eq!(refusal(measured(901, 2_000), &events), "outside_period");
    // A GPU that never answered has no times; its period is bounded all the same.
    let mut silent = small_gpu();
    silent.ticks.clear();
    silent.track.points.clear();
    silent.columns.clear();
    let silent = [Block::Gpu(silent)];
    assert!(seal(measured(0, span), &silent, &key()).is_ok());
    assert_eq!(refusal(measured(0, span + 1), &silent), "span_too_long");
}

#[test]
fn a_generated_log_is_simulated_and_never_measured() {
    let logged = |mut gpu: GpuBlock| {
        gpu.track.source = TrackSource::Import;
        Block::Gpu(gpu)
    };
    let with = |end: i64, origin: Origin| HeadDraft {
        period: Period::new(START, START.plus_ms(end)),
        origin,
        ..draft()
    };
    let of_log = |draft: HeadDraft, blocks: &[Block]| {
        open_sealed(&seal(draft, blocks, &key()).unwrap()).unwrap().is_of_log()
    };
    let day = limits::IMPORTED_SPAN_MS;
    let (log, live) = ([logged(small_gpu())], [Block::Gpu(small_gpu())]);
    assert!(of_log(with(day, Origin::Simulated), &log));
    assert!(of_log(with(day, Origin::Imported), &log));
    assert!(!of_log(with(2_000, Origin::Simulated), &live));
    assert!(!of_log(with(2_000, Origin::Measured), &live));
    assert_eq!(refusal(with(day + 1, Origin::Simulated), &log), "span_too_long");
    assert_eq!(refusal(with(limits::SPAN_MS + 1, Origin::Simulated), &live), "span_too_long");
    assert_eq!(refusal(with(2_000, Origin::Measured), &log), "origin_mismatch");
    // One segment is of a log or it is not.
    let mixed = [logged(gpu("GPU-a", "0:1")), Block::Gpu(gpu("GPU-b", "0:2"))];
    assert_eq!(refusal(with(2_000, Origin::Simulated), &mixed), "origin_mismatch");
    // Without a track nothing shows a log, so the short span holds.
    let events = [Block::Events(small_events())];
    assert!(!of_log(with(2_000, Origin::Simulated), &events));
    assert_eq!(refusal(with(day, Origin::Simulated), &events), "span_too_long");
}

#[test]
fn too_many_or_too_long_blocks_are_refused_before_the_signature_is_looked_at() {
    let open_blocks = |blocks: &[Vec<u8>]| {
        open(b"", &[0; 64], blocks, &key().verifying_key()).unwrap_err().code()
    };
    assert_eq!(open_blocks(&vec![vec![]; limits::GPUS + 3]), "too_many_blocks");
    assert_eq!(open_blocks(&[vec![0; limits::BLOCK_BYTES + 1]]), "too_long");
    assert_eq!(open_blocks(&vec![vec![0; limits::BLOCK_BYTES]; 9]), "too_long");
    assert_eq!(open_blocks(&[vec![0]]), "not_canonical");
    let many: Vec<Block> = (0..=limits::GPUS)
        .map(|n| Block::Gpu(gpu(&format!("GPU-{n:03}"), &format!("0:{n}"))))
        .collect();
    assert_eq!(refusal(draft(), &many), "too_many_blocks");
}

#[test]
fn fields_of_a_head_are_bounded() {
    let refused = |change: fn(&mut HeadDraft), field: &'static str| {
        let mut draft = draft();
        change(&mut draft);
        let sealed = seal(draft, &small_blocks(), &key());
        assert_eq!(sealed, Err(SealError::Head(StatementError::Invalid { field })), "{field}");
    };
    refused(|head| head.sequence = Sequence(0), "sequence");
    refused(|head| head.cadence_ms = 0, "cadence_ms");
    refused(|head| head.cadence_ms = 3_600_001, "cadence_ms");
    refused(|head| head.previous = None, "previous");
    refused(|head| head.sequence = Sequence(1), "previous");
    refused(|head| head.agent_version = "a\u{202e}".into(), "agent_version");
    refused(|head| head.clock.bound_ms = Some(-1), "bound_ms");
    refused(|head| head.clock.anchor_wall = Timestamp(0), "anchor_wall");
    let mut beyond = draft();
    beyond.sequence = Sequence(u64::MAX);
    assert!(seal(beyond, &small_blocks(), &key()).is_err());
}

#[test]
fn heads_with_every_optional_field_round_trip() {
    let mut full = draft();
    full.checkpoint = Some(Checkpoint { size: 7, root: Hash([0x77; 32]) });
    full.agent_digest = Some(Hash([0x88; 32]));
    let mut first = draft();
    (first.sequence, first.previous) = (Sequence(1), None);
    (first.clock.offset_ms, first.clock.bound_ms) = (None, None);
    for draft in [full, first] {
        let head = draft.with_blocks(3, Hash([0x99; 32]));
        assert_eq!(Head::from_statement(&head.statement()), Ok(head));
    }
}

#[test]
fn notices_round_trip_and_are_bounded() {
    let drop = Drop {
        node: NodeId([1; 16]),
        chain: ChainId([2; 16]),
        first: Sequence(4),
        last: Sequence(9),
        period: Period::new(START, START.plus_ms(60_000)),
        reason: DropReason::Quota,
        last_head: Hash([3; 32]),
    };
    assert_eq!(Drop::from_statement(&drop.statement()), Ok(drop.clone()));
    let reversed = Drop { last: Sequence(3), ..drop.clone() };
    let invalid = StatementError::Invalid { field: "last" };
    assert_eq!(Drop::from_statement(&reversed.statement()), Err(invalid));
    let start = ChainStart {
        node: drop.node,
        chain: drop.chain,
        at: START,
        reason: ChainStartReason::LostState,
    };
    assert_eq!(ChainStart::from_statement(&start.statement()), Ok(start.clone()));
    let kind = StatementError::Kind { expected: "drop" };
    assert_eq!(Drop::from_statement(&start.statement()), Err(kind));
}

#[test]
fn one_gpu_can_be_disclosed_alone() {
    let sealed = small_segment();
    let hashes: Vec<Hash> = sealed.blocks.iter().map(|block| leaf_hash(block)).collect();
    let proof = inclusion_proof(&hashes, 0).unwrap();
    let head = &sealed.signed.head;
    let shown = |block: &[u8]| {
        verify_inclusion(leaf_hash(block), 0, usize::from(head.block_count), &proof, head.root)
    };
    assert!(shown(&sealed.blocks[0]));
    assert!(!shown(&sealed.blocks[1]));
}
