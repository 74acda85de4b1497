//! Samples of a GPU's page. All values are made up by a small integer recipe; nothing here is a
//! measurement.

use leasewatch_core::id::GpuUuid;
use leasewatch_core::metering::GapCause;
use leasewatch_core::sample::Metric;
use leasewatch_core::segment::{Event, EventKind, Origin};
use leasewatch_core::time::{DAY_MS, HOUR_MS, Period};

use super::gpu::{
    ClockView, Detail, GapShare, GpuView, Limit, LimitKind, LimitSource, Masked, MaskedWhy,
    ReasonLane, ReasonStretch, Series, SeriesKey,
};
use super::node::NodeView;
use super::sample::NOW;
use crate::chart::{Band, Point};
use crate::format::Measured;
use crate::live::LiveValues;

const MINUTE_MS: i64 = 60_000;

/// A capped stretch, a hot one, and a gap, as minutes of the six hours.
const CAPPED: std::ops::Range<i64> = 90..150;
const HOT: std::ops::Range<i64> = 205..241;
const GAP: std::ops::Range<i64> = 260..283;

pub(super) fn day() -> GpuView {
    let range = Period::new(NOW.plus_ms(-6 * HOUR_MS), NOW);
    let mut view = base(range, MINUTE_MS, Detail::Readings);
    let columns = 0..360_i64;
    let at = |minute: i64| range.start.plus_ms(minute * MINUTE_MS);
    let stretch = |minutes: &std::ops::Range<i64>| Period::new(at(minutes.start), at(minutes.end));
    view.gaps = vec![
        (Period::new(at(33).plus_ms(4_000), at(34).plus_ms(9_000)), GapCause::AgentRestart),
        (stretch(&GAP), GapCause::GpuLost),
    ];
    view.series = recipes()
        .into_iter()
        .map(|recipe| recipe.series(range, MINUTE_MS, columns.clone()))
        .collect();
    let gap_ms: i64 = view.gaps.iter().map(|(gap, _)| gap.ms()).sum();
    let measured_ms = range.ms() - gap_ms;
    let busy_pct_ms = measured_ms * 88 + 1_234_567;
    view.sums = Some(Measured { busy_pct_ms, measured_ms, enrolled_ms: range.ms() });
    let held = |bit, minutes: &std::ops::Range<i64>, share_permille| ReasonLane {
        bit,
        stretches: vec![ReasonStretch { period: stretch(minutes), share_permille }],
    };
    let mut cap = held(2, &CAPPED, 940);
    cap.stretches.push(ReasonStretch { period: stretch(&(150..163)), share_permille: 310 });
    view.lanes = vec![held(0, &(283..290), 1_000), cap, held(3, &HOT, 700), held(6, &HOT, 700)];
    view.lanes.push(held(9, &(12..14), 55));
    let uuid = GpuUuid::new(&view.gpu.uuid).ok();
    let event = |minute, gpu: Option<&GpuUuid>, kind| Event::new(at(minute), gpu.cloned(), kind);
    view.events = vec![
        event(283, uuid.as_ref(), EventKind::GpuBack),
        event(260, uuid.as_ref(), EventKind::GpuLost { nvml_code: 15 }),
        event(260, uuid.as_ref(), EventKind::Xid { code: 79 }),
        event(90, uuid.as_ref(), EventKind::PowerLimitChanged { from_mw: 700_000, to_mw: 500_000 }),
        event(34, None, EventKind::ClockStepped { by_ms: -1_250 }),
    ];
    view.events_left_out = 3;
    view.clock = Some(ClockView::Known {
        hour: NOW.plus_ms(-HOUR_MS),
        clock_mhz: 1_881,
        past_mhz: 1_980,
        past_hours: 312,
        ratio_ppm: 950_000,
    });
    view
}

pub(super) fn months() -> GpuView {
    let range = Period::new(NOW.plus_ms(-90 * DAY_MS), NOW);
    let bucket_ms = 6 * HOUR_MS;
    let mut view = base(range, bucket_ms, Detail::Hours);
    view.series = recipes()
        .into_iter()
        .filter(|recipe| !matches!(recipe.key, SeriesKey::Rate(_)))
        .map(|recipe| recipe.series(range, bucket_ms, 0..360))
        .collect();
    let bucket = |column: i64| {
        let start = range.start.plus_ms(column * bucket_ms);
        Period::new(start, start.plus_ms(bucket_ms))
    };
    let share = |column, cause, minutes| GapShare {
        period: bucket(column),
        cause,
        ms: minutes * MINUTE_MS,
    };
    view.gap_shares = vec![
        share(41, GapCause::AgentRestart, 9),
        share(120, GapCause::NetUnreachable, 180),
        share(120, GapCause::Unexplained, 45),
    ];
    view.gap_shares.extend(GAP.map(|column| share(column, GapCause::GpuLost, 360)));
    let stretch = ReasonStretch {
        period: Period::new(bucket(90).start, bucket(150).start),
        share_permille: 420,
    };
    view.lanes = vec![ReasonLane { bit: 2, stretches: vec![stretch] }];
    view
}

