//! URLs about leases.

use super::escape::encode;
use super::{Address, Route, pattern, with_query};

/// A page about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasePart {
    /// The lease itself.
    Page,
    /// The form of its terms.
    Edit,
    /// Where GPUs are assigned to it.
    Assign,
    /// What people told about it.
    Told,
}

impl LeasePart {
    pub(super) fn pattern(self) -> &'static str {
        match self {
            Self::Page => pattern::LEASE,
            Self::Edit => pattern::LEASE_EDIT,
            Self::Assign => pattern::LEASE_ASSIGN,
            Self::Told => pattern::LEASE_TOLD,
        }
    }
}

impl Address {
    /// The table of leases as CSV, with the page's filter and order.
    #[must_use]
    pub fn leases_csv(&self) -> String {
        with_query(pattern::LEASES_CSV.to_owned(), &self.state.pairs())
    }
}

/// Where something about a lease is sent, in the language and zone of `here`.
#[must_use]
pub fn lease_action(here: &Address, pattern: &str, tenant: &str, lease: &str) -> String {
    let pairs = here.to(Route::Leases).state.pairs();
    with_query(of_lease(pattern, tenant, lease), &pairs)
}

/// The path of something about a lease.
pub(super) fn of_lease(pattern: &str, tenant: &str, lease: &str) -> String {
    pattern.replace("{tenant}", &encode(tenant)).replace("{lease}", &encode(lease))
}
