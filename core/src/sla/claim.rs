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
                days_later(facts.billing.zone, start, days)
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

/// The same local clock time so many days later.
fn days_later(zone: Zone, at: Timestamp, days: u32) -> Option<Timestamp> {
    let local_ms = at.plus_ms(i64::from(zone.local(at)?.offset_s) * 1_000).0;
    zone.instant_of_local_ms(local_ms.checked_add(i64::from(days) * DAY_MS)?)
}

impl Urgency {
    /// How near `deadline` is at `now`.
    #[must_use]
    pub fn of(deadline: Timestamp, now: Timestamp) -> Self {
        let left_ms = deadline.since(now);
        match () {
            () if left_ms < 0 => Self::Missed,
            () if left_ms <= DAY_MS => Self::Day,
            () if left_ms <= 3 * DAY_MS => Self::Days,
            () if left_ms <= 7 * DAY_MS => Self::Week,
            () => Self::Later,
        }
    }

    /// When a deadline becomes this near; `None` for [`Self::Later`].
    #[must_use]
    pub fn since(self, deadline: Timestamp) -> Option<Timestamp> {
        let days = match self {
            Self::Later => return None,
            Self::Week => 7,
            Self::Days => 3,
            Self::Day => 1,
            Self::Missed => return Some(deadline.plus_ms(1)),
        };
        Some(deadline.plus_ms(-days * DAY_MS))
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
            (state, step) => {
                return Err(ClaimError::Order { state: state.name(), step: step.name() });
            }
        };
        Ok(next)
    }
}

impl ClaimState {
    /// `draft`, `notified`, `filed`, `accepted` or `refused`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Notified => "notified",
            Self::Filed => "filed",
            Self::Accepted { .. } => "accepted",
            Self::Refused { .. } => "refused",
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
        }
    }
}
