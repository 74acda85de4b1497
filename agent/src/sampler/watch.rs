//! One GPU as the sampler sees it: reading, stalled, lost, and what that makes of each tick.
//!
//! Pure: times are arguments, what follows is pushed to [`Effects`]. A tick ends in exactly one of
//! readings, `Stale` readings, or nothing (missed or lost), which metering turns into a gap. A
//! missed tick is never shifted to another time or filled with a number.

use leasewatch_core::id::GpuUuid;
use leasewatch_core::sample::Reading;
use leasewatch_core::segment::EventKind;

use super::changes::Changes;
use super::fleet::{Effects, Order, Timing};
use super::plausible::Implausible;
use super::slices::Slices;
use crate::observation::{GpuObservation, LiveGpu, Observation, TrackObservation};
use crate::source::nvml::{FAST_LANE, FoundGpu, Gone, GpuRead, Lane, TrackPlan, TrackSlot};

/// Ticks kept while a call has not returned; the watchdog comes long before.
const PENDING_MAX: usize = 64;

/// A read that has not come back.
#[derive(Debug)]
struct InFlight {
    since_ms: i64,
    /// The tick that it was ordered at and those that passed since.
    ticks: Vec<i64>,
    stalled: bool,
}

/// The state of one GPU.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) gpu: FoundGpu,
    pub(super) track: TrackSlot,
    pub(super) live: LiveGpu,
    /// Number of the reader that may answer; `None` while there is none.
    reader: Option<u64>,
    in_flight: Option<InFlight>,
    /// Its next read is a slow one, whatever the tick.
    fresh: bool,
    last_at_ms: i64,
    last_point_ms: i64,
    changes: Changes,
    /// The period of the slices' tracks.
    cadence_ms: u32,
    missed: i64,
    implausible: Implausible,
    slices: Slices,
}

impl Watch {
    pub(super) fn new(gpu: FoundGpu, cadence_ms: u32) -> Self {
        Self {
            live: LiveGpu::new(gpu.uuid.clone(), gpu.bus_id.clone()),
            gpu,
            track: TrackSlot::default(),
            reader: None,
            in_flight: None,
            fresh: true,
            last_at_ms: i64::MIN,
            last_point_ms: i64::MIN,
            changes: Changes::default(),
            cadence_ms,
            missed: 0,
            implausible: Implausible::default(),
            slices: Slices::default(),
        }
    }

    pub(super) fn is_attached(&self) -> bool {
        self.reader.is_some()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.live.lost
    }

    /// True while a call has not returned.
    pub(super) fn is_silent(&self) -> bool {
        self.in_flight.is_some() || self.live.stalled_since_boot_ms.is_some()
    }

    pub(super) fn has_reader(&self, id: u64) -> bool {
        self.reader == Some(id)
    }

    /// From now on answers of reader `id` count.
    pub(super) fn attach(&mut self, id: u64) {
        self.reader = Some(id);
        self.in_flight = None;
        self.fresh = true;
    }

    /// The reader is given up; a call of it that still hangs is not waited for. A stall ends with
    /// the first answer of the next reader.
    pub(super) fn detach(&mut self) {
        self.reader = None;
        if let Some(in_flight) = self.in_flight.take().filter(|read| !read.stalled) {
            self.missed += count(in_flight.ticks.len());
        }
    }

    /// What to read at `tick`. While a call hangs the tick is kept or, once the watchdog gave the
    /// call up, recorded as stale.
    pub(super) fn on_tick(&mut self, tick_ms: i64, slow: bool, out: &mut Effects) {
        let Some(reader) = self.reader else { return };
        match &mut self.in_flight {
            None => {
                self.in_flight =
                    Some(InFlight { since_ms: tick_ms, ticks: vec![tick_ms], stalled: false });
                let lane = if slow || self.fresh { Lane::Slow } else { Lane::Fast };
                out.order(Order::Read { uuid: self.gpu.uuid.clone(), reader, lane });
            }
            Some(read) if read.stalled => self.stale(tick_ms, out),
            Some(read) if read.ticks.len() < PENDING_MAX => read.ticks.push(tick_ms),
            Some(_) => self.missed += 1,
        }
    }

    /// Gives up a call that has not returned in time. The ticks that passed meanwhile are stale:
    /// that no answer came is known of each of them.
    pub(super) fn check(&mut self, now_ms: i64, timing: &Timing, out: &mut Effects) {
        let Some(read) = &mut self.in_flight else { return };
        if read.stalled || now_ms.saturating_sub(read.since_ms) < timing.stall_ms {
            return;
        }
        read.stalled = true;
        let (since_ms, ticks) = (read.since_ms, std::mem::take(&mut read.ticks));
        // Whoever needs the plan first sets it: the reader would, but it hangs.
        self.track.get_or_init(|| TrackPlan::poll(timing.cadence_ms));
        if self.live.stalled_since_boot_ms.is_none() {
            self.live.stalled_since_boot_ms = Some(since_ms);
            self.event(now_ms, EventKind::CollectorStalled, true, out);
        }
        for tick_ms in ticks {
            self.stale(tick_ms, out);
        }
    }

