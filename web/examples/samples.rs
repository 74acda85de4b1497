//! Writes every sample page as a file, to be looked at in a browser:
//! `cargo run -p leasewatch-web --example samples -- target/samples`.

use std::fs;
use std::path::Path;

use leasewatch_core::segment::Origin;
use leasewatch_web::assets::{self, Asset};
use leasewatch_web::pages::error::{self, ErrorView};
use leasewatch_web::pages::gpu::{self, GpuView};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::overview::{self, OverviewView};
use leasewatch_web::path::{RangeState, Route};
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
        write("error", error::render(&ErrorView::sample(), &context)?)?;
    }
    Ok(())
}
