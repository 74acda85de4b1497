//! The library between `nvmlInit` and `nvmlShutdown`.
//!
//! One session per process, as in NVML: a second init shares it, the last shutdown ends it, and the
//! next init reads the scenario anew. Each card has a lock of its own, so that a card whose calls
//! hang blocks nobody else.

mod clock;
mod control;
pub(crate) mod events;
mod handle;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::abi::code::{Code, Result};
use crate::physics::board::Board;
use crate::physics::card::{Card, Play};
use crate::physics::identity::Identity;
use crate::physics::totals::{Means, Totals};
use crate::replay::Replay;
use crate::scenario::fault::{Effect, Fault, Group};
use crate::scenario::{Driver, Scenario};
use control::Control;
use events::EventHub;
use handle::HandleTable;

pub(crate) use handle::Target;

/// How often a blocked call looks again.
const RECHECK: Duration = Duration::from_millis(20);

static CURRENT: Mutex<Option<Open>> = Mutex::new(None);

struct Open {
    session: Arc<Session>,
    inits: u32,
}

/// One initialised library.
pub(crate) struct Session {
    pub(crate) driver: Driver,
    clock: clock::Clock,
    cards: Vec<Mutex<Card>>,
    virtualization: Vec<u32>,
    numa_nodes: Vec<u32>,
    /// Card of each NVML index.
    order: Vec<usize>,
    control: Control,
    pub(crate) events: EventHub,
    pub(crate) gpm_samples: HandleTable<Option<GpmSnapshot>>,
    closed: AtomicBool,
}

/// What a GPM sample holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GpmSnapshot {
    pub(crate) slot: usize,
    /// The GPU instance that was looked at; `None` = the whole card.
    pub(crate) instance: Option<GpmInstance>,
    pub(crate) totals: Totals,
    /// What was recorded, where a recording is played.
    pub(crate) activity: Option<RecordedActivity>,
}

/// What was recorded of a card or GPU instance, for the time up to a GPM sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedActivity {
    pub(crate) busy_percent: Result<i64>,
    /// Of SMs, tensor cores and memory.
    pub(crate) permille: [Result<i64>; 3],
}

/// A GPU instance in a GPM sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GpmInstance {
    pub(crate) gpu_instance: u32,
    /// How busy it is; `None` = like the card.
    pub(crate) percent: Option<u32>,
}

impl GpmSnapshot {
    /// Which part of the card it shows.
    pub(crate) fn part(&self) -> Option<u32> {
        self.instance.map(|instance| instance.gpu_instance)
    }

    /// Means between an earlier sample of the same part and this one.
    pub(crate) fn means_since(&self, earlier: &Self) -> Option<Means> {
        let card = self.totals.means_since(&earlier.totals)?;
        let Some(percent) = self.instance.and_then(|instance| instance.percent) else {
            return Some(card);
        };
        let percent = u64::from(percent);
        // The card's transfers have no instance that they belong to.
        let part = Means { busy_permille: percent * 10, tensor_permille: percent * 3, ..card };
        Some(Means { pcie_tx_kib_s: 0, pcie_rx_kib_s: 0, nvlink_kib_s: 0, ..part })
    }
}

/// Begins a session, or shares the one that there is.
pub(crate) fn init() -> Result<()> {
    let mut current = lock(&CURRENT);
    if let Some(open) = current.as_mut() {
        open.inits += 1;
        return Ok(());
    }
    let session = Arc::new(Session::open()?);
    *current = Some(Open { session, inits: 1 });
    Ok(())
}

/// Takes back one init.
pub(crate) fn shutdown() -> Result<()> {
    let mut current = lock(&CURRENT);
    let open = current.as_mut().ok_or(Code::UNINITIALIZED)?;
    open.inits -= 1;
    if open.inits == 0 {
        open.session.closed.store(true, Ordering::Release);
        *current = None;
    }
    Ok(())
}

/// The session, if the library is initialised.
pub(crate) fn current() -> Result<Arc<Session>> {
    lock(&CURRENT).as_ref().map(|open| Arc::clone(&open.session)).ok_or(Code::UNINITIALIZED)
}

