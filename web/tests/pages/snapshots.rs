//! Whole pages as they are. The node's page keeps two of its GPUs here, and a GPU's page one point
//! in a quarter of an hour, to stay readable.

use super::{context, gpu_context, samples};
use leasewatch_web::Language;
use leasewatch_web::pages::claim::ClaimView;
use leasewatch_web::pages::error::{ErrorView, Problem};
use leasewatch_web::pages::gpu::{self, GpuView};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::overview::OverviewView;
use leasewatch_web::path::Route;

fn lines(html: &str) -> String {
    // Asset hashes change with each touch of the style sheet, which is not what this is about.
    let mut out = html.replace("><", ">\n<");
    for (stem, ending) in [("leasewatch", "css"), ("live", "js"), ("icon", "svg")] {
        let name = format!("/assets/{stem}.");
        if let Some(start) = out.find(&name).map(|at| at + name.len()) {
            out.replace_range(start..start + 12, "[hash]");
        }
        assert!(out.contains(&format!("/assets/{stem}.[hash].{ending}")));
    }
    if let Some(start) = out.find("/assets/gpu.").map(|at| at + "/assets/gpu.".len()) {
        out.replace_range(start..start + 12, "[hash]");
    }
    // The time zone database is updated without a change here.
    out.replace(leasewatch_core::time::tz_database_version(), "[tzdb]")
}

#[test]
fn pages_in_both_languages() {
    for language in Language::ALL {
        for (page, html) in samples(language) {
            if !["node", "gpu", "gpu_months"].contains(&page) {
                insta::assert_snapshot!(format!("{page}.{}", language.tag()), lines(&html));
            }
        }
        let mut view = NodeView::sample();
        view.gpus.drain(..1);
        view.gpus.truncate(2);
        let cx = context(language, Route::Node(view.name.id.clone()));
        let html = node::render(&view, &cx).unwrap();
        insta::assert_snapshot!(format!("node.{}", language.tag()), lines(&html));
        for (name, every, mut view) in
            [("gpu", 15, GpuView::sample()), ("gpu_months", 12, GpuView::months_sample())]
        {
            view.bucket_ms *= every;
            for series in &mut view.series {
                let start = view.range.start;
                series.points.retain(|point| point.at.since(start) % view.bucket_ms == 0);
            }
            let html = gpu::render(&view, &gpu_context(language, &view)).unwrap();
            insta::assert_snapshot!(format!("{name}.{}", language.tag()), lines(&html));
        }
    }
}

#[test]
fn a_gpu_page_says_what_it_knows_and_what_it_cannot() {
    let pages = samples(Language::En);
    let page = |name: &str| {
        let html = &pages.iter().find(|(page, _)| *page == name).unwrap().1;
        html.replace(['\u{202f}', '\u{a0}'], " ")
    };
    let whole = page("gpu");
    for words in [
        "Coverage <b>93.3 %</b>",
        "One point = 1 min of single readings",
        "line: mean, area: least to most",
        "SM maximum 1,980 MHz",
        "for the model: SM maximum",
        "Default limit 700 W",
        "<code>0x4</code>",
        "23 min: GPU lost",
        "Gaps: 2",
        "from=2026-08-01T12:53:00Z",
        "/gpus/0/readings.csv?",
        "/gpus/0/gpu.json?",
        "3 earlier events",
    ] {
        assert!(whole.contains(words), "{words}");
    }
    // A gap is neither a point nor a word: the 23 minutes have no value in any series.
    let (_, busy) = whole.split_once("data-words=\"").unwrap();
    let values: Vec<&str> = busy.split_once('"').unwrap().0.split('|').collect();
    assert_eq!(values.len(), 360);
    assert!((260..283).all(|minute| values[minute].is_empty()));
    assert!((0..260).chain(283..360).all(|minute| values[minute].ends_with(" %)")));
    let imported = page("gpu_imported");
    assert!(imported.contains("SMs active, Tensor cores active: not readable on this class"));
    assert!(imported.contains("IMPORTED") && imported.contains("class=\"origin-band imported\""));
    // A chart without a series is words: only utilization and power are drawn.
    assert_eq!(imported.matches("data-plot").count(), 2);
    let empty = page("gpu_empty");
    assert!(empty.contains("This node joined on 30 Jul 2026. Nothing was recorded before."));
    assert!(!empty.contains("data-plot"));
    assert!(page("gpu_months").contains("cannot be told exactly"));
}

