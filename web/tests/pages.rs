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

use leasewatch_web::account::Account;
use leasewatch_web::deadline::{DeadlineLine, Deadlines};
use leasewatch_web::pages::account::{self, AccountView};
use leasewatch_web::pages::audit::{self, AuditView};
use leasewatch_web::pages::bill::{self, BillView};
use leasewatch_web::pages::bill_import::{self, BillImportView};
use leasewatch_web::pages::bills::{self, BillsView};
use leasewatch_web::pages::claim::{self, ClaimView};
use leasewatch_web::pages::claims::{self, ClaimsView};
use leasewatch_web::pages::contracts::{self, ContractsView};
use leasewatch_web::pages::costs::{self, CostsView};
use leasewatch_web::pages::enroll::{self, EnrollTokenView, EnrollView};
use leasewatch_web::pages::error::{self, ErrorView, Problem};
use leasewatch_web::pages::gpu::{self, GpuView};
use leasewatch_web::pages::import::{self, ImportView};
use leasewatch_web::pages::import_run::{self, ImportRunView};
use leasewatch_web::pages::lease::{self, LeaseView};
use leasewatch_web::pages::lease_assign::{self, LeaseAssignView};
use leasewatch_web::pages::lease_form::{self, LeaseFormView};
use leasewatch_web::pages::lease_import::{self, LeaseImportView};
use leasewatch_web::pages::lease_told::{self, LeaseToldView};
use leasewatch_web::pages::leases::{self, LeasesView};
use leasewatch_web::pages::link::{self, LinkPurpose, LinkView};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::node_labels::{self, NodeLabelsView};
use leasewatch_web::pages::overview::{self, OverviewView};
use leasewatch_web::pages::prices::{self, PricesView};
use leasewatch_web::pages::sign_in::{self, SignInView};
use leasewatch_web::pages::tenants::{self, TenantsView};
use leasewatch_web::pages::users::{self, UsersView};
use leasewatch_web::path::{Address, BillPart, LeasePart, RangeState, Route, UrlState};
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
    let costs = |view| costs::render(view, &context(language, Route::Costs)).unwrap();
    let gpu = |view: GpuView| gpu::render(&view, &gpu_context(language, &view)).unwrap();
    let mut all = entrance(language);
    all.extend(rentals(language));
    all.extend(claim_pages(language));
    all.extend(money(language));
    all.extend([
        ("gpu", gpu(GpuView::sample())),
        ("gpu_months", gpu(GpuView::months_sample())),
        ("gpu_imported", gpu(GpuView::imported_sample())),
        ("gpu_empty", gpu(GpuView::empty_sample())),
        ("import", form(ImportView::sample())),
        ("import_first", form(ImportView::first_sample())),
        ("import_done", run(ImportRunView::sample())),
        ("import_running", run(ImportRunView::running_sample())),
        ("import_failed", run(ImportRunView::failed_sample())),
        ("import_recorded", run(ImportRunView::recorded_sample())),
        ("import_no_recording", run(ImportRunView::no_recording_sample())),
        ("overview", overview::render(&OverviewView::sample(), &overview_context).unwrap()),
        ("empty", overview::render(&OverviewView::empty_sample(), &overview_context).unwrap()),
        ("node", node::render(&view, &node_context).unwrap()),
        ("ended", node::render(&NodeView::ended_sample(), &node_context).unwrap()),
        (
            "enroll",
            enroll::render(&EnrollView::sample(), &context(language, Route::Enroll)).unwrap(),
        ),
        ("enroll_token", enroll_token(language, &EnrollTokenView::sample())),
        ("enroll_waiting", enroll_token(language, &EnrollTokenView::waiting_sample())),
        ("costs", costs(&CostsView::sample())),
        ("costs_empty", costs(&CostsView::empty_sample())),
        ("error", error::render(&ErrorView::sample(), &error_context).unwrap()),
        ("bad_request", error::render(&bad, &error_context).unwrap()),
    ]);
    all
}

fn enroll_token(language: Language, view: &EnrollTokenView) -> String {
    let route = Route::EnrollToken { tenant: "default".to_owned(), token: 4 };
    enroll::render_token(view, &context(language, route)).unwrap()
}

/// Claims; the head of one of them has deadlines.
fn claim_pages(language: Language) -> Vec<(&'static str, String)> {
    let list = |view| claims::render(view, &context(language, Route::Claims)).unwrap();
    let deadlines = Deadlines::of(&DeadlineLine::samples());
    let one = |view: &ClaimView| {
        let here = context(language, Route::Claim(view.line.number));
        claim::render(view, &Context { deadlines, ..here }).unwrap()
    };
    vec![
        ("claims", list(&ClaimsView::sample())),
        ("claims_empty", list(&ClaimsView::empty_sample())),
        ("claim", one(&ClaimView::sample())),
        ("claim_refused", one(&ClaimView::refused_sample())),
    ]
}

