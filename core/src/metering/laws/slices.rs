//! The laws for slices of a GPU, and when their slots are enrolled.

use proptest::prelude::*;

use super::super::*;
use super::history::{
    EpochPlan, Owned, START, World, epoch, gpu, is_start, lay_out, meter_all, parent, sliced,
    steady, total,
};
use super::{content, world};
use crate::segment::{Event, EventKind};

/// When the slice is not there, by the plainest reading of the rule: from the last reading before
/// it is gone, which is where the history removes it, to the next reading's window, or to where
/// the next epoch shows it, when that window is more than a hold away.
fn absent_ms(plans: &[EpochPlan], segments: &[Owned]) -> i64 {
    let mut absent = 0;
    let mut at = START + 500;
    let mut windows = Vec::new();
    let mut measured_end = i64::MIN;
    for plan in plans {
        at += plan.pause_ms;
        for (index, (distance, _)) in plan.points.iter().enumerate() {
            let hold = (3 * plan.period_ms).max(3_000);
            let held = index > 0 && *distance <= hold;
            let before = if index > 0 { at } else { measured_end };
            at += distance;
            windows.push(if held { before } else { (at - plan.period_ms).max(before).min(at) });
            measured_end = at;
        }
    }
    let hold = plans.iter().map(|plan| 3 * plan.period_ms).max().unwrap().max(3_000);
    for (index, segment) in segments.iter().enumerate() {
        let gone = |event: &&Event| event.kind == EventKind::PartitionRemoved;
        let Some(gone) = segment.events.iter().find(gone).map(|event| event.at.0) else { continue };
        let Some(next) = segments.get(index + 1) else { continue };
        let points = |s: &Owned| s.block.as_ref().unwrap().track.points.len();
        let window = windows[segments[..=index].iter().map(points).sum::<usize>()];
        let shown = next.events.iter().find(|event| is_start(event)).map(|event| event.at.0);
        let back = match shown {
            Some(shown) if window - shown >= hold => shown,
            _ => window,
        };
        absent += (back - gone).max(0);
    }
    absent
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_slot_of_slices_is_enrolled_while_a_slice_is_there(
        plans in proptest::collection::vec(epoch(), 1..5),
        removed in proptest::collection::vec(any::<usize>(), 0..4),
        batch in 5_usize..90,
    ) {
        let segments = sliced(lay_out(&plans, batch), &removed);
        let records = meter_all(&segments);
        for record in &records {
            prop_assert!(record.sum().is_conserved(), "{record:?}");
            prop_assert_eq!(record.partition.as_ref().map(|p| &p.parent), Some(&parent()));
        }
        let end = segments.last().unwrap().head.period.end;
        let first = segments[0].block.as_ref().unwrap().track.points[0].at.0 - plans[0].period_ms;
        let shown = segments[0].head.period.start.0;
        let hold = plans.iter().map(|plan| 3 * plan.period_ms).max().unwrap().max(3_000);
        let begins = if first - shown < hold { first.max(START) } else { shown };
        let there = end.0 - begins - absent_ms(&plans, &segments);
        prop_assert_eq!(total(&records).enrolled_ms, there);
        // A slice is measured like a GPU: being a slice costs no reading.
        let whole = total(&meter_all(&lay_out(&plans, batch)));
        prop_assert_eq!(total(&records).measured_ms(), whole.measured_ms());
    }

    #[test]
    fn any_split_and_any_order_of_a_slice_is_the_same(
        plans in proptest::collection::vec(epoch(), 1..4),
        world in world(),
        removed in proptest::collection::vec(any::<usize>(), 0..4),
        cut in 0_i64..=1_000,
    ) {
        let segments = sliced(lay_out(&plans, 60), &removed);
        let whole = world.meter(&segments);
        let end = segments.iter().map(|s| s.head.period.end).max().unwrap();
        let middle = Timestamp(START + (end.0 - START) * cut / 1_000);
        let mut parts = UtilizationSum::default();
        for part in [Period::new(Timestamp(START), middle), Period::new(middle, end)] {
            let records = World { enrolled: Some(part), ..world.clone() }.meter(&segments);
            prop_assert!(records.iter().all(|record| record.sum().is_conserved()));
            parts.merge(&total(&records));
        }
        prop_assert_eq!(&parts, &total(&whole));
        let turned: Vec<Owned> = segments.iter().chain(&segments).rev().cloned().collect();
        prop_assert_eq!(content(&world.meter(&turned)), content(&whole));
    }
}

