//! What an importer makes of a log: rows by GPU, what else the log says, and what it could not
//! read. Every format ends here; not here: any format.

mod gather;

use leasewatch_core::id::clean_text;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Event, GpuInventory};
use leasewatch_core::time::{Period, Timestamp, Zone};

use crate::intake::{Problems, Progress, Step};

pub(super) use gather::{BusNumber, Draft, Gatherer, Identity};

/// How to read a log.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    /// Names of the columns, for rows that stand under no header.
    pub columns: Option<&'a str>,
    /// Zone of the log's local times.
    pub zone: Zone,
    /// The server takes no times outside; rows there come from a clock that was not set.
    pub credible: Period,
    /// Where to say how far the reading is.
    pub progress: Option<&'a Progress>,
}

impl Reader<'_> {
    /// Says that `done` of `all` bytes are read.
    pub(super) fn tell(&self, done: usize, all: usize) {
        let bytes = |count| u64::try_from(count).unwrap_or(u64::MAX);
        if let Some(progress) = self.progress {
            progress.set(Step::Reading(bytes(done), bytes(all)));
        }
    }
}

/// A log, by GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportLog {
    /// Ascending by index.
    pub gpus: Vec<LoggedGpu>,
    /// Ascending by time.
    pub events: Vec<Event>,
    /// Names in the log that are not recorded.
    pub columns_ignored: Vec<String>,
    /// Rows that stand in the log again, to the last cell.
    pub rows_repeated: usize,
    /// Lines that were not understood.
    pub problems: Problems,
}

/// One GPU of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedGpu {
    /// What the log says of it. UUID and place are made from the log's own naming where it has
    /// none.
    pub inventory: GpuInventory,
    /// Ascending by time.
    pub rows: Vec<LoggedRow>,
}

/// One GPU at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRow {
    /// When it was written.
    pub at: Timestamp,
    /// Utilization in percent.
    pub busy: Reading,
    /// Everything else, ascending by metric, rounded to the declared resolutions.
    pub readings: Vec<(Metric, Reading)>,
}

impl LoggedRow {
    /// The reading of `metric`, if the log has it.
    #[must_use]
    pub fn reading(&self, metric: Metric) -> Option<Reading> {
        self.readings.iter().find(|(m, _)| *m == metric).map(|(_, reading)| *reading)
    }
}

/// Text of a log, short enough and inert, for a message.
pub(super) fn cut(text: &str) -> String {
    clean_text(text, 200)
}
