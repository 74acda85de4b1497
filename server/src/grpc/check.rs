//! What a segment or a drop must be before the writer sees it: a pure rule over what the stream
//! has proven and the server's time.
//!
//! A refusal has a stable code. Nothing of a refused segment is stored; the agent sets it aside
//! and covers it with a signed drop. Not here: whether it continues the chain (`core::delivery`,
//! inside the writer's transaction).

use ed25519_dalek::VerifyingKey;
use leasewatch_core::evidence::chain::{self, Drop, Head, OpenSegment};
use leasewatch_core::evidence::statement::{StatementKind, verify};
use leasewatch_core::id::{ChainId, GpuUuid, Hash, NodeId, Sequence, Slug};
use leasewatch_core::segment::{
    Block, Event, EventKind, GpuBlock, Origin, Partition, Place, limits,
};
use leasewatch_core::time::{DAY_MS, Period, Timestamp};
use leasewatch_proto::v1;

/// How far a node's times may lie beyond what the server's clock says.
const CLOCK_LEEWAY_MS: i64 = 5_000;
/// How far back a log may reach, imported or generated.
const IMPORT_REACH_MS: i64 = 3_653 * DAY_MS;
/// Cadences that an agent may record with.
const AGENT_CADENCE_MS: std::ops::RangeInclusive<u32> = 100..=60_000;
/// Sequences that one drop may cover: nineteen years of minutes.
const DROP_LENGTH_MAX: u64 = 10_000_000;
/// The end of the range of sequences, which no chain reaches.
const SEQUENCE_MAX: u64 = 1 << 52;

/// What is established of a node; each segment is held against it.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// Its public id.
    pub id: NodeId,
    /// The tenant that it belongs to.
    pub tenant: Slug,
    /// The chain that the stream carries.
    pub chain: ChainId,
    /// Where its data comes from.
    pub origin: Origin,
    /// Nothing that it measures can be older.
    pub enrolled_at: Timestamp,
    /// Verifies its signatures.
    pub public_key: VerifyingKey,
}

/// A segment that only its chain can still refuse.
#[derive(Debug, Clone)]
pub struct CheckedSegment {
    /// The head.
    pub head: Head,
    /// Its hash.
    pub hash: Hash,
    /// The node's signature over it.
    pub signature: [u8; 64],
    /// The exact bytes of each block, and what it is of.
    pub blocks: Vec<CheckedBlock>,
    /// What the events block says.
    pub events: Vec<Event>,
    /// Whether it was made of a log, so that it may be of a time before the node was heard of.
    pub is_of_log: bool,
}

/// A block's bytes.
#[derive(Debug, Clone)]
pub struct CheckedBlock {
    /// What it is of.
    pub of: BlockOf,
    /// As they came, and as the head's root commits to.
    pub bytes: Vec<u8>,
}

/// What a block is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockOf {
    /// A GPU or slice in its place.
    Gpu(SeatedGpu),
    /// The host.
    Host,
    /// Events.
    Events,
}

/// A GPU, or a slice of one, and where it sits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatedGpu {
    /// NVML's UUID.
    pub uuid: GpuUuid,
    /// Where it sits.
    pub place: Place,
    /// What it is a slice of.
    pub partition: Option<Partition>,
}

/// A drop that only its chain can still refuse.
#[derive(Debug, Clone)]
pub struct CheckedDrop {
    /// What it says.
    pub drop: Drop,
    /// Its canonical bytes.
    pub statement: Vec<u8>,
    /// The node's signature over them.
    pub signature: [u8; 64],
    /// The part of its period in which this node can have recorded anything: a drop also covers
    /// what was refused for its times, so its own period may be anything.
    pub credible: Period,
}

/// Why something is not taken. The code is stable; the message is one sentence for a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The sequence that is refused.
    pub sequence: Sequence,
    /// Stable code.
    pub code: &'static str,
    /// One English sentence without text from the node.
    pub message: String,
}

/// The message cannot even be refused by number: the stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

