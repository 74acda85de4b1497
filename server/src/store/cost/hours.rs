//! The rows of `lease_hour`.

use leasewatch_core::cost::{Measures, NodeHour, Part};
use leasewatch_core::id::SlotNo;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Hour;

use crate::store::column::{Column, fitted, hour_column};
use crate::store::slot::{slot_column, slot_no};
use crate::store::{LeaseKey, NodeKey, StoreError, Tx};

/// Sums of a lease, node and hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHour {
    /// The node.
    pub node: NodeKey,
    /// The hour.
    pub hour: Hour,
    /// What the lease had of it.
    pub spent: NodeHour,
}

/// Puts the rows of a lease's hours `[from, to)` in place of those that are there. Rows without
/// contracted time are left out. Scope: worker.
///
/// # Errors
/// [`StoreError::Constraint`] when the parts of a row do not add up to its contracted time.
pub async fn put_hours(
    tx: &mut Tx,
    key: LeaseKey,
    (from, to): (Hour, Hour),
    rows: &[LeaseHour],
) -> Result<(), StoreError> {
    let (tenant, lease) = key.columns();
    sqlx::query!(
        "delete from lease_hour
        where tenant_id = $1 and lease_id = $2 and hour >= $3 and hour < $4",
        tenant,
        lease,
        hour_column(from)?,
        hour_column(to)?
    )
    .execute(tx.connection())
    .await?;
    let rows: Vec<&LeaseHour> =
        rows.iter().filter(|row| row.spent.measures.contracted_ms > 0).collect();
    let nodes: Vec<i32> = rows.iter().map(|row| row.node.columns().1).collect();
    let at = rows.iter().map(|row| hour_column(row.hour));
    let of = |value: &dyn Fn(&Measures) -> i64| -> Vec<i64> {
        rows.iter().map(|row| value(&row.spent.measures)).collect()
    };
    let part = |part| of(&|measures| measures.parts.of(part));
    let node_ms = rows.iter().map(|row| fitted::<_, i32>(row.spent.node_ms, "time of a node"));
    let origins: Vec<Option<&str>> =
        rows.iter().map(|row| row.spent.origin.map(Origin::name)).collect();
    let clocks = rows.iter().map(|row| array(&row.spent.clocks_mhz));
    let peaks = rows.iter().map(|row| array(&row.spent.memory_peaks_mib));
    sqlx::query!(
        "insert into lease_hour (tenant_id, lease_id, hour, node_id, contracted_ms,
            effective_pct_ms, degraded_pct_ms, waiting_pct_ms, idle_free_pct_ms, idle_held_pct_ms,
            idle_unsplit_pct_ms, unavailable_pct_ms, unknown_pct_ms, excluded_pct_ms,
            delivered_pct_ms, healthy_pct_ms, phantom_pct_ms, stall_ms, attributable_ms,
            unadjusted_pct_ms, node_ms, origin, clocks_mhz, memory_peaks_mib)
        select $1, $2, r.hour, r.node, r.contracted, r.p0, r.p1, r.p2, r.p3, r.p4, r.p5, r.p6, r.p7,
            r.p8, r.delivered, r.healthy, r.phantom, r.stall, r.attributable, r.unadjusted,
            r.node_ms, r.origin, r.clocks::int[], r.peaks::int[]
        from unnest($3::int[], $4::int[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
            $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[],
            $19::bigint[], $20::bigint[], $21::int[], $22::text[], $23::text[], $24::text[])
            as r (hour, node, contracted, p0, p1, p2, p3, p4, p5, p6, p7, p8, delivered, healthy,
                phantom, stall, attributable, unadjusted, node_ms, origin, clocks, peaks)",
        tenant,
        lease,
        &at.collect::<Result<Vec<_>, _>>()?,
        &nodes,
        &of(&|measures| measures.contracted_ms),
        &part(Part::Effective),
        &part(Part::Degraded),
        &part(Part::Waiting),
        &part(Part::IdleFree),
        &part(Part::IdleHeld),
        &part(Part::IdleUnsplit),
        &part(Part::Unavailable),
        &part(Part::Unknown),
        &part(Part::Excluded),
        &of(&|measures| measures.delivered_pct_ms),
        &of(&|measures| measures.healthy_pct_ms),
        &of(&|measures| measures.phantom_pct_ms),
        &of(&|measures| measures.stall_ms),
        &of(&|measures| measures.attributable_ms),
        &of(&|measures| measures.unadjusted_pct_ms),
        &node_ms.collect::<Result<Vec<_>, _>>()?,
        &origins as &[Option<&str>],
        &clocks.collect::<Result<Vec<_>, _>>()?,
        &peaks.collect::<Result<Vec<_>, _>>()?
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The rows of a lease's hours `[from, to)`, by hour and node.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that this program did not write.
pub async fn hours(
    tx: &mut Tx,
    key: LeaseKey,
    (from, to): (Hour, Hour),
) -> Result<Vec<LeaseHour>, StoreError> {
    let (tenant, lease) = key.columns();
    let rows = sqlx::query!(
        r#"select hour, node_id, contracted_ms, effective_pct_ms, degraded_pct_ms, waiting_pct_ms,
            idle_free_pct_ms, idle_held_pct_ms, idle_unsplit_pct_ms, unavailable_pct_ms,
            unknown_pct_ms, excluded_pct_ms, delivered_pct_ms, healthy_pct_ms, phantom_pct_ms,
            stall_ms, attributable_ms, unadjusted_pct_ms, node_ms, origin,
            clocks_mhz as "clocks_mhz: Vec<Option<i32>>",
            memory_peaks_mib as "memory_peaks_mib: Vec<Option<i32>>"
        from lease_hour where tenant_id = $1 and lease_id = $2 and hour >= $3 and hour < $4
        order by hour, node_id"#,
        tenant,
        lease,
        hour_column(from)?,
        hour_column(to)?
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter().map(|row| {
        let mut measures = Measures {
            contracted_ms: row.contracted_ms,
            delivered_pct_ms: row.delivered_pct_ms,
            healthy_pct_ms: row.healthy_pct_ms,
            phantom_pct_ms: row.phantom_pct_ms,
            stall_ms: row.stall_ms,
            attributable_ms: row.attributable_ms,
            unadjusted_pct_ms: row.unadjusted_pct_ms,
            ..Measures::default()
        };
        for (part, pct_ms) in [
            (Part::Effective, row.effective_pct_ms),
            (Part::Degraded, row.degraded_pct_ms),
            (Part::Waiting, row.waiting_pct_ms),
            (Part::IdleFree, row.idle_free_pct_ms),
            (Part::IdleHeld, row.idle_held_pct_ms),
            (Part::IdleUnsplit, row.idle_unsplit_pct_ms),
            (Part::Unavailable, row.unavailable_pct_ms),
            (Part::Unknown, row.unknown_pct_ms),
            (Part::Excluded, row.excluded_pct_ms),
        ] {
            measures.parts.add(part, pct_ms);
        }
        let origin = Column("lease_hour", "origin");
        let origin = row.origin.map(|name| origin.named(&name, Origin::from_name)).transpose()?;
        let spent = NodeHour {
            measures,
            node_ms: i64::from(row.node_ms),
            origin,
            clocks_mhz: by_slot(&row.clocks_mhz)?,
            memory_peaks_mib: by_slot(&row.memory_peaks_mib)?,
        };
        let node = NodeKey::new(tenant, row.node_id);
        Ok(LeaseHour { node, hour: Hour(i64::from(row.hour)), spent })
    });
    rows.collect()
}

/// Values by slot as the text of an array, with nulls between them.
fn array(values: &[(SlotNo, i64)]) -> Result<String, StoreError> {
    let mut cells: Vec<Option<i32>> = Vec::new();
    for (slot, value) in values {
        let index: usize = fitted(slot_column(*slot)?, "slot")?;
        if cells.len() <= index {
            cells.resize(index + 1, None);
        }
        cells[index] = Some(fitted(*value, "value of a slot")?);
    }
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| cell.map_or("null".to_owned(), |value| value.to_string()))
        .collect();
    Ok(format!("{{{}}}", cells.join(",")))
}

fn by_slot(cells: &[Option<i32>]) -> Result<Vec<(SlotNo, i64)>, StoreError> {
    let cells = (0_i16..).zip(cells);
    let known = cells.filter_map(|(slot, cell)| Some((slot, (*cell)?)));
    known.map(|(slot, value)| Ok((slot_no(slot)?, i64::from(value)))).collect()
}
