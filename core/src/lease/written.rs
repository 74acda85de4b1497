//! How leases are written down: one schema for files, for the database and for `.json`.
//!
//! Strict: a key that does not exist and a value of the wrong kind are errors, which name what was
//! expected. Amounts and ratios are decimal texts, times are ISO 8601 with their zone, names are
//! those of [`super`]. What can be left out has the default that is written beside it here.
//!
//! Not here: any format (the reader brings one), and whether terms make sense
//! ([`LeaseTerms::faults`]).

mod told;
mod value;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::id::Slug;
use crate::money::{Currency, Money};
use crate::time::{Timestamp, Zone};

use super::billing::{Billing, BillingUnit, Fee, FeeCycle, Price, PriceUnit};
use super::contract::SessionSource;
use super::terms::{Label, LeaseKind, LeaseTerms, Minima, ProfileRef, Share, ShareKind};

pub use told::{NoticeEntry, ProviderFactEntry, ProviderRecordEntry, TenantStopEntry, TicketEntry};
pub use value::{parse_ratio_ppm, parse_time, ratio_text};

/// The version of the schema that this program reads and writes.
pub const VERSION: u32 = 1;

/// A stretch that is billed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionEntry {
    /// The lease's public name.
    #[serde(with = "value::text")]
    pub lease: Slug,
    /// From when. Lease and start name a session.
    #[serde(with = "value::at")]
    pub starts_at: Timestamp,
    /// Until when; absent while it runs.
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// Who says so; absent: a person.
    #[serde(default = "by_hand")]
    pub source: SessionSource,
    /// It was wrong, and counts no longer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withdrawn: bool,
}

/// The weekly rule by which a lease runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleEntry {
    /// The lease's public name.
    #[serde(with = "value::text")]
    pub lease: Slug,
    /// The rule, as [`super::Schedule`] reads it; in the lease's zone.
    #[serde(default)]
    pub rule: String,
    /// From when it holds; absent: the lease's start for the first rule, now for another one.
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// The lease has no rule from then on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withdrawn: bool,
}

/// Slots of a node that a lease covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssignmentEntry {
    /// The lease's public name.
    #[serde(with = "value::text")]
    pub lease: Slug,
    /// The node's id, or its name where no other node has it.
    pub node: String,
    /// The slots' numbers.
    pub slots: Vec<u16>,
    /// From when; absent: the lease's start. Lease, node, slot and start name an assignment.
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// Until when; absent: as long as the lease.
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// It was wrong, for this reason, and counts no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<String>,
}