impl CheckedSegment {
    /// Bytes that it weighs in memory and in the database, without overhead.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.len()).sum::<usize>() + Head::BYTES_MAX
    }

    /// True when a planned stop is the last thing in it.
    #[must_use]
    pub fn says_goodbye(&self) -> bool {
        self.events.last().is_some_and(|event| matches!(event.kind, EventKind::Goodbye { .. }))
    }
}

/// # Errors
/// `Ok(Err(_))` for a segment that is refused; `Err` for one without a readable sequence.
pub(super) fn segment(
    node: &NodeFacts,
    wire: v1::Segment,
    now: Timestamp,
) -> Result<Result<CheckedSegment, Refused>, Unreadable> {
    let opened = chain::open(&wire.head, &wire.signature, &wire.blocks, &node.public_key);
    let refused = |sequence, code, message| Refused { sequence, code, message };
    let open = match opened {
        Ok(open) => open,
        Err(error) => {
            let sequence = claimed_sequence(&wire.head).ok_or(Unreadable)?;
            return Ok(Err(refused(sequence, error.code(), error.to_string())));
        }
    };
    if let Err((code, message)) = check_head(node, &open, now) {
        return Ok(Err(refused(open.head.sequence, code, message)));
    }
    let Ok(signature) = wire.signature.as_slice().try_into() else { return Err(Unreadable) };
    let is_of_log = open.is_of_log() || is_recording(node, &open.head);
    Ok(Ok(CheckedSegment { is_of_log, ..checked(open, wire.blocks, signature) }))
}

/// # Errors
/// As [`segment`]. A drop that is refused ends the chain, so times are no reason.
pub(super) fn drop(
    node: &NodeFacts,
    wire: v1::Drop,
    now: Timestamp,
) -> Result<Result<CheckedDrop, Refused>, Unreadable> {
    let claimed = || claimed_number(&wire.statement, "first").ok_or(Unreadable);
    let drop = match Drop::from_statement(&wire.statement) {
        Ok(drop) => drop,
        Err(error) => {
            let (code, message) = (error.code(), error.to_string());
            return Ok(Err(Refused { sequence: claimed()?, code, message }));
        }
    };
    let refused = |code, message: &str| {
        Ok(Err(Refused { sequence: drop.first, code, message: message.to_owned() }))
    };
    let signed = verify(StatementKind::Drop, &wire.statement, &wire.signature, &node.public_key);
    let (Ok(()), Ok(signature)) = (signed, wire.signature.as_slice().try_into()) else {
        return refused(BAD_SIGNATURE, "the drop is not signed by the node's key");
    };
    if drop.node != node.id {
        return refused("foreign_node", "the drop names another node");
    }
    if drop.chain != node.chain {
        return refused("foreign_chain", "the drop names another chain");
    }
    let length = drop.last.0.saturating_sub(drop.first.0);
    if length >= DROP_LENGTH_MAX || drop.last.0 > SEQUENCE_MAX {
        return refused("drop_too_long", "the drop covers more sequences than a node can make");
    }
    let accepted = accepted(node, node.enrolled_at, now);
    let within = |at: Timestamp| at.max(accepted.start).min(accepted.end);
    let credible = Period::new(within(drop.period.start), within(drop.period.end));
    Ok(Ok(CheckedDrop { drop, statement: wire.statement, signature, credible }))
}

const BAD_SIGNATURE: &str = "bad_signature";

fn check_head(
    node: &NodeFacts,
    open: &OpenSegment,
    now: Timestamp,
) -> Result<(), (&'static str, String)> {
    let head = &open.head;
    let no = |code, message: &str| Err((code, message.to_owned()));
    if head.node != node.id {
        return no("foreign_node", "the head names another node than the key");
    }
    if head.tenant != node.tenant {
        return no("foreign_tenant", "the head names another tenant than the node's");
    }
    if head.chain != node.chain {
        return no("foreign_chain", "the head names another chain than the stream");
    }
    if head.sequence.0 > SEQUENCE_MAX {
        return no("sequence_out_of_range", "no chain is that long");
    }
    if !may_have(node.origin, head.origin) {
        return no("origin_mismatch", "the head has another origin than the node");
    }
    if usize::from(head.gpu_count) > limits::GPUS {
        return no("too_many_gpus", "a node has at most 64 gpus");
    }
    let imported = node.origin == Origin::Imported;
    if !imported && !AGENT_CADENCE_MS.contains(&head.cadence_ms) {
        return no("cadence_out_of_range", "an agent's cadence is 100 ms to 60 s");
    }
    // The hold of the very first sample reaches back one cadence.
    let reach = node.enrolled_at.plus_ms(-i64::from(head.cadence_ms));
    let accepted = match open.is_of_log() || is_recording(node, head) {
        true => of_log(now),
        false => accepted(node, reach, now),
    };
    if accepted.start <= head.period.start && head.period.end <= accepted.end {
        return Ok(());
    }
    let (from, to) = (accepted.start, accepted.end);
    Err(("clock_out_of_range", format!("times must lie between {from} and {to}")))
}

