//! The hour record: what was measured of one GPU in one UTC hour, in exact integers.
//!
//! It has two forms. The *packed* form is what the database keeps (about 120 bytes for a healthy
//! hour). The *statement* is canonical JSON that is committed to; it is a pure function of the
//! packed record and its names, so only its hash is stored.

use crate::evidence::statement::{StatementBuilder, StatementKind, leaf_hash};
use crate::id::{ChainId, GpuUuid, Hash, NodeId, Sequence, SlotNo, Slug};
use crate::sample::Metric;
use crate::segment::{MigInstance, Origin, Partition, TrackSource, limits};
use crate::time::Hour;

use super::counter::{CounterDelta, Counters};
use super::gap::{GapCause, Gaps};
use super::histogram::Histogram;
use super::packed::{Packer, Unpacker};
use super::sum::UtilizationSum;

/// The segments of one chain that a record was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceRange {
    /// The chain.
    pub chain: ChainId,
    /// The lowest sequence.
    pub first: Sequence,
    /// The highest sequence.
    pub last: Sequence,
}

/// What was measured of one GPU in one UTC hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourRecord {
    /// The hour.
    pub hour: Hour,
    /// The GPU.
    pub gpu: GpuUuid,
    /// What it is a slice of; `None` for a whole GPU.
    pub partition: Option<Partition>,
    /// Where the data came from; one simulated segment marks the hour.
    pub origin: Origin,
    /// Time in which this GPU owned its enrolled slot.
    pub enrolled_ms: i64,
    /// Measured time by percent of utilization.
    pub histogram: Histogram,
    /// Time that was not measured, by cause.
    pub gaps: Gaps,
    /// Points of utilization that carry a number.
    pub samples: i64,
    /// Points that another point contradicts.
    pub conflicts: i64,
    /// The longest unbroken time without a measurement.
    pub max_gap_ms: i64,
    /// Measured time whose clock was off by 0.5 to 5 s: usable, flagged.
    pub clock_flagged_ms: i64,
    /// Time in which utilization, power, temperature and clocks stood still together, above 0 %,
    /// for more than five minutes: a stuck or faked source.
    pub frozen_ms: i64,
    /// Sources of the utilization track, ascending.
    pub sources: Vec<TrackSource>,
    /// Growth of counters.
    pub counters: Counters,
    /// XID events of this GPU.
    pub xids: i64,
    /// The fewest GPUs that were visible on the node.
    pub gpu_count_min: Option<u16>,
    /// Largest clock offset against the server, absolute; `None` when it was never known.
    pub clock_offset_max_ms: Option<i64>,
    /// Largest bound on the error of that offset.
    pub clock_bound_max_ms: Option<i64>,
    /// The segments it was computed from, by chain.
    pub heads: Vec<SequenceRange>,
    /// How many heads that were.
    pub head_count: i64,
    /// Merkle root over their hashes in order; `None` when there are none.
    pub head_root: Option<Hash>,
}

/// The names that a statement about an hour carries.
#[derive(Debug, Clone, Copy)]
pub struct HourNames<'a> {
    /// The tenant.
    pub tenant: &'a Slug,
    /// The node.
    pub node: NodeId,
    /// The slot.
    pub slot: SlotNo,
    /// The revision, from 1.
    pub revision: u32,
    /// The previous revision's statement hash.
    pub previous: Option<Hash>,
}

/// A packed record that cannot be read: the row was not written by this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a packed hour record is damaged or of an unknown version")]
pub struct RecordError;

/// A whole GPU's record, and that of a slice: the same with its partition at the end.
const VERSION: u8 = 1;
const SLICE_VERSION: u8 = 2;

impl HourRecord {
    /// A record of nothing: no enrolled time, nothing measured.
    #[must_use]
    pub fn empty(hour: Hour, gpu: GpuUuid, origin: Origin) -> Self {
        Self {
            hour,
            gpu,
            partition: None,
            origin,
            enrolled_ms: 0,
            histogram: Histogram::default(),
            gaps: Gaps::default(),
            samples: 0,
            conflicts: 0,
            max_gap_ms: 0,
            clock_flagged_ms: 0,
            frozen_ms: 0,
            sources: Vec::new(),
            counters: Vec::new(),
            xids: 0,
            gpu_count_min: None,
            clock_offset_max_ms: None,
            clock_bound_max_ms: None,
            heads: Vec::new(),
            head_count: 0,
            head_root: None,
        }
    }

