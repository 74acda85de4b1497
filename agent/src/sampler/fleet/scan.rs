//! What a look at NVML's list means: GPUs seen, exchanged, missing, gone, none at all.

use std::collections::BTreeMap;

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::segment::{EventKind, GpuWiring};

use super::super::watch::Watch;
use super::{Effects, Fleet, GPUS_MAX, Nvml, Order, REPEAT_MS, Scan, ScanError};
use crate::source::nvml::{Failure, FoundGpu, GPU_NOT_FOUND, GpuRead, SLICE_PREFIX, Versions};

/// First wait after a failed attempt to open NVML; it doubles up to the time between scans.
const BACKOFF_MS: i64 = 2_000;

impl Fleet {
    /// The result of a scan of one generation. Returns what the driver says about itself when that
    /// is new, so that the host can be described again.
    pub(in crate::sampler) fn on_scan(
        &mut self,
        now_ms: i64,
        (generation, scan): (u64, Result<Scan, ScanError>),
        out: &mut Effects,
    ) -> Option<Versions> {
        self.scanning_since_ms = None;
        if generation != self.generation {
            self.next_scan_ms = now_ms;
            return None;
        }
        self.next_scan_ms = now_ms.saturating_add(self.timing.rescan_ms);
        match scan {
            Ok(scan) => {
                self.available(now_ms, out);
                self.nameless(now_ms, &scan, out);
                let versions = scan.versions.clone();
                self.listed(now_ms, scan, out);
                self.describe(versions)
            }
            Err(error) => {
                self.see_again(now_ms, out);
                self.failed(now_ms, error, out);
                // Once, so that the host is described also where NVML never answers.
                if self.versions.is_none() { self.describe(Versions::default()) } else { None }
            }
        }
    }

    /// How a GPU hangs in its host; told when it is new.
    pub(in crate::sampler) fn on_wiring(
        &mut self,
        now_ms: i64,
        (uuid, wiring): (GpuUuid, GpuWiring),
        out: &mut Effects,
    ) {
        let Some(watch) = self.gpus.get(&uuid) else { return };
        if self.wired.get(&uuid) != Some(&wiring) {
            watch.event(now_ms, EventKind::GpuWired(wiring.clone()), false, out);
            self.wired.retain(|uuid, _| self.gpus.contains_key(uuid));
            self.wired.insert(uuid, wiring);
        }
    }

    fn failed(&mut self, now_ms: i64, error: ScanError, out: &mut Effects) {
        self.backoff_ms = match self.backoff_ms {
            0 => BACKOFF_MS,
            before => before.saturating_mul(2),
        }
        .min(self.timing.rescan_ms);
        self.next_scan_ms = now_ms.saturating_add(self.backoff_ms);
        if error.closed {
            self.reloading |= self.nvml == Nvml::Available;
            self.detach_all(out);
        }
        // While readers answer, a list that does not is no loss of NVML.
        if !self.gpus.values().any(Watch::is_attached) {
            self.unavailable(now_ms, error.code, out);
        }
    }

    fn describe(&mut self, versions: Versions) -> Option<Versions> {
        let is_new = self.versions.as_ref() != Some(&versions);
        is_new.then(|| self.versions.insert(versions).clone())
    }

    fn available(&mut self, now_ms: i64, out: &mut Effects) {
        self.backoff_ms = 0;
        self.nvml = Nvml::Available;
        if std::mem::take(&mut self.reloading) {
            out.event(now_ms, None, EventKind::DriverReloaded, true);
        }
    }

    /// GPUs that NVML counts but that did not tell who they are.
    fn nameless(&mut self, now_ms: i64, scan: &Scan, out: &mut Effects) {
        let silent = self.gpus.values().filter(|watch| watch.is_silent()).count();
        if scan.unanswered > silent {
            self.go_blind(now_ms, now_ms, out);
        } else {
            self.see_again(now_ms, out);
        }
        let is_lost = |failure: &&Failure| matches!(failure, Failure::Lost(_));
        let failed = scan.failures.iter().filter(is_lost).count();
        let named = self.gpus.values().filter(|watch| !lists(scan, watch.uuid())).count();
        let nameless = failed.saturating_sub(named);
        if let Some(Failure::Lost(code)) = scan.failures.iter().find(is_lost)
            && nameless > self.nameless_lost
        {
            out.event(now_ms, None, EventKind::GpuLost { nvml_code: i64::from(*code) }, true);
        }
        self.nameless_lost = nameless;
    }

