//! The GPU's page against a script: what a node recorded second by second, as readings, minutes,
//! hours and CSV, on real PostgreSQL.

#[path = "gpu_page/script.rs"]
mod script;
#[path = "gpu_page/year.rs"]
mod year;

use leasewatch_core::evidence::chain::{HeadDraft, seal};
use leasewatch_core::segment::{Block, Event, EventKind, EventsBlock, Origin};
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};

use crate::agent::{Agent, gpu, inventory, segment};
use crate::rig::Rig;
use script::{Band, MINUTES, Played, SWAP_S, View, at, block, busy, is_recorded, power};

fn between(from_s: i64, to_s: i64) -> String {
    let text = |at: Timestamp| at.to_string().replace(".000", "");
    format!("from={}&to={}", text(at(from_s)), text(at(to_s)))
}

/// What the script says of the seconds `(from, to]`, as a band.
fn scripted(from: i64, to: i64, value: fn(i64) -> i64) -> Band {
    let values: Vec<i64> = (from + 1..=to).filter(|s| is_recorded(*s)).map(value).collect();
    let (min, max) = (*values.iter().min()?, *values.iter().max()?);
    let (sum, count): (i64, i64) = (values.iter().sum(), i64::try_from(values.len()).unwrap());
    let mean = leasewatch_core::metering::divide_half_even(sum.into(), count.into());
    Some((min, i64::try_from(mean).unwrap(), max))
}

fn measured_s(from: i64, to: i64) -> i64 {
    (from + 1..=to).map(|s| i64::from(is_recorded(s))).sum()
}

