//! The slices of a recorded GPU: which there were at an instant.
//!
//! Pure. A slice is there from its first reading until the capture says that it was removed, or
//! another slice takes its instance; through a gap it stays, and its readings are not known.

use leasewatch_core::id::GpuUuid;
use leasewatch_core::segment::Partition;

use super::recording::{Recording, Run};
use crate::physics::mig::{MOST_SLICES, MigCut, MigSlice};

/// A slice of a GPU.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(super) partition: Partition,
    /// Its readings. It has no slices of its own.
    pub(crate) recording: Recording,
    /// The first reading of each of its runs, in milliseconds since 1970.
    pub(super) openings: Vec<i64>,
    /// When it was there. Ascending, apart from each other.
    pub(super) lives: Vec<Run>,
}

impl Recording {
    /// How the GPU is cut at an instant; `None` while it is whole.
    pub(crate) fn cut(&self, at_ms: i64) -> Option<MigCut> {
        let numbered = self.slices.iter().enumerate();
        let mut there: Vec<_> = numbered.filter(|(_, slice)| slice.is_there(at_ms)).collect();
        there.sort_by_key(|(_, slice)| (slice.index(), slice.partition.instance));
        let whole = |slice: &Slice| -> u32 {
            let instance = slice.partition.instance.gpu_instance;
            let parts = there.iter().map(|(_, other)| &other.partition);
            let same = parts.filter(|other| other.instance.gpu_instance == instance);
            same.map(|part| u32::from(part.slices)).sum()
        };
        let played = |(number, slice): &(usize, &Slice)| MigSlice {
            gpu_instance: slice.partition.instance.gpu_instance.into(),
            compute_instance: slice.partition.instance.compute_instance.into(),
            // A GPU instance has at least what its compute instances have; no more was recorded.
            gpu_slices: whole(slice),
            compute_slices: slice.partition.slices.into(),
            cut: u32::try_from(*number).unwrap_or(0),
            recorded: Some(*number),
            ..MigSlice::default()
        };
        (!there.is_empty())
            .then(|| MigCut::recorded(there.iter().map(|at| (at.1.index(), played(at)))))
    }

    /// What is played of a slice.
    pub(crate) fn slice(&self, slice: &MigSlice) -> Option<&Slice> {
        self.slices.get(slice.recorded?)
    }

    /// The recordings of all its slices.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &Recording> {
        self.slices.iter().map(|slice| &slice.recording)
    }

    /// Compute slices of the whole GPU, which is how many MIG devices it can have at most.
    pub(crate) fn most_slices(&self) -> Option<u32> {
        self.slices.iter().map(|slice| slice.partition.slices_of.into()).max()
    }

    /// Works out when each slice was there; `removed` are the times at which a slice was removed,
    /// with its place among `slices`. False when more were there at once than NVML can show.
    pub(super) fn live(&mut self, removed: &[(i64, usize)]) -> bool {
        for number in 0..self.slices.len() {
            let slice = &self.slices[number];
            let lives = lives(slice, removed, number);
            self.slices[number].lives = lives;
        }
        self.end_where_another_begins();
        let begins = self.slices.iter().flat_map(|slice| &slice.lives).map(|life| life.from_ms);
        let there = |at_ms| self.slices.iter().filter(|slice| slice.is_there(at_ms)).count();
        begins.map(|at_ms| there(at_ms + 1)).all(|count| count <= MOST_SLICES)
    }

    /// One instance is one slice, whatever the capture leaves out.
    fn end_where_another_begins(&mut self) {
        let begins: Vec<(usize, i64)> = (0..)
            .zip(&self.slices)
            .flat_map(|(number, slice)| slice.lives.iter().map(move |life| (number, life.from_ms)))
            .collect();
        for (number, from_ms) in begins {
            let instance = self.slices[number].partition.instance;
            let others = self.slices.iter_mut().enumerate().filter(|(at, _)| *at != number);
            let same = others.filter(|(_, other)| other.partition.instance == instance);
            let lives = same.flat_map(|(_, other)| &mut other.lives);
            lives
                .filter(|life| life.from_ms < from_ms && from_ms < life.until_ms)
                .for_each(|life| life.until_ms = from_ms);
        }
    }
}

impl Slice {
    /// A share or an instance that changed under one name is another slice.
    pub(super) fn is(&self, uuid: &GpuUuid, partition: &Partition) -> bool {
        self.recording.uuid == *uuid && self.partition == *partition
    }

    fn is_there(&self, at_ms: i64) -> bool {
        self.lives.iter().any(|life| life.from_ms < at_ms && at_ms <= life.until_ms)
    }

