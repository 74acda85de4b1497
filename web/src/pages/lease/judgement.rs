//! What was judged of a lease: the states of its days, and verdicts.

use leasewatch_core::sla::budget::{BurnState, Severity};
use leasewatch_core::sla::verdict::{Outcome, Remedy};
use leasewatch_core::time::{Period, Timestamp};
use serde::{Serialize, Serializer};

use crate::i18n::Text;
use crate::wire;

/// Everything that was judged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct JudgementView {
    /// Days of the page's zone with contracted time, in order. An hour counts to the day that it
    /// begins in.
    pub days: Vec<DayStates>,
    /// The last revision of each verdict, the latest window first.
    pub verdicts: Vec<VerdictLine>,
    /// Error budgets of the windows that run.
    pub budgets: Vec<BudgetLine>,
    /// Up to where hours were judged; `None` where none was.
    #[serde(serialize_with = "wire::maybe_at")]
    pub judged_until: Option<Timestamp>,
}

/// The error budget of a window that runs, and how fast it burns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BudgetLine {
    /// By the provider's profile; otherwise by own objectives.
    pub is_contract: bool,
    /// The objective's name in its profile.
    pub objective: String,
    /// What is down or up as one.
    pub unit: UnitName,
    /// The window.
    #[serde(serialize_with = "wire::period")]
    pub window: Period,
    /// What was promised, in ppm.
    pub target_ppm: u32,
    /// How much may be down in all of the window, if all of it stays contracted.
    pub allowed_ms: i64,
    /// How much may be down in the part that is over.
    pub allowed_so_far_ms: i64,
    /// Proven downtime so far.
    pub spent_ms: i64,
    /// Downtime so far if all unknown time had been down.
    pub possibly_spent_ms: i64,
    /// What each pair of windows says.
    pub burns: Vec<BurnLine>,
}

/// What a pair of windows says of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BurnLine {
    /// The long window, in ms.
    pub long_ms: i64,
    /// The short one, in ms.
    pub short_ms: i64,
    /// `page` or `ticket`.
    #[serde(serialize_with = "severity")]
    pub severity: Severity,
    /// `fast`, `slow`, `no_data` or `not_contracted`.
    #[serde(serialize_with = "burn_state")]
    pub state: BurnState,
    /// Burn over the long window; 1,000,000 is a budget that lasts exactly the window.
    pub long_ppm: Option<i64>,
    /// The same over the short one.
    pub short_ppm: Option<i64>,
    /// The share of the short window that is known, in ppm.
    pub short_coverage_ppm: Option<i64>,
}

/// The claim of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClaimMark {
    /// Its number.
    pub number: i32,
    /// Where it stands: a name of `core::sla::claim::ClaimState`.
    pub state: &'static str,
}

/// Contracted time of one day, of all slots together, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DayStates {
    /// The day's beginning.
    #[serde(serialize_with = "wire::at")]
    pub starts_at: Timestamp,
    /// Shown to have worked.
    pub up_ms: i64,
    /// Shown not to have worked.
    pub down_ms: i64,
    /// Neither is shown.
    pub unknown_ms: i64,
    /// Taken out of the account.
    pub excluded_ms: i64,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictLine {
    /// By the provider's profile; otherwise by own objectives.
    pub is_contract: bool,
    /// The objective's name in its profile.
    pub objective: String,
    /// What is down or up as one.
    pub unit: UnitName,
    /// The window.
    #[serde(serialize_with = "wire::period")]
    pub window: Period,
    /// Whether the window is over.
    pub is_over: bool,
    /// The answer.
    #[serde(serialize_with = "outcome")]
    pub outcome: Outcome,
    /// What was promised, in ppm.
    pub target_ppm: Option<u32>,
    /// What downtime is divided by.
    pub whole_ms: i64,
    /// How much of it may be down.
    pub allowed_ms: Option<i64>,
    /// Downtime by what is proven.
    pub proven_ms: i64,
    /// The same if all unknown time had been down.
    pub possible_ms: i64,
    /// Contracted time of which the state is known.
    pub known_ms: i64,
    /// Contracted time of which it is not.
    pub unknown_ms: i64,
    /// What to do so that the next window is provable, and how much time was unknown for it.
    #[serde(serialize_with = "remedies")]
    pub remedies: Vec<(Remedy, i64)>,
    /// What is owed: `372.00 USD`.
    pub credit: Option<String>,
    /// Something is owed, and an amount that the rule needs is not known.
    pub is_credit_missing: bool,
    /// The profile that judged.
    pub profile: String,
    /// Its version.
    pub profile_version: u32,
    /// Whether a person checked it against the contract.
    pub is_reviewed: bool,
    /// From 1.
    pub revision: u32,
    /// SHA-256 over what it says, by which a claim names it.
    pub hash: String,
    /// By what is proven, the contract was broken.
    pub is_owed: bool,
    /// Proven downtime that was claimed before, and is in no other figure.
    pub claimed_ms: i64,
    /// Its claim, if one holds it.
    pub claim: Option<ClaimMark>,
}

/// What is down or up as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitName {
    /// Everything that the lease covers.
    Lease,
    /// A node, by its name.
    Node(String),
    /// A GPU of a node.
    Gpu {
        /// The node's name.
        node: String,
        /// The GPU's number.
        number: u16,
    },
}

/// The state that a day is drawn in: the worst that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayState {
    Down,
    Unknown,
    Up,
    Excluded,
}

impl DayStates {
    pub(super) fn state(self) -> DayState {
        match self {
            Self { down_ms: 1.., .. } => DayState::Down,
            Self { unknown_ms: 1.., .. } => DayState::Unknown,
            Self { up_ms: 1.., .. } => DayState::Up,
            _ => DayState::Excluded,
        }
    }

    /// States that hold time, the worst first.
    pub(super) fn parts(self) -> impl Iterator<Item = (Text, i64)> {
        let all = [
            (Text::JudgedDown, self.down_ms),
            (Text::JudgedUnknown, self.unknown_ms),
            (Text::JudgedUp, self.up_ms),
            (Text::JudgedExcluded, self.excluded_ms),
        ];
        all.into_iter().filter(|(_, ms)| *ms > 0)
    }
}

fn severity<S: Serializer>(severity: &Severity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(severity.name())
}

fn burn_state<S: Serializer>(state: &BurnState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name())
}

fn outcome<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.name())
}

fn remedies<S: Serializer>(remedies: &[(Remedy, i64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(remedies.iter().map(|(remedy, ms)| (remedy.name(), ms)))
}
