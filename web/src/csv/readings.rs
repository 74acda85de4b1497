//! `readings.csv`: the series of a GPU's page, one row a bucket of the page's own grid.
//!
//! Times are UTC, values integers in the unit that their column names. Each series has three
//! columns, `NAME_min`, `NAME_mean` and `NAME_max`; a bucket without a reading leaves them empty.
//! The mark of simulated and imported data stands in each row.

use std::collections::BTreeMap;

use leasewatch_core::time::{Period, Timestamp};

use super::Line;
use crate::chart::Band;
use crate::pages::gpu::GpuView;

/// Appends the whole file.
pub fn readings(out: &mut String, view: &GpuView) {
    header(out, view);
    let mut rows: BTreeMap<Timestamp, Row> = BTreeMap::new();
    for (column, series) in view.series.iter().enumerate() {
        for point in &series.points {
            let Some(band) = point.band else { continue };
            let row = rows.entry(point.at).or_insert_with(|| vec![None; view.series.len()]);
            row[column] = Some(row[column].map_or(band, |known| both(known, band)));
        }
    }
    for (at, row) in rows {
        append(out, view, at, &row);
    }
}

type Row = Vec<Option<Band>>;

/// A bucket in which the GPU was replaced has two points; its row holds the extremes of both and
/// the later one's mean.
fn both(known: Band, later: Band) -> Band {
    Band { min: known.min.min(later.min), mean: later.mean, max: known.max.max(later.max) }
}

fn header(out: &mut String, view: &GpuView) {
    let mut line = Line { out, first: true };
    for name in
        ["node", "node_name", "slot", "gpu_uuid", "gpu_model", "origin", "start_utc", "end_utc"]
    {
        line.raw(name);
    }
    for series in &view.series {
        for part in ["min", "mean", "max"] {
            line.raw(format_args!("{}_{part}", series.what.name()));
        }
    }
    line.end();
}

fn append(out: &mut String, view: &GpuView, at: Timestamp, row: &Row) {
    let bucket = Period::new(at, at.plus_ms(view.bucket_ms)).intersect(view.range);
    let mut line = Line { out, first: true };
    line.text(&view.name.id);
    line.text(&view.name.name);
    line.raw(view.gpu.number);
    line.text(&view.gpu.uuid);
    line.text(&view.gpu.model);
    line.raw(view.name.origin.name());
    line.raw(bucket.start);
    line.raw(bucket.end);
    for band in row {
        line.optional(band.map(|band| band.min));
        line.optional(band.map(|band| band.mean));
        line.optional(band.map(|band| band.max));
    }
    line.end();
}
