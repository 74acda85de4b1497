//! Which chart a series belongs to, in what words, in what unit.
//!
//! One table. A series keeps its colour and dashes whatever else is in its chart.

use leasewatch_core::sample::Metric;

use super::{LimitKind, MaskedWhy, SeriesKey};
use crate::chart::{Scale, Shape};
use crate::format::Quantity;
use crate::i18n::Text;

/// A chart of the page.
pub(super) struct Spec {
    /// Its id on the page.
    pub(super) id: &'static str,
    pub(super) title: Text,
    pub(super) scale: Scale,
    /// The unit of the axis, and of the words of a value.
    pub(super) tick: fn(i64) -> Quantity,
    pub(super) say: fn(i64) -> Quantity,
    pub(super) lines: &'static [LineSpec],
    pub(super) limits: &'static [LimitKind],
}

/// A series of a chart.
pub(super) struct LineSpec {
    pub(super) key: SeriesKey,
    pub(super) name: Text,
    /// From the series' unit to that of the axis.
    pub(super) factor: i64,
    pub(super) shape: Shape,
}

const fn line(key: SeriesKey, name: Text) -> LineSpec {
    LineSpec { key, name, factor: 1, shape: Shape::Line }
}

const fn gauge(metric: Metric, name: Text) -> LineSpec {
    line(SeriesKey::Gauge(metric), name)
}

/// A percentage on an axis of per mille.
const fn percent(metric: Metric, name: Text) -> LineSpec {
    LineSpec { key: SeriesKey::Gauge(metric), name, factor: 10, shape: Shape::Line }
}

const fn step(metric: Metric, name: Text) -> LineSpec {
    LineSpec { key: SeriesKey::Gauge(metric), name, factor: 1, shape: Shape::Step }
}

const fn rate(metric: Metric, name: Text) -> LineSpec {
    line(SeriesKey::Rate(metric), name)
}

const fn share(id: &'static str, title: Text, lines: &'static [LineSpec]) -> Spec {
    Spec {
        id,
        title,
        scale: Scale::Share,
        tick: Quantity::whole_permille,
        say: Quantity::permille,
        lines,
        limits: &[],
    }
}

const fn transfer(id: &'static str, title: Text, lines: &'static [LineSpec]) -> Spec {
    let unit: fn(i64) -> Quantity = Quantity::rate_kib_s;
    Spec { id, title, scale: Scale::Binary, tick: unit, say: unit, lines, limits: &[] }
}

/// The charts above the lanes of clock event reasons: what was done, and how fast it could be.
pub(super) const FIRST: [Spec; 3] = [
    share(
        "busy",
        Text::PlotBusy,
        &[
            line(SeriesKey::Busy, Text::SeriesBusy),
            gauge(Metric::SmActive, Text::SeriesSm),
            gauge(Metric::TensorActive, Text::SeriesTensor),
        ],
    ),
    Spec {
        id: "clocks",
        title: Text::PlotClocks,
        scale: Scale::Decimal,
        tick: Quantity::clock_mhz,
        say: Quantity::clock_mhz,
        lines: &[
            gauge(Metric::SmClock, Text::SeriesSmClock),
            gauge(Metric::MemoryClock, Text::SeriesMemoryClock),
            step(Metric::SmClockMax, Text::LimitSmClockMax),
            step(Metric::MemoryClockMax, Text::LimitMemoryClockMax),
        ],
        limits: &[LimitKind::SmClockMax, LimitKind::MemoryClockMax],
    },
    Spec {
        id: "power",
        title: Text::PlotPower,
        scale: Scale::Decimal,
        tick: Quantity::whole_power_mw,
        say: Quantity::power_mw,
        lines: &[
            gauge(Metric::PowerDraw, Text::SeriesPower),
            step(Metric::PowerLimitEnforced, Text::SeriesLimitEnforced),
            step(Metric::PowerLimitManagement, Text::SeriesLimitManagement),
            step(Metric::PowerLimitDefault, Text::SeriesLimitDefault),
        ],
        limits: &[LimitKind::PowerDefault],
    },
];

