//! What people write down beside a lease: what its provider announced and recorded, own stops, facts
//! about providers, and tickets.
//!
//! An entry names its row by what it says; it has no number. Names of closed lists are texts here,
//! because their lists stand in modules that come later: whoever stores an entry checks them.

use serde::{Deserialize, Serialize};

use crate::availability::DownCause;
use crate::id::Slug;
use crate::time::Timestamp;

use super::{is_false, value};

/// Maintenance that the provider of a lease announced. All of it names the notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoticeEntry {
    /// The lease's public name.
    #[serde(with = "value::text")]
    pub lease: Slug,
    /// Announced from here.
    #[serde(with = "value::at")]
    pub starts_at: Timestamp,
    /// Until here.
    #[serde(with = "value::at")]
    pub ends_at: Timestamp,
    /// When it came.
    #[serde(with = "value::at")]
    pub received_at: Timestamp,
    /// The text as it was received.
    pub text: String,
    /// It was wrong, and counts no longer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withdrawn: bool,
}

/// An outage as the provider itself states it. All of it names the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderRecordEntry {
    /// The lease's public name.
    #[serde(with = "value::text")]
    pub lease: Slug,
    /// Down from here.
    #[serde(with = "value::at")]
    pub starts_at: Timestamp,
    /// Until here.
    #[serde(with = "value::at")]
    pub ends_at: Timestamp,
    /// What was down.
    pub cause: DownCause,
    /// Where it is written: an address, a ticket, a call of its API.
    pub source: String,
    /// The text as it was read.
    pub text: String,
    /// It was wrong, and counts no longer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withdrawn: bool,
}

/// Time that the tenant takes out of the account itself. Lease, times and kind name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantStopEntry {
    /// The lease's public name.
    #[serde(with = "value::text")]
    pub lease: Slug,
    /// Out from here.
    #[serde(with = "value::at")]
    pub starts_at: Timestamp,
    /// Until here.
    #[serde(with = "value::at")]
    pub ends_at: Timestamp,
    /// `stopped`, `maintenance` or `other`.
    #[serde(default = "stopped")]
    pub kind: String,
    /// Which exclusion of the profile it is; for `other` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clause: Option<String>,
    /// In own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It was wrong, and counts no longer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withdrawn: bool,
}

/// Something that was read or asked of a provider. All of it names the fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderFactEntry {
    /// The provider's public name.
    #[serde(with = "value::text")]
    pub provider: Slug,
    /// What it is about: `provider_fact::FactKind`.
    pub kind: String,
    /// Words, `yes` or `no`, or a whole number, as the kind has it.
    pub value: String,
    /// Where it was read, or who said so.
    pub source: String,
    /// When it was true.
    #[serde(with = "value::at")]
    pub as_of: Timestamp,
    /// It was wrong, and counts no longer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withdrawn: bool,
}

/// What was asked of a provider, and what came of it. Provider, subject and opening name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketEntry {
    /// The provider's public name.
    #[serde(with = "value::text")]
    pub provider: Slug,
    /// The lease it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// What about.
    pub subject: String,
    /// The provider's number of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// When it was opened.
    #[serde(with = "value::at")]
    pub opened_at: Timestamp,
    /// The first answer that was no receipt.
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<Timestamp>,
    /// When it was mended.
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    pub fixed_at: Option<Timestamp>,
    /// When hardware was replaced.
    #[serde(default, with = "value::maybe_at", skip_serializing_if = "Option::is_none")]
    pub replaced_at: Option<Timestamp>,
    /// What the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why it happened, as the provider gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn stopped() -> String {
    "stopped".to_owned()
}
