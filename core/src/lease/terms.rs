//! What the contract says, as people enter it.

use std::collections::BTreeMap;

use crate::id::Slug;
use crate::money::Currency;
use crate::time::{Timestamp, Zone};

use super::billing::{Billing, Fee, Price, names};

/// Longest text that a person enters, in characters.
const TEXT_MAX: usize = 120;
/// Most labels of one thing.
const LABELS_MAX: usize = 16;
/// Most prices and most fees of a lease.
const LIST_MAX: usize = 64;
/// Most GPUs of a lease.
const GPUS_MAX: u32 = 16_384;

/// How it is rented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseKind {
    /// The tenant's own hardware: nothing is paid to a provider.
    Own,
    /// For a term.
    Reserved,
    /// As long as it runs.
    OnDemand,
    /// Until the provider wants it back.
    Spot,
}

/// What of a card is rented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShareKind {
    /// The whole card.
    Whole,
    /// A MIG slice.
    Mig,
    /// A virtual GPU.
    Vgpu,
    /// A share that software keeps.
    Software,
}

/// A part of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    /// How it is cut.
    pub kind: ShareKind,
    /// How much of the card, in millionths; 1,000,000 for a whole one.
    pub ppm: u32,
}

impl Share {
    /// A whole card.
    pub const WHOLE: Self = Self { kind: ShareKind::Whole, ppm: 1_000_000 };
}

/// A profile of `profiles/` or an own contract, in one of its versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProfileRef {
    /// Its id.
    pub id: Slug,
    /// Its version, from 1.
    pub version: u32,
}

/// What each GPU must at least have by contract. `None`: the contract does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Minima {
    /// Enforced power limit.
    pub power_limit_mw: Option<i64>,
    /// Memory.
    pub memory_mib: Option<i64>,
    /// SM clock under load.
    pub sm_clock_mhz: Option<i64>,
    /// PCIe generation under load.
    pub pcie_generation: Option<i64>,
    /// PCIe lanes under load.
    pub pcie_width: Option<i64>,
    /// NVLinks that are up.
    pub nvlinks: Option<i64>,
}

/// A name and a value that costs can be grouped by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

/// The terms of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Its public name within the tenant.
    pub name: Slug,
    /// Who supplies it.
    pub provider: Slug,
    /// The provider's name for what is rented.
    pub product: String,
    /// How it is rented.
    pub kind: LeaseKind,
    /// What of each card.
    pub share: Share,
    /// The provider's region or room.
    pub region: Option<String>,
    /// The provider's id of the instance.
    pub instance: Option<String>,
    /// The provider's number of the machine.
    pub machine: Option<String>,
    /// The number of the order.
    pub order: Option<String>,
    /// The model as sold; a key of the catalogue where it is one.
    pub gpu_model: String,
    /// How many GPUs, or shares of them.
    pub gpu_count: u32,
    /// In which everything of it is paid.
    pub currency: Currency,
    /// Tax on top of every amount, in millionths; `None` when not known.
    pub tax_ppm: Option<u32>,
    /// Contracted from here: the provider's "ready", or the first billed moment.
    pub starts_at: Timestamp,
    /// Contracted until here; `None` while it runs.
    pub ends_at: Option<Timestamp>,
    /// When the provider releases it by itself.
    pub auto_release_at: Option<Timestamp>,
    /// In order of [`Price::from`].
    pub prices: Vec<Price>,
    /// Fees that are not for GPUs.
    pub fees: Vec<Fee>,
    /// How time is billed.
    pub billing: Billing,
    /// What each GPU must have.
    pub minima: Minima,
    /// The clauses it is judged by; `None`: own objectives.
    pub profile: Option<ProfileRef>,
    /// The zone that billing months are counted in.
    pub zone: Zone,
    /// For costs.
    pub labels: BTreeMap<Label, Label>,
}

/// What is wrong with terms. The name is that of the field, as forms and files have it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {matter}")]
pub struct TermsFault {
    /// Which field.
    pub field: &'static str,
    /// What is wrong, as a clause.
    pub matter: &'static str,
}

impl Label {
    /// A label, or a value of one: 1 to 60 characters without control characters.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=60).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        fits.then(|| Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl LeaseTerms {
    /// Everything that is wrong, in the order of the fields.
    #[must_use]
    pub fn faults(&self) -> Vec<TermsFault> {
        let mut faults = Vec::new();
        let mut check = |is_good: bool, field, matter| {
            if !is_good {
                faults.push(TermsFault { field, matter });
            }
        };
        let texts = [
            ("product", Some(&self.product)),
            ("region", self.region.as_ref()),
            ("instance", self.instance.as_ref()),
            ("machine", self.machine.as_ref()),
            ("order", self.order.as_ref()),
            ("gpu_model", Some(&self.gpu_model)),
        ];
        for (field, text) in texts {
            let fits = text.is_none_or(|text| is_text(text));
            check(fits, field, "must be 1 to 120 characters without control characters");
        }
        let whole = self.share.kind == ShareKind::Whole;
        let share = self.share.ppm;
        let fits = if whole { share == 1_000_000 } else { (1..=1_000_000).contains(&share) };
        check(fits, "share", "must be above 0 and at most 1; a whole card is 1");
        check((1..=GPUS_MAX).contains(&self.gpu_count), "gpu_count", "must be 1 to 16384");
        check(self.tax_ppm.is_none_or(|ppm| ppm <= 1_000_000), "tax", "must be at most 100 %");
        let ends = self.ends_at.is_none_or(|end| end > self.starts_at);
        check(ends, "ends_at", "must be after the start");
        let released = self.auto_release_at.is_none_or(|at| at > self.starts_at);
        check(released, "auto_release_at", "must be after the start");
        check(self.prices.len() <= LIST_MAX, "prices", "must be at most 64");
        check(self.prices.is_sorted_by(|a, b| a.from < b.from), "prices", "need one start each");
        let own = self.prices.iter().all(|price| price.amount.currency == self.currency);
        check(own, "prices", "must be in the currency of the lease");
        check(self.prices.iter().all(|p| p.amount.nanos >= 0), "prices", "must not be negative");
        check(self.fees.len() <= LIST_MAX, "fees", "must be at most 64");
        let own = self.fees.iter().all(|fee| fee.amount.currency == self.currency);
        check(own, "fees", "must be in the currency of the lease");
        check(self.fees.iter().all(|fee| is_text(&fee.name)), "fees", "need a name each");
        check((1..=28).contains(&self.billing.month_day), "month_day", "must be 1 to 28");
        check(self.minima.values().all(|v| v > 0), "minima", "must be above 0");
        check(self.labels.len() <= LABELS_MAX, "labels", "must be at most 16");
        faults
    }
}

impl Minima {
    fn values(&self) -> impl Iterator<Item = i64> {
        let gpu = [self.power_limit_mw, self.memory_mib, self.sm_clock_mhz];
        let wiring = [self.pcie_generation, self.pcie_width, self.nvlinks];
        gpu.into_iter().chain(wiring).flatten()
    }
}

fn is_text(text: &str) -> bool {
    (1..=TEXT_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

names!(LeaseKind { Own = "own", Reserved = "reserved", OnDemand = "on_demand", Spot = "spot", });
names!(ShareKind { Whole = "whole", Mig = "mig", Vgpu = "vgpu", Software = "software", });
