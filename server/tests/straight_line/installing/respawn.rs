//! The loop that keeps an agent running where no service manager does, around programs that play one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::machine::{refused, worked};
use crate::process::eventually;

const RESPAWN: &str = include_str!("../../../src/installer/respawn.sh");

/// A folder as the installer makes it. Whatever was started in it is stopped in the end.
struct Kept(tempfile::TempDir);

impl Kept {
    fn new(agent: &str) -> Self {
        let kept = Self(tempfile::tempdir().unwrap());
        for (name, text) in [("respawn", RESPAWN), ("leasewatch-agent", agent)] {
            let path = kept.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::write(kept.path().join("environment"), "GREETING=two words\n").unwrap();
        kept
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn told(&self, what: &str) -> Output {
        let program = self.path().join("respawn");
        Command::new(program).arg(what).stdin(Stdio::null()).output().unwrap()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.told("stop");
    }
}

#[test]
fn an_agent_that_ends_is_started_again_and_one_that_cannot_work_is_not() {
    let failing = Kept::new("#!/bin/sh\ncd \"${0%/*}\"\necho \"$1 $GREETING\" >>starts\nexit 1\n");
    let misconfigured = Kept::new("#!/bin/sh\necho wrong >&2\nexit 2\n");
    let talking = Kept::new(
        "#!/bin/sh\ncd \"${0%/*}\"\nhead -c 1200000 /dev/zero | tr '\\0' x\necho $$ >agent\nexec sleep 600\n",
    );
    for kept in [&failing, &misconfigured, &talking] {
        worked(kept.told("start"));
    }
    // Starting twice is no harm.
    let keeper = talking.text("pid");
    worked(talking.told("start"));
    assert_eq!(talking.text("pid"), keeper);

    eventually("the end of what cannot work", || {
        (!misconfigured.told("status").status.success()).then_some(())
    });
    let log = misconfigured.text("log");
    assert!(log.contains("wrong\n") && log.contains("is not started again"), "{log}");
    eventually("a second start", || (failing.text("starts").lines().count() > 1).then_some(()));
    assert!(failing.text("starts").lines().all(|line| line == "run two words"));
    assert!(failing.text("log").contains("it starts again in 1 s"));

    let mode =
        |name: &str| talking.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
    eventually("a log that was emptied", || {
        (talking.text("log").is_empty() && talking.text("log.1").len() >= 1_200_000).then_some(())
    });
    assert_eq!((mode("log"), mode("log.1")), (0o600, 0o600));
    worked(talking.told("status"));
    worked(talking.told("stop"));
    let agent = talking.text("agent");
    assert!(!Path::new("/proc").join(agent.trim()).join("exe").exists(), "{agent}");
    refused(talking.told("restart"));
}