/// A recording is imported as it was signed: its heads may say that it was measured, the node says
/// that nobody saw it being made.
fn may_have(node: Origin, head: Origin) -> bool {
    head == node || (node == Origin::Imported && head == Origin::Measured)
}

/// A simulated recording that was made before its node was heard of: no server's clock stood beside
/// it. As with a generator's log, it is no evidence of anything.
fn is_recording(node: &NodeFacts, head: &Head) -> bool {
    head.origin == Origin::Simulated
        && head.clock.offset_ms.is_none()
        && head.period.start < node.enrolled_at
}

/// What a node's times may be; `since` is its first credible instant.
pub(super) fn accepted(node: &NodeFacts, since: Timestamp, now: Timestamp) -> Period {
    match node.origin {
        Origin::Imported => of_log(now),
        Origin::Measured | Origin::Simulated => {
            Period::new(since.plus_ms(-CLOCK_LEEWAY_MS), now.plus_ms(CLOCK_LEEWAY_MS))
        }
    }
}

/// What the times of a log may be. Simulated data is no evidence of anything, so a generator may
/// write of days before its node was heard of.
pub(super) fn of_log(now: Timestamp) -> Period {
    Period::new(now.plus_ms(-IMPORT_REACH_MS), now)
}

fn checked(open: OpenSegment, bytes: Vec<Vec<u8>>, signature: [u8; 64]) -> CheckedSegment {
    let is_of_log = open.is_of_log();
    let mut events = Vec::new();
    let blocks = open.blocks.into_iter().zip(bytes).map(|(block, bytes)| {
        let of = match block {
            Block::Gpu(GpuBlock { uuid, bus_id, partition, .. }) => {
                let place = Place::of(&bus_id, partition.as_ref());
                BlockOf::Gpu(SeatedGpu { uuid, place, partition })
            }
            Block::Host(_) => BlockOf::Host,
            Block::Events(block) => {
                events = block.events;
                BlockOf::Events
            }
        };
        CheckedBlock { of, bytes }
    });
    let blocks = blocks.collect();
    CheckedSegment { head: open.head, hash: open.hash, signature, blocks, events, is_of_log }
}

/// The sequence that a head claims, however broken it is: the agent has to know what to set aside.
fn claimed_sequence(head: &[u8]) -> Option<Sequence> {
    claimed_number(head, "sequence")
}