/// One run of a slice with a hole of 100 s after its twentieth second, and an event in the hole.
fn hole(kind: EventKind, of: Option<GpuUuid>) -> Vec<(GapCause, i64)> {
    let mut plan = steady(1_000, 1_000, 20, 90);
    plan.points.push((100_000, crate::sample::Reading::Number(10)));
    let mut segments = sliced(lay_out(&[plan], 60), &[]);
    let at = Timestamp(START + 22_500);
    segments[0].events.push(Event { at, gpu: of, kind });
    total(&meter_all(&segments)).gaps.iter().collect()
}

#[test]
fn what_happens_to_the_parent_explains_gaps_of_the_slice() {
    let of_parent = |kind| hole(kind, Some(parent()));
    let lost = EventKind::GpuLost { nvml_code: 15 };
    assert_eq!(of_parent(lost.clone()), [(GapCause::GpuLost, 99_000)]);
    assert_eq!(of_parent(EventKind::CollectorStalled), [(GapCause::NvmlError, 99_000)]);
    assert_eq!(of_parent(EventKind::DriverReloaded), [(GapCause::DriverReload, 99_000)]);
    let missing = EventKind::GpuMissing { bus_id: "00000000:18:00.0".parse().unwrap() };
    assert_eq!(of_parent(missing), [(GapCause::GpuLost, 99_000)]);
    assert_eq!(hole(lost, Some(gpu(5))), [(GapCause::Unexplained, 99_000)], "another GPU");
}

#[test]
fn a_slice_that_is_removed_is_missed_no_more() {
    let gone = hole(EventKind::PartitionRemoved, Some(gpu(0)));
    // Told 2 s after the last reading, back with the next one: nothing was missing in between.
    assert_eq!(gone, []);
    let of_another = hole(EventKind::PartitionRemoved, Some(gpu(5)));
    assert_eq!(of_another, [(GapCause::Unexplained, 99_000)]);
}

#[test]
fn a_new_slice_in_the_place_of_an_old_one_takes_its_share() {
    let mut first = steady(1_000, 1_000, 10, 50);
    first.goodbye = false;
    let second = EpochPlan { pause_ms: 60_000, gpu: 1, ..steady(1_000, 1_000, 10, 60) };
    let mut segments = sliced(lay_out(&[first, second], 60), &[0]);
    segments[1].block.as_mut().unwrap().partition.as_mut().unwrap().slices = 2;
    let records = meter_all(&segments);
    let rows: Vec<_> = records
        .iter()
        .map(|r| (r.gpu.clone(), r.enrolled_ms, r.partition.as_ref().map(|p| p.slices)))
        .collect();
    assert_eq!(rows, [(gpu(0), 10_000, Some(1)), (gpu(1), 10_000, Some(2))]);
}

#[test]
fn a_slice_known_from_before_is_missed_until_it_is_removed() {
    let segments = sliced(lay_out(&[steady(1_000, 1_000, 60, 50)], 60), &[]);
    let (head, block) = (&segments[0].head, segments[0].block.as_ref().unwrap());
    let always = [Period::new(Timestamp(0), Timestamp(i64::MAX))];
    let views = [MeteredSegment { head, head_hash: Hash([0; 32]), block: None, events: &[] }];
    let enrolled = |prior_events: &[Event]| {
        let records = meter(&SlotHour {
            hour: head.period.start.hour(),
            origin: Origin::Measured,
            place: &Place::of(&block.bus_id, block.partition.as_ref()),
            enrolled: head.period,
            resident: Some(Resident { gpu: &block.uuid, partition: block.partition.as_ref() }),
            segments: &views,
            prior_events,
            drops: &[],
            observer: &always,
            connected: None,
        });
        records.iter().map(|(r, _)| (r.enrolled_ms, r.partition.clone())).collect::<Vec<_>>()
    };
    assert_eq!(enrolled(&[]), [(head.period.ms(), block.partition.clone())]);
    let at = Timestamp(START - 7_200_000);
    let gone = Event { at, gpu: Some(block.uuid.clone()), kind: EventKind::PartitionRemoved };
    assert_eq!(enrolled(&[gone]), []);
}
