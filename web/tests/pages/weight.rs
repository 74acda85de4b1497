//! A fleet of 64 GPUs in one page, with style and script, is under 100 kB as it travels.

use std::io::Write as _;

use super::{context, gpu_context};
use flate2::Compression;
use flate2::write::GzEncoder;
use leasewatch_web::Language;
use leasewatch_web::assets::{self, Asset};
use leasewatch_web::pages::gpu::{self, GpuView};
use leasewatch_web::pages::node::{self, NodeView};
use leasewatch_web::pages::overview::{self, OverviewView};
use leasewatch_web::path::Route;

fn gzip(bytes: &[u8]) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap().len()
}

fn assets_weight() -> usize {
    let weigh = |asset: Asset| {
        let url = asset.url();
        gzip(&assets::find(url.trim_start_matches("/assets/")).unwrap().bytes)
    };
    Asset::ALL.into_iter().map(weigh).sum()
}

#[test]
fn an_overview_of_64_gpus() {
    let mut view = OverviewView::sample();
    let lane = view.tenants[0].providers[0].nodes[0].clone();
    view.tenants[0].providers[0].nodes = (0..8)
        .map(|number| {
            let mut lane = lane.clone();
            lane.name.id = format!("{number:032x}");
            lane.name.name = format!("train-{number:02}");
            lane.gpus.extend(lane.gpus.clone());
            (0..).zip(&mut lane.gpus).for_each(|(at, gpu)| gpu.number = at);
            for gpu in &mut lane.gpus {
                gpu.uuid = format!(
                    "GPU-{:08x}-{number:04x}",
                    u64::from(gpu.number) * 2_654_435_761 % 4_294_967_291
                );
                // Each GPU has a day of its own.
                for (hour, cell) in (1_i64..).zip(&mut gpu.strip) {
                    let shift = (i64::from(gpu.number) * 37 + number * 101 + hour * 53) % 83;
                    cell.busy_pct_ms = cell.busy_pct_ms / 100 * (17 + shift) + shift;
                }
            }
            lane
        })
        .collect();
    view.tenants[0].providers.truncate(1);
    let gpus: usize = view.tenants[0].providers[0].nodes.iter().map(|node| node.gpus.len()).sum();
    assert_eq!(gpus, 64);
    for language in Language::ALL {
        let html = overview::render(&view, &context(language, Route::Overview)).unwrap();
        let weight = gzip(html.as_bytes()) + assets_weight();
        assert!(weight < 100_000, "{language:?}: {weight}");
    }
}

#[test]
fn a_node_with_a_week_of_eight_gpus() {
    let view = NodeView::sample();
    for language in Language::ALL {
        let html =
            node::render(&view, &context(language, Route::Node(view.name.id.clone()))).unwrap();
        let weight = gzip(html.as_bytes()) + assets_weight();
        assert!(weight < 100_000, "{language:?}: {weight}");
    }
}

#[test]
fn a_gpu_with_every_chart_and_420_points_a_series() {
    let mut view = GpuView::sample();
    view.bucket_ms = view.range.ms() / 420;
    for series in &mut view.series {
        let points = series.points.clone();
        series.points = points.into_iter().cycle().take(420).collect();
        for (column, point) in (0..).zip(&mut series.points) {
            point.at = view.range.start.plus_ms(column * view.bucket_ms);
        }
    }
    for language in Language::ALL {
        let html = gpu::render(&view, &gpu_context(language, &view)).unwrap();
        let weight = gzip(html.as_bytes()) + assets_weight();
        assert!(html.matches("class=\"chart\"").count() > 8);
        assert!(weight < 100_000, "{language:?}: {weight}");
    }
}
