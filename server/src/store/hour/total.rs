//! Sums of hours without reading the records: milliseconds only, never averages of ratios.

use leasewatch_core::time::Hour;

use crate::store::column::hour_column;
use crate::store::{NodeKey, StoreError, Tx};

/// The latest revisions of an hour's whole GPUs, added up over what the scope may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourTotal {
    /// The hour.
    pub hour: Hour,
    /// Enrolled time.
    pub enrolled_ms: i64,
    /// Measured time.
    pub measured_ms: i64,
    /// Percent times milliseconds of it.
    pub busy_pct_ms: i64,
}

/// The latest revisions of a node's hours, added up over its whole GPUs: a slice's time is that of
/// its GPU, and would count twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeTotal {
    /// The node.
    pub node: NodeKey,
    /// Enrolled time of its slots.
    pub enrolled_ms: i64,
    /// Measured time.
    pub measured_ms: i64,
    /// Percent times milliseconds of it.
    pub busy_pct_ms: i64,
}

/// Sums per hour of `[from, to)`, of one node or of all that the scope may see.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn totals_by_hour(
    tx: &mut Tx,
    only: Option<NodeKey>,
    from: Hour,
    to: Hour,
) -> Result<Vec<HourTotal>, StoreError> {
    let (tenant, node) = only.map(NodeKey::columns).unzip();
    let rows = sqlx::query!(
        r#"select hour, sum(enrolled_ms)::bigint as "enrolled_ms!",
            sum(measured_ms)::bigint as "measured_ms!", sum(busy_pct_ms)::bigint as "busy_pct_ms!"
        from hour_record h
        join slot s using (tenant_id, node_id, slot_no)
        where s.gpu_instance is null and hour >= $1 and hour < $2
            and ($3::int is null or (tenant_id = $3 and node_id = $4))
            and not exists (select from hour_record newer
                where newer.tenant_id = h.tenant_id and newer.node_id = h.node_id
                    and newer.slot_no = h.slot_no and newer.hour = h.hour
                    and newer.gpu_uuid = h.gpu_uuid and newer.revision = h.revision + 1)
        group by hour order by hour"#,
        hour_column(from)?,
        hour_column(to)?,
        tenant,
        node
    )
    .fetch_all(tx.connection())
    .await?;
    let totals = rows.into_iter().map(|row| HourTotal {
        hour: Hour(i64::from(row.hour)),
        enrolled_ms: row.enrolled_ms,
        measured_ms: row.measured_ms,
        busy_pct_ms: row.busy_pct_ms,
    });
    Ok(totals.collect())
}

/// Sums per node over the hours `[from, to)`.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn totals_by_node(
    tx: &mut Tx,
    from: Hour,
    to: Hour,
) -> Result<Vec<NodeTotal>, StoreError> {
    let rows = sqlx::query!(
        r#"select tenant_id, node_id, sum(enrolled_ms)::bigint as "enrolled_ms!",
            sum(measured_ms)::bigint as "measured_ms!", sum(busy_pct_ms)::bigint as "busy_pct_ms!"
        from hour_record h
        join slot s using (tenant_id, node_id, slot_no)
        where s.gpu_instance is null and hour >= $1 and hour < $2
            and not exists (select from hour_record newer
                where newer.tenant_id = h.tenant_id and newer.node_id = h.node_id
                    and newer.slot_no = h.slot_no and newer.hour = h.hour
                    and newer.gpu_uuid = h.gpu_uuid and newer.revision = h.revision + 1)
        group by tenant_id, node_id order by tenant_id, node_id"#,
        hour_column(from)?,
        hour_column(to)?
    )
    .fetch_all(tx.connection())
    .await?;
    let totals = rows.into_iter().map(|row| NodeTotal {
        node: NodeKey::new(row.tenant_id, row.node_id),
        enrolled_ms: row.enrolled_ms,
        measured_ms: row.measured_ms,
        busy_pct_ms: row.busy_pct_ms,
    });
    Ok(totals.collect())
}
