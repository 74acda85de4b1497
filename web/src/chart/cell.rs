//! One cell of a strip or a grid: what was measured in a stretch of time, and what was not.

use leasewatch_core::metering::{GapCause, HourRecord, HourState};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Zone};
use serde::Serialize;

use crate::format::{self, Measured, Quantity};
use crate::i18n::{Language, Text, phrase};
use crate::names;
use crate::wire;

/// What is known of one GPU in one stretch of time, usually an hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The stretch.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// Sum of k x (milliseconds at k %).
    pub busy_pct_ms: i64,
    /// Measured time.
    pub measured_ms: i64,
    /// Time that should have been measured; 0 while the node was not enrolled.
    pub enrolled_ms: i64,
    /// Unmeasured enrolled time by cause, `enrolled_ms - measured_ms` in all.
    #[serde(serialize_with = "wire::gaps")]
    pub gaps: Vec<(GapCause, i64)>,
    /// Time in which readings of a GPU under work stood still: a stuck or made-up source.
    pub frozen_ms: i64,
    /// Measured time whose clock was off by 0.5 to 5 s.
    pub clock_flagged_ms: i64,
    /// Whether the record may still change.
    #[serde(serialize_with = "wire::hour_state")]
    pub state: HourState,
    /// Where the data came from.
    #[serde(serialize_with = "wire::origin")]
    pub origin: Origin,
}

impl Cell {
    /// The cell of an hour record.
    #[must_use]
    pub fn of_record(record: &HourRecord, state: HourState) -> Self {
        Self {
            period: record.hour.period(),
            busy_pct_ms: record.histogram.busy_pct_ms(),
            measured_ms: record.measured_ms(),
            enrolled_ms: record.enrolled_ms,
            gaps: record.gaps.iter().collect(),
            frozen_ms: record.frozen_ms,
            clock_flagged_ms: record.clock_flagged_ms,
            state,
            origin: record.origin,
        }
    }

    /// The sums, to be added up.
    #[must_use]
    pub fn measured(&self) -> Measured {
        Measured {
            busy_pct_ms: self.busy_pct_ms,
            measured_ms: self.measured_ms,
            enrolled_ms: self.enrolled_ms,
        }
    }

    /// The colour step of its mean; `None` when nothing was measured.
    #[must_use]
    pub fn step(&self) -> Option<Step> {
        Step::of(self.busy_pct_ms, self.measured_ms)
    }

    /// Its mean utilization in whole percent, as written into a grid cell.
    #[must_use]
    pub fn mean_pct(&self) -> Option<i64> {
        (self.measured_ms > 0)
            .then(|| format::div_half_even(self.busy_pct_ms.into(), self.measured_ms.into()))
    }

    /// Everything the cell shows, as lines of text: local time, mean, coverage, causes, doubts,
    /// state.
    #[must_use]
    pub fn describe(&self, zone: Zone, language: Language) -> String {
        if self.enrolled_ms <= 0 {
            return not_enrolled(self.period, zone, language);
        }
        let mut lines = vec![when(self.period, zone, language)];
        let sums = self.measured();
        lines.push(phrase::cell_mean(language, sums.mean().text(language)));
        lines.push(phrase::cell_coverage(language, sums.coverage().text(language)));
        if let Some((low, high)) = sums.bounds().filter(|_| sums.gap_ms() > 0) {
            lines.push(phrase::cell_bounds(language, high.text(language), low.text(language)));
        }
        for (cause, ms) in self.gaps.iter().filter(|(_, ms)| *ms > 0) {
            lines.push(phrase::cell_gap(
                language,
                names::gap_cause(*cause).words(language),
                Quantity::duration_ms(*ms).text(language),
            ));
        }
        lines.extend(self.doubts(language));
        let state = names::hour_state(self.state).words(language);
        lines.push(match names::origin_mark(self.origin) {
            Some(mark) => phrase::cell_state_origin(language, mark.words(language), state),
            None => state.to_owned(),
        });
        lines.join("\n")
    }

