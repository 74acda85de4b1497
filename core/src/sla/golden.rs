//! Golden cases of the dialects, as one table: from what was seen of a slot to the credit.
//!
//! Each row goes the whole way, from facts to states, what the contract counts, downtime, verdict
//! and credit. Columns:
//!
//! - *objective*: `profile/objective` of a shipped profile; then, in place of its own or the usual,
//!   `target=`, and `charge=` of the unit, the lease and the lease's window before (1000/USD); an
//!   hour costs 2 of the currency;
//! - *window*: a month in the profile's zone;
//! - *contracted*: `all` of it, `d1-d10` (from the first day to the last), `nights off` (08:00 to
//!   20:00 each day), or a length from the window's start;
//! - *down*, *unknown*: `day hh:mm[:ss] length`, the day counted from the window's start in days of
//!   24 hours. `notice 1h`: the tenant's notice that long after the outage began; `claimed 2h`: so
//!   much of its beginning was compensated before. The instance was started with the window and at
//!   `d3 10:00`;
//! - *W*, *proven*, *possible*, *verdict*, *credit*: what comes out; `-` for nothing owed.

mod r094;
mod table;

use super::credit::{Charges, CreditError, credit};
use super::dialect::Filings;
use super::profile::{Objective, Predicate, Profile, shipped};
use super::verdict::{Case, Verdict, judge};
use super::window::{BillingCycle, LeaseTime, Window};
use super::*;
use crate::availability::{
    DownCause, DownEvidence, EvidenceClass, EvidenceSource, Ground, SlotFacts, Stretch,
    StretchContent, evaluate, without,
};
use crate::id::Hash;
use crate::metering::GapCause;
use crate::money::Money;
use crate::time::{DAY_MS, HOUR_MS, Period, Timestamp, Zone};

/// A row of the table.
struct Row<'a> {
    cells: Vec<&'a str>,
}

/// A stretch of a cell, with what stands behind it.
struct Told {
    period: Period,
    notice: Option<Timestamp>,
    claimed: Option<Period>,
}

