//! Price tables with their offers. Global rows.

use leasewatch_core::cost::price_table::{Offer, PriceTable};
use leasewatch_core::money::{Currency, Money};
use leasewatch_core::time::Timestamp;

use super::column::{Column, fitted};
use super::{ProviderKey, StoreError, Tx};

/// The number of a price table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PriceTableKey(i32);

impl PriceTableKey {
    /// The table with this number.
    #[must_use]
    pub fn new(number: i32) -> Self {
        Self(number)
    }

    /// Its number, which forms name it by.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }
}

/// A table to store.
#[derive(Debug, Clone, Copy)]
pub struct NewPriceTable<'a> {
    /// The file's name.
    pub file_name: &'a str,
    /// Whose offers they are; `None`: the rows say.
    pub provider: Option<ProviderKey>,
    /// The currency of its prices.
    pub currency: Currency,
    /// What it holds.
    pub table: &'a PriceTable,
    /// Now.
    pub at: Timestamp,
    /// Name of the user; `None` when nobody signed in.
    pub by: Option<&'a str>,
}

/// A stored table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceTableRow {
    /// Its key.
    pub key: PriceTableKey,
    /// The file's name.
    pub file_name: String,
    /// Public name of whose offers they are; `None`: the rows say.
    pub provider: Option<String>,
    /// What it was recognised as; `None`: read by names of columns.
    pub schema: Option<String>,
    /// The currency of its prices.
    pub currency: Currency,
    /// Rows below the header.
    pub rows: i64,
    /// Rows that say what another one says.
    pub duplicates: i64,
    /// Offers whose own figure per GPU is more than a cent off.
    pub per_gpu_differs: i64,
    /// Offers.
    pub offers: i64,
    /// Rows that were refused.
    pub refused: i64,
    /// When it was imported.
    pub imported_at: Timestamp,
    /// By whom.
    pub imported_by: Option<String>,
}

/// An offer with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferRow {
    /// The provider as the table names it, or its public name.
    pub provider: Option<String>,
    /// The file of its table.
    pub file_name: String,
    /// When its table was imported.
    pub imported_at: Timestamp,
    /// The GPU as the table names it.
    pub gpu_name: String,
    /// Key of the catalogue.
    pub gpu_key: Option<String>,
    /// GPUs of the instance.
    pub gpu_count: u32,
    /// Name of the instance.
    pub instance: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The instance for an hour.
    pub on_demand: Option<Money>,
    /// The same as spot.
    pub spot: Option<Money>,
}

/// Stores a table with its offers and what was refused. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn put(tx: &mut Tx, new: NewPriceTable<'_>) -> Result<PriceTableKey, StoreError> {
    let table = new.table;
    let key = sqlx::query_scalar!(
        "insert into price_table (file_name, provider_id, schema, currency, row_count, duplicates,
            per_gpu_differs, imported_at, imported_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning price_table_id",
        new.file_name,
        new.provider.map(|provider| provider.0),
        table.schema.map(|schema| schema.name()),
        new.currency.as_str(),
        fitted::<_, i32>(table.rows, "rows")?,
        fitted::<_, i32>(table.duplicates, "rows")?,
        fitted::<_, i32>(table.per_gpu_differs, "rows")?,
        new.at.0,
        new.by
    )
    .fetch_one(tx.connection())
    .await?;
    put_offers(tx, key, &table.offers).await?;
    let lines = table.refused.iter().map(|row| fitted::<_, i32>(row.line, "line"));
    let reasons: Vec<String> = table.refused.iter().map(|row| row.fault.to_string()).collect();
    sqlx::query!(
        "insert into price_refused (price_table_id, line, reason)
        select $1, * from unnest($2::int[], $3::text[])",
        key,
        &lines.collect::<Result<Vec<_>, _>>()?,
        &reasons
    )
    .execute(tx.connection())
    .await?;
    Ok(PriceTableKey(key))
}

