//! The live lane: current values, never stored, never evidence.
//!
//! A number outside its metric's range is left out as if it had not been read: what is shown must
//! be plausible, and what counts comes through the durable lane.

use leasewatch_core::id::{BusId, GpuUuid, clean_text};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::limits;
use leasewatch_core::time::Timestamp;

use super::{ConvertError, at_most, timestamp};
use crate::v1;
use crate::v1::live_reading::Status;

const NAME_CHARS: usize = 96;
/// How often live frames can be wanted, in milliseconds.
const INTERVAL_MS: std::ops::RangeInclusive<u32> = 250..=60_000;

/// Current values of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented in telemetry.proto")]
pub struct LiveFrame {
    pub at: Timestamp,
    pub gpus: Vec<LiveGpu>,
    pub backlog_segments: u64,
    pub cpu_busy_permille: Option<u32>,
    pub host_memory_used_mib: Option<u64>,
    pub host_memory_total_mib: Option<u64>,
    pub agent_rss_kib: Option<u64>,
    pub nvml_unavailable: bool,
}

/// Current values of one GPU; `None` = not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented in telemetry.proto")]
pub struct LiveGpu {
    pub uuid: GpuUuid,
    pub bus_id: BusId,
    /// Empty while the inventory is not known.
    pub name: String,
    pub busy_pct: Option<Reading>,
    pub memory_used_mib: Option<Reading>,
    pub memory_total_mib: Option<Reading>,
    pub power_draw_mw: Option<Reading>,
    pub power_limit_mw: Option<Reading>,
    pub temperature_c: Option<Reading>,
    pub sm_clock_mhz: Option<Reading>,
    pub clock_event_reasons: Option<Reading>,
    pub stalled_ms: u32,
    pub lost: bool,
}

/// How often live frames are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivePace {
    /// Milliseconds between frames, 250 to 60,000.
    pub interval_ms: u32,
}

impl LiveFrame {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`ConvertError`] for more GPUs than a node can have, ids that are none and times out of
    /// range.
    pub fn from_wire(wire: &v1::LiveFrame) -> Result<Self, ConvertError> {
        at_most("gpus", wire.gpus.len(), limits::GPUS)?;
        Ok(Self {
            at: timestamp("at_ms", wire.at_ms)?,
            gpus: wire.gpus.iter().map(LiveGpu::from_wire).collect::<Result<_, _>>()?,
            backlog_segments: wire.backlog_segments,
            cpu_busy_permille: wire.cpu_busy_permille,
            host_memory_used_mib: wire.host_memory_used_mib,
            host_memory_total_mib: wire.host_memory_total_mib,
            agent_rss_kib: wire.agent_rss_kib,
            nvml_unavailable: wire.nvml_unavailable,
        })
    }

    /// The message.
    #[must_use]
    pub fn to_wire(&self) -> v1::LiveFrame {
        v1::LiveFrame {
            at_ms: self.at.0,
            gpus: self.gpus.iter().map(LiveGpu::to_wire).collect(),
            backlog_segments: self.backlog_segments,
            cpu_busy_permille: self.cpu_busy_permille,
            host_memory_used_mib: self.host_memory_used_mib,
            host_memory_total_mib: self.host_memory_total_mib,
            agent_rss_kib: self.agent_rss_kib,
            nvml_unavailable: self.nvml_unavailable,
        }
    }
}

impl LiveGpu {
    fn from_wire(wire: &v1::LiveGpu) -> Result<Self, ConvertError> {
        let read = |wire, metric| reading_from_wire(wire).and_then(|r| plausible(r, metric));
        Ok(Self {
            uuid: GpuUuid::new(&wire.uuid)
                .map_err(|source| ConvertError::Id { field: "uuid", source })?,
            bus_id: BusId::new(&wire.bus_id)
                .map_err(|source| ConvertError::Id { field: "bus_id", source })?,
            name: clean_text(&wire.name, NAME_CHARS),
            busy_pct: reading_from_wire(wire.busy_pct.as_ref())
                .filter(|busy| busy.number().is_none_or(|value| (0..=100).contains(&value))),
            memory_used_mib: read(wire.memory_used_mib.as_ref(), Metric::MemoryUsed),
            memory_total_mib: read(wire.memory_total_mib.as_ref(), Metric::MemoryTotal),
            power_draw_mw: read(wire.power_draw_mw.as_ref(), Metric::PowerDraw),
            power_limit_mw: read(wire.power_limit_mw.as_ref(), Metric::PowerLimitEnforced),
            temperature_c: read(wire.temperature_c.as_ref(), Metric::Temperature),
            sm_clock_mhz: read(wire.sm_clock_mhz.as_ref(), Metric::SmClock),
            clock_event_reasons: read(wire.clock_event_reasons.as_ref(), Metric::ClockEventReasons),
            stalled_ms: wire.stalled_ms,
            lost: wire.lost,
        })
    }

