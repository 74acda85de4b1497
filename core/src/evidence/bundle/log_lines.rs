//! `log.jsonl`: a contiguous range of the log's leaves between two compact ranges.

use crate::evidence::canonical::Value;
use crate::evidence::log::tree::{CompactRange, Leaves};
use crate::evidence::statement::{Fields, StatementBuilder, StatementError};
use crate::id::Hash;

/// Most bytes of a line.
const LINE_MAX: usize = 16_384;
/// Most subtrees of a compact range.
const NODES_MAX: usize = 128;

/// The first line: which leaves follow, and what is before and behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHeader {
    /// The leaves before the first that follows.
    pub before: CompactRange,
    /// The leaves behind the last that follows, up to the log's size.
    pub after: CompactRange,
}

/// A line for a leaf, in the order of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeafLine {
    /// It is in this bundle: which line (from 1) of which file.
    Disclosed {
        /// One of [`super::name::LEAVES`], by its place there.
        file: usize,
        /// Counted from 1.
        line: u64,
    },
    /// It is about something else, and not shown: its hash alone.
    Withheld(Hash),
}

impl LogHeader {
    /// Which leaves follow.
    #[must_use]
    pub fn leaves(&self) -> Leaves {
        Leaves { from: self.before.leaves().to, to: self.after.leaves().from }
    }

    /// How many leaves the log has.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.after.leaves().to
    }

    /// The line, without its line feed.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        let Leaves { from, to } = self.leaves();
        let hashes = |range: &CompactRange| {
            Value::Array(range.hashes().map(|hash| Value::Str(hash.to_string())).collect())
        };
        StatementBuilder::object_of()
            .decimal("from", from)
            .decimal("to", to)
            .decimal("size", self.size())
            .value("before", hashes(&self.before))
            .value("after", hashes(&self.after))
            .to_bytes()
    }

    /// Reads the line.
    ///
    /// # Errors
    /// [`StatementError`], also for hashes that are more or fewer than the ranges have.
    pub fn from_line(line: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_value("header", Value::parse(line, LINE_MAX)?)?;
        let mut number = |field| {
            let number = fields.decimal(field)?;
            u64::try_from(number).map_err(|_| StatementError::Invalid { field })
        };
        let (from, to, size) = (number("from")?, number("to")?, number("size")?);
        if from > to || to > size {
            return Err(StatementError::Invalid { field: "to" });
        }
        let mut range = |field, leaves| {
            let hashes = fields.array(field, NODES_MAX)?.into_iter().map(|value| match value {
                Value::Str(text) => text.parse().map_err(|_| StatementError::Invalid { field }),
                _ => Err(StatementError::Invalid { field }),
            });
            let hashes: Vec<Hash> = hashes.collect::<Result<_, _>>()?;
            CompactRange::of_hashes(leaves, &hashes).ok_or(StatementError::Invalid { field })
        };
        let before = range("before", Leaves { from: 0, to: from })?;
        let after = range("after", Leaves { from: to, to: size })?;
        fields.finish()?;
        Ok(Self { before, after })
    }
}

impl LeafLine {
    /// The line, without its line feed.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        match self {
            Self::Disclosed { file, line } => StatementBuilder::object_of()
                .text("file", super::name::LEAVES.get(*file).copied().unwrap_or_default())
                .int("line", i64::try_from(*line).unwrap_or(i64::MAX))
                .to_bytes(),
            Self::Withheld(hash) => StatementBuilder::object_of().id("hash", hash).to_bytes(),
        }
    }

    /// Reads the line.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn from_line(line: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_value("leaf", Value::parse(line, LINE_MAX)?)?;
        let leaf = match fields.opt_id("hash")? {
            Some(hash) => Self::Withheld(hash),
            None => Self::Disclosed {
                file: fields
                    .name("file", |name| super::name::LEAVES.iter().position(|of| *of == name))?,
                line: fields.unsigned("line")?,
            },
        };
        fields.finish()?;
        Ok(leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64) -> CompactRange {
        let mut range = CompactRange::new(from);
        (from..to).for_each(|leaf| range.push(Hash::of(&leaf.to_be_bytes())));
        range
    }

    #[test]
    fn lines_read_back() {
        for (from, to, size) in [(0, 0, 0), (0, 5, 5), (3, 3, 9), (11, 300, 1_000)] {
            let header = LogHeader { before: range(0, from), after: range(to, size) };
            assert_eq!(LogHeader::from_line(&header.to_line()), Ok(header.clone()));
            assert_eq!((header.leaves(), header.size()), (Leaves { from, to }, size));
        }
        for leaf in
            [LeafLine::Withheld(Hash([3; 32])), LeafLine::Disclosed { file: 5, line: 70_080 }]
        {
            assert_eq!(LeafLine::from_line(&leaf.to_line()), Ok(leaf));
        }
    }

    #[test]
    fn other_lines_are_refused() {
        let header = LogHeader { before: range(0, 3), after: range(5, 9) };
        let text = String::from_utf8(header.to_line()).unwrap();
        for (from, to) in [
            ("\"from\":\"3\"", "\"from\":\"4\""),
            ("\"from\":\"3\"", "\"from\":\"6\""),
            ("\"size\":\"9\"", "\"size\":\"4\""),
            ("\"size\":\"9\"", "\"size\":\"90\""),
            ("\"to\"", "\"too\""),
        ] {
            let altered = text.replace(from, to);
            assert_ne!(altered, text);
            assert!(LogHeader::from_line(altered.as_bytes()).is_err(), "{altered}");
        }
        for line in [
            r#"{"file":"hours.jsonl"}"#,
            r#"{"file":"other.jsonl","line":1}"#,
            r#"{"file":"hours.jsonl","hash":"00","line":1}"#,
            r#"{"hash":"00"}"#,
            r#"{"line":1}"#,
        ] {
            assert!(LeafLine::from_line(line.as_bytes()).is_err(), "{line}");
        }
    }
}
