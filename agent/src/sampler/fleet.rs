//! All GPUs of the node: which there are, which came, went and were exchanged, whether NVML answers.
//!
//! Pure: it takes ticks, answers and scans with the time they happened at, and leaves observations
//! and orders in [`Effects`]. The threads that carry the orders out are in `coordinator`,
//! `discovery` and `reader`.

mod scan;

use std::collections::BTreeMap;

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::segment::{EventKind, GpuWiring};

use super::watch::Watch;
use crate::observation::{EventObservation, LiveGpu, Observation};
use crate::source::nvml::{Failure, FoundGpu, Gone, GpuRead, Lane, TrackSlot, Versions};

/// GPUs that one node may have; a segment holds no more.
const GPUS_MAX: usize = leasewatch_core::segment::limits::GPUS;
/// States that last are told again this often, so that each segment of the time shows them.
const REPEAT_MS: i64 = 60_000;

/// A driver that was lost longer ago than this counts as calm.
const CALM_MS: i64 = 300_000;
/// First wait before NVML is opened anew for a lost GPU; it doubles.
const LOST_RETRY_MS: i64 = 120_000;
/// The longest such wait.
const LOST_RETRY_MAX_MS: i64 = 3_600_000;

/// How often things happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// Time between ticks.
    pub cadence_ms: u32,
    /// Every how many ticks the slow lane and the host are read.
    pub slow_every_ticks: u32,
    /// Time between looks at which GPUs there are.
    pub rescan_ms: i64,
    /// A read that takes longer is given up.
    pub stall_ms: i64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { cadence_ms: 1_000, slow_every_ticks: 15, rescan_ms: 30_000, stall_ms: 5_000 }
    }
}

/// What a thread is to do.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// The reader of this number reads a lane.
    Read { uuid: GpuUuid, reader: u64, lane: Lane },
    /// Look which GPUs there are; open NVML first if it is not open.
    Scan,
    /// Start a reader of this number.
    Attach { gpu: Box<FoundGpu>, reader: u64, track: TrackSlot },
    /// No answer of this GPU's reader counts any more.
    Detach { uuid: GpuUuid },
    /// Close NVML; the next scan opens it anew and is of this generation.
    Reinitialise { generation: u64 },
}

/// What follows from an input.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) observations: Vec<Observation>,
    pub(super) orders: Vec<Order>,
}

impl Effects {
    pub(super) fn observe(&mut self, observation: Observation) {
        self.observations.push(observation);
    }

    pub(super) fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    pub(super) fn event(
        &mut self,
        at_boot_ms: i64,
        gpu: Option<GpuUuid>,
        kind: EventKind,
        urgent: bool,
    ) {
        self.observe(Observation::Event(EventObservation { at_boot_ms, gpu, kind, urgent }));
    }
}

/// What one look at NVML found.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    /// GPUs that told their names.
    pub(super) gpus: Vec<FoundGpu>,
    /// Why others did not open.
    pub(super) failures: Vec<Failure>,
    /// Others that have not answered at all.
    pub(super) unanswered: usize,
    /// What the driver says about itself.
    pub(super) versions: Versions,
}

/// Why a look at NVML found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScanError {
    /// NVML's code.
    pub(super) code: u32,
    /// True when NVML is not open (any more), so that no reader can answer either.
    pub(super) closed: bool,
}

/// Whether NVML answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nvml {
    /// Not asked yet.
    Unknown,
    Available,
    /// Since when it was last told, with which code.
    Unavailable {
        code: u32,
        told_ms: i64,
    },
}

/// The GPUs of the node.
#[derive(Debug)]
pub(super) struct Fleet {
    timing: Timing,
    /// GPUs of an earlier epoch that have not been looked for yet.
    known: Vec<(BusId, GpuUuid)>,
    /// Those of them that were not there.
    missing: Vec<GpuUuid>,
    /// Slices of an earlier epoch, by their place, until the GPU there says which it has.
    known_slices: Vec<(BusId, GpuUuid)>,
    gpus: BTreeMap<GpuUuid, Watch>,
    /// What was told of how they hang in the host.
    wired: BTreeMap<GpuUuid, GpuWiring>,
    nvml: Nvml,
    /// The driver was lost and has not come back yet.
    reloading: bool,
    /// When the driver was last lost, and how long to wait before it is opened again if that
    /// happens once more soon.
    driver_lost_ms: Option<i64>,
    reopen_wait_ms: i64,
    /// Grows with each loss of the driver; scans of an older one are void.
    generation: u64,
    versions: Option<Versions>,
    scanning_since_ms: Option<i64>,
    next_scan_ms: i64,
    backoff_ms: i64,
    /// Since when NVML or a GPU without a name has not answered.
    blind_since_ms: Option<i64>,
    /// GPUs that are lost and never told their names.
    nameless_lost: usize,
    none_told_ms: Option<i64>,
    /// When NVML is opened anew to look for lost GPUs, and how long to wait the next time.
    lost_retry: Option<(i64, i64)>,
    flushed_ms: i64,
    readers: u64,
    skipped: i64,
}

