//! The CSV that `nvidia-smi --query-gpu=.. --format=csv -l N` writes, as people have it.
//!
//! Forgiving: what is whole is read, and each line that is not is named. Strict in one thing: a
//! cell is read for what it says or not at all; nothing is repaired, and no number is guessed.

mod column;
mod layout;

use leasewatch_core::log_fault::{LineFault, LogText};

use super::cell::{self, Cell};
use super::chosen::Chosen;
use super::log::{Draft, Gatherer, ImportLog, Reader, cut};
use super::{LogError, local_time, said, text};
use column::Column;
use layout::Layout;

/// Reads a log.
///
/// # Errors
/// [`LogError`] when nothing in it can be read without being told more.
pub fn parse(text: &str, reader: Reader<'_>) -> Result<ImportLog, LogError> {
    let mut csv = Csv {
        layout: reader.columns.map(Layout::named).transpose()?,
        gatherer: Gatherer::new(reader),
        refused: None,
        first_row: None,
        reader,
    };
    text::lines(text, reader).for_each(|line| csv.line(&line));
    let Csv { gatherer, refused, first_row, .. } = csv;
    let log = gatherer.finish().map_err(|_| LogError::GpusNotNamed)?;
    match (log.gpus.is_empty(), refused, first_row) {
        (true, Some(error), _) => Err(error),
        (true, None, Some(first_row)) => Err(LogError::NoHeader { first_row }),
        _ => Ok(log),
    }
}

struct Csv<'a> {
    reader: Reader<'a>,
    gatherer: Gatherer<'a>,
    /// What the columns are, since the last header.
    layout: Option<Layout>,
    /// Why a header was no help.
    refused: Option<LogError>,
    /// The first line that stands under no header and has a time, as a row does.
    first_row: Option<String>,
}

impl Csv<'_> {
    fn line(&mut self, line: &text::Line<'_>) {
        if let Some(said) = said::read(line.text) {
            self.gatherer.said(line.number, said);
        } else if line.is_damaged() {
            let text = LogText::quote(line.text);
            self.gatherer.problem(line.number, LineFault::NotText { text });
        } else if layout::is_header(line.text) {
            self.header(line);
        } else {
            match self.row(line) {
                Ok(draft) => self.gatherer.row(line.number, draft),
                Err(fault) => self.gatherer.problem(line.number, fault),
            }
        }
    }

    fn header(&mut self, line: &text::Line<'_>) {
        match Layout::header(line.text) {
            Ok(layout) => self.layout = Some(layout),
            Err(error) => {
                let found = LogText::quote(line.text);
                self.gatherer.problem(line.number, LineFault::Columns { found });
                self.refused.get_or_insert(error);
                self.layout = None;
            }
        }
    }

    fn row(&mut self, line: &text::Line<'_>) -> Result<Draft, LineFault> {
        let Some(layout) = &mut self.layout else {
            if layout::has_time(line.text, self.reader.zone) {
                self.first_row.get_or_insert_with(|| cut(line.text));
            }
            return Err(LineFault::NoHeader { text: LogText::quote(line.text) });
        };
        let cells = layout.cells(line.text)?;
        let closed = cells.last().is_some_and(|cell| is_closed(cell));
        if !line.ended && !closed {
            return Err(LineFault::MaybeCut { text: LogText::quote(line.text) });
        }
        let mut draft = Draft::default();
        let mut chosen = Chosen::default();
        for (column, cell) in layout.named_columns().zip(&cells) {
            read_cell(&mut draft, &mut chosen, column, cell.trim(), self.reader)?;
        }
        draft.readings = chosen.readings(&mut self.gatherer, line.number);
        layout.report_ignored(&mut self.gatherer);
        Ok(draft)
    }
}

/// True for a cell that cannot go on: with its unit, or in brackets.
fn is_closed(cell: &str) -> bool {
    [" %", " W", " MiB", " MHz", " us", "]"].iter().any(|end| cell.trim().ends_with(end))
}

fn read_cell(
    draft: &mut Draft,
    chosen: &mut Chosen,
    (name, column): (&str, &Column),
    text: &str,
    reader: Reader<'_>,
) -> Result<(), LineFault> {
    let quoted = || LogText::quote(text);
    let identity = &mut draft.identity;
    let words = || (!cell::says_nothing(text)).then(|| text.to_owned());
    let number = || cell::read(text, cell::Measure::Count).and_then(|cell| cell.reading.number());
    match column {
        Column::Time => {
            let at = local_time::read(text, reader.zone);
            draft.at = Some(at.ok_or_else(|| LineFault::NotATime { text: quoted() })?);
        }
        Column::Busy => {
            let read = cell::read(text, cell::Measure::Percent);
            let Cell { reading, needs_reset } = read
                .filter(|cell| cell.reading.number().is_none_or(|n| (0..=100).contains(&n)))
                .ok_or_else(|| LineFault::NotAUtilization { text: quoted() })?;
            draft.busy = Some(reading);
            draft.needs_reset |= needs_reset;
        }
        Column::Metric { metric, measure, rank } => {
            let wrong = || {
                let column = LogText::quote(name);
                LineFault::NotAReading { column, metric: *metric, text: quoted() }
            };
            let read = cell::read(text, *measure).ok_or_else(wrong)?;
            draft.needs_reset |= read.needs_reset;
            chosen.offer(*metric, *rank, read.reading);
        }
        Column::Index => identity.index = words(),
        Column::Uuid => identity.uuid = words(),
        Column::BusId => identity.bus_id = words(),
        Column::Name => identity.name = words(),
        Column::Serial => identity.serial = words(),
        Column::Vbios => identity.vbios = words(),
        Column::PartNumber => identity.part_number = words(),
        Column::PciDeviceId => {
            let read = cell::read(text, cell::Measure::Bits);
            identity.pci_device_id = read.and_then(|cell| cell.reading.number());
        }
        Column::PcieGenerationMax => identity.pcie_generation_max = number(),
        Column::PcieWidthMax => identity.pcie_width_max = number(),
        Column::Ignored(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
