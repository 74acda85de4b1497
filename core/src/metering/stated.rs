//! Reads hour statements back: what a verifier does with a line of `hours.jsonl`.
//!
//! A statement is read into the record that it states, and must be what that record states again,
//! to the byte: so every derived field in it (measured time, busy sum) is checked with the rest,
//! and so is **law M**. Not here: whether the hour follows from segments (`meter`).

use crate::evidence::canonical::Value;
use crate::evidence::statement::{Fields, StatementError, StatementKind};
use crate::id::{GpuUuid, Hash, NodeId, Sequence, SlotNo, Slug};
use crate::sample::Metric;
use crate::segment::{Origin, Partition, TrackSource};
use crate::time::{HOUR_MS, Hour, Timestamp};

use super::counter::CounterDelta;
use super::gap::GapCause;
use super::record::{HourNames, HourRecord, SequenceRange};

/// Most bytes of an hour statement.
const BYTES_MAX: usize = 1 << 20;
/// Most chains and epochs of one hour.
const HEADS_MAX: usize = 4_096;

/// An hour record with the names under which it was stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedHour {
    /// The tenant.
    pub tenant: Slug,
    /// The node.
    pub node: NodeId,
    /// The slot.
    pub slot: SlotNo,
    /// The revision, from 1.
    pub revision: u32,
    /// Hash of the revision before; none at the first.
    pub previous: Option<Hash>,
    /// What was measured.
    pub record: HourRecord,
}

/// Why bytes are no hour statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatedError {
    /// Not a statement of kind `hour`.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// A field contradicts the others: the record would state something else.
    #[error("the fields of the hour contradict each other")]
    Contradiction,
    /// Enrolled time is not measured time and gaps.
    #[error("enrolled {enrolled_ms} ms are not {measured_ms} ms measured and {gap_ms} ms of gaps")]
    Law {
        /// Enrolled time.
        enrolled_ms: i64,
        /// Measured time.
        measured_ms: i64,
        /// Gaps of all causes.
        gap_ms: i64,
    },
}

impl StatedHour {
    /// Reads a statement of kind `hour`.
    ///
    /// # Errors
    /// [`StatedError`] for anything that [`HourRecord::statement`] would not have written, and for a
    /// record that breaks law M.
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatedError> {
        let hour = read(Fields::of_statement(StatementKind::Hour, bytes, BYTES_MAX)?)?;
        if hour.record.statement(&hour.names()) != bytes
            || (hour.revision == 1) != hour.previous.is_none()
        {
            return Err(StatedError::Contradiction);
        }
        let record = &hour.record;
        let (measured_ms, gap_ms) = (record.measured_ms(), record.gaps.total_ms());
        if record.enrolled_ms != measured_ms + gap_ms {
            let enrolled_ms = record.enrolled_ms;
            return Err(StatedError::Law { enrolled_ms, measured_ms, gap_ms });
        }
        Ok(hour)
    }

    /// Its names.
    #[must_use]
    pub fn names(&self) -> HourNames<'_> {
        HourNames {
            tenant: &self.tenant,
            node: self.node,
            slot: self.slot,
            revision: self.revision,
            previous: self.previous,
        }
    }
}

fn read(mut fields: Fields) -> Result<StatedHour, StatementError> {
    let gpu: GpuUuid = fields.id("gpu")?;
    let hour = fields.name("hour", hour)?;
    let mut record = HourRecord::empty(hour, gpu, fields.name("origin", Origin::from_name)?);
    let partition = fields.opt_object("partition")?;
    record.partition = partition.map(|of| Partition::from_fields(of, &record.gpu)).transpose()?;
    let stated = StatedHour {
        tenant: fields.id("tenant")?,
        node: fields.id("node")?,
        slot: SlotNo(fields.unsigned("slot")?),
        revision: fields.unsigned("revision")?,
        previous: fields.opt_id("previous")?,
        record,
    };
    let record = time(stated.record, &mut fields)?;
    let record = rest(record, &mut fields)?;
    fields.finish()?;
    if stated.revision == 0 {
        return Err(StatementError::Invalid { field: "revision" });
    }
    Ok(StatedHour { record, ..stated })
}

/// Where the hour's milliseconds are.
fn time(mut record: HourRecord, fields: &mut Fields) -> Result<HourRecord, StatementError> {
    let ms = 0..=HOUR_MS;
    record.enrolled_ms = fields.int("enrolled_ms", ms.clone())?;
    // Both follow from the histogram; that they are right is seen when they are written again.
    fields.int("measured_ms", ms.clone())?;
    fields.count("busy_pct_ms")?;
    for bin in fields.array("histogram", 101)? {
        let mut bin = Fields::of_value("histogram", bin)?;
        let percent = u8::try_from(bin.int("pct", 0..=100)?).unwrap_or(100);
        record.histogram.add(percent, bin.int("ms", ms.clone())?);
        bin.finish()?;
    }
    let mut gaps = fields.object("gaps_ms")?;
    for cause in GapCause::ALL {
        record.gaps.add(cause, gaps.opt_int(cause.name(), ms.clone())?.unwrap_or(0));
    }
    gaps.finish()?;
    record.max_gap_ms = fields.int("max_gap_ms", ms.clone())?;
    record.clock_flagged_ms = fields.int("clock_flagged_ms", ms.clone())?;
    record.frozen_ms = fields.int("frozen_ms", ms)?;
    Ok(record)
}

