//! `report`: the hours of this machine's GPUs, from the spool, in the terminal.
//!
//! The same metering as a server's, over what lies on disk: what an agent has delivered and removed
//! is not in it. It reads beside a running agent, and takes and changes nothing.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use leasewatch_core::evidence::chain::Head;
use leasewatch_core::id::{GpuUuid, Hash};
use leasewatch_core::metering::{MeteredSegment, Ppm, SlotHour, UtilizationSum, meter};
use leasewatch_core::segment::{Block, Event, GpuBlock, Origin, Place};
use leasewatch_core::time::{HOUR_MS, Hour, Period, Timestamp};
use serde_json::{Value, json};

use super::print;
use super::record::duration;
use super::run::refuse;
use crate::config::DEFAULT_STATE_DIR;
use crate::spool::{self, Reader};

/// The longest hold of a point: within it, a segment beyond an hour's edge decides about the hour.
const NEAR_MS: i64 = 180_000;
/// A place that was first seen within this time of the beginning was there from the start.
const FIRST_SIGHT_MS: i64 = 300_000;

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// How far back from the end of the record, such as 30m, 24h or 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    last: Duration,
    /// A recording, a state directory or a spool [default: /var/lib/leasewatch-agent]
    #[arg(long, env = "LEASEWATCH_STATE_DIR", value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the hours. 0: printed; 4: there is nothing to report.
#[must_use]
pub fn report(args: &ReportArgs) -> ExitCode {
    let given = args.spool.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_STATE_DIR));
    let inside = spool::folder(&given);
    let folder = if inside.is_dir() { inside } else { given };
    let last_ms = i64::try_from(args.last.as_millis()).unwrap_or(i64::MAX);
    let Some(hours) = Hours::read(&folder, last_ms) else {
        return refuse(&format_args!("there is no record in {}", folder.display()), 4);
    };
    print(&if args.json { hours.json() } else { hours.text() });
    ExitCode::SUCCESS
}

/// What was measured, by GPU.
#[derive(Debug)]
struct Hours {
    period: Period,
    origin: Origin,
    gpus: BTreeMap<(Place, GpuUuid), UtilizationSum>,
}

/// One opened segment, as the record has it.
struct Opened {
    head: Head,
    hash: Hash,
    gpus: Vec<GpuBlock>,
    events: Vec<Event>,
}

impl Hours {
    /// The last so many milliseconds of the record in a folder; `None` when there is none.
    fn read(folder: &Path, last_ms: i64) -> Option<Self> {
        let reader = Reader::open(folder);
        let whole = reader.period()?;
        let start = whole.end.plus_ms(-last_ms).max(whole.start);
        let mut hours = Self {
            period: Period::new(start, whole.end),
            origin: Origin::Measured,
            gpus: BTreeMap::new(),
        };
        let mut first_seen = BTreeMap::new();
        let mut hour = start.hour();
        while hour.start() < whole.end {
            hours.meter(&reader, hour, &mut first_seen);
            hour = Hour(hour.0 + 1);
        }
        (!hours.gpus.is_empty()).then_some(hours)
    }

    fn meter(&mut self, reader: &Reader, hour: Hour, first_seen: &mut BTreeMap<Place, Timestamp>) {
        let of = hour.period();
        let near = Period::new(of.start.plus_ms(-NEAR_MS), of.end.plus_ms(NEAR_MS));
        let opened: Vec<Opened> =
            reader.segments(near).into_iter().filter_map(Opened::of).collect();
        for segment in &opened {
            self.origin = self.origin.max(segment.head.origin);
            for block in &segment.gpus {
                let place = Place::of(&block.bus_id, block.partition.as_ref());
                first_seen.entry(place).or_insert(segment.head.period.start);
            }
        }
        let drops: Vec<Period> = reader.drops().iter().map(|drop| drop.period).collect();
        let always = [Period::new(Timestamp::MIN, Timestamp::MAX)];
        for (place, seen_at) in first_seen.iter() {
            let is_slice = place.instance.is_some();
            let is_late = !is_slice && seen_at.since(self.period.start) > FIRST_SIGHT_MS;
            let start = if is_late { *seen_at } else { self.period.start };
            let segments: Vec<MeteredSegment<'_>> =
                opened.iter().map(|segment| segment.seen_from(place)).collect();
            let input = SlotHour {
                hour,
                origin: self.origin,
                place,
                enrolled: Period::new(start, self.period.end),
                resident: None,
                segments: &segments,
                prior_events: &[],
                drops: &drops,
                observer: &always,
                connected: None,
            };
            for (record, _) in meter(&input) {
                let key = (place.clone(), record.gpu.clone());
                self.gpus.entry(key).or_default().add(&record);
            }
        }
    }

