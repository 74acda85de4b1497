//! The rows of one card in one part of a log, column by column.

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::time::Timestamp;

/// Evenly spaced rows of one card.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) slot: usize,
    pub(super) first_at: Timestamp,
    pub(super) busy: Vec<Reading>,
    /// At each row.
    pub(super) fast: Vec<(Metric, Vec<Reading>)>,
    /// At rows on the full minute.
    pub(super) slow: Vec<(Metric, Vec<Reading>)>,
}

impl Rows {
    pub(super) fn new(slot: usize, first_at: Timestamp) -> Self {
        Self { slot, first_at, busy: Vec::new(), fast: Vec::new(), slow: Vec::new() }
    }

    pub(super) fn push(&mut self, busy: Reading, fast: &[(Metric, Reading)]) {
        self.busy.push(busy);
        add(&mut self.fast, fast);
    }

    pub(super) fn push_slow(&mut self, slow: &[(Metric, Reading)]) {
        add(&mut self.slow, slow);
    }
}

/// The metrics of a lane are the same at each row, in the same order.
fn add(columns: &mut Vec<(Metric, Vec<Reading>)>, read: &[(Metric, Reading)]) {
    if columns.is_empty() {
        columns.extend(read.iter().map(|(metric, _)| (*metric, Vec::new())));
    }
    for ((metric, column), (_, reading)) in columns.iter_mut().zip(read) {
        column.push(reading.rounded_to(metric.resolution()));
    }
}