impl Fleet {
    pub(super) fn new(timing: Timing, known: Vec<(BusId, GpuUuid)>, now_ms: i64) -> Self {
        let (known_slices, known) =
            known.into_iter().partition(|(_, uuid)| scan::names_slice(uuid));
        Self {
            timing,
            known,
            missing: Vec::new(),
            known_slices,
            gpus: BTreeMap::new(),
            wired: BTreeMap::new(),
            nvml: Nvml::Unknown,
            reloading: false,
            driver_lost_ms: None,
            reopen_wait_ms: 0,
            generation: 0,
            versions: None,
            scanning_since_ms: None,
            next_scan_ms: now_ms,
            backoff_ms: 0,
            blind_since_ms: None,
            nameless_lost: 0,
            none_told_ms: None,
            lost_retry: None,
            flushed_ms: now_ms,
            readers: 0,
            skipped: 0,
        }
    }

    /// A tick of the grid. `skipped` ticks before it were not taken at all.
    pub(super) fn on_tick(&mut self, tick_ms: i64, skipped: i64, out: &mut Effects) {
        self.skipped = self.skipped.saturating_add(skipped);
        self.check(tick_ms, out);
        self.look_for_lost(tick_ms, out);
        let tick_no = tick_ms.div_euclid(i64::from(self.timing.cadence_ms.max(1)));
        let every = i64::from(self.timing.slow_every_ticks.max(1));
        for (phase, watch) in (0_i64..).zip(self.gpus.values_mut()) {
            watch.on_tick(tick_ms, (tick_no + phase).rem_euclid(every) == 0, out);
        }
        if self.scanning_since_ms.is_none() && tick_ms >= self.next_scan_ms {
            self.order_scan(tick_ms, out);
        }
        if tick_ms.saturating_sub(self.flushed_ms) >= REPEAT_MS {
            self.flush(tick_ms, out);
        }
    }

    /// The watchdog.
    fn check(&mut self, now_ms: i64, out: &mut Effects) {
        for watch in self.gpus.values_mut() {
            watch.check(now_ms, &self.timing, out);
        }
        // A scan waits for its GPUs as long as the watchdog does; only NVML itself takes longer.
        let patience_ms = self.timing.stall_ms.saturating_mul(2);
        if let Some(since_ms) = self.scanning_since_ms
            && now_ms.saturating_sub(since_ms) >= patience_ms
        {
            self.go_blind(since_ms, now_ms, out);
        }
    }

    /// An answer of a reader.
    pub(super) fn on_reply(
        &mut self,
        now_ms: i64,
        uuid: &GpuUuid,
        (reader, mut reply): (u64, Result<GpuRead, Gone>),
        out: &mut Effects,
    ) {
        if let Ok(read) = &mut reply {
            self.check_slices(now_ms, uuid, read, out);
        }
        let Some(watch) = self.gpus.get_mut(uuid) else { return };
        match watch.on_reply(now_ms, (reader, reply), out) {
            Some(Gone::NoDriver(code)) => self.driver_lost(now_ms, code, out),
            Some(Gone::Lost(_)) => self.order_scan(now_ms, out),
            None => {}
        }
    }

    /// A reader could not be started or has ended; the next scan starts another.
    pub(super) fn on_reader_ended(&mut self, uuid: &GpuUuid, reader: u64) {
        if let Some(watch) = self.gpus.get_mut(uuid).filter(|watch| watch.has_reader(reader)) {
            watch.detach();
        }
    }

    /// An XID of a GPU that is watched.
    pub(super) fn on_xid(&self, now_ms: i64, uuid: &GpuUuid, code: i64, out: &mut Effects) {
        if let Some(watch) = self.gpus.get(uuid) {
            watch.event(now_ms, EventKind::Xid { code }, true, out);
        }
    }

    /// Every observation at or before this instant has been left in an [`Effects`] by now.
    /// `tick_ms` is the last tick.
    pub(super) fn watermark(&self, tick_ms: i64) -> i64 {
        let owed = self.gpus.values().filter_map(Watch::owes_from).min();
        owed.map_or(tick_ms, |owed| owed.saturating_sub(1).min(tick_ms))
    }

    /// True when no answer is awaited that could still come in time.
    pub(super) fn is_settled(&self) -> bool {
        self.gpus.values().all(|watch| watch.owes_from().is_none())
    }

    pub(super) fn count_missed(&mut self, uuid: &GpuUuid) {
        self.gpus.values_mut().for_each(|watch| watch.count_missed(uuid));
    }

    /// Latest values, ascending by bus id, slices behind their GPU.
    pub(super) fn live(&self) -> Vec<LiveGpu> {
        let mut gpus: Vec<_> = self.gpus.values().flat_map(Watch::live_values).collect();
        gpus.sort_by(|a, b| (&a.bus_id, a.is_slice).cmp(&(&b.bus_id, b.is_slice)));
        gpus
    }

