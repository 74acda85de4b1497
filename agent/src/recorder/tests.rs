use leasewatch_core::delivery::{ClockEstimate, SpoolIndex as _};
use leasewatch_core::evidence::chain::{ChainStart, ChainStartReason, OpenSegment, open};
use leasewatch_core::evidence::statement::{StatementKind, verify};
use leasewatch_core::id::{ChainId, Sequence};
use leasewatch_core::segment::{Block, Event, GpuInventory};

use super::fixture::{START, gpu, gpu_observation, journal, key, node, slice_observation, tenant};
use super::*;
use crate::identity::{State, StateDir};
use crate::observation::GpuObservation;
use crate::spool::Quota;

const QUOTA: Quota = Quota { bytes: 1 << 20, hours: 24, reserve_bytes: 0 };

fn enrolled(dir: &StateDir) -> Journal {
    let journal = journal(dir.path(), QUOTA, State::load(dir, ChainId([1; 16])).unwrap());
    journal.on_welcome(node(), tenant(), 1_000);
    journal
}

fn opened(journal: &Journal, sequence: u64) -> OpenSegment {
    journal.with_spool(|spool| {
        let sealed = spool.segment(Sequence(sequence)).unwrap();
        let signed = &sealed.signed;
        open(&signed.statement, &signed.signature, &sealed.blocks, &key().verifying_key()).unwrap()
    })
}

fn events(segment: &OpenSegment) -> Vec<&Event> {
    let mut events = Vec::new();
    for block in &segment.blocks {
        if let Block::Events(block) = block {
            events.extend(&block.events);
        }
    }
    events
}

/// Records `seconds` from [`START`] with a wall clock that is `stepped_ms` off from second 20 on.
fn record(journal: &Arc<Journal>, seconds: i64, stepped_ms: i64) {
    let anchor = Anchor::at(START);
    let live = LiveState::default();
    let mut recorder = Recorder::new(Arc::clone(journal), live, anchor, &START);
    let instant = |second: i64| {
        let step = if second >= 20 { stepped_ms } else { 0 };
        let boot_ms = START.boot_ms + second * 1_000;
        Instant { boot_ms, wall: anchor.wall_of(boot_ms).plus_ms(step) }
    };
    for second in 1..=seconds {
        let now = instant(second);
        recorder.on_observation(gpu(1, now.boot_ms), || now);
        recorder.on_observation(Observation::TickEnd(now.boot_ms), || now);
    }
    recorder.finish(&instant(seconds + 1), StopReason::Shutdown);
}

#[test]
fn an_epoch_begins_with_its_start_and_ends_with_a_goodbye() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path()).unwrap();
    let journal = Arc::new(enrolled(&dir));
    record(&journal, 70, 0);
    let first = opened(&journal, 1);
    assert!(matches!(events(&first)[0].kind, EventKind::AgentStarted { .. }));
    assert_eq!(first.head.period.end.0 % 60_000, 0);
    let last = opened(&journal, 2);
    assert_eq!(last.head.previous, Some(first.hash));
    let goodbye = EventKind::Goodbye { reason: StopReason::Shutdown };
    assert_eq!(events(&last).last().unwrap().kind, goodbye);
    assert_eq!(journal.with_spool(|spool| spool.segments()), 2);
}

#[test]
fn the_chain_goes_on_over_restarts_even_when_the_spool_died() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path()).unwrap();
    let journal = Arc::new(enrolled(&dir));
    record(&journal, 70, 0);
    let last = opened(&journal, 2);
    let again = Arc::new(enrolled(&dir));
    assert_eq!(again.enrolled().map(|enrolled| enrolled.node), Some(node()));
    record(&again, 10, 0);
    let next = opened(&again, 3);
    assert_eq!((next.head.chain, next.head.previous), (last.head.chain, Some(last.hash)));
}

#[test]
fn a_step_of_the_wall_clock_closes_the_segment_and_is_told_in_the_next() {
    for step in [3_600_000, -3_600_000] {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        let journal = Arc::new(enrolled(&dir));
        record(&journal, 40, step);
        let before = opened(&journal, 1);
        let after = opened(&journal, 2);
        let stepped = EventKind::ClockStepped { by_ms: step };
        assert!(events(&after).iter().any(|event| event.kind == stepped));
        let between = after.head.period.end.since(before.head.period.end);
        assert!((between - step).abs() < 60_000, "{between}");
    }
}