    fn listed(&mut self, now_ms: i64, scan: Scan, out: &mut Effects) {
        self.replaced(now_ms, &scan, out);
        self.gone(now_ms, &scan, out);
        if scan.gpus.is_empty() && scan.failures.is_empty() && scan.unanswered == 0 {
            self.none_attached(now_ms, out);
        } else {
            self.none_told_ms = None;
        }
        let is_complete = scan.unanswered == 0;
        for gpu in unique(scan.gpus) {
            self.found(now_ms, gpu, out);
        }
        if is_complete {
            self.look_for_known(now_ms, out);
        }
    }

    /// Another GPU answers from a place where one of ours was.
    fn replaced(&mut self, now_ms: i64, scan: &Scan, out: &mut Effects) {
        for found in &scan.gpus {
            let old = self
                .gpus
                .values()
                .find(|watch| watch.gpu.bus_id == found.bus_id && !lists(scan, watch.uuid()));
            let Some(old) = old.map(|watch| watch.uuid().clone()) else { continue };
            exchange(now_ms, (&found.bus_id, &old, &found.uuid), out);
            if let Some(mut watch) = self.gpus.remove(&old) {
                watch.flush(now_ms, out);
                watch.remove_slices(now_ms, out);
                out.order(Order::Detach { uuid: old });
            }
        }
    }

    /// GPUs of ours that NVML does not list any more. While some GPU does not open or answer, a
    /// name that is not listed may be that one's, and its own reader knows better.
    fn gone(&mut self, now_ms: i64, scan: &Scan, out: &mut Effects) {
        if !scan.failures.is_empty() || scan.unanswered > 0 {
            return;
        }
        for watch in self.gpus.values_mut().filter(|watch| !lists(scan, watch.uuid())) {
            watch.lose(now_ms, GPU_NOT_FOUND, out);
            if watch.is_attached() {
                watch.detach();
                out.order(Order::Detach { uuid: watch.uuid().clone() });
            }
        }
    }

    fn none_attached(&mut self, now_ms: i64, out: &mut Effects) {
        let is_news = self.none_told_ms.is_none();
        if self.none_told_ms.is_none_or(|told_ms| now_ms.saturating_sub(told_ms) >= REPEAT_MS) {
            self.none_told_ms = Some(now_ms);
            out.event(now_ms, None, EventKind::NoGpuAttached, is_news);
        }
    }

    fn found(&mut self, now_ms: i64, gpu: FoundGpu, out: &mut Effects) {
        let uuid = gpu.uuid.clone();
        if !self.gpus.contains_key(&uuid) {
            if self.gpus.len() >= GPUS_MAX && !self.forget_a_lost_one(now_ms, out) {
                tracing::warn!(gpu.uuid = %uuid, "more GPUs than a node may have; not read");
                return;
            }
            if let Some(at) = self.missing.iter().position(|missing| *missing == uuid) {
                self.missing.swap_remove(at);
                out.event(now_ms, Some(uuid.clone()), EventKind::GpuBack, false);
            }
            out.event(now_ms, Some(uuid.clone()), EventKind::GpuSeen(gpu.inventory.clone()), false);
            self.gpus.insert(uuid.clone(), Watch::new(gpu.clone(), self.timing.cadence_ms));
        }
        self.readers = self.readers.wrapping_add(1);
        let reader = self.readers;
        let Some(watch) = self.gpus.get_mut(&uuid) else { return };
        if differs(&watch.gpu, &gpu) {
            watch.event(now_ms, EventKind::GpuSeen(gpu.inventory.clone()), false, out);
        }
        watch.live.bus_id = gpu.bus_id.clone();
        watch.gpu = gpu.clone();
        if !watch.is_attached() {
            watch.attach(reader);
            let track = watch.track.clone();
            out.order(Order::Attach { gpu: Box::new(gpu), reader, track });
        }
    }

