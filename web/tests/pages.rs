//! Tests of finished pages: what a browser, a screen reader and an attacker get.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "pages/catalogue.rs"]
mod catalogue;
#[path = "pages/contrast.rs"]
mod contrast;
#[path = "pages/hostile.rs"]
mod hostile;
#[path = "pages/line_faults.rs"]
mod line_faults;
#[path = "pages/markup.rs"]
mod markup;
#[path = "pages/snapshots.rs"]
mod snapshots;
#[path = "pages/weight.rs"]
mod weight;

use leasewatch_web::pages::error::{self, ErrorView, Problem};
use leasewatch_web::pages::gpu::{self, GpuView};
use leasewatch_web::pages::import::{self, ImportView};
use leasewatch_web::pages::import_run::{self, ImportRunView};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::overview::{self, OverviewView};
use leasewatch_web::path::{Address, RangeState, Route, UrlState};
use leasewatch_web::{Context, Language};

fn context(language: Language, route: Route) -> Context {
    let state = UrlState { language: Some(language), ..UrlState::default() };
    Context { language, here: Address { route, state }, ..Context::sample() }
}

/// At a GPU's page, over the range that its view holds.
fn gpu_context(language: Language, view: &GpuView) -> Context {
    let route = Route::Gpu { node: view.name.id.clone(), slot: view.gpu.number };
    let mut context = context(language, route);
    context.here = context.here.in_range(RangeState::between(view.range));
    context
}

/// Every sample page by name.
fn samples(language: Language) -> Vec<(&'static str, String)> {
    let overview_context = context(language, Route::Overview);
    let view = NodeView::sample();
    let node_context = context(language, Route::Node(view.name.id.clone()));
    let error_context = context(language, Route::Other("/nothing".to_owned()));
    let bad = ErrorView::new(Problem::BadRequest, Some("tz".to_owned()));
    let form = |view| import::render(&view, &context(language, Route::Import)).unwrap();
    let run = |view: ImportRunView| {
        import_run::render(&view, &context(language, Route::ImportRun(view.id.clone()))).unwrap()
    };
    let gpu = |view: GpuView| gpu::render(&view, &gpu_context(language, &view)).unwrap();
    vec![
        ("gpu", gpu(GpuView::sample())),
        ("gpu_months", gpu(GpuView::months_sample())),
        ("gpu_imported", gpu(GpuView::imported_sample())),
        ("gpu_empty", gpu(GpuView::empty_sample())),
        ("import", form(ImportView::sample())),
        ("import_first", form(ImportView::first_sample())),
        ("import_done", run(ImportRunView::sample())),
        ("import_running", run(ImportRunView::running_sample())),
        ("import_failed", run(ImportRunView::failed_sample())),
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
