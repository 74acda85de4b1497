//! From a device handle to a value: every reading takes this way.

use super::code::{Code, Result};
use super::layout::{Device, Memory, MemoryV2, Utilization};
use crate::physics::card::Card;
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
}

impl Call {
    pub(super) const fn new(group: Group, since: u32) -> Self {
        Self { group, since, slices: false }
    }

    pub(super) const fn with_slices(group: Group, since: u32) -> Self {
        Self { group, since, slices: true }
    }
}

/// A card as one call sees it.
pub(super) struct View<'a> {
    pub(super) session: &'a Session,
    pub(super) card: &'a Card,
    pub(super) slice: Option<u32>,
}

impl View<'_> {
    /// The share of the card that the handle stands for: 1 of so many.
    pub(super) fn shares(&self) -> u32 {
        match (self.slice, self.card.active.mig_instances) {
            (Some(_), Some(instances)) => instances.max(1),
            _ => 1,
        }
    }

    pub(super) fn mig_on(&self) -> bool {
        self.card.active.mig_instances.is_some()
    }
}

/// Values that have an impossible form, for the `garbage` fault.
pub(super) trait Implausible: Sized {
    fn implausible(self) -> Self {
        self
    }
}

impl Implausible for u32 {
    fn implausible(self) -> Self {
        Self::MAX
    }
}

impl Implausible for u64 {
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
    let (value, garbage) =
        look(device, call, |view| Ok((value(view)?, view.card.active.garbage.has(call.group))))?;
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
    if let Some(slice) = target.slice {
        if !call.slices {
            return Err(Code::NOT_SUPPORTED);
        }
        if card.active.mig_instances.is_none_or(|instances| slice >= instances) {
            return Err(Code::INVALID_ARGUMENT);
        }
    }
    value(&View { session: &session, card: &card, slice: target.slice })
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
