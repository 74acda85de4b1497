//! A provider's bill: which column holds what, storing it, and what it is compared with.
//!
//! A bill is stored whole or not at all; with `partial`, lines that are refused are stored as
//! refused, and said wherever the bill is shown. Not here: how a difference is found
//! (`core::cost::bill`).

mod mapping;

use std::collections::BTreeMap;

use leasewatch_core::availability::{State, union};
use leasewatch_core::cost::Billable;
use leasewatch_core::cost::bill::{
    BillFault, BillLine, BilledLease, Comparison, RefusedLine, compare, read,
};
use leasewatch_core::id::Slug;
use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::money::{Money, MoneyError};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Hour, Period};

use super::Wrong;
use super::entered::Entered;
use crate::store::audit::{self, Action, Who};
use crate::store::bill::{self, BillKey, BillRow, NewBill};
use crate::store::contracted::{self, ContractedLease};
use crate::store::lease::{self, Written};
use crate::store::{StoreError, TenantKey, Tx, availability, node, provider};

pub use mapping::{COLUMNS, SETTINGS, columns, from_kept, kept, suggested};

/// A bill that was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Whose it is.
    pub provider: &'a str,
    /// The file's name.
    pub file_name: &'a str,
    /// The file, with commas.
    pub text: &'a str,
    /// What was said about its columns.
    pub entered: &'a Entered,
    /// Whether lines that are right are stored beside refused ones.
    pub partial: bool,
}

/// Why a bill is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotStored {
    /// Fields that hold nothing that goes.
    Fields(Vec<Wrong>),
    /// The file has no such lines.
    File(BillFault),
    /// Lines that were refused.
    Lines(Vec<RefusedLine>),
}

/// Stores a bill in a transaction of its tenant, and keeps how it was read.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn store(
    tx: &mut Tx,
    tenant: TenantKey,
    sent: Sent<'_>,
    (written, who): (Written<'_>, &Who),
) -> Result<Result<BillKey, NotStored>, StoreError> {
    let columns = match columns(sent.entered) {
        Ok(columns) => columns,
        Err(wrong) => return Ok(Err(NotStored::Fields(wrong))),
    };
    let found = match Slug::new(sent.provider) {
        Ok(slug) => provider::by_slug(tx, &slug).await?,
        Err(_) => None,
    };
    let Some(provider) = found else {
        let wrong = Wrong::new("provider", "there is no such provider");
        return Ok(Err(NotStored::Fields(vec![wrong])));
    };
    let bill = match read(sent.text, &columns) {
        Ok(bill) => bill,
        Err(fault) => return Ok(Err(NotStored::File(fault))),
    };
    if !sent.partial && !bill.refused.is_empty() {
        return Ok(Err(NotStored::Lines(bill.refused)));
    }
    let file_name: String = leasewatch_core::id::clean_text(sent.file_name, 200);
    let file_name = if file_name.is_empty() { "bill.csv" } else { &file_name };
    let new = NewBill {
        tenant,
        provider: provider.key,
        file_name,
        with_tax: sent.entered.get("with_tax") == "yes",
        bill: &bill,
        at: written.at,
        by: written.by,
    };
    let key = bill::put(tx, new).await?;
    let pair = (tenant, provider.key);
    bill::keep_mapping(tx, pair, &kept(sent.entered), (written.at, written.by)).await?;
    let detail = [
        ("provider", provider.slug.to_string()),
        ("file", file_name.to_owned()),
        ("lines", bill.lines.len().to_string()),
    ];
    note(tx, (tenant, key), (written, who), &detail).await?;
    Ok(Ok(key))
}

/// Withdraws a bill that was imported wrongly; false when it did not count.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(
    tx: &mut Tx,
    key: BillKey,
    (written, who): (Written<'_>, &Who),
) -> Result<bool, StoreError> {
    let done = bill::withdraw(tx, key, written.at).await?;
    if done {
        let detail = [("what", "withdrawn".to_owned())];
        note(tx, (key.tenant, key), (written, who), &detail).await?;
    }
    Ok(done)
}

async fn note(
    tx: &mut Tx,
    (tenant, key): (TenantKey, BillKey),
    (written, who): (Written<'_>, &Who),
    detail: &[(&str, String)],
) -> Result<(), StoreError> {
    let object = format!("bill {}", key.number());
    let entry = audit::Entry {
        at: written.at,
        tenant: Some(tenant),
        who,
        action: Action::BillAdded,
        object: &object,
        detail,
    };
    audit::write(tx, entry).await
}

/// A bill with what it is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Its lines.
    pub lines: Vec<BillLine>,
    /// What differs.
    pub comparison: Comparison,
    /// The provider's leases in the time of the bill.
    pub leases: Vec<LeaseSums>,
    /// The least trustworthy source of their time.
    pub origin: Option<Origin>,
}

