//! `exec`: the job's exit code is the program's, signals reach the job, the record has its marks.

use std::fs;
use std::process::{Child, Command};

use leasewatch_agent::spool::{Reader, folder};
use leasewatch_core::segment::{Block, EventKind, JobEnd};
use leasewatch_core::time::{Period, Timestamp};
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Ended, Rig, exists, until, words};

fn rig() -> Rig {
    Rig::of_cards("H100-SXM5-80GB", 40, "").enrolled()
}

fn exec(rig: &Rig, more: &[&str]) -> Command {
    let options = rig.options();
    rig.command(&[&words(&["exec"], &options)[..], more].concat())
}

fn run(rig: &Rig, more: &[&str]) -> Ended {
    Ended::of(&exec(rig, more).output().unwrap())
}

/// Every event of the record, by its time.
fn recorded(rig: &Rig) -> Vec<EventKind> {
    let all = Period::new(Timestamp::MIN, Timestamp::MAX);
    let mut events = Vec::new();
    for segment in Reader::open(&folder(&rig.state_dir())).segments(all) {
        for bytes in &segment.blocks {
            if let Block::Events(block) = Block::decode(bytes).unwrap() {
                events.extend(block.events);
            }
        }
    }
    events.sort_by_key(|event| event.at);
    events.into_iter().map(|event| event.kind).collect()
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn a_job_is_marked_by_name_and_exit_code_and_its_arguments_stand_nowhere() {
    let rig = rig();
    let job = ["--job", "train 7", "--", "sh", "-c", "echo out; echo err >&2; exit 3", "s3cret"];
    let ended = run(&rig, &job);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert_eq!(ended.out, "out\n", "the job's own output and nothing else");
    assert!(ended.err.lines().any(|line| line == "err"), "{}", ended.err);
    let events = recorded(&rig);
    let name = || "train 7".to_owned();
    let started = EventKind::JobStarted { name: name() };
    let over = EventKind::JobEnded { name: name(), end: JobEnd::Exited(3) };
    let at = |kind: &EventKind| events.iter().position(|other| other == kind).expect("recorded");
    assert!(matches!(events[0], EventKind::AgentStarted { .. }), "{events:?}");
    assert!(at(&started) < at(&over));
    assert!(matches!(events.last(), Some(EventKind::Goodbye { .. })), "{events:?}");
    for entry in fs::read_dir(folder(&rig.state_dir())).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        for hidden in ["s3cret", "echo out"] {
            assert!(!bytes.windows(hidden.len()).any(|part| part == hidden.as_bytes()), "{hidden}");
        }
    }
}

#[test]
fn signals_go_on_to_the_job_and_its_answer_is_the_exit_code() {
    let rig = rig();
    let ready = rig.path("ready").display().to_string();
    let script = format!("trap 'exit 7' TERM; : > {ready}; while :; do sleep 0.05; done");
    let child = exec(&rig, &["--", "sh", "-c", &script]).spawn().unwrap();
    until("job", || exists(&rig.path("ready")));
    signal(&child, Signal::TERM);
    let ended = Ended::of(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(7), "{}", ended.err);
    let over = EventKind::JobEnded { name: "sh".to_owned(), end: JobEnd::Exited(7) };
    assert!(recorded(&rig).contains(&over));
}

#[test]
fn a_job_that_a_signal_ends_gives_128_and_the_signal() {
    let rig = rig();
    let ended = run(&rig, &["--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(ended.code, Some(137), "{}", ended.err);
    let over = EventKind::JobEnded { name: "sh".to_owned(), end: JobEnd::Signalled(9) };
    assert!(recorded(&rig).contains(&over));
}

#[test]
fn what_cannot_be_started_has_codes_of_its_own_and_is_not_marked() {
    let rig = rig();
    assert_eq!(run(&rig, &["--", "/nowhere/to/be/found"]).code, Some(127));
    assert_eq!(run(&rig, &["--", "/etc/passwd"]).code, Some(126));
    assert_eq!(run(&rig, &[]).code, Some(2));
    assert_eq!(run(&rig, &["--job", "a\u{1b}b", "--", "true"]).code, Some(2));
    let marks = |kind: &EventKind| {
        matches!(kind, EventKind::JobStarted { .. } | EventKind::JobEnded { .. })
    };
    assert!(!recorded(&rig).iter().any(marks));
}

#[test]
fn beside_a_running_agent_nothing_is_started() {
    let rig = rig();
    let ready = rig.path("ready").display().to_string();
    let script = format!(": > {ready}; while [ ! -e {ready}.end ]; do sleep 0.05; done");
    let first = exec(&rig, &["--", "sh", "-c", &script]).spawn().unwrap();
    until("job", || exists(&rig.path("ready")));
    let touched = rig.path("touched").display().to_string();
    let second = run(&rig, &["--", "touch", &touched]);
    assert_eq!(second.code, Some(3), "{}", second.err);
    assert!(!rig.path("touched").exists());
    fs::write(format!("{ready}.end"), "").unwrap();
    assert_eq!(Ended::of(&first.wait_with_output().unwrap()).code, Some(0));
}

#[test]
fn a_job_of_a_node_that_no_server_has_welcomed_runs_all_the_same_and_unrecorded() {
    let rig = Rig::of_cards("H100-SXM5-80GB", 40, "");
    let ended = run(&rig, &["--", "sh", "-c", "echo ran; exit 4"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), "ran\n"), "{}", ended.err);
    assert!(ended.err.contains("no server has welcomed this node yet"), "{}", ended.err);
    assert_eq!(recorded(&rig), []);
}

#[test]
fn a_job_is_recorded_into_a_folder_without_a_server() {
    let rig = Rig::of_cards("H100-SXM5-80GB", 40, "");
    let folder = rig.state_dir().display().to_string();
    let recorded_job = |name: &str| {
        let words = ["exec", "--record", &folder, "--job", name, "--", "true"];
        let ended = rig.run(&words);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    };
    recorded_job("one");
    recorded_job("two");
    let events = recorded(&rig);
    for name in ["one", "two"] {
        let over = EventKind::JobEnded { name: name.to_owned(), end: JobEnd::Exited(0) };
        assert!(events.contains(&over), "{name}: {events:?}");
    }
    fs::write(rig.state_dir().join("server.pub"), "").unwrap();
    let refused = rig.run(&["exec", "--record", &folder, "--", "true"]);
    assert_eq!(refused.code, Some(2), "the folder of an agent with a server");
}