/// The charts below the lanes.
pub(super) const REST: [Spec; 8] = [
    Spec {
        id: "temperature",
        title: Text::PlotTemperature,
        scale: Scale::Near,
        tick: Quantity::temperature_c,
        say: Quantity::temperature_c,
        lines: &[
            gauge(Metric::Temperature, Text::SeriesCore),
            gauge(Metric::MemoryTemperature, Text::SeriesMemory),
        ],
        limits: &[
            LimitKind::MaxOperating,
            LimitKind::Slowdown,
            LimitKind::Shutdown,
            LimitKind::MemoryMaxOperating,
        ],
    },
    Spec {
        id: "memory",
        title: Text::PlotMemory,
        scale: Scale::Binary,
        tick: Quantity::memory_mib,
        say: Quantity::memory_mib,
        lines: &[
            gauge(Metric::MemoryUsed, Text::SeriesMemoryUsed),
            step(Metric::MemoryReserved, Text::SeriesMemoryReserved),
        ],
        limits: &[LimitKind::MemoryTotal],
    },
    share(
        "memory-busy",
        Text::PlotMemoryBusy,
        &[
            percent(Metric::MemoryBusy, Text::SeriesMemoryBusy),
            gauge(Metric::DramActive, Text::SeriesDram),
        ],
    ),
    transfer(
        "pcie",
        Text::PlotPcie,
        &[rate(Metric::PcieTx, Text::SeriesSent), rate(Metric::PcieRx, Text::SeriesReceived)],
    ),
    transfer(
        "nvlink",
        Text::PlotNvlink,
        &[rate(Metric::NvlinkTx, Text::SeriesSent), rate(Metric::NvlinkRx, Text::SeriesReceived)],
    ),
    Spec {
        id: "throttled",
        title: Text::PlotThrottled,
        scale: Scale::Decimal,
        tick: Quantity::permille,
        say: Quantity::permille,
        lines: &[
            rate(Metric::ThrottleSwPower, Text::ClockPowerCap),
            rate(Metric::ThrottleSwThermal, Text::ClockSwThermal),
            rate(Metric::ThrottleHwThermal, Text::ClockHwThermal),
            rate(Metric::ThrottleHwPowerBrake, Text::ClockPowerBrake),
            rate(Metric::ThrottleSyncBoost, Text::ClockSyncBoost),
        ],
        limits: &[],
    },
    share(
        "video",
        Text::PlotVideo,
        &[
            percent(Metric::EncoderBusy, Text::SeriesEncoder),
            percent(Metric::DecoderBusy, Text::SeriesDecoder),
        ],
    ),
    Spec {
        id: "fan",
        title: Text::PlotFan,
        scale: Scale::Decimal,
        tick: Quantity::percent,
        say: Quantity::percent,
        lines: &[gauge(Metric::FanSpeed, Text::SeriesFan)],
        limits: &[],
    },
];

impl SeriesKey {
    /// The metric behind it; utilization has a track of its own.
    pub(super) fn metric(self) -> Option<Metric> {
        match self {
            Self::Busy => None,
            Self::Gauge(metric) | Self::Rate(metric) => Some(metric),
        }
    }
}

impl LimitKind {
    pub(super) fn text(self) -> Text {
        match self {
            Self::MemoryTotal => Text::LimitMemoryTotal,
            Self::PowerDefault => Text::SeriesLimitDefault,
            Self::SmClockMax => Text::LimitSmClockMax,
            Self::MemoryClockMax => Text::LimitMemoryClockMax,
            Self::MaxOperating => Text::LimitMaxOperating,
            Self::Slowdown => Text::LimitSlowdown,
            Self::Shutdown => Text::LimitShutdown,
            Self::MemoryMaxOperating => Text::LimitMemoryMaxOperating,
        }
    }

    /// The series that says the same over time, beside which the fixed line is left out.
    pub(super) fn series(self) -> Option<Metric> {
        match self {
            Self::PowerDefault => Some(Metric::PowerLimitDefault),
            Self::SmClockMax => Some(Metric::SmClockMax),
            Self::MemoryClockMax => Some(Metric::MemoryClockMax),
            Self::MemoryTotal
            | Self::MaxOperating
            | Self::Slowdown
            | Self::Shutdown
            | Self::MemoryMaxOperating => None,
        }
    }
}

impl MaskedWhy {
    pub(super) const ALL: [Self; 3] = [Self::NotOnClass, Self::NotOffered, Self::NotRecorded];

    pub(super) fn text(self) -> Text {
        match self {
            Self::NotOnClass => Text::MaskedNotOnClass,
            Self::NotOffered => Text::MaskedNotOffered,
            Self::NotRecorded => Text::MaskedNotRecorded,
        }
    }
}

/// The words for a bit of NVML's clock event reasons, and the class of its lane: an idle GPU and a
/// chosen clock are the normal course of things.
pub(super) fn reason(bit: u8) -> (Text, &'static str) {
    match bit {
        0 => (Text::ClockIdle, "plain"),
        1 => (Text::ClockApplication, "plain"),
        2 => (Text::ClockPowerCap, "notice"),
        3 => (Text::ClockHwSlowdown, "fault"),
        4 => (Text::ClockSyncBoost, "notice"),
        5 => (Text::ClockSwThermal, "fault"),
        6 => (Text::ClockHwThermal, "fault"),
        7 => (Text::ClockPowerBrake, "fault"),
        8 => (Text::ClockDisplay, "plain"),
        _ => (Text::ClockUnknown, "notice"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_stands_in_one_place_and_has_a_style() {
        let mut keys = Vec::new();
        let mut ids = Vec::new();
        for spec in FIRST.iter().chain(&REST) {
            assert!(spec.lines.len() <= 5, "{}", spec.id);
            ids.push(spec.id);
            keys.extend(spec.lines.iter().map(|line| line.key));
        }
        let (count, charts) = (keys.len(), ids.len());
        keys.sort();
        keys.dedup();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((keys.len(), ids.len()), (count, charts));
    }
}
