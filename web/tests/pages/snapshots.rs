//! Whole pages as they are. The node's page keeps two of its GPUs here, to stay readable.

use super::{context, samples};
use leasewatch_web::Language;
use leasewatch_web::pages::error::{ErrorView, Problem};
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
    // The time zone database is updated without a change here.
    out.replace(leasewatch_core::time::tz_database_version(), "[tzdb]")
}

#[test]
fn pages_in_both_languages() {
    for language in Language::ALL {
        for (page, html) in samples(language) {
            if page != "node" {
                insta::assert_snapshot!(format!("{page}.{}", language.tag()), lines(&html));
            }
        }
        let mut view = NodeView::sample();
        view.gpus.drain(..1);
        view.gpus.truncate(2);
        let cx = context(language, Route::Node(view.name.id.clone()));
        let html = node::render(&view, &cx).unwrap();
        insta::assert_snapshot!(format!("node.{}", language.tag()), lines(&html));
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
