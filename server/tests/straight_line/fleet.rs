//! Real agents on simulated GPUs, through the C interface, to `hours.csv` and the pages.
//!
//! One agent for each mode of the simulator runs for some seconds, all at once; some are stopped
//! and started again. Then all say goodbye, and their hours are closed by a job that is told that
//! the hour is over. Each mode must end in a gap with the right cause, an event, or a reading that
//! says what is or why there is none: never in a zero, and never on the other GPU of the node.

#[path = "fleet/agent.rs"]
mod agent;
#[path = "fleet/gaps.rs"]
mod gaps;
#[path = "fleet/modes.rs"]
mod modes;
#[path = "fleet/partitions.rs"]
mod partitions;
#[path = "fleet/readings.rs"]
mod readings;
#[path = "fleet/recorded.rs"]
mod recorded;
#[path = "fleet/restarts.rs"]
mod restarts;
#[path = "fleet/script.rs"]
mod script;

use std::collections::HashSet;
use std::path::Path;

use leasewatch_core::metering::GapCause;
use leasewatch_core::time::HOUR_MS;
use leasewatch_server::clock::Clock;
use leasewatch_server::embedded_postgres::EmbeddedPostgres;
use leasewatch_server::jobs::{self, Jobs};
use leasewatch_server::live::Live;
use leasewatch_server::store::{Db, Scope, event, node};
use serde_json::Value;

use crate::process::{RunningServer, data_dir, eventually};
use agent::write_scenario;
pub(crate) use agent::{Agent, epoch_wall_ms, programs, scenario};
use modes::Mode;
pub(crate) use recorded::{Recorded, cells};
use recorded::{Row, Slot, all_hours};

/// Seconds of the scenario after which an agent that is to be restarted has recorded enough, and
/// for which it runs again.
const RESTART_S: i64 = 7;

/// A mode that is played.
struct Played {
    mode: Mode,
    agent: Agent,
    /// Second of its scenario that has to be over.
    until_s: i64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_of_the_simulator_ends_in_a_cause_and_never_in_a_zero() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let modes = [gaps::modes(), readings::modes(), restarts::modes()].into_iter().flatten();
    let mut played: Vec<Played> = modes.map(|mode| play(&server, data.path(), mode)).collect();
    let db = connect(data.path()).await;

    restart_some(&mut played);
    let live = eventually("what each mode shows while it runs", || {
        let overview = server.json("/overview.json");
        let happened = wait_on(urgent_events(&db));
        played.iter().all(|p| p.shows_itself(&overview, &happened)).then_some(overview)
    });
    assert_live_readings(&live, &played);
    Agent::stop_all(played.iter_mut().map(|p| &mut p.agent).collect());

    close_hours(&db).await;
    let rows = all_hours(&server);
    for Played { mode, .. } in &played {
        let recorded = Recorded::load(&db, &server, &rows, mode.name).await;
        eprintln!("what was stored of {}", mode.name);
        check(mode, &recorded);
        (mode.check)(&recorded);
    }
}

fn play(server: &RunningServer, folder: &Path, mode: Mode) -> Played {
    write_scenario(folder, mode.name, &scenario(mode.scenario), mode.begins_s);
    let agent = Agent::start(server, folder, mode.name, mode.cadence);
    Played { until_s: if mode.restarts { RESTART_S } else { mode.until_s }, mode, agent }
}

impl Played {
    /// Far enough. The second counts from the moment at which the agent opened NVML.
    fn is_recorded(&self) -> bool {
        self.agent.scenario_second().is_some_and(|second| second >= self.until_s)
    }

