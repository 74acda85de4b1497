//! The past of a simulated node, written by the simulator and imported, and the agent that goes on
//! with it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use leasewatch_server::clock::Clock;

use crate::fleet::{Agent, close_hours, connect, programs, scenario};
use crate::process::{RunningServer, data_dir, eventually};

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

/// On the second day: the T4 is lost at 01:00 and comes back with a reboot from 03:04 to 03:10.
/// The V100 works from 04:00 to 05:00, and then holds its memory and does nothing until 10:00.
const STORY: &str = r#"
scenario = "past.toml"
seed = 5

[jobs]
busy_min = [50, 90]
idle_min = [10, 20]
loads = [{ load = { shape = "training" } }]

[[spells]]
cards = [0]
at_s = 100_800
until_s = 104_400
load = { shape = "training" }

[[spells]]
cards = [0]
at_s = 104_400
until_s = 122_400
load = { shape = "constant", percent = 0 }
memory_used_mib = 16_000

[[faults]]
kind = "xid"
card = 1
at_s = 90_005
code = 79

[[faults]]
kind = "gpu_lost"
card = 1
at_s = 90_000
until_s = 97_800

[[stops]]
kind = "reboot"
at_s = 97_440
until_s = 97_800
"#;

/// Writes two days that end now into the server, as `./run` does for the demo.
fn import(server: &RunningServer, folder: &Path, until_ms: i64) -> Output {
    let mut generator = Command::new(programs().join("leasewatch-sim-history"))
        .arg(folder.join("story.toml"))
        .args(["--days", "2", "--until", &until_ms.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(["import", "history", "-", "--server", &server.url(), "--state"])
        .arg(folder.join("past"))
        .args(["--node", "past", "--tenant", "default", "--provider", "provider-a"])
        .stdin(generator.stdout.take().unwrap())
        .output()
        .unwrap();
    generator.wait().unwrap();
    output
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn chain_line(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("past/state.toml")).unwrap();
    text.lines().find(|line| line.starts_with("id = ")).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_goes_on_with_the_past_that_was_made_for_its_node() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let folder: PathBuf = data.path().to_owned();
    std::fs::write(folder.join("past.toml"), scenario("demo-v100-t4")).unwrap();
    std::fs::write(folder.join("story.toml"), STORY).unwrap();
    let until_ms = Clock::system().now().0 / 10_000 * 10_000;

    let imported = import(&server, &folder, until_ms);
    assert!(imported.status.success(), "{}", said(&imported.stderr));
    let node = said(&imported.stdout).trim().rsplit('/').next().unwrap().to_owned();
    let chain = chain_line(&folder);
    let again = import(&server, &folder, until_ms);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again.stdout));
    assert!(said(&again.stderr).contains("has recorded already"), "{}", said(&again.stderr));

    let mut agent = Agent::start(&server, &folder, "past", None);
    eventually("a segment of the agent", || {
        let text = std::fs::read_to_string(folder.join("past/state.toml")).ok()?;
        text.contains("[[gpu]]").then_some(())
    });
    Agent::stop_all(vec![&mut agent]);
    assert_eq!(chain_line(&folder), chain, "the agent goes on in the same chain");

    eventually("every hour of two days", || (rows(&server, &node).len() >= 96).then_some(()));
    close_hours(&connect(data.path()).await).await;
    check(&rows(&server, &node), until_ms);
    let page = server.get(&format!("/nodes/{node}?lang=en"));
    assert!(page.contains("XID 79") && page.contains("imulated"));
}

type Row = HashMap<String, String>;

fn rows(server: &RunningServer, node: &str) -> Vec<Row> {
    let day = |ms: i64| chrono::DateTime::from_timestamp_millis(ms).unwrap().format("%Y-%m-%d");
    let now = Clock::system().now().0;
    let (from, to) = (day(now - 72 * HOUR_MS), day(now + 24 * HOUR_MS));
    server.hours(&format!("from={from}&to={to}&node={node}"))
}

fn number(row: &Row, column: &str) -> i64 {
    row[column].parse().unwrap()
}

fn check(rows: &[Row], until_ms: i64) {
    assert!(rows.iter().all(|row| row["origin"] == "simulated"));
    let slots: std::collections::BTreeSet<(&str, &str)> =
        rows.iter().map(|row| (row["slot"].as_str(), row["gpu_uuid"].as_str())).collect();
    assert_eq!(slots.len(), 2, "the live GPUs are those of the past: {slots:?}");
    let gaps = |row: &Row| -> i64 {
        let gap = |(name, _): &(&String, &String)| name.starts_with("gap_");
        row.iter().filter(gap).map(|(_, ms)| ms.parse::<i64>().unwrap()).sum()
    };
    for row in rows {
        assert_eq!(number(row, "enrolled_ms"), number(row, "measured_ms") + gaps(row), "{row:?}");
    }
    let midnight = (until_ms - 48 * HOUR_MS).div_euclid(24 * HOUR_MS) * 24 * HOUR_MS;
    let second_day = midnight + 24 * HOUR_MS;
    let of_slot = |slot: &str, from_ms: i64, to_ms: i64| -> Vec<Row> {
        let start = |row: &Row| {
            chrono::DateTime::parse_from_rfc3339(&row["hour_utc"]).unwrap().timestamp_millis()
        };
        let within = |row: &&Row| row["slot"] == slot && (from_ms..to_ms).contains(&start(row));
        rows.iter().filter(within).cloned().collect()
    };
    let sum = |rows: &[Row], column: &str| rows.iter().map(|r| number(r, column)).sum::<i64>();

    // Lost, and not a zero; the other card works on. Down with the host, both are.
    let night = (second_day + HOUR_MS, second_day + 4 * HOUR_MS);
    let (v100, t4) = (of_slot("0", night.0, night.1), of_slot("1", night.0, night.1));
    assert_eq!(sum(&v100, "gap_gpu_lost_ms"), 0);
    assert_eq!(sum(&v100, "gap_node_reboot_ms"), 6 * MINUTE_MS);
    assert_eq!(sum(&v100, "measured_ms"), 3 * HOUR_MS - 6 * MINUTE_MS);
    let lost_ms = sum(&t4, "gap_gpu_lost_ms") + sum(&t4, "gap_node_reboot_ms");
    assert_eq!(lost_ms, 130 * MINUTE_MS, "{t4:?}");
    assert!(sum(&t4, "gap_gpu_lost_ms") >= 124 * MINUTE_MS);
    assert_eq!(sum(&t4, "xid_count"), 1);

    // Abandoned: measured, at 0 %.
    let idle = of_slot("0", second_day + 5 * HOUR_MS, second_day + 10 * HOUR_MS);
    assert_eq!((sum(&idle, "measured_ms"), sum(&idle, "busy_pct_ms")), (5 * HOUR_MS, 0));
    let busy = of_slot("0", second_day + 4 * HOUR_MS, second_day + 5 * HOUR_MS);
    assert!(sum(&busy, "util_mean_ppm") > 900_000);

    // Between the past and the agent: nobody recorded, and that is said.
    let last = rows.iter().filter(|row| row["slot"] == "0").max_by_key(|r| r["hour_utc"].clone());
    let sources = |row: &Row| row["sources"].clone();
    assert!(rows.iter().any(|row| sources(row) == "import"));
    assert!(last.is_some_and(|row| sources(row).contains("driver_samples")), "{last:?}");
    assert!(sum(rows, "gap_agent_restart_ms") > 0);
    assert_eq!(sum(rows, "gap_unexplained_ms") / MINUTE_MS, 0);
}
