//! Which metrics a GPU does not offer, so that they are not asked for at each tick.

use leasewatch_core::sample::Metric;

/// After this long a metric is asked for again: a driver update, a mode change or a permission may
/// have brought it.
const RETRY_MS: i64 = 300_000;

/// By metric code: until when it is not asked for.
#[derive(Debug)]
pub(super) struct Permanent([Option<i64>; 256]);

impl Default for Permanent {
    fn default() -> Self {
        Self([None; 256])
    }
}

impl Permanent {
    pub(super) fn holds(&self, metric: Metric, now_boot_ms: i64) -> bool {
        self.0[usize::from(metric.code())].is_some_and(|until| now_boot_ms < until)
    }

    pub(super) fn remember(&mut self, metric: Metric, now_boot_ms: i64) {
        self.0[usize::from(metric.code())] = Some(now_boot_ms.saturating_add(RETRY_MS));
    }

    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_left_alone_for_a_while_only() {
        let mut permanent = Permanent::default();
        assert!(!permanent.holds(Metric::FanSpeed, 0));
        permanent.remember(Metric::FanSpeed, 1_000);
        assert!(permanent.holds(Metric::FanSpeed, 300_999));
        assert!(!permanent.holds(Metric::FanSpeed, 301_000));
        assert!(!permanent.holds(Metric::Energy, 1_000));
        permanent.remember(Metric::FanSpeed, 301_000);
        permanent.forget_all();
        assert!(!permanent.holds(Metric::FanSpeed, 301_001));
    }
}
