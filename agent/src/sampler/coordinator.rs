//! The thread that ticks: it carries out what the fleet decides and passes on what was seen.
//!
//! It makes no NVML call and waits for no thread, so neither a hung GPU nor a full recorder can
//! hold up a tick.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use leasewatch_core::id::GpuUuid;
use leasewatch_core::segment::{EventKind, WorkDisk};

use super::discovery::Errand;
use super::fleet::{Effects, Fleet, Order};
use super::outbox::Outbox;
use super::reader::ReaderTask;
use super::{Message, SamplerOptions};
use crate::clock;
use crate::observation::{HostObservation, LiveState, Observation};
use crate::source::host;
use crate::source::nvml::{Lane, ReadOptions};

/// The way to one reader. Dropping it ends the reader's threads once they return.
#[derive(Debug)]
struct ReaderHandle {
    id: u64,
    orders: SyncSender<Lane>,
    is_over: Arc<AtomicBool>,
}

impl Drop for ReaderHandle {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The ticking thread's state.
#[derive(Debug)]
pub(super) struct Coordinator {
    options: SamplerOptions,
    fleet: Fleet,
    readers: HashMap<GpuUuid, ReaderHandle>,
    errands: Sender<Errand>,
    outbox: Outbox,
    live: LiveState,
    tick_ms: i64,
    host_at_ms: i64,
    disk: Option<WorkDisk>,
}

impl Coordinator {
    pub(super) fn new(
        options: SamplerOptions,
        errands: Sender<Errand>,
        outbox: Outbox,
        live: LiveState,
    ) -> Self {
        let now_ms = clock::boot_ms();
        let fleet = Fleet::new(options.timing.clone(), options.known.clone(), now_ms);
        Self {
            options,
            fleet,
            readers: HashMap::new(),
            errands,
            outbox,
            live,
            tick_ms: now_ms,
            host_at_ms: i64::MIN,
            disk: None,
        }
    }

    /// Ticks until it is told to stop or nobody listens. Ticks lie on multiples of the cadence on
    /// the boot clock.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        let cadence_ms = i64::from(self.options.timing.cadence_ms.max(1));
        let mut next_ms = (clock::boot_ms().div_euclid(cadence_ms) + 1) * cadence_ms;
        while !self.outbox.is_closed() {
            let mut next = messages.recv_timeout(until(next_ms));
            // Everything that has arrived counts before the tick judges who is late.
            while let Ok(message) = next {
                if matches!(message, Message::Stop) {
                    return self.finish();
                }
                self.take(message);
                next = messages.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            if matches!(next, Err(RecvTimeoutError::Disconnected)) {
                break;
            }
            let now_ms = clock::boot_ms();
            if now_ms >= next_ms {
                let skipped = (now_ms - next_ms).div_euclid(cadence_ms);
                self.tick(next_ms + skipped * cadence_ms, skipped);
                next_ms += (skipped + 1) * cadence_ms;
            }
        }
        self.finish();
    }

    /// What is counted is told, what waits is sent.
    fn finish(mut self) {
        let mut out = Effects::default();
        self.fleet.flush(clock::boot_ms(), &mut out);
        self.carry_out(out);
        self.outbox.tick_end(clock::boot_ms());
    }

    fn tick(&mut self, tick_ms: i64, skipped: i64) {
        self.outbox.tick_end(self.fleet.watermark(self.tick_ms));
        self.tick_ms = tick_ms;
        let mut out = Effects::default();
        self.fleet.on_tick(tick_ms, skipped, &mut out);
        self.carry_out(out);
        self.settle();
        self.show();
    }

