//! D5: an agent that ends at any instant restarts and delivers every segment that it wrote whole.
//!
//! A writer goes through files that are begun, filled, acknowledged, trimmed and given up, and ends
//! at the n-th operation on the disk, for each n. `kill` does the same to a real process.

use leasewatch_core::delivery::{ItemKind, SpoolIndex as _};
use leasewatch_core::evidence::chain::DropReason;
use leasewatch_core::id::{Hash, Sequence};

use super::rig::{Chain, Crash, Forgetful, OWNER, Sabotage, instant};
use crate::spool::writing::after;
use crate::spool::{ChainEnd, Quota, Spool};

const QUOTA: Quota = Quota { bytes: 24 << 10, hours: 24, reserve_bytes: 0 };
const SEGMENTS: u64 = 56;

/// What the writer's surroundings know of it when it ends.
#[derive(Default)]
struct Seen {
    /// The newest segment whose append returned: it may have been sent.
    sent: u64,
    /// The newest of these that was said to be on disk.
    durable: u64,
    /// What the server has.
    acked: u64,
    /// `state.toml`.
    state: Option<ChainEnd>,
    /// A segment that could not be read right after it was written.
    unreadable: Option<u64>,
}

impl Seen {
    fn known(&self) -> ChainEnd {
        self.state.unwrap_or(ChainEnd::START)
    }
}

/// Writes up to [`SEGMENTS`], with a server that is away for a while, until the disk dies.
fn write(disk: &Forgetful, seen: &mut Seen) {
    let mut spool = Spool::on(Box::new(disk.clone()), QUOTA, OWNER, seen.known());
    while spool.end().sequence.0 < SEGMENTS && !disk.is_dead() {
        let sequence = spool.end().sequence.0 + 1;
        // Ten minutes pass between two segments, so that the grace ends within the cycle.
        let now = instant(sequence * 10);
        let appended = spool.append(&Chain::shared().segment(sequence), now);
        if disk.is_dead() {
            return;
        }
        if appended.is_new_file || !appended.is_durable {
            if !disk.operate() {
                return;
            }
            seen.state = Some(spool.end());
        }
        for range in &appended.drops {
            let (statement, signature) = Chain::shared().sign_drop(range);
            spool.note_drop(range, &statement, &signature);
        }
        if spool.segment(Sequence(sequence)).is_none() {
            seen.unreadable = Some(sequence);
        }
        seen.sent = sequence;
        if appended.is_durable {
            seen.durable = sequence;
        }
        // Away from 20 to 44: the quota does not keep all of that.
        if !(20..44).contains(&sequence) {
            seen.acked = sequence.saturating_sub(2).max(seen.acked);
            spool.trim(Sequence(seen.acked), now);
        }
    }
}

/// What is wrong after a restart, if anything.
fn fault(spool: &mut Spool, seen: &Seen) -> Option<String> {
    if let Some(sequence) = seen.unreadable {
        return Some(format!("{sequence} could not be sent"));
    }
    let end = spool.end();
    if end.sequence.0 < seen.sent {
        return Some(format!("{} was sent, and the chain goes on at {end:?}", seen.sent));
    }
    if end.head.is_some_and(|head| head != Chain::shared().head(end.sequence.0)) {
        return Some("the end has another head".to_owned());
    }
    if spool.head_hash(Sequence(seen.acked)).is_some_and(|h| h != hash_at(seen.acked)) {
        return Some("the server and the spool contradict each other".to_owned());
    }
    let mut sequence = Sequence(seen.acked + 1);
    if sequence < spool.oldest() && !spool.declare(sequence, None, None) {
        return Some(format!("{sequence:?} cannot be declared"));
    }
    while sequence <= end.sequence {
        let Some(item) = spool.item(sequence) else { return Some(format!("hole at {sequence:?}")) };
        if item.kind == ItemKind::Segment {
            if spool.segment(sequence).as_ref() != Some(&*Chain::shared().segment(sequence.0)) {
                return Some(format!("{sequence:?} has other content"));
            }
        } else {
            let range = spool.dropped(sequence, item.last)?;
            if range.last_head != Chain::shared().head(range.last.0) {
                return Some(format!("the drop to {:?} has another head", range.last));
            }
            // Evictions are of the time without a server, and are never of what came lately.
            let is_eviction = (18..SEGMENTS - 10).contains(&range.last.0)
                && matches!(range.reason, DropReason::Quota | DropReason::Lost);
            if sequence.0 <= seen.durable && !is_eviction {
                return Some(format!("{range:?} was on disk"));
            }
        }
        sequence = after(item.last);
    }
    None
}

fn hash_at(sequence: u64) -> Hash {
    if sequence == 0 { Hash([0; 32]) } else { Chain::shared().head(sequence) }
}

/// Ends at operation `n`, restarts, and looks; then goes on to the end and looks again.
fn crash_at(n: u64, crash: Crash, sabotage: Sabotage) -> Option<String> {
    let (disk, mut seen) = (Forgetful::new(sabotage), Seen::default());
    disk.die_at(n);
    write(&disk, &mut seen);
    assert!(disk.is_dead(), "operation {n} was never reached");
    let disk = disk.revive(crash);
    let mut spool = Spool::on(Box::new(disk.clone()), QUOTA, OWNER, seen.known());
    let of = |what: String| format!("{crash:?} at operation {n}: {what}");
    if let Some(what) = fault(&mut spool, &seen) {
        return Some(of(what));
    }
    drop(spool);
    write(&disk, &mut seen);
    let mut spool = Spool::on(Box::new(disk), QUOTA, OWNER, seen.known());
    fault(&mut spool, &seen).map(|what| of(format!("after going on: {what}")))
}

fn operations() -> u64 {
    let disk = Forgetful::new(Sabotage::Nothing);
    write(&disk, &mut Seen::default());
    disk.operations()
}

#[test]
fn whatever_operation_is_the_last_one_the_next_start_has_all_that_was_written() {
    let operations = operations();
    assert!(operations >= 150, "{operations} points are too few");
    let crashes = [Crash::Kill, Crash::Nothing, Crash::Half, Crash::Zeros];
    let is_campaign = std::env::var_os("LEASEWATCH_CAMPAIGN").is_some();
    for n in 1..=operations {
        let turn = usize::try_from(n % 4).unwrap();
        let wanted = if is_campaign { &crashes[..] } else { &crashes[turn..=turn] };
        for crash in wanted {
            assert_eq!(crash_at(n, *crash, Sabotage::Nothing), None);
        }
    }
}

/// The same test has to fail where the disk is not asked for what the spool needs.
#[test]
fn a_spool_that_does_not_sync_or_cut_would_be_noticed() {
    let operations = operations();
    for (sabotage, crash) in [
        (Sabotage::NoSync, Crash::Nothing),
        (Sabotage::NoFolderSync, Crash::Nothing),
        (Sabotage::NoTruncate, Crash::Kill),
    ] {
        let noticed = (1..operations).any(|n| crash_at(n, crash, sabotage).is_some());
        assert!(noticed, "{sabotage:?} was not noticed");
    }
}
