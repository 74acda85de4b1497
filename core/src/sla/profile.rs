//! SLA profiles: a provider's clauses as data.
//!
//! A profile is a TOML file (`profiles/README.md` has its schema) with one or several objectives:
//! AWS promises something for an instance and something else for a region. Its hash is that of the
//! file's bytes, so a bundle that embeds the file embeds what was judged by. Versions are
//! immutable: [`Profiles`] refuses other bytes under a version that it holds. Not here: whether the
//! clauses are read right; `reviewed` says whether a person did.

mod credit;
mod file;
mod read;
mod shipped;
mod write;

#[cfg(test)]
mod tests;

use crate::availability::named;
use crate::id::{Hash, Slug};
use crate::money::Money;
use crate::time::{Period, Timestamp};

use super::Target;
use super::claim::DeadlineRule;
use super::window::WindowRule;

pub use read::ProfileError;
pub use shipped::{OWN_OBJECTIVE, shipped};

/// One version of a provider's clauses for a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name, the same in all versions.
    pub id: Slug,
    /// 1, 2, 3 ..
    pub version: u32,
    /// SHA-256 of the file.
    pub hash: Hash,
    /// The provider, as a person calls it.
    pub provider: String,
    /// The product.
    pub product: String,
    /// The first instant it is in force; `None`: as long as anybody knows.
    pub effective_from: Option<Timestamp>,
    /// The first instant it is not in force any more.
    pub effective_to: Option<Timestamp>,
    /// Where the clauses were read.
    pub source: Source,
    /// Who checked it against the text; `None` until a person did, and that is said wherever the
    /// profile judges.
    pub reviewed_by: Option<String>,
    /// Its promises, at least one.
    pub objectives: Vec<Objective>,
    /// What the contract takes out of the account.
    pub exclusions: Vec<ExclusionClause>,
    /// How early the provider must announce maintenance, in seconds; `None`: no such rule, and then
    /// no notice excludes anything.
    pub notice_lead_s: Option<i64>,
    /// How long the tenant has.
    pub deadline: DeadlineRule,
    /// What a claim has to hold, in own words, for a person.
    pub evidence_required: Vec<String>,
    /// When the provider must have answered, in seconds from the report.
    pub response_within_s: Option<i64>,
    /// When broken hardware must have been replaced, in seconds from its identification.
    pub replacement_within_s: Option<i64>,
    /// What a reader should know beside.
    pub notes: Vec<String>,
}

/// Where clauses were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The address, or what the own contract is called.
    pub url: String,
    /// The day it was read, as `2026-11-30`.
    pub read_on: String,
    /// SHA-256 of the text as read; `None` where it is not known.
    pub text_hash: Option<Hash>,
    /// True when it was read at second hand, not in the contract.
    pub second_hand: bool,
}

/// Something that the contract takes out of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExclusionClause {
    /// Its name in the profile, by which an exclusion names it.
    pub id: Slug,
    /// What it says, in own words.
    pub text: String,
}

/// One promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objective {
    /// Its name in the profile.
    pub id: Slug,
    /// What is down or up as one.
    pub unit: Unit,
    /// The availability that is promised; `None` where only single outages are paid for.
    pub target: Option<Target>,
    /// What counts as downtime.
    pub downtime: DowntimeRule,
    /// The time it is judged over.
    pub window: WindowRule,
    /// What downtime is divided by.
    pub denominator: Denominator,
    /// What a breach owes; `None` where nothing is.
    pub credit: Option<CreditRule>,
}

named! {
    /// What is down or up as one.
    UnitKind {
        /// Each slot.
        Gpu = "gpu",
        /// The slots of a node.
        Node = "node",
        /// The slots of a lease that work together.
        Cluster = "cluster",
        /// Everything of a tenant at a provider.
        Account = "account",
        /// Everything in a region.
        Region = "region",
    }
}

/// What is down or up as one, and how many of its members must work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// What its members are.
    pub kind: UnitKind,
    /// How many of them must be up at an instant.
    pub needs: Needs,
}

