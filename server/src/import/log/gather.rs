//! Puts rows in order by GPU, and keeps out what cannot be: times that go back, times that no
//! clock showed, one place with two GPUs at once.
//!
//! Not here: cells. A row that comes here has been read.

mod fold;
mod identity;
mod order;

use std::collections::HashMap;

use leasewatch_core::log_fault::LineFault;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Event, EventKind, limits};
use leasewatch_core::time::{LocalInstants, Timestamp};

use identity::Learn as _;
pub(in crate::import) use identity::{BusNumber, Identity};
use order::Fate;

use super::{ImportLog, LoggedGpu, LoggedRow, Reader};
use crate::import::said::Said;
use crate::intake::Problems;

/// NVML's code for a GPU that only a reset brings back.
const NVML_RESET_REQUIRED: i64 = 16;
/// Events that one log can have; a segment holds little more.
const EVENTS_MAX: usize = limits::EVENTS / 2;

/// A row while it is read.
#[derive(Debug, Default)]
pub(in crate::import) struct Draft {
    pub(in crate::import) at: Option<LocalInstants>,
    pub(in crate::import) busy: Option<Reading>,
    pub(in crate::import) readings: Vec<(Metric, Reading)>,
    pub(in crate::import) identity: Identity,
    /// The row says that the GPU needs a reset.
    pub(in crate::import) needs_reset: bool,
}

/// A log while it is read.
pub(in crate::import) struct Gatherer<'a> {
    reader: Reader<'a>,
    gpus: Vec<Gathered>,
    by_key: HashMap<String, usize>,
    said: Vec<Remark>,
    last_row: Option<usize>,
    columns_ignored: Vec<String>,
    rows_repeated: usize,
    problems: Problems,
}

struct Gathered {
    gpu: LoggedGpu,
    key: String,
    index: Option<i64>,
    /// The line of each row.
    lines: Vec<usize>,
    /// The later instant that each row can be of, too. Empty in a log without such a row.
    seconds: Vec<Option<Timestamp>>,
    needs_reset: bool,
}

/// What a line between the rows says.
struct Remark {
    line: usize,
    said: Said,
    /// The line of the row before it.
    after: Option<usize>,
}

/// Why the rows cannot be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) struct GpusNotNamed;

impl Gathered {
    /// Keeps the rows whose place says true.
    fn retain(&mut self, kept: &[bool]) {
        let mut turn = kept.iter();
        self.gpu.rows.retain(|_| turn.next() == Some(&true));
        let mut turn = kept.iter();
        self.lines.retain(|_| turn.next() == Some(&true));
    }

    /// When the row of a line was written, if it was kept.
    fn time_of(&self, line: usize) -> Option<Timestamp> {
        let index = self.lines.binary_search(&line).ok()?;
        self.gpu.rows.get(index).map(|row| row.at)
    }
}

impl<'a> Gatherer<'a> {
    pub(in crate::import) fn new(reader: Reader<'a>) -> Self {
        Self {
            reader,
            gpus: Vec::new(),
            by_key: HashMap::new(),
            said: Vec::new(),
            last_row: None,
            columns_ignored: Vec::new(),
            rows_repeated: 0,
            problems: Problems::default(),
        }
    }

    pub(in crate::import) fn problem(&mut self, line: usize, fault: LineFault) {
        self.problems.add(line, fault);
    }

    pub(in crate::import) fn ignored(&mut self, name: &str) {
        if !self.columns_ignored.iter().any(|known| known == name) {
            self.columns_ignored.push(name.to_owned());
        }
    }

    /// Takes a row, or counts it as a problem.
    pub(in crate::import) fn row(&mut self, line: usize, draft: Draft) {
        if let Err(fault) = self.take(line, draft) {
            self.problems.add(line, fault);
        }
    }

