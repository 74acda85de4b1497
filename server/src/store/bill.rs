//! Bills with their lines. Scope of what writes: the tenant.

use leasewatch_core::cost::bill::{BillLine, Quantity, QuantityUnit, ReadBill};
use leasewatch_core::id::Slug;
use leasewatch_core::money::{Currency, Money};
use leasewatch_core::time::{Period, Timestamp};

use super::column::{Column, fitted};
use super::{ProviderKey, StoreError, TenantKey, Tx};

/// The internal key of a bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BillKey {
    /// The tenant that pays.
    pub tenant: TenantKey,
    bill: i32,
}

impl BillKey {
    /// The bill with this number.
    #[must_use]
    pub fn new(tenant: TenantKey, number: i32) -> Self {
        Self { tenant, bill: number }
    }

    /// Its number, which pages name it by.
    #[must_use]
    pub fn number(self) -> i32 {
        self.bill
    }
}

/// A bill to store.
#[derive(Debug, Clone, Copy)]
pub struct NewBill<'a> {
    /// Who pays.
    pub tenant: TenantKey,
    /// Whose it is.
    pub provider: ProviderKey,
    /// The file's name.
    pub file_name: &'a str,
    /// Its amounts and rates include tax.
    pub with_tax: bool,
    /// Its lines.
    pub bill: &'a ReadBill,
    /// Now.
    pub at: Timestamp,
    /// Name of the user; `None` when nobody signed in.
    pub by: Option<&'a str>,
}

/// A stored bill without its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillRow {
    /// Its key.
    pub key: BillKey,
    /// Public name of the tenant.
    pub tenant: Slug,
    /// Public name of the provider.
    pub provider: Slug,
    /// The file's name.
    pub file_name: String,
    /// Its amounts and rates include tax.
    pub with_tax: bool,
    /// When it was imported.
    pub imported_at: Timestamp,
    /// By whom.
    pub imported_by: Option<String>,
    /// How many lines were refused.
    pub refused: i64,
}

/// Stores a bill. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn put(tx: &mut Tx, new: NewBill<'_>) -> Result<BillKey, StoreError> {
    let number = sqlx::query_scalar!(
        "insert into bill (tenant_id, provider_id, file_name, with_tax, imported_at, imported_by)
        values ($1, $2, $3, $4, $5, $6) returning bill_id",
        new.tenant.0,
        new.provider.0,
        new.file_name,
        new.with_tax,
        new.at.0,
        new.by
    )
    .fetch_one(tx.connection())
    .await?;
    let key = BillKey { tenant: new.tenant, bill: number };
    put_lines(tx, key, &new.bill.lines).await?;
    let lines = new.bill.refused.iter().map(|row| fitted::<_, i32>(row.line, "line"));
    let reasons: Vec<String> = new.bill.refused.iter().map(|row| row.fault.to_string()).collect();
    sqlx::query!(
        "insert into bill_refused (tenant_id, bill_id, line, reason)
        select $1, $2, * from unnest($3::int[], $4::text[])",
        key.tenant.0,
        key.bill,
        &lines.collect::<Result<Vec<_>, _>>()?,
        &reasons
    )
    .execute(tx.connection())
    .await?;
    Ok(key)
}