/// How many members of a unit must be up at an instant for the unit to be up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// All: one that is down is enough.
    All,
    /// At least one: it is down when all are.
    Any,
    /// At least this many, or all where fewer are contracted.
    AtLeast(u32),
}

named! {
    /// What a contract calls downtime.
    Predicate {
        /// No connectivity from outside.
        Connectivity = "connectivity",
        /// The boot disk or a persistent disk is lost.
        Disk = "disk",
        /// A GPU is lost or being exchanged.
        GpuLost = "gpu_lost",
        /// Fewer GPUs than contracted.
        GpuCount = "gpu_count",
        /// The fast network of a cluster is lost.
        Fabric = "fabric",
        /// Hardware: GPUs, hosts that boot by themselves, power, cooling.
        Hardware = "hardware",
        /// Slowed down by the provider's doing.
        Throttle = "throttle",
        /// Whatever availability calls down. For own objectives; asks for no proof that the node
        /// was reachable.
        Unusable = "unusable",
    }
}

named! {
    /// What happens to parts of a slice, usually a minute.
    PartialSlice {
        /// Only slices of the clock that are down from end to end count.
        Drop = "drop",
        /// Each outage is cut down to a whole number of slices.
        Floor = "floor",
        /// Each slice of the clock that an outage touches counts whole.
        Ceil = "ceil",
        /// Time counts as it was.
        Exact = "exact",
    }
}

/// From outages to what the contract counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DowntimeRule {
    /// What counts; at least one.
    pub predicates: Vec<Predicate>,
    /// Outages shorter than this do not count, in seconds.
    pub min_consecutive_s: i64,
    /// What happens to parts of a slice.
    pub partial_slice: PartialSlice,
    /// The length of a slice, in seconds, above 0.
    pub slice_s: i64,
    /// Taken off the downtime of each window, in seconds.
    pub buffer_s: i64,
    /// Downtime counts from the tenant's notice on, and an outage without one does not count.
    pub from_notice: bool,
}

named! {
    /// What downtime is divided by.
    Denominator {
        /// The whole window, contracted or not.
        Calendar = "calendar",
        /// Its contracted time.
        Contracted = "contracted",
        /// Its contracted time without exclusions.
        ContractedMinusExcluded = "contracted-minus-excluded",
    }
}

/// What a breach owes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditRule {
    /// How it is computed.
    pub formula: CreditFormula,
    /// What percentages are of.
    pub base: CreditBase,
    /// In what it is given.
    pub form: CreditForm,
    /// At most this share of the base.
    pub cap: Option<Target>,
    /// What it is raised to when it is above 0 and below this.
    pub floor: Option<Money>,
    /// Below this nothing is given.
    pub minimum: Option<Money>,
    /// Digits after the point that it is rounded to, half to even, once: 0 to 9.
    pub digits: usize,
}

/// How a credit is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreditFormula {
    /// A share of the base by how far availability fell, from the highest edge down.
    Tiers(Vec<Tier>),
    /// The base times downtime, over the denominator.
    ProRata,
    /// Downtime times a factor times the price of an hour.
    Multiplier(Multiplier),
    /// For each outage, the hours from the last start to it, times the price of an hour.
    HoursFromLastStart {
        /// At most so many hours for each outage.
        cap_hours: i64,
    },
}

/// One step of a credit table, half-open: from the next lower edge (inside) to `below` (outside).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// Availability below this.
    pub below: Target,
    /// The share of the base; one is everything.
    pub share: Target,
}

/// Downtime times a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiplier {
    /// The factor in thousandths: 1,500 is one and a half.
    pub factor_milli: i64,
    /// The product is rounded up to whole multiples of this, in seconds, for each outage; `None`:
    /// not rounded, and outages are added up first.
    pub round_up_s: Option<i64>,
}

