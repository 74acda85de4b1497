//! The hour that a local clock shows twice when it is set back.
//!
//! A log is written in one go, so its order tells the two passes apart: rows follow each other, and
//! where the clock was set back, its reading falls by just that much. A row whose pass that does
//! not show is not guessed at. Not here: which readings are in such an hour (`core::time`).

use leasewatch_core::time::{DAY_MS, Timestamp};

use crate::import::log::LoggedRow;

/// One pass through the repeated hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    First,
    Second,
}

/// Rows that follow each other within one pass.
#[derive(Debug)]
struct Stretch {
    from: usize,
    to: usize,
    /// What speaks for the passes.
    seen: [bool; 2],
}

impl Stretch {
    fn is_of(&mut self, pass: Pass) {
        self.seen[usize::from(pass == Pass::Second)] = true;
    }

    /// `None` when nothing shows it, or one thing this and one that: a log that runs through the
    /// hour just once is of another zone.
    fn pass(&self) -> Option<Pass> {
        match self.seen {
            [true, false] => Some(Pass::First),
            [false, true] => Some(Pass::Second),
            _ => None,
        }
    }
}

/// The instants of one GPU's rows, in the order of the log. `rows` have the first instant of each,
/// `seconds` the later one where there are two.
pub(super) fn instants(
    rows: &[LoggedRow],
    seconds: &[Option<Timestamp>],
) -> Vec<Option<Timestamp>> {
    let fold = Fold { rows, seconds, reach_ms: reach_ms(rows) };
    let mut stretches = fold.stretches();
    deduce(&mut stretches, rows);
    let mut instants: Vec<_> = rows.iter().map(|row| Some(row.at)).collect();
    for stretch in &stretches {
        for index in stretch.from..=stretch.to {
            instants[index] = match stretch.pass() {
                Some(Pass::First) => Some(rows[index].at),
                Some(Pass::Second) => seconds[index],
                None => None,
            };
        }
    }
    instants
}

struct Fold<'a> {
    rows: &'a [LoggedRow],
    seconds: &'a [Option<Timestamp>],
    /// Rows that are at most so far apart follow each other.
    reach_ms: i64,
}

impl Fold<'_> {
    fn stretches(&self) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for (index, second) in self.seconds.iter().enumerate() {
            let before = index.checked_sub(1);
            let open = before.filter(|before| self.seconds[*before].is_some());
            match (second, open.and(stretches.last_mut())) {
                (None, Some(last)) if self.follows(self.seconds[last.to], index) => {
                    last.is_of(Pass::Second);
                }
                (None, _) => {}
                (Some(_), Some(last)) => {
                    let next = self.go_on(last, index);
                    stretches.extend(next);
                }
                (Some(_), None) => {
                    let mut stretch = Stretch { from: index, to: index, seen: [false; 2] };
                    if self.follows(before.map(|before| self.rows[before].at), index) {
                        stretch.is_of(Pass::First);
                    }
                    stretches.push(stretch);
                }
            }
        }
        stretches
    }

    /// Takes a row into the stretch before it, or begins a new one.
    fn go_on(&self, last: &mut Stretch, index: usize) -> Option<Stretch> {
        let step = self.rows[index].at.since(self.rows[last.to].at);
        let fallen_to = step + self.shift_ms(index);
        // A reading that stands still is a row that was written again.
        if step == 0 || (step > 0 && (step <= self.reach_ms || self.is_sparse(index))) {
            last.to = index;
            return None;
        }
        let mut stretch = Stretch { from: index, to: index, seen: [false; 2] };
        if step < 0 && (1..=self.reach_ms).contains(&fallen_to) {
            last.is_of(Pass::First);
            stretch.is_of(Pass::Second);
        }
        Some(stretch)
    }

    /// True when the row comes right after another one. Nothing does where rows lie as far apart
    /// as the clock was set back.
    fn follows(&self, before: Option<Timestamp>, index: usize) -> bool {
        let near = |before| (1..=self.reach_ms).contains(&self.rows[index].at.since(before));
        let in_fold = if self.seconds[index].is_some() { index } else { index.saturating_sub(1) };
        !self.is_sparse(in_fold) && before.is_some_and(near)
    }

    fn is_sparse(&self, index: usize) -> bool {
        self.reach_ms >= self.shift_ms(index)
    }

    /// How far the clock was set back.
    fn shift_ms(&self, index: usize) -> i64 {
        self.seconds[index].map_or(0, |second| second.since(self.rows[index].at))
    }
}

