//! What can be wrong with a line of a log that another tool wrote.
//!
//! Each kind has a stable name and the parts that a sentence about it needs. `Display` is the
//! sentence of the command line; other languages have their words where they are shown. Not here:
//! how a log is read, and the number of the line.

use std::fmt;

use crate::id::{BusId, GpuUuid, IdError, clean_text};
use crate::sample::Metric;
use crate::time::{Period, Timestamp, Zone};

/// Characters of a log's text that are quoted.
const QUOTED_MAX: usize = 200;

/// Text of a log, which may hold anything: cut, and without what acts on a terminal or turns the
/// reading direction. Whoever puts it into HTML still has to escape it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogText(String);

impl LogText {
    /// At most 200 characters of `text`.
    #[must_use]
    pub fn quote(text: &str) -> Self {
        Self(clean_text(text, QUOTED_MAX))
    }

    /// The characters that are left.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LogText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a text is that was given for a log by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForeignOutput {
    /// JSON.
    #[error("JSON")]
    Json,
    /// XML.
    #[error("XML")]
    Xml,
    /// Anything where JSON lines were promised.
    #[error("text that is not JSON")]
    NotJson,
    /// What exporters write.
    #[error("metrics in the format of Prometheus")]
    Prometheus,
    /// A call of `nvidia-smi`.
    #[error("the output of nvidia-smi pmon, which is of processes")]
    Pmon,
    /// A call of `nvidia-smi`.
    #[error("the output of nvidia-smi dmon, whose rows have no date")]
    Dmon,
    /// A call of `nvidia-smi`.
    #[error("the text of nvidia-smi -q")]
    FullText,
    /// A call of `nvidia-smi`.
    #[error("the table of nvidia-smi, whose rows are made for a screen")]
    Table,
    /// A call of `nvidia-smi`.
    #[error("the list of nvidia-smi -L")]
    List,
    /// A call of `nvidia-smi`.
    #[error("the output of nvidia-smi --query-compute-apps, which is of processes")]
    ComputeApps,
}

/// What a line between the rows tells of a GPU or the driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogNotice {
    /// A GPU that the driver lists does not answer.
    #[error("the GPU at {place} is lost")]
    GpuLost {
        /// Domain and bus, as the message has them.
        place: LogText,
    },
    /// A row says that its GPU needs a reset.
    #[error("{gpu} needs a reset")]
    NeedsReset {
        /// Which one.
        gpu: GpuUuid,
    },
    /// The driver works and lists no GPU.
    #[error("no devices were found")]
    NoGpu,
    /// The driver does not answer.
    #[error("the driver does not answer")]
    DriverAway,
}