named! {
    /// What percentages and caps are of.
    CreditBase {
        /// What the affected unit cost in the window.
        UnitCharge = "unit-charge",
        /// What the whole lease cost in the window.
        LeaseCharge = "lease-charge",
        /// What the whole lease cost in the window before.
        PriorLeaseCharge = "prior-lease-charge",
    }
}

named! {
    /// In what a credit is given.
    CreditForm {
        /// Money, or a deduction from a later bill.
        Money = "money",
        /// A voucher with the provider.
        Voucher = "voucher",
        /// Hours of use.
        Hours = "hours",
    }
}

impl Profile {
    /// Reads a profile from the text of its file.
    ///
    /// # Errors
    /// [`ProfileError`] names the line and the field, for text that is not TOML, unknown and
    /// missing fields, wrong types, and values that contradict each other.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        read::parse(text)
    }

    /// The text of a file that reads back as this profile, but for its hash, which is the text's.
    /// For contracts that are entered in a form: write, then [`Self::parse`], which checks it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        write::to_toml(self)
    }

    /// Whether it is in force at `at`.
    #[must_use]
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.effective_from.is_none_or(|from| from <= at)
            && self.effective_to.is_none_or(|to| at < to)
    }

    /// The objective of this name.
    #[must_use]
    pub fn objective(&self, id: &Slug) -> Option<&Objective> {
        self.objectives.iter().find(|objective| objective.id == *id)
    }

    /// How early a notice must come, in ms; for `SlotFacts::notice_lead_ms`.
    #[must_use]
    pub fn notice_lead_ms(&self) -> Option<i64> {
        self.notice_lead_s.map(|lead_s| lead_s.saturating_mul(1_000))
    }
}

/// All versions of all profiles.
#[derive(Debug, Clone, Default)]
pub struct Profiles(Vec<Profile>);

/// A version that is there already has other bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("version {version} of profile {id} is there with other contents; give it a new version")]
pub struct VersionTaken {
    /// The profile.
    pub id: Slug,
    /// The version.
    pub version: u32,
}

impl Profiles {
    /// Takes a version in. The same bytes again change nothing.
    ///
    /// # Errors
    /// [`VersionTaken`] when the version is there with other bytes.
    pub fn add(&mut self, profile: Profile) -> Result<(), VersionTaken> {
        let same = |one: &&Profile| one.id == profile.id && one.version == profile.version;
        match self.0.iter().find(same) {
            Some(known) if known.hash == profile.hash => Ok(()),
            Some(_) => Err(VersionTaken { id: profile.id, version: profile.version }),
            None => {
                self.0.push(profile);
                self.0.sort_by(|a, b| (&a.id, a.version).cmp(&(&b.id, b.version)));
                Ok(())
            }
        }
    }

    /// The version that is in force at `at`: of those that hold, the highest.
    #[must_use]
    pub fn in_force(&self, id: &Slug, at: Timestamp) -> Option<&Profile> {
        self.0.iter().rev().find(|profile| profile.id == *id && profile.holds_at(at))
    }

    /// The versions in force over `period`, each with its part, in order; parts without any are
    /// left out.
    #[must_use]
    pub fn in_force_over(&self, id: &Slug, period: Period) -> Vec<(Period, &Profile)> {
        let own = || self.0.iter().filter(|profile| profile.id == *id);
        let mut cuts = vec![period.start, period.end];
        cuts.extend(own().flat_map(|p| [p.effective_from, p.effective_to]).flatten());
        cuts.retain(|at| period.start <= *at && *at <= period.end);
        cuts.sort_unstable();
        cuts.dedup();
        let mut parts: Vec<(Period, &Profile)> = Vec::new();
        for pair in cuts.windows(2) {
            let Some(profile) = self.in_force(id, pair[0]) else { continue };
            match parts.last_mut() {
                Some((last, same)) if last.end == pair[0] && same.version == profile.version => {
                    last.end = pair[1];
                }
                _ => parts.push((Period::new(pair[0], pair[1]), profile)),
            }
        }
        parts
    }

    /// All versions, by id and version.
    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.0.iter()
    }
}
