//! Opaque handles: numbers dressed as pointers, never followed.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

use super::lock;
use crate::abi::layout::Device;
use crate::physics::mig::{MigCut, MigSlice};

/// First handle of devices; a card's handle and its slices' follow in steps.
const DEVICES: usize = 0x4c57_0000;
/// Handles of one card: itself and up to fifteen MIG slices.
const PER_CARD: usize = 0x100;
const STEP: usize = 0x10;
/// Cuts that handles of slices tell apart.
const CUTS: u32 = 0x10;
/// First handle of other things.
const OTHERS: usize = 0x4c58_0000;

/// What a device handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) slot: usize,
    /// The MIG slice, if the handle is one's: its index, and the cut that it is of.
    pub(crate) slice: Option<(u32, u32)>,
}

impl Target {
    pub(crate) fn card(slot: usize) -> Self {
        Self { slot, slice: None }
    }

    /// A slice of a card in one of its cuts.
    pub(crate) fn slice(slot: usize, index: u32, slice: &MigSlice) -> Self {
        Self { slot, slice: Some((index, slice.cut % CUTS)) }
    }

    /// The index of the slice, if it is one of this cut.
    pub(crate) fn index_in(self, cut: &MigCut) -> Option<u32> {
        let (index, number) = self.slice?;
        cut.at(index).filter(|slice| slice.cut % CUTS == number).map(|_| index)
    }

    pub(super) fn of(device: Device) -> Option<Self> {
        let offset = device.addr().checked_sub(DEVICES)?;
        let (part, cut) = (offset % PER_CARD / STEP, u32::try_from(offset % STEP).ok()?);
        let slot = offset / PER_CARD;
        match u32::try_from(part).ok()?.checked_sub(1) {
            Some(index) => Some(Self { slot, slice: Some((index, cut)) }),
            None => (cut == 0).then_some(Self::card(slot)),
        }
    }

    pub(crate) fn handle(self) -> Device {
        let small = |number: u32| usize::try_from(number).unwrap_or(0);
        let within = self.slice.map_or(0, |(index, cut)| small(index + 1) * STEP + small(cut));
        std::ptr::without_provenance_mut(DEVICES + self.slot * PER_CARD + within)
    }
}

/// Things that the caller creates and frees.
pub(crate) struct HandleTable<T>(Mutex<(usize, HashMap<usize, T>)>);

impl<T> Default for HandleTable<T> {
    fn default() -> Self {
        Self(Mutex::new((OTHERS, HashMap::new())))
    }
}

impl<T> HandleTable<T> {
    pub(crate) fn insert(&self, value: T) -> *mut c_void {
        let (next, entries) = &mut *lock(&self.0);
        *next += STEP;
        entries.insert(*next, value);
        std::ptr::without_provenance_mut(*next)
    }

    pub(crate) fn remove(&self, handle: *mut c_void) -> Option<T> {
        lock(&self.0).1.remove(&handle.addr())
    }

    pub(crate) fn with<R>(&self, handle: *mut c_void, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        lock(&self.0).1.get_mut(&handle.addr()).map(f)
    }

    pub(crate) fn for_each(&self, f: impl FnMut(&mut T)) {
        lock(&self.0).1.values_mut().for_each(f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_name_cards_and_slices_and_nothing_else() {
        for slot in [0, 1, 63] {
            for slice in [None, Some((0, 0)), Some((6, 15))] {
                let target = Target { slot, slice };
                assert_eq!(Target::of(target.handle()), Some(target));
            }
        }
        assert_eq!(Target::of(std::ptr::null_mut()), None);
        assert_eq!(Target::of(std::ptr::without_provenance_mut(DEVICES + 1)), None);
    }
}
