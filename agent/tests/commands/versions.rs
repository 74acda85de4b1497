//! U1: the state directory of an agent of version 0.1.0, as it was recorded, is delivered whole.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use leasewatch_agent::clock::Instant;
use leasewatch_core::time::Timestamp;

use crate::footprint::fill;
use crate::rig::{Rig, until};
use crate::sink::Sink;

/// Minutes in the recorded spool.
const MINUTES: u64 = 5;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state-0.1.0")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

/// How the recorded one was made.
fn write() {
    let rig = Rig::of_cards("H100-SXM5-80GB", 40, "").enrolled();
    let now = Instant { boot_ms: 9_000_000, wall: Timestamp(1_790_000_000_000) };
    fill(&rig.state_dir(), 5, now);
    let _ = fs::remove_file(rig.state_dir().join("lock"));
    copy(&rig.state_dir(), &fixture());
}

#[test]
fn a_state_directory_of_0_1_0_is_delivered_whole() {
    if std::env::var_os("LEASEWATCH_WRITE_FIXTURES").is_some() && !fixture().exists() {
        write();
    }
    let rig = Rig::of_cards("H100-SXM5-80GB", 40, "");
    copy(&fixture(), &rig.state_dir());
    let (sink, address) = Sink::start();
    let state_dir = rig.state_dir().display().to_string();
    let words = ["run", "--server", &address, "--state-dir", &state_dir, "--name", "old"];
    let mut child = rig.command(&words).spawn().unwrap();
    let seen = until("the recorded segments", || {
        let seen = sink.of("old");
        (seen.acked >= MINUTES).then_some(seen)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let list = fixture().join("heads.txt");
    if std::env::var_os("LEASEWATCH_WRITE_FIXTURES").is_some() && !list.exists() {
        fs::write(&list, seen.heads[..5].join("\n") + "\n").unwrap();
    }
    let heads = fs::read_to_string(list).unwrap();
    let heads: Vec<&str> = heads.lines().collect();
    assert_eq!(seen.heads[..heads.len()], heads, "each once, in its order, as it was sealed");
    assert_eq!(heads.len(), 5);
}
