//! The CSV that `nvidia-smi --query-gpu=.. --format=csv -l N` writes.
//!
//! A well-formed log: one row per GPU and time, times ascending per GPU. Cells that say "not
//! available" become typed readings; anything else that cannot be read refuses the whole log with
//! its line, before anything is sent. Deliberately not here: repairing damaged logs.

mod cell;
mod column;

use std::collections::BTreeMap;

use leasewatch_core::id::{BusId, GpuUuid, Hash};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::time::{Timestamp, Zone};

pub use column::Column;

use super::text::EncodingError;

/// A log, by GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmiLog {
    /// Rows of each GPU, ascending by time.
    pub gpus: Vec<SmiGpu>,
    /// Header cells that are not recorded.
    pub columns_ignored: Vec<String>,
}

/// One GPU of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmiGpu {
    /// Its UUID; made from the log's own naming where the log has none.
    pub uuid: GpuUuid,
    /// Its place; made from the index where the log has none.
    pub bus_id: BusId,
    /// Its name, if the log has one.
    pub name: Option<String>,
    /// Its rows.
    pub rows: Vec<SmiRow>,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmiRow {
    /// When it was written.
    pub at: Timestamp,
    /// Utilization in percent; unsupported when the log has no such column.
    pub busy: Reading,
    /// Everything else, ascending by metric, rounded to the declared resolutions.
    pub readings: Vec<(Metric, Reading)>,
}

/// Why a text is not a log that can be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Not text.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// No rows.
    #[error("the file holds no rows")]
    Empty,
    /// The first row is data and nobody said what the columns are.
    #[error(
        "the log has no header. Name its columns, for example\n  --columns timestamp,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw\nThe first row is:\n  {first_row}"
    )]
    NoHeader {
        /// The row as it stands.
        first_row: String,
    },
    /// `--columns` names nothing that can be recorded, or the log has no times.
    #[error("the columns must include `timestamp` and `utilization.gpu`; found: {found}")]
    Columns {
        /// The names found.
        found: String,
    },
    /// A column stands twice.
    #[error("the column `{name}` stands twice")]
    ColumnTwice {
        /// Its name.
        name: String,
    },
    /// A row cannot be read.
    #[error("line {line}: {what}; nothing was imported")]
    Row {
        /// Counted from 1, the header included.
        line: usize,
        /// What is wrong, with the cell.
        what: String,
    },
}

/// Reads a log. `columns` names the columns of a log without a header; `zone` is the zone of its
/// times.
///
/// # Errors
/// [`LogError`] with the first line that is wrong.
pub fn parse(text: &str, columns: Option<&str>, zone: Zone) -> Result<SmiLog, LogError> {
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())).peekable();
    while lines.next_if(|(_, line)| line.is_empty()).is_some() {}
    let (_, first) = *lines.peek().ok_or(LogError::Empty)?;
    let has_header = column::is_header(first);
    let header = match (has_header, columns) {
        (true, None) => column::header(first)?,
        (_, Some(names)) => column::header(names)?,
        (false, None) => return Err(LogError::NoHeader { first_row: cut(first) }),
    };
    if has_header {
        lines.next();
    }
    let mut gpus: BTreeMap<String, SmiGpu> = BTreeMap::new();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
        add_row(&mut gpus, &header, text, zone).map_err(|what| LogError::Row { line, what })?;
    }
    if gpus.is_empty() {
        return Err(LogError::Empty);
    }
    let columns_ignored = header.into_iter().filter_map(Column::ignored_name).collect();
    Ok(SmiLog { gpus: gpus.into_values().collect(), columns_ignored })
}

fn add_row(
    gpus: &mut BTreeMap<String, SmiGpu>,
    header: &[Column],
    text: &str,
    zone: Zone,
) -> Result<(), String> {
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    if cells.len() != header.len() {
        let (got, want) = (cells.len(), header.len());
        return Err(format!("{got} cells where the header has {want}: {}", cut(text)));
    }
    let mut row = Draft::default();
    for (column, cell) in header.iter().zip(cells) {
        row.read(column, cell, zone)?;
    }
    let at = row.at.ok_or("the row has no time")?;
    let gpu = match gpus.entry(row.gpu_key()) {
        std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::btree_map::Entry::Vacant(entry) => entry.insert(row.gpu()?),
    };
    if let Some(last) = gpu.rows.last().filter(|last| last.at >= at) {
        return Err(format!("time goes backwards or stands still: {} after {}", at, last.at));
    }
    row.readings.sort_by_key(|(metric, _)| *metric);
    gpu.rows.push(SmiRow {
        at,
        busy: row.busy.unwrap_or(Reading::Unsupported),
        readings: row.readings,
    });
    Ok(())
}

/// A row while it is read.
#[derive(Default)]
struct Draft<'a> {
    at: Option<Timestamp>,
    busy: Option<Reading>,
    readings: Vec<(Metric, Reading)>,
    index: Option<&'a str>,
    uuid: Option<&'a str>,
    bus_id: Option<&'a str>,
    name: Option<&'a str>,
}

