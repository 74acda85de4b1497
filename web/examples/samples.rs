//! Writes every sample page as a file, to be looked at in a browser:
//! `cargo run -p leasewatch-web --example samples -- target/samples`.

use std::fs;
use std::path::Path;

use leasewatch_core::segment::Origin;
use leasewatch_web::assets::{self, Asset};
use leasewatch_web::deadline::{DeadlineLine, Deadlines};
use leasewatch_web::pages::claim::{self, ClaimView};
use leasewatch_web::pages::claims::{self, ClaimsView};
use leasewatch_web::pages::error::{self, ErrorView};
use leasewatch_web::pages::gpu::{self, GpuView};
use leasewatch_web::pages::lease::{self, LeaseView};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::overview::{self, OverviewView};
use leasewatch_web::path::{LeasePart, RangeState, Route};
use leasewatch_web::{Context, Language};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args().nth(1).ok_or("name a folder to write to")?;
    let target = Path::new(&target);
    fs::create_dir_all(target.join("assets"))?;
    for asset in Asset::ALL {
        let url = asset.url();
        let name = url.trim_start_matches("/assets/");
        let file = assets::find(name).ok_or("an asset has no file")?;
        fs::write(target.join("assets").join(name), &file.bytes)?;
    }
    for language in Language::ALL {
        let context = Context { language, ..Context::sample() };
        let write = |name: &str, html: String| {
            let html = html.replace("\"/assets/", "\"assets/");
            fs::write(target.join(format!("{name}.{}.html", language.tag())), html)
        };
        write("overview", overview::render(&OverviewView::sample(), &context)?)?;
        write("empty", overview::render(&OverviewView::empty_sample(), &context)?)?;
        write("node", node::render(&NodeView::sample(), &context)?)?;
        write("ended", node::render(&NodeView::ended_sample(), &context)?)?;
        let mut simulated = NodeView::sample();
        simulated.name.origin = Origin::Simulated;
        write("simulated", node::render(&simulated, &context)?)?;
        for (name, view) in [
            ("gpu", GpuView::sample()),
            ("gpu_months", GpuView::months_sample()),
            ("gpu_imported", GpuView::imported_sample()),
            ("gpu_empty", GpuView::empty_sample()),
        ] {
            let route = Route::Gpu { node: view.name.id.clone(), slot: view.gpu.number };
            let here = context.here.to(route).in_range(RangeState::between(view.range));
            write(name, gpu::render(&view, &Context { here, ..context.clone() })?)?;
        }
        let deadlines = Deadlines::of(&DeadlineLine::samples());
        let at = |route| Context { here: context.here.to(route), deadlines, ..context.clone() };
        let view = ClaimView::sample();
        write("claim", claim::render(&view, &at(Route::Claim(view.line.number)))?)?;
        write("claims", claims::render(&ClaimsView::sample(), &at(Route::Claims))?)?;
        let (tenant, name) = ("default".to_owned(), "h100-train".to_owned());
        let page = Route::Lease { tenant, lease: name, part: LeasePart::Page };
        write("lease", lease::render(&LeaseView::sample(), &at(page))?)?;
        write("error", error::render(&ErrorView::sample(), &context)?)?;
    }
    Ok(())
}