async fn put_lines(tx: &mut Tx, key: BillKey, lines: &[BillLine]) -> Result<(), StoreError> {
    let numbers = lines.iter().map(|line| fitted::<_, i32>(line.line, "line"));
    let keys: Vec<&str> = lines.iter().map(|line| line.key.as_str()).collect();
    let starts: Vec<i64> = lines.iter().map(|line| line.period.start.0).collect();
    let ends: Vec<i64> = lines.iter().map(|line| line.period.end.0).collect();
    let quantity = |line: &BillLine| {
        line.quantity
            .map(|q| Money { nanos: q.nanos, currency: line.amount.currency }.amount_text())
    };
    let quantities: Vec<Option<String>> = lines.iter().map(quantity).collect();
    let units: Vec<Option<&str>> =
        lines.iter().map(|line| line.quantity.map(|q| q.unit.name())).collect();
    let rates: Vec<Option<String>> =
        lines.iter().map(|line| line.rate.map(|rate| rate.amount_text())).collect();
    let amounts: Vec<String> = lines.iter().map(|line| line.amount.amount_text()).collect();
    let currencies: Vec<String> =
        lines.iter().map(|line| line.amount.currency.to_string()).collect();
    sqlx::query!(
        "insert into bill_line (tenant_id, bill_id, line, key, starts_at, ends_at, quantity, unit,
            rate, amount, currency)
        select $1, $2, * from unnest($3::int[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
            $8::text[], $9::text[], $10::text[], $11::text[])",
        key.tenant.0,
        key.bill,
        &numbers.collect::<Result<Vec<_>, _>>()?,
        &keys as &[&str],
        &starts,
        &ends,
        &quantities as &[Option<String>],
        &units as &[Option<&str>],
        &rates as &[Option<String>],
        &amounts,
        &currencies
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Bills that count, latest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<BillRow>, StoreError> {
    let rows = sqlx::query!(
        r#"select b.tenant_id, b.bill_id, t.slug as tenant, p.slug as provider, b.file_name,
            b.with_tax, b.imported_at, b.imported_by,
            (select count(*) from bill_refused r
                where r.tenant_id = b.tenant_id and r.bill_id = b.bill_id) as "refused!"
        from bill b join tenant t using (tenant_id) join provider p using (provider_id)
        where b.withdrawn_at is null order by b.bill_id desc"#
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| {
        Ok(BillRow {
            key: BillKey { tenant: TenantKey(row.tenant_id), bill: row.bill_id },
            tenant: Column("tenant", "slug").parsed(&row.tenant)?,
            provider: Column("provider", "slug").parsed(&row.provider)?,
            file_name: row.file_name,
            with_tax: row.with_tax,
            imported_at: Timestamp(row.imported_at),
            imported_by: row.imported_by,
            refused: row.refused,
        })
    })
    .collect()
}

/// A bill's lines, in the order of the file.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that is no line.
pub async fn lines(tx: &mut Tx, key: BillKey) -> Result<Vec<BillLine>, StoreError> {
    let rows = sqlx::query!(
        "select line, key, starts_at, ends_at, quantity, unit, rate, amount, currency
        from bill_line where tenant_id = $1 and bill_id = $2 order by line",
        key.tenant.0,
        key.bill
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| {
        let column = |name| Column("bill_line", name);
        let currency: Currency = column("currency").parsed(&row.currency)?;
        let money = |name, text: &str| {
            Money::parse(text, currency).map_err(|error| column(name).wrong(error))
        };
        let unit = row.unit.as_deref();
        let unit = unit.map(|unit| column("unit").named(unit, QuantityUnit::from_name));
        let quantity = row.quantity.as_deref().map(|text| money("quantity", text)).transpose()?;
        let quantity = quantity.zip(unit.transpose()?);
        Ok(BillLine {
            line: column("line").number(row.line)?,
            key: row.key,
            period: Period::new(Timestamp(row.starts_at), Timestamp(row.ends_at)),
            quantity: quantity.map(|(value, unit)| Quantity { nanos: value.nanos, unit }),
            rate: row.rate.as_deref().map(|text| money("rate", text)).transpose()?,
            amount: money("amount", &row.amount)?,
        })
    })
    .collect()
}

/// Lines of a bill that were refused, with the reason.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn refused(tx: &mut Tx, key: BillKey) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = sqlx::query!(
        "select line, reason from bill_refused where tenant_id = $1 and bill_id = $2 order by line",
        key.tenant.0,
        key.bill
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    Ok(rows.map(|row| (row.line.into(), row.reason)).collect())
}

/// Lets a bill count no longer; false when it did not. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(tx: &mut Tx, key: BillKey, at: Timestamp) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update bill set withdrawn_at = $3
        where tenant_id = $1 and bill_id = $2 and withdrawn_at is null",
        key.tenant.0,
        key.bill,
        at.0
    );
    Ok(done.execute(tx.connection()).await?.rows_affected() == 1)
}
