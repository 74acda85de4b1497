//! What waits to be published.

use leasewatch_core::id::{ChainId, Hash, Sequence, Slug};
use leasewatch_core::time::Timestamp;

use crate::store::column::Column;
use crate::store::segment::{self, HeadRow};
use crate::store::{NodeKey, ProviderKey, StoreError, TenantKey, Tx};

/// A log for which something waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its tenant.
    pub tenant: TenantKey,
    /// Its provider.
    pub provider: ProviderKey,
    /// The tenant's public name.
    pub tenant_slug: Slug,
    /// The provider's public name.
    pub provider_slug: Slug,
}

/// When heads count as waiting: received before the first instant, or, by a clock that was put back
/// since, not before the second one.
pub type Window = (Timestamp, Timestamp);

/// Logs for which something waits, by tenant and provider. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn due(tx: &mut Tx, (before, beyond): Window) -> Result<Vec<Due>, StoreError> {
    let rows = sqlx::query!(
        r#"select d.tenant_id as "tenant_id!", d.provider_id as "provider_id!", t.slug as tenant,
            p.slug as provider
        from (
            select tenant_id, provider_id from log_work
            union
            select n.tenant_id, n.provider_id from head_work w join node n using (tenant_id, node_id)
            where w.received_at < $1 or w.received_at >= $2
        ) d join tenant t using (tenant_id) join provider p using (provider_id)
        order by 1, 2"#,
        before.0,
        beyond.0
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter()
        .map(|row| {
            Ok(Due {
                tenant: TenantKey(row.tenant_id),
                provider: ProviderKey(row.provider_id),
                tenant_slug: Column("tenant", "slug").parsed(&row.tenant)?,
                provider_slug: Column("provider", "slug").parsed(&row.provider)?,
            })
        })
        .collect()
}

/// Takes up to `limit` statements out of the queue, in their order. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn take_work(tx: &mut Tx, due: &Due, limit: u32) -> Result<Vec<Hash>, StoreError> {
    let rows = sqlx::query!(
        r#"with taken as (
            delete from log_work where tenant_id = $1 and work_id in (
                select work_id from log_work where tenant_id = $1 and provider_id = $2
                order by work_id limit $3)
            returning work_id, hash
        )
        select hash as "hash!" from taken order by work_id"#,
        due.tenant.number(),
        due.provider.0,
        i64::from(limit)
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.iter().map(|row| Column("log_work", "hash").array(&row.hash).map(Hash)).collect()
}

/// Statements that wait for a log.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn waiting_work(
    tx: &mut Tx,
    tenant: TenantKey,
    provider: ProviderKey,
) -> Result<Vec<Hash>, StoreError> {
    let rows = sqlx::query_scalar!(
        "select hash from log_work where tenant_id = $1 and provider_id = $2",
        tenant.number(),
        provider.0
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.iter().map(|hash| Column("log_work", "hash").array(hash).map(Hash)).collect()
}

/// Heads of a node that wait for a minute.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn waiting_heads(
    tx: &mut Tx,
    key: NodeKey,
) -> Result<Vec<(ChainId, Sequence)>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query!(
        "select chain_id, sequence from head_work where tenant_id = $1 and node_id = $2",
        tenant,
        node
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let column = |name| Column("head_work", name);
    rows.into_iter()
        .map(|row| {
            let chain = ChainId(column("chain_id").array(&row.chain_id)?);
            Ok((chain, Sequence(column("sequence").number(row.sequence)?)))
        })
        .collect()
}

/// When the first of the waiting heads was received. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn oldest_head(
    tx: &mut Tx,
    due: &Due,
    (before, beyond): Window,
) -> Result<Option<Timestamp>, StoreError> {
    let at = sqlx::query_scalar!(
        "select min(w.received_at) from head_work w join node n using (tenant_id, node_id)
        where w.tenant_id = $1 and n.provider_id = $2 and (w.received_at < $3 or w.received_at >= $4)",
        due.tenant.number(),
        due.provider.0,
        before.0,
        beyond.0
    );
    Ok(at.fetch_one(tx.connection()).await?.map(Timestamp))
}

/// Takes up to `limit` waiting heads out of the queue, the first received first. Scope: worker.
///
/// # Errors
/// [`StoreError::Inconsistent`] when a row does not regenerate the statement that was signed.
pub async fn take_heads(
    tx: &mut Tx,
    due: &Due,
    (before, beyond): Window,
    limit: u32,
) -> Result<Vec<HeadRow>, StoreError> {
    let rows = sqlx::query!(
        "delete from head_work d using (
            select w.node_id, w.chain_id, w.sequence
            from head_work w join node n using (tenant_id, node_id)
            where w.tenant_id = $1 and n.provider_id = $2
                and (w.received_at < $3 or w.received_at >= $4)
            order by w.received_at, w.node_id, w.chain_id, w.sequence limit $5
        ) t
        where d.tenant_id = $1 and d.node_id = t.node_id and d.chain_id = t.chain_id
            and d.sequence = t.sequence
        returning d.node_id, d.chain_id, d.sequence, d.ended_at",
        due.tenant.number(),
        due.provider.0,
        before.0,
        beyond.0,
        i64::from(limit)
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let mut names = segment::Names::default();
    for row in rows {
        names.push(row.node_id, row.ended_at, row.chain_id, row.sequence);
    }
    segment::named(tx, due.tenant, &names).await
}
