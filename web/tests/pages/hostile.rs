//! Every string that a node or an address can set, set to something that wants out.

use super::{context, markup};
use leasewatch_core::segment::{Event, EventKind, StopReason};
use leasewatch_web::Language;
use leasewatch_web::pages::error::{self, ErrorView, Problem};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::overview::{self, OverviewView, TenantLane};
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
fn an_address_that_was_asked_for_stays_an_address() {
    for text in HOSTILE {
        let view = ErrorView::new(Problem::NotFound, Some(text.to_owned()));
        let html =
            error::render(&view, &context(Language::En, Route::Other(text.to_owned()))).unwrap();
        check("error", &html, text);
    }
}
