//! The state directory: is it there and private, on what file system, with what space, does it
//! keep what is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::command::finding::{Finding, Findings};
use crate::spool::network_file_system;

/// Free space from which the spool is not in danger.
const SPACE_MIB: u64 = 512;
/// Numbers of file systems that may share what is written with another machine, or lose it.
const FUSE: u64 = 0x6573_5546;
const MEMORY: [(u64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

pub(super) fn check(state_dir: &Path, findings: &mut Findings) {
    findings.node(directory(state_dir));
    // What a new directory will get is what its parent has.
    let Some(existing) = state_dir.ancestors().find(|path| path.is_dir()) else { return };
    let existing: PathBuf = existing.to_owned();
    findings.node(file_system(&existing));
    findings.node(space(&existing));
    findings.node(durable(&existing));
}

fn directory(path: &Path) -> Finding {
    let id = "state.directory";
    let shown = path.display().to_string();
    match fs::metadata(path) {
        Ok(about) if !about.is_dir() => Finding::differs(id, format!("{shown} is no directory")),
        Ok(about) if about.permissions().mode() & 0o077 != 0 => {
            let mode = about.permissions().mode() & 0o777;
            Finding::differs(id, format!("{shown} has mode {mode:o}"))
                .expecting("700")
                .advising(format!("chmod 700 {shown}: the node's key lies there"))
        }
        Ok(_) => Finding::ok(id, shown),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Finding::ok(id, format!("{shown} will be made at the first start"))
        }
        Err(error) => Finding::differs(id, format!("{shown}: {error}"))
            .advising("Run it as the account that the agent has, or choose another --state-dir"),
    }
}

fn file_system(path: &Path) -> Finding {
    let id = "state.filesystem";
    let stat = match rustix::fs::statfs(path) {
        Ok(stat) => stat,
        Err(errno) => return Finding::not_readable(id, errno.to_string()),
    };
    let kind = u64::try_from(stat.f_type).unwrap_or(0) & 0xffff_ffff;
    if let Some(name) = network_file_system(stat.f_type).or((kind == FUSE).then_some("FUSE")) {
        return Finding::differs(id, name).expecting("a local disk").advising(
            "Locks and writes are not safe there, and two nodes may share it: choose a local \
             --state-dir",
        );
    }
    if let Some((_, name)) = MEMORY.iter().find(|(number, _)| *number == kind) {
        return Finding::differs(id, *name).expecting("a disk").advising(
            "A reboot loses the node's key and what was not delivered: choose another --state-dir",
        );
    }
    Finding::ok(id, "local")
}

fn space(path: &Path) -> Finding {
    let id = "state.space";
    match rustix::fs::statvfs(path) {
        Ok(space) => {
            let mib = space.f_bavail.saturating_mul(space.f_frsize) >> 20;
            Finding::judged(id, mib >= SPACE_MIB, format!("{mib} MiB free"))
                .expecting(format!("at least {SPACE_MIB} MiB"))
                .advising("Make room: without it readings wait in memory alone")
        }
        Err(errno) => Finding::not_readable(id, errno.to_string()),
    }
}

/// Writes a file, waits for the disk, removes it.
fn durable(path: &Path) -> Finding {
    let id = "state.durable";
    let probe = path.join(format!(".leasewatch-doctor-{}", std::process::id()));
    let tried = write_and_sync(&probe, path);
    // Whatever happened, nothing of it stays.
    let _ = fs::remove_file(&probe);
    match tried {
        Ok(()) => Finding::ok(id, "a write reached the disk"),
        Err(error) => Finding::differs(id, error.to_string()).advising(
            "The agent cannot keep its state there: free space, mount it writable, or choose \
             another --state-dir",
        ),
    }
}

fn write_and_sync(probe: &Path, directory: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(probe)?;
    file.write_all(b"leasewatch")?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::finding::Outcome;

    #[test]
    fn a_directory_that_others_may_enter_is_named_with_the_cure() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state");
        assert_eq!(directory(&path).outcome, Outcome::Ok);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let open = directory(&path);
        assert_eq!(open.outcome, Outcome::Differs);
        assert!(open.advice.contains("chmod 700"), "{open:?}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(directory(&path).outcome, Outcome::Ok);
        fs::write(temp.path().join("file"), "").unwrap();
        assert_eq!(directory(&temp.path().join("file")).outcome, Outcome::Differs);
    }

    #[test]
    fn the_trial_leaves_nothing_behind() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(durable(temp.path()).outcome, Outcome::Ok);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        assert_eq!(durable(&temp.path().join("missing")).outcome, Outcome::Differs);
    }
}
