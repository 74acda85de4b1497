//! Nodes and their keys.

use leasewatch_core::id::{KeyId, NodeId, Slug};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};

use super::column::Column;
use super::{ProviderKey, StoreError, TenantKey, Tx};

/// The internal key of a node. It never leaves the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// The tenant that it belongs to.
    pub tenant: TenantKey,
    pub(super) node: i32,
}

impl NodeKey {
    pub(super) fn new(tenant_id: i32, node_id: i32) -> Self {
        Self { tenant: TenantKey(tenant_id), node: node_id }
    }

    /// The tenant that the node belongs to.
    #[must_use]
    pub fn tenant(self) -> TenantKey {
        self.tenant
    }

    /// The two columns that lead each key of a node's rows.
    pub(super) fn columns(self) -> (i32, i32) {
        (self.tenant.0, self.node)
    }
}

/// A node with the names of whom it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Internal key.
    pub key: NodeKey,
    /// Public id.
    pub id: NodeId,
    /// Its tenant.
    pub tenant: Slug,
    /// Its provider's public name.
    pub provider: Slug,
    /// Its provider's name for people.
    pub provider_name: String,
    /// Its name for people; clean text.
    pub name: String,
    /// Where its data comes from.
    pub origin: Origin,
    /// Measured time counts from here.
    pub enrolled_at: Timestamp,
    /// Measured time counts to here; `None` while it is expected to report.
    pub retired_at: Option<Timestamp>,
    /// When the server first heard of it.
    pub first_seen_at: Timestamp,
}

impl NodeRow {
    /// Enrolled time, with `now` for its end while it is not retired.
    #[must_use]
    pub fn enrolled(&self, now: Timestamp) -> Period {
        Period::new(self.enrolled_at, self.retired_at.unwrap_or(now))
    }
}

/// A key that the server has seen before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKey {
    /// Whose it is.
    pub node: NodeRow,
    /// The key itself.
    pub public_key: [u8; 32],
    /// Since when it is no longer accepted.
    pub revoked_at: Option<Timestamp>,
}

/// A node that joins.
#[derive(Debug, Clone, Copy)]
pub struct NewNode<'a> {
    /// Whose it is.
    pub tenant: TenantKey,
    /// Who supplies it.
    pub provider: ProviderKey,
    /// Its Ed25519 public key, which names it.
    pub public_key: &'a [u8; 32],
    /// Its name for people, cleaned, 1 to 120 characters.
    pub name: &'a str,
    /// Where its data will come from, for ever.
    pub origin: Origin,
    /// Server time: enrolled from here, first seen here.
    pub at: Timestamp,
}

struct Row {
    tenant_id: i32,
    node_id: i32,
    public_id: Vec<u8>,
    tenant: String,
    provider: String,
    provider_name: String,
    name: String,
    origin: String,
    enrolled_at: i64,
    retired_at: Option<i64>,
    first_seen_at: i64,
}

impl TryFrom<Row> for NodeRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            key: NodeKey::new(row.tenant_id, row.node_id),
            id: NodeId(Column("node", "public_id").array(&row.public_id)?),
            tenant: Column("tenant", "slug").parsed(&row.tenant)?,
            provider: Column("provider", "slug").parsed(&row.provider)?,
            provider_name: row.provider_name,
            name: row.name,
            origin: Column("node", "origin").origin(&row.origin)?,
            enrolled_at: Timestamp(row.enrolled_at),
            retired_at: row.retired_at.map(Timestamp),
            first_seen_at: Timestamp(row.first_seen_at),
        })
    }
}

/// The node that a key belongs to, revoked or not. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn find_by_key(tx: &mut Tx, key: &KeyId) -> Result<Option<KnownKey>, StoreError> {
    let found = sqlx::query!(
        "select tenant_id, node_id, public_key, revoked_at from node_key where key_id = $1",
        &key.0
    );
    let Some(found) = found.fetch_optional(tx.connection()).await? else {
        return Ok(None);
    };
    let public_key = Column("node_key", "public_key").array(&found.public_key)?;
    let owner = NodeKey::new(found.tenant_id, found.node_id);
    let node = by_key(tx, owner).await?;
    let node = node.ok_or_else(|| Column("node_key", "node_id").wrong("names no node"))?;
    Ok(Some(KnownKey { node, public_key, revoked_at: found.revoked_at.map(Timestamp) }))
}

