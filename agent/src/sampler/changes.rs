//! What follows from two readings of the same GPU: counters that jump, settings that change.
//!
//! Pure. Only numbers are compared with numbers: a reading that was not there says nothing about
//! what happened meanwhile.

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::EventKind;

/// The last numbers of the metrics whose changes are events.
#[derive(Debug, Default)]
pub(super) struct Changes {
    energy_mj: Option<i64>,
    ecc_uncorrected: Option<i64>,
    power_limit_mw: Option<i64>,
    mig: Option<bool>,
}

impl Changes {
    /// Events that follow from one read. Energy comes before ECC errors in time of cause: a driver
    /// reload resets both, and errors from before it are not counted again.
    pub(super) fn observe(&mut self, readings: &[(Metric, Reading)]) -> Vec<EventKind> {
        let number = |metric| {
            let found = readings.iter().find(|(other, _)| *other == metric);
            found.and_then(|(_, reading)| reading.number())
        };
        let mut events = Vec::new();
        if let Some(energy_mj) = number(Metric::Energy)
            && self.energy_mj.replace(energy_mj).is_some_and(|before| energy_mj < before)
        {
            events.push(EventKind::DriverReloaded);
        }
        if let Some(count) = number(Metric::EccUncorrected) {
            let before = self.ecc_uncorrected.replace(count);
            if let Some(delta) =
                before.map(|before| count.saturating_sub(before)).filter(|d| *d > 0)
            {
                events.push(EventKind::EccUncorrected { count: delta });
            }
        }
        let limit = number(Metric::PowerLimitEnforced);
        if let Some(to_mw) = limit.or_else(|| number(Metric::PowerLimitManagement)) {
            let before = self.power_limit_mw.replace(to_mw);
            if let Some(from_mw) = before.filter(|before| *before != to_mw) {
                events.push(EventKind::PowerLimitChanged { from_mw, to_mw });
            }
        }
        if let Some(mode) = number(Metric::MigMode) {
            let enabled = mode == 1;
            if self.mig.replace(enabled).is_some_and(|before| before != enabled) {
                events.push(EventKind::MigChanged { enabled });
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(reads: &[&[(Metric, Reading)]]) -> Vec<EventKind> {
        let mut changes = Changes::default();
        reads.iter().flat_map(|readings| changes.observe(readings)).collect()
    }

    #[test]
    fn the_first_read_and_growing_counters_are_no_events() {
        let read = |energy, ecc| {
            [
                (Metric::Energy, Reading::Number(energy)),
                (Metric::EccUncorrected, Reading::Number(ecc)),
                (Metric::MigMode, Reading::Number(0)),
                (Metric::PowerLimitEnforced, Reading::Number(700_000)),
            ]
        };
        assert_eq!(events(&[&read(5_000, 3), &read(6_000, 3)]), []);
    }

    #[test]
    fn energy_that_goes_back_is_a_driver_reload() {
        let energy = |mj| [(Metric::Energy, Reading::Number(mj))];
        assert_eq!(
            events(&[&energy(9_000), &energy(1_000), &energy(2_000)]),
            [EventKind::DriverReloaded]
        );
    }

    #[test]
    fn missing_readings_are_not_compared() {
        let ecc = |reading| [(Metric::EccUncorrected, reading)];
        let reads = [
            &ecc(Reading::Number(2))[..],
            &ecc(Reading::Error)[..],
            &ecc(Reading::Unsupported)[..],
            &[][..],
            &ecc(Reading::Number(5))[..],
            &ecc(Reading::Number(0))[..],
            &ecc(Reading::Number(1))[..],
        ];
        assert_eq!(
            events(&reads),
            [EventKind::EccUncorrected { count: 3 }, EventKind::EccUncorrected { count: 1 },]
        );
    }

    #[test]
    fn limits_and_mig_mode_are_settings() {
        let read = |limit, mig| {
            [
                (Metric::PowerLimitManagement, Reading::Number(limit)),
                (Metric::MigMode, Reading::Number(mig)),
            ]
        };
        assert_eq!(
            events(&[&read(700_000, 0), &read(500_000, 1), &read(500_000, 1)]),
            [
                EventKind::PowerLimitChanged { from_mw: 700_000, to_mw: 500_000 },
                EventKind::MigChanged { enabled: true },
            ]
        );
    }
}
