//! GPUs in MIG mode: rows for their slices, to the millisecond against the script, and never a zero
//! where nothing can be measured.

use leasewatch_core::metering::GapCause;
use leasewatch_core::sample::Metric;
use leasewatch_core::segment::EventKind;

use super::agent::{Agent, write_scenario};
use super::recorded::{Recorded, Slot, all_hours};
use super::{check_row, close_hours, connect, on_page};
use crate::process::{RunningServer, data_dir, eventually};

const CUT: &str = "mig-cut";
const BLIND: &str = "mig-without-gpm";
const STARTED_S_AGO: i64 = 10;
/// Second at which the card is cut anew, and the one that has to be over at the end.
const ANEW_S: i64 = 18;
const UNTIL_S: i64 = 24;
/// The cadence, which is the period of a slice's track.
const PERIOD_MS: i64 = 1_000;

/// GPU instance, compute instance, compute slices, percent; `None` = GPM cannot tell it apart.
type Part = (u8, u8, i64, Option<i64>);
const FIRST: [Part; 4] =
    [(2, 0, 3, Some(90)), (5, 0, 1, None), (5, 1, 1, None), (9, 0, 1, Some(0))];
const SECOND: Part = (0, 0, 7, Some(30));

fn scenario(model: &str) -> String {
    format!(
        r#"driver_version = "590.48.01"
started_s_ago = {STARTED_S_AGO}
[[cards]]
model = "{model}"
load = {{ shape = "constant", percent = 50 }}
[[faults]]
kind = "mig_on"
until_s = {ANEW_S}
slices = [
    {{ compute_slices = 3, gpu_instance = 2, percent = 90 }},
    {{ compute_slices = 2, gpu_instance = 5, compute_instances = 2, percent = 70 }},
    {{ compute_slices = 1, gpu_instance = 9, percent = 0 }},
]
[[faults]]
kind = "mig_on"
at_s = {ANEW_S}
slices = [{{ compute_slices = 7, gpu_instance = 0, percent = 30 }}]
"#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_of_a_gpu_are_rows_of_their_own() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    write_scenario(data.path(), CUT, &scenario("H100-SXM5-80GB"), None);
    write_scenario(data.path(), BLIND, &scenario("A100-SXM4-80GB"), None);
    let mut agents = [CUT, BLIND].map(|name| Agent::start(&server, data.path(), name, None));
    eventually("the second cut's readings", || {
        let is_over = |agent: &Agent| agent.scenario_second().is_some_and(|s| s >= UNTIL_S);
        agents.iter().all(is_over).then_some(())
    });
    // On a busy machine the first live frame may come after the last reading of the script.
    let overview = eventually("both GPUs on the overview", || {
        let overview = server.json("/overview.json");
        let is_there = |name: &&str| !super::gpus_of(&overview, name).is_empty();
        [CUT, BLIND].iter().all(is_there).then_some(overview)
    });
    for name in [CUT, BLIND] {
        assert_eq!(super::gpus_of(&overview, name).len(), 1, "{name}: a GPU is one GPU");
    }
    assert_eq!(overview["totals"]["gpus_expected"], 2);
    Agent::stop_all(agents.iter_mut().collect());
    let db = connect(data.path()).await;
    close_hours(&db).await;
    let rows = all_hours(&server);
    let cut = Recorded::load(&db, &server, &rows, CUT).await;
    check_cut(&cut);
    check_pages(&server, &cut);
    check_blind(&Recorded::load(&db, &server, &rows, BLIND).await);
}

fn slot_of(recorded: &Recorded, (gpu_instance, compute_instance, ..): Part) -> &Slot {
    let is_it = |slot: &&Slot| {
        let place = slot.place.instance;
        place.is_some_and(|at| {
            (at.gpu_instance, at.compute_instance) == (gpu_instance, compute_instance)
        })
    };
    recorded.slots.iter().find(is_it).unwrap()
}

/// Sum of a slot's gaps.
fn gaps_ms(slot: &Slot) -> i64 {
    GapCause::ALL.iter().map(|cause| slot.gap_ms(cause.name())).sum()
}

/// What the record says of a slice that the script knows.
fn check_share(recorded: &Recorded, slot: &Slot, part: Part) {
    let parent = &recorded.slots[0].rows[0]["gpu_uuid"];
    assert!(!slot.rows.is_empty(), "{part:?}");
    for row in &slot.rows {
        check_row(row);
        assert_eq!(
            (&row["parent_gpu_uuid"], row["slices"].as_str()),
            (parent, part.2.to_string().as_str())
        );
        assert_eq!((row["slices_of"].as_str(), row["sources"].as_str()), ("7", "gpm"));
    }
}

fn check_cut(recorded: &Recorded) {
    let whole = &recorded.slots[0];
    assert_eq!(recorded.slots.len(), 6, "the GPU and five places");
    assert_eq!((whole.measured_ms(), whole.cell("util_mean_ppm")), (0, None));
    assert!(whole.gap_ms("unsupported") > 8_000 && whole.rows[0]["parent_gpu_uuid"].is_empty());
    for part in FIRST {
        let slot = slot_of(recorded, part);
        check_share(recorded, slot, part);
        let track = slot.track();
        let (first, last) = (track[0].at.0, track[track.len() - 1].at.0);
        let begins = (first - PERIOD_MS).max(recorded.node.enrolled_at.0);
        // From the first reading's window to the last reading before it was cut away.
        assert_eq!(slot.cell("enrolled_ms"), Some(last - begins), "{part:?}");
        match part.3 {
            Some(percent) => {
                assert_eq!((slot.measured_ms(), gaps_ms(slot)), (last - begins, 0), "{part:?}");
                assert_eq!(slot.cell("busy_pct_ms"), Some(percent * (last - begins)));
                assert!(slot.rows.iter().all(|row| row["util_p50_pct"] == percent.to_string()));
                assert!(
                    slot.rows
                        .iter()
                        .all(|row| row["util_mean_ppm"] == (percent * 10_000).to_string())
                );
                assert!(track.len() >= 4, "{track:?}");
            }
            None => {
                assert_eq!((slot.measured_ms(), slot.gap_ms("unsupported")), (0, last - begins));
                assert_eq!(slot.cell("util_mean_ppm"), None, "nothing measured is not 0 %");
            }
        }
    }
    check_second_cut(recorded);
    assert_eq!(recorded.kinds("partition_removed").len(), 4, "{:?}", recorded.events);
    let seen = recorded.kinds("gpu_seen").into_iter();
    let slices =
        seen.filter(|kind| matches!(kind, EventKind::GpuSeen(gpu) if gpu.partition.is_some()));
    assert_eq!(slices.count(), 5);
}

/// The slice of the second cut is there from its first reading on, and to the end of the hour: the
/// agent stopped as planned.
fn check_second_cut(recorded: &Recorded) {
    let slot = slot_of(recorded, SECOND);
    check_share(recorded, slot, SECOND);
    let track = slot.track();
    let (first, last) = (track[0].at.0, track[track.len() - 1].at.0);
    assert!(first > recorded.time_of("partition_removed").0);
    let measured = last - first + PERIOD_MS;
    assert_eq!((slot.measured_ms(), slot.cell("busy_pct_ms")), (measured, Some(30 * measured)));
    assert_eq!(gaps_ms(slot), slot.gap_ms("agent_restart"), "{:?}", slot.rows);
}

/// The node's page shows the slices under their GPU, in both languages.
fn check_pages(server: &RunningServer, recorded: &Recorded) {
    let gpus = recorded.page["gpus"].as_array().unwrap();
    assert_eq!(gpus[0]["number"], 0);
    assert!(gpus[1..].iter().all(|gpu| gpu["partition"]["parent_uuid"] == gpus[0]["uuid"]));
    for (number, slot) in recorded.slots.iter().enumerate() {
        super::check_page(on_page(recorded, number), None, slot);
    }
    let page = |language| server.get(&format!("/nodes/{}?lang={language}", recorded.node.id));
    let (english, chinese) = (page("en"), page("zh-CN"));
    assert!(english.contains("3/7 of GPU 0") && english.contains("1/7 of GPU 0"), "{english}");
    assert!(chinese.contains("GPU 0 的 3/7"), "{chinese}");
}

/// Without GPM there is a row for each slice and no utilization in any of them.
fn check_blind(recorded: &Recorded) {
    assert_eq!(recorded.slots.len(), 6);
    for part in FIRST.into_iter().chain([SECOND]) {
        let slot = slot_of(recorded, part);
        check_share(recorded, slot, part);
        assert_eq!((slot.measured_ms(), slot.busy().len()), (0, 0), "{part:?}");
        assert_eq!((slot.cell("util_mean_ppm"), slot.cell("util_p50_pct")), (None, None));
        let unsupported = slot.gap_ms("unsupported");
        assert_eq!(gaps_ms(slot), unsupported + slot.gap_ms("agent_restart"), "{:?}", slot.rows);
        assert!(unsupported > 2_000, "{part:?}: {:?}", slot.rows);
        assert!(!slot.numbers(Metric::MemoryUsed).is_empty(), "memory is read all the same");
    }
}