    /// Measured time.
    #[must_use]
    pub fn measured_ms(&self) -> i64 {
        self.histogram.measured_ms()
    }

    /// This record alone as a sum.
    #[must_use]
    pub fn sum(&self) -> UtilizationSum {
        let mut sum = UtilizationSum::default();
        sum.add(self);
        sum
    }

    /// Growth of one counter; `None` when no time of it is covered.
    #[must_use]
    pub fn counter(&self, metric: Metric) -> Option<CounterDelta> {
        self.counters.iter().find(|(m, _)| *m == metric).map(|(_, delta)| *delta)
    }

    /// The packed form, without the hour and the GPU, which are columns of the row.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let is_slice = self.partition.is_some();
        let mut out = Packer::new(if is_slice { SLICE_VERSION } else { VERSION });
        out.byte(self.origin as u8);
        out.int(self.enrolled_ms);
        out.list(self.histogram.iter(), |out, (percent, ms)| {
            out.byte(percent);
            out.int(ms);
        });
        out.list(self.gaps.iter(), |out, (cause, ms)| {
            out.byte(cause as u8);
            out.int(ms);
        });
        let counts = [self.samples, self.conflicts, self.max_gap_ms, self.xids];
        for count in counts.into_iter().chain([self.clock_flagged_ms, self.frozen_ms]) {
            out.int(count);
        }
        out.list(self.sources.iter(), |out, source| out.byte(*source as u8));
        out.list(self.counters.iter(), |out, (metric, delta)| {
            out.byte(metric.code());
            out.int(delta.delta);
            out.int(delta.covered_ms);
        });
        out.optional(self.gpu_count_min.map(i64::from));
        out.optional(self.clock_offset_max_ms);
        out.optional(self.clock_bound_max_ms);
        out.list(self.heads.iter(), |out, range| {
            out.bytes(&range.chain.0);
            out.unsigned(range.first.0);
            out.unsigned(range.last.0);
        });
        out.int(self.head_count);
        out.list(self.head_root.iter(), |out, root| out.bytes(&root.0));
        if let Some(partition) = &self.partition {
            pack_partition(&mut out, partition);
        }
        out.finish()
    }

    /// Reads the packed form.
    ///
    /// # Errors
    /// [`RecordError`] for bytes that [`Self::pack`] did not write.
    pub fn unpack(hour: Hour, gpu: GpuUuid, bytes: &[u8]) -> Result<Self, RecordError> {
        let (mut input, version) = Unpacker::new(bytes, VERSION..=SLICE_VERSION)?;
        let mut record = Self::empty(hour, gpu, origin(input.byte()?)?);
        record.enrolled_ms = input.int()?;
        for _ in 0..input.count(101)? {
            record.histogram.add(input.byte()?, input.int()?);
        }
        for _ in 0..input.count(GapCause::COUNT)? {
            let cause = GapCause::ALL.get(usize::from(input.byte()?)).ok_or(RecordError)?;
            record.gaps.add(*cause, input.int()?);
        }
        record.samples = input.int()?;
        record.conflicts = input.int()?;
        record.max_gap_ms = input.int()?;
        record.xids = input.int()?;
        record.clock_flagged_ms = input.int()?;
        record.frozen_ms = input.int()?;
        for _ in 0..input.count(8)? {
            record.sources.push(source(input.byte()?)?);
        }
        for _ in 0..input.count(Metric::ALL.len())? {
            let metric = Metric::from_code(input.byte()?).ok_or(RecordError)?;
            let delta = CounterDelta { delta: input.int()?, covered_ms: input.int()? };
            record.counters.push((metric, delta));
        }
        record.gpu_count_min =
            input.optional()?.map(u16::try_from).transpose().map_err(|_| RecordError)?;
        record.clock_offset_max_ms = input.optional()?;
        record.clock_bound_max_ms = input.optional()?;
        for _ in 0..input.count(100_000)? {
            let chain = ChainId(input.array()?);
            let (first, last) = (Sequence(input.unsigned()?), Sequence(input.unsigned()?));
            record.heads.push(SequenceRange { chain, first, last });
        }
        record.head_count = input.int()?;
        for _ in 0..input.count(1)? {
            record.head_root = Some(Hash(input.array()?));
        }
        if version == SLICE_VERSION {
            record.partition = Some(unpack_partition(&mut input, &record.gpu)?);
        }
        input.finish()?;
        Ok(record)
    }

    /// The canonical statement of kind `hour`.
    #[must_use]
    pub fn statement(&self, names: &HourNames<'_>) -> Vec<u8> {
        let counters =
            self.counters.iter().fold(StatementBuilder::object_of(), |object, (m, d)| {
                let delta = StatementBuilder::object_of()
                    .decimal("delta", d.delta)
                    .int("covered_ms", d.covered_ms);
                object.object(m.name(), delta)
            });
        let gaps = self.gaps.iter().fold(StatementBuilder::object_of(), |object, (cause, ms)| {
            object.int(cause.name(), ms)
        });
        let histogram = self
            .histogram
            .iter()
            .map(|(percent, ms)| StatementBuilder::object_of().int("pct", percent).int("ms", ms));
        let heads = self.heads.iter().map(|range| {
            StatementBuilder::object_of()
                .id("chain", range.chain)
                .decimal("first", range.first.0)
                .decimal("last", range.last.0)
        });
        StatementBuilder::new(StatementKind::Hour)
            .id("tenant", names.tenant)
            .id("node", names.node)
            .int("slot", names.slot.0)
            .id("gpu", &self.gpu)
            .opt_object("partition", self.partition.as_ref().map(Partition::to_fields))
            .id("hour", self.hour)
            .int("revision", names.revision)
            .opt_id("previous", names.previous)
            .text("origin", self.origin.name())
            .int("enrolled_ms", self.enrolled_ms)
            .int("measured_ms", self.measured_ms())
            .int("busy_pct_ms", self.histogram.busy_pct_ms())
            .objects("histogram", histogram)
            .object("gaps_ms", gaps)
            .int("samples", self.samples)
            .int("conflicts", self.conflicts)
            .int("max_gap_ms", self.max_gap_ms)
            .int("clock_flagged_ms", self.clock_flagged_ms)
            .int("frozen_ms", self.frozen_ms)
            .text("sources", &self.source_names())
            .object("counters", counters)
            .int("xids", self.xids)
            .opt_int("gpu_count_min", self.gpu_count_min.map(i64::from))
            .opt_int("clock_offset_max_ms", self.clock_offset_max_ms)
            .opt_int("clock_bound_max_ms", self.clock_bound_max_ms)
            .objects("heads", heads)
            .int("head_count", self.head_count)
            .opt_id("head_root", self.head_root)
            .to_bytes()
    }

    /// The hash under which the statement is committed.
    #[must_use]
    pub fn statement_hash(&self, names: &HourNames<'_>) -> Hash {
        leaf_hash(&self.statement(names))
    }

    /// Names of the track's sources, joined with `+`.
    #[must_use]
    pub fn source_names(&self) -> String {
        self.sources.iter().map(|source| source.name()).collect::<Vec<_>>().join("+")
    }
}