pub(super) fn imported() -> GpuView {
    let range = Period::new(NOW.plus_ms(-10 * HOUR_MS), NOW.plus_ms(-10 * HOUR_MS + MINUTE_MS));
    let mut view = base(range, 1_000, Detail::Readings);
    view.name.name = "lab-archive".to_owned();
    view.name.origin = Origin::Imported;
    view.status.standing = crate::names::Standing::Ended;
    view.ended_at = Some(NOW.plus_ms(-9 * HOUR_MS));
    view.gpu.live = LiveValues::NONE;
    view.gpu.model = "NVIDIA GeForce RTX 4090".to_owned();
    let kept = [SeriesKey::Busy, SeriesKey::Gauge(Metric::PowerDraw)];
    let kept = recipes().into_iter().filter(|recipe| kept.contains(&recipe.key));
    view.series = kept.map(|recipe| recipe.readings(range)).collect();
    view.sums = None;
    view.limits.clear();
    let masked = |metric, why| Masked { metric, why };
    view.masked = vec![
        masked(Metric::ClockEventReasons, MaskedWhy::NotRecorded),
        masked(Metric::MemoryTemperature, MaskedWhy::NotOnClass),
        masked(Metric::PcieTx, MaskedWhy::NotRecorded),
        masked(Metric::SmActive, MaskedWhy::NotOnClass),
        masked(Metric::TensorActive, MaskedWhy::NotOnClass),
        masked(Metric::MemoryUsed, MaskedWhy::NotOffered),
    ];
    view
}

pub(super) fn empty() -> GpuView {
    let joined = NOW.plus_ms(-2 * DAY_MS);
    let range = Period::new(joined.plus_ms(-DAY_MS), joined.plus_ms(-HOUR_MS));
    let mut view = base(range, 5 * MINUTE_MS, Detail::Minutes);
    view.enrolled_at = joined;
    view.sums = None;
    view.limits.clear();
    view
}

fn base(range: Period, bucket_ms: i64, detail: Detail) -> GpuView {
    let mut node = NodeView::sample();
    let row = node.gpus.swap_remove(0).row;
    let read = |what, value| Limit { what, value, source: LimitSource::Driver };
    let of_model = |what, value| Limit { what, value, source: LimitSource::Catalogue };
    GpuView {
        name: node.name,
        status: node.status,
        gpu: row,
        tenant: None,
        provider: node.provider,
        enrolled_at: node.enrolled_at.min(range.start),
        ended_at: None,
        range,
        detail,
        bucket_ms,
        sums: None,
        clock: Some(ClockView::TooLittle { past_hours: 3 }),
        gaps: Vec::new(),
        gap_shares: Vec::new(),
        series: Vec::new(),
        lanes: Vec::new(),
        limits: vec![
            read(LimitKind::MemoryTotal, 81_559),
            read(LimitKind::PowerDefault, 700_000),
            of_model(LimitKind::SmClockMax, 1_980),
            of_model(LimitKind::MaxOperating, 85),
            of_model(LimitKind::Slowdown, 87),
            of_model(LimitKind::Shutdown, 92),
        ],
        masked: Vec::new(),
        events: Vec::new(),
        events_left_out: 0,
    }
}

/// How a series is made up: a level, how much of it comes from work, and how much it trembles.
#[derive(Debug, Clone, Copy)]
struct Recipe {
    key: SeriesKey,
    idle: i64,
    work: i64,
    noise: i64,
    /// What is left of the work while the power is capped, in percent.
    capped: i64,
}