    /// NVML's index, as it was seen first.
    fn index(&self) -> usize {
        let seen = self.recording.inventory.as_ref();
        seen.and_then(|seen| seen.index.try_into().ok()).unwrap_or(0)
    }
}

/// A life begins with a run, but not before what had to go for it was removed.
fn lives(slice: &Slice, removed: &[(i64, usize)], number: usize) -> Vec<Run> {
    let mut lives: Vec<Run> = Vec::new();
    for (run, opening_ms) in slice.recording.runs.iter().zip(&slice.openings) {
        if lives.last().is_some_and(|life| life.until_ms > run.from_ms) {
            continue;
        }
        let earlier = removed.iter().map(|(at_ms, _)| *at_ms).filter(|at_ms| at_ms <= opening_ms);
        let from_ms = earlier.max().map_or(run.from_ms, |at_ms| at_ms.max(run.from_ms));
        let own = removed.iter().filter(|(_, of)| *of == number).map(|(at_ms, _)| *at_ms);
        let until_ms = own.filter(|at_ms| *at_ms >= run.until_ms).min();
        lives.push(Run { from_ms, until_ms: until_ms.unwrap_or(i64::MAX) });
    }
    lives
}

#[cfg(test)]
mod tests {
    use leasewatch_core::segment::MigInstance;

    use super::super::build;
    use super::*;

    fn empty(name: &str, runs: Vec<Run>) -> Recording {
        Recording { uuid: GpuUuid::new(name).unwrap(), runs, ..build::tests::empty_card() }
    }

    /// A slice of a GPU instance with a reading each second in these runs.
    fn slice(gpu_instance: u8, slices: u8, runs: &[(i64, i64)]) -> Slice {
        let second = |(from_ms, until_ms): &(i64, i64)| Run {
            from_ms: from_ms * 1_000 - 1_000,
            until_ms: until_ms * 1_000,
        };
        let instance = MigInstance { gpu_instance, compute_instance: 0 };
        let parent = GpuUuid::new("GPU-1").unwrap();
        Slice {
            partition: Partition { parent, instance, slices, slices_of: 7 },
            recording: empty(
                &format!("MIG-{gpu_instance}-{slices}"),
                runs.iter().map(second).collect(),
            ),
            openings: runs.iter().map(|(from_s, _)| from_s * 1_000).collect(),
            lives: Vec::new(),
        }
    }

    /// (GPU instance, compute slices) of each slice at a second.
    fn cut(card: &Recording, second: i64) -> Vec<(u32, u32)> {
        let cut = card.cut(second * 1_000);
        let slices = cut.iter().flat_map(MigCut::slices);
        slices.map(|(_, slice)| (slice.gpu_instance, slice.compute_slices)).collect()
    }

    #[test]
    fn a_slice_is_there_until_it_is_removed_and_through_gaps() {
        let mut card = empty("GPU-1", Vec::new());
        card.slices = vec![slice(1, 3, &[(1, 5), (20, 30)]), slice(2, 4, &[(1, 30)])];
        assert!(card.live(&[(31_000, 0)]));
        assert_eq!(cut(&card, 3), [(1, 3), (2, 4)]);
        assert_eq!(cut(&card, 10), [(1, 3), (2, 4)], "in the gap");
        assert_eq!(cut(&card, 40), [(2, 4)]);
        assert_eq!(card.most_slices(), Some(7));
    }

    #[test]
    fn a_card_that_is_cut_anew_has_the_old_slices_or_the_new_ones() {
        let mut card = empty("GPU-1", Vec::new());
        let old = (1..=7).map(|instance| slice(instance, 1, &[(1, 9)]));
        card.slices = old.chain([slice(8, 7, &[(10, 20)])]).collect();
        let removed: Vec<(i64, usize)> = (0..7).map(|number| (9_990, number)).collect();
        assert!(card.live(&removed));
        assert_eq!(cut(&card, 9).len(), 7);
        assert_eq!(cut(&card, 10), [(8, 7)]);
        assert!(!card.live(&[]), "eight at once");
        // Without its events, one instance is one slice all the same.
        card.slices.truncate(1);
        card.slices.push(slice(1, 7, &[(10, 20)]));
        assert!(card.live(&[]));
        assert_eq!((cut(&card, 8), cut(&card, 11)), (vec![(1, 1)], vec![(1, 7)]));
    }

    #[test]
    fn a_slice_that_comes_again_is_there_again() {
        let mut card = empty("GPU-1", Vec::new());
        card.slices = vec![slice(1, 2, &[(1, 5), (20, 25)])];
        assert!(card.live(&[(6_000, 0), (26_000, 0)]));
        let there = [3, 5, 7, 18, 20, 25, 27].map(|second| !cut(&card, second).is_empty());
        assert_eq!(there, [true, true, false, false, true, true, false]);
    }
}
