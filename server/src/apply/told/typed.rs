//! What people tell, from texts that somebody typed into a form or a table.
//!
//! Fields have the names of the written form. Whether it makes sense beside the lease is said when
//! it is applied.

use leasewatch_core::availability::DownCause;
use leasewatch_core::id::Slug;
use leasewatch_core::lease::written::{NoticeEntry, ProviderRecordEntry, TenantStopEntry};
use leasewatch_core::time::{Timestamp, Zone};

use crate::apply::Wrong;
use crate::apply::entered::{Entered, moment};

/// A notice about a lease.
///
/// # Errors
/// Each field with what is wrong with it.
pub(crate) fn notice(
    lease: &Slug,
    entered: &Entered,
    zone: Zone,
) -> Result<NoticeEntry, Vec<Wrong>> {
    let mut reader = Reader { entered, zone, wrong: Vec::new() };
    let starts_at = reader.time("starts_at");
    let ends_at = reader.time("ends_at");
    let received_at = reader.time("received_at");
    let text = reader.words("text");
    match (starts_at, ends_at, received_at, text) {
        (Some(starts_at), Some(ends_at), Some(received_at), Some(text)) => {
            let lease = lease.clone();
            Ok(NoticeEntry { lease, starts_at, ends_at, received_at, text, withdrawn: false })
        }
        _ => Err(reader.wrong),
    }
}

/// A provider's record about a lease.
///
/// # Errors
/// Each field with what is wrong with it.
pub(crate) fn record(
    lease: &Slug,
    entered: &Entered,
    zone: Zone,
) -> Result<ProviderRecordEntry, Vec<Wrong>> {
    let mut reader = Reader { entered, zone, wrong: Vec::new() };
    let starts_at = reader.time("starts_at");
    let ends_at = reader.time("ends_at");
    let cause = DownCause::from_name(entered.get("cause"));
    if cause.is_none() {
        let names: Vec<_> = DownCause::ALL.iter().map(|cause| cause.name()).collect();
        reader.wrong.push(Wrong::new("cause", format!("must be one of {}", names.join(", "))));
    }
    let source = reader.words("source");
    let text = reader.words("text");
    match (starts_at, ends_at, cause, source.zip(text)) {
        (Some(starts_at), Some(ends_at), Some(cause), Some((source, text))) => {
            let (lease, withdrawn) = (lease.clone(), false);
            Ok(ProviderRecordEntry { lease, starts_at, ends_at, cause, source, text, withdrawn })
        }
        _ => Err(reader.wrong),
    }
}

/// A stop of a lease.
///
/// # Errors
/// Each field with what is wrong with it.
pub(crate) fn stop(
    lease: &Slug,
    entered: &Entered,
    zone: Zone,
) -> Result<TenantStopEntry, Vec<Wrong>> {
    let mut reader = Reader { entered, zone, wrong: Vec::new() };
    let (starts_at, ends_at) = (reader.time("starts_at"), reader.time("ends_at"));
    let maybe = |field| Some(entered.get(field)).filter(|text| !text.is_empty());
    match (starts_at, ends_at) {
        (Some(starts_at), Some(ends_at)) => Ok(TenantStopEntry {
            lease: lease.clone(),
            starts_at,
            ends_at,
            kind: maybe("kind").unwrap_or("stopped").to_owned(),
            clause: maybe("clause").map(str::to_owned),
            reason: maybe("reason").map(str::to_owned),
            withdrawn: false,
        }),
        _ => Err(reader.wrong),
    }
}

struct Reader<'a> {
    entered: &'a Entered,
    zone: Zone,
    wrong: Vec<Wrong>,
}

impl Reader<'_> {
    fn time(&mut self, field: &str) -> Option<Timestamp> {
        let at = moment(self.entered.get(field), self.zone);
        if at.is_none() {
            self.wrong.push(Wrong::new(field, "must be a time such as 2026-08-01 08:00"));
        }
        at
    }

    fn words(&mut self, field: &str) -> Option<String> {
        let text = self.entered.get(field);
        if text.is_empty() {
            self.wrong.push(Wrong::new(field, "is missing"));
            return None;
        }
        Some(text.to_owned())
    }
}
