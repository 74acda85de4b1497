//! Incidents: periods in which something held. Of kind down: unbroken stretches of proven downtime.

use leasewatch_core::availability::{DownCause, EvidenceClass, Ground};
use leasewatch_core::id::{Hash, SlotNo};
use leasewatch_core::time::{Period, Timestamp};

use super::column::Column;
use super::slot::{slot_column, slot_no};
use super::{LeaseKey, NodeKey, StoreError, Tx};

/// Whose doing something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribution {
    /// The tenant's.
    Tenant,
    /// The provider's.
    Provider,
    /// Of the network between them.
    Network,
    /// Nothing shows it.
    Unknown,
}

impl Attribution {
    /// Every value.
    pub const ALL: [Self; 4] = [Self::Tenant, Self::Provider, Self::Network, Self::Unknown];

    /// `tenant`, `provider`, `network` or `unknown`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Provider => "provider",
            Self::Network => "network",
            Self::Unknown => "unknown",
        }
    }

    /// The value with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// An unbroken stretch of proven downtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Down {
    /// On which node.
    pub node: NodeKey,
    /// In which slot; `None`: every slot of the node that the lease covers.
    pub slot: Option<SlotNo>,
    /// When.
    pub period: Period,
    /// How it is known, and what was down.
    pub ground: Ground,
    /// Whose doing.
    pub attribution: Attribution,
    /// Hashes of the availability rows that show it, in order of time.
    pub evidence: Vec<Hash>,
}

/// A stored incident of kind down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentRow {
    /// Its number within the tenant.
    pub number: i32,
    /// What it says.
    pub down: Down,
}

/// Stores a new one; returns its number. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn insert(
    tx: &mut Tx,
    lease: LeaseKey,
    down: &Down,
    at: Timestamp,
) -> Result<i32, StoreError> {
    let (tenant, lease) = lease.columns();
    let number = sqlx::query_scalar!(
        "insert into incident (tenant_id, kind, lease_id, node_id, slot_no, starts_at, ends_at,
            class, cause, attribution, evidence, written_at)
        values ($1, 'down', $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11)
        returning incident_id",
        tenant,
        lease,
        down.node.columns().1,
        down.slot.map(slot_column).transpose()?,
        down.period.start.0,
        down.period.end.0,
        down.ground.class.name(),
        down.ground.cause.name(),
        down.attribution.name(),
        hashes_json(&down.evidence),
        at.0
    );
    Ok(number.fetch_one(tx.connection()).await?)
}

/// It holds until another time than was known, or other rows show it. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn extend(
    tx: &mut Tx,
    lease: LeaseKey,
    number: i32,
    (ends_at, evidence): (Timestamp, &[Hash]),
) -> Result<(), StoreError> {
    let (tenant, lease) = lease.columns();
    sqlx::query!(
        "update incident set ends_at = $4, evidence = $5::text::jsonb
        where tenant_id = $1 and lease_id = $2 and incident_id = $3",
        tenant,
        lease,
        number,
        ends_at.0,
        hashes_json(evidence)
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Later data showed that it was not so. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(
    tx: &mut Tx,
    lease: LeaseKey,
    number: i32,
    at: Timestamp,
) -> Result<(), StoreError> {
    let (tenant, lease) = lease.columns();
    sqlx::query!(
        "update incident set withdrawn_at = $4
        where tenant_id = $1 and lease_id = $2 and incident_id = $3",
        tenant,
        lease,
        number,
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The incidents of kind down of a lease that meet `period` and stand, by time.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that this program did not write.
pub async fn of_lease(
    tx: &mut Tx,
    lease: LeaseKey,
    period: Period,
) -> Result<Vec<IncidentRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query!(
        r#"select incident_id, node_id, slot_no, starts_at, ends_at, class, cause, attribution,
            evidence::text as "evidence!"
        from incident
        where tenant_id = $1 and lease_id = $2 and kind = 'down' and withdrawn_at is null
            and starts_at < $4 and ends_at > $3
        order by starts_at, node_id, slot_no, incident_id"#,
        tenant,
        lease,
        period.start.0,
        period.end.0
    )
    .fetch_all(tx.connection())
    .await?;
    let incidents = rows.into_iter().map(|row| {
        let class = column("class").named(&row.class, EvidenceClass::from_name)?;
        let cause = column("cause").named(&row.cause, DownCause::from_name)?;
        let attribution = column("attribution").named(&row.attribution, Attribution::from_name)?;
        let down = Down {
            node: NodeKey::new(tenant, row.node_id),
            slot: row.slot_no.map(slot_no).transpose()?,
            period: Period::new(Timestamp(row.starts_at), Timestamp(row.ends_at)),
            ground: Ground { class, cause },
            attribution,
            evidence: hashes(&row.evidence)?,
        };
        Ok(IncidentRow { number: row.incident_id, down })
    });
    incidents.collect()
}

fn hashes_json(hashes: &[Hash]) -> String {
    let hashes: Vec<String> = hashes.iter().map(|hash| format!("\"{hash}\"")).collect();
    format!("[{}]", hashes.join(","))
}

fn hashes(json: &str) -> Result<Vec<Hash>, StoreError> {
    let texts: Vec<String> =
        serde_json::from_str(json).map_err(|error| column("evidence").wrong(error))?;
    texts.iter().map(|text| column("evidence").parsed(text)).collect()
}

fn column(name: &'static str) -> Column {
    Column("incident", name)
}
