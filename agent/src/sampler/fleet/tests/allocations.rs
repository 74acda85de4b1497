//! How often the heap is asked for memory by the ticks of eight GPUs, from the order to read to the
//! closed segment: a number that does not depend on the machine, and that grows when something is
//! kept or copied that was not before. The calls into NVML have theirs in `tests/sampler`.

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::TrackSource;
use leasewatch_core::time::Timestamp;
use tokio::sync::mpsc::{Receiver, channel};

use super::super::{Effects, Fleet, Order, Timing};
use super::{gpu, scan};
use crate::clock::{Anchor, Instant};
use crate::observation::{CHANNEL_CAPACITY, LiveState, Observation};
use crate::recorder::Gathering;
use crate::sampler::outbox::Outbox;
use crate::source::nvml::{FAST_LANE, FoundGpu, GpuRead, Lane, TrackPlan};

const GPUS: u32 = 8;
const TICKS: i64 = 60;
/// Measured: 23,955 in each minute, the closed segment included, which is 399 a tick. More than half
/// of them show the latest values of all GPUs, nine times a tick.
const MINUTE_MAX: u64 = 26_400;
/// Measured: 169,648, the open segment of a minute and the blocks that are made of it.
const MINUTE_BYTES_MAX: u64 = 187_000;

/// What the agent's threads do between two ticks, but for the calls into NVML and the disk.
struct Line {
    fleet: Fleet,
    outbox: Outbox,
    observations: Receiver<Observation>,
    live: LiveState,
    gathering: Gathering,
    anchor: Anchor,
    segments: u64,
}

impl Line {
    fn new() -> Self {
        let fleet = Fleet::new(Timing::default(), Vec::new(), 0);
        let (to, observations) = channel(CHANNEL_CAPACITY);
        let anchor = Anchor::at(Instant { boot_ms: 0, wall: Timestamp(1_800_000_000_000) });
        let mut line = Self {
            fleet,
            outbox: Outbox::new(to),
            observations,
            live: LiveState::default(),
            gathering: Gathering::new(anchor, 0),
            anchor,
            segments: 0,
        };
        line.look(500, &mut Effects::default());
        line
    }

    /// A look at which GPUs there are, each half minute.
    fn look(&mut self, now_ms: i64, out: &mut Effects) {
        let gpus: Vec<FoundGpu> = (1..=GPUS).map(gpu).collect();
        let generation = self.fleet.generation;
        self.fleet.on_scan(now_ms, (generation, Ok(scan(&gpus))), out);
    }

    fn tick(&mut self, tick_ms: i64) {
        let mut out = Effects::default();
        self.fleet.on_tick(tick_ms, 0, &mut out);
        let orders = self.carry_out(out);
        self.show(tick_ms);
        for order in orders {
            let mut out = Effects::default();
            match order {
                Order::Read { uuid, reader, lane } => {
                    let read = Box::new(read(tick_ms + 2, lane));
                    self.fleet.on_reply(tick_ms + 4, &uuid, (reader, Ok(*read)), &mut out);
                }
                _ => self.look(tick_ms, &mut out),
            }
            self.carry_out(out);
            self.show(tick_ms);
        }
        self.outbox.tick_end(self.fleet.watermark(tick_ms));
        self.record();
    }

    /// As the coordinator does.
    fn carry_out(&mut self, effects: Effects) -> Vec<Order> {
        for observation in effects.observations {
            match observation {
                Observation::Event(event) => self.outbox.event(event),
                other => assert!(self.outbox.send(other)),
            }
        }
        effects.orders
    }

    fn show(&self, tick_ms: i64) {
        let gpus = self.fleet.live();
        self.live.update(|live| {
            live.tick_boot_ms = Some(tick_ms);
            live.gpus = gpus;
        });
    }

    /// As the recorder does, but for sealing.
    fn record(&mut self) {
        while let Ok(observation) = self.observations.try_recv() {
            let Observation::TickEnd(watermark) = observation else {
                self.gathering.on_observation(observation);
                continue;
            };
            while let Some(cut) = self.gathering.due(watermark) {
                let content = self.gathering.close(cut, self.anchor);
                let blocks = content.map(|content| content.blocks(self.anchor));
                self.segments += u64::from(blocks.is_some_and(|blocks| !blocks.is_empty()));
            }
        }
    }
}

/// What a reader hands over: six samples of the driver, and the slow lane every now and then.
fn read(at_boot_ms: i64, lane: Lane) -> GpuRead {
    let mut readings = Vec::with_capacity(48);
    readings.extend(FAST_LANE.map(|metric| (metric, Reading::Number(at_boot_ms % 97))));
    if lane == Lane::Slow {
        readings.push((Metric::Energy, Reading::Number(at_boot_ms)));
        readings.sort_unstable_by_key(|(metric, _)| metric.code());
    }
    let point = |n: i64| (at_boot_ms - (6 - n) * 160, Reading::Number((at_boot_ms / 7 + n) % 101));
    GpuRead {
        at_boot_ms,
        readings,
        plan: TrackPlan { source: TrackSource::DriverSamples, period_ms: 167 },
        points: (1..=6).map(point).collect(),
        slices: Some(Vec::new()),
    }
}

#[test]
fn a_minute_of_ticks_asks_for_the_same_memory_as_the_one_before_and_keeps_none() {
    let mut line = Line::new();
    let mut minute = |number: i64| {
        allocation_counter::measure(|| {
            for tick in 0..TICKS {
                line.tick((number * TICKS + tick) * 1_000);
            }
        })
    };
    // The first ones have the first sights, and buffers that reach their size.
    let counts: Vec<_> = (1..=6).map(&mut minute).skip(3).collect();
    eprintln!("{counts:#?}");
    assert_eq!(line.segments, 5, "one for each minute that is over");
    for count in &counts {
        assert_eq!(count.count_total, counts[0].count_total);
        assert_eq!((count.count_current, count.bytes_current), (0, 0), "nothing is kept");
        assert!(count.count_total <= MINUTE_MAX, "{count:?}");
        assert!(count.bytes_max <= MINUTE_BYTES_MAX, "{count:?}");
    }
}
