//! Bills with their lines. Scope of what writes: the tenant.

use leasewatch_core::cost::bill::{
    BillLine, BillRowFault, Quantity, QuantityUnit, ReadBill, RefusedLine,
};
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
    /// How many lines it has.
    pub lines: i64,
    /// From its first to its last moment; `None` when it has no line.
    pub period: Option<Period>,
    /// How many lines were refused.
    pub refused: i64,
}

/// A line that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedBillLine {
    /// Its line in the file, from 1.
    pub line: i64,
    /// Why.
    pub fault: BillRowFault,
    /// The column with the cell that is wrong.
    pub column: Option<String>,
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
    let reasons: Vec<String> = new.bill.refused.iter().map(reason).collect();
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

/// `date From`: the fault's name, and the column where one is meant.
fn reason(refused: &RefusedLine) -> String {
    match &refused.column {
        Some(column) => format!("{} {column}", refused.fault.name()),
        None => refused.fault.name().to_owned(),
    }
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

struct Row {
    tenant_id: i32,
    bill_id: i32,
    tenant: String,
    provider: String,
    file_name: String,
    with_tax: bool,
    imported_at: i64,
    imported_by: Option<String>,
    lines: i64,
    starts_at: Option<i64>,
    ends_at: Option<i64>,
    refused: i64,
}

impl TryFrom<Row> for BillRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let period = row.starts_at.zip(row.ends_at);
        Ok(Self {
            key: BillKey { tenant: TenantKey(row.tenant_id), bill: row.bill_id },
            tenant: Column("tenant", "slug").parsed(&row.tenant)?,
            provider: Column("provider", "slug").parsed(&row.provider)?,
            file_name: row.file_name,
            with_tax: row.with_tax,
            imported_at: Timestamp(row.imported_at),
            imported_by: row.imported_by,
            lines: row.lines,
            period: period.map(|(start, end)| Period::new(Timestamp(start), Timestamp(end))),
            refused: row.refused,
        })
    }
}

/// Bills that count, latest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<BillRow>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"select b.tenant_id, b.bill_id, t.slug as tenant, p.slug as provider, b.file_name,
            b.with_tax, b.imported_at, b.imported_by, l.lines as "lines!", l.starts_at, l.ends_at,
            (select count(*) from bill_refused r
                where r.tenant_id = b.tenant_id and r.bill_id = b.bill_id) as "refused!"
        from bill b join tenant t using (tenant_id) join provider p using (provider_id)
        cross join lateral (
            select count(*) as lines, min(starts_at) as starts_at, max(ends_at) as ends_at
            from bill_line l where l.tenant_id = b.tenant_id and l.bill_id = b.bill_id
        ) as l
        where b.withdrawn_at is null order by b.bill_id desc"#
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// A bill that counts. Not this scope's and not there are the same answer.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_key(tx: &mut Tx, key: BillKey) -> Result<Option<BillRow>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"select b.tenant_id, b.bill_id, t.slug as tenant, p.slug as provider, b.file_name,
            b.with_tax, b.imported_at, b.imported_by, l.lines as "lines!", l.starts_at, l.ends_at,
            (select count(*) from bill_refused r
                where r.tenant_id = b.tenant_id and r.bill_id = b.bill_id) as "refused!"
        from bill b join tenant t using (tenant_id) join provider p using (provider_id)
        cross join lateral (
            select count(*) as lines, min(starts_at) as starts_at, max(ends_at) as ends_at
            from bill_line l where l.tenant_id = b.tenant_id and l.bill_id = b.bill_id
        ) as l
        where b.tenant_id = $1 and b.bill_id = $2 and b.withdrawn_at is null"#,
        key.tenant.0,
        key.bill
    );
    row.fetch_optional(tx.connection()).await?.map(TryInto::try_into).transpose()
}

/// Keeps how the columns of a provider's bills were read. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn keep_mapping(
    tx: &mut Tx,
    (tenant, provider): (TenantKey, ProviderKey),
    mapping: &str,
    (at, by): (Timestamp, Option<&str>),
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into bill_mapping (tenant_id, provider_id, mapping, written_at, written_by)
        values ($1, $2, $3, $4, $5) on conflict (tenant_id, provider_id) do update set
            mapping = excluded.mapping, written_at = excluded.written_at,
            written_by = excluded.written_by",
        tenant.0,
        provider.0,
        mapping,
        at.0,
        by
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// How the columns of a provider's bills were last read; `None` before the first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn mapping(
    tx: &mut Tx,
    (tenant, provider): (TenantKey, ProviderKey),
) -> Result<Option<String>, StoreError> {
    let kept = sqlx::query_scalar!(
        "select mapping from bill_mapping where tenant_id = $1 and provider_id = $2",
        tenant.0,
        provider.0
    );
    Ok(kept.fetch_optional(tx.connection()).await?)
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
/// [`StoreError::Inconsistent`] for a reason that is not known.
pub async fn refused(tx: &mut Tx, key: BillKey) -> Result<Vec<RefusedBillLine>, StoreError> {
    let rows = sqlx::query!(
        "select line, reason from bill_refused where tenant_id = $1 and bill_id = $2 order by line",
        key.tenant.0,
        key.bill
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| {
        let (name, column) = row.reason.split_once(' ').unzip();
        let name = name.unwrap_or(&row.reason);
        Ok(RefusedBillLine {
            line: row.line.into(),
            fault: Column("bill_refused", "reason").named(name, BillRowFault::from_name)?,
            column: column.map(str::to_owned),
        })
    })
    .collect()
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
