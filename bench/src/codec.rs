//! `codec`: bytes per value, and how many values a core encodes, opens and meters in a second.
//!
//! No server and no socket: the functions of `leasewatch-core` alone, on the samples of `data`.

use std::hint::black_box;

use anyhow::Context as _;
use leasewatch_core::evidence::chain::{self, SealedSegment};
use leasewatch_core::metering::{MeteredSegment, SlotHour, meter};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Block, Column, GpuBlock, Origin, Place, TrackSource};
use leasewatch_core::time::{Hour, Period, Timestamp};

use crate::data::{self, METRICS, READINGS, Sample, SimulatedNode};
use crate::measure::{Runs, length, short, thread_cpu_s};
use crate::node::BenchNode;

/// The hour whose samples are made.
const HOUR: Hour = Hour(495_900);
/// Row header, alignment, the key and lengths of a row of `segment_block`, and its index entry, in
/// bytes: what PostgreSQL keeps beside the body of each block. See `docs/PERFORMANCE.md`; the
/// measured number is that of `ingest`.
const BLOCK_ROW_BYTES: usize = 196;
/// The same for a row of `segment`, which holds the head as columns, with its two index entries.
const SEGMENT_ROW_BYTES: usize = 620;

/// What to measure.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct CodecOptions {
    /// Nodes whose samples are made.
    #[arg(long, default_value_t = 24)]
    nodes: u64,
    /// Minutes of each node.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i64).range(1..=60))]
    minutes: i64,
    /// Repetitions of what takes time.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
}

/// Measures and prints.
///
/// # Errors
/// When the codec refuses the samples: a fault of this program.
pub fn run(options: CodecOptions) -> anyhow::Result<()> {
    for gpus in [8, 1] {
        let fleet = sealed_fleet(options, gpus)?;
        print_size(gpus, &Size::of(&fleet)?);
    }
    let fleet = sealed_fleet(options, 8)?;
    let (mut encoding, mut opening) = (Runs::new(), Runs::new());
    for _ in 0..options.repeat.max(1) {
        encoding.add(encoding_rate(&fleet)?);
        opening.add(opening_rate(&fleet)?);
    }
    println!("encode, hash and sign   {encoding} values/s on one core");
    println!("check, verify, decode   {opening} values/s on one core");
    let metering = metering_rates(options)?;
    println!("meter an hour           {metering} values/s on one core");
    Ok(())
}

struct Minute {
    blocks: Vec<Block>,
    native: Vec<Vec<Sample>>,
    sealed: SealedSegment,
}

struct Fleet {
    minutes: Vec<Minute>,
    keys: Vec<ed25519_dalek::VerifyingKey>,
}

impl Fleet {
    fn values(&self) -> usize {
        self.minutes.iter().flat_map(|minute| &minute.native).map(|gpu| gpu.len() * READINGS).sum()
    }
}

fn sealed_fleet(options: CodecOptions, gpus: usize) -> anyhow::Result<Fleet> {
    let mut fleet = Fleet { minutes: Vec::new(), keys: Vec::new() };
    for number in 0..options.nodes {
        let mut node = BenchNode::new(number, gpus, Origin::Simulated);
        let mut samples = SimulatedNode::new(number, gpus);
        for minute in 0..options.minutes {
            let made = samples.seconds(HOUR.start().0 + minute * 60_000, 60);
            let blocks = node.blocks(&made, minute == 0)?;
            let sealed = node.seal(&blocks)?;
            fleet.minutes.push(Minute { blocks, native: made.gpus, sealed });
            fleet.keys.push(node.public_key());
        }
    }
    Ok(fleet)
}

/// Bytes of a fleet's minutes by what they are.
#[derive(Default)]
struct Size {
    values: usize,
    gpu_blocks: usize,
    other_blocks: usize,
    heads: usize,
    rows: usize,
    /// What the GPU blocks would need more at native resolution.
    native_more: usize,
}

impl Size {
    fn of(fleet: &Fleet) -> anyhow::Result<Self> {
        let mut size = Self { values: fleet.values(), ..Self::default() };
        for minute in &fleet.minutes {
            let gpus = minute.native.len();
            let lengths: Vec<usize> = minute.sealed.blocks.iter().map(Vec::len).collect();
            size.gpu_blocks += lengths[..gpus].iter().sum::<usize>();
            size.other_blocks += lengths[gpus..].iter().sum::<usize>();
            let signed = &minute.sealed.signed;
            size.heads += signed.statement.len() + signed.signature.len();
            size.rows += lengths.len() * BLOCK_ROW_BYTES + SEGMENT_ROW_BYTES;
            for samples in &minute.native {
                size.native_more += native_more(samples)?;
            }
        }
        Ok(size)
    }
}

fn print_size(gpus: usize, size: &Size) {
    let per_value = |bytes: usize| short(length(bytes) / length(size.values));
    let wire = size.gpu_blocks + size.other_blocks + size.heads;
    let stored = size.gpu_blocks + size.other_blocks + size.rows;
    println!(
        "{gpus} GPU(s), {READINGS} readings each second, segments of 60 s: {} values",
        size.values
    );
    println!("  GPU blocks alone                  {} B/value", per_value(size.gpu_blocks));
    println!("  segment: blocks, head, signature  {} B/value", per_value(wire));
    println!("  stored, computed: rows and index  {} B/value", per_value(stored));
    println!("  segment at native resolution      {} B/value", per_value(wire + size.native_more));
    println!(
        "  stored at native resolution       {} B/value",
        per_value(stored + size.native_more)
    );
}

