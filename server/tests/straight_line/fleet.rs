//! Real agents on simulated GPUs, through the C interface, to `hours.csv` and the pages.
//!
//! One agent for each mode of the simulator runs for some seconds, says goodbye, and its hour is
//! closed by a job that is told that the hour is over. Each mode must end in a gap with the right
//! cause, an event, or a reading that says why there is none: never in a zero, and never on the
//! other GPU of the node.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use leasewatch_core::segment::Block;
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};
use leasewatch_server::clock::Clock;
use leasewatch_server::embedded_postgres::EmbeddedPostgres;
use leasewatch_server::jobs::{Jobs, close_hours};
use leasewatch_server::live::Live;
use leasewatch_server::store::segment::{self, Place};
use leasewatch_server::store::{Db, Scope, node};
use serde_json::Value;

use crate::process::{RunningServer, data_dir, eventually};

type Row = HashMap<String, String>;

/// An agent on a scenario, as a process of its own.
struct Agent {
    child: Child,
}

impl Agent {
    fn start(server: &RunningServer, state: &Path, name: &str, scenario: &Path) -> Self {
        let folder = programs();
        let child = Command::new(folder.join("leasewatch-agent"))
            .args(["run", "--tenant", "default", "--provider", "provider-a", "--name", name])
            .args(["--server", &server.url(), "--state-dir"])
            .arg(state.join(name))
            .arg("--nvml-library")
            .arg(folder.join("libnvidia_ml_sim.so"))
            .env("LEASEWATCH_SIM_SCENARIO", scenario)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child }
    }

    /// Asks it to stop as a supervisor would; it says goodbye and delivers what it has.
    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where cargo puts the programs of the workspace; `./test` builds them all first.
fn programs() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_leasewatch-server")).parent().unwrap();
    for name in ["leasewatch-agent", "libnvidia_ml_sim.so"] {
        assert!(folder.join(name).exists(), "{name} is not built: run `cargo build --workspace`");
    }
    folder.to_owned()
}

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../nvml-sim/scenarios/{name}.toml"))
}

/// Closes every hour that has begun, as if it were over.
async fn close_all_hours(data: &Path) -> Db {
    let url = EmbeddedPostgres::running_url(data, "leasewatch_login", "leasewatch").unwrap();
    let db = Db::connect(&url, 2).await.unwrap();
    let later = Clock::system().now().plus_ms(2 * HOUR_MS);
    let jobs = Jobs { db: db.clone(), live: Live::new(), clock: Clock::manual(later) };
    close_hours::turn(&jobs).await.unwrap();
    db
}

/// Rows of a node that hold enrolled time, by slot; a run over an hour's end has two per GPU.
fn rows_by_slot(rows: &[Row], node: &str) -> BTreeMap<u16, Vec<Row>> {
    let mut slots: BTreeMap<u16, Vec<Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row["node_name"] == node) {
        slots.entry(row["slot"].parse().unwrap()).or_default().push(row.clone());
    }
    slots
}

fn sum(rows: &[Row], column: &str) -> i64 {
    rows.iter().map(|row| row[column].parse::<i64>().unwrap()).sum()
}

fn all_hours(server: &RunningServer) -> Vec<Row> {
    let now = Clock::system().now();
    let day = |at: Timestamp| at.to_string()[..10].to_owned();
    server.hours(&format!("from={}&to={}", day(now.plus_ms(-HOUR_MS)), day(now)))
}

/// What a mode must show.
struct Mode {
    scenario: &'static str,
    /// Cause of the gap on the first slot, or `None` where it is measured all the same.
    gap: Option<&'static str>,
    /// An event that has to be on the node's page.
    event: Option<&'static str>,
}

const fn mode(
    scenario: &'static str,
    gap: Option<&'static str>,
    event: Option<&'static str>,
) -> Mode {
    Mode { scenario, gap, event }
}