/// What a lease's assigned slots did in the time of a bill, as far as it was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSums {
    /// Its name.
    pub name: Slug,
    /// What lines bill for it, in its currency.
    pub billed: Money,
    /// Contracted time of its slots.
    pub assigned_ms: i64,
    /// Of it, shown to have worked.
    pub up_ms: i64,
    /// Proven not to have worked.
    pub down_ms: i64,
    /// Neither is shown.
    pub unknown_ms: i64,
    /// Taken out of the account.
    pub excluded_ms: i64,
}

/// A lease as far as a bill is about it.
struct Facts {
    lease: ContractedLease,
    down: Vec<Period>,
    sums: LeaseSums,
}

/// Compares a bill with the leases of its provider.
///
/// # Errors
/// [`StoreError`] of the database; the inner error for amounts beyond all reason.
pub async fn compared(
    tx: &mut Tx,
    row: &BillRow,
) -> Result<Result<Compared, MoneyError>, StoreError> {
    let lines = bill::lines(tx, row.key).await?;
    let window = row.period.unwrap_or(Period::new(row.imported_at, row.imported_at));
    let mut all = Vec::new();
    for found in lease::list(tx).await? {
        let is_own = found.key.tenant == row.key.tenant && found.terms.provider == row.provider;
        if !is_own || lease::period(&found.terms).intersect(window).is_empty() {
            // Bills name leases that are over: those count as long as a line means them.
            let names = keys(&found.terms);
            if !is_own || lines.iter().all(|line| !names.contains(&line.key.as_str())) {
                continue;
            }
        }
        if let Some(lease) = contracted::by_key(tx, found.key).await? {
            all.push(facts(tx, lease, window).await?);
        }
    }
    let nodes = node::list(tx).await?;
    let covers =
        |key| all.iter().any(|f: &Facts| f.lease.assignments.iter().any(|(n, _)| *n == key));
    let origin = nodes.iter().filter(|node| covers(node.key)).map(|node| node.origin).max();
    let names: Vec<Vec<&str>> = all.iter().map(|facts| keys(&facts.lease.terms)).collect();
    let leases: Vec<BilledLease<'_>> = all
        .iter()
        .zip(&names)
        .map(|(facts, names)| BilledLease {
            name: &facts.lease.terms.name,
            keys: names,
            billable: Billable {
                terms: &facts.lease.terms,
                sessions: &facts.lease.sessions,
                until: window.end,
            },
            down: &facts.down,
        })
        .collect();
    let comparison = match compare(&lines, &leases, row.with_tax) {
        Ok(comparison) => comparison,
        Err(error) => return Ok(Err(error)),
    };
    let mut leases = Vec::with_capacity(all.len());
    for (facts, names) in all.iter().zip(&names) {
        let mut sums = facts.sums.clone();
        let own = lines.iter().filter(|line| names.contains(&line.key.as_str()));
        for line in own.filter(|line| line.amount.currency == sums.billed.currency) {
            sums.billed.nanos = sums.billed.nanos.saturating_add(line.amount.nanos);
        }
        leases.push(sums);
    }
    Ok(Ok(Compared { lines, comparison, leases, origin }))
}

/// What bills may call a lease.
fn keys(terms: &LeaseTerms) -> Vec<&str> {
    let others = [&terms.instance, &terms.machine, &terms.order];
    let others = others.into_iter().filter_map(|text| text.as_deref());
    std::iter::once(terms.name.as_str()).chain(others).collect()
}

async fn facts(tx: &mut Tx, lease: ContractedLease, window: Period) -> Result<Facts, StoreError> {
    let mut sums = LeaseSums {
        name: lease.terms.name.clone(),
        billed: Money::zero(lease.terms.currency),
        assigned_ms: 0,
        up_ms: 0,
        down_ms: 0,
        unknown_ms: 0,
        excluded_ms: 0,
    };
    let mut slots: Vec<_> = lease.assignments.iter().map(|(node, a)| (*node, a.slot)).collect();
    slots.sort_unstable();
    slots.dedup();
    let parts = slots.iter().flat_map(|(node, slot)| lease.of_slot(*node, *slot, window));
    sums.assigned_ms = parts.map(|part| part.ms()).sum();
    let hours = (window.start.hour(), Hour(window.end.plus_ms(-1).hour().0 + 1));
    let mut down = Vec::new();
    let mut of_slot: BTreeMap<_, Vec<Period>> = BTreeMap::new();
    for judged in availability::current(tx, lease.key, hours).await? {
        let judged = judged.judged;
        for stretch in &judged.stretches {
            let part = stretch.period.intersect(window);
            match stretch.state {
                State::Up => sums.up_ms += part.ms(),
                State::Down(_) => {
                    sums.down_ms += part.ms();
                    of_slot.entry((judged.node, judged.slot)).or_default().push(part);
                }
                State::Unknown(_) => sums.unknown_ms += part.ms(),
                State::Excluded(_) => sums.excluded_ms += part.ms(),
            }
        }
    }
    down.extend(of_slot.into_values().flat_map(union));
    Ok(Facts { lease, down, sums })
}