    fn take(&mut self, line: usize, mut draft: Draft) -> Result<(), LineFault> {
        let LocalInstants { first: at, second } = draft.at.ok_or(LineFault::RowWithoutTime)?;
        let credible = self.reader.credible;
        if at <= credible.start || credible.end < at {
            return Err(LineFault::ClockNotSet { at, credible });
        }
        draft.readings.sort_by_key(|(metric, _)| *metric);
        let busy = draft.busy.unwrap_or(Reading::Unsupported);
        let row = LoggedRow { at, busy, readings: draft.readings };
        let gathered = self.gpu(&draft.identity)?;
        let falls = draft.needs_reset && !gathered.needs_reset;
        gathered.needs_reset = draft.needs_reset;
        gathered.gpu.inventory.learn(&draft.identity, &row);
        gathered.gpu.rows.push(row);
        gathered.lines.push(line);
        // What lies in the future cannot be meant.
        gathered.seconds.push(second.filter(|second| *second <= credible.end));
        let uuid = gathered.gpu.inventory.uuid.clone();
        if falls {
            let said = Said::NeedsReset(uuid);
            self.said.push(Remark { line, said, after: Some(line) });
        }
        self.last_row = Some(line);
        Ok(())
    }

    fn gpu(&mut self, identity: &Identity) -> Result<&mut Gathered, LineFault> {
        let key = identity.key();
        let at = match self.by_key.get(key) {
            Some(at) => *at,
            None if self.gpus.len() == limits::GPUS => {
                return Err(LineFault::TooManyGpus { most: limits::GPUS });
            }
            None => {
                let gpu = LoggedGpu { inventory: identity.inventory()?, rows: Vec::new() };
                self.gpus.push(Gathered {
                    gpu,
                    key: key.to_owned(),
                    index: identity.index(),
                    lines: Vec::new(),
                    seconds: Vec::new(),
                    needs_reset: false,
                });
                self.by_key.insert(key.to_owned(), self.gpus.len() - 1);
                self.gpus.len() - 1
            }
        };
        Ok(&mut self.gpus[at])
    }

    /// Takes what a line between the rows says. The same again before the next row is no news.
    pub(in crate::import) fn said(&mut self, line: usize, said: Said) {
        let after = self.last_row;
        let mut recent = self.said.iter().rev().take_while(|remark| remark.after == after);
        if !recent.any(|remark| remark.said == said) {
            self.said.push(Remark { line, said, after });
        }
    }

    /// # Errors
    /// [`GpusNotNamed`] when rows without a name come from several GPUs.
    pub(in crate::import) fn finish(mut self) -> Result<ImportLog, GpusNotNamed> {
        let nameless = self.gpus.iter().find(|gathered| gathered.key.is_empty());
        if nameless.is_some_and(|g| self.gpus.len() == 1 && order::is_of_several(&g.gpu.rows)) {
            return Err(GpusNotNamed);
        }
        self.tell_repeated_hours_apart();
        self.put_in_order();
        self.keep_one_gpu_in_a_place();
        self.gpus.sort_by(|a, b| (a.index, &a.key).cmp(&(b.index, &b.key)));
        let events = self.events();
        let gpus = self.gpus.into_iter().zip(0..).map(|(mut gathered, position)| {
            gathered.gpu.inventory.index = gathered.index.unwrap_or(position);
            gathered.gpu
        });
        Ok(ImportLog {
            gpus: gpus.collect(),
            events,
            columns_ignored: self.columns_ignored,
            rows_repeated: self.rows_repeated,
            problems: self.problems.by_line(),
        })
    }

    fn tell_repeated_hours_apart(&mut self) {
        let zone = self.reader.zone;
        for gathered in &mut self.gpus {
            if gathered.seconds.iter().all(Option::is_none) {
                continue;
            }
            let found = fold::instants(&gathered.gpu.rows, &gathered.seconds);
            for ((at, row), line) in found.iter().zip(&mut gathered.gpu.rows).zip(&gathered.lines) {
                match at {
                    Some(at) => row.at = *at,
                    None => {
                        self.problems.add(*line, LineFault::RepeatedHour { zone, at: row.at });
                    }
                }
            }
            gathered.retain(&found.iter().map(Option::is_some).collect::<Vec<_>>());
        }
    }

