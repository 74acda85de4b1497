//! What stands in which column, and how a line falls into cells.

use std::borrow::Cow;

use leasewatch_core::log_fault::{LineFault, LogText};
use leasewatch_core::time::Zone;

use super::super::log::{Gatherer, cut};
use super::super::{LogError, local_time};
use super::column::{self, Column};

const SEPARATORS: [char; 3] = [',', '\t', ';'];

/// The columns under one header.
pub(super) struct Layout {
    columns: Vec<Column>,
    /// Their names in the log.
    names: Vec<String>,
    /// Not known before the first row when the columns were named by hand.
    separator: Option<char>,
    reported: bool,
}

/// A header names its columns; a row of data does not.
pub(super) fn is_header(line: &str) -> bool {
    separator_of_header(line).is_some()
}

/// True when a cell of the line is a time, whatever the separator.
pub(super) fn has_time(line: &str, zone: Zone) -> bool {
    let is_time = |cell: &str| local_time::calendar(cell.trim_matches(['"', ' ']), zone).is_some();
    SEPARATORS.into_iter().any(|separator| line.split(separator).any(is_time))
}

fn separator_of_header(line: &str) -> Option<char> {
    let names = |separator: &char| {
        let Ok(cells) = split(line, *separator) else { return false };
        let mut names = cells.iter().map(|cell| column::name_of(cell));
        let first = names.clone().next().filter(|_| cells.len() > 1);
        let is_first = first.is_some_and(|name| column::is_known(&name));
        // Without a time the line has to look like a header, and not quote one.
        names.any(|name| name == "timestamp" || (is_first && column::is_of_header(&name)))
    };
    SEPARATORS.into_iter().find(names)
}

impl Layout {
    /// The layout under a header.
    ///
    /// # Errors
    /// [`LogError::Columns`]
    pub(super) fn header(line: &str) -> Result<Self, LogError> {
        Self::of(line, separator_of_header(line))
    }

    /// The layout that somebody names.
    ///
    /// # Errors
    /// [`LogError::Columns`]
    pub(super) fn named(names: &str) -> Result<Self, LogError> {
        Self::of(names, None)
    }

    fn of(line: &str, separator: Option<char>) -> Result<Self, LogError> {
        let unusable = || LogError::Columns { found: cut(line) };
        let cells = split(line, separator.unwrap_or(',')).map_err(|_| unusable())?;
        let names: Vec<String> = cells.iter().map(|cell| column::name_of(cell)).collect();
        let mut columns: Vec<Column> = Vec::with_capacity(names.len());
        for name in &names {
            let column = column::column(name);
            // A query may ask twice; both cells say the same.
            let again = columns.contains(&column);
            columns.push(if again { Column::Ignored(name.clone()) } else { column });
        }
        if columns.contains(&Column::Time) && columns.contains(&Column::Busy) {
            Ok(Self { columns, names, separator, reported: false })
        } else {
            Err(unusable())
        }
    }

    /// # Errors
    /// The line does not have as many cells as the header, or its quotes are broken.
    pub(super) fn cells<'a>(&mut self, line: &'a str) -> Result<Vec<Cow<'a, str>>, LineFault> {
        let want = self.columns.len();
        let separator = self.separator.or_else(|| {
            SEPARATORS.into_iter().find(|s| split(line, *s).is_ok_and(|cells| cells.len() == want))
        });
        let cells = split(line, separator.unwrap_or(','))?;
        if cells.len() != want {
            let got = cells.len();
            return Err(LineFault::CellCount { got, want, text: LogText::quote(line) });
        }
        self.separator = separator;
        Ok(cells)
    }

    /// The columns, each with its name.
    pub(super) fn named_columns(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.names.iter().map(String::as_str).zip(&self.columns)
    }

    /// Tells of the columns that are not recorded, once a row stands under them.
    pub(super) fn report_ignored(&mut self, gatherer: &mut Gatherer<'_>) {
        if std::mem::replace(&mut self.reported, true) {
            return;
        }
        for column in &self.columns {
            if let Column::Ignored(name) = column {
                gatherer.ignored(name);
            }
        }
    }
}

/// Cells of a line, quotes taken off.
///
/// # Errors
/// A quote that is not closed, or text behind one.
fn split(line: &str, separator: char) -> Result<Vec<Cow<'_, str>>, LineFault> {
    if !line.contains('"') {
        return Ok(line.split(separator).map(|cell| Cow::Borrowed(cell.trim())).collect());
    }
    let mut cells = Vec::new();
    let mut rest = Some(line);
    while let Some(text) = rest {
        let text = text.trim_start_matches(|c: char| c.is_whitespace() && c != separator);
        let (cell, after) = match text.strip_prefix('"') {
            Some(quoted) => {
                let (cell, after) = unquote(quoted).ok_or(LineFault::QuoteNotClosed)?;
                (
                    Cow::Owned(cell),
                    after.trim_start_matches(|c: char| c.is_whitespace() && c != separator),
                )
            }
            None => {
                let end = text.find(separator).unwrap_or(text.len());
                (Cow::Borrowed(text[..end].trim()), &text[end..])
            }
        };
        rest = match after.strip_prefix(separator) {
            Some(next) => Some(next),
            None if after.is_empty() => None,
            None => return Err(LineFault::BehindQuote { text: LogText::quote(after) }),
        };
        cells.push(cell);
    }
    Ok(cells)
}

/// What stands before the closing quote, and what behind it. A doubled quote is a quote.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut cell = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        cell.push_str(before);
        match after.strip_prefix('"') {
            Some(next) => {
                cell.push('"');
                rest = next;
            }
            None => return Some((cell, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_fall_apart_at_separators_outside_quotes() {
        let cells = |line| split(line, ',').map(|cells| cells.join("|"));
        assert_eq!(cells("a, b ,,d"), Ok("a|b||d".to_owned()));
        assert_eq!(cells("\"a, b\", \"c\"\"d\" ,e"), Ok("a, b|c\"d|e".to_owned()));
        assert!(cells("\"a, b").is_err());
        assert!(cells("\"a\" b, c").is_err());
    }

    #[test]
    fn a_header_decides_the_separator() {
        for header in [
            "timestamp, utilization.gpu [%]",
            "\"timestamp\"\t\"utilization.gpu\"",
            "index;timestamp;utilization.gpu",
        ] {
            assert!(is_header(header) && Layout::header(header).is_ok(), "{header}");
        }
        assert!(!is_header("2026/08/01 03:59:40.361, 0, 100 %"));
        // Without a time it is a header all the same, and says so.
        assert!(is_header("index, utilization.gpu [%]"));
        assert!(!is_header("# nvidia-smi --query-gpu=index,utilization.gpu,memory.used"));
        assert!(!is_header("| GPU  Name | Memory-Usage | GPU-Util |"));
        assert!(is_header("timestamp, index") && Layout::header("timestamp, index").is_err());
    }
}