const MODES: [Mode; 9] = [
    mode("training", None, Some("gpu_seen")),
    mode("gpu-lost", Some("gpu_lost"), Some("gpu_lost")),
    mode("reset-required", Some("gpu_lost"), Some("gpu_lost")),
    mode("hang", Some("nvml_error"), Some("collector_stalled")),
    mode("mig-on", Some("unsupported"), None),
    mode("nvml-error", Some("nvml_error"), None),
    mode("xid", None, Some("xid")),
    mode("masked", None, None),
    mode("old-driver", None, None),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_of_the_simulator_ends_in_a_cause_and_never_in_a_zero() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let agents: Vec<(&Mode, Agent)> = MODES
        .iter()
        .map(|m| (m, Agent::start(&server, data.path(), m.scenario, &scenario(m.scenario))))
        .collect();
    let live = eventually("what each mode shows while it runs", || {
        let overview = server.json("/overview.json");
        MODES.iter().all(|m| shows_itself(&server, &overview, m)).then_some(overview)
    });
    assert_masked_readings_say_so(&live);
    agents.into_iter().for_each(|(_, agent)| agent.stop());
    close_all_hours(data.path()).await;
    let rows = all_hours(&server);
    for m in &MODES {
        let slots = rows_by_slot(&rows, m.scenario);
        let first = &slots[&0];
        match m.gap {
            Some(cause) => {
                let ms = sum(first, &format!("gap_{cause}_ms"));
                assert!(ms > 1_000, "{}: {ms} ms of {cause}; {first:?}", m.scenario);
            }
            None => assert!(sum(first, "measured_ms") > 4_000, "{}: {first:?}", m.scenario),
        }
        // The other GPU of the node was measured all the time.
        for others in slots.iter().filter(|(slot, _)| **slot > 0).map(|(_, rows)| rows) {
            assert!(sum(others, "measured_ms") > 4_000, "{}: {others:?}", m.scenario);
            for cause in ["gpu_lost", "nvml_error", "unsupported"] {
                assert_eq!(sum(others, &format!("gap_{cause}_ms")), 0, "{}", m.scenario);
            }
        }
        for row in slots.values().flatten() {
            assert_eq!(row["origin"], "simulated", "the mark cannot be lost");
            assert_law_m(row);
        }
    }
    let mig = &rows_by_slot(&rows, "mig-on")[&0];
    assert_eq!(
        (sum(mig, "measured_ms"), mig[0]["util_mean_ppm"].as_str()),
        (0, ""),
        "no data is not 0 %"
    );
    assert!(sum(&rows_by_slot(&rows, "xid")[&0], "xid_count") >= 1);
}

/// Enrolled time is measured time plus gaps, to the millisecond.
fn assert_law_m(row: &Row) {
    let gaps = row.iter().filter(|(column, _)| column.starts_with("gap_"));
    let gaps: i64 = gaps.map(|(_, ms)| ms.parse::<i64>().unwrap()).sum();
    let number = |column: &str| row[column].parse::<i64>().unwrap();
    assert_eq!(number("enrolled_ms"), number("measured_ms") + gaps, "{row:?}");
}

fn node_of<'a>(overview: &'a Value, name: &str) -> Option<&'a Value> {
    let tenants = overview["tenants"].as_array()?;
    let providers = tenants.iter().filter_map(|t| t["providers"].as_array()).flatten();
    let mut nodes = providers.filter_map(|p| p["nodes"].as_array()).flatten();
    nodes.find(|node| node["name"] == name)
}

/// The mode's event is on the node's page, and enough was recorded after it.
fn shows_itself(server: &RunningServer, overview: &Value, mode: &Mode) -> bool {
    let Some(id) = node_of(overview, mode.scenario).and_then(|node| node["id"].as_str()) else {
        return false;
    };
    let node = server.json(&format!("/nodes/{id}/node.json"));
    let events = node["events"].as_array().unwrap();
    let happened = |kind: &str| events.iter().any(|event| event["kind"] == kind);
    let recorded = node["agent"]["started_at"].as_str().and_then(Timestamp::parse_iso);
    // Eight seconds: the hang is noticed after five.
    let long_enough = recorded.is_some_and(|at| Clock::system().now().since(at) > 12_000);
    long_enough && mode.event.is_none_or(happened)
}