/// Why a line, or a part of it, is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// Bytes in it are not text.
    #[error("bytes that are not text: {text}")]
    NotText {
        /// The line.
        text: LogText,
    },
    /// A header that lacks the time or the utilization.
    #[error("the columns must include `timestamp` and `utilization.gpu`; found: {found}")]
    Columns {
        /// The header.
        found: LogText,
    },
    /// No header stands above it.
    #[error("it stands under no header: {text}")]
    NoHeader {
        /// The line.
        text: LogText,
    },
    /// The last line, which may go on.
    #[error("it may be cut, no line end follows: {text}")]
    MaybeCut {
        /// The line.
        text: LogText,
    },
    /// It does not have as many cells as the header.
    #[error("{got} cells where the header has {want}: {text}")]
    CellCount {
        /// Cells of the line.
        got: usize,
        /// Cells of the header.
        want: usize,
        /// The line.
        text: LogText,
    },
    /// A quote has no second one.
    #[error("a quote is not closed")]
    QuoteNotClosed,
    /// No separator follows a closing quote.
    #[error("text behind a quoted cell: {text}")]
    BehindQuote {
        /// What follows.
        text: LogText,
    },
    /// A cell is no time.
    #[error("`{text}` is not a time")]
    NotATime {
        /// The cell.
        text: LogText,
    },
    /// A cell is no utilization of 0 to 100 percent.
    #[error("`{text}` is not a utilization")]
    NotAUtilization {
        /// The cell.
        text: LogText,
    },
    /// A cell is not what its column holds.
    #[error("`{text}` is not {metric}")]
    NotAReading {
        /// The name of the column.
        column: LogText,
        /// What the column holds.
        metric: Metric,
        /// The cell.
        text: LogText,
    },
    /// A value is not what its key or path holds.
    #[error("{key}: `{text}` is no such value")]
    NotAValue {
        /// The key or the path.
        key: LogText,
        /// The value.
        text: LogText,
    },
    /// A number that no GPU has. The rest of the row is recorded.
    #[error("{metric} of {number} cannot be: only this cell is left out")]
    Impossible {
        /// Which metric.
        metric: Metric,
        /// In base units.
        number: i64,
    },
    /// The row has no time.
    #[error("the row has no time")]
    RowWithoutTime,
    /// A time that no clock showed which was set.
    #[error("{at} is not between {} and {}: the clock was not set", credible.start, credible.end)]
    ClockNotSet {
        /// The row's time.
        at: Timestamp,
        /// Where it would have to be.
        credible: Period,
    },
    /// More GPUs than a node has.
    #[error("a node has at most {most} GPUs")]
    TooManyGpus {
        /// How many it has.
        most: usize,
    },
    /// A name that no GPU can have.
    #[error("{error}")]
    GpuName {
        /// The name.
        text: LogText,
        /// What is wrong with it.
        error: IdError,
    },
    /// The local clock showed the time twice, and the order of rows does not tell which it is.
    #[error(
        "{} set its clock back and showed this time twice, at {at} first, and the log does not show which one it is",
        zone.name()
    )]
    RepeatedHour {
        /// The clock's zone.
        zone: Zone,
        /// The first of the two.
        at: Timestamp,
    },
    /// The time does not lie behind that of the row before.
    #[error("time goes backwards or stands still: {at}")]
    OutOfOrder {
        /// The row's time.
        at: Timestamp,
    },
    /// Another GPU sits there at that time.
    #[error("{gpu} in {place}, where {owner} sits")]
    PlaceTaken {
        /// The GPU of the row.
        gpu: GpuUuid,
        /// Where the row says that it sits.
        place: BusId,
        /// The GPU that has more rows there.
        owner: GpuUuid,
    },
    /// A notice has no row before it, which would give it a time.
    #[error("{notice}, before the first row: not recorded")]
    NoticeBeforeRows {
        /// What it says.
        notice: LogNotice,
    },
    /// The row before a notice is not read.
    #[error("{notice}, behind a row that is not read")]
    NoticeBehindUnread {
        /// What it says.
        notice: LogNotice,
    },
    /// One notice more than a log can have.
    #[error("{notice}: more than {most} events, not recorded")]
    NoticesTooMany {
        /// What it says.
        notice: LogNotice,
        /// How many there can be.
        most: usize,
    },
    /// A notice names a place where no row names a GPU.
    #[error("{notice}: no row names a GPU there")]
    NoticeOfNoGpu {
        /// What it says.
        notice: LogNotice,
    },
    /// A snapshot has no end.
    #[error("the snapshot is cut")]
    SnapshotCut,
    /// The XML of a snapshot is broken.
    #[error("the rest is not read: {said}")]
    XmlBroken {
        /// What the parser says.
        said: LogText,
    },
    /// Elements of a snapshot lie deeper than any real ones.
    #[error("elements lie too deep in each other; the rest is not read")]
    XmlTooDeep,
    /// A snapshot does not hold all that it says.
    #[error("the snapshot says {says} GPUs and lists {lists}: not complete")]
    SnapshotShort {
        /// GPUs that it says.
        says: usize,
        /// GPUs that it lists.
        lists: usize,
    },
    /// A snapshot has no time.
    #[error("the snapshot has no timestamp")]
    SnapshotWithoutTime,
    /// Something that is JSON and no object.
    #[error("it is no JSON object: {text}")]
    NoJsonObject {
        /// The line.
        text: LogText,
    },
    /// The line is no JSON.
    #[error("{said}: {text}")]
    NoJson {
        /// What the parser says.
        said: LogText,
        /// The byte that it stopped at, from 1.
        byte: usize,
        /// The line.
        text: LogText,
    },
    /// A JSON object has no time.
    #[error("the object has no time")]
    ObjectWithoutTime,
    /// A JSON object has no utilization of any GPU.
    #[error("no key says how busy a GPU is, such as `gpu_usage:0`")]
    NoUtilization,
}

