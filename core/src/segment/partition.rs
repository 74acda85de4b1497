//! Slices of a GPU in MIG mode: what a slice is, and which place it takes.
//!
//! A slice is named like a GPU, by a UUID, and sits in a place of its own: the bus id of its parent
//! and the two instances that it is made of. Not here: whether it is measured (`metering`), and who
//! cuts GPUs.

use crate::evidence::statement::{Fields, StatementBuilder, StatementError};
use crate::id::{BusId, GpuUuid};

/// A compute instance of a GPU instance, NVML's words for what a slice is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigInstance {
    /// NVML's id of the GPU instance: a part of the SMs and of the memory.
    pub gpu_instance: u8,
    /// NVML's id of the compute instance within it.
    pub compute_instance: u8,
}

/// What a slice is a part of. Its share of the parent is `slices / slices_of`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The GPU that was cut; never the slice itself.
    pub parent: GpuUuid,
    /// Which part of it.
    pub instance: MigInstance,
    /// Compute slices of this part, 1 to `slices_of`.
    pub slices: u8,
    /// Compute slices that the whole GPU can be cut into.
    pub slices_of: u8,
}

/// What a slot stands for: the place of a whole GPU, or of one slice of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The PCI bus id, a slice's being that of its parent.
    pub bus_id: BusId,
    /// The instance of a slice; `None` for a whole GPU.
    pub instance: Option<MigInstance>,
}

impl Place {
    /// The place of whatever sits at `bus_id`: a whole GPU, or this slice of one.
    #[must_use]
    pub fn of(bus_id: &BusId, partition: Option<&Partition>) -> Self {
        Self { bus_id: bus_id.clone(), instance: partition.map(|partition| partition.instance) }
    }
}

/// Who sits where: what of a GPU or slice must fit the others of its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat<'a> {
    /// The GPU or slice.
    pub uuid: &'a GpuUuid,
    /// Its bus id.
    pub bus_id: &'a BusId,
    /// What it is a slice of.
    pub partition: Option<&'a Partition>,
}

/// Why two seats cannot be in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatClash {
    /// Both are one place.
    SamePlace,
    /// A slice whose parent is said to be elsewhere, or a slice itself, or another GPU.
    Parent,
}

impl Seat<'_> {
    /// Whether two different GPUs or slices of one segment contradict each other. A slice may stand
    /// without its parent; where the parent is there too, it is a whole GPU at the same bus id.
    #[must_use]
    pub fn clash(self, other: Seat<'_>) -> Option<SeatClash> {
        let instance = |seat: Seat<'_>| seat.partition.map(|partition| partition.instance);
        if self.bus_id == other.bus_id && instance(self) == instance(other) {
            return Some(SeatClash::SamePlace);
        }
        let misfits = self.is_no_parent_of(other) || other.is_no_parent_of(self);
        misfits.then_some(SeatClash::Parent)
    }

    /// True when `self` is named as the slice's parent, or sits at its bus id as a whole GPU, and
    /// not both.
    fn is_no_parent_of(self, slice: Seat<'_>) -> bool {
        let Some(partition) = slice.partition else { return false };
        let is_named = partition.parent == *self.uuid;
        let is_under_it = self.partition.is_none() && self.bus_id == slice.bus_id;
        is_named != is_under_it
    }
}

impl Partition {
    /// The share and the instances as fields of an event or statement.
    pub(crate) fn to_fields(&self) -> StatementBuilder {
        StatementBuilder::object_of()
            .id("parent", &self.parent)
            .int("gpu_instance", self.instance.gpu_instance)
            .int("compute_instance", self.instance.compute_instance)
            .int("slices", self.slices)
            .int("slices_of", self.slices_of)
    }

