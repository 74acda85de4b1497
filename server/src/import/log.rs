//! What an importer makes of a log: rows by GPU, what else the log says, and what it could not
//! read. Every format ends here; not here: any format.

mod gather;

use leasewatch_core::id::clean_text;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Event, GpuInventory};
use leasewatch_core::time::{Period, Timestamp, Zone};

pub(super) use gather::{BusNumber, Draft, Gatherer, Identity};

/// Problems that are kept with their reason; more are counted.
const PROBLEMS_SHOWN: usize = 20;

/// How to read a log.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    /// Names of the columns, for rows that stand under no header.
    pub columns: Option<&'a str>,
    /// Zone of the log's local times.
    pub zone: Zone,
    /// The server takes no times outside; rows there come from a clock that was not set.
    pub credible: Period,
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

/// Lines that were not understood: the first with their reasons, and how many in all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    /// The first of them.
    pub first: Vec<Problem>,
    /// All of them.
    pub count: usize,
}

/// Something in a log that was not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, with the text, made inert.
    pub what: String,
}

impl Problems {
    pub(super) fn add(&mut self, line: usize, what: &str) {
        self.count += 1;
        if self.first.len() < PROBLEMS_SHOWN {
            self.first.push(Problem { line, what: clean_text(what, 300) });
        }
    }

    fn by_line(mut self) -> Self {
        self.first.sort_by_key(|problem| problem.line);
        self
    }
}

impl std::fmt::Display for Problems {
    /// One line for each that is kept, and how many more there are.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Problem { line, what } in &self.first {
            writeln!(f, "line {line}: {what}")?;
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}

/// Text of a log, short enough and inert, for a message.
pub(super) fn cut(text: &str) -> String {
    clean_text(text, 200)
}