fn recipes() -> Vec<Recipe> {
    use Metric as M;
    let recipe = |key, idle, work, noise, capped| Recipe { key, idle, work, noise, capped };
    let gauge = |metric, idle, work, noise, capped| {
        recipe(SeriesKey::Gauge(metric), idle, work, noise, capped)
    };
    let rate = |metric, idle, work, noise| recipe(SeriesKey::Rate(metric), idle, work, noise, 80);
    vec![
        recipe(SeriesKey::Busy, 0, 970, 28, 100),
        gauge(M::SmActive, 0, 820, 60, 97),
        gauge(M::TensorActive, 0, 460, 90, 70),
        gauge(M::DramActive, 0, 390, 70, 74),
        gauge(M::MemoryBusy, 0, 46, 9, 80),
        gauge(M::MemoryUsed, 620, 71_300, 0, 100),
        gauge(M::MemoryReserved, 581, 0, 0, 100),
        gauge(M::PowerDraw, 71_400, 592_000, 32_000, 72),
        gauge(M::PowerLimitEnforced, 700_000, 0, 0, 100),
        gauge(M::PowerLimitManagement, 700_000, 0, 0, 100),
        gauge(M::SmClock, 345, 1_635, 45, 68),
        gauge(M::MemoryClock, 2_619, 0, 0, 100),
        gauge(M::Temperature, 31, 33, 3, 80),
        gauge(M::MemoryTemperature, 39, 44, 3, 85),
        rate(M::PcieTx, 1_400, 2_900_000, 900_000),
        rate(M::PcieRx, 2_100, 8_400_000, 1_900_000),
        rate(M::NvlinkTx, 0, 148_000_000, 31_000_000),
        rate(M::NvlinkRx, 0, 147_000_000, 31_000_000),
        rate(M::ThrottleSwPower, 0, 12, 11),
        rate(M::ThrottleHwThermal, 0, 2, 1),
    ]
}

impl Recipe {
    fn series(self, range: Period, bucket_ms: i64, columns: std::ops::Range<i64>) -> Series {
        let point = |column: i64| Point {
            at: range.start.plus_ms(column * bucket_ms),
            band: (!GAP.contains(&column)).then(|| self.band(column)),
        };
        Series { what: self.key, points: columns.map(point).collect() }
    }

    /// Single readings each second, one in five seconds for power.
    fn readings(self, range: Period) -> Series {
        let every = if self.key == SeriesKey::Busy { 1 } else { 5 };
        let point = |second: i64| {
            let value = self.band(second).mean;
            let band = Band { min: value, mean: value, max: value };
            Point { at: range.start.plus_ms(second * 1_000), band: Some(band) }
        };
        let seconds = (0..range.ms() / 1_000).filter(|second| second % every == 0);
        Series { what: self.key, points: seconds.map(point).collect() }
    }

    fn band(self, column: i64) -> Band {
        let seed = i64::try_from(self.key.name().len()).unwrap_or(7);
        let tremble = |salt: i64| {
            let spread = (self.noise * 2 + 1).max(1);
            scatter(column * 31 + seed * 7_001 + salt * 1_009).rem_euclid(spread) - self.noise
        };
        let is_limit = matches!(
            self.key,
            SeriesKey::Gauge(Metric::PowerLimitEnforced | Metric::PowerLimitManagement)
        );
        let kept = match column {
            c if is_limit && CAPPED.contains(&c) => return flat(500_000),
            c if CAPPED.contains(&c) => self.capped,
            c if HOT.contains(&c) => 100 - (c - HOT.start).min(30),
            c if (GAP.end..GAP.end + 7).contains(&c) => 0,
            _ => 100,
        };
        let full = self.idle + self.work * kept / 100;
        let floor = self.idle.min(full);
        let mean = (full - self.noise / 2 + tremble(1) / 2).max(floor);
        // Each half an hour a checkpoint is written, and work rests for a moment.
        let rests = column.rem_euclid(30) == 11;
        let min = if rests { self.idle } else { (mean - self.noise - tremble(2).abs()).max(floor) };
        let max = mean + self.noise / 2 + tremble(3).abs() / 2;
        let most = if self.key == SeriesKey::Busy { 1_000 } else { i64::MAX };
        Band { min: min.min(mean), mean: mean.min(most), max: max.min(most) }
    }
}

/// Scattered without a pattern that a compressor could find, and always the same.
fn scatter(seed: i64) -> i64 {
    let mut bits = seed.wrapping_mul(-7_046_029_254_386_353_131);
    for shift in [30, 27, 31] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(-4_658_895_280_553_007_687);
    }
    bits >> 8
}

fn flat(value: i64) -> Band {
    Band { min: value, mean: value, max: value }
}