    pub(super) fn is_nvml_available(&self) -> bool {
        self.nvml == Nvml::Available
    }

    /// The driver went away under a reader: everybody stops, NVML is opened anew.
    fn driver_lost(&mut self, now_ms: i64, code: u32, out: &mut Effects) {
        if self.reloading {
            return;
        }
        self.reloading = true;
        self.generation = self.generation.wrapping_add(1);
        self.detach_all(out);
        self.unavailable(now_ms, code, out);
        out.order(Order::Reinitialise { generation: self.generation });
        // A driver that opens and fails at the first read must not be opened at each tick.
        let before_ms = self.driver_lost_ms.replace(now_ms);
        let again = before_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < CALM_MS);
        self.reopen_wait_ms = match (again, self.reopen_wait_ms) {
            (false, _) => 0,
            (true, 0) => self.timing.rescan_ms / 8,
            (true, before) => before.saturating_mul(2).min(self.timing.rescan_ms),
        };
        if again {
            self.next_scan_ms = now_ms.saturating_add(self.reopen_wait_ms);
        } else {
            self.order_scan(now_ms, out);
        }
    }

    /// A GPU that was reset or plugged in again may need a new session to be seen. That stops all
    /// readers for a moment, so it is done ever more rarely, and never while a call hangs: a hung
    /// call would hold the old session and keep everybody waiting.
    fn look_for_lost(&mut self, now_ms: i64, out: &mut Effects) {
        let is_lost = self.gpus.values().any(Watch::is_lost);
        let (due_ms, wait_ms) = match self.lost_retry {
            _ if !is_lost || self.nvml != Nvml::Available => {
                self.lost_retry = None;
                return;
            }
            None => (now_ms.saturating_add(LOST_RETRY_MS), LOST_RETRY_MS),
            Some(planned) => planned,
        };
        self.lost_retry = Some((due_ms, wait_ms));
        let is_quiet =
            self.scanning_since_ms.is_none() && self.gpus.values().all(|watch| !watch.is_silent());
        if now_ms >= due_ms && is_quiet {
            let wait_ms = wait_ms.saturating_mul(2).min(LOST_RETRY_MAX_MS);
            self.lost_retry = Some((now_ms.saturating_add(wait_ms), wait_ms));
            self.generation = self.generation.wrapping_add(1);
            self.detach_all(out);
            out.order(Order::Reinitialise { generation: self.generation });
            self.order_scan(now_ms, out);
        }
    }

    fn detach_all(&mut self, out: &mut Effects) {
        for watch in self.gpus.values_mut().filter(|watch| watch.is_attached()) {
            watch.detach();
            out.order(Order::Detach { uuid: watch.uuid().clone() });
        }
    }

    fn order_scan(&mut self, now_ms: i64, out: &mut Effects) {
        self.next_scan_ms = now_ms.saturating_add(self.timing.rescan_ms);
        if self.scanning_since_ms.is_none() {
            self.scanning_since_ms = Some(now_ms);
            out.order(Order::Scan);
        }
    }

    fn unavailable(&mut self, now_ms: i64, code: u32, out: &mut Effects) {
        let (is_news, is_due) = match self.nvml {
            Nvml::Unavailable { code: before, told_ms } => {
                (before != code, now_ms.saturating_sub(told_ms) >= REPEAT_MS)
            }
            Nvml::Unknown | Nvml::Available => (true, true),
        };
        if is_news || is_due {
            self.nvml = Nvml::Unavailable { code, told_ms: now_ms };
            let kind = EventKind::NvmlUnavailable { nvml_code: i64::from(code) };
            out.event(now_ms, None, kind, is_news);
        }
    }

    fn go_blind(&mut self, since_ms: i64, now_ms: i64, out: &mut Effects) {
        if self.blind_since_ms.is_none() {
            self.blind_since_ms = Some(since_ms);
            out.event(now_ms, None, EventKind::CollectorStalled, true);
        }
    }

    fn see_again(&mut self, now_ms: i64, out: &mut Effects) {
        if let Some(since_ms) = self.blind_since_ms.take() {
            let stalled_ms = now_ms.saturating_sub(since_ms).max(0);
            out.event(now_ms, None, EventKind::CollectorResumed { stalled_ms }, false);
        }
    }

    /// Once a minute, and at the end: counts since the last time.
    pub(super) fn flush(&mut self, now_ms: i64, out: &mut Effects) {
        self.flushed_ms = now_ms;
        let skipped = std::mem::take(&mut self.skipped);
        if skipped > 0 {
            out.event(now_ms, None, EventKind::TicksMissed { count: skipped }, false);
        }
        for watch in self.gpus.values_mut() {
            watch.flush(now_ms, out);
        }
    }
}

#[cfg(test)]
mod tests;
