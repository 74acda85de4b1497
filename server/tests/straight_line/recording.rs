//! A recording made without a server, looked at in the terminal, and imported later.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use leasewatch_core::id::Hash;
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_server::clock::Clock;
use leasewatch_server::store::{Scope, node, segment};
use serde_json::Value;

use crate::fleet::{close_hours, connect, programs, scenario};
use crate::imports::{node_id, outcome, upload, utf8};
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

/// U1: what an agent of version 0.1.0 left on its disk is taken as it was signed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spool_of_0_1_0_is_imported_head_for_head() {
    let data = data_dir();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/tests/fixtures/state-0.1.0");
    let dir = data.path().join("old");
    std::fs::create_dir_all(dir.join("spool")).unwrap();
    for file in ["node.key", "spool/0000000001.spool"] {
        std::fs::copy(fixture.join(file), dir.join(file)).unwrap();
        std::fs::set_permissions(dir.join(file), Permissions::from_mode(0o600)).unwrap();
    }
    let server = RunningServer::start(data.path());
    let output = import(&server, &dir);
    let text = utf8(&output.stdout);
    assert!(text.starts_with("imported 5 segments"), "{text}{}", utf8(&output.stderr));
    assert!(text.contains("marked as simulated") && !text.contains("left out"), "{text}");
    let db = connect(data.path()).await;
    let mut tx = db.begin(Scope::Worker).await.unwrap();
    let id = node_id(&output).parse().unwrap();
    let row = node::by_public_id(&mut tx, id).await.unwrap().unwrap();
    let everything = Period::new(Timestamp::MIN, Timestamp::MAX);
    let heads = segment::heads(&mut tx, row.key, everything).await.unwrap();
    let stored: Vec<String> =
        heads.iter().map(|row| Hash::of(&row.head.statement()).to_string()).collect();
    let recorded = std::fs::read_to_string(fixture.join("heads.txt")).unwrap();
    assert_eq!(stored, recorded.lines().collect::<Vec<_>>());
}

/// The folder as `tar -czf` packs it.
fn packed(dir: &Path) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    archive.append_dir_all("recording", dir).unwrap();
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn a_recording_is_uploaded_on_a_page_once_and_leaves_no_key_behind() {
    let data = data_dir();
    let dir = data.path().join("recording");
    std::fs::write(dir.with_extension("toml"), scenario("demo-v100-t4")).unwrap();
    assert!(agent(&["record", "--for", "2s", "--cadence", "100ms"], &dir).status.success());
    let server = RunningServer::start(data.path());
    let send = |archive: &[u8], name| {
        let (status, location, page) =
            upload(&server, &[("node", "recorded")], Some((name, archive)), "");
        assert_eq!(status, 303, "{page}");
        (outcome(&server, &location), location)
    };

    let (view, location) = send(&packed(&dir), "recording.tgz");
    assert_eq!((&view["state"], &view["origin"]), (&"recorded".into(), &"simulated".into()));
    assert!(view["segments"].as_i64().unwrap() > 0 && view["left_out"] == Value::Array(vec![]));
    let page = server.get(&location);
    assert!(page.contains("SIMULATED") && page.contains("parts recorded"), "{page}");
    assert!(server.get(&location.replace("lang=en", "lang=zh-CN")).contains("新记录的数据段"));
    // The command line finds all of it there, and so does a second upload.
    let output = import(&server, &dir);
    assert_eq!(Value::from(node_id(&output)), view["node"]);
    assert!(utf8(&output.stdout).starts_with("imported 0 segments"), "{output:?}");
    let (again, _) = send(&packed(&dir), "again.tgz");
    assert_eq!((&again["node"], &again["segments"]), (&view["node"], &0.into()));
    assert_eq!(again["segments_covered"], view["segments"]);

    // With the key of a server it is an agent's own state, which is not taken.
    std::fs::write(dir.join("server.pub"), "00\n").unwrap();
    let (refused, location) = send(&packed(&dir), "state.tgz");
    assert_eq!(
        (&refused["failure"], &refused["recording"]),
        (&"recording".into(), &"agent_state".into())
    );
    assert!(server.get(&location).contains("Its key must not leave its machine"));
    let left = std::fs::read_dir(data.path().join("uploads")).unwrap();
    assert_eq!(left.count(), 0, "neither archive nor key stays");
}
