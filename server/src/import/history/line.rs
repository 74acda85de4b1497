//! The lines of a history: a header, then parts, each with the events and the rows of at most an
//! hour. `nvml-sim/README.md` says what they hold.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, Read as _};

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{
    Column, Event, GpuBlock, TrackPoint, TrackSource, UtilizationTrack, limits,
};
use leasewatch_core::time::{Period, Timestamp};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use crate::import::ImportError;

const FORM: u32 = 1;
/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 32 * 1_024 * 1_024;
const MINUTE_MS: i64 = 60_000;

/// What the whole log is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) period: Period,
    pub(super) cadence_ms: u32,
}

/// What is sealed together.
#[derive(Debug)]
pub(super) struct Part {
    /// Its line, from 1.
    pub(super) line: usize,
    pub(super) gpu_count: u16,
    /// Ascending by time.
    pub(super) events: Vec<Event>,
    pub(super) gpus: Vec<GpuBlock>,
}

/// The parts of a log, read as they are asked for.
pub(super) struct Lines {
    text: Box<dyn BufRead + Send>,
    line: usize,
    cadence_ms: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderText {
    leasewatch_history: u32,
    origin: String,
    started_at: i64,
    ended_at: i64,
    cadence_ms: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartText {
    gpu_count: u16,
    events: Vec<serde_json::Value>,
    gpus: Vec<RowsText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowsText {
    uuid: String,
    bus_id: String,
    first_at: i64,
    rows: usize,
    busy_pct: Cells,
    each_row: BTreeMap<String, Cells>,
    each_minute: BTreeMap<String, Cells>,
}

/// One reading for all rows, or one for each.
enum Cells {
    Same(Reading),
    Each(Vec<Reading>),
}

impl Lines {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ImportError::History`] when it is no header of a history.
    pub(super) fn open(text: Box<dyn BufRead + Send>) -> Result<(Header, Self), ImportError> {
        let mut lines = Self { text, line: 0, cadence_ms: 1 };
        let header = lines.next_line()?.ok_or_else(|| lines.wrong("it is empty"))?;
        let header: HeaderText =
            serde_json::from_slice(&header).map_err(|error| lines.wrong(error))?;
        let (started_at, ended_at) = (Timestamp(header.started_at), Timestamp(header.ended_at));
        let credible = Timestamp::MIN <= started_at && ended_at <= Timestamp::MAX;
        if header.leasewatch_history != FORM || header.origin != "simulated" {
            return Err(lines.wrong("a history is of form 1, and simulated"));
        }
        if !credible || ended_at <= started_at || !(1..=60_000).contains(&header.cadence_ms) {
            return Err(lines.wrong("its times or its cadence cannot be"));
        }
        lines.cadence_ms = header.cadence_ms;
        let period = Period::new(started_at, ended_at);
        Ok((Header { period, cadence_ms: header.cadence_ms }, lines))
    }

    /// The next part; `None` at the end.
    pub(super) fn next_part(&mut self) -> Result<Option<Part>, ImportError> {
        let Some(text) = self.next_line()? else { return Ok(None) };
        let text: PartText = serde_json::from_slice(&text).map_err(|error| self.wrong(error))?;
        let events = text.events.iter().map(event).collect::<Result<_, _>>();
        let gpus = text.gpus.into_iter().map(|rows| rows.block(self.cadence_ms)).collect();
        Ok(Some(Part {
            line: self.line,
            gpu_count: text.gpu_count,
            events: events.map_err(|what| self.wrong(what))?,
            gpus: Result::<_, String>::map_err(gpus, |what| self.wrong(what))?,
        }))
    }

    /// `None` at the end. A log that was cut in a line is not the whole log.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, ImportError> {
        let mut line = Vec::new();
        let mut text = (&mut self.text).take(LINE_BYTES_MAX);
        let read = text.read_until(b'\n', &mut line);
        self.line += 1;
        match read {
            Ok(0) => Ok(None),
            Ok(_) if line.ends_with(b"\n") => Ok(Some(line)),
            Ok(_) => Err(self.wrong("it is cut")),
            Err(error) => Err(self.wrong(error)),
        }
    }

    fn wrong(&self, what: impl fmt::Display) -> ImportError {
        ImportError::History { line: self.line, what: super::super::log::cut(&what.to_string()) }
    }
}

/// An event stands in the very form of an events block.
fn event(value: &serde_json::Value) -> Result<Event, String> {
    Event::from_json(value.to_string().as_bytes()).map_err(|error| error.to_string())
}

impl RowsText {
    fn block(self, cadence_ms: u32) -> Result<GpuBlock, String> {
        if !(1..=limits::TICKS).contains(&self.rows) {
            return Err(format!("{} rows where there can be {}", self.rows, limits::TICKS));
        }
        let step_ms = i64::from(cadence_ms);
        let after = |row: usize| i64::try_from(row).unwrap_or(i64::MAX).saturating_mul(step_ms);
        let ticks: Vec<Timestamp> =
            (0..self.rows).map(|row| Timestamp(self.first_at).plus_ms(after(row))).collect();
        let minutes: Vec<usize> =
            (0..self.rows).filter(|row| ticks[*row].0.rem_euclid(MINUTE_MS) == 0).collect();
        let busy = self.busy_pct.of(self.rows).ok_or("busy_pct has another number of rows")?;
        let mut columns = Vec::with_capacity(self.each_row.len() + self.each_minute.len());
        for (name, cells) in self.each_row {
            let readings = cells.of(self.rows).ok_or_else(|| miscounted(&name))?;
            let readings = readings.into_iter().map(Some).collect();
            columns.push(Column { metric: metric(&name)?, readings });
        }
        for (name, cells) in self.each_minute {
            let read = cells.of(minutes.len()).ok_or_else(|| miscounted(&name))?;
            let mut readings = vec![None; self.rows];
            for (row, reading) in minutes.iter().zip(read) {
                readings[*row] = Some(reading);
            }
            columns.push(Column { metric: metric(&name)?, readings });
        }
        columns.sort_by_key(|column| column.metric);
        let points = ticks.iter().zip(busy).map(|(at, busy)| TrackPoint { at: *at, busy });
        Ok(GpuBlock {
            uuid: GpuUuid::new(&self.uuid).map_err(|error| error.to_string())?,
            bus_id: BusId::new(&self.bus_id).map_err(|error| error.to_string())?,
            partition: None,
            track: UtilizationTrack {
                source: TrackSource::Import,
                period_ms: cadence_ms,
                points: points.collect(),
            },
            ticks,
            columns,
        })
    }
}

fn metric(name: &str) -> Result<Metric, String> {
    let found = Metric::ALL.iter().find(|metric| metric.name() == name);
    found.copied().ok_or_else(|| format!("there is no metric `{name}`"))
}

fn miscounted(name: &str) -> String {
    format!("{name} has another number of rows")
}

impl Cells {
    /// One reading for each of `rows`; `None` when there are more or fewer.
    fn of(self, rows: usize) -> Option<Vec<Reading>> {
        match self {
            Self::Same(reading) => Some(vec![reading; rows]),
            Self::Each(readings) => (readings.len() == rows).then_some(readings),
        }
    }
}

struct Cell(Reading);

struct CellVisitor;

impl Visitor<'_> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, \"unsupported\", \"error\" or \"stale\"")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Cell, E> {
        let number = i64::try_from(number).map_err(|_| E::custom("a number is too large"))?;
        Ok(Cell(Reading::Number(number)))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Cell, E> {
        Ok(Cell(Reading::Number(number)))
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Cell, E> {
        match word {
            "unsupported" => Ok(Cell(Reading::Unsupported)),
            "error" => Ok(Cell(Reading::Error)),
            "stale" => Ok(Cell(Reading::Stale)),
            _ => Err(E::custom("a word that is no reading")),
        }
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CellVisitor)
    }
}

struct CellsVisitor;

impl<'de> Visitor<'de> for CellsVisitor {
    type Value = Cells;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reading, or a list of readings")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Cells, E> {
        CellVisitor.visit_u64(number).map(|cell| Cells::Same(cell.0))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Cells, E> {
        CellVisitor.visit_i64(number).map(|cell| Cells::Same(cell.0))
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Cells, E> {
        CellVisitor.visit_str(word).map(|cell| Cells::Same(cell.0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Cells, A::Error> {
        let mut readings = Vec::with_capacity(limits::TICKS);
        while let Some(Cell(reading)) = list.next_element()? {
            if readings.len() == limits::TICKS {
                return Err(A::Error::custom("a list is longer than a part can be"));
            }
            readings.push(reading);
        }
        Ok(Cells::Each(readings))
    }
}

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CellsVisitor)
    }
}