async fn put_offers(tx: &mut Tx, key: i32, offers: &[Offer]) -> Result<(), StoreError> {
    let text = |pick: fn(&Offer) -> Option<&String>| -> Vec<Option<&str>> {
        offers.iter().map(|offer| pick(offer).map(String::as_str)).collect()
    };
    let price = |pick: fn(&Offer) -> Option<Money>| -> Vec<Option<String>> {
        offers.iter().map(|offer| pick(offer).map(|price| price.amount_text())).collect()
    };
    let lines = offers.iter().map(|offer| fitted::<_, i32>(offer.line, "line"));
    let counts = offers.iter().map(|offer| fitted::<_, i32>(offer.gpu_count, "GPUs"));
    let names: Vec<&str> = offers.iter().map(|offer| offer.gpu_name.as_str()).collect();
    let keys: Vec<Option<&str>> = offers.iter().map(|offer| offer.gpu_key).collect();
    sqlx::query!(
        "insert into price_offer (price_table_id, line, provider_name, instance, region, gpu_name,
            gpu_key, gpu_count, on_demand, spot)
        select $1, * from unnest($2::int[], $3::text[], $4::text[], $5::text[], $6::text[],
            $7::text[], $8::int[], $9::text[], $10::text[])",
        key,
        &lines.collect::<Result<Vec<_>, _>>()?,
        &text(|offer| offer.provider.as_ref()) as &[Option<&str>],
        &text(|offer| offer.instance.as_ref()) as &[Option<&str>],
        &text(|offer| offer.region.as_ref()) as &[Option<&str>],
        &names as &[&str],
        &keys as &[Option<&str>],
        &counts.collect::<Result<Vec<_>, _>>()?,
        &price(|offer| offer.on_demand) as &[Option<String>],
        &price(|offer| offer.spot) as &[Option<String>]
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Tables that count, latest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<PriceTableRow>, StoreError> {
    let rows = sqlx::query!(
        r#"select t.price_table_id, t.file_name, p.slug as "provider?", t.schema, t.currency,
            t.row_count, t.duplicates, t.per_gpu_differs, t.imported_at, t.imported_by,
            (select count(*) from price_offer o where o.price_table_id = t.price_table_id)
                as "offers!",
            (select count(*) from price_refused r where r.price_table_id = t.price_table_id)
                as "refused!"
        from price_table t left join provider p using (provider_id)
        where t.withdrawn_at is null order by t.price_table_id desc"#
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| {
        Ok(PriceTableRow {
            key: PriceTableKey(row.price_table_id),
            file_name: row.file_name,
            provider: row.provider,
            schema: row.schema,
            currency: Column("price_table", "currency").parsed(&row.currency)?,
            rows: row.row_count.into(),
            duplicates: row.duplicates.into(),
            per_gpu_differs: row.per_gpu_differs.into(),
            offers: row.offers,
            refused: row.refused,
            imported_at: Timestamp(row.imported_at),
            imported_by: row.imported_by,
        })
    })
    .collect()
}

/// Lines of a table that were refused, with the reason.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn refused(
    tx: &mut Tx,
    key: PriceTableKey,
    limit: u32,
) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = sqlx::query!(
        "select line, reason from price_refused where price_table_id = $1 order by line limit $2",
        key.0,
        i64::from(limit)
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    Ok(rows.map(|row| (row.line.into(), row.reason)).collect())
}

struct OfferColumns {
    provider: Option<String>,
    file_name: String,
    imported_at: i64,
    currency: String,
    gpu_name: String,
    gpu_key: Option<String>,
    gpu_count: i32,
    instance: Option<String>,
    region: Option<String>,
    on_demand: Option<String>,
    spot: Option<String>,
}

impl TryFrom<OfferColumns> for OfferRow {
    type Error = StoreError;

    fn try_from(row: OfferColumns) -> Result<Self, StoreError> {
        let currency: Currency = Column("price_table", "currency").parsed(&row.currency)?;
        let money = |column, text: Option<String>| {
            let wrong = |error| Column("price_offer", column).wrong(error);
            text.map(|text| Money::parse(&text, currency)).transpose().map_err(wrong)
        };
        Ok(Self {
            provider: row.provider,
            file_name: row.file_name,
            imported_at: Timestamp(row.imported_at),
            gpu_name: row.gpu_name,
            gpu_key: row.gpu_key,
            gpu_count: Column("price_offer", "gpu_count").number(row.gpu_count)?,
            instance: row.instance,
            region: row.region,
            on_demand: money("on_demand", row.on_demand)?,
            spot: money("spot", row.spot)?,
        })
    }
}

/// Offers of tables that count, of a GPU by key or by name; cheapest per GPU is for the caller.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn offers(tx: &mut Tx, gpu: &str, limit: u32) -> Result<Vec<OfferRow>, StoreError> {
    let rows = sqlx::query_as!(
        OfferColumns,
        r#"select coalesce(o.provider_name, p.slug) as provider, t.file_name, t.imported_at,
            t.currency, o.gpu_name, o.gpu_key, o.gpu_count, o.instance, o.region, o.on_demand,
            o.spot
        from price_offer o join price_table t using (price_table_id)
        left join provider p using (provider_id)
        where t.withdrawn_at is null and (o.gpu_key = $1 or o.gpu_name = $1)
        order by t.price_table_id desc, o.line limit $2"#,
        gpu,
        i64::from(limit)
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// The same of every GPU whose name begins like a text, in whatever case.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn offers_like(tx: &mut Tx, gpu: &str, limit: u32) -> Result<Vec<OfferRow>, StoreError> {
    let rows = sqlx::query_as!(
        OfferColumns,
        r#"select coalesce(o.provider_name, p.slug) as provider, t.file_name, t.imported_at,
            t.currency, o.gpu_name, o.gpu_key, o.gpu_count, o.instance, o.region, o.on_demand,
            o.spot
        from price_offer o join price_table t using (price_table_id)
        left join provider p using (provider_id)
        where t.withdrawn_at is null and starts_with(lower(o.gpu_name), lower($1))
        order by t.price_table_id desc, o.line limit $2"#,
        gpu,
        i64::from(limit)
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// Lets a table count no longer; false when it did not. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(tx: &mut Tx, key: PriceTableKey, at: Timestamp) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update price_table set withdrawn_at = $2
        where price_table_id = $1 and withdrawn_at is null",
        key.0,
        at.0
    );
    Ok(done.execute(tx.connection()).await?.rows_affected() == 1)
}