    fn put_in_order(&mut self) {
        for gathered in &mut self.gpus {
            let fates = order::fates(&gathered.gpu.rows);
            for ((fate, row), line) in fates.iter().zip(&gathered.gpu.rows).zip(&gathered.lines) {
                match fate {
                    Fate::Kept => {}
                    Fate::Repeated => self.rows_repeated += 1,
                    Fate::OutOfOrder => {
                        self.problems.add(*line, LineFault::OutOfOrder { at: row.at });
                    }
                }
            }
            gathered.retain(&fates.iter().map(|fate| *fate == Fate::Kept).collect::<Vec<_>>());
        }
    }

    /// A damaged UUID looks like another GPU in a place that is taken: the one with fewer rows
    /// goes. A GPU that replaced another one does not share its time.
    fn keep_one_gpu_in_a_place(&mut self) {
        self.gpus.sort_by_key(|gathered| std::cmp::Reverse(gathered.gpu.rows.len()));
        let mut kept: Vec<Gathered> = Vec::new();
        for gathered in std::mem::take(&mut self.gpus) {
            let place = &gathered.gpu.inventory.bus_id;
            let owner = kept.iter().find(|other| {
                other.gpu.inventory.bus_id == *place && order::overlap(&other.gpu, &gathered.gpu)
            });
            let Some(owner) = owner else {
                kept.push(gathered);
                continue;
            };
            let (gpu, owner) = (&gathered.gpu.inventory.uuid, &owner.gpu.inventory.uuid);
            let taken = || LineFault::PlaceTaken {
                gpu: gpu.clone(),
                place: place.clone(),
                owner: owner.clone(),
            };
            for line in &gathered.lines {
                self.problems.add(*line, taken());
            }
        }
        kept.retain(|gathered| !gathered.gpu.rows.is_empty());
        self.gpus = kept;
    }

    /// Lines between the rows carry no time: they count as written just after the row before.
    fn events(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        let mut anchor = (None, 0);
        for Remark { line, said, after } in std::mem::take(&mut self.said) {
            let Some(after) = after else {
                let notice = said.notice();
                self.problems.add(line, LineFault::NoticeBeforeRows { notice });
                continue;
            };
            let Some(after) = self.gpus.iter().find_map(|gathered| gathered.time_of(after)) else {
                let notice = said.notice();
                self.problems.add(line, LineFault::NoticeBehindUnread { notice });
                continue;
            };
            let own_time = matches!(said, Said::NeedsReset(_));
            anchor =
                if anchor.0 == Some(after) { (anchor.0, anchor.1 + 1) } else { (Some(after), 1) };
            let at = after.plus_ms(if own_time { 0 } else { anchor.1 });
            let event = match self.event(&said, at) {
                Ok(event) if events.len() < EVENTS_MAX => event,
                Ok(_) => {
                    let (notice, most) = (said.notice(), EVENTS_MAX);
                    self.problems.add(line, LineFault::NoticesTooMany { notice, most });
                    continue;
                }
                Err(fault) => {
                    self.problems.add(line, fault);
                    continue;
                }
            };
            events.push(event);
        }
        events.sort_by_key(|event| event.at);
        events
    }

    fn event(&self, said: &Said, at: Timestamp) -> Result<Event, LineFault> {
        let (gpu, kind) = match said {
            Said::GpuLost { bus, nvml_code } => {
                let mut on_bus =
                    self.gpus.iter().map(|gathered| &gathered.gpu.inventory).filter(|inventory| {
                        BusNumber::read(inventory.bus_id.as_str()) == Some(*bus)
                    });
                let found = on_bus.next().filter(|_| on_bus.next().is_none());
                let gpu =
                    found.ok_or_else(|| LineFault::NoticeOfNoGpu { notice: said.notice() })?;
                (Some(gpu.uuid.clone()), EventKind::GpuLost { nvml_code: *nvml_code })
            }
            Said::NeedsReset(uuid) => {
                (Some(uuid.clone()), EventKind::GpuLost { nvml_code: NVML_RESET_REQUIRED })
            }
            Said::NoGpu => (None, EventKind::NoGpuAttached),
            Said::DriverAway { nvml_code } => {
                (None, EventKind::NvmlUnavailable { nvml_code: *nvml_code })
            }
        };
        Ok(Event::new(at, gpu, kind))
    }
}
