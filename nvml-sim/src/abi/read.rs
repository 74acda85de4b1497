//! From a device handle to a value: every reading takes this way.

use super::code::{Code, Result};
use super::layout::{Device, Memory, MemoryV2, Utilization};
use leasewatch_core::sample::Metric;

use crate::physics::card::Card;
use crate::physics::mig::MigSlice;
use crate::replay::Recording;
use crate::scenario::fault::Group;
use crate::state::{self, Session};

/// What a call is about, for faults and old drivers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) group: Group,
    /// The first driver branch with this function.
    pub(super) since: u32,
    /// Whether a MIG slice can be asked as well.
    pub(super) slices: bool,
    played: Played,
}

/// Where a card that plays a recording has the answer from.
#[derive(Debug, Clone, Copy)]
enum Played {
    /// It was not recorded: "not supported", never a value of the simulation.
    Nowhere,
    /// The readings of a metric.
    Metric(Metric),
    /// The call knows.
    ByCall,
}

impl Call {
    pub(super) const fn new(group: Group, since: u32) -> Self {
        Self { group, since, slices: false, played: Played::Nowhere }
    }

    pub(super) const fn with_slices(group: Group, since: u32) -> Self {
        Self { group, since, slices: true, played: Played::Nowhere }
    }

    /// The reading of this metric on a card that plays a recording.
    pub(super) const fn of(self, metric: Metric) -> Self {
        Self { played: Played::Metric(metric), ..self }
    }

    /// The closure of the call asks the recording itself.
    pub(super) const fn by_call(self) -> Self {
        Self { played: Played::ByCall, ..self }
    }
}

/// A card as one call sees it.
pub(super) struct View<'a> {
    pub(super) session: &'a Session,
    pub(super) card: &'a Card,
    /// NVML's index of the slice, and the slice.
    pub(super) slice: Option<(u32, MigSlice)>,
}

impl View<'_> {
    /// Bytes or MiB of the card's memory that the handle stands for.
    pub(super) fn share_of(&self, memory: u64) -> u64 {
        self.slice.map_or(memory, |(_, slice)| {
            let (parts, of) = slice.memory;
            memory * u64::from(parts) / u64::from(of.max(1))
        })
    }

    /// What a played card had recorded of a metric; `None` for a card that is simulated.
    pub(super) fn recorded(&self, metric: Metric) -> Option<Result<i64>> {
        let (recording, at_ms) = self.recording()?;
        Some(recording.reading(metric, at_ms).map_err(Code))
    }

    /// What is played of the card, or of the slice that was asked, and the instant of it.
    pub(super) fn recording(&self) -> Option<(&Recording, i64)> {
        let replay = self.card.replay.as_ref()?;
        let played = self.slice.and_then(|(_, slice)| replay.recording.slice(&slice));
        Some((played.map_or(&*replay.recording, |slice| &slice.recording), replay.at_ms()))
    }

    /// The same in the type of a call.
    pub(super) fn recorded_as<T: TryFrom<i64>>(&self, metric: Metric) -> Option<Result<T>> {
        let fitted = |number: i64| T::try_from(number).map_err(|_| Code::UNKNOWN);
        self.recorded(metric).map(|reading| reading.and_then(fitted))
    }

    pub(super) fn mig_on(&self) -> bool {
        self.card.cut().is_some()
    }
}

/// Values that have an impossible form, for the `garbage` fault.
pub(super) trait Implausible: Sized {
    /// A recorded number in this type; `None` for types that are no numbers.
    fn recorded(_number: i64) -> Option<Self> {
        None
    }

    fn implausible(self) -> Self {
        self
    }
}

impl Implausible for u32 {
    fn recorded(number: i64) -> Option<Self> {
        Self::try_from(number).ok()
    }

    fn implausible(self) -> Self {
        Self::MAX
    }
}

impl Implausible for u64 {
    fn recorded(number: i64) -> Option<Self> {
        Self::try_from(number).ok()
    }

    fn implausible(self) -> Self {
        Self::MAX
    }
}

impl Implausible for Utilization {
    fn implausible(self) -> Self {
        Self { gpu: u32::MAX, memory: u32::MAX }
    }
}

impl Implausible for Memory {
    fn implausible(self) -> Self {
        Self { used: u64::MAX, ..self }
    }
}

impl Implausible for MemoryV2 {
    fn implausible(self) -> Self {
        Self { used: u64::MAX, ..self }
    }
}

impl Implausible for String {}
impl<T> Implausible for Vec<T> {}
impl<A, B> Implausible for (A, B) {}

/// Reads one value of a device.
pub(super) fn read<T: Implausible>(
    device: Device,
    call: Call,
    value: impl FnOnce(&View<'_>) -> Result<T>,
) -> Result<T> {
    let (value, garbage) = look(device, call, |view| {
        let recorded = match call.played {
            Played::Metric(metric) => view.recorded(metric),
            Played::Nowhere | Played::ByCall => None,
        };
        let value = match recorded {
            Some(reading) => T::recorded(reading?).ok_or(Code::UNKNOWN)?,
            None => value(view)?,
        };
        Ok((value, view.card.active.garbage.has(call.group)))
    })?;
    Ok(if garbage { value.implausible() } else { value })
}

/// Looks at a device without distorting what is found.
pub(super) fn look<T>(
    device: Device,
    call: Call,
    value: impl FnOnce(&View<'_>) -> Result<T>,
) -> Result<T> {
    let session = state::current()?;
    session.require(call.since)?;
    let target = session.resolve(device)?;
    let card = session.enter(target.slot, call.group)?;
    if card.replay.is_some() && matches!(call.played, Played::Nowhere) {
        return Err(Code::NOT_SUPPORTED);
    }
    let mut slice = None;
    if target.slice.is_some() {
        if !call.slices {
            return Err(Code::NOT_SUPPORTED);
        }
        let cut = card.cut().ok_or(Code::INVALID_ARGUMENT)?;
        let index = target.index_in(&cut).ok_or(Code::INVALID_ARGUMENT)?;
        slice = cut.at(index).map(|slice| (index, *slice));
    }
    value(&View { session: &session, card: &card, slice })
}

/// `value` where the hardware has it.
pub(super) fn supported<T>(has: bool, value: T) -> Result<T> {
    if has { Ok(value) } else { Err(Code::NOT_SUPPORTED) }
}

/// Exports functions of the form `(device, out)`.
macro_rules! getters {
    ($($(#[$doc:meta])* $symbol:ident: $kind:ty = $call:expr, $value:expr;)+) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C" fn $symbol(
            device: $crate::abi::layout::Device,
            out: *mut $kind,
        ) -> u32 {
            $crate::abi::guard::guard(|| {
                let value: $kind = $crate::abi::read::read(device, $call, $value)?;
                // SAFETY: the caller passes null or a place for one value, as NVML demands.
                unsafe { $crate::abi::guard::put(out, value) }
            })
        }
    )+};
}

/// Exports functions of the form `(device, text, length)`.
macro_rules! text_getters {
    ($($(#[$doc:meta])* $symbol:ident = $call:expr, $value:expr;)+) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C" fn $symbol(
            device: $crate::abi::layout::Device,
            out: *mut std::ffi::c_char,
            length: u32,
        ) -> u32 {
            $crate::abi::guard::guard(|| {
                let value: String = $crate::abi::read::read(device, $call, $value)?;
                // SAFETY: the caller passes null or `length` bytes, as NVML demands.
                unsafe { $crate::abi::guard::put_text(out, length, &value) }
            })
        }
    )+};
}

pub(super) use {getters, text_getters};
