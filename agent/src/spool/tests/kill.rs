//! D5 with a real process, a real disk and a real kill: a journal's writer runs under `strace`,
//! which kills it in the middle of its n-th system call of a kind.

use std::path::Path;
use std::process::Command;

use leasewatch_core::delivery::SpoolIndex as _;
use leasewatch_core::evidence::chain::ChainStartReason;
use leasewatch_core::id::{ChainId, Hash, Sequence};

use crate::clock::{self, Anchor, Instant};
use crate::identity::{State, StateDir};
use crate::observation::{EventObservation, Observation};
use crate::recorder::{Gathering, Journal, fixture};
use crate::spool::Quota;
use leasewatch_core::segment::EventKind;

const DIR: &str = "LEASEWATCH_TEST_WRITER_DIR";
/// `rash` says that the next segment is sealed before it is.
const MANNER: &str = "LEASEWATCH_TEST_WRITER_MANNER";
const CHAIN: ChainId = ChainId([1; 16]);
const SEGMENTS: u32 = 40;
/// Small files, so that they are begun, dropped and trimmed often.
const QUOTA: Quota = Quota { bytes: 40 << 10, hours: 24, reserve_bytes: 0 };

fn journal(dir: &StateDir) -> Journal {
    let state = State::load(dir, CHAIN).unwrap();
    fixture::journal(dir.path(), QUOTA, state)
}

fn seal(journal: &Journal) -> Sequence {
    let now = Instant { boot_ms: clock::boot_ms(), wall: clock::wall() };
    let anchor = Anchor::at(now);
    let mut gathering = Gathering::new(anchor, now.boot_ms);
    let (at_boot_ms, kind) = (now.boot_ms, EventKind::NoGpuAttached);
    let event = EventObservation { at_boot_ms, gpu: None, kind, urgent: false };
    gathering.on_observation(Observation::Event(event));
    let content = gathering.close(at_boot_ms, anchor).unwrap();
    journal.seal(&content, anchor, 0, Vec::new()).unwrap()
}

/// The process that is killed: seals, says what it sealed, and is acknowledged for some time. It is
/// this test program once more, with a folder in its environment; without one it does nothing.
#[test]
#[expect(clippy::print_stdout, reason = "what the test reads")]
fn writer() {
    let Some(path) = std::env::var_os(DIR) else { return };
    let dir = StateDir::open(Path::new(&path)).unwrap();
    let journal = journal(&dir);
    journal.on_welcome(fixture::node(), fixture::tenant(), 1_000);
    let is_rash = std::env::var(MANNER).is_ok_and(|manner| manner == "rash");
    for turn in 0..SEGMENTS {
        if is_rash {
            println!("sealed {} {}", turn + 1, Hash([0; 32]));
        }
        let sequence = seal(&journal);
        let head = journal.with_spool(|spool| spool.end().head).unwrap();
        println!("sealed {} {head}", sequence.0);
        if (4..16).contains(&turn) {
            // An hour later each time, so that what was acknowledged goes.
            let now = Instant::now();
            let boot_ms = now.boot_ms + i64::from(turn) * 3_700_000;
            journal.with_spool(|spool| spool.trim(sequence, Instant { boot_ms, ..now }));
            println!("acked {}", sequence.0);
        }
    }
}

/// Kills the writer at its n-th call; returns what it had said, `None` when it came to its end.
fn killed(dir: &Path, (call, n): (&str, u32), manner: &str) -> Option<String> {
    let inject = format!("inject={call}:signal=KILL:when={n}");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "spool::tests::kill::writer", "--nocapture"])
        .args(["--test-threads", "1"])
        .env(DIR, dir)
        .env(MANNER, manner)
        .output()
        .expect("strace");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("ptrace"), "strace cannot trace: {errors}");
    (!output.status.success()).then_some(text)
}

/// The lines of a kind, without one that was cut in the middle.
fn said<'a>(text: &'a str, kind: &'a str) -> impl Iterator<Item = (u64, &'a str)> {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter_map(move |line| {
        let words = line[line.find(kind)?..].strip_prefix(kind)?.trim();
        let (number, rest) = words.split_once(' ').unwrap_or((words, ""));
        Some((number.parse().ok()?, rest))
    })
}

/// What is wrong after the kill, if anything.
fn fault(dir: &Path, text: &str) -> Option<String> {
    let dir = StateDir::open(dir).unwrap();
    let state = State::load(&dir, ChainId([9; 16])).unwrap();
    let has_sealed = text.contains("sealed ");
    if (has_sealed && state.chain != CHAIN) || state.beginning.reason != ChainStartReason::Joined {
        return Some("another chain".to_owned());
    }
    let journal = fixture::journal(dir.path(), QUOTA, state);
    let acked = said(text, "acked ").map(|(sequence, _)| sequence).max().unwrap_or(0);
    for (sequence, head) in said(text, "sealed ") {
        let head: Hash = head.parse().unwrap();
        let (found, item, newest) = journal.with_spool(|spool| {
            let sequence = Sequence(sequence);
            (spool.segment(sequence), spool.item(sequence), spool.newest().0)
        });
        if newest < sequence {
            return Some(format!("{sequence} was sealed, and the chain ends at {newest}"));
        }
        let is_right = match found {
            Some(found) => found.signed.head.hash() == head,
            // Acknowledged and gone, or given up for the quota: never of the latest.
            None => sequence <= acked || (item.is_some() && newest - sequence > 8),
        };
        if !is_right {
            return Some(format!("{sequence} is lost, or another"));
        }
    }
    // The chain goes on.
    let end = journal.with_spool(|spool| spool.newest());
    let goes_on = journal.enrolled().is_none() || Some(seal(&journal)) == end.next();
    (!goes_on).then(|| format!("the chain does not go on behind {end:?}"))
}

#[test]
fn a_writer_that_is_killed_in_any_system_call_has_all_that_it_sealed() {
    let is_campaign = std::env::var_os("LEASEWATCH_CAMPAIGN").is_some();
    let (mut points, step) = (0, if is_campaign { 1 } else { 9 });
    for call in ["write", "fdatasync", "rename", "unlink"] {
        for n in (1..400).step_by(step) {
            let temp = tempfile::tempdir().unwrap();
            let Some(text) = killed(temp.path(), (call, n), "honest") else { break };
            assert_eq!(fault(temp.path(), &text), None, "{call} {n}");
            points += 1;
        }
    }
    assert!(points >= if is_campaign { 150 } else { 15 }, "{points} points");
}

/// The same look has to find what a writer lost that says too much.
#[test]
fn a_writer_that_speaks_before_it_has_written_would_be_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let text = killed(temp.path(), ("fdatasync", 9), "rash").expect("a kill");
    assert!(fault(temp.path(), &text).is_some(), "{text}");
}