fn claimed_number(statement: &[u8], field: &str) -> Option<Sequence> {
    if statement.len() > 4 * Head::BYTES_MAX {
        return None;
    }
    let value: serde_json::Value = serde_json::from_slice(statement).ok()?;
    value.get(field)?.as_u64().map(Sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::SigningKey;
    use leasewatch_core::evidence::chain::{
        ClockSource, ClockState, DropReason, HeadDraft, SealedSegment, seal,
    };
    use leasewatch_core::evidence::statement::sign;
    use leasewatch_core::id::{BusId, EpochId, LifeUnitId};
    use leasewatch_core::sample::Reading;
    use leasewatch_core::segment::{
        EventsBlock, GpuBlock, StopReason, TrackPoint, TrackSource, UtilizationTrack,
    };

    const ENROLLED: Timestamp = Timestamp(1_790_000_000_000);
    const NOW: Timestamp = Timestamp(1_790_000_600_000);

    fn key() -> SigningKey {
        SigningKey::from_bytes(&[9; 32])
    }

    fn facts() -> NodeFacts {
        NodeFacts {
            id: NodeId([1; 16]),
            tenant: Slug::new("default").unwrap(),
            chain: ChainId([2; 16]),
            origin: Origin::Measured,
            enrolled_at: ENROLLED,
            public_key: key().verifying_key(),
        }
    }

    fn draft() -> HeadDraft {
        HeadDraft {
            tenant: facts().tenant,
            node: facts().id,
            chain: facts().chain,
            epoch: EpochId([3; 8]),
            life_unit: LifeUnitId([4; 16]),
            sequence: Sequence::FIRST,
            period: Period::new(ENROLLED, ENROLLED.plus_ms(60_000)),
            cadence_ms: 1_000,
            origin: Origin::Measured,
            gpu_count: 0,
            previous: None,
            clock: ClockState {
                anchor_wall: ENROLLED,
                anchor_boot_ms: 5,
                offset_ms: None,
                bound_ms: None,
                source: ClockSource::Unknown,
            },
            checkpoint: None,
            agent_version: "0.1.0".to_owned(),
            agent_digest: None,
        }
    }

    /// A segment with one event in the middle of its period.
    fn sealed(draft: HeadDraft) -> SealedSegment {
        let at = Timestamp(draft.period.start.0.midpoint(draft.period.end.0));
        let goodbye = EventKind::Goodbye { reason: StopReason::Shutdown };
        let events = vec![Event::new(at, None, goodbye)];
        seal(draft, &[Block::Events(EventsBlock { events })], &key()).unwrap()
    }

    fn wire(sealed: SealedSegment) -> v1::Segment {
        v1::Segment {
            head: sealed.signed.statement,
            signature: sealed.signed.signature.to_vec(),
            blocks: sealed.blocks,
        }
    }

    fn code_of(facts: &NodeFacts, change: impl FnOnce(&mut HeadDraft)) -> Option<&'static str> {
        let mut draft = draft();
        change(&mut draft);
        segment(facts, wire(sealed(draft)), NOW).unwrap().err().map(|refused| refused.code)
    }

    #[test]
    fn a_segment_of_this_node_and_time_is_taken_with_its_bytes() {
        let sent = wire(sealed(draft()));
        let checked = segment(&facts(), sent.clone(), NOW).unwrap().unwrap();
        assert_eq!(checked.head.statement(), sent.head);
        let bytes: Vec<Vec<u8>> = checked.blocks.iter().map(|block| block.bytes.clone()).collect();
        assert_eq!(bytes, sent.blocks);
        assert!(checked.says_goodbye());
    }

    #[test]
    fn what_names_somebody_else_is_refused() {
        let code = |change: fn(&mut HeadDraft)| code_of(&facts(), change);
        assert_eq!(code(|d| d.node = NodeId([8; 16])), Some("foreign_node"));
        assert_eq!(code(|d| d.tenant = Slug::new("demo").unwrap()), Some("foreign_tenant"));
        assert_eq!(code(|d| d.chain = ChainId([8; 16])), Some("foreign_chain"));
        assert_eq!(code(|d| d.origin = Origin::Simulated), Some("origin_mismatch"));
    }

    #[test]
    fn sizes_and_numbers_are_bounded() {
        let code = |change: fn(&mut HeadDraft)| code_of(&facts(), change);
        assert_eq!(code(|d| d.gpu_count = 65), Some("too_many_gpus"));
        assert_eq!(code(|d| d.cadence_ms = 99), Some("cadence_out_of_range"));
        assert_eq!(code(|d| d.cadence_ms = 60_001), Some("cadence_out_of_range"));
        let far = |d: &mut HeadDraft| {
            d.sequence = Sequence(SEQUENCE_MAX + 1);
            d.previous = Some(Hash([1; 32]));
        };
        assert_eq!(code(far), Some("sequence_out_of_range"));
    }

    #[test]
    fn times_lie_between_enrolment_and_now_with_some_leeway() {
        let code = |start: Timestamp, end: Timestamp| {
            code_of(&facts(), |draft| draft.period = Period::new(start, end))
        };
        let first = ENROLLED.plus_ms(-6_000);
        assert_eq!(code(first, first.plus_ms(10_000)), None);
        assert_eq!(code(first.plus_ms(-1), first.plus_ms(10_000)), Some("clock_out_of_range"));
        let last = NOW.plus_ms(5_000);
        assert_eq!(code(last.plus_ms(-10_000), last), None);
        assert_eq!(code(last.plus_ms(-10_000), last.plus_ms(1)), Some("clock_out_of_range"));
        let (min, max) = (Timestamp::MIN, Timestamp::MAX.plus_ms(-20_000));
        assert_eq!(code(min, min.plus_ms(10_000)), Some("clock_out_of_range"));
        assert_eq!(code(max, max.plus_ms(10_000)), Some("clock_out_of_range"));
    }

    #[test]
    fn an_import_reaches_back_but_not_forward() {
        let facts = NodeFacts { origin: Origin::Imported, ..facts() };
        let code = |start: Timestamp, end: Timestamp| {
            code_of(&facts, |draft| {
                draft.origin = Origin::Imported;
                draft.cadence_ms = 3_600_000;
                draft.period = Period::new(start, end);
            })
        };
        let old = NOW.plus_ms(-9 * 365 * DAY_MS);
        assert_eq!(code(old, old.plus_ms(60_000)), None);
        assert_eq!(code(NOW.plus_ms(-1_000), NOW), None);
        assert_eq!(code(NOW.plus_ms(-1_000), NOW.plus_ms(1)), Some("clock_out_of_range"));
        let ancient = NOW.plus_ms(-11 * 365 * DAY_MS);
        assert_eq!(code(ancient, ancient.plus_ms(60_000)), Some("clock_out_of_range"));
    }

    /// A segment with one point from `source` in the middle of its period.
    fn sealed_track(draft: HeadDraft, source: TrackSource) -> SealedSegment {
        let at = Timestamp(draft.period.start.0.midpoint(draft.period.end.0));
        let points = vec![TrackPoint { at, busy: Reading::Number(97) }];
        let gpu = GpuBlock {
            uuid: GpuUuid::new("GPU-1").unwrap(),
            bus_id: BusId::new("00000000:18:00.0").unwrap(),
            partition: None,
            ticks: vec![at],
            track: UtilizationTrack { source, period_ms: 1_000, points },
            columns: Vec::new(),
        };
        seal(draft, &[Block::Gpu(gpu)], &key()).unwrap()
    }

    #[test]
    fn a_generated_log_reaches_back_for_simulated_nodes_only() {
        let day_before = Period::new(ENROLLED.plus_ms(-DAY_MS), ENROLLED.plus_ms(60_000 - DAY_MS));
        let check = |origin: Origin, period: Period, source: TrackSource| {
            let clock = ClockState { offset_ms: Some(0), bound_ms: Some(1), ..draft().clock };
            let draft = HeadDraft { origin, period, clock, ..draft() };
            let facts = NodeFacts { origin, ..facts() };
            segment(&facts, wire(sealed_track(draft, source)), NOW).unwrap()
        };
        let taken = check(Origin::Simulated, day_before, TrackSource::Import).unwrap();
        assert!(taken.is_of_log);
        for (origin, source) in
            [(Origin::Simulated, TrackSource::Poll), (Origin::Measured, TrackSource::DriverSamples)]
        {
            let refused = check(origin, day_before, source).unwrap_err();
            assert_eq!(refused.code, "clock_out_of_range");
        }
        let ahead = Period::new(NOW, NOW.plus_ms(1_000));
        let refused = check(Origin::Simulated, ahead, TrackSource::Import).unwrap_err();
        assert_eq!(refused.code, "clock_out_of_range");
        assert!(!check(Origin::Simulated, ahead, TrackSource::Poll).unwrap().is_of_log);
    }

    #[test]
    fn a_recording_keeps_its_mark_and_never_passes_as_measured_live() {
        let day_before = Period::new(ENROLLED.plus_ms(-DAY_MS), ENROLLED.plus_ms(60_000 - DAY_MS));
        let check = |node: Origin, origin: Origin| {
            let draft = HeadDraft { origin, period: day_before, ..draft() };
            let facts = NodeFacts { origin: node, ..facts() };
            let checked = segment(&facts, wire(sealed_track(draft, TrackSource::Poll)), NOW);
            checked.unwrap().map(|taken| taken.is_of_log).map_err(|refused| refused.code)
        };
        assert_eq!(check(Origin::Imported, Origin::Measured), Ok(false));
        assert_eq!(check(Origin::Simulated, Origin::Simulated), Ok(true));
        assert_eq!(check(Origin::Measured, Origin::Measured), Err("clock_out_of_range"));
        for (node, head) in [
            (Origin::Imported, Origin::Simulated),
            (Origin::Measured, Origin::Simulated),
            (Origin::Simulated, Origin::Measured),
        ] {
            assert_eq!(check(node, head), Err("origin_mismatch"), "{node:?} {head:?}");
        }
    }

    #[test]
    fn a_broken_segment_is_refused_by_the_sequence_that_it_claims() {
        let mut altered = wire(sealed(draft()));
        altered.signature[0] ^= 1;
        let refused = segment(&facts(), altered, NOW).unwrap().unwrap_err();
        assert_eq!((refused.sequence, refused.code), (Sequence(1), "bad_signature"));
        let mut spelled = wire(sealed(draft()));
        spelled.head.push(b' ');
        let refused = segment(&facts(), spelled, NOW).unwrap().unwrap_err();
        assert_eq!((refused.sequence, refused.code), (Sequence(1), "not_canonical"));
        for head in [Vec::new(), b"{}".to_vec(), vec![b'['; 5_000], b"{\"sequence\":-1}".to_vec()] {
            let unreadable = v1::Segment { head, ..wire(sealed(draft())) };
            assert_eq!(segment(&facts(), unreadable, NOW).unwrap_err(), Unreadable);
        }
    }

    fn notice(first: u64, last: u64, period: Period) -> Drop {
        Drop {
            node: facts().id,
            chain: facts().chain,
            first: Sequence(first),
            last: Sequence(last),
            period,
            reason: DropReason::Refused,
            last_head: Hash([5; 32]),
        }
    }

    fn check_drop(notice: &Drop) -> Result<CheckedDrop, Refused> {
        let statement = notice.statement();
        let signature = sign(StatementKind::Drop, &statement, &key()).to_vec();
        drop(&facts(), v1::Drop { statement, signature }, NOW).unwrap()
    }

    #[test]
    fn a_drop_of_impossible_times_is_taken_within_the_credible_ones() {
        let within = Period::new(ENROLLED, NOW);
        assert_eq!(check_drop(&notice(1, 3, within)).unwrap().credible, within);
        let future = Period::new(Timestamp(4_000_000_000_000), Timestamp(4_000_000_060_000));
        let end = NOW.plus_ms(CLOCK_LEEWAY_MS);
        assert_eq!(check_drop(&notice(1, 1, future)).unwrap().credible, Period::new(end, end));
        let past = Period::new(Timestamp::MIN, Timestamp::MIN.plus_ms(1));
        let start = ENROLLED.plus_ms(-CLOCK_LEEWAY_MS);
        assert_eq!(check_drop(&notice(1, 1, past)).unwrap().credible, Period::new(start, start));
    }

    #[test]
    fn a_drop_of_another_chain_or_of_everything_is_refused() {
        let period = Period::new(ENROLLED, NOW);
        let code = |notice: &Drop| check_drop(notice).unwrap_err().code;
        assert_eq!(code(&notice(1, DROP_LENGTH_MAX + 1, period)), "drop_too_long");
        let other = Drop { chain: ChainId([8; 16]), ..notice(1, 2, period) };
        assert_eq!(code(&other), "foreign_chain");
        let other = Drop { node: NodeId([8; 16]), ..notice(1, 2, period) };
        assert_eq!(code(&other), "foreign_node");
        let statement = notice(4, 5, period).statement();
        let forged = v1::Drop { statement, signature: vec![0; 64] };
        let refused = drop(&facts(), forged, NOW).unwrap().unwrap_err();
        assert_eq!((refused.sequence, refused.code), (Sequence(4), "bad_signature"));
    }
}
