//! Joining with the real programs, on a server that lets nobody in without a token.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::fleet::programs;
use crate::process::{RunningServer, data_dir, eventually};

/// Processes that are stopped when the test is over.
pub(crate) struct Agents(pub(crate) Vec<Child>);

impl Drop for Agents {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A server with its data directory, and what is done about it on the command line.
pub(crate) struct Joinable {
    pub(crate) data: tempfile::TempDir,
    /// There, but for moments in which it is exchanged.
    pub(crate) server: Option<RunningServer>,
}

impl Joinable {
    pub(crate) fn start() -> Self {
        let data = data_dir();
        let server = Some(RunningServer::start_closed(data.path()));
        Self { data, server }
    }

    fn server(&self) -> &RunningServer {
        self.server.as_ref().unwrap()
    }

    /// Stops the server; returns where it was.
    pub(crate) fn stop(&mut self) -> String {
        let server = self.server.take().unwrap();
        let address = server.address.clone();
        server.kill();
        address
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
            .args(arguments)
            .arg("--data-dir")
            .arg(self.data.path())
            .env_remove("DATABASE_URL")
            .env_remove("DATABASE_ADMIN_URL")
            .output()
            .unwrap()
    }

    pub(crate) fn told(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A file with a join string.
    pub(crate) fn join_file(&self, more: &[&str]) -> PathBuf {
        let address = format!("https://{}", self.server().address);
        let arguments = [&["join-token", "create", "--node-address", &address], more].concat();
        let text = self.told(&arguments);
        assert!(text.starts_with("lwj1_") && text.lines().count() == 1, "{text}");
        let file = self.data.path().join(format!("join-{}", more.len()));
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Its log is in `name.log`.
    pub(crate) fn agent(&self, name: &str, more: &[&str]) -> Command {
        let programs = programs();
        let log = std::fs::File::create(self.data.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(programs.join("leasewatch-agent"));
        command
            .args(["run", "--name", name, "--nvml-library"])
            .arg(programs.join("libnvidia_ml_sim.so"))
            .arg("--state-dir")
            .arg(self.data.path().join(name))
            .args(more)
            .env_remove("LEASEWATCH_JOIN")
            .env_remove("LEASEWATCH_SERVER")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.data.path().join(format!("{name}.log"))).unwrap()
    }

    pub(crate) fn nodes(&self) -> String {
        self.told(&["nodes", "list"])
    }
}

pub(crate) fn as_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_agent_joins_with_a_string_comes_back_without_it_and_is_revoked() {
    let rig = Joinable::start();
    let file = rig.join_file(&["--tenant", "lab", "--provider", "acme"]);
    let secret = std::fs::read_to_string(&file).unwrap();
    let join = ["--join-file", as_text(&file)];
    let mut agents = Agents(vec![rig.agent("first", &join).spawn().unwrap()]);
    let line = eventually("the node that joined", || {
        rig.nodes().lines().find(|line| line.contains("lab/first")).map(str::to_owned)
    });
    let id = line.split(' ').next().unwrap().to_owned();

    // The token is used up, and one that is none says so. Neither agent gives up.
    agents.0.push(rig.agent("second", &join).spawn().unwrap());
    let address = format!("http://{}", rig.server().address);
    agents.0.push(rig.agent("third", &["--server", &address]).spawn().unwrap());
    for name in ["second", "third"] {
        eventually("the refusal", || rig.log(name).contains("not authenticated").then_some(()));
    }
    assert_eq!(rig.nodes().lines().count(), 1);
    let tokens = rig.told(&["join-token", "list"]);
    assert!(tokens.contains("1 of 1 joined, used") && tokens.contains(&id), "{tokens}");

    // Whoever has joined knows the server.
    agents.0.drain(..1).for_each(|child| drop(Agents(vec![child])));
    agents.0.push(rig.agent("first", &[]).spawn().unwrap());
    eventually("the welcome", || rig.log("first").contains("welcomed").then_some(()));

    let revoked = rig.told(&["nodes", "revoke", &id]);
    assert!(revoked.contains("within 5 seconds"), "{revoked}");
    eventually("the end of the stream", || {
        rig.log("first").contains("not authenticated").then_some(())
    });
    assert!(rig.nodes().contains("revoked"));
    assert!(!rig.ask(&["nodes", "revoke", &id]).status.success());
    for name in ["first", "second", "third"] {
        let log = rig.log(name);
        assert!(!log.contains("lwj1_") && !log.contains(secret.trim()), "{log}");
    }
}

#[test]
fn a_copied_state_joins_anew_with_a_fleet_token_and_the_original_goes_on() {
    let rig = Joinable::start();
    let file = rig.join_file(&["--fleet", "3"]);
    let join = ["--join-file", as_text(&file)];
    let agents = Agents(vec![rig.agent("original", &join).spawn().unwrap()]);
    eventually("the original", || rig.nodes().contains("/original ").then_some(()));
    drop(agents);

    let (from, to) = (rig.data.path().join("original"), rig.data.path().join("copy"));
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(&from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
    // What the copy would find on another machine: another name, and other cards.
    let elsewhere = "host_name = \"another\"\nmachine_id = \"another\"\n";
    std::fs::write(to.join("instance.toml"), elsewhere).unwrap();
    let state = std::fs::read_to_string(to.join("state.toml")).unwrap();
    let gpus = state.find("[[gpu]]").unwrap_or(state.len());
    let gpu =
        "[[gpu]]\nbus_id = \"00000000:18:00.0\"\nuuid = \"GPU-another\"\nname = \"another\"\n";
    std::fs::write(to.join("state.toml"), format!("{}{gpu}", &state[..gpus])).unwrap();

    let alone = rig.agent("copy", &[]).status().unwrap();
    assert_eq!(alone.code(), Some(2));
    assert!(rig.log("copy").contains("was made on another machine"), "{}", rig.log("copy"));
    let _agents = Agents(vec![
        rig.agent("copy", &join).spawn().unwrap(),
        rig.agent("original", &[]).spawn().unwrap(),
    ]);
    eventually("both", || {
        let nodes = rig.nodes();
        (nodes.contains("/original ") && nodes.contains("/copy ")).then_some(())
    });
    assert!(!rig.nodes().contains("contested"));
    assert!(to.join("elsewhere-1/node.key").exists());
    let key = |path: &Path| std::fs::read(path.join("node.key")).unwrap();
    assert_eq!(key(&to.join("elsewhere-1")), key(&from));
    assert_ne!(key(&to), key(&from));
}

#[test]
fn an_import_of_a_new_node_needs_a_token_too_and_a_known_one_none() {
    let rig = Joinable::start();
    let log = rig.data.path().join("log.csv");
    let write = |from: u32| {
        let rows: Vec<String> = (from..from + 10)
            .map(|second| format!("2026/04/20 10:00:{second:02}.000, 0, 50"))
            .collect();
        let text = format!("timestamp, index, utilization.gpu\n{}\n", rows.join("\n"));
        std::fs::write(&log, text).unwrap();
    };
    let import = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasewatch-server"));
        command
            .args(["import", "nvidia-smi", "--node", "archive", "--key-dir"])
            .arg(rig.data.path().join("imports"))
            .args(more)
            .arg(&log)
            .env_remove("LEASEWATCH_JOIN");
        command.output().unwrap()
    };
    write(0);
    let server = ["--server", &rig.server().url()];
    let refused = import(&server);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("join-token create"), "{text}");
    let file = rig.join_file(&["--tenant", "archives", "--valid", "1h"]);
    let taken = import(&["--join-file", as_text(&file)]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    assert!(rig.nodes().contains("archives/archive imported"), "{}", rig.nodes());
    write(20);
    let again = import(&server);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(rig.nodes().lines().count(), 1);
}