/// Fewer distances than that show nothing: at the fold itself two can be wrong.
const STEPS_MIN: usize = 5;

/// Three times the usual distance of two rows: what metering calls no gap.
fn reach_ms(rows: &[LoggedRow]) -> i64 {
    let steps = rows.windows(2).map(|pair| pair[1].at.since(pair[0].at));
    let mut steps: Vec<i64> = steps.filter(|step| *step > 0).collect();
    steps.sort_unstable();
    let usual = steps.get(steps.len() / 2).filter(|_| steps.len() >= STEPS_MIN);
    usual.map_or(0, |step| step.saturating_mul(3))
}

/// Nothing comes before a first pass but what is of it, and nothing after a second one: what lies
/// between rows that cannot be used belongs to its neighbours.
fn deduce(stretches: &mut [Stretch], rows: &[LoggedRow]) {
    let ascends = |a: &Stretch, b: &Stretch| {
        // Two of one fold: those of another year lie further apart.
        (1..DAY_MS).contains(&rows[b.from].at.since(rows[a.to].at))
    };
    for index in 1..stretches.len() {
        let (before, rest) = stretches.split_at_mut(index);
        let (before, next) = (&before[index - 1], &mut rest[0]);
        if before.pass() == Some(Pass::Second) && next.seen == [false; 2] && ascends(before, next) {
            next.is_of(Pass::Second);
        }
    }
    for index in (1..stretches.len()).rev() {
        let (before, rest) = stretches.split_at_mut(index);
        let (before, next) = (&mut before[index - 1], &rest[0]);
        if next.pass() == Some(Pass::First) && before.seen == [false; 2] && ascends(before, next) {
            before.is_of(Pass::First);
        }
    }
}

#[cfg(test)]
mod tests {
    use leasewatch_core::sample::Reading;
    use leasewatch_core::time::{HOUR_MS, Zone};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const ZONES: [&str; 8] = [
        "Europe/Berlin",
        "America/Los_Angeles",
        "America/New_York",
        "America/Sao_Paulo",
        "Australia/Sydney",
        "Australia/Lord_Howe",
        "Europe/Moscow",
        "Antarctica/Troll",
    ];

    fn offset_ms(zone: Zone, at: Timestamp) -> i64 {
        i64::from(zone.local(at).unwrap().offset_s) * 1_000
    }

    /// When the zone's clock was set back for the last time before 2026, and by how much.
    fn fold(zone: Zone) -> (Timestamp, i64) {
        let mut end = Timestamp::parse_iso("2026-01-01T00:00:00Z").unwrap();
        let set_back = |from: Timestamp, to| offset_ms(zone, from) - offset_ms(zone, to);
        while set_back(end.plus_ms(-DAY_MS), end) <= 0 {
            end = end.plus_ms(-DAY_MS);
        }
        let day = (0..48).map(|half_hour| end.plus_ms(-DAY_MS + half_hour * HOUR_MS / 2));
        let before = day.rev().find(|at| set_back(*at, end) > 0).unwrap();
        (before.plus_ms(HOUR_MS / 2), set_back(before, end))
    }

    /// What a log of these times shows, read again.
    fn read_back(times: &[Timestamp], zone: Zone) -> Vec<Option<Timestamp>> {
        let read: Vec<_> = times
            .iter()
            .map(|at| zone.instants_of_local_ms(at.0 + offset_ms(zone, *at)).unwrap())
            .collect();
        let row = |at| LoggedRow { at, busy: Reading::Number(1), readings: Vec::new() };
        let rows: Vec<_> = read.iter().map(|instants| row(instants.first)).collect();
        let seconds: Vec<_> = read.iter().map(|instants| instants.second).collect();
        instants(&rows, &seconds)
    }

