//! Claims: deadlines, and the way from a draft to the provider's answer.
//!
//! The tenant must claim, quickly, with own logs. A deadline is the earliest reading of the
//! contract's rule: so many days after an instant end at the same local clock time. Not here: the
//! claim's text.

use crate::availability::named;
use crate::money::Money;
use crate::time::{DAY_MS, Period, Timestamp, Zone};

use super::window::BillingCycle;

/// How long the tenant has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineRule {
    /// So many days after something.
    Days {
        /// How many.
        days: u32,
        /// After what.
        after: DeadlineStart,
    },
    /// Until the end of the n-th billing cycle after the one that holds the incident.
    BillingCycles {
        /// How many cycles.
        cycles: u32,
    },
    /// So many months after the end of the billing month that holds the incident.
    MonthsAfterBillingMonth {
        /// How many months.
        months: u32,
    },
    /// The contract names none, or it is not known.
    NotStated,
}

named! {
    /// What a deadline in days counts from.
    DeadlineStart {
        /// The end of the incident.
        Incident = "incident",
        /// The end of the window that was judged.
        PeriodEnd = "period_end",
        /// The tenant's notice, which starts the clock; until it is sent, the incident.
        Notice = "notice",
    }
}

/// What a deadline is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlineFacts {
    /// The end of the incident; of several, of the first, whose deadline is the earliest.
    pub incident_end: Timestamp,
    /// The window that was judged.
    pub window: Period,
    /// When the tenant's notice was sent.
    pub notified_at: Option<Timestamp>,
    /// How the lease is billed; its zone is the deadline's.
    pub billing: BillingCycle,
}

/// A claim: what the tenant files, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Where it stands.
    pub state: ClaimState,
    /// What is asked for.
    pub asked: Money,
    /// When the provider was first told of the incident.
    pub notified_at: Option<Timestamp>,
    /// When it was filed.
    pub filed_at: Option<Timestamp>,
    /// When the answer came.
    pub answered_at: Option<Timestamp>,
}

/// Where a claim stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimState {
    /// Made, and nobody was told.
    Draft,
    /// The provider knows of the incident; the claim itself was not filed.
    Notified,
    /// Filed, and not answered.
    Filed,
    /// The provider pays.
    Accepted {
        /// How much; it may be less than was asked.
        amount: Money,
    },
    /// The provider does not.
    Refused {
        /// Its reason, as it was given.
        reason: String,
    },
    /// The tenant gave it up.
    Withdrawn,
}

/// What happens to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimStep {
    /// The provider is told of the incident.
    Notify,
    /// The claim is filed.
    File,
    /// The provider pays this much.
    Accept(Money),
    /// The provider refuses, with its reason.
    Refuse(String),
    /// The tenant gives it up before it was answered.
    Withdraw,
}

/// Why a step cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The step does not follow from the state.
    #[error("a claim that is {state} cannot be {step}")]
    Order {
        /// Where the claim stands.
        state: &'static str,
        /// What was to happen.
        step: &'static str,
    },
    /// It would lie before the step that came before.
    #[error("a step cannot lie before the one before it, at {0}")]
    Earlier(Timestamp),
    /// The answer is in another currency than what was asked.
    #[error("the answer is in another currency than the claim")]
    Currency,
    /// A refusal needs the provider's reason.
    #[error("a refusal needs the provider's reason")]
    NoReason,
}

named! {
    /// How near a deadline is. Shown everywhere from seven days ahead.
    Urgency {
        /// More than seven days ahead.
        Later = "later",
        /// Seven days ahead, or less.
        Week = "week",
        /// Three days ahead, or less.
        Days = "days",
        /// One day ahead, or less.
        Day = "day",
        /// Over.
        Missed = "missed",
    }
}

impl DeadlineRule {
    /// The last instant at which a claim is in time; `None` where no rule is stated, or calendars
    /// end.
    #[must_use]
    pub fn deadline(self, facts: &DeadlineFacts) -> Option<Timestamp> {
        match self {
            Self::Days { days, after } => {
                let start = match after {
                    DeadlineStart::Incident => facts.incident_end,
                    DeadlineStart::PeriodEnd => facts.window.end,
                    DeadlineStart::Notice => facts.notified_at.unwrap_or(facts.incident_end),
                };
                days_from(facts.billing.zone, start, i64::from(days))
            }
            // Cycles begin on one day of the month, so months after the end of one are cycles too.
            Self::BillingCycles { cycles: count }
            | Self::MonthsAfterBillingMonth { months: count } => {
                // An incident that ends with a cycle happened in it.
                let own = facts.billing.at(facts.incident_end.plus_ms(-1))?;
                (0..count).try_fold(own.end, |end, _| Some(facts.billing.at(end)?.end))
            }
            Self::NotStated => None,
        }
    }
}

/// The same local clock time so many days later, or earlier.
fn days_from(zone: Zone, at: Timestamp, days: i64) -> Option<Timestamp> {
    let local_ms = at.plus_ms(i64::from(zone.local(at)?.offset_s) * 1_000).0;
    zone.instant_of_local_ms(local_ms.checked_add(days.checked_mul(DAY_MS)?)?)
}