#[test]
fn a_gpu_and_its_slices_are_known_until_they_are_removed_or_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path()).unwrap();
    let journal = Arc::new(enrolled(&dir));
    let (live, anchor) = (LiveState::default(), Anchor::at(START));
    let mut recorder = Recorder::new(Arc::clone(&journal), live, anchor, &START);
    let mut tell = |seen: &GpuObservation, kind: EventKind| {
        let (gpu, urgent) = (Some(seen.uuid.clone()), false);
        let event = EventObservation { at_boot_ms: START.boot_ms, gpu, kind, urgent };
        recorder.on_observation(Observation::Event(event), || START);
        let known = journal.known_gpus().into_iter();
        known.map(|gpu| gpu.uuid.as_str().to_owned()).collect::<Vec<_>>()
    };
    let (whole, slice) = (gpu_observation(1, 0), slice_observation(9, 0));
    let other = GpuObservation { uuid: GpuUuid::new("GPU-other").unwrap(), ..whole.clone() };
    assert_eq!(tell(&whole, inventory(&whole)), ["GPU-1"]);
    assert_eq!(tell(&slice, inventory(&slice)), ["GPU-1", "MIG-9"]);
    assert_eq!(tell(&whole, inventory(&whole)), ["GPU-1", "MIG-9"], "seen again");
    assert_eq!(tell(&other, inventory(&other)), ["GPU-other", "MIG-9"], "one whole GPU a place");
    assert_eq!(tell(&slice, EventKind::PartitionRemoved), ["GPU-other"]);
}

fn inventory(seen: &GpuObservation) -> EventKind {
    EventKind::GpuSeen(GpuInventory {
        uuid: seen.uuid.clone(),
        bus_id: seen.bus_id.clone(),
        index: 0,
        name: "GPU of a test".to_owned(),
        pci_device_id: 0,
        serial: None,
        vbios: None,
        part_number: None,
        memory_total_mib: None,
        power_limit_default_mw: None,
        power_limit_management_mw: None,
        pcie_generation_max: None,
        pcie_width_max: None,
        mig: false,
        partition: seen.partition.clone(),
    })
}

#[test]
fn nothing_is_recorded_before_the_first_welcome() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path()).unwrap();
    let state = State::load(&dir, ChainId([1; 16])).unwrap();
    let journal = Arc::new(journal(dir.path(), QUOTA, state));
    record(&journal, 70, 0);
    assert_eq!(journal.with_spool(|spool| spool.segments()), 0);
}

#[test]
fn a_new_chain_begins_with_what_the_old_one_owes() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path()).unwrap();
    let journal = Arc::new(enrolled(&dir));
    record(&journal, 70, 0);
    let end = opened(&journal, 2);
    assert_eq!(journal.start_chain(ChainId([8; 16]), ChainStartReason::LostState), 2);
    record(&journal, 10, 0);
    // The two that were not delivered are the first two of the new chain, as a drop.
    let first = opened(&journal, 3);
    assert_eq!((first.head.chain, first.head.previous), (ChainId([8; 16]), Some(end.hash)));
    let range = journal.with_spool(|spool| spool.dropped(Sequence(1), Sequence(2))).unwrap();
    assert_eq!(range.period.end, end.head.period.end);
    let state = State::load(&dir, ChainId([0; 16])).unwrap();
    assert_eq!(state.chain, ChainId([8; 16]));
    assert_eq!(state.beginning.reason, ChainStartReason::LostState);
}

#[test]
fn the_start_of_a_chain_is_signed_once_and_not_by_a_clock_that_is_wrong() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path()).unwrap();
    let journal = enrolled(&dir);
    let (statement, signature) = journal.sign_chain_start();
    let start = ChainStart::from_statement(&statement).unwrap();
    verify(StatementKind::ChainStart, &statement, &signature, &key().verifying_key()).unwrap();
    assert_eq!((start.node, start.chain), (node(), ChainId([1; 16])));
    assert_eq!(start.reason, ChainStartReason::Joined);
    // A restart, and another opinion of the clock, change nothing about what was signed.
    let again = enrolled(&dir);
    let off = ClockEstimate { offset_ms: 3_600_000, bound_ms: 5 };
    again.set_clock_estimate(off, Instant::now());
    assert_eq!(again.sign_chain_start(), (statement, signature));
    again.redate_chain_start();
    let redated = ChainStart::from_statement(&again.sign_chain_start().0).unwrap();
    assert!(redated.at.since(start.at) >= 3_600_000, "{} {}", redated.at, start.at);
}

/// The server asks each 15 seconds; what is sealed between a step and the next answer must not pass
/// as right.
#[test]
fn what_is_known_of_the_clock_is_kept_over_a_step_of_it() {
    let known = ClockEstimate { offset_ms: 40, bound_ms: 5 };
    for by_ms in [-3_600_000, 7_000, 315_360_000_000] {
        let temp = tempfile::tempdir().unwrap();
        let journal = Arc::new(enrolled(&StateDir::open(temp.path()).unwrap()));
        journal.set_clock_estimate(known, START);
        record(&journal, 30, by_ms);
        let offset = |sequence| opened(&journal, sequence).head.clock.offset_ms;
        let last = journal.with_spool(|spool| spool.newest().0);
        assert_eq!((offset(1), offset(last)), (Some(40), Some(40 - by_ms)));
    }
}
