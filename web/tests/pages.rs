//! Tests of finished pages: what a browser, a screen reader and an attacker get.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "pages/catalogue.rs"]
mod catalogue;
#[path = "pages/contrast.rs"]
mod contrast;
#[path = "pages/hostile.rs"]
mod hostile;
#[path = "pages/markup.rs"]
mod markup;
#[path = "pages/snapshots.rs"]
mod snapshots;
#[path = "pages/weight.rs"]
mod weight;

use leasewatch_web::pages::error::{self, ErrorView, Problem};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::overview::{self, OverviewView};
use leasewatch_web::path::{Address, Route, UrlState};
use leasewatch_web::{Context, Language};

fn context(language: Language, route: Route) -> Context {
    let state = UrlState { language: Some(language), ..UrlState::default() };
    Context { language, here: Address { route, state }, ..Context::sample() }
}

/// Every sample page by name.
fn samples(language: Language) -> Vec<(&'static str, String)> {
    let overview_context = context(language, Route::Overview);
    let view = NodeView::sample();
    let node_context = context(language, Route::Node(view.name.id.clone()));
    let error_context = context(language, Route::Other("/nothing".to_owned()));
    let bad = ErrorView::new(Problem::BadRequest, Some("tz".to_owned()));
    vec![
        ("overview", overview::render(&OverviewView::sample(), &overview_context).unwrap()),
        ("empty", overview::render(&OverviewView::empty_sample(), &overview_context).unwrap()),
        ("node", node::render(&view, &node_context).unwrap()),
        ("ended", node::render(&NodeView::ended_sample(), &node_context).unwrap()),
        ("error", error::render(&ErrorView::sample(), &error_context).unwrap()),
        ("bad_request", error::render(&bad, &error_context).unwrap()),
    ]
}

/// Sources of the templates by file name.
fn templates() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() > 5);
    files
}