fn assert_masked_readings_say_so(overview: &Value) {
    let masked = &node_of(overview, "masked").unwrap()["gpus"][0]["live"];
    assert_eq!(masked["power_draw_mw"]["missing"], "unsupported");
    assert!(masked["busy_pct"].is_i64());
    let hung = &node_of(overview, "hang").unwrap()["gpus"];
    assert_eq!(hung[0]["stalled"], true);
    assert!(hung[1]["live"]["busy_pct"].is_i64(), "a hung GPU does not blind the other");
    let lost = &node_of(overview, "gpu-lost").unwrap()["gpus"];
    assert_eq!((&lost[0]["lost"], &lost[1]["lost"]), (&Value::Bool(true), &Value::Bool(false)));
}

const SCRIPT: &str = r#"
driver_version = "590.48.01"
samples_per_second = 5
# The driver's buffer is filled already when the agent comes.
started_s_ago = 10

[[cards]]
model = "H100-SXM5-80GB"
load = { shape = "script", steps = [[0, 100], [15, 0], [18, 40], [22, 93]] }
"#;

/// Milliseconds by percent of a node's rows, as the statement of the hour holds them.
fn histogram(points: &[(i64, i64)], period_ms: i64) -> BTreeMap<i64, i64> {
    let mut sums = BTreeMap::new();
    for (index, (at, percent)) in points.iter().enumerate() {
        let before = index.checked_sub(1).map_or(at - period_ms, |i| points[i].0);
        *sums.entry(*percent).or_insert(0) += at - before;
    }
    sums
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scripted_scenario_is_exact_to_the_millisecond() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let script = data.path().join("script.toml");
    std::fs::write(&script, SCRIPT).unwrap();
    let agent = Agent::start(&server, data.path(), "scripted", &script);
    eventually("the script's last step", || {
        let overview = server.json("/overview.json");
        let live = &node_of(&overview, "scripted")?["gpus"][0]["live"]["busy_pct"];
        (live == 93).then_some(())
    });
    agent.stop();
    let db = close_all_hours(data.path()).await;
    let rows = all_hours(&server);

    // What the track says, decoded from the stored blocks.
    let mut tx = db.begin(Scope::Worker).await.unwrap();
    let row = node::list(&mut tx).await.unwrap().pop().unwrap();
    let everything = Period::new(Timestamp::MIN, Clock::system().now().plus_ms(HOUR_MS));
    let place = Place::Slot(leasewatch_core::id::SlotNo(0));
    let blocks = segment::blocks(&mut tx, row.key, place, everything).await.unwrap();
    let mut points: Vec<(i64, i64)> = Vec::new();
    for block in &blocks {
        let Block::Gpu(block) = Block::decode(&block.body).unwrap() else { panic!("no gpu block") };
        assert_eq!(block.track.period_ms, 200);
        points.extend(block.track.points.iter().map(|p| (p.at.0, p.busy.number().unwrap())));
    }
    let expected = histogram(&points, 200);
    let (busy, measured) = (sum(&rows, "busy_pct_ms"), sum(&rows, "measured_ms"));
    assert_eq!(measured, expected.values().sum::<i64>());
    assert_eq!(busy, expected.iter().map(|(percent, ms)| percent * ms).sum::<i64>());

    // What the script says: whole steps, known to the millisecond without looking at any sample.
    assert_eq!(expected[&0], 3_000);
    assert_eq!(expected[&40], 4_000);
    assert_eq!(expected.keys().copied().collect::<Vec<_>>(), [0, 40, 93, 100]);
    for row in &rows {
        assert_law_m(row);
        assert_eq!(row["sources"], "driver_samples");
    }
}