fn rest(mut record: HourRecord, fields: &mut Fields) -> Result<HourRecord, StatementError> {
    record.samples = fields.count("samples")?;
    record.conflicts = fields.count("conflicts")?;
    record.sources = fields.name("sources", sources)?;
    let mut counters = fields.object("counters")?;
    for metric in Metric::ALL.iter().copied() {
        if let Some(mut of) = counters.opt_object(metric.name())? {
            let delta = of.decimal("delta")?;
            let delta =
                i64::try_from(delta).map_err(|_| StatementError::Invalid { field: "delta" })?;
            let covered_ms = of.count("covered_ms")?;
            of.finish()?;
            record.counters.push((metric, CounterDelta { delta, covered_ms }));
        }
    }
    counters.finish()?;
    record.xids = fields.count("xids")?;
    let gpus = fields.opt_int("gpu_count_min", 0..=i64::from(u16::MAX))?;
    record.gpu_count_min = gpus.and_then(|gpus| u16::try_from(gpus).ok());
    record.clock_offset_max_ms = fields.opt_count("clock_offset_max_ms")?;
    record.clock_bound_max_ms = fields.opt_count("clock_bound_max_ms")?;
    let ranges = fields.array("heads", HEADS_MAX)?;
    record.heads = ranges.into_iter().map(range).collect::<Result<_, _>>()?;
    record.head_count = fields.count("head_count")?;
    record.head_root = fields.opt_id("head_root")?;
    Ok(record)
}

fn range(value: Value) -> Result<SequenceRange, StatementError> {
    let mut fields = Fields::of_value("heads", value)?;
    let mut sequence = |field| {
        let number = fields.decimal(field)?;
        u64::try_from(number).map_err(|_| StatementError::Invalid { field })
    };
    let (first, last) = (sequence("first")?, sequence("last")?);
    let range =
        SequenceRange { chain: fields.id("chain")?, first: Sequence(first), last: Sequence(last) };
    fields.finish()?;
    Ok(range)
}

/// The hour of its text; that it is the only spelling is seen when it is written again.
fn hour(text: &str) -> Option<Hour> {
    Timestamp::parse_iso(text).map(Timestamp::hour)
}

fn sources(text: &str) -> Option<Vec<TrackSource>> {
    let all =
        [TrackSource::Poll, TrackSource::DriverSamples, TrackSource::Gpm, TrackSource::Import];
    let find = |name: &str| all.into_iter().find(|source| source.name() == name);
    if text.is_empty() { Some(Vec::new()) } else { text.split('+').map(find).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metering::fixture::{sample, slice};

    fn stated(record: HourRecord, revision: u32) -> StatedHour {
        StatedHour {
            tenant: Slug::new("tenant-a").unwrap(),
            node: NodeId([1; 16]),
            slot: SlotNo(3),
            revision,
            previous: (revision > 1).then_some(Hash([9; 32])),
            record,
        }
    }

    fn statement(hour: &StatedHour) -> Vec<u8> {
        hour.record.statement(&hour.names())
    }

    #[test]
    fn what_is_stated_reads_back() {
        for hour in [stated(sample(), 1), stated(slice(), 2)] {
            assert_eq!(StatedHour::from_statement(&statement(&hour)), Ok(hour));
        }
    }

    #[test]
    fn an_hour_that_contradicts_itself_is_refused() {
        let text = String::from_utf8(statement(&stated(sample(), 1))).unwrap();
        for (from, to) in [
            ("\"measured_ms\":3599000", "\"measured_ms\":3598000"),
            ("\"busy_pct_ms\":291000000", "\"busy_pct_ms\":291000001"),
            ("T16:00:00Z", "T16:00:01Z"),
            ("\"revision\":1", "\"revision\":2"),
        ] {
            let altered = text.replace(from, to);
            assert_ne!(altered, text, "{from}");
            assert!(StatedHour::from_statement(altered.as_bytes()).is_err(), "{to}");
        }
    }

    #[test]
    fn time_that_is_nowhere_breaks_the_law() {
        let mut hour = stated(sample(), 1);
        hour.record.enrolled_ms -= 1;
        let broken =
            StatedError::Law { enrolled_ms: 3_599_999, measured_ms: 3_599_000, gap_ms: 1_000 };
        assert_eq!(StatedHour::from_statement(&statement(&hour)), Err(broken));
    }
}