/// All labels of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLabelsEntry {
    /// The node's id, or its name where no other node has it.
    pub node: String,
    /// Names and values.
    pub labels: BTreeMap<Label, Label>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTerms {
    #[serde(default = "version", deserialize_with = "known_version")]
    version: u32,
    #[serde(with = "value::text")]
    name: Slug,
    #[serde(with = "value::text")]
    provider: Slug,
    /// Absent: the model.
    product: Option<String>,
    #[serde(default = "reserved")]
    kind: LeaseKind,
    #[serde(default = "whole")]
    share_kind: ShareKind,
    #[serde(default = "all_of_it", with = "value::ratio")]
    share: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
    gpu_model: String,
    gpu_count: u32,
    #[serde(with = "value::text")]
    currency: Currency,
    #[serde(default, with = "value::maybe_ratio", skip_serializing_if = "Option::is_none")]
    tax: Option<u32>,
    #[serde(with = "value::at")]
    starts_at: Timestamp,
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    ends_at: Option<Timestamp>,
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    auto_release_at: Option<Timestamp>,
    #[serde(default = "utc", with = "value::zone")]
    zone: Zone,
    #[serde(default = "by_second")]
    billing_unit: BillingUnit,
    #[serde(default)]
    stop_ends_billing: bool,
    #[serde(default = "first_day")]
    month_day: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<WrittenProfile>,
    #[serde(default, skip_serializing_if = "is_default")]
    minima: WrittenMinima,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<Label, Label>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    prices: Vec<WrittenPrice>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fees: Vec<WrittenFee>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrice {
    /// Absent: the lease's start.
    #[serde(default, with = "value::maybe_at")]
    from: Option<Timestamp>,
    #[serde(with = "value::amount")]
    amount: i128,
    unit: PriceUnit,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFee {
    name: String,
    #[serde(with = "value::amount")]
    amount: i128,
    cycle: FeeCycle,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenProfile {
    #[serde(with = "value::text")]
    id: Slug,
    version: u32,
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMinima {
    #[serde(skip_serializing_if = "Option::is_none")]
    power_limit_mw: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_mib: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sm_clock_mhz: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcie_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcie_width: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nvlinks: Option<i64>,
}

impl Serialize for LeaseTerms {
    /// Amounts are written without their currency: terms without faults have one alone.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WrittenTerms::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LeaseTerms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        WrittenTerms::deserialize(deserializer).map(Self::from)
    }
}

impl From<&LeaseTerms> for WrittenTerms {
    fn from(terms: &LeaseTerms) -> Self {
        let of_price = |price: &Price| WrittenPrice {
            from: Some(price.from),
            amount: price.amount.nanos,
            unit: price.unit,
        };
        let of_fee = |fee: &Fee| WrittenFee {
            name: fee.name.clone(),
            amount: fee.amount.nanos,
            cycle: fee.cycle,
        };
        let of_profile = |profile: &ProfileRef| WrittenProfile {
            id: profile.id.clone(),
            version: profile.version,
        };
        Self {
            version: VERSION,
            name: terms.name.clone(),
            provider: terms.provider.clone(),
            product: Some(terms.product.clone()),
            kind: terms.kind,
            share_kind: terms.share.kind,
            share: terms.share.ppm,
            region: terms.region.clone(),
            instance: terms.instance.clone(),
            machine: terms.machine.clone(),
            order: terms.order.clone(),
            gpu_model: terms.gpu_model.clone(),
            gpu_count: terms.gpu_count,
            currency: terms.currency,
            tax: terms.tax_ppm,
            starts_at: terms.starts_at,
            ends_at: terms.ends_at,
            auto_release_at: terms.auto_release_at,
            zone: terms.zone,
            billing_unit: terms.billing.unit,
            stop_ends_billing: terms.billing.stop_ends_billing,
            month_day: terms.billing.month_day,
            profile: terms.profile.as_ref().map(of_profile),
            minima: WrittenMinima::from(terms.minima),
            labels: terms.labels.clone(),
            prices: terms.prices.iter().map(of_price).collect(),
            fees: terms.fees.iter().map(of_fee).collect(),
        }
    }
}

impl From<WrittenTerms> for LeaseTerms {
    fn from(written: WrittenTerms) -> Self {
        let (currency, start) = (written.currency, written.starts_at);
        let money = |nanos| Money { nanos, currency };
        let of_price = |price: WrittenPrice| Price {
            from: price.from.unwrap_or(start),
            amount: money(price.amount),
            unit: price.unit,
        };
        let of_fee =
            |fee: WrittenFee| Fee { name: fee.name, amount: money(fee.amount), cycle: fee.cycle };
        let of_profile =
            |profile: WrittenProfile| ProfileRef { id: profile.id, version: profile.version };
        Self {
            name: written.name,
            provider: written.provider,
            product: written.product.unwrap_or_else(|| written.gpu_model.clone()),
            kind: written.kind,
            share: Share { kind: written.share_kind, ppm: written.share },
            region: written.region,
            instance: written.instance,
            machine: written.machine,
            order: written.order,
            gpu_model: written.gpu_model,
            gpu_count: written.gpu_count,
            currency,
            tax_ppm: written.tax,
            starts_at: start,
            ends_at: written.ends_at,
            auto_release_at: written.auto_release_at,
            prices: written.prices.into_iter().map(of_price).collect(),
            fees: written.fees.into_iter().map(of_fee).collect(),
            billing: Billing {
                unit: written.billing_unit,
                stop_ends_billing: written.stop_ends_billing,
                month_day: written.month_day,
            },
            minima: Minima::from(written.minima),
            profile: written.profile.map(of_profile),
            zone: written.zone,
            labels: written.labels,
        }
    }
}

impl From<Minima> for WrittenMinima {
    fn from(minima: Minima) -> Self {
        Self {
            power_limit_mw: minima.power_limit_mw,
            memory_mib: minima.memory_mib,
            sm_clock_mhz: minima.sm_clock_mhz,
            pcie_generation: minima.pcie_generation,
            pcie_width: minima.pcie_width,
            nvlinks: minima.nvlinks,
        }
    }
}

impl From<WrittenMinima> for Minima {
    fn from(written: WrittenMinima) -> Self {
        Self {
            power_limit_mw: written.power_limit_mw,
            memory_mib: written.memory_mib,
            sm_clock_mhz: written.sm_clock_mhz,
            pcie_generation: written.pcie_generation,
            pcie_width: written.pcie_width,
            nvlinks: written.nvlinks,
        }
    }
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        VERSION => Ok(VERSION),
        other => Err(de::Error::custom(format!("version {other} is not known, only {VERSION}"))),
    }
}

fn version() -> u32 {
    VERSION
}

fn by_hand() -> SessionSource {
    SessionSource::Hand
}

fn reserved() -> LeaseKind {
    LeaseKind::Reserved
}

fn whole() -> ShareKind {
    ShareKind::Whole
}

fn all_of_it() -> u32 {
    Share::WHOLE.ppm
}

fn utc() -> Zone {
    Zone::UTC
}

fn by_second() -> BillingUnit {
    Billing::default().unit
}

fn first_day() -> u8 {
    Billing::default().month_day
}

/// Left out where it is false.
fn is_false(value: &bool) -> bool {
    !value
}

fn is_default(minima: &WrittenMinima) -> bool {
    *minima == WrittenMinima::default()
}

#[cfg(test)]
mod tests;