fn pack_partition(out: &mut Packer, partition: &Partition) {
    let Partition { parent, instance, slices, slices_of } = partition;
    out.list(parent.as_str().bytes(), Packer::byte);
    out.bytes(&[instance.gpu_instance, instance.compute_instance, *slices, *slices_of]);
}

fn unpack_partition(input: &mut Unpacker<'_>, gpu: &GpuUuid) -> Result<Partition, RecordError> {
    let length = input.count(limits::TEXT_CHARS)?;
    let parent = (0..length).map(|_| input.byte()).collect::<Result<Vec<u8>, _>>()?;
    let parent = std::str::from_utf8(&parent).map_err(|_| RecordError)?;
    let [gpu_instance, compute_instance, slices, slices_of] = input.array()?;
    let partition = Partition {
        parent: GpuUuid::new(parent).map_err(|_| RecordError)?,
        instance: MigInstance { gpu_instance, compute_instance },
        slices,
        slices_of,
    };
    if partition.fault(gpu).is_some() { Err(RecordError) } else { Ok(partition) }
}

fn origin(code: u8) -> Result<Origin, RecordError> {
    [Origin::Measured, Origin::Simulated, Origin::Imported]
        .into_iter()
        .find(|origin| *origin as u8 == code)
        .ok_or(RecordError)
}

