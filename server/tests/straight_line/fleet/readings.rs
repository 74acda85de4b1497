//! Loads, and conditions that show in a reading.

use leasewatch_core::sample::Metric;

use super::modes::{Mode, mode};
use super::recorded::{Recorded, Slot};

/// NVML's clocks event reasons.
const SW_THERMAL: i64 = 0x20;
const HW_THERMAL: i64 = 0x40;
const HW_POWER_BRAKE: i64 = 0x80;

pub(super) fn modes() -> Vec<Mode> {
    vec![
        mode("training", |r| r.slots.iter().for_each(busy_nearly_all_the_time)),
        mode("inference", |r| r.slots.iter().for_each(in_bursts)),
        mode("idle", idle),
        mode("saw-tooth", |r| r.slots.iter().for_each(rising)),
        mode("frozen", frozen),
        mode("thermal-throttle", hot).quick(),
        mode("fields-before-580-82", hot).quick(),
        mode("fields-since-580-82", hot).quick(),
        mode("power-brake", braked).quick(),
        mode("power-limit", |r| limits(r, 400_000, 400_000)),
        mode("enforced-below-management", |r| limits(r, 450_000, 700_000)),
        mode("reserved-memory", reserved),
        mode("foreign-memory", foreign),
        mode("locked-clocks", locked),
        mode("links", links),
        mode("remapped-rows", remapped),
        mode("masked", masked),
        mode("old-driver", old_driver),
    ]
}

fn busy_nearly_all_the_time(slot: &Slot) {
    let busy = slot.busy();
    let high = busy.iter().filter(|percent| (97..=100).contains(*percent)).count();
    assert!(high * 2 > busy.len(), "{busy:?}");
}

fn in_bursts(slot: &Slot) {
    let busy = slot.busy();
    let (low, high) = (busy.iter().min().unwrap(), busy.iter().max().unwrap());
    assert!(high - low >= 10, "{busy:?}");
}

/// A zero that was measured is a zero.
fn idle(recorded: &Recorded) {
    let slot = &recorded.slots[0];
    assert!(slot.busy().len() > 5 && slot.busy().iter().all(|percent| *percent == 0));
    assert_eq!(slot.rows[0]["util_mean_ppm"], "0");
    assert!(slot.numbers(Metric::PowerDraw).iter().all(|mw| *mw > 0));
}

fn rising(slot: &Slot) {
    let busy = slot.busy();
    let mut values = busy.clone();
    values.sort_unstable();
    values.dedup();
    assert!(values.len() >= 10, "{busy:?}");
    // 100 % in a minute, and at its end the fall.
    assert!(busy.windows(2).all(|w| (0..=3).contains(&(w[1] - w[0])) || w[1] < 5), "{busy:?}");
}

/// Readings stand still while the counter of energy goes on. That it is said of an hour takes five
/// minutes, which the tests of metering have.
fn frozen(recorded: &Recorded) {
    let tail = |numbers: Vec<i64>| {
        let mut tail = numbers[numbers.len() / 2..].to_vec();
        tail.dedup();
        tail.len()
    };
    let [first, second] = [0, 1].map(|slot: usize| &recorded.slots[slot]);
    assert_eq!(tail(first.busy()), 1, "{:?}", first.busy());
    assert!(tail(second.busy()) > 5, "{:?}", second.busy());
    for metric in [Metric::PowerDraw, Metric::Temperature, Metric::SmClock] {
        assert_eq!(tail(first.numbers(metric)), 1, "{metric}: {:?}", first.numbers(metric));
    }
}

/// The reason's bit is set at each tick of the first card, and its counter follows the time, on
/// both sides of the renumbering.
fn throttled(recorded: &Recorded, bits: i64, counters: &[Metric], others: &[Metric]) {
    let [first, second] = [0, 1].map(|slot: usize| &recorded.slots[slot]);
    let reasons = first.numbers(Metric::ClockEventReasons);
    assert!(!reasons.is_empty() && reasons.iter().all(|seen| seen & bits == bits), "{reasons:?}");
    assert!(second.numbers(Metric::ClockEventReasons).iter().all(|seen| seen & bits == 0));
    for metric in counters {
        let (ns, ms) = first.growth(*metric);
        // A tick of the simulator is a sixth of a second, and a read is not instantaneous.
        assert!((ns / 1_000_000 - ms).abs() <= 1_000, "{}: {metric} {ns} ns", recorded.name);
        assert_eq!(second.growth(*metric).0, 0, "{metric}");
        let column = format!("{}_ms", metric.name().trim_end_matches("_ns"));
        let [in_row, other] = [first, second].map(|slot| slot.cell(&column).unwrap());
        assert!((in_row - ns / 1_000_000).abs() <= 1, "{column} {in_row}, {ns} ns");
        assert_eq!(other, 0, "{column}");
    }
    for metric in others {
        assert_eq!(first.growth(*metric).0, 0, "{metric}");
    }
    let [slow, fast] = [first, second].map(|slot| slot.numbers(Metric::SmClock));
    assert!(slow.iter().max().unwrap() < fast.iter().max().unwrap());
}