    fn shows_itself(&self, overview: &Value, happened: &HashSet<(String, &'static str)>) -> bool {
        let event = self.mode.urgent.map(|kind| (self.mode.name.to_owned(), kind));
        let is_there = if self.mode.blind {
            node_of(overview, self.mode.name).is_some()
        } else {
            node_of(overview, self.mode.name).is_some() && self.is_recorded()
        };
        is_there && event.is_none_or(|event| happened.contains(&event))
    }
}

/// Stops the agents that are to be restarted once they have recorded, and starts them again.
fn restart_some(played: &mut [Played]) {
    let mut some: Vec<&mut Played> = played.iter_mut().filter(|p| p.mode.restarts).collect();
    eventually("agents to restart", || some.iter().all(|p| p.is_recorded()).then_some(()));
    Agent::stop_all(some.iter_mut().map(|p| &mut p.agent).collect());
    for p in some {
        p.agent.start_again();
        p.until_s = p.agent.scenario_second().unwrap() + RESTART_S;
    }
}

fn wait_on<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

/// The kinds of event that arrived, with the name of the node.
async fn urgent_events(db: &Db) -> HashSet<(String, &'static str)> {
    let mut tx = db.begin(Scope::Worker).await.unwrap();
    let nodes = node::list(&mut tx).await.unwrap();
    let name = |key| nodes.iter().find(|node| node.key == key).unwrap().name.clone();
    let rows = event::recent(&mut tx, 100_000).await.unwrap();
    rows.iter().map(|row| (name(row.node), row.event.kind.name())).collect()
}

pub(crate) async fn connect(data: &Path) -> Db {
    let url = EmbeddedPostgres::running_url(data, "leasewatch_login", "leasewatch").unwrap();
    Db::connect(&url, 2).await.unwrap()
}

/// Closes every hour that has begun, as if it were over.
pub(crate) async fn close_hours(db: &Db) {
    let later = Clock::system().now().plus_ms(2 * HOUR_MS);
    let of_later = Jobs { db: db.clone(), live: Live::new(), clock: Clock::manual(later) };
    jobs::close_hours::turn(&of_later, true).await.unwrap();
}

/// What holds of every mode: its gap on its slot, nothing on the others, and law M in each row.
fn check(mode: &Mode, recorded: &Recorded) {
    for (number, slot) in recorded.slots.iter().enumerate() {
        let own = mode.gap.filter(|_| number == 0 || mode.whole_node);
        match own {
            Some(cause) => assert!(slot.gap_ms(cause) > 1_000, "{cause} {:?}", slot.rows),
            None => assert!(slot.measured_ms() > 4_000, "slot {number}: {:?}", slot.rows),
        }
        for cause in GapCause::ALL.map(GapCause::name) {
            let allowed_ms = match cause {
                "agent_restart" => i64::MAX,
                "unexplained" => recorded.late_start_ms,
                _ => 0,
            };
            let ms = slot.gap_ms(cause);
            assert!(Some(cause) == own || ms <= allowed_ms, "{number}, {cause}: {:?}", slot.rows);
        }
        slot.rows.iter().for_each(check_row);
        check_page(on_page(recorded, number), own, slot);
    }
    let on_page = recorded.page["events"].as_array().unwrap();
    if let Some(kind) = mode.urgent {
        assert!(on_page.iter().any(|event| event["kind"] == kind), "{kind}: {on_page:?}");
    }
    assert_eq!(recorded.page["origin"], "simulated");
}

fn check_row(row: &Row) {
    assert_eq!(row["origin"], "simulated", "the mark cannot be lost");
    let number = |column: &str| row[column].parse::<i64>().unwrap();
    let gaps: i64 = GapCause::ALL.iter().map(|c| number(&format!("gap_{}_ms", c.name()))).sum();
    assert_eq!(number("enrolled_ms"), number("measured_ms") + gaps, "law M: {row:?}");
    assert_eq!(row["util_mean_ppm"].is_empty(), number("measured_ms") == 0, "{row:?}");
}

/// The slot's row of the node's page, where slices follow their GPU.
fn on_page(recorded: &Recorded, number: usize) -> &Value {
    let gpus = recorded.page["gpus"].as_array().unwrap();
    gpus.iter().find(|gpu| gpu["number"] == number).unwrap()
}

/// The node's page has the cause too. By the server's clock the hour that was closed here is not
/// over yet, so the page adds the open hour to it: its sums are no less than the record's.
fn check_page(gpu: &Value, own: Option<&str>, slot: &Slot) {
    let gaps_of = |cause: &str| cells(gpu, &format!("gaps/{cause}"));
    if let Some(cause) = own {
        assert!(gaps_of(cause) >= slot.gap_ms(cause), "{cause}: {}", gpu["hours"]);
    }
    assert!(cells(gpu, "measured_ms") >= slot.measured_ms(), "{}", gpu["hours"]);
    assert_eq!(cells(gpu, "measured_ms") == 0, slot.measured_ms() == 0, "{}", gpu["hours"]);
}

fn node_of<'a>(overview: &'a Value, name: &str) -> Option<&'a Value> {
    let tenants = overview["tenants"].as_array()?;
    let providers = tenants.iter().filter_map(|t| t["providers"].as_array()).flatten();
    let mut nodes = providers.filter_map(|p| p["nodes"].as_array()).flatten();
    nodes.find(|node| node["name"] == name)
}

fn gpus_of<'a>(overview: &'a Value, name: &str) -> &'a [Value] {
    let gpus = node_of(overview, name).and_then(|node| node["gpus"].as_array());
    gpus.map_or(&[], Vec::as_slice)
}

fn is_read(gpu: &Value) -> bool {
    gpu["live"]["busy_pct"].is_i64()
}

/// What the overview shows while all run: a GPU in trouble says so and blinds no other. GPUs stand
/// there from their first segment on, which an urgent event ends at once.
fn assert_live_readings(overview: &Value, played: &[Played]) {
    let gpu = |name: &str, slot: usize| &gpus_of(overview, name)[slot];
    assert_eq!((&gpu("hang", 0)["stalled"], is_read(gpu("hang", 0))), (&Value::Bool(true), false));
    for name in ["gpu-lost", "reset-required"] {
        assert_eq!((&gpu(name, 0)["lost"], is_read(gpu(name, 0))), (&Value::Bool(true), false));
    }
    for mode in played.iter().map(|p| &p.mode).filter(|mode| !mode.blind) {
        for other in gpus_of(overview, mode.name).iter().skip(1) {
            assert!(is_read(other), "{}: {other}", mode.name);
            assert_eq!((&other["lost"], &other["stalled"]), (&false.into(), &false.into()));
        }
    }
}