impl Urgency {
    /// How near `deadline` is at `now`. A day ends at the same local clock time of `zone`, as the
    /// days of the deadline do.
    #[must_use]
    pub fn of(zone: Zone, deadline: Timestamp, now: Timestamp) -> Self {
        let near = [Self::Missed, Self::Day, Self::Days, Self::Week];
        let is_near = |one: &Self| one.since(zone, deadline).is_some_and(|since| since <= now);
        near.into_iter().find(is_near).unwrap_or(Self::Later)
    }

    /// When a deadline becomes this near; `None` for [`Self::Later`], or where calendars end.
    #[must_use]
    pub fn since(self, zone: Zone, deadline: Timestamp) -> Option<Timestamp> {
        let days = match self {
            Self::Later => return None,
            Self::Week => 7,
            Self::Days => 3,
            Self::Day => 1,
            Self::Missed => return Some(deadline.plus_ms(1)),
        };
        days_from(zone, deadline, -days)
    }
}

impl Claim {
    /// A draft that asks for this much.
    #[must_use]
    pub fn draft(asked: Money) -> Self {
        let state = ClaimState::Draft;
        Self { state, asked, notified_at: None, filed_at: None, answered_at: None }
    }

    /// What it becomes when `step` happens at `at`. Filing tells the provider, if nobody did
    /// before.
    ///
    /// # Errors
    /// [`ClaimError`] for a step that does not follow, lies before the one before it, or lacks
    /// what it needs.
    pub fn step(&self, step: ClaimStep, at: Timestamp) -> Result<Self, ClaimError> {
        if let Some(last) = self.filed_at.or(self.notified_at).filter(|last| at < *last) {
            return Err(ClaimError::Earlier(last));
        }
        let mut next = self.clone();
        next.state = match (&self.state, step) {
            (ClaimState::Draft, ClaimStep::Notify) => {
                next.notified_at = Some(at);
                ClaimState::Notified
            }
            (ClaimState::Draft | ClaimState::Notified, ClaimStep::File) => {
                next.notified_at = self.notified_at.or(Some(at));
                next.filed_at = Some(at);
                ClaimState::Filed
            }
            (ClaimState::Filed, ClaimStep::Accept(amount)) => {
                if amount.currency != self.asked.currency {
                    return Err(ClaimError::Currency);
                }
                next.answered_at = Some(at);
                ClaimState::Accepted { amount }
            }
            (ClaimState::Filed, ClaimStep::Refuse(reason)) => {
                if reason.trim().is_empty() {
                    return Err(ClaimError::NoReason);
                }
                next.answered_at = Some(at);
                ClaimState::Refused { reason }
            }
            (ClaimState::Draft | ClaimState::Notified | ClaimState::Filed, ClaimStep::Withdraw) => {
                ClaimState::Withdrawn
            }
            (state, step) => {
                return Err(ClaimError::Order { state: state.name(), step: step.name() });
            }
        };
        Ok(next)
    }
}

