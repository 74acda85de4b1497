//! Slices of a GPU in MIG mode: rows of their own, with a utilization only where GPM has one.

use std::collections::BTreeMap;

use leasewatch_core::id::BusId;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{EventKind, GpuInventory, TrackSource};

use crate::case::{Case, FIRST, FIRST_BUS, fault, id, is_child, play, scenario};

/// A busy slice of three, an idle one, and one of two compute instances that GPM sees as one.
const CUT: &str = "slices = [\
    { compute_slices = 3, gpu_instance = 2, percent = 90 }, \
    { compute_slices = 1, gpu_instance = 9, percent = 0 }, \
    { compute_slices = 2, gpu_instance = 5, compute_instances = 2, percent = 70 }]";

fn cut(when: &str) -> String {
    format!("kind = \"mig_on\"\ncard = 0\n{when}\n{CUT}")
}

/// Inventories of slices, by (GPU instance, compute instance), in order of first sight.
fn slices(case: &Case) -> BTreeMap<(u8, u8), GpuInventory> {
    let seen = case.events().into_iter().filter_map(|event| match &event.kind {
        EventKind::GpuSeen(inventory) => Some((inventory.partition.clone()?.instance, inventory)),
        _ => None,
    });
    seen.map(|(at, inventory)| ((at.gpu_instance, at.compute_instance), inventory.clone()))
        .collect()
}

fn until_slice_reads(case: &mut Case, instance: (u8, u8), count: usize) -> String {
    case.until("the slice", |case| slices(case).contains_key(&instance));
    let uuid = slices(case)[&instance].uuid.as_str().to_owned();
    case.until_reads(&uuid, count);
    uuid
}

#[test]
fn each_slice_has_the_activity_of_its_gpu_instance_and_zero_is_a_number() {
    play(&fault(&cut("")), |case| {
        let busy = until_slice_reads(case, (2, 0), 8);
        let seen = slices(case);
        let shares: Vec<_> = seen
            .iter()
            .map(|(instance, gpu)| {
                let part = gpu.partition.as_ref().unwrap();
                assert_eq!(
                    (&part.parent, &gpu.bus_id),
                    (&id(FIRST), &BusId::new(FIRST_BUS).unwrap())
                );
                (*instance, part.slices, part.slices_of)
            })
            .collect();
        assert_eq!(shares, [((2, 0), 3, 7), ((5, 0), 1, 7), ((5, 1), 1, 7), ((9, 0), 1, 7)]);
        let points = |instance| {
            let points = case.points(seen[&instance].uuid.as_str());
            assert!(points.len() >= 5, "{points:?}");
            points.into_iter().map(|(_, busy)| busy).collect::<Vec<_>>()
        };
        assert!(points((2, 0)).iter().all(|busy| *busy == Reading::Number(90)));
        assert!(points((9, 0)).iter().all(|busy| *busy == Reading::Number(0)), "idle, not missing");
        for shared in [(5, 0), (5, 1)] {
            assert!(points(shared).iter().all(|busy| *busy == Reading::Unsupported));
        }
        for read in case.reads(&busy) {
            assert_eq!((read.track.source, read.track.period_ms), (TrackSource::Gpm, 200));
        }
        // The first read has no sample before it; from then on there is a point for each.
        assert_eq!(case.reads(&busy).len(), case.points(&busy).len() + 1);
        for (metric, permille) in
            [(Metric::SmActive, 828), (Metric::TensorActive, 270), (Metric::DramActive, 495)]
        {
            let column = case.column(&busy, metric);
            assert!(column.len() >= 2, "{metric} {column:?}");
            assert!(column.iter().all(|r| *r == Reading::Number(permille)), "{metric} {column:?}");
        }
        let memory = |metric| case.column(&busy, metric)[0].number().unwrap();
        let (used, total) = (memory(Metric::MemoryUsed), memory(Metric::MemoryTotal));
        assert!(0 < used && used < total && total < 40_000, "{used} of {total}");
        // The whole GPU stays a row of its own, without a utilization.
        assert!(case.points(FIRST).iter().all(|(_, busy)| *busy == Reading::Unsupported));
        let live = case.live.snapshot().gpus;
        let order: Vec<_> = live.iter().map(|gpu| gpu.is_slice).collect();
        assert_eq!(order, [false, true, true, true, true, false]);
        case.check_second_is_well();
    });
}

