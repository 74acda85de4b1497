//! `status`: of an agent that runs, that was killed, and that never was.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::rig::{Ended, Rig, until, words};

fn status(rig: &Rig) -> Ended {
    rig.run(&["status", "--json", "--state-dir", &rig.state_dir().display().to_string()])
}

fn start(rig: &Rig) -> Child {
    rig.command(&words(&["run"], &rig.options())).spawn().unwrap()
}

fn has_problem(json: &Value, part: &str) -> bool {
    let problems = json["problems"].as_array().unwrap();
    problems.iter().any(|problem| problem.as_str().unwrap().contains(part))
}

#[test]
fn a_running_agent_tells_what_it_is_and_what_is_wrong_and_a_dead_one_is_not_running() {
    let rig = Rig::of_cards("H100-SXM5-80GB", 40, "").enrolled();
    let mut agent = start(&rig);
    let seen = until("status of the GPUs", || {
        let ended = status(&rig);
        let is_seen = ended.code == Some(1) && ended.json()["agent"]["enrolled"] == true;
        is_seen.then_some(ended)
    });
    let json = seen.json();
    assert_eq!((json["running"].as_bool(), json["exit_code"].as_i64()), (Some(true), Some(1)));
    assert_eq!(json["agent"]["pid"], agent.id());
    assert_eq!(json["agent"]["connected"], false);
    assert!(has_problem(&json, "no connection to the server"), "{json}");
    assert_eq!(json["spool"]["mode"], "disk");
    let text = rig.run(&["status", "--state-dir", &rig.state_dir().display().to_string()]);
    for part in ["SIMULATED", "http://127.0.0.1:9 (not connected), tenant default", "PROBLEM"] {
        assert!(text.out.contains(part), "{part}: {}", text.out);
    }
    let pid = Pid::from_raw(i32::try_from(agent.id()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    agent.wait().unwrap();
    let dead = status(&rig);
    assert_eq!((dead.code, dead.json()["running"].as_bool()), (Some(3), Some(false)));
}

#[test]
fn without_an_agent_there_is_no_status() {
    let rig = Rig::of_cards("T4", 0, "");
    assert_eq!(status(&rig).code, Some(4));
    std::fs::create_dir(rig.state_dir()).unwrap();
    assert_eq!(status(&rig).code, Some(3));
    std::fs::write(rig.state_dir().join("status.json"), "{}").unwrap();
    assert_eq!(status(&rig).code, Some(4), "not a file of this version");
}
