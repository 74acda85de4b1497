//! The line over TLS, with the real programs: what is trusted, and what an agent says that lost
//! its state.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::process::{RunningServer, data_dir, eventually};

/// A process that is stopped when the test is over.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

pub(crate) fn program(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_leasewatch-server")).parent().unwrap();
    let program = folder.join(name);
    assert!(program.exists(), "{name} is not built: run `cargo build --workspace`");
    program
}

/// Two cards that are well.
const SCENARIO: &str = "driver_version = \"590.48.01\"\nstarted_s_ago = 60\n[[cards]]\nmodel = \"T4\"\n\
    count = 2\nload = { shape = \"constant\", percent = 40 }\n";

fn agent(server: &RunningServer, state: &Path, certificate: Option<&Path>) -> Command {
    let scenario = state.with_extension("toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let mut command = Command::new(program("leasewatch-agent"));
    command
        .args(["run", "--name", "secure", "--server", &https(server), "--state-dir"])
        .arg(state)
        .arg("--nvml-library")
        .arg(program("libnvidia_ml_sim.so"))
        .env("LEASEWATCH_SIM_SCENARIO", scenario)
        .env_remove("LEASEWATCH_SERVER_CERTIFICATE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(certificate) = certificate {
        command.arg("--server-certificate").arg(certificate);
    }
    command
}

/// Another command of the agent, with JSON of its answer.
fn told(command: &str, state: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(program("leasewatch-agent"))
        .args([command, "--json", "--state-dir"])
        .arg(state)
        .args(more)
        .env("LEASEWATCH_NVML_LIBRARY", program("libnvidia_ml_sim.so"))
        .env_remove("LEASEWATCH_SERVER_CERTIFICATE")
        .output()
        .unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code(), json.unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

/// What `doctor` finds in one check: its outcome and its words.
fn found(server: &RunningServer, state: &Path, certificate: &Path, id: &str) -> (String, String) {
    let url = https(server);
    let options = ["--server", &url, "--server-certificate", certificate.to_str().unwrap()];
    let (_, json) = told("doctor", state, &options);
    let check = json["checks"].as_array().unwrap().iter().find(|check| check["id"] == id);
    let check = check.unwrap_or_else(|| panic!("no {id}: {json}"));
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("found"))
}

fn https(server: &RunningServer) -> String {
    format!("https://{}", server.address)
}

pub(crate) fn nodes(server: &RunningServer) -> Vec<Value> {
    let overview = server.json("/overview.json");
    let tenants = overview["tenants"].as_array().unwrap();
    let providers = tenants.iter().flat_map(|tenant| tenant["providers"].as_array().unwrap());
    providers.flat_map(|provider| provider["nodes"].as_array().unwrap()).cloned().collect()
}

#[test]
fn an_agent_delivers_over_tls_and_a_lost_state_is_on_its_page() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let certificate = data.path().join("tls/certificate.pem");
    let state = data.path().join("agent");
    let running = Running(agent(&server, &state, Some(&certificate)).spawn().unwrap());
    let id = eventually("the node that delivers over TLS", || {
        let node = nodes(&server).into_iter().find(|node| node["name"] == "secure")?;
        Some(node["id"].as_str()?.to_owned())
    });
    let page = |server: &RunningServer| server.json(&format!("/nodes/{id}/node.json"));
    let begun = eventually("the start of its chain", || {
        let page = page(&server);
        (page["chain_starts"].as_array()?.len() == 1).then_some(page)
    });
    assert_eq!(
        (&begun["chain_starts"][0]["reason"], &begun["record_breaks"]),
        (&"joined".into(), &0.into())
    );
    // The node itself says the same. Its clock is the server's, so nothing is wrong with it.
    let status = eventually("a status of a connected agent", || {
        let (code, json) = told("status", &state, &[]);
        let has_looked = json["agent"]["nvml_available"] == true;
        (has_looked && json["agent"]["connected"] == true).then_some((code, json))
    });
    assert_eq!((status.0, &status.1["running"]), (Some(0), &Value::Bool(true)), "{}", status.1);
    assert_eq!(status.1["agent"]["node"], id.as_str());
    let way = |id| found(&server, &state, &certificate, id);
    assert!(way("server.reach").1.ends_with("answers, over TLS"), "{:?}", way("server.reach"));
    assert_eq!(way("server.identity"), ("ok".to_owned(), "the server of before".to_owned()));
    running.stop();

    std::fs::remove_file(state.join("state.toml")).unwrap();
    let _running = Running(agent(&server, &state, Some(&certificate)).spawn().unwrap());
    let broken = eventually("the break", || {
        let page = page(&server);
        (page["record_breaks"] == 1).then_some(page)
    });
    assert_eq!(broken["chain_starts"][0]["reason"], "lost_state");
    let html = server.get(&format!("/nodes/{id}?lang=en"));
    assert!(html.contains("A new record began"), "the break is in the list of events");

    // The import client trusts by the same option.
    let log = data.path().join("log.csv");
    let rows: Vec<String> =
        (0..10).map(|second| format!("2026/04/20 10:00:{second:02}.000, 0, 50")).collect();
    std::fs::write(&log, format!("timestamp, index, utilization.gpu\n{}\n", rows.join("\n")))
        .unwrap();
    let import = |certificate: &[&str]| {
        Command::new(program("leasewatch-server"))
            .args(["import", "nvidia-smi", "--node", "archive", "--server", &https(&server)])
            .args(certificate)
            .arg("--key-dir")
            .arg(data.path().join("imports"))
            .arg(&log)
            .env_remove("LEASEWATCH_SERVER_CERTIFICATE")
            .output()
            .unwrap()
    };
    let refused = import(&[]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("--server-certificate FILE"), "{text}");
    let taken = import(&["--server-certificate", certificate.to_str().unwrap()]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    assert!(String::from_utf8_lossy(&taken.stdout).contains("https://"));
}

#[test]
fn an_agent_with_another_certificate_or_none_tells_the_server_nothing() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let other = data.path().join("other.pem");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&other, made.cert.pem()).unwrap();
    let mut child = agent(&server, &data.path().join("agent"), Some(&other))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(child.stderr.take().unwrap());
    let _running = Running(child);
    let told = log.lines().map_while(Result::ok).any(|line| line.contains("another certificate"));
    assert!(told, "the agent says why it does not connect");
    assert!(nodes(&server).is_empty());
    let (outcome, words) = found(&server, &data.path().join("agent"), &other, "server.reach");
    assert!(outcome == "differs" && words.contains("another certificate"), "{words}");

    let alone =
        agent(&server, &data.path().join("alone"), None).stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert_eq!(alone.status.code(), Some(2), "{text}");
    assert!(text.contains("--server-certificate FILE"), "{text}");
}