    /// Reads the fields back, for the slice `uuid`.
    pub(crate) fn from_fields(mut fields: Fields, uuid: &GpuUuid) -> Result<Self, StatementError> {
        let partition = Self {
            parent: fields.id("parent")?,
            instance: MigInstance {
                gpu_instance: fields.unsigned("gpu_instance")?,
                compute_instance: fields.unsigned("compute_instance")?,
            },
            slices: fields.unsigned("slices")?,
            slices_of: fields.unsigned("slices_of")?,
        };
        fields.finish()?;
        match partition.fault(uuid) {
            None => Ok(partition),
            Some(field) => Err(StatementError::Invalid { field }),
        }
    }

    /// The field that makes this no slice named `uuid`, if there is one.
    pub(crate) fn fault(&self, uuid: &GpuUuid) -> Option<&'static str> {
        if self.parent == *uuid {
            return Some("parent");
        }
        (!(1..=self.slices_of).contains(&self.slices)).then_some("slices")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(parent: &str, compute_instance: u8) -> Partition {
        Partition {
            parent: GpuUuid::new(parent).unwrap(),
            instance: MigInstance { gpu_instance: 9, compute_instance },
            slices: 1,
            slices_of: 7,
        }
    }

    fn clash(
        (uuid, bus_id, partition): (&str, &str, Option<&Partition>),
        (other, other_bus, other_partition): (&str, &str, Option<&Partition>),
    ) -> Option<SeatClash> {
        let uuids = [uuid, other].map(|uuid| GpuUuid::new(uuid).unwrap());
        let places = [bus_id, other_bus].map(|bus_id| BusId::new(bus_id).unwrap());
        let one = Seat { uuid: &uuids[0], bus_id: &places[0], partition };
        let two = Seat { uuid: &uuids[1], bus_id: &places[1], partition: other_partition };
        assert_eq!(one.clash(two), two.clash(one), "neither is first");
        one.clash(two)
    }

    #[test]
    fn a_slice_fits_its_parent_and_its_siblings() {
        let (first, second) = (slice("GPU-1", 0), slice("GPU-1", 1));
        assert_eq!(clash(("GPU-1", "0:1", None), ("MIG-1", "0:1", Some(&first))), None);
        let siblings = clash(("MIG-1", "0:1", Some(&first)), ("MIG-2", "0:1", Some(&second)));
        assert_eq!(siblings, None);
        assert_eq!(clash(("GPU-2", "0:2", None), ("MIG-1", "0:1", Some(&first))), None);
    }

    #[test]
    fn one_place_is_taken_once_and_a_parent_is_a_whole_gpu_at_its_bus_id() {
        let (first, nested) = (slice("GPU-1", 0), slice("MIG-1", 1));
        let same = Some(SeatClash::SamePlace);
        assert_eq!(clash(("GPU-1", "0:1", None), ("GPU-2", "0:1", None)), same);
        let twice = clash(("MIG-1", "0:1", Some(&first)), ("MIG-2", "0:1", Some(&first)));
        assert_eq!(twice, same);
        let parent = Some(SeatClash::Parent);
        assert_eq!(clash(("GPU-1", "0:2", None), ("MIG-1", "0:1", Some(&first))), parent);
        assert_eq!(clash(("GPU-2", "0:1", None), ("MIG-1", "0:1", Some(&first))), parent);
        let of_a_slice = clash(("MIG-1", "0:1", Some(&first)), ("MIG-2", "0:1", Some(&nested)));
        assert_eq!(of_a_slice, parent);
    }

    #[test]
    fn a_share_is_a_part_of_another_gpu() {
        let uuid = GpuUuid::new("MIG-1").unwrap();
        assert_eq!(slice("GPU-1", 0).fault(&uuid), None);
        assert_eq!(slice("MIG-1", 0).fault(&uuid), Some("parent"));
        for (slices, slices_of) in [(0, 7), (8, 7), (0, 0), (1, 0)] {
            let odd = Partition { slices, slices_of, ..slice("GPU-1", 0) };
            assert_eq!(odd.fault(&uuid), Some("slices"), "{slices} of {slices_of}");
        }
    }
}