/// Points with a band, each at the start of its bucket, as the script has them.
fn assert_scripted(view: &View, metric: &str, (from, to): (i64, i64), value: fn(i64) -> i64) {
    let width = view.0["bucket_ms"].as_i64().unwrap() / 1_000;
    let expected = (from..to).step_by(usize::try_from(width).unwrap()).filter_map(|second| {
        let band = scripted(second.max(0), (second + width).min(to), value)?;
        Some((at(second).to_string(), Some(band)))
    });
    let shown = view.points(metric).into_iter().filter(|(_, band)| band.is_some());
    assert_eq!(shown.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{metric}");
}

/// One script, told once, since recording it is what takes the time.
#[tokio::test]
async fn the_page_is_the_script_at_each_detail() {
    let played = Played::new(9).await;
    readings_are_the_script(&played).await;
    some_seconds_are_finer_than_an_hour(&played).await;
    minutes_are_the_script_and_the_open_hour_is_among_them(&played).await;
    hours_know_a_gap_by_its_amount(&played).await;
    what_cannot_be_shown_is_said_and_names_its_parameter(&played).await;
    the_csv_has_the_pages_series_with_units_and_the_mark(&played).await;
    without_readings_minutes_are_shown_and_without_minutes_hours(&played).await;
}

/// The same with a year behind it.
#[tokio::test]
async fn a_long_range_is_bounded_on_the_page_and_in_the_database() {
    let played = Played::new(9).await;
    played.rig.administer(year::A_YEAR_OLD).await;
    played.rig.administer(&year::copies(year::YEAR_BEHIND)).await;
    year::a_year_is_at_most_420_points_and_adds_up(&played).await;
    year::an_hour_and_a_month_read_their_own_pages_only(&played).await;
}

/// Segments are cut between two readings: the time after the last one is told by the next segment.
#[tokio::test]
async fn what_is_on_its_way_is_no_gap_yet_and_becomes_one() {
    let rig = Rig::new().await;
    rig.clock.set(at(0));
    let mut agent = Agent::new(9, at(0));
    agent.origin = Origin::Simulated;
    let mut client = rig.join(&agent).await.unwrap();
    rig.clock.set(at(63));
    let (uuid, bus_id) = gpu(9, 0);
    let seen = EventKind::GpuSeen(inventory(&uuid, &bus_id, 0));
    let events = vec![Event::new(at(1), Some(uuid.clone()), seen)];
    let blocks = [block(0, &uuid, &bus_id), Block::Events(EventsBlock { events })];
    let draft = HeadDraft { period: Period::new(at(0), at(60).plus_ms(700)), ..agent.draft() };
    let sealed = seal(draft, &blocks, &agent.key).unwrap();
    assert_eq!(client.ack(segment(&sealed)).await, (1, false));
    let played = Played { rig, agent };
    let view = played.view(&between(0, 63)).await;
    assert_eq!(view.missing(), (vec![], vec![]));
    assert_eq!((view.sums().1, view.sums().2), (60_000, 60_000));
    played.rig.clock.set(at(260));
    let (gaps, _) = played.view(&between(0, 260)).await.missing();
    assert_eq!((gaps[0].0, gaps[gaps.len() - 1].1), (60_000, 260_000), "{gaps:?}");
}

async fn readings_are_the_script(played: &Played) {
    let view = played.view(&between(0, 3_600)).await;
    assert_eq!((view.text("detail"), view.0["bucket_ms"].as_i64()), ("readings", Some(10_000)));
    assert_scripted(&view, "busy_permille", (0, 3_600), |s| busy(s) * 10);
    assert_scripted(&view, "power_draw_mw", (0, 3_600), power);
    let gap = (1_200_000, 1_500_000, "unexplained".to_owned());
    assert_eq!(view.missing(), (vec![gap], vec![]));
    let busy_sum: i64 = (1..=3_600).filter(|s| is_recorded(*s)).map(busy).sum();
    assert_eq!(view.sums(), (busy_sum * 1_000, 3_300_000, 3_600_000));

    // The line breaks in the silence, and where the other GPU begins.
    let breaks: Vec<String> = view
        .points("busy_permille")
        .into_iter()
        .filter(|(_, band)| band.is_none())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(breaks, [at(1_200).to_string(), at(SWAP_S).to_string()]);
    assert_eq!(view.0["events"][1]["kind"], "gpu_replaced", "{}", view.0["events"]);

    // 400 W by the counter, in each bucket that both of its readings are known of.
    let rates = view.points("energy_mw");
    assert!(
        rates.iter().flat_map(|(_, band)| band).all(|band| *band == (400_000, 400_000, 400_000))
    );
    let pcie = view.points("pcie_tx_kib_per_s");
    assert!(pcie.iter().flat_map(|(_, band)| band).all(|band| *band == (2_048, 2_048, 2_048)));

    let lanes = &view.0["lanes"];
    let stretch = &lanes[0]["stretches"][0];
    assert_eq!((lanes.as_array().unwrap().len(), lanes[0]["bit"].as_i64()), (1, Some(2)));
    assert_eq!(stretch["period"], serde_json::json!([at(600).to_string(), at(720).to_string()]));
    assert_eq!(stretch["share_permille"], 1_000);

    let masked = |metric: &str| {
        let list = view.0["masked"].as_array().unwrap();
        list.iter().find(|row| row["metric"] == metric).unwrap()["why"].clone()
    };
    assert_eq!(masked("memory_temperature_c"), "not_offered");
    assert_eq!(masked("sm_active_permille"), "not_recorded");
    let limit = |what: &str| {
        let list = view.0["limits"].as_array().unwrap();
        list.iter().find(|row| row["what"] == what).map(|row| row["source"].clone()).unwrap()
    };
    assert_eq!(
        (limit("memory_total"), limit("sm_clock_max")),
        ("driver".into(), "catalogue".into())
    );
}

async fn some_seconds_are_finer_than_an_hour(played: &Played) {
    let view = played.view(&between(990, 1_020)).await;
    assert_eq!(view.0["bucket_ms"], 100);
    let points = view.points("busy_permille");
    assert_eq!(points.len(), 300);
    assert_eq!(points[95], (at(999).plus_ms(500).to_string(), Some((1_000, 1_000, 1_000))));
    assert_eq!(view.sums().1, 30_000);
    // A slow counter's bucket is narrower than its distance, and still no break.
    assert!(view.points("pcie_tx_kib_per_s").iter().all(|(_, band)| band.is_some()));
}

async fn minutes_are_the_script_and_the_open_hour_is_among_them(played: &Played) {
    let view = played.view(&between(-36_000, MINUTES * 60)).await;
    assert_eq!((view.text("detail"), view.0["bucket_ms"].as_i64()), ("minutes", Some(120_000)));
    assert_scripted(&view, "busy_permille", (0, MINUTES * 60), |s| busy(s) * 10);
    let highest = view
        .points("busy_permille")
        .into_iter()
        .flat_map(|(_, band)| band)
        .map(|band| band.2)
        .max();
    assert_eq!(highest, Some(1_000), "the second that stands out is seen over hours");
    let gap = (1_200_000, 1_500_000, "unexplained".to_owned());
    assert_eq!(view.missing(), (vec![gap], vec![]));
    let measured = measured_s(0, MINUTES * 60) * 1_000;
    assert_eq!((view.sums().1, view.sums().2), (measured, MINUTES * 60_000));
    let rates = view.points("energy_mw");
    assert!(
        rates.iter().flat_map(|(_, band)| band).all(|band| *band == (400_000, 400_000, 400_000))
    );
    let stretches = &view.0["lanes"][0]["stretches"];
    assert_eq!(stretches.as_array().unwrap().len(), 1, "{stretches}");
    assert_eq!(
        stretches[0]["period"],
        serde_json::json!([at(600).to_string(), at(720).to_string()])
    );
}

async fn hours_know_a_gap_by_its_amount(played: &Played) {
    let view = played.view("last=30d").await;
    assert_eq!((view.text("detail"), view.0["bucket_ms"].as_i64()), ("hours", Some(2 * HOUR_MS)));
    assert_eq!(view.missing(), (vec![], vec![(300_000, "unexplained".to_owned())]));
    assert_eq!(view.sums().1, measured_s(0, MINUTES * 60) * 1_000);
    let most =
        |metric| view.points(metric).into_iter().flat_map(|(_, band)| band).map(|b| b.2).max();
    assert_eq!((most("busy_permille"), most("power_draw_mw")), (Some(1_000), Some(312_000)));
}

async fn without_readings_minutes_are_shown_and_without_minutes_hours(played: &Played) {
    let query = between(0, 3_600);
    played.rig.administer("delete from segment_block; delete from segment").await;
    let view = played.view(&query).await;
    assert_eq!((view.text("detail"), view.0["bucket_ms"].as_i64()), ("minutes", Some(60_000)));
    assert_scripted(&view, "busy_permille", (0, 3_600), |s| busy(s) * 10);
    played.rig.administer("delete from hour_profile").await;
    let view = played.view(&query).await;
    assert_eq!(view.text("detail"), "hours");
    let (gaps, shares) = view.missing();
    assert_eq!((gaps.len(), shares), (0, vec![(300_000, "unexplained".to_owned())]));
}

async fn what_cannot_be_shown_is_said_and_names_its_parameter(played: &Played) {
    let refused = [
        ("last=8h", "last"),
        ("from=yesterday", "from"),
        ("from=2031-01-01&to=2031-01-02", "from"),
        ("from=2019-01-01&to=2026-09-01", "from"),
        ("to=2026-02-30", "to"),
        (&between(60, 0), "to"),
        ("tz=Mars", "tz"),
    ];
    for (query, parameter) in refused {
        let (status, body) = played.get("0", query).await;
        assert_eq!(status, 400, "{query}");
        assert!(body.contains(parameter), "{query}: {body}");
        assert_eq!(played.get("0/gpu.json", query).await.0, 400, "{query}");
        assert_eq!(played.get("0/readings.csv", query).await.0, 400, "{query}");
    }
    for file in ["1", "99999", "-1", "x", "1/gpu.json", "%00"] {
        assert_eq!(played.get(file, "").await.0, 404, "{file}");
    }
    // Before enrolment nothing is missing and nothing is there.
    let (status, page) = played.get("0", "from=2026-01-01&to=2026-01-02").await;
    assert!(status == 200 && page.contains("</html>"));
    let view = played.view("from=2026-01-01&to=2026-01-02").await;
    assert_eq!(view.0["series"].as_array().unwrap().len(), 0);
    assert_eq!(view.missing(), (vec![], vec![]));
}

async fn the_csv_has_the_pages_series_with_units_and_the_mark(played: &Played) {
    let (status, text) = played.get("0/readings.csv", &between(0, 3_600)).await;
    assert_eq!(status, 200);
    let mut lines = text.split("\r\n");
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(names[5..9], ["origin", "start_utc", "end_utc", "busy_permille_min"]);
    assert!(names.contains(&"energy_mw_mean") && names.contains(&"power_draw_mw_max"));
    let rows: Vec<Vec<&str>> =
        lines.filter(|line| !line.is_empty()).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 330, "a row for each bucket with a reading");
    assert!(rows.iter().all(|row| row.len() == names.len() && row[5] == "simulated"));
    let (min, mean, max) = scripted(0, 10, |s| busy(s) * 10).unwrap();
    assert_eq!(rows[0][6..8], [at(0).to_string(), at(10).to_string()]);
    assert_eq!(rows[0][8..11], [min.to_string(), mean.to_string(), max.to_string()]);
    let with_mark = played.get("0/readings.csv", &format!("{}&bom=1", between(0, 60))).await.1;
    assert!(with_mark.starts_with("\u{feff}node,"));
}
