//! Keys of a server that are passed on, with the real programs: nodes go on without a hand.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use leasewatch_core::evidence::capture;

use crate::joining::{Agents, Joinable, as_text};
use crate::process::{RunningServer, eventually};

/// A node that has joined with a string, and whose agent is started anew at each step: that waits
/// for nothing.
struct Case {
    rig: Joinable,
    agents: Agents,
}

impl Case {
    fn joined() -> Self {
        let rig = Joinable::start();
        let file = rig.join_file(&[]);
        let agent = rig.agent("node", &["--join-file", as_text(&file)]).spawn().unwrap();
        let case = Self { rig, agents: Agents(vec![agent]) };
        case.logged("welcomed");
        case
    }

    fn logged(&self, words: &str) {
        eventually(words, || self.rig.log("node").contains(words).then_some(()));
    }

    fn restart_agent(&mut self) {
        self.agents = Agents(Vec::new());
        self.agents.0.push(self.rig.agent("node", &[]).spawn().unwrap());
    }

    /// Stops everything, changes the server's data directory, and starts it where it was. An agent
    /// that went on would meet it before its log is looked at.
    fn restart_server(&mut self, change: impl FnOnce(&Joinable)) {
        self.agents = Agents(Vec::new());
        let address = self.rig.stop();
        change(&self.rig);
        self.rig.server = Some(RunningServer::start_again(self.rig.data.path(), &address));
    }

    fn kept(&self) -> String {
        fs::read_to_string(self.rig.data.path().join("node/notice.toml")).unwrap_or_default()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.rig.data.path().join(name)
    }
}

#[test]
fn an_agent_goes_on_over_new_certificates_and_identity_keys_and_turns_an_old_key_away() {
    let mut case = Case::joined();
    let pins = |kept: &str| kept.matches("\"").count();
    let before =
        eventually("the notice", || Some(case.kept()).filter(|kept| kept.contains("recovery = ")));
    // A next certificate is told on the open stream, and shown without a restart.
    case.rig.told(&["tls", "rotate"]);
    let announced = eventually("the next certificate", || {
        Some(case.kept()).filter(|kept| pins(kept) == pins(&before) + 2)
    });
    assert!(announced.contains("recovery = "), "{announced}");
    case.rig.told(&["tls", "rotate", "--now"]);
    eventually("the one that is left", || (pins(&case.kept()) == pins(&before)).then_some(()));
    case.restart_agent();
    case.logged("welcomed");

    // Twice while nobody listens, and an old join string leads to the newest key as well.
    let old_string = case.rig.join_file(&["--fleet", "3"]);
    let stolen = fs::read(case.file("identity.key")).unwrap();
    case.restart_server(|rig| {
        rig.told(&["identity", "rotate"]);
        rig.told(&["identity", "rotate"]);
    });
    let shown = case.rig.told(&["identity", "show"]);
    assert!(shown.contains("passed on 2 times"), "{shown}");
    case.restart_agent();
    case.logged("was passed on to another one");
    case.logged("welcomed");
    let late = ["--join-file", as_text(&old_string)];
    case.agents.0.push(case.rig.agent("late", &late).spawn().unwrap());
    eventually("who joins late", || case.rig.log("late").contains("welcomed").then_some(()));

    // Whoever stole the first key shows it in vain, and gets no token of a new string.
    let new_string = case.rig.join_file(&["--fleet", "3", "--valid", "1h"]);
    case.restart_server(|rig| {
        let (key, rotations) =
            (rig.data.path().join("identity.key"), rig.data.path().join("identity.rotations"));
        fs::write(&key, &stolen).unwrap();
        fs::rename(&rotations, rig.data.path().join("rotations.aside")).unwrap();
    });
    case.restart_agent();
    case.logged("this is not the server that the node trusts");
    let new = ["--join-file", as_text(&new_string)];
    case.agents.0.push(case.rig.agent("robbed", &new).spawn().unwrap());
    eventually("the refusal", || {
        case.rig.log("robbed").contains("this is not the server").then_some(())
    });
    assert!(!case.rig.nodes().contains("/robbed "));
}

#[test]
fn the_recovery_key_brings_nodes_back_when_the_identity_key_is_lost() {
    let mut case = Case::joined();
    eventually("the notice", || case.kept().contains("recovery = ").then_some(()));
    let away = case.file("kept-elsewhere");
    fs::rename(case.file("recovery.key"), &away).unwrap();
    let key = case.file("identity.key");
    case.restart_server(|rig| {
        fs::remove_file(&key).unwrap();
        let refused = rig.ask(&["identity", "rotate"]);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        // Without the key a new one would be another server: that is not done in passing.
        assert!(!refused.status.success() && words.contains("--recovery"), "{words}");
        rig.told(&["identity", "rotate", "--recovery", as_text(&away)]);
    });
    case.restart_agent();
    case.logged("was passed on to another one");
    case.logged("welcomed");
}

/// A node whose key is lost goes on under another one; what is taken out holds both, and reads.
#[test]
fn a_capture_over_a_change_of_the_node_s_key_proves_both() {
    let rig = Joinable::start();
    let join = rig.join_file(&[]);
    let first = rig.agent("first", &["--join-file", as_text(&join)]).spawn().unwrap();
    let agents = Agents(vec![first]);
    let file = rig.data.path().join("node.lwc");
    let segments = || {
        let _ = fs::remove_file(&file);
        let (from, to) = ("2026-01-01T00:00:00Z", "2100-01-01T00:00:00Z");
        let arguments = ["--node", "first", "--from", from, "--to", to];
        let taken = rig.ask(&[&["export", "segments", as_text(&file)][..], &arguments].concat());
        let bytes = taken.status.success().then(|| fs::read(&file).unwrap())?;
        let chains = capture::read(&bytes).unwrap().into_iter().map(|segment| segment.head.chain);
        Some((bytes, chains.collect::<BTreeSet<_>>()))
    };
    let (bytes, _) = eventually("a segment under the first key", segments);
    assert!(bytes.starts_with(capture::MAGIC));
    drop(agents);
    let id = rig.nodes().split(' ').next().unwrap().to_owned();
    let join = rig.join_file(&["--valid", "1h"]);
    let taking = ["--join-file", as_text(&join), "--replaces", &id];
    let _agents = Agents(vec![rig.agent("second", &taking).spawn().unwrap()]);
    let (bytes, _) = eventually("a segment under the second key", || {
        segments().filter(|(_, chains)| chains.len() == 2)
    });
    assert!(bytes.starts_with(capture::MAGIC_OF_KEYS));
    assert_eq!(rig.nodes().lines().count(), 1);
}