    /// An answer of a reader. What a stalled call says at last is about another time and is not
    /// recorded. Returns why the GPU is gone when that is news.
    pub(super) fn on_reply(
        &mut self,
        now_ms: i64,
        (id, reply): (u64, Result<GpuRead, Gone>),
        out: &mut Effects,
    ) -> Option<Gone> {
        if self.reader != Some(id) {
            return None;
        }
        let read = self.in_flight.take();
        let too_late = read.as_ref().is_some_and(|read| read.stalled);
        self.missed += read.map_or(0, |read| count(read.ticks.len().saturating_sub(1)));
        if let Some(since_ms) = self.live.stalled_since_boot_ms.take() {
            let stalled_ms = now_ms.saturating_sub(since_ms).max(0);
            self.event(now_ms, EventKind::CollectorResumed { stalled_ms }, false, out);
        }
        match reply {
            Ok(read) if !too_late => self.answered(read, out),
            Ok(_) => {}
            Err(gone @ Gone::Lost(code)) => return self.lose(now_ms, code, out).then_some(gone),
            Err(gone @ Gone::NoDriver(_)) => return Some(gone),
        }
        None
    }

    /// The GPU does not answer any more, or is not listed any more. True when that is news.
    pub(super) fn lose(&mut self, now_ms: i64, code: u32, out: &mut Effects) -> bool {
        if self.live.lost {
            return false;
        }
        self.live.lost = true;
        self.live.busy = None;
        self.event(now_ms, EventKind::GpuLost { nvml_code: i64::from(code) }, true, out);
        true
    }

    fn answered(&mut self, mut read: GpuRead, out: &mut Effects) {
        if read.at_boot_ms <= self.last_at_ms {
            self.missed += 1;
            return;
        }
        if std::mem::take(&mut self.live.lost) {
            self.event(read.at_boot_ms, EventKind::GpuBack, true, out);
        }
        for kind in self.changes.observe(&read.readings) {
            let urgent = matches!(kind, EventKind::EccUncorrected { .. });
            self.event(read.at_boot_ms, kind, urgent, out);
        }
        self.fresh = false;
        let readings = self.implausible.readings(std::mem::take(&mut read.readings));
        let points =
            self.implausible.points(std::mem::take(&mut read.points), &mut self.last_point_ms);
        let (at_ms, slices) = (read.at_boot_ms, read.slices.take());
        self.emit(GpuRead { readings, points, ..read }, out);
        if let Some(slices) = slices {
            self.slices.observe(at_ms, (slices, self.cadence_ms), out);
        }
    }

    /// Says of one tick that no answer came. A lost GPU says nothing: its event does.
    fn stale(&mut self, tick_ms: i64, out: &mut Effects) {
        if self.live.lost || tick_ms <= self.last_at_ms {
            return;
        }
        let Some(plan) = self.track.get().copied() else { return };
        let readings = FAST_LANE.iter().map(|metric| (*metric, Reading::Stale)).collect();
        let points = if tick_ms > self.last_point_ms {
            self.last_point_ms = tick_ms;
            vec![(tick_ms, Reading::Stale)]
        } else {
            Vec::new()
        };
        self.emit(GpuRead { at_boot_ms: tick_ms, readings, plan, points, slices: None }, out);
    }

    fn emit(&mut self, read: GpuRead, out: &mut Effects) {
        self.last_at_ms = read.at_boot_ms;
        self.show(&read);
        let TrackPlan { source, period_ms } = read.plan;
        out.observe(Observation::Gpu(GpuObservation {
            uuid: self.gpu.uuid.clone(),
            bus_id: self.gpu.bus_id.clone(),
            partition: None,
            at_boot_ms: read.at_boot_ms,
            readings: read.readings,
            track: TrackObservation { source, period_ms, points: read.points },
        }));
    }

    fn show(&mut self, read: &GpuRead) {
        let live = &mut self.live;
        live.at_boot_ms = Some(read.at_boot_ms);
        if let Some((_, busy)) = read.points.last() {
            live.busy = Some(*busy);
        }
        live.show(&read.readings);
    }

    /// The earliest instant that an observation of this GPU may still come for; `None` when only
    /// future ticks can bring one.
    pub(super) fn owes_from(&self) -> Option<i64> {
        let read = self.in_flight.as_ref().filter(|read| !read.stalled)?;
        read.ticks.first().copied()
    }

    /// An observation of the GPU or of a slice of it found no room on its way to the recorder.
    pub(super) fn count_missed(&mut self, uuid: &GpuUuid) {
        if *uuid == self.gpu.uuid {
            self.missed += 1;
        } else {
            self.slices.count_missed(uuid);
        }
    }

    /// Once a minute: what was missed and dropped since the last time.
    pub(super) fn flush(&mut self, now_ms: i64, out: &mut Effects) {
        let missed = std::mem::take(&mut self.missed);
        if missed > 0 {
            self.event(now_ms, EventKind::TicksMissed { count: missed }, false, out);
        }
        for kind in self.implausible.take() {
            self.event(now_ms, kind, false, out);
        }
        self.slices.flush(now_ms, out);
    }

    /// How many slices the GPU is cut into.
    pub(super) fn slice_count(&self) -> usize {
        self.slices.len()
    }

    /// The GPU is not looked after any more, and so its slices are not.
    pub(super) fn remove_slices(&mut self, now_ms: i64, out: &mut Effects) {
        self.slices.remove_all(now_ms, out);
    }

    /// Latest values of the GPU and of its slices.
    pub(super) fn live_values(&self) -> Vec<LiveGpu> {
        let mut live = vec![self.live.clone()];
        live.extend(self.slices.live(&self.live));
        live
    }

    pub(super) fn event(&self, at_ms: i64, kind: EventKind, urgent: bool, out: &mut Effects) {
        out.event(at_ms, Some(self.uuid().clone()), kind, urgent);
    }

    pub(super) fn uuid(&self) -> &GpuUuid {
        &self.gpu.uuid
    }
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) mod tests;
