//! A stranger's log: imported, taken out as a capture, played by the simulator, recorded again.

use std::path::Path;
use std::process::{Command, Output};

use leasewatch_core::evidence::capture::{self, CaptureError, CapturedSegment};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Block, GpuBlock, Origin};
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};
use leasewatch_server::clock::Clock;
use leasewatch_server::store::segment::{Place, blocks};
use leasewatch_server::store::{Scope, node, slot};

use crate::fleet::{Agent, connect, epoch_wall_ms};
use crate::imports::{COLUMNS, fixture, import, node_id, rows, utf8};
use crate::process::{RunningServer, data_dir, eventually};

/// Seconds of the log in one of the replay: a row a second.
const SPEED: i64 = 5;

fn export(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(["export", "segments", "--data-dir"])
        .arg(data)
        .args([
            "--node",
            "rental",
            "--from",
            "2026-04-25T00:00:00Z",
            "--to",
            "2026-04-26T00:00:00Z",
        ])
        .args(arguments)
        .env_remove("DATABASE_URL")
        .env_remove("DATABASE_ADMIN_URL")
        .output()
        .unwrap()
}

fn gpu_blocks(segments: &[CapturedSegment]) -> Vec<GpuBlock> {
    let blocks = segments.iter().flat_map(|segment| &segment.blocks);
    blocks
        .filter_map(|block| if let Block::Gpu(gpu) = block { Some(gpu.clone()) } else { None })
        .collect()
}

/// (time, busy, power, memory in use) of each point that is a tick.
type Row = (i64, Reading, Option<Reading>, Option<Reading>);

fn readings(blocks: &[GpuBlock]) -> Vec<Row> {
    let of_block = |block: &GpuBlock| -> Vec<Row> {
        let column = |metric, at: usize| {
            let found = block.columns.iter().find(|column| column.metric == metric);
            found.and_then(|column| column.readings[at])
        };
        assert_eq!(block.ticks.len(), block.track.points.len(), "polled");
        let points = block.track.points.iter().enumerate();
        points
            .map(|(at, point)| {
                let (power, used) = (column(Metric::PowerDraw, at), column(Metric::MemoryUsed, at));
                (block.ticks[at].0, point.busy, power, used)
            })
            .collect()
    };
    blocks.iter().flat_map(of_block).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_imported_log_becomes_a_test() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let log = fixture("smi-trace-idle-rental.csv");
    let arguments = [log.to_str().unwrap(), "--node", "rental", "--columns", COLUMNS];
    let more = ["--cadence", "5", "--timezone", "Asia/Shanghai"];
    node_id(&import(&server, data.path(), &[&arguments[..], &more].concat()));

    let file = data.path().join("rental.lws");
    let path = file.to_str().unwrap();
    let exported = export(data.path(), &[path]);
    assert!(exported.status.success(), "{}", utf8(&exported.stderr));
    let bytes = std::fs::read(&file).unwrap();
    let segments = capture::read(&bytes).unwrap();
    assert!(segments.iter().all(|segment| segment.head.origin == Origin::Imported));
    let recorded = readings(&gpu_blocks(&segments));
    let text = std::fs::read_to_string(&log).unwrap();
    let busy = |(at, percent)| (at, Reading::Number(percent));
    let logged = rows(&text, 1, 8 * HOUR_MS).into_iter().map(busy);
    assert!(logged.eq(recorded.iter().map(|row| (row.0, row.1))), "every row of the log");
    refusals(data.path(), path, &segments);

    let played = play(&server, data.path(), &segments, &recorded).await;
    let different = played.iter().filter(|(again, row)| *again != (row.1, row.2, row.3)).count();
    assert!(played.len() >= 8 && different == 0, "{played:?}");
    assert!(played.iter().any(|(_, row)| row.1.number() > Some(0)), "{played:?}");
}

/// What cannot be taken out is said, and no file is left; a part can be checked like the whole.
fn refusals(data: &Path, path: &str, segments: &[CapturedSegment]) {
    let again = export(data, &[path]);
    assert_eq!(again.status.code(), Some(2), "an existing file stays");
    assert_eq!(capture::read(&std::fs::read(path).unwrap()).as_deref(), Ok(segments));
    let part = format!("{path}.part");
    assert!(export(data, &[&part, "--gpu", "GPU-none"]).status.success());
    let events = capture::read(&std::fs::read(&part).unwrap()).unwrap();
    assert_eq!(events.len(), segments.len());
    assert!(gpu_blocks(&events).is_empty());
    let mut torn = std::fs::read(path).unwrap();
    torn.truncate(torn.len() - 1);
    assert_eq!(capture::read(&torn), Err(CaptureError::Truncated));
    let none = format!("{path}.none");
    let unknown = export(data, &[&none, "--tenant", "demo"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(utf8(&unknown.stderr).contains("has no node") && !Path::new(&none).exists());
}

/// Records the busiest part of the log again; each reading with the row that it has to be.
async fn play(
    server: &RunningServer,
    folder: &Path,
    segments: &[CapturedSegment],
    recorded: &[Row],
) -> Vec<((Reading, Option<Reading>, Option<Reading>), Row)> {
    let start_ms = segments.iter().map(|segment| segment.head.period.start.0).min().unwrap();
    let busy = recorded.iter().find(|row| row.1.number() > Some(30)).unwrap().0;
    let begins_s = (busy - start_ms) / SPEED / 1_000 - 4;
    let epoch = folder.join("again.epoch");
    let scenario = format!(
        "driver_version = \"590.48.01\"\nepoch_file = {epoch:?}\nstarted_s_ago = {begins_s}\n\
         [replay]\nfile = \"rental.lws\"\nspeed = {SPEED}\n"
    );
    std::fs::write(folder.join("again.toml"), scenario).unwrap();
    let mut agent = Agent::start(server, folder, "again", None);
    eventually("fourteen seconds of it", || {
        (agent.scenario_second()? >= begins_s + 14).then_some(())
    });
    Agent::stop_all(vec![&mut agent]);

    let db = connect(folder).await;
    let mut tx = db.begin(Scope::Worker).await.unwrap();
    let nodes = node::list(&mut tx).await.unwrap();
    let again = nodes.into_iter().find(|node| node.name == "again").unwrap();
    assert_eq!(again.origin, Origin::Simulated, "what is played is simulated");
    let place = Place::Slot(slot::of_node(&mut tx, again.key).await.unwrap()[0].slot);
    let all = Period::new(Timestamp::MIN, Clock::system().now().plus_ms(HOUR_MS));
    let stored = blocks(&mut tx, again.key, place, all).await.unwrap();
    let decoded = stored.iter().map(|row| Block::decode(&row.body).unwrap());
    let blocks: Vec<GpuBlock> = decoded
        .filter_map(|block| if let Block::Gpu(gpu) = block { Some(gpu) } else { None })
        .collect();

    let epoch_ms = epoch_wall_ms(folder, "again");
    let row_at = |wall_ms: i64| {
        let at_ms = start_ms + (wall_ms - epoch_ms) * SPEED;
        recorded.iter().find(|row| row.0 >= at_ms).copied()
    };
    // A reading takes a moment: one at the edge of two rows can be of either.
    let sure = |(at, busy, power, used): Row| {
        let row = row_at(at - 60).filter(|row| row_at(at + 60) == Some(*row))?;
        Some(((busy, power, used), row))
    };
    readings(&blocks).into_iter().filter_map(sure).collect()
}
