//! The pages. Each has a view struct that serialises (it is served as JSON beside the HTML), a
//! `sample()` and a `render`. A view holds what the store knows, in integers with their unit in
//! the name; words, rounding and local time are made here, from the context.

pub mod account;
pub mod audit;
pub mod bill;
pub mod bill_import;
pub mod bills;
pub mod claim;
pub mod claims;
pub mod contracts;
pub mod costs;
pub mod enroll;
pub mod error;
mod export;
pub mod gpu;
pub mod import;
pub mod import_run;
pub mod lease;
pub mod lease_assign;
pub mod lease_form;
pub mod lease_import;
pub mod lease_told;
pub mod leases;
pub mod link;
pub mod node;
pub mod node_labels;
pub mod overview;
pub mod prices;
pub mod reliability;
pub(crate) mod sample;
mod sample_gpu;
mod sheet;
pub mod sign_in;
pub mod tenants;
pub mod users;

use leasewatch_core::id::clean_text;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use crate::chart::Cell;
use crate::context::Context;
use crate::format::{self, Measured};
use crate::i18n::{Language, Text, phrase};
use crate::live::LiveValues;
use crate::names::Standing;
use crate::wire;

/// A node as pages name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeName {
    /// Public id, 32 hex digits.
    pub id: String,
    /// The name it enrolled with.
    pub name: String,
    /// Where its data comes from.
    #[serde(serialize_with = "wire::origin")]
    pub origin: Origin,
}

/// Where a node stands, and since when nothing was heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// Up, late, unknown with its reason, or ended.
    #[serde(flatten, serialize_with = "wire::standing")]
    pub standing: Standing,
    /// When the server last heard of it; `None` if never.
    #[serde(serialize_with = "wire::maybe_at")]
    pub last_heard_at: Option<Timestamp>,
}

/// What a slice is a part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SliceOf {
    /// NVML's UUID of the GPU that was cut.
    pub parent_uuid: String,
    /// The number of that GPU; `None` when nothing of it was ever recorded.
    pub parent_number: Option<u16>,
    /// NVML's ids of the part.
    pub gpu_instance: u8,
    /// See `gpu_instance`.
    pub compute_instance: u8,
    /// Compute slices of the part.
    pub slices: u8,
    /// Compute slices of the whole GPU.
    pub slices_of: u8,
}

impl SliceOf {
    /// `1/7 of GPU 0`.
    fn share(&self, language: Language) -> String {
        let numbered = |number| phrase::gpu_label(language, number);
        let parent = self.parent_number.map_or_else(|| self.parent_uuid.clone(), numbered);
        phrase::gpu_share(language, self.slices_of, parent, self.slices)
    }
}

/// A GPU, or a slice of one, as a row: what it is, what it does now, and its last 24 hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuRow {
    /// Its number within the node, from 0.
    pub number: u16,
    /// NVML's UUID.
    pub uuid: String,
    /// What it is a slice of; `None` for a whole GPU.
    pub partition: Option<SliceOf>,
    /// Product name as the driver reports it.
    pub model: String,
    /// Current readings.
    pub live: LiveValues,
    /// True while it is off the bus.
    pub lost: bool,
    /// True while a call into the driver hangs.
    pub stalled: bool,
    /// Its hours in the 24 hours up to now, in order of time, the open one included.
    pub strip: Vec<Cell>,
    /// Their sum.
    pub day: Measured,
}

/// Columns of live values, and those from them to the end of a row.
const LIVE_COLUMNS: usize = 4;
const COLUMNS_TO_THE_END: usize = 7;

impl GpuRow {
    /// `GPU 3`, or `Slice 9`.
    fn label(&self, language: Language) -> String {
        match self.partition {
            Some(_) => phrase::gpu_slice(language, self.number),
            None => phrase::gpu_label(language, self.number),
        }
    }

    /// The label where it stands alone: that of a slice says of what.
    fn full_label(&self, language: Language) -> String {
        let label = self.label(language);
        match &self.partition {
            Some(part) => phrase::gpu_slice_of(language, part.share(language), label),
            None => label,
        }
    }

    /// How many columns have nothing more to say once the record ended: those of live values, and
    /// the last 24 hours where they hold no record. `None` while there is something.
    fn ended_columns(&self, standing: Standing) -> Option<usize> {
        let is_over = standing == Standing::Ended && self.live == LiveValues::NONE;
        let span = if has_record(&self.strip) { LIVE_COLUMNS } else { COLUMNS_TO_THE_END };
        is_over.then_some(span)
    }

    /// Whether the row still shows the last 24 hours.
    fn has_day(&self, standing: Standing) -> bool {
        self.ended_columns(standing) != Some(COLUMNS_TO_THE_END)
    }
}

fn has_record(cells: &[Cell]) -> bool {
    cells.iter().any(|cell| cell.enrolled_ms > 0)
}

/// `95.2 % – 97.5 %`: what the mean can be, where gaps leave room that shows; else `None`.
fn bounds(measured: &Measured, language: Language) -> Option<String> {
    let (low, high) = measured.bounds()?;
    let (low, high) = (low.text(language), high.text(language));
    (low != high).then(|| phrase::cell_range(language, high, low))
}

/// When the record ended, in place of values that will not come again.
fn ended_words(ended_at: Option<Timestamp>, context: &Context) -> String {
    let language = context.language;
    ended_at.map_or_else(
        || context.t(Text::NodeOver).to_owned(),
        |at| phrase::node_over_on(language, format::local_date(at, context.zone, language)),
    )
}

/// A finished page without characters that could act on a terminal or turn the reading direction,
/// wherever they came from. Here, so that no template has to remember it.
fn inert(html: &str) -> String {
    let lines: Vec<String> = html.lines().map(|line| clean_text(line, usize::MAX)).collect();
    lines.join("\n")
}