impl ClaimState {
    /// Whether its intervals are taken: another claim for one of them would ask twice.
    #[must_use]
    pub fn holds(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Withdrawn)
    }

    /// Whether its deadline still runs: it is neither filed nor given up.
    #[must_use]
    pub fn is_due(&self) -> bool {
        matches!(self, Self::Draft | Self::Notified)
    }

    /// `draft`, `notified`, `filed`, `accepted`, `refused` or `withdrawn`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Notified => "notified",
            Self::Filed => "filed",
            Self::Accepted { .. } => "accepted",
            Self::Refused { .. } => "refused",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl ClaimStep {
    fn name(&self) -> &'static str {
        match self {
            Self::Notify => "notified",
            Self::File => "filed",
            Self::Accept(_) => "accepted",
            Self::Refuse(_) => "refused",
            Self::Withdraw => "withdrawn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    fn facts(incident_end: &str, zone: &str) -> DeadlineFacts {
        let zone = Zone::parse(zone).unwrap();
        let window = zone.month(2026, 3).unwrap();
        let billing = BillingCycle { day: 1, zone };
        DeadlineFacts { incident_end: at(incident_end), window, notified_at: None, billing }
    }

    #[test]
    fn deadlines_of_every_rule() {
        let facts = facts("2026-03-20T09:00:00Z", "UTC");
        let days = |days, after| DeadlineRule::Days { days, after };
        for (rule, expected) in [
            (days(3, DeadlineStart::Incident), Some("2026-03-23T09:00:00Z")),
            (days(60, DeadlineStart::Incident), Some("2026-05-19T09:00:00Z")),
            (days(14, DeadlineStart::PeriodEnd), Some("2026-04-15T00:00:00Z")),
            (days(14, DeadlineStart::Notice), Some("2026-04-03T09:00:00Z")),
            // The incident's cycle is March; the second after it is May.
            (DeadlineRule::BillingCycles { cycles: 2 }, Some("2026-06-01T00:00:00Z")),
            (DeadlineRule::MonthsAfterBillingMonth { months: 2 }, Some("2026-06-01T00:00:00Z")),
            (DeadlineRule::NotStated, None),
        ] {
            assert_eq!(rule.deadline(&facts), expected.map(at), "{rule:?}");
        }
        let told = DeadlineFacts { notified_at: Some(at("2026-03-21T12:00:00Z")), ..facts };
        let rule = days(14, DeadlineStart::Notice);
        assert_eq!(rule.deadline(&told), Some(at("2026-04-04T12:00:00Z")));
    }

    #[test]
    fn days_end_at_the_same_local_clock_time() {
        // Two days over the change of the clock in Los Angeles have 47 hours.
        let facts = facts("2026-03-07T20:00:00Z", "America/Los_Angeles");
        let rule = DeadlineRule::Days { days: 2, after: DeadlineStart::Incident };
        assert_eq!(rule.deadline(&facts), Some(at("2026-03-09T19:00:00Z")));
    }

    #[test]
    fn an_incident_that_ends_with_a_cycle_is_of_that_cycle() {
        let facts = facts("2026-04-01T00:00:00Z", "UTC");
        let rule = DeadlineRule::BillingCycles { cycles: 1 };
        assert_eq!(rule.deadline(&facts), Some(at("2026-05-01T00:00:00Z")));
    }

    #[test]
    fn urgency_changes_seven_three_and_one_day_ahead() {
        let deadline = at("2026-03-20T09:00:00Z");
        for urgency in [Urgency::Week, Urgency::Days, Urgency::Day, Urgency::Missed] {
            let since = urgency.since(Zone::UTC, deadline).unwrap();
            assert_eq!(Urgency::of(Zone::UTC, deadline, since), urgency);
            assert!(Urgency::of(Zone::UTC, deadline, since.plus_ms(-1)) < urgency);
        }
        assert_eq!(Urgency::of(Zone::UTC, deadline, deadline), Urgency::Day);
        assert_eq!(Urgency::Later.since(Zone::UTC, deadline), None);
        // The clock of Los Angeles went forward on 8 March 2026: three days before noon of the 10th
        // are 71 hours, one day before it 24.
        let zone = Zone::parse("America/Los_Angeles").unwrap();
        let noon = at("2026-03-10T19:00:00Z");
        assert_eq!(Urgency::Days.since(zone, noon), Some(at("2026-03-07T20:00:00Z")));
        assert_eq!(Urgency::Day.since(zone, noon), Some(at("2026-03-09T19:00:00Z")));
    }

    #[test]
    fn a_claim_goes_forward_alone() {
        let amount = |text: &str| text.parse::<Money>().unwrap();
        let draft = Claim::draft(amount("100 USD"));
        let step = |claim: &Claim, step, ms| claim.step(step, Timestamp(ms));
        let notified = step(&draft, ClaimStep::Notify, 10).unwrap();
        let filed = step(&notified, ClaimStep::File, 20).unwrap();
        let paid = step(&filed, ClaimStep::Accept(amount("60 USD")), 30).unwrap();
        assert_eq!(paid.state, ClaimState::Accepted { amount: amount("60 USD") });
        let times = (paid.notified_at, paid.filed_at, paid.answered_at);
        assert_eq!(times, (Some(Timestamp(10)), Some(Timestamp(20)), Some(Timestamp(30))));
        let at_once = step(&draft, ClaimStep::File, 20).unwrap();
        assert_eq!(at_once.notified_at, Some(Timestamp(20)));
        let reason = "maintenance was announced".to_owned();
        let refused = step(&filed, ClaimStep::Refuse(reason), 30).unwrap();

        assert_eq!(step(&filed, ClaimStep::File, 5), Err(ClaimError::Earlier(Timestamp(20))));
        assert_eq!(step(&filed, ClaimStep::Refuse(" ".to_owned()), 30), Err(ClaimError::NoReason));
        assert_eq!(
            step(&filed, ClaimStep::Accept(amount("60 CNY")), 30),
            Err(ClaimError::Currency)
        );
        let withdrawn = step(&filed, ClaimStep::Withdraw, 30).unwrap();
        assert!(!withdrawn.state.holds() && !refused.state.holds());
        assert!(draft.state.holds() && filed.state.holds() && paid.state.holds());
        assert!(draft.state.is_due() && notified.state.is_due() && !filed.state.is_due());

        for (claim, wrong) in [
            (&withdrawn, ClaimStep::File),
            (&paid, ClaimStep::Withdraw),
            (&draft, ClaimStep::Accept(amount("1 USD"))),
            (&notified, ClaimStep::Notify),
            (&filed, ClaimStep::Notify),
            (&paid, ClaimStep::File),
            (&refused, ClaimStep::Accept(amount("1 USD"))),
        ] {
            assert!(matches!(step(claim, wrong, 40), Err(ClaimError::Order { .. })));
        }
    }
}