/// Makes a node of a key that was not seen before. When another stream did so a moment ago, that
/// node is returned, whatever it says. Scope: ingest.
///
/// # Errors
/// [`StoreError::Constraint`] for a name that is empty or too long.
pub async fn enroll_first_use(tx: &mut Tx, new: NewNode<'_>) -> Result<NodeRow, StoreError> {
    let key_id = KeyId::of_public_key(new.public_key);
    let made = sqlx::query!(
        "insert into node (tenant_id, public_id, provider_id, name, origin, enrolled_at, first_seen_at)
        values ($1, $2, $3, $4, $5, $6, $6)
        on conflict (public_id) do nothing returning tenant_id, node_id",
        new.tenant.0,
        &key_id.first_node_id().0,
        new.provider.0,
        new.name,
        new.origin.name(),
        new.at.0
    )
    .fetch_optional(tx.connection())
    .await?;
    if let Some(made) = made {
        sqlx::query!(
            "insert into node_key (tenant_id, node_id, key_id, public_key, added_at)
            values ($1, $2, $3, $4, $5)",
            made.tenant_id,
            made.node_id,
            &key_id.0,
            new.public_key,
            new.at.0
        )
        .execute(tx.connection())
        .await?;
    }
    let known = find_by_key(tx, &key_id).await?;
    known
        .map(|known| known.node)
        .ok_or_else(|| Column("node", "public_id").wrong("another key has the same first 16 bytes"))
}

/// Nodes that the scope may see, by name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<NodeRow>, StoreError> {
    sqlx::query_as!(
        Row,
        r#"select n.tenant_id, n.node_id, n.public_id, t.slug as tenant, p.slug as provider,
            p.name as provider_name, n.name, n.origin, n.enrolled_at, n.retired_at, n.first_seen_at
        from node n join tenant t using (tenant_id) join provider p using (provider_id)
        order by n.name, n.tenant_id, n.node_id"#
    )
    .fetch_all(tx.connection())
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// A node by its public id. Not this scope's and not there are the same answer.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_public_id(tx: &mut Tx, id: NodeId) -> Result<Option<NodeRow>, StoreError> {
    let key = sqlx::query!("select tenant_id, node_id from node where public_id = $1", &id.0)
        .fetch_optional(tx.connection())
        .await?;
    match key {
        Some(key) => by_key(tx, NodeKey::new(key.tenant_id, key.node_id)).await,
        None => Ok(None),
    }
}

/// A node by its internal key.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_key(tx: &mut Tx, key: NodeKey) -> Result<Option<NodeRow>, StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query_as!(
        Row,
        r#"select n.tenant_id, n.node_id, n.public_id, t.slug as tenant, p.slug as provider,
            p.name as provider_name, n.name, n.origin, n.enrolled_at, n.retired_at, n.first_seen_at
        from node n join tenant t using (tenant_id) join provider p using (provider_id)
        where n.tenant_id = $1 and n.node_id = $2"#,
        tenant,
        node
    )
    .fetch_optional(tx.connection())
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// Measured time of the node ends at `at`. Scope: ingest or worker.
///
/// # Errors
/// [`StoreError::Constraint`] when `at` lies before its enrolment.
pub async fn retire(tx: &mut Tx, key: NodeKey, at: Timestamp) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query!(
        "update node set retired_at = $3 where tenant_id = $1 and node_id = $2",
        tenant,
        node,
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Widens the enrolled time of an imported node so that it holds `recorded`, which begins at the
/// first sample minus the cadence and ends at the last. Other nodes are left alone: their
/// enrolment is the server's own observation. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn extend_imported(
    tx: &mut Tx,
    key: NodeKey,
    recorded: Period,
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query!(
        "update node set
            enrolled_at = case when retired_at is null then $3 else least(enrolled_at, $3) end,
            retired_at = greatest(retired_at, $4)
        where tenant_id = $1 and node_id = $2 and origin = 'imported'",
        tenant,
        node,
        recorded.start.0,
        recorded.end.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Moves the beginning of a simulated node's enrolled time back to `from`, where a generated log
/// of it begins. Nodes of another origin are left alone. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn reach_back_simulated(
    tx: &mut Tx,
    key: NodeKey,
    from: Timestamp,
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query!(
        "update node set enrolled_at = $3
        where tenant_id = $1 and node_id = $2 and origin = 'simulated' and enrolled_at > $3",
        tenant,
        node,
        from.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}