#[test]
fn the_table_of_dialects() {
    let mut wrong = Vec::new();
    for line in table::ROWS.lines().filter(|line| line.contains('|')).skip(1) {
        let row = Row { cells: line.split('|').map(str::trim).collect() };
        assert_eq!(row.cells.len(), 11, "{line}");
        let (got, expected) = (row.outcome(), &row.cells[6..]);
        if got != *expected {
            wrong.push(format!("{}\n  expected {expected:?}\n  got      {got:?}", row.cells[0]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_has_every_shipped_objective() {
    for (id, text) in shipped() {
        for objective in Profile::parse(text).unwrap().objectives {
            let name = format!("{id}/{}", objective.id);
            assert!(table::ROWS.contains(&format!("| {name} ")), "{name} has no row");
        }
    }
}

impl Row<'_> {
    /// W, proven and possible downtime, verdict and credit.
    fn outcome(&self) -> [String; 5] {
        let objective = self.objective();
        let window = self.window(&objective);
        let verdict = self.verdict(&objective, window);
        [
            length(verdict.whole_ms),
            length(verdict.downtime.proven_ms),
            length(verdict.downtime.possible_ms),
            verdict.outcome.name().to_owned(),
            self.credit(&objective, &verdict),
        ]
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.cells[1].split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn objective(&self) -> Objective {
        let mut objective = shipped_objective(self.cells[1].split(' ').next().unwrap());
        if let Some(target) = self.option("target") {
            objective.target = Some(Target::parse(target).unwrap());
        }
        objective
    }

    fn window(&self, objective: &Objective) -> Window {
        let (month, zone) = self.cells[2].split_once(' ').unwrap();
        let (year, month) = month.split_once('-').unwrap();
        let zone = Zone::parse(zone).unwrap();
        let month = zone.month(year.parse().unwrap(), month.parse().unwrap()).unwrap();
        let lease = LeaseTime { period: month, billing: BillingCycle { day: 1, zone } };
        let windows = objective.window.windows(&lease, month);
        assert_eq!(windows.len(), 1, "{}: name the profile's zone", self.cells[0]);
        windows[0]
    }

    fn verdict(&self, objective: &Objective, window: Window) -> Verdict {
        let down = told(self.cells[4], window.period);
        let unknown: Vec<Period> =
            told(self.cells[5], window.period).into_iter().map(|told| told.period).collect();
        let measured = without(&[window.period], &unknown);
        let stretches = of(&measured, StretchContent::Measured)
            .chain(of(&unknown, StretchContent::Gap(GapCause::Unexplained)));
        let evidence = down.iter().map(|told| DownEvidence {
            period: told.period,
            ground: ground_for(objective),
            source: EvidenceSource { hash: Hash::of(b"probe"), text: "probe".to_owned() },
        });
        let states = evaluate(&SlotFacts {
            contracted: &contracted(self.cells[3], window.period),
            stretches: &stretches.collect::<Vec<_>>(),
            recorded: &measured,
            reachable: &measured,
            observer: &[window.period],
            evidence: &evidence.collect::<Vec<_>>(),
            exclusions: &[],
            notice_lead_ms: None,
        });
        let claimed: Vec<Period> = down.iter().filter_map(|told| told.claimed).collect();
        let notices: Vec<Timestamp> = down.iter().filter_map(|told| told.notice).collect();
        let filings = Filings { claimed: &claimed, notices: &notices };
        let case = Case { objective, window, as_of: window.period.end, filings };
        judge(&case, &[&states])
    }

    fn credit(&self, objective: &Objective, verdict: &Verdict) -> String {
        let Some(rule) = &objective.credit else { return "-".to_owned() };
        let charge = self.option("charge").unwrap_or("1000/USD").replace('/', " ");
        let charge: Money = charge.parse().unwrap();
        let start = verdict.window.period.start;
        let charges = Charges {
            unit: Some(charge),
            lease: Some(charge),
            prior_lease: Some(charge),
            hourly: Some(Money { nanos: 2_000_000_000, currency: charge.currency }),
            starts: &[start, start.plus_ms(2 * DAY_MS + 10 * HOUR_MS)],
        };
        match credit(rule, verdict, &charges) {
            Ok(None) => "-".to_owned(),
            Ok(Some(credit)) => {
                let limits = credit.limits.iter().map(|limit| format!(" {}", limit.name()));
                format!("{}{}", credit.amount, limits.collect::<String>())
            }
            Err(CreditError::Money(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

pub(super) fn shipped_objective(name: &str) -> Objective {
    let (profile, objective) = name.split_once('/').unwrap();
    let text = shipped().iter().find(|(id, _)| *id == profile).unwrap_or_else(|| panic!("{name}"));
    let profile = Profile::parse(text.1).unwrap();
    let found = profile.objectives.into_iter().find(|one| one.id.as_str() == objective);
    found.unwrap_or_else(|| panic!("{name}"))
}

fn of(periods: &[Period], content: StretchContent) -> impl Iterator<Item = Stretch> {
    periods.iter().map(move |period| Stretch { period: *period, content })
}

/// Evidence that the objective's first predicate counts.
fn ground_for(objective: &Objective) -> Ground {
    let (class, cause) = match objective.downtime.predicates[0] {
        Predicate::Connectivity | Predicate::Unusable => {
            (EvidenceClass::E4, DownCause::Connectivity)
        }
        Predicate::Disk => (EvidenceClass::E5, DownCause::Disk),
        Predicate::GpuLost | Predicate::GpuCount => (EvidenceClass::E5, DownCause::GpuLost),
        Predicate::Fabric => (EvidenceClass::E1, DownCause::Fabric),
        Predicate::Hardware => (EvidenceClass::E5, DownCause::Hardware),
        Predicate::Throttle => (EvidenceClass::E1, DownCause::Throttle),
    };
    Ground { class, cause }
}

fn contracted(cell: &str, window: Period) -> Vec<Period> {
    let day = |number: i64| window.start.plus_ms((number - 1) * DAY_MS);
    if cell == "all" {
        return vec![window];
    }
    if cell == "nights off" {
        let hours = |number| {
            Period::new(day(number).plus_ms(8 * HOUR_MS), day(number).plus_ms(20 * HOUR_MS))
        };
        return (1..=31).map(hours).filter(|session| session.end <= window.end).collect();
    }
    if let Some((first, last)) = cell.split_once('-') {
        let number = |text: &str| text.strip_prefix('d').unwrap().parse::<i64>().unwrap();
        return vec![Period::new(day(number(first)), day(number(last) + 1))];
    }
    vec![Period::new(window.start, window.start.plus_ms(length_ms(cell)))]
}

fn told(cell: &str, window: Period) -> Vec<Told> {
    let one = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let day = words[0].strip_prefix('d').unwrap().parse::<i64>().unwrap();
        let clock: Vec<i64> = words[1].split(':').map(|part| part.parse().unwrap()).collect();
        let seconds = clock[0] * 3_600 + clock[1] * 60 + clock.get(2).unwrap_or(&0);
        let start = window.start.plus_ms((day - 1) * DAY_MS + seconds * 1_000);
        let after = |name| words.iter().position(|word| *word == name).map(|at| words[at + 1]);
        Told {
            period: Period::new(start, start.plus_ms(length_ms(words[2]))),
            notice: after("notice").map(|text| start.plus_ms(length_ms(text))),
            claimed: after("claimed")
                .map(|text| Period::new(start, start.plus_ms(length_ms(text)))),
        }
    };
    cell.split(',').map(str::trim).filter(|text| !text.is_empty()).map(one).collect()
}

const UNITS: [(&str, i64); 4] = [("h", HOUR_MS), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// `7h20m`, `59s`, `1ms`.
fn length_ms(text: &str) -> i64 {
    let mut rest = text;
    let mut sum = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
        let letters = rest[digits..].find(|c: char| c.is_ascii_digit());
        let end = letters.map_or(rest.len(), |letters| digits + letters);
        let (_, unit_ms) = UNITS.iter().find(|(unit, _)| *unit == &rest[digits..end]).unwrap();
        sum += rest[..digits].parse::<i64>().unwrap() * unit_ms;
        rest = &rest[end..];
    }
    sum
}

/// The same, in its shortest form; `0` for none.
fn length(ms: i64) -> String {
    let mut rest = ms;
    let mut text = String::new();
    for (unit, unit_ms) in UNITS {
        if rest / unit_ms > 0 {
            text.push_str(&format!("{}{unit}", rest / unit_ms));
        }
        rest %= unit_ms;
    }
    if text.is_empty() { "0".to_owned() } else { text }
}
