//! D7: the spool keeps its quota and the disk's reserve, and drops with a signed record.
//!
//! On a small file system of its own: the test runs itself again in a mount namespace, where it
//! mounts one that goes with the process.

use std::path::Path;
use std::process::Command;

use leasewatch_core::delivery::SpoolIndex as _;
use leasewatch_core::id::Sequence;

use super::assert_whole;
use super::rig::{Chain, OWNER, instant};
use crate::spool::disk::{Disk as _, Folder};
use crate::spool::{ChainEnd, Quota, Spool};

/// Set in the process that has the mount: where it is.
const MOUNT: &str = "LEASEWATCH_TEST_SMALL_DISK";
const DISK_BYTES: u64 = 512 << 10;
/// The note and its successor, each in a block of its own, and their folder.
const NOTE_BYTES: u64 = 12 << 10;

/// Runs one test of this module again, with a small file system at the path in [`MOUNT`].
fn on_a_small_disk(test: &str) {
    let temp = tempfile::tempdir().unwrap();
    let is_root = rustix::process::getuid().is_root();
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    let script = format!(
        "mount -t tmpfs -o size={DISK_BYTES} tmpfs \"${MOUNT}\" && exec \"$0\" \"$@\" --nocapture"
    );
    let program = std::env::current_exe().unwrap();
    command.args(["sh", "-c", &script]).arg(program);
    command.args(["--exact", &format!("spool::tests::fill::{test}")]);
    let output = command.env(MOUNT, temp.path()).output().expect("unshare of util-linux");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// What went wrong while a spool of `quota` was filled, held against what it was to keep.
fn fill(folder: &Path, quota: Quota, kept: Quota, segments: u64) -> Result<u64, String> {
    let free = || Folder::existing(folder).free_bytes().unwrap();
    let was_free = free();
    let mut spool = Spool::open(folder, quota, OWNER, ChainEnd::START);
    let (mut given_up, mut covered) = (0, 0);
    for sequence in 1..=segments {
        let appended = spool.append(&Chain::shared().segment(sequence), instant(sequence));
        given_up += appended.given_up;
        for range in &appended.drops {
            let (statement, signature) = Chain::shared().sign_drop(range);
            spool.note_drop(range, &statement, &signature);
            covered = covered.max(range.last.0);
        }
        let files: u64 = Folder::existing(folder).list().unwrap().iter().map(|(_, b)| b).sum();
        if files > kept.bytes {
            return Err(format!("{files} bytes at {sequence}"));
        }
        // What others left below the reserve is not the spool's doing, and it adds its note alone.
        if free() < kept.reserve_bytes && free() + NOTE_BYTES < was_free {
            return Err(format!("{} bytes are free at {sequence}", free()));
        }
    }
    assert_eq!(spool.segments() + given_up, segments);
    assert_eq!((spool.oldest(), covered > 0), (Sequence(1), given_up > 0));
    assert_whole(&mut spool);
    Ok(given_up)
}

fn clear(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        std::fs::remove_file(entry.path()).unwrap();
    }
}

#[test]
fn a_spool_keeps_its_quota_and_the_reserve_on_a_disk_that_fills() {
    let Some(mount) = std::env::var_os(MOUNT) else {
        return on_a_small_disk("a_spool_keeps_its_quota_and_the_reserve_on_a_disk_that_fills");
    };
    let mount = Path::new(&mount);
    let folder = mount.join("spool");
    std::fs::create_dir(&folder).unwrap();
    let mut full = 0;
    for turn in 0..200_u64 {
        let quota = Quota {
            bytes: (24 << 10) + turn % 5 * (12 << 10),
            hours: 24 * 30,
            reserve_bytes: turn % 7 * (56 << 10),
        };
        // Others take a part of the disk, now and then more than the reserve leaves.
        let others = usize::try_from(turn % 11 * (40 << 10)).unwrap();
        std::fs::write(mount.join("others"), vec![1; others]).unwrap();
        let given_up = fill(&folder, quota, quota, 90).unwrap();
        full += u64::from(given_up > 0);
        clear(&folder);
    }
    assert!(full >= 100, "{full} fills had to drop");
}

/// A disk that is full to the last byte: nothing on it, nothing lost that memory can keep.
#[test]
fn a_full_disk_leaves_a_spool_in_memory_and_it_comes_back() {
    let Some(mount) = std::env::var_os(MOUNT) else {
        return on_a_small_disk("a_full_disk_leaves_a_spool_in_memory_and_it_comes_back");
    };
    let mount = Path::new(&mount);
    let folder = mount.join("spool");
    let quota = Quota { bytes: 256 << 10, hours: 24, reserve_bytes: 0 };
    let mut spool = Spool::open(&folder, quota, OWNER, ChainEnd::START);
    let append = |spool: &mut Spool, sequence: u64| {
        spool.append(&Chain::shared().segment(sequence), instant(sequence))
    };
    assert!((1..=4).all(|sequence| append(&mut spool, sequence).is_durable));
    let rest = usize::try_from(DISK_BYTES).unwrap();
    let _ = std::fs::write(mount.join("others"), vec![1; rest]);
    let last = (5..40).find(|sequence| !append(&mut spool, *sequence).is_durable).unwrap();
    assert!(spool.memory_reason().is_some());
    assert_eq!(spool.segments(), last);
    assert_whole(&mut spool);
    std::fs::remove_file(mount.join("others")).unwrap();
    // The next try is a minute later.
    assert!(append(&mut spool, last + 1).is_durable);
    assert_eq!(spool.memory_reason(), None);
    assert_whole(&mut spool);
}

/// What was written before is delivered; what comes now waits in memory, and nothing fails.
#[test]
fn a_disk_that_turns_read_only_is_read_and_no_more() {
    let Some(mount) = std::env::var_os(MOUNT) else {
        return on_a_small_disk("a_disk_that_turns_read_only_is_read_and_no_more");
    };
    let folder = Path::new(&mount).join("spool");
    let quota = Quota { bytes: 128 << 10, hours: 24, reserve_bytes: 0 };
    let append = |spool: &mut Spool, sequence: u64| {
        spool.append(&Chain::shared().segment(sequence), instant(sequence)).is_durable
    };
    let mut spool = Spool::open(&folder, quota, OWNER, ChainEnd::START);
    assert!((1..=4).all(|sequence| append(&mut spool, sequence)));
    drop(spool);
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&mount).status().unwrap();
    assert!(remounted.success());
    let mut spool = Spool::open(&folder, quota, OWNER, ChainEnd::START);
    assert_eq!(spool.segments(), 4);
    assert!((5..=9).all(|sequence| !append(&mut spool, sequence)));
    assert!(spool.memory_reason().is_some());
    spool.trim(Sequence(6), instant(200));
    assert_eq!(spool.segments(), 3);
    assert_whole(&mut spool);
}

/// The same check has to fail for a spool that takes more than it may.
#[test]
fn a_spool_that_takes_more_would_be_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let quota = Quota { bytes: 64 << 10, hours: 24, reserve_bytes: 0 };
    for kept in [Quota { bytes: 48 << 10, ..quota }, Quota { reserve_bytes: 1 << 60, ..quota }] {
        let folder = temp.path().join(kept.bytes.to_string());
        std::fs::create_dir(&folder).unwrap();
        assert!(fill(&folder, quota, kept, 200).is_err(), "{kept:?}");
    }
}
