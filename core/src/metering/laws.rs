//! The laws of metering on random histories, against an independent painter.

mod causes;
mod clocks;
mod history;
mod minutes;
mod reported;
mod slices;

use proptest::prelude::*;

use super::*;
use crate::id::{ChainId, NodeId, SlotNo, Slug};
use crate::sample::Reading;
use crate::segment::EventKind;
use history::{EpochPlan, Owned, START, World, epoch, gpu, lay_out, meter_all, total};

fn stretches() -> impl Strategy<Value = Vec<Period>> {
    let stretch = (0_i64..3_000_000, 1_i64..900_000).prop_map(|(start, ms)| {
        Period::new(Timestamp(START + start), Timestamp(START + start + ms))
    });
    proptest::collection::vec(stretch, 0..3)
}

fn world() -> impl Strategy<Value = World> {
    (stretches(), stretches(), stretches()).prop_map(|(drops, blind, cut_off)| World {
        drops,
        blind,
        cut_off,
        ..World::default()
    })
}

type Fault = fn(&mut Owned);

/// A segment by number, and what happens in it.
fn fault() -> impl Strategy<Value = (usize, Fault)> {
    let faults: [Fault; 8] = [
        |s| push(s, Some(gpu(0)), EventKind::GpuLost { nvml_code: 15 }),
        |s| push(s, Some(gpu(0)), EventKind::GpuBack),
        |s| push(s, None, EventKind::NoGpuAttached),
        |s| push(s, None, EventKind::DriverReloaded),
        |s| push(s, None, EventKind::CollectorStalled),
        // The clock was set forwards or back by minutes within a run.
        |s| s.head.clock.anchor_boot_ms -= 240_000,
        |s| s.head.clock.offset_ms = Some(6_000),
        // Another GPU within a run.
        |s| s.block.as_mut().unwrap().uuid = gpu(7),
    ];
    (any::<usize>(), prop::sample::select(faults.to_vec()))
}

fn push(segment: &mut Owned, gpu: Option<GpuUuid>, kind: EventKind) {
    let at = segment.head.period.start;
    segment.events.push(Event { at, gpu, kind });
}

fn names(tenant: &Slug) -> HourNames<'_> {
    let (node, slot) = (NodeId([1; 16]), SlotNo(0));
    HourNames { tenant, node, slot, revision: 1, previous: None }
}

/// What hangs on batching (heads, origin of counters) is left out.
fn content(records: &[HourRecord]) -> Vec<(Hour, GpuUuid, i64, Histogram, Gaps, i64, i64)> {
    records
        .iter()
        .map(|r| {
            let (hour, gpu) = (r.hour, r.gpu.clone());
            (hour, gpu, r.enrolled_ms, r.histogram.clone(), r.gaps, r.samples, r.max_gap_ms)
        })
        .collect()
}