/// Pages of who may come in: those that strangers see have no ways to others.
fn entrance(language: Language) -> Vec<(&'static str, String)> {
    let stranger = |route| Context { account: Account::Nobody, ..context(language, route) };
    let link = |view| {
        let route = Route::Link("0123456789abcdef".repeat(4));
        link::render(&view, &stranger(route)).unwrap()
    };
    let name = || "li.lei".to_owned();
    let account = |view| account::render(&view, &context(language, Route::Account)).unwrap();
    let no_users = Context { account: Account::NoUsers, ..context(language, Route::Overview) };
    let over = ErrorView::new(Problem::LinkOver, None);
    vec![
        ("account", account(AccountView::sample())),
        ("account_first", account(AccountView::first_sample())),
        ("link_invite", link(LinkView::sample())),
        ("link_setup", link(LinkView::first(LinkPurpose::Setup))),
        ("link_reset", link(LinkView::first(LinkPurpose::Reset { name: name() }))),
        ("link_sign_in", link(LinkView::first(LinkPurpose::SignIn { name: name() }))),
        ("link_over", error::render(&over, &stranger(Route::Other("/".to_owned()))).unwrap()),
        ("no_users", overview::render(&OverviewView::empty_sample(), &no_users).unwrap()),
        ("sign_in", sign_in::render(&SignInView::sample(), &stranger(Route::SignIn)).unwrap()),
        ("audit", audit::render(&AuditView::sample(), &context(language, Route::Audit)).unwrap()),
        (
            "tenants",
            tenants::render(&TenantsView::sample(), &context(language, Route::Tenants)).unwrap(),
        ),
        ("users", users::render(&UsersView::sample(), &context(language, Route::Users)).unwrap()),
    ]
}

/// Pages about bills and prices.
fn money(language: Language) -> Vec<(&'static str, String)> {
    let at = |part| context(language, Route::Bill(part));
    let list = |view| bills::render(&view, &at(BillPart::List)).unwrap();
    let import = |view| bill_import::render(&view, &at(BillPart::Import)).unwrap();
    let one = BillPart::One { tenant: "default".to_owned(), number: 2 };
    let own = |view| contracts::render(&view, &context(language, Route::Contracts)).unwrap();
    let prices = |view| prices::render(&view, &context(language, Route::Prices)).unwrap();
    vec![
        ("bills", list(BillsView::sample())),
        ("bills_empty", list(BillsView::empty_sample())),
        ("bill", bill::render(&BillView::sample(), &at(one)).unwrap()),
        ("bill_import", import(BillImportView::sample())),
        ("bill_import_first", import(BillImportView::first_sample())),
        ("contracts", own(ContractsView::sample())),
        ("contracts_reading", own(ContractsView::reading_sample())),
        ("prices", prices(PricesView::sample())),
        ("prices_empty", prices(PricesView::empty_sample())),
    ]
}

/// Pages about leases.
fn rentals(language: Language) -> Vec<(&'static str, String)> {
    let part = |part| {
        let (tenant, lease) = ("default".to_owned(), "h100-train".to_owned());
        context(language, Route::Lease { tenant, lease, part })
    };
    let list = |view| leases::render(&view, &context(language, Route::Leases)).unwrap();
    let one = |view| lease::render(&view, &part(LeasePart::Page)).unwrap();
    let assign = |view| lease_assign::render(&view, &part(LeasePart::Assign)).unwrap();
    let told = |view| lease_told::render(&view, &part(LeasePart::Told)).unwrap();
    let new_lease = context(language, Route::LeaseNew);
    let import = context(language, Route::LeasesImport);
    let labels = NodeLabelsView::sample();
    let of_node = context(language, Route::NodeLabels(labels.node.id.clone()));
    vec![
        ("leases", list(LeasesView::sample())),
        ("leases_empty", list(LeasesView::empty_sample())),
        ("lease", one(LeaseView::sample())),
        ("lease_new", one(LeaseView::new_sample())),
        ("lease_form", lease_form::render(&LeaseFormView::sample(), &new_lease).unwrap()),
        (
            "lease_edit",
            lease_form::render(&LeaseFormView::edit_sample(), &part(LeasePart::Edit)).unwrap(),
        ),
        ("lease_assign", assign(LeaseAssignView::sample())),
        ("lease_assign_none", assign(LeaseAssignView::empty_sample())),
        ("lease_import", lease_import::render(&LeaseImportView::sample(), &import).unwrap()),
        ("lease_told", told(LeaseToldView::sample())),
        ("lease_told_empty", told(LeaseToldView::empty_sample())),
        ("node_labels", node_labels::render(&labels, &of_node).unwrap()),
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
