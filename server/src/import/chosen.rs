//! One reading for each metric of a row.

use leasewatch_core::log_fault::LineFault;
use leasewatch_core::sample::{Metric, Reading};

use super::log::Gatherer;

/// The readings of a row. Some metrics stand in several columns: a number is better than a reason
/// for none, and then the better rank counts.
#[derive(Default)]
pub(super) struct Chosen(Vec<(Metric, u8, Reading)>);

impl Chosen {
    pub(super) fn offer(&mut self, metric: Metric, rank: u8, reading: Reading) {
        let order = |rank: u8, reading: Reading| (reading.number().is_none(), rank);
        match self.0.iter_mut().find(|(known, ..)| *known == metric) {
            Some(best) if order(rank, reading) < order(best.1, best.2) => {
                (best.1, best.2) = (rank, reading);
            }
            Some(_) => {}
            None => self.0.push((metric, rank, reading)),
        }
    }

    /// Drivers sometimes print numbers that cannot be: they are named, and not recorded.
    pub(super) fn readings(
        self,
        gatherer: &mut Gatherer<'_>,
        line: usize,
    ) -> Vec<(Metric, Reading)> {
        let possible = |metric: Metric, reading: Reading| match reading.number() {
            Some(number) => (metric.lowest()..=metric.highest()).contains(&number),
            None => true,
        };
        let mut readings = Vec::with_capacity(self.0.len());
        for (metric, _, reading) in self.0 {
            if possible(metric, reading) {
                readings.push((metric, reading.rounded_to(metric.resolution())));
            } else {
                let number = reading.number().unwrap_or_default();
                gatherer.problem(line, LineFault::Impossible { metric, number });
            }
        }
        readings
    }
}