/// The rule of weights written a second time, in the plainest way: paint each millisecond.
fn painted(plans: &[EpochPlan]) -> Vec<Histogram> {
    let mut paint: Vec<Option<Reading>> = Vec::new();
    let mut at = 500_usize;
    for plan in plans {
        at += usize::try_from(plan.pause_ms).unwrap();
        let period = usize::try_from(plan.period_ms).unwrap();
        let hold = (3 * period).max(3_000);
        for (index, (distance, busy)) in plan.points.iter().enumerate() {
            let distance = usize::try_from(*distance).unwrap();
            at += distance;
            paint.resize(at.max(paint.len()), None);
            let weight = if index > 0 && distance <= hold { distance } else { period };
            for slot in &mut paint[at.saturating_sub(weight)..at] {
                if slot.is_none() {
                    *slot = Some(*busy);
                }
            }
        }
    }
    let hour_ms = usize::try_from(crate::time::HOUR_MS).unwrap();
    paint
        .chunks(hour_ms)
        .map(|hour| {
            let mut histogram = Histogram::default();
            for percent in hour.iter().flatten().filter_map(|reading| reading.number()) {
                histogram.add(u8::try_from(percent).unwrap(), 1);
            }
            histogram
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_enrolled_millisecond_is_in_one_place(plans in proptest::collection::vec(epoch(), 1..6)) {
        let segments = lay_out(&plans, 60);
        let records = meter_all(&segments);
        for record in &records {
            prop_assert!(record.sum().is_conserved(), "{record:?}");
            prop_assert!(record.max_gap_ms <= record.gaps.total_ms());
            prop_assert_eq!(record.max_gap_ms == 0, record.gaps.total_ms() == 0);
        }
        let end = segments.last().unwrap().head.period.end;
        prop_assert_eq!(total(&records).enrolled_ms, end.0 - START);
    }

    #[test]
    fn each_hour_holds_what_a_painter_sees(plans in proptest::collection::vec(epoch(), 1..6)) {
        let records = meter_all(&lay_out(&plans, 60));
        for (index, painted) in painted(&plans).into_iter().enumerate() {
            let hour = Timestamp(START).plus_ms(i64::try_from(index).unwrap() * crate::time::HOUR_MS);
            let inside = records.iter().filter(|record| record.hour == hour.hour());
            let mut histogram = Histogram::default();
            inside.for_each(|record| histogram.merge(&record.histogram));
            prop_assert_eq!(histogram, painted, "hour {}", index);
        }
    }

    #[test]
    fn any_split_of_a_period_adds_up(
        plans in proptest::collection::vec(epoch(), 1..5),
        world in world(),
        cuts in proptest::collection::vec(0_u64..=1_000, 0..4),
    ) {
        let segments = lay_out(&plans, 60);
        let end = segments.iter().map(|s| s.head.period.end).max().unwrap();
        let whole = total(&world.meter(&segments));
        let length = end.0 - START;
        let mut bounds: Vec<i64> = cuts
            .iter()
            .map(|cut| START + length * i64::try_from(*cut).unwrap() / 1_000)
            .chain([START, end.0])
            .collect();
        bounds.sort_unstable();
        let mut parts = UtilizationSum::default();
        for pair in bounds.windows(2) {
            let enrolled = Some(Period::new(Timestamp(pair[0]), Timestamp(pair[1])));
            parts.merge(&total(&World { enrolled, ..world.clone() }.meter(&segments)));
        }
        prop_assert_eq!(parts, whole);
    }

    #[test]
    fn the_world_never_loses_a_millisecond(
        plans in proptest::collection::vec(epoch(), 1..6),
        world in world(),
        faults in proptest::collection::vec(fault(), 0..6),
        twin in any::<bool>(),
    ) {
        let mut segments = lay_out(&plans, 60);
        for (place, fault) in faults {
            let index = place % segments.len();
            fault(&mut segments[index]);
        }
        if twin {
            // A second chain of the same node at the same time: a copied key.
            let mut copies = lay_out(&plans[..1], 45);
            copies.iter_mut().for_each(|copy| copy.head.chain = ChainId([9; 16]));
            segments.extend(copies);
        }
        let (records, tenant) = (world.meter(&segments), Slug::new("tenant-a").unwrap());
        for record in &records {
            prop_assert!(record.sum().is_conserved(), "{record:?}");
            let stated = StatedHour::from_statement(&record.statement(&names(&tenant)));
            prop_assert_eq!(stated.map(|hour| hour.record), Ok(record.clone()));
        }
        let end = segments.iter().map(|s| s.head.period.end).max().unwrap();
        prop_assert_eq!(total(&records).enrolled_ms, end.0 - START);
    }

    #[test]
    fn order_repeats_and_batches_change_nothing(
        plans in proptest::collection::vec(epoch(), 1..5),
        batch in 1_usize..90,
        order in any::<u64>(),
    ) {
        let segments = lay_out(&plans, 60);
        let expected = meter_all(&segments);
        let mut shuffled: Vec<Owned> = segments.iter().chain(&segments).cloned().collect();
        let mut state = order;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
        }
        prop_assert_eq!(&meter_all(&shuffled), &expected);
        prop_assert_eq!(content(&meter_all(&lay_out(&plans, batch))), content(&expected));
    }
}
