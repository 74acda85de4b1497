//! A scripted load, to the millisecond: what the hour must say is computed from the script here.
//!
//! From the stored blocks come only the first and the last point, because the script does not know
//! when the agent looked.

use std::collections::BTreeMap;

use leasewatch_core::metering::GapCause;
use leasewatch_core::time::{HOUR_MS, Timestamp};

use super::agent::{Agent, write_scenario};
use super::recorded::{Recorded, Row, all_hours};
use super::{close_hours, connect};
use crate::process::{RunningServer, data_dir, eventually};

const NAME: &str = "scripted";
/// Second of the scenario, and percent from there on.
const STEPS: [(i64, i64); 4] = [(0, 100), (15, 0), (18, 40), (22, 93)];
/// The driver's buffer is filled already when the agent comes.
const STARTED_S_AGO: i64 = 10;
const PERIOD_MS: i64 = 200;

fn script() -> String {
    let steps: Vec<_> = STEPS.iter().map(|(second, busy)| format!("[{second}, {busy}]")).collect();
    format!(
        r#"driver_version = "590.48.01"
samples_per_second = 5
started_s_ago = {STARTED_S_AGO}
[[cards]]
model = "H100-SXM5-80GB"
load = {{ shape = "script", steps = [{}] }}
"#,
        steps.join(", ")
    )
}

/// Milliseconds by percent of `[from, to)`, where the script began at `began`.
fn expected(began: i64, (from, to): (i64, i64)) -> BTreeMap<i64, i64> {
    let mut bins = BTreeMap::new();
    for (index, (second, busy)) in STEPS.iter().enumerate() {
        let start = began + second * 1_000;
        let end = STEPS.get(index + 1).map_or(i64::MAX, |next| began + next.0 * 1_000);
        let ms = end.min(to) - start.max(from);
        if ms > 0 {
            *bins.entry(*busy).or_insert(0) += ms;
        }
    }
    bins
}

/// `100 * numerator / denominator` and the like, in millionths, half to even.
fn millionths(numerator: i64, denominator: i64) -> i64 {
    let (numerator, denominator) = (i128::from(numerator) * 1_000_000, i128::from(denominator));
    let (whole, rest) = (numerator / denominator, numerator % denominator * 2);
    let up = rest > denominator || (rest == denominator && whole % 2 == 1);
    i64::try_from(whole + i128::from(up)).unwrap()
}

/// The value of the millisecond with rank `ceil(p % of all)`, when they are sorted.
fn percentile(bins: &BTreeMap<i64, i64>, percent: i64) -> i64 {
    let all: i64 = bins.values().sum();
    let rank = (all * percent + 99) / 100;
    let mut passed = 0;
    let reaches = |(busy, ms): (&i64, &i64)| {
        passed += ms;
        (passed >= rank).then_some(*busy)
    };
    bins.iter().find_map(reaches).unwrap()
}

fn check_row(row: &Row, bins: &BTreeMap<i64, i64>, enrolled_ms: i64) {
    let number = |column: &str| row[column].parse::<i64>().unwrap();
    let measured: i64 = bins.values().sum();
    let busy: i64 = bins.iter().map(|(percent, ms)| percent * ms).sum();
    let gap = enrolled_ms - measured;
    assert_eq!(number("enrolled_ms"), enrolled_ms);
    assert_eq!((number("measured_ms"), number("busy_pct_ms")), (measured, busy), "{bins:?}");
    assert_eq!(number("coverage_ppm"), millionths(measured, enrolled_ms));
    assert_eq!(number("util_lo_ppm"), millionths(busy, 100 * enrolled_ms));
    assert_eq!(number("util_hi_ppm"), millionths(busy + 100 * gap, 100 * enrolled_ms));
    // Nothing is missing between the first point and the last; before and after, the agent was
    // starting or had said goodbye.
    for cause in GapCause::ALL {
        let ms = if cause == GapCause::AgentRestart { gap } else { 0 };
        assert_eq!(number(&format!("gap_{}_ms", cause.name())), ms, "{row:?}");
    }
    if measured == 0 {
        assert_eq!(row["util_mean_ppm"], "");
        return;
    }
    assert_eq!(number("util_mean_ppm"), millionths(busy, 100 * measured));
    for percent in [5, 50, 90, 95, 99] {
        let column = format!("util_p{percent:02}_pct");
        assert_eq!(number(&column), percentile(bins, percent), "{column}");
    }
    assert_eq!(row["sources"], "driver_samples");
    assert_eq!(number("conflicts"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scripted_scenario_is_exact_to_the_millisecond() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    write_scenario(data.path(), NAME, &script(), None);
    let mut agent = Agent::start(&server, data.path(), NAME, None);
    eventually("the script's last step", || {
        let overview = server.json("/overview.json");
        let live = &super::node_of(&overview, NAME)?["gpus"][0]["live"]["busy_pct"];
        (live == STEPS[3].1).then_some(())
    });
    Agent::stop_all(vec![&mut agent]);
    let db = connect(data.path()).await;
    close_hours(&db).await;
    let recorded = Recorded::load(&db, &server, &all_hours(&server), NAME).await;

    let track = recorded.slots[0].track();
    let ends = |busy: i64| {
        let of_step = track.iter().filter(move |point| point.busy.number() == Some(busy));
        of_step.map(|point| point.at.0).max().unwrap()
    };
    // Three edges, as far from each other as the script says: one beginning fits them all.
    let began = ends(STEPS[0].1) - STEPS[1].0 * 1_000;
    assert_eq!(ends(STEPS[1].1), began + STEPS[2].0 * 1_000);
    assert_eq!(ends(STEPS[2].1), began + STEPS[3].0 * 1_000);
    let (first, last) = (track[0].at.0, track[track.len() - 1].at.0);
    // The buffer reaches back to before the node joined; what lies there is nobody's hour.
    let measured = ((first - PERIOD_MS).max(recorded.node.enrolled_at.0), last);
    let whole = expected(began, measured);
    assert_eq!((whole[&0], whole[&40]), (3_000, 4_000), "steps that the agent saw whole");

    assert!(!recorded.slots[0].rows.is_empty());
    for row in &recorded.slots[0].rows {
        let hour = Timestamp::parse_iso(&row["hour_utc"]).unwrap().0;
        let within = |(from, to): (i64, i64)| (from.max(hour), to.min(hour + HOUR_MS));
        let enrolled = within((recorded.node.enrolled_at.0, i64::MAX));
        check_row(row, &expected(began, within(measured)), enrolled.1 - enrolled.0);
    }
}