impl Session {
    fn open() -> Result<Self> {
        let path = std::env::var_os(crate::SCENARIO_VARIABLE).map(PathBuf::from);
        let scenario = match path.as_deref().map(Scenario::load) {
            Some(Ok(scenario)) => scenario,
            Some(Err(error)) => return Err(refuse(&error)),
            None => return Err(refuse(&format!("{} is not set", crate::SCENARIO_VARIABLE))),
        };
        let clock = clock::Clock::start(&scenario).map_err(|error| refuse(&error))?;
        let control = Control::from_environment(scenario.cards.len());
        control.refresh();
        let held = held_at_init(&scenario, &control, clock.elapsed_s());
        let holds = |effect: &Effect, slot| {
            held.iter().any(|fault| fault.concerns(slot) && fault.effect == *effect)
        };
        let anywhere = |effect: &Effect| held.iter().any(|fault| fault.effect == *effect);
        if anywhere(&Effect::DriverNotLoaded {}) {
            return Err(Code::DRIVER_NOT_LOADED);
        }
        let cards = cards(&scenario, |slot| holds(&Effect::UuidChange {}, slot));
        let recorded = |slot: usize| lock(&cards[slot]).replay_at(clock.elapsed_us());
        if let Some(code) = (0..cards.len()).find_map(|slot| recorded(slot).0) {
            return Err(Code(code));
        }
        let mut order: Vec<usize> = (0..scenario.cards.len())
            .filter(|slot| !holds(&Effect::MissingAfterRestart {}, *slot))
            .filter(|_| !anywhere(&Effect::ZeroDevices {}))
            .filter(|slot| recorded(*slot).1)
            .collect();
        if anywhere(&Effect::IndexReorder {}) {
            order.reverse();
        }
        let driver =
            if anywhere(&Effect::OldDriver {}) { Driver::old() } else { scenario.driver.clone() };
        Ok(Self {
            driver,
            cards,
            virtualization: scenario.cards.iter().map(|plan| plan.facts.virtualization).collect(),
            numa_nodes: numa_nodes(&scenario),
            clock,
            order,
            control,
            events: EventHub::default(),
            gpm_samples: HandleTable::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Fails with "function not found" on drivers before this major version.
    pub(crate) fn require(&self, since: u32) -> Result<()> {
        if self.driver.major < since { Err(Code::FUNCTION_NOT_FOUND) } else { Ok(()) }
    }

    pub(crate) fn device_count(&self) -> usize {
        self.order.len()
    }

    /// The card at an NVML index.
    pub(crate) fn slot_at(&self, index: usize) -> Option<usize> {
        self.order.get(index).copied()
    }

    /// The NVML index of a card.
    pub(crate) fn index_of(&self, slot: usize) -> Option<usize> {
        self.order.iter().position(|at| *at == slot)
    }

    /// The first card that fits, among those that NVML shows.
    pub(crate) fn find(&self, fits: impl Fn(&Card) -> bool) -> Option<usize> {
        self.order.iter().copied().find(|slot| fits(&lock(&self.cards[*slot])))
    }

    pub(crate) fn virtualization(&self, slot: usize) -> u32 {
        self.virtualization.get(slot).copied().unwrap_or(0)
    }

    pub(crate) fn numa_node(&self, slot: usize) -> u32 {
        self.numa_nodes.get(slot).copied().unwrap_or(0)
    }

    /// Checks that a handle names a card, or a MIG slice of one.
    pub(crate) fn resolve(&self, device: crate::abi::layout::Device) -> Result<Target> {
        let target = Target::of(device).ok_or(Code::INVALID_ARGUMENT)?;
        self.index_of(target.slot).map(|_| target).ok_or(Code::INVALID_ARGUMENT)
    }

    /// The card as it is now, for a call of this group: waits while the card hangs, and fails as
    /// the card's faults say.
    pub(crate) fn enter(&self, slot: usize, group: Group) -> Result<MutexGuard<'_, Card>> {
        let entered_us = self.clock.elapsed_us();
        loop {
            let card = self.advanced(slot);
            let waited_us = self.clock.elapsed_us().saturating_sub(entered_us);
            let blocked = card.is_recorded_hanging()
                || match card.active.hang {
                    Some(Some(seconds)) => waited_us < u64::from(seconds) * 1_000_000,
                    Some(None) => true,
                    None => false,
                };
            if !blocked {
                return match card.refusal(group) {
                    Some(code) => Err(Code(code)),
                    None => Ok(card),
                };
            }
            drop(card);
            if self.closed.load(Ordering::Acquire) {
                return Err(Code::UNINITIALIZED);
            }
            std::thread::sleep(RECHECK);
        }
    }

    /// Advances every card, so that events that are due are sent.
    pub(crate) fn advance_all(&self) {
        for slot in &self.order {
            drop(self.advanced(*slot));
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Host time of a moment of the scenario, in microseconds since 1970.
    pub(crate) fn host_time_us(&self, at_us: u64) -> u64 {
        self.clock.host_time_us(at_us)
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.clock.host_time_us(self.clock.elapsed_us())
    }

    fn advanced(&self, slot: usize) -> MutexGuard<'_, Card> {
        let faults = self.control.refresh();
        let mut card = lock(&self.cards[slot]);
        let elapsed_us = self.clock.elapsed_us();
        let ticks = elapsed_us * u64::from(card.ticks_per_second) / 1_000_000;
        let mut events = card.advance(ticks, &faults);
        events.extend(card.advance_replay(elapsed_us));
        self.events.send(slot, &events);
        card
    }
}

/// A lock whose holder panicked is taken over: every call is caught at the border anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cards(scenario: &Scenario, replaced: impl Fn(usize) -> bool) -> Vec<Mutex<Card>> {
    let plans = scenario.cards.iter().enumerate();
    let card = |(slot, plan)| {
        let plan: &crate::scenario::CardPlan = plan;
        let play = Play {
            seed: scenario.seed,
            load: plan.load.clone(),
            memory_used_mib: plan.facts.memory_used_mib,
            faults: scenario.faults.clone(),
            sample_ring: scenario.sample_ring,
            ticks_per_second: scenario.samples_per_second,
        };
        let recording = plan.recording.clone().zip(scenario.replay);
        let replay = recording.map(|(recording, timeline)| Replay::new(recording, timeline));
        let identity = Identity::of(scenario, slot, plan, replaced(slot));
        let mut card = Card::new(slot, identity, Board::of(plan), play);
        card.replay = replay;
        Mutex::new(card)
    };
    plans.map(card).collect()
}

/// As in most servers with two sockets and eight boards.
fn numa_nodes(scenario: &Scenario) -> Vec<u32> {
    let count = scenario.cards.len();
    let upper = |slot: usize| u32::from(count > 4 && slot >= count / 2);
    let plans = scenario.cards.iter().enumerate();
    plans.map(|(slot, plan)| plan.facts.numa_node.unwrap_or_else(|| upper(slot))).collect()
}

fn held_at_init(scenario: &Scenario, control: &Control, second: u64) -> Vec<Fault> {
    let timed = scenario.faults.iter().filter(|fault| fault.holds_at(second)).cloned();
    timed.chain(control.refresh().faults.iter().cloned()).collect()
}

fn refuse(error: &impl std::fmt::Display) -> Code {
    eprintln!("nvml-sim: {error}");
    Code::UNKNOWN
}