    fn to_wire(&self) -> v1::LiveGpu {
        v1::LiveGpu {
            uuid: self.uuid.as_str().to_owned(),
            bus_id: self.bus_id.as_str().to_owned(),
            name: self.name.clone(),
            busy_pct: reading_to_wire(self.busy_pct),
            memory_used_mib: reading_to_wire(self.memory_used_mib),
            memory_total_mib: reading_to_wire(self.memory_total_mib),
            power_draw_mw: reading_to_wire(self.power_draw_mw),
            power_limit_mw: reading_to_wire(self.power_limit_mw),
            temperature_c: reading_to_wire(self.temperature_c),
            sm_clock_mhz: reading_to_wire(self.sm_clock_mhz),
            clock_event_reasons: reading_to_wire(self.clock_event_reasons),
            stalled_ms: self.stalled_ms,
            lost: self.lost,
        }
    }
}

impl LivePace {
    /// Reads a pace.
    ///
    /// # Errors
    /// [`ConvertError::Range`].
    pub fn from_wire(wire: &v1::LivePace) -> Result<Self, ConvertError> {
        Ok(Self { interval_ms: interval(wire.interval_ms)? })
    }

    /// The message.
    #[must_use]
    pub fn to_wire(self) -> v1::LivePace {
        v1::LivePace { interval_ms: self.interval_ms }
    }
}

pub(super) fn interval(ms: u32) -> Result<u32, ConvertError> {
    if INTERVAL_MS.contains(&ms) {
        Ok(ms)
    } else {
        Err(ConvertError::Range { field: "live interval" })
    }
}

/// A reading; `None` when it was not read yet, or has a status that this version does not know.
#[must_use]
pub fn reading_from_wire(wire: Option<&v1::LiveReading>) -> Option<Reading> {
    let wire = wire?;
    match Status::try_from(wire.status).ok()? {
        Status::Absent => None,
        Status::Number => Some(Reading::Number(wire.number)),
        Status::Unsupported => Some(Reading::Unsupported),
        Status::Error => Some(Reading::Error),
        Status::Stale => Some(Reading::Stale),
    }
}

/// The message; absence travels as absence.
#[must_use]
pub fn reading_to_wire(reading: Option<Reading>) -> Option<v1::LiveReading> {
    let (number, status) = match reading? {
        Reading::Number(number) => (number, Status::Number),
        Reading::Unsupported => (0, Status::Unsupported),
        Reading::Error => (0, Status::Error),
        Reading::Stale => (0, Status::Stale),
    };
    Some(v1::LiveReading { number, status: status.into() })
}

fn plausible(reading: Reading, metric: Metric) -> Option<Reading> {
    match reading.number() {
        Some(value) if !(metric.lowest()..=metric.highest()).contains(&value) => None,
        _ => Some(reading),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> LiveFrame {
        LiveFrame {
            at: Timestamp(1_800_000_000_000),
            gpus: vec![LiveGpu {
                uuid: GpuUuid::new("GPU-1").unwrap(),
                bus_id: BusId::new("00000000:18:00.0").unwrap(),
                name: "NVIDIA H100 80GB HBM3".to_owned(),
                busy_pct: Some(Reading::Number(0)),
                memory_used_mib: Some(Reading::Number(512)),
                memory_total_mib: Some(Reading::Unsupported),
                power_draw_mw: Some(Reading::Error),
                power_limit_mw: Some(Reading::Stale),
                temperature_c: Some(Reading::Number(-4)),
                sm_clock_mhz: None,
                clock_event_reasons: Some(Reading::Number(1)),
                stalled_ms: 0,
                lost: false,
            }],
            backlog_segments: 3,
            cpu_busy_permille: Some(0),
            host_memory_used_mib: None,
            host_memory_total_mib: Some(1),
            agent_rss_kib: None,
            nvml_unavailable: false,
        }
    }

    #[test]
    fn a_frame_survives_the_wire_with_every_kind_of_reading() {
        assert_eq!(LiveFrame::from_wire(&frame().to_wire()), Ok(frame()));
    }

    #[test]
    fn zero_and_not_read_stay_apart() {
        assert_eq!(reading_from_wire(None), None);
        assert_eq!(reading_from_wire(Some(&v1::LiveReading::default())), None);
        let zero = reading_to_wire(Some(Reading::Number(0)));
        assert_eq!(reading_from_wire(zero.as_ref()), Some(Reading::Number(0)));
        let future = v1::LiveReading { number: 1, status: 99 };
        assert_eq!(reading_from_wire(Some(&future)), None);
    }

    #[test]
    fn implausible_numbers_are_not_shown() {
        let mut wire = frame().to_wire();
        let number = |value| reading_to_wire(Some(Reading::Number(value)));
        wire.gpus[0].busy_pct = number(101);
        wire.gpus[0].power_draw_mw = number(-1);
        wire.gpus[0].name = "A\u{1b}[2J".to_owned();
        let gpu = LiveFrame::from_wire(&wire).unwrap().gpus.remove(0);
        assert_eq!((gpu.busy_pct, gpu.power_draw_mw), (None, None));
        assert_eq!(gpu.name, "A[2J");
    }

    #[test]
    fn frames_and_paces_are_bounded() {
        let mut wire = frame().to_wire();
        wire.gpus = vec![wire.gpus[0].clone(); limits::GPUS + 1];
        assert!(matches!(LiveFrame::from_wire(&wire), Err(ConvertError::TooLong { .. })));
        assert!(LivePace::from_wire(&v1::LivePace { interval_ms: 0 }).is_err());
        assert!(LivePace::from_wire(&v1::LivePace { interval_ms: 1_000 }).is_ok());
    }
}