    fn text(&self) -> String {
        let Period { start, end } = self.period;
        let mut out = format!("{start} to {end}\n");
        if self.origin != Origin::Measured {
            let _ = writeln!(out, "{} DATA", self.origin.name().to_uppercase());
        }
        let _ = writeln!(
            out,
            "\n{:<22} {:>9} {:>9} {:>9} {:>9} {:>9}  gaps",
            "GPU", "util", "coverage", "busy h", "idle h", "missing h"
        );
        for ((place, uuid), sum) in &self.gpus {
            let slice = place.instance.as_ref().map_or("", |_| " slice");
            let name = format!("{}{slice}", place.bus_id);
            let idle_ms = sum.histogram.ms_at(0);
            let _ = writeln!(
                out,
                "{name:<22} {:>9} {:>9} {:>9} {:>9} {:>9}  {}",
                percent(sum.mean()),
                percent(sum.coverage()),
                in_hours(sum.measured_ms() - idle_ms),
                in_hours(idle_ms),
                in_hours(sum.gaps.total_ms()),
                gaps_text(sum),
            );
            let _ = writeln!(out, "  {uuid}");
        }
        out
    }

    fn json(&self) -> String {
        let gpus = self.gpus.iter().map(|((place, uuid), sum)| {
            let gaps = sum.gaps.iter().filter(|(_, ms)| *ms > 0);
            json!({
                "uuid": uuid.as_str(),
                "bus_id": place.bus_id.as_str(),
                "is_slice": place.instance.is_some(),
                "enrolled_ms": sum.enrolled_ms,
                "measured_ms": sum.measured_ms(),
                "idle_ms": sum.histogram.ms_at(0),
                "utilization_ppm": sum.mean().map(|ppm| ppm.0),
                "coverage_ppm": sum.coverage().map(|ppm| ppm.0),
                "gap_ms": gaps.map(|(cause, ms)| (cause.name().to_owned(), json!(ms)))
                    .collect::<serde_json::Map<String, Value>>(),
            })
        });
        let value = json!({
            "from_ms": self.period.start.0,
            "to_ms": self.period.end.0,
            "origin": self.origin.name(),
            "gpus": gpus.collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    }
}

impl Opened {
    /// `None` for a segment that does not decode: its record was whole, so it never held.
    fn of(sealed: leasewatch_core::evidence::chain::SealedSegment) -> Option<Self> {
        let (mut gpus, mut events) = (Vec::new(), Vec::new());
        for block in &sealed.blocks {
            match Block::decode(block).ok()? {
                Block::Gpu(gpu) => gpus.push(gpu),
                Block::Events(block) => events = block.events,
                Block::Host(_) => {}
            }
        }
        let head = sealed.signed.head;
        Some(Self { hash: head.hash(), head, gpus, events })
    }

    fn seen_from(&self, place: &Place) -> MeteredSegment<'_> {
        let sits = |gpu: &&GpuBlock| Place::of(&gpu.bus_id, gpu.partition.as_ref()) == *place;
        MeteredSegment {
            head: &self.head,
            head_hash: self.hash,
            block: self.gpus.iter().find(sits),
            events: &self.events,
        }
    }
}

fn gaps_text(sum: &UtilizationSum) -> String {
    let gaps = sum.gaps.iter().filter(|(_, ms)| *ms > 0);
    let parts: Vec<String> =
        gaps.map(|(cause, ms)| format!("{} {}", cause.name(), in_hours(ms))).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// `97.3 %`, rounded down; a dash where nothing was measured, which is no zero.
fn percent(ppm: Option<Ppm>) -> String {
    ppm.map_or("-".to_owned(), |Ppm(ppm)| format!("{}.{} %", ppm / 10_000, ppm % 10_000 / 1_000))
}

/// `1.250`: thousandths of an hour, rounded down.
fn in_hours(ms: i64) -> String {
    format!("{}.{:03}", ms / HOUR_MS, ms % HOUR_MS * 1_000 / HOUR_MS)
}

#[cfg(test)]
mod tests {
    use leasewatch_core::evidence::chain::seal;
    use leasewatch_core::evidence::spool::FileHeader;
    use leasewatch_core::id::{BusId, ChainId, Sequence};
    use leasewatch_core::sample::Reading;
    use leasewatch_core::segment::{TrackPoint, TrackSource, UtilizationTrack};

    use super::*;
    use crate::clock::Instant;
    use crate::recorder::fixture;
    use crate::spool::{ChainEnd, Quota, Spool};

    const START: Timestamp = Timestamp(1_800_000_000_000);

    /// A minute of one GPU whose utilization is `busy_pct`, in a spool in `folder`.
    fn record(folder: &Path, minutes: &[(i64, i64)]) {
        let owner = FileHeader { chain: ChainId([1; 16]), public_key: [7; 32] };
        let quota = Quota { bytes: 1 << 20, hours: 24, reserve_bytes: 0 };
        let mut spool = Spool::open(folder, quota, owner, ChainEnd::START);
        for (minute, busy_pct) in minutes {
            let start = START.plus_ms(minute * 60_000);
            let ticks: Vec<Timestamp> =
                (1..=60).map(|second| start.plus_ms(second * 1_000)).collect();
            let busy = Reading::Number(*busy_pct);
            let points = ticks.iter().map(|at| TrackPoint { at: *at, busy }).collect();
            let gpu = GpuBlock {
                uuid: GpuUuid::new("GPU-1").unwrap(),
                bus_id: BusId::new("00000000:18:00.0").unwrap(),
                partition: None,
                ticks,
                track: UtilizationTrack { source: TrackSource::Poll, period_ms: 1_000, points },
                columns: Vec::new(),
            };
            let end = spool.end();
            let sequence = end.sequence.next().unwrap_or(Sequence::FIRST);
            let mut draft = fixture::head_draft(sequence, end.head);
            draft.period = Period::new(start, start.plus_ms(60_000));
            let sealed = seal(draft, &[Block::Gpu(gpu)], &fixture::key()).unwrap();
            assert!(spool.append(&sealed, Instant { boot_ms: 0, wall: start }).is_durable);
        }
    }

    #[test]
    fn hours_are_metered_from_the_spool_and_a_hole_is_a_gap_and_no_zero() {
        let temp = tempfile::tempdir().unwrap();
        record(temp.path(), &[(0, 80), (1, 0), (4, 40)]);
        let hours = Hours::read(temp.path(), HOUR_MS).unwrap();
        let sum = hours.gpus.values().next().unwrap();
        assert_eq!((sum.enrolled_ms, sum.measured_ms()), (300_000, 180_000));
        assert!(sum.is_conserved());
        assert_eq!((sum.mean(), sum.coverage()), (Some(Ppm(400_000)), Some(Ppm(600_000))));
        let text = hours.text();
        assert!(text.contains("SIMULATED DATA"), "{text}");
        assert!(text.contains("40.0 %    60.0 %     0.033     0.016     0.033"), "{text}");
        let json: Value = serde_json::from_str(&hours.json()).unwrap();
        let gpu = &json["gpus"][0];
        assert_eq!((&json["origin"], &gpu["idle_ms"]), (&json!("simulated"), &json!(60_000)));
        let gaps = gpu["gap_ms"].as_object().unwrap();
        assert_eq!(gaps.values().filter_map(Value::as_i64).sum::<i64>(), 120_000);
        // The end of the record counts, not the clock, and a part of it is a part.
        let minute = Hours::read(temp.path(), 90_000).unwrap();
        assert_eq!(minute.gpus.values().next().unwrap().measured_ms(), 60_000);
    }

    #[test]
    fn an_hour_that_the_record_crosses_is_cut_and_adds_up() {
        let temp = tempfile::tempdir().unwrap();
        // The hour is full twenty minutes after the start.
        let minutes: Vec<(i64, i64)> = (0..60).map(|minute| (minute, 100)).collect();
        record(temp.path(), &minutes);
        let hours = Hours::read(temp.path(), 24 * HOUR_MS).unwrap();
        assert_ne!(hours.period.start.hour(), hours.period.end.hour());
        let sum = hours.gpus.values().next().unwrap();
        assert_eq!((sum.enrolled_ms, sum.measured_ms()), (HOUR_MS, HOUR_MS));
    }

    #[test]
    fn a_folder_without_a_record_gives_none() {
        let temp = tempfile::tempdir().unwrap();
        assert!(Hours::read(temp.path(), HOUR_MS).is_none());
        assert!(Hours::read(&temp.path().join("nowhere"), HOUR_MS).is_none());
    }
}
