//! Every string that a node or an address can set, set to something that wants out.

use super::{context, gpu_context, markup};
use leasewatch_core::log_fault::{ForeignOutput, LineFault, LogNotice, LogText};
use leasewatch_core::segment::{Event, EventKind, StopReason};
use leasewatch_web::Language;
use leasewatch_web::account::Account;
use leasewatch_web::chart::Band;
use leasewatch_web::pages::account::{self, AccountView};
use leasewatch_web::pages::error::{self, ErrorView, Problem};
use leasewatch_web::pages::gpu::{self, GpuView};
use leasewatch_web::pages::import::{self, ImportView};
use leasewatch_web::pages::import_run::{
    self, ImportRunView, LineProblem, LineProblems, RecordingProblem, RunFailure, RunState,
};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::overview::{self, OverviewView, TenantLane};
use leasewatch_web::pages::sign_in::{self, SignInView};
use leasewatch_web::path::Route;

const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\" onmouseover=\"alert(1)",
    "' onload='alert(1)",
    "{{7*7}}{% raw %}",
    "=cmd|' /C calc'!A0",
    "\u{202e}txt.exe\u{2066}",
    "\u{1b}[31mred\u{7}\0",
    "</title></svg><img src=x onerror=alert(1)>",
];

fn check(page: &str, html: &str, text: &str) {
    markup::check(page, html);
    for raw in ["<script>", "<img", "\u{202e}", "\u{2066}", "\u{1b}", "\u{7}", "\0"] {
        assert!(!html.contains(raw), "{page}: {raw:?} of {text:?}");
    }
    assert!(!html.contains("49{%"), "{page}");
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric());
    let visible = parts.max_by_key(|part| part.len()).unwrap();
    assert!(html.contains(visible), "{page}: {text:?} was lost");
}

#[test]
fn the_overview_stays_whole() {
    for text in HOSTILE {
        let mut view = OverviewView::sample();
        let mut numbers = 0_u32..;
        view.setup.agent_command = text.to_owned();
        for item in &mut view.attention {
            item.node.name = text.to_owned();
        }
        let second = view.tenants[0].providers.pop().unwrap();
        view.tenants.push(TenantLane { tenant: String::new(), providers: vec![second] });
        for tenant in &mut view.tenants {
            tenant.tenant = text.to_owned();
            for provider in &mut tenant.providers {
                provider.provider = text.to_owned();
                for lane in &mut provider.nodes {
                    lane.name.name = text.to_owned();
                    lane.name.id = format!("{text}{}", numbers.next().unwrap());
                    for gpu in &mut lane.gpus {
                        gpu.model = text.to_owned();
                        gpu.uuid = text.to_owned();
                    }
                }
            }
        }
        let html = overview::render(&view, &context(Language::En, Route::Overview)).unwrap();
        check("overview", &html, text);
        let mut empty = OverviewView::empty_sample();
        empty.setup.import_command = text.to_owned();
        let html = overview::render(&empty, &context(Language::En, Route::Overview)).unwrap();
        check("empty", &html, text);
    }
}

#[test]
fn the_node_page_stays_whole() {
    for text in HOSTILE {
        let mut view = NodeView::sample();
        view.name.name = text.to_owned();
        view.name.id = text.to_owned();
        view.tenant = Some(text.to_owned());
        view.provider = text.to_owned();
        view.agent.version = Some(text.to_owned());
        if let Some(host) = &mut view.host {
            host.hostname = text.to_owned();
            host.kernel = text.to_owned();
            host.driver_version = text.to_owned();
            host.cuda_version = text.to_owned();
        }
        for gpu in &mut view.gpus {
            gpu.row.model = text.to_owned();
            gpu.row.uuid = format!("{text}{}", gpu.row.number);
        }
        let at = view.enrolled_at;
        let metric = text.to_owned();
        view.events = vec![
            Event { at, gpu: None, kind: EventKind::ReadingsDropped { metric, count: 1 } },
            Event { at, gpu: None, kind: EventKind::Goodbye { reason: StopReason::Upgrade } },
        ];
        let html =
            node::render(&view, &context(Language::ZhCn, Route::Node(text.to_owned()))).unwrap();
        check("node", &html, text);
    }
}

