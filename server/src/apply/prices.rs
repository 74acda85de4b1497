//! A price table of providers' offers: reading it, storing it, withdrawing it.
//!
//! Tables are recognised by their header; others are read by columns that somebody names. Rows that
//! are no offer are refused one by one and stay listed with the table, since a table of a whole
//! market is never without them.

use leasewatch_core::cost::price_table::{Columns, PriceTable, TableFault, read};
use leasewatch_core::id::{Slug, clean_text};
use leasewatch_core::money::Currency;

use super::Wrong;
use crate::store::audit::{self, Action, Who};
use crate::store::lease::Written;
use crate::store::price::{self, NewPriceTable, PriceTableKey};
use crate::store::{StoreError, Tx, provider};

/// A table that was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Whose offers they are; empty: the rows say.
    pub provider: &'a str,
    /// The file's name.
    pub file_name: &'a str,
    /// The file, with commas.
    pub text: &'a str,
    /// The currency of its prices.
    pub currency: &'a str,
    /// Names of columns: `gpu=Model,count=GPUs,on_demand=Price`; empty where the header is known.
    pub columns: &'a str,
}

/// Why a table is not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// A field holds nothing that goes.
    #[error("{}: {}", .0.field, .0.matter)]
    Field(Wrong),
    /// No row can be read.
    #[error(transparent)]
    Table(#[from] TableFault),
    /// No row is an offer.
    #[error("no row of it is an offer; the first is refused because: {0}")]
    NoOffer(String),
}

/// Stores a table. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn store(
    tx: &mut Tx,
    sent: Sent<'_>,
    (written, who): (Written<'_>, &Who),
) -> Result<Result<(PriceTableKey, PriceTable), NotStored>, StoreError> {
    let (currency, table) = match parsed(sent) {
        Ok(parsed) => parsed,
        Err(why) => return Ok(Err(why)),
    };
    let provider = match sent.provider {
        "" => None,
        slug => {
            let found = match Slug::new(slug) {
                Ok(slug) => provider::by_slug(tx, &slug).await?,
                Err(_) => None,
            };
            let Some(row) = found else {
                let wrong = Wrong::new("provider", "there is no such provider");
                return Ok(Err(NotStored::Field(wrong)));
            };
            Some(row.key)
        }
    };
    let file_name = clean_text(sent.file_name, 200);
    let file_name = if file_name.is_empty() { "prices.csv" } else { &file_name };
    let new = NewPriceTable {
        file_name,
        provider,
        currency,
        table: &table,
        at: written.at,
        by: written.by,
    };
    let key = price::put(tx, new).await?;
    let detail = [("offers", table.offers.len().to_string())];
    note(tx, file_name, (written, who), &detail).await?;
    Ok(Ok((key, table)))
}

fn parsed(sent: Sent<'_>) -> Result<(Currency, PriceTable), NotStored> {
    let wrong = |field, matter: &str| NotStored::Field(Wrong::new(field, matter));
    let currency = sent.currency.trim().parse();
    let currency = currency.map_err(|_| wrong("currency", "must be three letters such as USD"))?;
    let columns = match sent.columns.trim() {
        "" => None,
        text => Some(columns(text).ok_or_else(|| {
            wrong("columns", "must be such as gpu=Model,count=GPUs,on_demand=Price; there are gpu, count, on_demand, spot, per_gpu, provider, instance, region, details")
        })?),
    };
    let table = read(sent.text, currency, columns.as_ref())?;
    match table.refused.first().filter(|_| table.offers.is_empty()) {
        Some(row) => Err(NotStored::NoOffer(row.fault.to_string())),
        None if table.offers.is_empty() => Err(NotStored::NoOffer("there is none".to_owned())),
        None => Ok((currency, table)),
    }
}

fn columns(text: &str) -> Option<Columns> {
    let mut columns = Columns::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (field, column) = part.split_once('=')?;
        let column = column.trim().to_owned();
        match field.trim() {
            "gpu" => columns.gpu = column,
            "count" => columns.count = column,
            "on_demand" => columns.on_demand = Some(column),
            "spot" => columns.spot = Some(column),
            "per_gpu" => columns.per_gpu = Some(column),
            "provider" => columns.provider = Some(column),
            "instance" => columns.instance = Some(column),
            "region" => columns.region = Some(column),
            "details" => columns.details = Some(column),
            _ => return None,
        }
    }
    let has_price = columns.on_demand.is_some() || columns.spot.is_some();
    (!columns.gpu.is_empty() && !columns.count.is_empty() && has_price).then_some(columns)
}

/// Lets a table count no longer; false when it did not. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(
    tx: &mut Tx,
    key: PriceTableKey,
    (written, who): (Written<'_>, &Who),
) -> Result<bool, StoreError> {
    let done = price::withdraw(tx, key, written.at).await?;
    if done {
        let object = format!("price table {}", key.number());
        note(tx, &object, (written, who), &[("what", "withdrawn".to_owned())]).await?;
    }
    Ok(done)
}

async fn note(
    tx: &mut Tx,
    object: &str,
    (written, who): (Written<'_>, &Who),
    detail: &[(&str, String)],
) -> Result<(), StoreError> {
    let entry = audit::Entry {
        at: written.at,
        tenant: None,
        who,
        action: Action::PricesChanged,
        object,
        detail,
    };
    audit::write(tx, entry).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_or_refused() {
        let named = columns("gpu=Model, count=GPUs,on_demand=Price").unwrap();
        assert_eq!((named.gpu.as_str(), named.on_demand.as_deref()), ("Model", Some("Price")));
        for text in ["gpu=Model", "gpu=Model,count=GPUs", "gpu=Model,count=GPUs,price=Price", "x"] {
            assert_eq!(columns(text), None, "{text}");
        }
        let sent = |text, columns| {
            parsed(Sent { provider: "", file_name: "", text, currency: "USD", columns })
        };
        let text = "Model,GPUs,Price\nH100,8,20\nH100,0,20\n";
        assert!(matches!(sent(text, ""), Err(NotStored::Table(TableFault::Unknown(_)))));
        let (_, table) = sent(text, "gpu=Model,count=GPUs,on_demand=Price").unwrap();
        assert_eq!((table.offers.len(), table.refused[0].line), (1, 3));
        let none = sent("Model,GPUs,Price\nH100,0,20\n", "gpu=Model,count=GPUs,on_demand=Price");
        assert!(none.unwrap_err().to_string().contains("number of GPUs"));
    }
}