fn hot(recorded: &Recorded) {
    throttled(
        recorded,
        SW_THERMAL | HW_THERMAL,
        &[Metric::ThrottleSwThermal, Metric::ThrottleHwThermal],
        &[Metric::ThrottleHwPowerBrake, Metric::ThrottleSyncBoost],
    );
}

fn braked(recorded: &Recorded) {
    throttled(
        recorded,
        HW_POWER_BRAKE,
        &[Metric::ThrottleHwPowerBrake],
        &[Metric::ThrottleSwThermal, Metric::ThrottleHwThermal, Metric::ThrottleSyncBoost],
    );
}

fn limits(recorded: &Recorded, enforced_mw: i64, management_mw: i64) {
    for (slot, (enforced, management)) in
        recorded.slots.iter().zip([(enforced_mw, management_mw), (700_000, 700_000)])
    {
        slot.assert_always(Metric::PowerLimitEnforced, enforced);
        slot.assert_always(Metric::PowerLimitManagement, management);
        slot.assert_always(Metric::PowerLimitDefault, 700_000);
        assert!(slot.numbers(Metric::PowerDraw).iter().all(|mw| *mw <= enforced));
    }
}

fn reserved(recorded: &Recorded) {
    let [first, second] = [0, 1].map(|slot: usize| &recorded.slots[slot]);
    let usual = second.numbers(Metric::MemoryReserved)[0];
    second.assert_always(Metric::MemoryReserved, usual);
    first.assert_always(Metric::MemoryReserved, usual + 8_192);
    first.assert_always(Metric::MemoryTotal, second.numbers(Metric::MemoryTotal)[0]);
}

fn foreign(recorded: &Recorded) {
    let used = |slot: usize| recorded.slots[slot].numbers(Metric::MemoryUsed)[0];
    recorded.slots[0].assert_always(Metric::MemoryUsed, used(1) + 10_240);
}

/// The clock is low and no reason says why.
fn locked(recorded: &Recorded) {
    let [first, second] = [0, 1].map(|slot: usize| &recorded.slots[slot]);
    first.assert_always(Metric::SmClock, 1_200);
    assert!(second.numbers(Metric::SmClock).iter().any(|mhz| *mhz > 1_200));
    let slowed = SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE;
    assert!(first.numbers(Metric::ClockEventReasons).iter().all(|bits| bits & slowed == 0));
}

fn links(recorded: &Recorded) {
    let [first, second] = [0, 1].map(|slot: usize| &recorded.slots[slot]);
    first.assert_always(Metric::PcieGeneration, 3);
    first.assert_always(Metric::PcieWidth, 4);
    let all = second.numbers(Metric::NvlinkActive)[0];
    first.assert_always(Metric::NvlinkActive, all - 2);
}

fn remapped(recorded: &Recorded) {
    for (slot, (uncorrected, pending, failure)) in recorded.slots.iter().zip([(1, 1, 0), (3, 0, 1)])
    {
        slot.assert_always(Metric::RemappedCorrected, 0);
        slot.assert_always(Metric::RemappedUncorrected, uncorrected);
        slot.assert_always(Metric::RemapPending, pending);
        slot.assert_always(Metric::RemapFailure, failure);
    }
}

fn masked(recorded: &Recorded) {
    let [first, second] = [0, 1].map(|slot: usize| &recorded.slots[slot]);
    for metric in [Metric::PowerDraw, Metric::Energy, Metric::MemoryTemperature] {
        first.assert_unsupported(metric);
        assert!(!second.numbers(metric).is_empty(), "{metric}");
    }
    assert_eq!(first.cell("energy_mj"), None, "no energy is not 0 mJ");
    busy_nearly_all_the_time(first);
}

fn old_driver(recorded: &Recorded) {
    for slot in &recorded.slots {
        for metric in [Metric::MemoryUsed, Metric::MemoryReserved, Metric::SmActive] {
            slot.assert_unsupported(metric);
        }
        for metric in [Metric::MemoryTotal, Metric::ClockEventReasons, Metric::PowerDraw] {
            assert!(!slot.numbers(metric).is_empty(), "{metric}");
        }
    }
}