#[test]
fn a_gpu_serialises_with_units_in_its_names() {
    let view = serde_json::to_value(GpuView::sample()).unwrap();
    assert_eq!(view["series"][0]["metric"], "busy_permille");
    assert_eq!(view["series"][0]["points"][0]["at"], "2026-08-01T08:25:00.000Z");
    assert_eq!(view["gaps"][1][2], "gpu_lost");
    assert_eq!(view["lanes"][1]["bit"], 2);
    assert_eq!(view["limits"][0]["what"], "memory_total");
    let names: Vec<&str> =
        view["series"].as_array().unwrap().iter().map(|s| s["metric"].as_str().unwrap()).collect();
    assert!(names.contains(&"pcie_tx_kib_per_s") && names.contains(&"throttle_sw_power_permille"));
}

#[test]
fn a_slice_stands_under_its_gpu_with_its_share() {
    for (language, share, slice) in
        [(Language::En, "3/7 of GPU 6", "Slice 8"), (Language::ZhCn, "GPU 6 的 3/7", "切片 8")]
    {
        let view = NodeView::sample();
        let cx = context(language, Route::Node(view.name.id.clone()));
        let html = node::render(&view, &cx).unwrap();
        let row = html.split("<tr ").find(|row| row.contains(share)).unwrap();
        assert!(row.contains("class=\"gpu slice\"") && row.contains(slice), "{row}");
        let rows: Vec<&str> = view.gpus.iter().map(|gpu| gpu.row.uuid.as_str()).collect();
        let at = |uuid: &str| html.find(&format!("data-gpu=\"{uuid}\"")).unwrap();
        assert!(at(rows[6]) < at(rows[7]) && at(rows[7]) < at(rows[9]), "behind its GPU");
        assert!(html.contains("id=\"week-8\""), "a grid of its own");
    }
}

#[test]
fn hours_are_offered_beside_every_table_of_hours() {
    for (page, html) in samples(Language::En) {
        let form = html.split_once("action=\"/hours.csv\"").map(|(_, after)| after);
        assert_eq!(form.is_some(), matches!(page, "overview" | "node" | "ended"), "{page}");
        let Some((form, _)) = form.and_then(|after| after.split_once("</form>")) else { continue };
        assert_eq!(form.contains("name=\"node\""), page != "overview", "{page}");
        assert!(form.contains("name=\"from\"") && form.contains("name=\"to\""), "{page}");
    }
}

#[test]
fn view_structs_serialise_with_names_and_iso_times() {
    let overview = serde_json::to_value(OverviewView::sample()).unwrap();
    let lane = &overview["tenants"][0]["providers"][2]["nodes"][0];
    assert_eq!(lane["origin"], "simulated");
    assert_eq!(lane["state"], "up");
    assert_eq!(lane["gpus"][0]["live"]["power_draw_mw"], 659_880);
    assert_eq!(lane["gpus"][0]["strip"][0]["period"][1], "2026-07-31T15:00:00.000Z");
    assert_eq!(overview["attention"][2]["subject"], "node_unknown");
    let node = serde_json::to_value(NodeView::sample()).unwrap();
    assert_eq!(node["enrolled_at"], "2026-06-16T00:00:00.000Z");
    let lost = node["gpus"][2]["hours"].as_array().unwrap().last().unwrap();
    assert_eq!(lost["state"], "open");
    assert_eq!(lost["measured_ms"], 0);
    assert_eq!(lost["gaps"]["gpu_lost"], lost["enrolled_ms"]);
    assert_eq!(node["gpus"][2]["live"]["busy_pct"]["missing"], "read_error");
    assert_eq!(node["events"][1]["kind"], "xid");
}

#[test]
fn a_problem_body_has_the_members_of_its_standard() {
    let view = ErrorView::new(Problem::BadRequest, Some("tz".to_owned()));
    let body = serde_json::to_value(view).unwrap();
    let expected = serde_json::json!({
        "type": "urn:leasewatch:bad-request",
        "title": "This address cannot be understood",
        "status": 400,
        "detail": "tz",
    });
    assert_eq!(body, expected);
}

#[test]
fn a_claim_text_says_what_is_proven_in_both_languages() {
    let view = ClaimView::sample();
    for language in Language::ALL {
        let text = view.text(language).unwrap().replace(['\u{202f}', '\u{a0}'], " ");
        insta::assert_snapshot!(format!("claim_text.{}", language.tag()), text);
    }
    let file = view.file(Language::ZhCn).unwrap();
    let (first, second) = (file.find("服务赔付申请").unwrap(), file.find("Claim for a").unwrap());
    assert!(first < second, "the page's language comes first");
    // The provider's own names, local time and UTC, and no name that only we know.
    for words in ["i-0123456789", "b7-12", "A-20260701", "UTC+08:00", "UTC 2026-", "SIMULATED"] {
        assert!(file.contains(words), "{words}");
    }
    assert!(!file.contains("E1") && !file.contains("gpu_lost"));
    assert_eq!(ClaimView::refused_sample().file(Language::En), None);
}