fn source(code: u8) -> Result<TrackSource, RecordError> {
    [TrackSource::Poll, TrackSource::DriverSamples, TrackSource::Gpm, TrackSource::Import]
        .into_iter()
        .find(|source| *source as u8 == code)
        .ok_or(RecordError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metering::fixture::{sample, slice};

    #[test]
    fn the_packed_form_round_trips_and_is_small() {
        let record = sample();
        let bytes = record.pack();
        assert!(bytes.len() < 120, "{}", bytes.len());
        assert_eq!(HourRecord::unpack(record.hour, record.gpu.clone(), &bytes), Ok(record));
    }

    #[test]
    fn a_slice_adds_its_partition_and_changes_nothing_else() {
        let (whole, slice) = (sample().pack(), slice());
        let bytes = slice.pack();
        assert_eq!((whole[0], bytes[0]), (VERSION, SLICE_VERSION));
        assert_eq!(whole[1..], bytes[1..whole.len()]);
        assert_eq!(HourRecord::unpack(slice.hour, slice.gpu.clone(), &bytes), Ok(slice.clone()));
        for end in 0..bytes.len() {
            let cut = HourRecord::unpack(slice.hour, slice.gpu.clone(), &bytes[..end]);
            assert_eq!(cut, Err(RecordError), "cut at {end}");
        }
        // A slice of itself, and a share of more than the whole.
        let of_itself = HourRecord::unpack(slice.hour, GpuUuid::new("GPU-2").unwrap(), &bytes);
        assert_eq!(of_itself, Err(RecordError));
        let odd = [&bytes[..bytes.len() - 1], &[1]].concat();
        assert_eq!(HourRecord::unpack(slice.hour, slice.gpu, &odd), Err(RecordError));
    }

    #[test]
    fn damaged_bytes_are_refused_without_a_panic() {
        let record = sample();
        let bytes = record.pack();
        let unpack = |bytes: &[u8]| HourRecord::unpack(record.hour, record.gpu.clone(), bytes);
        for end in 0..bytes.len() {
            assert_eq!(unpack(&bytes[..end]), Err(RecordError), "cut at {end}");
        }
        assert_eq!(unpack(&[bytes.as_slice(), &[0]].concat()), Err(RecordError));
    }

    #[test]
    fn a_statement_is_canonical_and_names_its_revision() {
        let tenant = Slug::new("default").unwrap();
        let names = HourNames {
            tenant: &tenant,
            node: NodeId([1; 16]),
            slot: SlotNo(3),
            revision: 2,
            previous: Some(Hash([9; 32])),
        };
        let bytes = sample().statement(&names);
        let value = crate::evidence::canonical::Value::parse(&bytes, 1 << 20).unwrap();
        assert_eq!(value.to_bytes(), bytes);
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("partition"), "a whole GPU's statement is what it always was");
        let of_slice = String::from_utf8(slice().statement(&names)).unwrap();
        let partition = r#""partition":{"compute_instance":1,"gpu_instance":9,"parent":"GPU-2","slices":2,"slices_of":7},"#;
        assert_eq!(of_slice.replacen(partition, "", 1), text);
        let other = HourNames { revision: 3, ..names };
        assert_ne!(sample().statement_hash(&names), sample().statement_hash(&other));
    }
}