#[test]
fn the_gpu_page_stays_whole() {
    for text in HOSTILE {
        let mut view = GpuView::sample();
        view.name.name = text.to_owned();
        view.name.id = text.to_owned();
        view.tenant = Some(text.to_owned());
        view.provider = text.to_owned();
        view.gpu.model = text.to_owned();
        view.gpu.uuid = text.to_owned();
        let at = view.range.start.plus_ms(1_000);
        let metric = text.to_owned();
        view.events =
            vec![Event { at, gpu: None, kind: EventKind::ReadingsDropped { metric, count: 1 } }];
        // Readings can be anything that fits into the metric.
        for band in view.series.iter_mut().flat_map(|series| &mut series.points) {
            band.band = band.band.map(|_| Band { min: i64::MIN, mean: 0, max: i64::MAX });
        }
        let html = gpu::render(&view, &gpu_context(Language::ZhCn, &view)).unwrap();
        check("gpu", &html, text);
    }
}

#[test]
fn the_import_pages_stay_whole() {
    for text in HOSTILE {
        let owned = || text.to_owned();
        let mut form = ImportView::sample();
        let fields = [
            &mut form.entered.node,
            &mut form.entered.provider,
            &mut form.entered.timezone,
            &mut form.entered.columns,
            &mut form.entered.cadence,
        ];
        fields.into_iter().for_each(|field| *field = owned());
        form.tenants = vec![owned()];
        for line in &mut form.latest {
            (line.id, line.file, line.node_name) = (owned(), owned(), owned());
        }
        let html = import::render(&form, &context(Language::En, Route::Import)).unwrap();
        check("import", &html, text);
        let quoted = || LogText::quote(text);
        let problem = |fault| LineProblem { line: 1, fault };
        let problems = || LineProblems {
            first: vec![
                problem(LineFault::NotText { text: quoted() }),
                problem(LineFault::NotAValue { key: quoted(), text: quoted() }),
                problem(LineFault::XmlBroken { said: quoted() }),
                problem(LineFault::NoticeOfNoGpu {
                    notice: LogNotice::GpuLost { place: quoted() },
                }),
            ],
            count: 4,
        };
        let mut done = ImportRunView::sample();
        (done.file, done.node_name, done.provider, done.timezone) =
            (owned(), owned(), owned(), owned());
        if let RunState::Done(report) = &mut done.state {
            (report.node, report.columns_ignored) = (owned(), vec![owned()]);
            report.problems = problems();
        }
        let recorded = |text: String| {
            let mut view = ImportRunView::recorded_sample();
            if let RunState::Recorded(report) = &mut view.state {
                (report.node, report.left_out) = (text.clone(), vec![text]);
            }
            view
        };
        let failed = |failure| ImportRunView { state: RunState::Failed(failure), ..done.clone() };
        for view in [
            done.clone(),
            failed(RunFailure::NoHeader { first_row: owned() }),
            failed(RunFailure::OtherTool { found: ForeignOutput::Dmon, instead: owned() }),
            failed(RunFailure::Nothing(problems())),
            failed(RunFailure::Refused { reason: owned() }),
            failed(RunFailure::Recording(RecordingProblem::OtherTenant { tenant: owned() })),
            recorded(owned()),
        ] {
            let cx = context(Language::ZhCn, Route::ImportRun(owned()));
            check("import_run", &import_run::render(&view, &cx).unwrap(), text);
        }
    }
}

#[test]
fn an_address_that_was_asked_for_stays_an_address() {
    for text in HOSTILE {
        let view = ErrorView::new(Problem::NotFound, Some(text.to_owned()));
        let html =
            error::render(&view, &context(Language::En, Route::Other(text.to_owned()))).unwrap();
        check("error", &html, text);
    }
}

#[test]
fn what_a_browser_calls_itself_and_what_is_typed_at_the_door_stay_text() {
    for text in HOSTILE {
        let mut view = AccountView::sample();
        for session in &mut view.sessions {
            session.browser = Some(text.to_owned());
            session.address = Some(text.to_owned());
        }
        for token in &mut view.tokens {
            token.what = text.to_owned();
        }
        view.what = text.to_owned();
        let cx = context(Language::En, Route::Account);
        check("account", &account::render(&view, &cx).unwrap(), text);
        let view = SignInView { name: text.to_owned(), next: text.to_owned(), is_refused: true };
        let account = Account::User { name: text.to_owned(), may_change: true, is_operator: true };
        let cx = leasewatch_web::Context { account, ..context(Language::En, Route::SignIn) };
        check("sign_in", &sign_in::render(&view, &cx).unwrap(), text);
    }
}
