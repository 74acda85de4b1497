//! What an agent is given and does not take, and what it goes on with: each with the exit code, the
//! place and what to do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::rig::{Ended, Rig, exists, until, words};
use crate::sink::Sink;

fn rig() -> Rig {
    Rig::of_cards("T4", 0, "")
}

/// An agent that is killed when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_mistake_in_the_file_is_named_with_its_line_and_ends_with_2() {
    let rig = rig();
    let file = rig.path("agent.toml");
    let mistakes = [
        ("tenant = \"a\"\ncadense = \"1s\"", "line 2: cadense: unknown field"),
        ("\nspool_mib = \"much\"", "line 2: spool_mib: invalid type"),
        ("cadence = \"0s\"", "line 1: cadence: must be a time from 100ms to 60s"),
        ("\n\nspool_mib = -128", "line 3: spool_mib: invalid value"),
        ("spool_hours = 0", "line 1: spool_hours: must be from 1 to 720"),
        ("server = \"http://10.0.0.1:7443\"", "line 1: server: "),
        ("log = \"=,=\"", "line 1: log: is not a filter"),
        ("cadence = ", "line 1: cadence: "),
    ];
    for command in ["run", "doctor", "exec"] {
        for (text, expected) in mistakes {
            fs::write(&file, text).unwrap();
            let config = ["--config".to_owned(), file.display().to_string()];
            let job: &[&str] = if command == "exec" { &["--", "true"] } else { &[] };
            let ended = rig.run(&[&words(&[command], &config)[..], job].concat());
            assert_eq!(ended.code, Some(2), "{command} {text}: {}", ended.err);
            let place = format!("{}: {expected}", file.display());
            assert!(ended.err.contains(&place), "{command} {text}: {}", ended.err);
        }
    }
    let missing = rig.run(&["run", "--config", "/nowhere/agent.toml"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("/nowhere/agent.toml: No such file"), "{}", missing.err);
}

#[test]
fn a_mistake_on_the_command_line_or_in_the_environment_is_named_and_ends_with_2() {
    let rig = rig();
    for (options, expected) in [
        (["--cadence", "0s"], "cadence: must be"),
        (["--spool-mib", "-1"], "unexpected argument '-1'"),
        (["--spool-mib=-1", "--once"], "invalid value '-1' for '--spool-mib <MIB>'"),
        (["--interval", "1s"], "unexpected argument '--interval'"),
        (["--log-format", "xml"], "invalid value 'xml'"),
    ] {
        let ended = rig.run(&[&["run"], &options[..]].concat());
        assert_eq!(ended.code, Some(2), "{options:?}: {}", ended.err);
        assert!(ended.err.contains(expected), "{options:?}: {}", ended.err);
    }
    let mut command = rig.command(&["run"]);
    let ended = Ended::of(&command.env("LEASEWATCH_SPOOL_MIB", "-1").output().unwrap());
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("'-1' for '--spool-mib <MIB>'"), "{}", ended.err);
}

#[test]
fn a_key_that_may_be_known_or_is_none_ends_with_2_and_what_to_do() {
    let rig = rig().enrolled();
    let key = rig.state_dir().join("node.key");
    let refused = |problem: &str, cure: &str| {
        let ended = rig.run(&words(&["run"], &rig.options()));
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        let says = format!("the node key {} {problem}; {cure}", key.display());
        assert!(ended.err.contains(&says), "{}", ended.err);
    };
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    refused("can be read by others", "run: chmod 600 on it");
    fs::write(&key, "").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    refused("is empty", "restore it from a backup");
    fs::remove_file(&key).unwrap();
    symlink("/dev/zero", &key).unwrap();
    refused("is a symbolic link", "put the file itself in its place");
    assert!(fs::symlink_metadata(&key).unwrap().is_symlink(), "nothing was replaced");
}

#[test]
fn the_second_agent_on_a_state_directory_ends_with_3() {
    let rig = rig().enrolled();
    let mut first = Running(rig.command(&words(&["run"], &rig.options())).spawn().unwrap());
    until("the first agent", || exists(&rig.state_dir().join("status.json")));
    let second = rig.run(&words(&["run"], &rig.options()));
    assert_eq!(second.code, Some(3), "{}", second.err);
    assert!(second.err.contains("give this one another --state-dir"), "{}", second.err);
    let dir = rig.state_dir().display().to_string();
    assert_eq!(rig.run(&["record", &dir]).code, Some(3));
    assert!(first.0.try_wait().unwrap().is_none(), "the first one goes on");
}

/// What stands in the way of a folder is the same to the agent as a file system that it does not
/// trust (`agent/src/spool/disk.rs`): records wait in memory, and `status` says so.
#[test]
fn a_spool_that_cannot_be_on_disk_is_in_memory_delivers_and_shows_it() {
    let rig = rig().enrolled();
    fs::write(rig.state_dir().join("spool"), "in the way").unwrap();
    let (sink, address) = Sink::start();
    let dir = rig.state_dir().display().to_string();
    let run = ["run", "--server", &address, "--state-dir", &dir, "--name", "a", "--cadence", "1s"];
    let _running = Running(rig.command(&run).spawn().unwrap());
    until("a frame", || (!sink.of("a").frames.is_empty()).then_some(()));
    let status = until("a problem", || {
        let ended = rig.run(&["status", "--state-dir", &dir]);
        ended.out.contains("in memory only").then_some(ended)
    });
    assert_eq!(status.code, Some(1));
    let json = rig.run(&["status", "--json", "--state-dir", &dir]).json();
    assert_eq!(json["spool"]["mode"], "memory");
    assert!(json["spool"]["why_memory"].as_str().unwrap().contains("spool"), "{json}");
}

/// A state directory that was remounted read-only, as a broken disk leaves it.
#[test]
fn on_a_disk_that_turned_read_only_a_node_that_was_welcomed_goes_on_in_memory() {
    let rig = rig().enrolled();
    let dir = rig.state_dir();
    // The lock of an agent that was there before.
    assert!(dir.join("lock").exists());
    let (sink, address) = Sink::start();
    fs::write(dir.join("server.pub"), sink.public_key()).unwrap();
    let mut running = on_a_read_only_mount(&rig, &dir, &address);
    let said = || fs::read_to_string(rig.path("log")).unwrap_or_default();
    until("word of the memory", || {
        assert!(running.0.try_wait().unwrap().is_none(), "{}", said());
        said().contains("records wait in memory and die with the process").then_some(())
    });
    until("a frame", || (!sink.of("a").frames.is_empty()).then_some(()));
}

fn on_a_read_only_mount(rig: &Rig, dir: &Path, address: &str) -> Running {
    let script =
        "mount --bind \"$DIR\" \"$DIR\" && mount -o remount,bind,ro \"$DIR\" && exec \"$@\"";
    let agent = rig.command(&["run", "--server", address, "--name", "a"]);
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::getuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["sh", "-c", script, "sh"]).arg(agent.get_program()).args(agent.get_args());
    command.arg("--state-dir").arg(dir).args(["--cadence", "200ms"]);
    command.env_clear().envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stderr(fs::File::create(rig.path("log")).unwrap());
    command.env("DIR", dir).stdin(Stdio::null()).stdout(Stdio::null());
    Running(command.spawn().unwrap())
}