    /// Makes room where names change without end.
    fn forget_a_lost_one(&mut self, now_ms: i64, out: &mut Effects) -> bool {
        let lost = self.gpus.values().find(|watch| watch.is_lost() && !watch.is_attached());
        let uuid = lost.map(|watch| watch.uuid().clone());
        let forgotten = uuid.and_then(|uuid| self.gpus.remove(&uuid));
        forgotten.map(|mut watch| watch.remove_slices(now_ms, out)).is_some()
    }

    /// Once an epoch: GPUs that the node had before.
    fn look_for_known(&mut self, now_ms: i64, out: &mut Effects) {
        for (bus_id, uuid) in std::mem::take(&mut self.known) {
            if self.gpus.contains_key(&uuid) {
                continue;
            }
            match self.gpus.values().find(|watch| watch.gpu.bus_id == bus_id) {
                Some(watch) => exchange(now_ms, (&bus_id, &uuid, watch.uuid()), out),
                None => {
                    out.event(now_ms, Some(uuid.clone()), EventKind::GpuMissing { bus_id }, true);
                    self.missing.push(uuid);
                }
            }
        }
    }

    /// Slices that the node had before and the GPU in their place has no more are told to be
    /// gone; slices for which a segment has no room are left out.
    pub(super) fn check_slices(
        &mut self,
        now_ms: i64,
        uuid: &GpuUuid,
        read: &mut GpuRead,
        out: &mut Effects,
    ) {
        let (Some(slices), Some(watch)) = (&mut read.slices, self.gpus.get(uuid)) else { return };
        let others: usize = self.gpus.values().map(Watch::slice_count).sum();
        let room = GPUS_MAX.saturating_sub(self.gpus.len() + others - watch.slice_count());
        if slices.len() > room {
            tracing::warn!(gpu.uuid = %uuid, "more slices than a segment holds; some are not read");
            slices.truncate(room);
        }
        let bus_id = &watch.gpu.bus_id;
        let here = |(place, _): &mut (BusId, GpuUuid)| place == bus_id;
        for (_, known) in self.known_slices.extract_if(.., here) {
            if slices.iter().all(|read| read.slice.uuid != known) {
                out.event(now_ms, Some(known), EventKind::PartitionRemoved, false);
            }
        }
    }
}

fn exchange(now_ms: i64, (bus_id, old, new): (&BusId, &GpuUuid, &GpuUuid), out: &mut Effects) {
    let kind =
        EventKind::GpuReplaced { bus_id: bus_id.clone(), old: old.clone(), new: new.clone() };
    out.event(now_ms, Some(old.clone()), kind, true);
}

pub(super) fn names_slice(uuid: &GpuUuid) -> bool {
    uuid.as_str().starts_with(SLICE_PREFIX)
}

fn lists(scan: &Scan, uuid: &GpuUuid) -> bool {
    scan.gpus.iter().any(|gpu| gpu.uuid == *uuid)
}

/// The first of several GPUs that claim one name. The others cannot be told apart, so they are
/// not read.
fn unique(gpus: Vec<FoundGpu>) -> Vec<FoundGpu> {
    let mut by_name: BTreeMap<GpuUuid, FoundGpu> = BTreeMap::new();
    for gpu in gpus {
        if by_name.contains_key(&gpu.uuid) {
            tracing::warn!(gpu.uuid = %gpu.uuid, gpu.index = gpu.index, "uuid claimed twice");
        } else {
            by_name.insert(gpu.uuid.clone(), gpu);
        }
    }
    by_name.into_values().collect()
}

/// True when the inventory is another one. The index follows from the order of the list, and the
/// management limit has an event of its own.
fn differs(before: &FoundGpu, after: &FoundGpu) -> bool {
    let mut comparable = after.inventory.clone();
    comparable.index = before.inventory.index;
    comparable.power_limit_management_mw = before.inventory.power_limit_management_mw;
    comparable != before.inventory
}