impl<'a> Draft<'a> {
    fn read(&mut self, column: &Column, cell: &'a str, zone: Zone) -> Result<(), String> {
        let wrong = |what: &str| format!("`{}` is not {what}", cut(cell));
        match column {
            Column::Time => {
                self.at = Some(cell::time(cell, zone).ok_or_else(|| wrong("a time"))?);
            }
            Column::Busy => {
                let reading = cell::number(cell, 1).filter(|r| in_range(*r, 0, 100));
                self.busy = Some(reading.ok_or_else(|| wrong("a utilization"))?);
            }
            Column::Metric { metric, scale } => {
                let reading = cell::number(cell, *scale)
                    .filter(|r| in_range(*r, metric.lowest(), metric.highest()))
                    .ok_or_else(|| wrong(metric.name()))?;
                self.readings.push((*metric, reading.rounded_to(metric.resolution())));
            }
            Column::Index => self.index = Some(cell),
            Column::Uuid => self.uuid = Some(cell),
            Column::BusId => self.bus_id = Some(cell),
            Column::Name => self.name = Some(cell),
            Column::Ignored(_) => {}
        }
        Ok(())
    }

    fn gpu_key(&self) -> String {
        self.uuid.or(self.bus_id).or(self.index).unwrap_or("0").to_owned()
    }

    fn gpu(&self) -> Result<SmiGpu, String> {
        let key = self.gpu_key();
        let made_up = || {
            let digest = Hash::of(key.as_bytes()).to_string();
            GpuUuid::new(&format!("imported-{}", &digest[..12]))
        };
        let uuid = self.uuid.map_or_else(made_up, GpuUuid::new).map_err(|e| e.to_string())?;
        let place =
            self.bus_id.map_or_else(|| format!("imported:{}", bus_text(&key)), str::to_owned);
        Ok(SmiGpu {
            uuid,
            bus_id: BusId::new(&place).map_err(|e| e.to_string())?,
            name: self.name.map(str::to_owned),
            rows: Vec::new(),
        })
    }
}

/// At most 20 characters that a bus id may hold: the end of a UUID differs, its start may not.
fn bus_text(key: &str) -> String {
    let allowed: Vec<char> =
        key.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-')).collect();
    allowed[allowed.len().saturating_sub(20)..].iter().collect()
}

fn in_range(reading: Reading, min: i64, max: i64) -> bool {
    reading.number().is_none_or(|value| (min..=max).contains(&value))
}

fn cut(text: &str) -> String {
    leasewatch_core::id::clean_text(text, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W], pstate\n\
        2026/08/01 03:59:40.361, 0, 100 %, 10549 MiB, 250.04 W, P0\n\
        2026/08/01 03:59:40.365, 1, [N/A], 12 MiB, [Not Supported], P8\n\
        2026/08/01 03:59:41.371, 0, 63 %, 1764 MiB, 101.06 W, P0\n";

    #[test]
    fn rows_are_grouped_by_gpu_and_typed() {
        let log = parse(LOG, None, Zone::UTC).unwrap();
        assert_eq!(log.gpus.len(), 2);
        assert_eq!(log.gpus[0].rows.len(), 2);
        assert_eq!(log.gpus[0].rows[0].at.to_string(), "2026-08-01T03:59:40.361Z");
        assert_eq!(log.gpus[0].rows[0].busy, Reading::Number(100));
        assert!(
            log.gpus[0].rows[0].readings.contains(&(Metric::PowerDraw, Reading::Number(250_000)))
        );
        assert_eq!(log.gpus[1].rows[0].busy, Reading::Unsupported);
        assert!(log.gpus[1].rows[0].readings.contains(&(Metric::PowerDraw, Reading::Unsupported)));
        assert!(
            log.gpus[1].rows[0].readings.contains(&(Metric::PerformanceState, Reading::Number(8)))
        );
    }

    #[test]
    fn local_times_follow_the_zone() {
        let log = parse(LOG, None, Zone::parse("Asia/Shanghai").unwrap()).unwrap();
        assert_eq!(log.gpus[0].rows[0].at.to_string(), "2026-07-31T19:59:40.361Z");
    }

    #[test]
    fn a_log_without_a_header_asks_for_columns_and_shows_its_first_row() {
        let row = "2026/04/25 16:06:06.780, 0 %, 2 MiB";
        let error = parse(row, None, Zone::UTC).unwrap_err();
        assert!(error.to_string().contains(row), "{error}");
        assert!(error.to_string().contains("--columns timestamp,"));
        let log = parse(row, Some("timestamp,utilization.gpu,memory.used"), Zone::UTC).unwrap();
        assert_eq!(log.gpus[0].rows[0].busy, Reading::Number(0));
    }

    #[test]
    fn a_bad_row_is_named_and_refuses_the_log() {
        for (row, what) in [
            ("2026/08/01 03:59:42.000, 0, 1e9 %, 1 MiB, 1 W, P0", "not a utilization"),
            ("2026/08/01 03:59:42.000, 0, 101 %, 1 MiB, 1 W, P0", "not a utilization"),
            ("2026/13/01 03:59:42.000, 0, 1 %, 1 MiB, 1 W, P0", "not a time"),
            ("2026/08/01 03:59:42.000, 0, 1 %", "3 cells where the header has 6"),
            ("2026/08/01 03:59:41.371, 0, 1 %, 1 MiB, 1 W, P0", "stands still"),
            ("2026/08/01 03:59:42.000, 0, 1 %, -1 MiB, 1 W, P0", "not memory_used_mib"),
        ] {
            let error = parse(&format!("{LOG}{row}\n"), None, Zone::UTC).unwrap_err().to_string();
            assert!(error.contains("line 5") && error.contains(what), "{error}");
        }
        assert_eq!(parse(" \n", None, Zone::UTC), Err(LogError::Empty));
    }
}