    fn take(&mut self, message: Message) {
        let now_ms = clock::boot_ms();
        let mut out = Effects::default();
        match message {
            Message::Reply { uuid, reader, reply } => {
                self.fleet.on_reply(now_ms, &uuid, (reader, reply.map(|read| *read)), &mut out);
            }
            Message::Scan { generation, scan } => {
                if let Some(versions) = self.fleet.on_scan(now_ms, (generation, scan), &mut out) {
                    let seen = host::inventory(&self.options.host_root, &versions);
                    out.event(now_ms, None, EventKind::HostSeen(seen), false);
                }
            }
            Message::Wiring { uuid, wiring } => {
                self.fleet.on_wiring(now_ms, (uuid, *wiring), &mut out);
            }
            Message::Disk(seen) => {
                if self.disk.as_ref() != Some(&seen) {
                    self.disk = Some(seen.clone());
                    out.event(now_ms, None, EventKind::DiskSeen(seen), false);
                }
            }
            Message::Xid { uuid, code } => self.fleet.on_xid(now_ms, &uuid, code, &mut out),
            Message::Host(readings) => {
                let after_last_ms = now_ms.max(self.host_at_ms.saturating_add(1));
                self.host_at_ms = self.outbox.after_watermark(after_last_ms);
                let at_boot_ms = self.host_at_ms;
                self.live.update(|live| {
                    live.host_at_boot_ms = Some(at_boot_ms);
                    live.host.clone_from(&readings);
                });
                out.observe(Observation::Host(HostObservation { at_boot_ms, readings }));
            }
            Message::Stop => {}
        }
        self.carry_out(out);
        self.settle();
        self.show();
    }

    /// Once all GPUs have answered, the tick is over.
    fn settle(&mut self) {
        if self.fleet.is_settled() {
            self.outbox.tick_end(self.tick_ms);
        }
    }

    fn show(&self) {
        let (gpus, nvml_available) = (self.fleet.live(), self.fleet.is_nvml_available());
        self.live.update(|live| {
            live.tick_boot_ms = Some(self.tick_ms);
            live.gpus = gpus;
            live.nvml_available = nvml_available;
        });
    }

    fn carry_out(&mut self, effects: Effects) {
        for observation in effects.observations {
            match observation {
                Observation::Event(event) => self.outbox.event(event),
                Observation::Gpu(gpu) => {
                    let uuid = gpu.uuid.clone();
                    if !self.outbox.send(Observation::Gpu(gpu)) {
                        self.fleet.count_missed(&uuid);
                    }
                }
                Observation::Host(_) | Observation::TickEnd(_) => {
                    // A host read that finds no room is simply not there; the next is soon.
                    self.outbox.send(observation);
                }
            }
        }
        for order in effects.orders {
            self.order(order);
        }
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Read { uuid, reader, lane } => self.read(&uuid, reader, lane),
            Order::Scan => self.errand(Errand::Scan),
            Order::Reinitialise { generation } => self.errand(Errand::Reinitialise { generation }),
            Order::Detach { uuid } => {
                self.readers.remove(&uuid);
            }
            Order::Attach { gpu, reader, track } => {
                let (orders, inbox) = sync_channel(1);
                let is_over = Arc::new(AtomicBool::new(false));
                let handle = ReaderHandle { id: reader, orders, is_over: Arc::clone(&is_over) };
                self.readers.insert(gpu.uuid.clone(), handle);
                let options = ReadOptions {
                    cadence_ms: self.options.timing.cadence_ms,
                    driver_samples: self.options.driver_samples,
                    process_counts: self.options.process_counts,
                };
                let task =
                    ReaderTask { gpu: *gpu, id: reader, track, options, orders: inbox, is_over };
                self.errand(Errand::Attach(Box::new(task)));
            }
        }
    }

    fn read(&mut self, uuid: &GpuUuid, reader: u64, lane: Lane) {
        let handle = self.readers.get(uuid).filter(|handle| handle.id == reader);
        let sent = handle.map(|handle| handle.orders.try_send(lane));
        // A full channel is a reader that has not begun yet: the watchdog counts from this order.
        if matches!(sent, None | Some(Err(TrySendError::Disconnected(_)))) {
            self.readers.remove(uuid);
            self.fleet.on_reader_ended(uuid, reader);
        }
    }

    fn errand(&self, errand: Errand) {
        if self.errands.send(errand).is_err() {
            tracing::error!("the thread that holds NVML has ended");
        }
    }
}

/// Time until an instant of the boot clock. Read anew after each wait, so that neither suspend nor
/// a late wake-up shifts the grid.
fn until(boot_ms: i64) -> Duration {
    let left_ns = boot_ms.saturating_mul(1_000_000).saturating_sub(clock::boot_ns());
    Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0))
}