    /// Why measured time should be believed less, one line each.
    fn doubts(&self, language: Language) -> impl Iterator<Item = String> {
        let length = |ms| (ms > 0).then(|| Quantity::duration_ms(ms).text(language));
        let frozen = length(self.frozen_ms).map(|length| phrase::cell_frozen(language, length));
        let clock = length(self.clock_flagged_ms)
            .map(|length| phrase::cell_clock_flagged(language, length));
        frozen.into_iter().chain(clock)
    }
}

/// Lines of text for time in which the node was not enrolled.
pub(super) fn not_enrolled(period: Period, zone: Zone, language: Language) -> String {
    [when(period, zone, language), Text::CellNotEnrolled.words(language).to_owned()].join("\n")
}

fn when(period: Period, zone: Zone, language: Language) -> String {
    phrase::cell_when(
        language,
        format::day(period.start, zone, language),
        format::clock(period.end, zone),
        format::offset(period.start, zone),
        format::clock(period.start, zone),
    )
}

/// A colour step of the busy share. Six, so that neighbours stay distinct in print and for every
/// kind of colour vision; the first is kept for "no kernel ran at all, or hardly".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step(u8);

impl Step {
    /// Every step, by rising share.
    pub const ALL: [Self; 6] = [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5)];

    /// The step of a mean; `None` when nothing was measured.
    #[must_use]
    pub fn of(busy_pct_ms: i64, measured_ms: i64) -> Option<Self> {
        if measured_ms <= 0 {
            return None;
        }
        let at_least = |pct: i128| i128::from(busy_pct_ms) >= i128::from(measured_ms) * pct;
        let step = Self::ALL.iter().rev().find(|step| at_least(step.from_pct().into()));
        Some(step.copied().unwrap_or(Self(0)))
    }

    /// The lowest percentage of the step.
    #[must_use]
    pub fn from_pct(self) -> i64 {
        [0, 1, 20, 40, 60, 80][usize::from(self.0)]
    }

    /// Where the next step begins; 100 for the last one, which holds it.
    #[must_use]
    pub fn to_pct(self) -> i64 {
        [1, 20, 40, 60, 80, 100][usize::from(self.0)]
    }

    /// Its class.
    #[must_use]
    pub fn class(self) -> &'static str {
        ["b0", "b1", "b2", "b3", "b4", "b5"][usize::from(self.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::id::GpuUuid;
    use leasewatch_core::time::{HOUR_MS, Hour};

    #[test]
    fn steps_begin_where_they_say() {
        let class = |pct_ms, ms| Step::of(pct_ms, ms).map(Step::class);
        assert_eq!(class(0, 0), None);
        assert_eq!(class(0, 1_000), Some("b0"));
        assert_eq!(class(999, 1_000), Some("b0"));
        assert_eq!(class(1_000, 1_000), Some("b1"));
        assert_eq!(class(79_999, 1_000), Some("b4"));
        assert_eq!(class(80_000, 1_000), Some("b5"));
        assert_eq!(class(100_000, 1_000), Some("b5"));
    }

    #[test]
    fn a_cell_says_why_it_is_to_be_doubted() {
        let mut record =
            HourRecord::empty(Hour(0), GpuUuid::new("GPU-1").unwrap(), Origin::Measured);
        record.enrolled_ms = HOUR_MS;
        record.histogram.add(97, HOUR_MS);
        let lines = |record: &HourRecord, language| {
            Cell::of_record(record, HourState::Sealed).describe(Zone::UTC, language)
        };
        let plain = lines(&record, Language::En);
        assert!(!plain.contains("did not move") && !plain.contains("clock"), "{plain}");
        record.frozen_ms = 26 * 60_000;
        record.clock_flagged_ms = 9 * 60_000;
        let doubted = lines(&record, Language::En);
        let frozen = "\nvalues did not move for 26 min: stuck or made up\n";
        assert!(doubted.replace('\u{202f}', " ").contains(frozen), "{doubted}");
        let clock = "\nclock of the node off by 0.5 to 5 s for 9 min\n";
        assert!(doubted.replace('\u{202f}', " ").contains(clock), "{doubted}");
        let chinese = lines(&record, Language::ZhCn);
        assert!(chinese.contains("没有变化") && chinese.contains("节点时钟"), "{chinese}");
    }
}