#[test]
fn without_gpm_every_slice_is_unsupported_and_never_zero() {
    let masked = "[[faults]]\nkind = \"masked\"\ncard = 0\nmetrics = [\"gpm\"]\n";
    let with_cut = |model: &str, more: &str| {
        scenario(model, "590.48.01", &format!("[[faults]]\n{}\n{more}", cut("")))
    };
    // An A100 has no GPM; a driver may refuse it.
    for plan in [with_cut("A100-SXM4-80GB", ""), with_cut("H100-SXM5-80GB", masked)] {
        play(&plan, |case| {
            let uuid = until_slice_reads(case, (9, 0), 5);
            for gpu in slices(case).into_values() {
                let points = case.points(gpu.uuid.as_str());
                assert!(points.len() >= 3, "a point at each tick");
                assert!(points.iter().all(|(_, busy)| *busy == Reading::Unsupported), "{points:?}");
            }
            assert!(
                case.column(&uuid, Metric::SmActive).iter().all(|r| *r == Reading::Unsupported)
            );
            assert!(case.column(&uuid, Metric::MemoryUsed).iter().all(|r| r.number().is_some()));
            case.check_second_is_well();
        });
        if is_child() {
            return;
        }
    }
}

#[test]
fn a_card_that_is_cut_anew_ends_the_old_slices_and_begins_new_ones() {
    let anew = "kind = \"mig_on\"\ncard = 0\nat_s = 604\nuntil_s = 607\n\
        slices = [{ compute_slices = 7, gpu_instance = 0, percent = 30 }]";
    let plan = fault(&format!("{}\n[[faults]]\n{anew}", cut("until_s = 604")));
    play(&plan, |case| {
        let old = until_slice_reads(case, (9, 0), 2);
        let new = until_slice_reads(case, (0, 0), 3);
        let removed = |case: &Case| {
            let events = case.events().into_iter();
            let gone = events.filter(|event| event.kind == EventKind::PartitionRemoved);
            gone.map(|event| event.gpu.clone().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(removed(case).len(), 4, "each of the old slices, once");
        assert!(removed(case).contains(&id(&old)) && !removed(case).contains(&id(&new)));
        let last_read = case.reads(&old).last().unwrap().at_boot_ms;
        let gone = case.time_of(|kind| *kind == EventKind::PartitionRemoved);
        let first_read = case.reads(&new)[0].at_boot_ms;
        assert!(last_read < gone && gone <= first_read);
        // A handle that names nothing shows at the next tick, not with the slow lane.
        assert!(gone - last_read < 1_000, "{last_read} {gone}");
        assert!(case.points(&new).iter().all(|(_, busy)| *busy == Reading::Number(30)));
        case.until_event("MIG off", |event| event.kind == EventKind::MigChanged { enabled: false });
        case.until("the last slice's end", |case| removed(case).contains(&id(&new)));
        assert_eq!(removed(case).len(), 5);
        case.until("numbers of the whole GPU", |case| {
            case.points(FIRST).last().is_some_and(|(_, busy)| *busy == Reading::Number(40))
        });
        assert!(case.live.snapshot().gpus.iter().all(|gpu| !gpu.is_slice));
        case.check_second_is_well();
    });
}

#[test]
fn a_slice_of_an_earlier_run_is_gone_or_goes_on() {
    play(&fault(&cut("")), |case| {
        let kept = id(&until_slice_reads(case, (9, 0), 1));
        let (gone, elsewhere) = (id("MIG-gone"), id("MIG-elsewhere"));
        let first = BusId::new(FIRST_BUS).unwrap();
        case.restart(|options| {
            options.known = vec![
                (first.clone(), kept.clone()),
                (first.clone(), gone.clone()),
                (BusId::new("00000000:DB:00.0").unwrap(), elsewhere.clone()),
            ];
        });
        until_slice_reads(case, (9, 0), 3);
        let told: Vec<_> =
            case.events().into_iter().filter(|e| e.gpu.as_ref() == Some(&gone)).collect();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].kind, EventKind::PartitionRemoved);
        assert_eq!(case.happened(&EventKind::PartitionRemoved), 1, "{:?}", case.events());
        let missing = |kind: &EventKind| matches!(kind, EventKind::GpuMissing { .. });
        assert!(!case.events().iter().any(|event| missing(&event.kind)), "a slice is no GPU");
        case.check_second_is_well();
    });
}

#[test]
fn a_lost_gpu_takes_no_slice_away() {
    let lost = "[[faults]]\nkind = \"gpu_lost\"\ncard = 0\nat_s = 603\nuntil_s = 605";
    play(&fault(&format!("{}\n{lost}", cut(""))), |case| {
        let uuid = until_slice_reads(case, (2, 0), 2);
        case.until_event("loss", |event| event.kind == EventKind::GpuLost { nvml_code: 15 });
        let before = case.reads(&uuid).len();
        case.until_event("return", |event| event.kind == EventKind::GpuBack);
        assert_eq!(case.reads(&uuid).len(), before, "silent while the GPU is");
        case.until_reads(&uuid, 3);
        assert_eq!(case.happened(&EventKind::PartitionRemoved), 0);
        assert!(case.points(&uuid).iter().all(|(_, busy)| *busy == Reading::Number(90)));
        let about = |kind: &EventKind| case.time_of(|other| other == kind);
        assert!(about(&EventKind::GpuLost { nvml_code: 15 }) < about(&EventKind::GpuBack));
        case.check_second_is_well();
    });
}