/// The format has one resolution for each reading and refuses finer numbers. What native values
/// would cost is the difference of a column of them under a metric whose resolution is 1 and the
/// column as it is.
fn native_more(samples: &[Sample]) -> anyhow::Result<usize> {
    let mut more = 0;
    for (place, metric) in METRICS.iter().enumerate().filter(|(_, metric)| metric.resolution() > 1)
    {
        let native = samples.iter().map(|sample| sample.values[place + 1]);
        let kept = native.clone().map(|value| data::declared(place + 1, value));
        let finer = lone_column(Metric::PcieTx, native, samples)?;
        more += finer.saturating_sub(lone_column(*metric, kept, samples)?);
    }
    Ok(more)
}

fn lone_column(
    metric: Metric,
    values: impl Iterator<Item = i64>,
    samples: &[Sample],
) -> anyhow::Result<usize> {
    let readings = values.map(|value| Some(Reading::Number(value))).collect();
    let whole = data::gpu_block((0, 0), samples, TrackSource::Poll)?;
    let block = GpuBlock { columns: vec![Column { metric, readings }], ..whole };
    Ok(Block::Gpu(block).encode()?.len())
}

fn encoding_rate(fleet: &Fleet) -> anyhow::Result<f64> {
    let mut node = BenchNode::new(0, 8, Origin::Simulated);
    let started = thread_cpu_s()?;
    for minute in &fleet.minutes {
        // The next minute may be another node's.
        node.skip();
        black_box(node.seal(black_box(&minute.blocks))?);
    }
    Ok(length(fleet.values()) / (thread_cpu_s()? - started))
}

fn opening_rate(fleet: &Fleet) -> anyhow::Result<f64> {
    let started = thread_cpu_s()?;
    for (minute, key) in fleet.minutes.iter().zip(&fleet.keys) {
        let SealedSegment { signed, blocks } = &minute.sealed;
        let opened = chain::open(&signed.statement, &signed.signature, blocks, key);
        black_box(opened.context("a sealed segment does not open")?);
    }
    Ok(length(fleet.values()) / (thread_cpu_s()? - started))
}

/// One node's hour, metered slot by slot from decoded blocks.
fn metering_rates(options: CodecOptions) -> anyhow::Result<Runs> {
    let fleet = sealed_fleet(CodecOptions { nodes: 1, minutes: 60, ..options }, 8)?;
    let mut rates = Runs::new();
    for _ in 0..options.repeat.max(1) {
        let started = thread_cpu_s()?;
        for slot in 0..8 {
            let measured = black_box(meter_slot(black_box(&fleet), slot)?);
            anyhow::ensure!(measured > 3_598_000, "an hour was metered as {measured} ms");
        }
        rates.add(length(fleet.values()) / (thread_cpu_s()? - started));
    }
    Ok(rates)
}

/// Measured milliseconds, so that nothing of it can be left out.
fn meter_slot(fleet: &Fleet, slot: usize) -> anyhow::Result<i64> {
    let heads: Vec<_> = fleet.minutes.iter().map(|minute| &minute.sealed.signed.head).collect();
    let segments: Vec<MeteredSegment<'_>> = fleet
        .minutes
        .iter()
        .zip(&heads)
        .map(|(minute, head)| MeteredSegment {
            head,
            head_hash: head.hash(),
            block: match &minute.blocks[slot] {
                Block::Gpu(block) => Some(block),
                Block::Host(_) | Block::Events(_) => None,
            },
            events: &[],
        })
        .collect();
    let always = [Period::new(Timestamp::MIN, Timestamp::MAX)];
    let (_, bus_id) = data::gpu_names(0, slot)?;
    let place = Place::of(&bus_id, None);
    let records = meter(&SlotHour {
        hour: HOUR,
        origin: Origin::Simulated,
        enrolled: HOUR.period(),
        place: &place,
        resident: None,
        segments: &segments,
        prior_events: &[],
        drops: &[],
        observer: &always,
        connected: None,
    });
    Ok(records.iter().map(|(record, _)| record.measured_ms()).sum())
}

#[cfg(test)]
mod instructions;

#[cfg(test)]
mod tests {
    use super::*;

    /// The goals of `docs/PERFORMANCE.md`, thousandths of a byte for each value.
    #[test]
    fn a_segment_stays_within_its_bytes_per_value() {
        let options = CodecOptions { nodes: 12, minutes: 4, repeat: 1 };
        let size = |gpus| Size::of(&sealed_fleet(options, gpus).unwrap()).unwrap();
        let eight = size(8);
        let per_mille = |bytes: usize, values: usize| bytes * 1_000 / values;
        let wire = eight.gpu_blocks + eight.other_blocks + eight.heads;
        assert!(per_mille(wire, eight.values) <= 550, "{}", per_mille(wire, eight.values));
        let native = per_mille(wire + eight.native_more, eight.values);
        assert!(native <= 1_050, "{native}");
        let one = size(1);
        let wire = one.gpu_blocks + one.other_blocks + one.heads;
        assert!(per_mille(wire, one.values) <= 1_100, "{}", per_mille(wire, one.values));
    }
}
