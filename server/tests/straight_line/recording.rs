//! A recording made without a server, looked at in the terminal, and imported later.

use std::path::Path;
use std::process::{Command, Output};

use leasewatch_server::clock::Clock;
use serde_json::Value;

use crate::fleet::{close_hours, connect, programs, scenario};
use crate::imports::{node_id, utf8};
use crate::process::{RunningServer, data_dir};

fn agent(arguments: &[&str], dir: &Path) -> Output {
    let programs = programs();
    let scenario = dir.with_extension("toml");
    Command::new(programs.join("leasewatch-agent"))
        .args(arguments)
        .arg(dir)
        .env("LEASEWATCH_NVML_LIBRARY", programs.join("libnvidia_ml_sim.so"))
        .env("LEASEWATCH_SIM_SCENARIO", scenario)
        .output()
        .unwrap()
}

fn import(server: &RunningServer, dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(["import", "spool", "--node", "recorded", "--server", &server.url()])
        .arg(dir)
        .output()
        .unwrap()
}

/// Measured milliseconds of all hours, once they are closed; each row has the mark.
async fn measured_ms(server: &RunningServer, data: &Path, node: &str) -> i64 {
    const DAY_MS: i64 = 86_400_000;
    close_hours(&connect(data).await).await;
    let day = |ms: i64| chrono::DateTime::from_timestamp_millis(ms).unwrap().format("%Y-%m-%d");
    let now = Clock::system().now().0;
    let (from, to) = (day(now - DAY_MS), day(now + DAY_MS));
    let rows = server.hours(&format!("from={from}&to={to}&node={node}"));
    assert!(!rows.is_empty() && rows.iter().all(|row| row["origin"] == "simulated"), "{rows:?}");
    rows.iter().map(|row| row["measured_ms"].parse::<i64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_is_reported_and_imported_once_with_its_mark() {
    let data = data_dir();
    let dir = data.path().join("recording");
    std::fs::write(dir.with_extension("toml"), scenario("demo-v100-t4")).unwrap();
    let recorded = agent(&["record", "--for", "4s", "--cadence", "100ms"], &dir);
    assert!(recorded.status.success(), "{}", utf8(&recorded.stderr));
    assert!(std::fs::read_to_string(dir.join("README.txt")).unwrap().contains("simulated"));

    let reported = agent(&["report", "--json", "--spool"], &dir);
    let report: Value = serde_json::from_slice(&reported.stdout).unwrap();
    let gpus = report["gpus"].as_array().unwrap();
    assert_eq!((&report["origin"], gpus.len()), (&Value::from("simulated"), 2));
    let of_gpus: i64 = gpus.iter().map(|gpu| gpu["measured_ms"].as_i64().unwrap()).sum();
    assert!(of_gpus > 2_000, "{report:#}");

    let server = RunningServer::start(data.path());
    let first = import(&server, &dir);
    let node = node_id(&first);
    let text = utf8(&first.stdout);
    assert!(text.contains("marked as simulated") && !text.contains("left out"), "{text}");
    // The terminal and the server have metered the same.
    assert_eq!(measured_ms(&server, data.path(), &node).await, of_gpus);
    let again = import(&server, &dir);
    assert_eq!(node_id(&again), node);
    assert!(utf8(&again.stdout).starts_with("imported 0 segments"), "{}", utf8(&again.stdout));
    assert_eq!(measured_ms(&server, data.path(), &node).await, of_gpus);
    // More of it is added to the same node.
    assert!(agent(&["record", "--for", "2s"], &dir).status.success());
    assert_eq!(node_id(&import(&server, &dir)), node);
    assert!(measured_ms(&server, data.path(), &node).await > of_gpus);
}