impl LineFault {
    /// Its stable name, in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotText { .. } => "not_text",
            Self::Columns { .. } => "columns",
            Self::NoHeader { .. } => "no_header",
            Self::MaybeCut { .. } => "maybe_cut",
            Self::CellCount { .. } => "cell_count",
            Self::QuoteNotClosed => "quote_not_closed",
            Self::BehindQuote { .. } => "behind_quote",
            Self::NotATime { .. } => "not_a_time",
            Self::NotAUtilization { .. } => "not_a_utilization",
            Self::NotAReading { .. } => "not_a_reading",
            Self::NotAValue { .. } => "not_a_value",
            Self::Impossible { .. } => "impossible",
            Self::RowWithoutTime => "row_without_time",
            Self::ClockNotSet { .. } => "clock_not_set",
            Self::TooManyGpus { .. } => "too_many_gpus",
            Self::GpuName { .. } => "gpu_name",
            Self::RepeatedHour { .. } => "repeated_hour",
            Self::OutOfOrder { .. } => "out_of_order",
            Self::PlaceTaken { .. } => "place_taken",
            Self::NoticeBeforeRows { .. } => "notice_before_rows",
            Self::NoticeBehindUnread { .. } => "notice_behind_unread",
            Self::NoticesTooMany { .. } => "notices_too_many",
            Self::NoticeOfNoGpu { .. } => "notice_of_no_gpu",
            Self::SnapshotCut => "snapshot_cut",
            Self::XmlBroken { .. } => "xml_broken",
            Self::XmlTooDeep => "xml_too_deep",
            Self::SnapshotShort { .. } => "snapshot_short",
            Self::SnapshotWithoutTime => "snapshot_without_time",
            Self::NoJsonObject { .. } => "no_json_object",
            Self::NoJson { .. } => "no_json",
            Self::ObjectWithoutTime => "object_without_time",
            Self::NoUtilization => "no_utilization",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_short_and_inert() {
        let hostile = format!("a\u{1b}[2J\u{202e}b{}", "x".repeat(500));
        let fault = LineFault::NotATime { text: LogText::quote(&hostile) };
        let said = fault.to_string();
        assert!(said.starts_with("`a[2Jbxx") && said.ends_with("x` is not a time"), "{said}");
        assert_eq!(said.chars().count(), 200 + "`` is not a time".len());
        let within = LogText::quote("°C 内存");
        assert_eq!(within.as_str(), "°C 内存");
    }

    #[test]
    fn a_sentence_names_what_it_is_about() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let repeated = LineFault::RepeatedHour { zone, at: Timestamp(0) }.to_string();
        assert!(repeated.starts_with("Europe/Berlin set its clock back"), "{repeated}");
        let credible = Period::new(Timestamp(0), Timestamp(1_000));
        assert_eq!(
            LineFault::ClockNotSet { at: Timestamp(-1_000), credible }.to_string(),
            "1969-12-31T23:59:59.000Z is not between 1970-01-01T00:00:00.000Z and \
             1970-01-01T00:00:01.000Z: the clock was not set"
        );
    }
}