    /// Times at a cadence with jitter, from before the fold on.
    fn times(start: Timestamp, end: Timestamp, cadence: i64, jitter: &[i64]) -> Vec<Timestamp> {
        let ticks = (0..).map(|tick| start.plus_ms(tick * cadence));
        let jitter = jitter.iter().cycle().map(|percent| percent * cadence / 400);
        ticks.zip(jitter).map(|(at, by)| at.plus_ms(by)).take_while(|at| *at < end).collect()
    }

    #[test]
    fn folds_are_where_they_were() {
        let at = |name| {
            let (at, shift) = fold(Zone::parse(name).unwrap());
            (at.to_string(), shift / 60_000)
        };
        assert_eq!(at("Europe/Berlin"), ("2025-10-26T01:00:00.000Z".to_owned(), 60));
        assert_eq!(at("Australia/Lord_Howe"), ("2025-04-05T15:00:00.000Z".to_owned(), 30));
        assert_eq!(at("Antarctica/Troll"), ("2025-10-26T01:00:00.000Z".to_owned(), 120));
    }

    #[test]
    fn a_log_that_lies_within_the_hour_is_not_guessed_at() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let (fold, shift) = fold(zone);
        let within = times(fold.plus_ms(-shift / 2), fold.plus_ms(-60_000), 1_000, &[0]);
        assert!(read_back(&within, zone).iter().all(Option::is_none));
        // Two rows, 65 minutes apart, one of them in the second pass.
        let few = times(fold.plus_ms(-3_636_000), fold.plus_ms(300_000), 3_888_000, &[0]);
        assert_eq!(read_back(&few, zone), [Some(few[0]), None]);
        // The clock of the node was in another zone: it ran through the hour once.
        let once = times(fold.plus_ms(-2 * shift), fold, 1_000, &[0]);
        let after = times(fold.plus_ms(shift), fold.plus_ms(2 * shift), 1_000, &[0]);
        let found = read_back(&[once, after].concat(), zone);
        assert_eq!(found.iter().filter(|at| at.is_none()).count(), 3_600);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(250))]

        #[test]
        fn a_log_through_the_hour_keeps_every_row(
            name in select(&ZONES[..]),
            percent in 1_i64..=50,
            phase in 0_i64..1_000,
            jitter in prop::collection::vec(0_i64..100, 1..20),
        ) {
            let zone = Zone::parse(name).unwrap();
            let (fold, shift) = fold(zone);
            let cadence = shift * percent / 100;
            let start = fold.plus_ms(-2 * shift - cadence * phase / 1_000);
            let written = times(start, fold.plus_ms(2 * shift), cadence, &jitter);
            let expected: Vec<_> = written.iter().copied().map(Some).collect();
            prop_assert_eq!(read_back(&written, zone), expected);
        }

        #[test]
        fn whatever_is_cut_out_or_written_twice_no_row_is_put_into_the_wrong_pass(
            name in select(&ZONES[..]),
            cadence_s in 1_i64..7_200,
            window in (-250_i64..100, 0_i64..350),
            pause in (-200_i64..200, 0_i64..80),
            again in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
            lost in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let zone = Zone::parse(name).unwrap();
            let (fold, shift) = fold(zone);
            let cadence = (cadence_s * 1_000).max(shift / 500);
            let start = fold.plus_ms(window.0 * shift / 100);
            let mut written = times(start, start.plus_ms(window.1 * shift / 100), cadence, &[0]);
            // A pause as long as the clock was set back cannot be told from none.
            let is_told = pause.1 * shift / 100 + 8 * cadence < shift;
            let stop = fold.plus_ms(pause.0 * shift / 100);
            let go = stop.plus_ms(if is_told { pause.1 * shift / 100 } else { 0 });
            written.retain(|at| *at < stop || go <= *at);
            for index in lost.iter().filter(|_| 8 * cadence < shift) {
                if !written.is_empty() {
                    written.remove(index.index(written.len()));
                }
            }
            for index in &again {
                if !written.is_empty() {
                    let at = index.index(written.len());
                    written.insert(at, written[at]);
                }
            }
            for (found, at) in read_back(&written, zone).iter().zip(&written) {
                prop_assert!(found.is_none_or(|found| found == *at), "{found:?} is {at}");
            }
        }
    }
}
