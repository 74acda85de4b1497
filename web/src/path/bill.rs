//! URLs about bills, price tables and own contracts.

use super::escape::encode;
use super::{Address, Route, pattern, with_query};

/// A page about bills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BillPart {
    /// All of them.
    List,
    /// Where one is sent.
    Import,
    /// One bill.
    One {
        /// The tenant's public name.
        tenant: String,
        /// Its number.
        number: i32,
    },
}

impl BillPart {
    pub(super) fn path(&self) -> String {
        match self {
            Self::List => pattern::BILLS.to_owned(),
            Self::Import => pattern::BILLS_IMPORT.to_owned(),
            Self::One { tenant, number } => of_bill(pattern::BILL, tenant, *number),
        }
    }

    pub(super) fn json(&self) -> Option<String> {
        match self {
            Self::List => Some(pattern::BILLS_JSON.to_owned()),
            Self::Import => None,
            Self::One { tenant, number } => Some(of_bill(pattern::BILL_JSON, tenant, *number)),
        }
    }
}

/// Something about a bill, in the language and zone of `here`.
#[must_use]
pub fn bill(here: &Address, pattern: &str, tenant: &str, number: i32) -> String {
    let pairs = here.to(Route::Bill(BillPart::List)).state.pairs();
    with_query(of_bill(pattern, tenant, number), &pairs)
}

/// Something about all bills or prices, with the state of `here`.
#[must_use]
pub fn of_money(here: &Address, pattern: &str) -> String {
    with_query(pattern.to_owned(), &here.state.pairs())
}

/// Offers of a GPU, in the language and zone of `here`.
#[must_use]
pub fn offers(here: &Address, gpu: &str) -> String {
    let mut address = here.to(Route::Prices);
    address.state.find = Some(gpu.to_owned());
    address.href()
}

/// The form of an own contract, beginning with its latest version.
#[must_use]
pub fn contract(here: &Address, tenant: &str, name: &str) -> String {
    let mut address = here.to(Route::Contracts);
    address.state.find = Some(format!("{tenant}/{name}"));
    address.href()
}

fn of_bill(pattern: &str, tenant: &str, number: i32) -> String {
    pattern.replace("{tenant}", &encode(tenant)).replace("{bill}", &number.to_string())
}
