//! Keys of nodes: which are accepted, and the numbers of their streams.

use leasewatch_core::delivery::{SessionCount, SessionOpened};
use leasewatch_core::id::{KeyId, NodeId};
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::{NodeKey, StoreError, Tx};

/// A key that is no longer accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedKey {
    /// The key.
    pub key_id: KeyId,
    /// Whose it was.
    pub node: NodeId,
    /// Whether that node has no other.
    pub is_last: bool,
}

/// Gives a node another key. Scope: ingest.
///
/// # Errors
/// [`StoreError::Constraint`] when a node has it already.
pub async fn add(
    tx: &mut Tx,
    node: NodeKey,
    (key_id, public_key): (&KeyId, &[u8; 32]),
    at: Timestamp,
) -> Result<(), StoreError> {
    let (tenant, node) = node.columns();
    sqlx::query!(
        "insert into node_key (tenant_id, node_id, key_id, public_key, added_at)
        values ($1, $2, $3, $4, $5)",
        tenant,
        node,
        &key_id.0,
        public_key,
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Accepts no key of the node any more. Returns those that were accepted until now. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn revoke_all(
    tx: &mut Tx,
    node: NodeKey,
    at: Timestamp,
) -> Result<Vec<[u8; 32]>, StoreError> {
    let (tenant, node) = node.columns();
    let revoked = sqlx::query_scalar!(
        "update node_key set revoked_at = $3
        where tenant_id = $1 and node_id = $2 and revoked_at is null returning public_key",
        tenant,
        node,
        at.0
    );
    let keys = revoked.fetch_all(tx.connection()).await?;
    keys.iter().map(|key| Column("node_key", "public_key").array(key)).collect()
}

/// A key of a node, and since when it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddedKey {
    /// The public key.
    pub public_key: [u8; 32],
    /// By the server's clock.
    pub added_at: Timestamp,
}

/// Every key that a node ever had, the first first. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn all(tx: &mut Tx, node: NodeKey) -> Result<Vec<AddedKey>, StoreError> {
    let (tenant, node) = node.columns();
    let rows = sqlx::query!(
        "select public_key, added_at from node_key where tenant_id = $1 and node_id = $2
        order by added_at, key_id",
        tenant,
        node
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter()
        .map(|row| {
            let public_key = Column("node_key", "public_key").array(&row.public_key)?;
            Ok(AddedKey { public_key, added_at: Timestamp(row.added_at) })
        })
        .collect()
}

/// Whether any key of a node is accepted.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn has_good_one(tx: &mut Tx, node: NodeKey) -> Result<bool, StoreError> {
    let (tenant, node) = node.columns();
    let found = sqlx::query_scalar!(
        r#"select exists (select from node_key
            where tenant_id = $1 and node_id = $2 and revoked_at is null) as "found!""#,
        tenant,
        node
    );
    Ok(found.fetch_one(tx.connection()).await?)
}

/// Of `keys` those that are revoked, and all that were revoked since `since`. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn revoked(
    tx: &mut Tx,
    keys: &[KeyId],
    since: Timestamp,
) -> Result<Vec<RevokedKey>, StoreError> {
    let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.0.to_vec()).collect();
    let rows = sqlx::query!(
        r#"select k.key_id, n.public_id, not exists (select from node_key o
                where o.tenant_id = k.tenant_id and o.node_id = k.node_id
                    and o.revoked_at is null) as "is_last!"
        from node_key k join node n using (tenant_id, node_id)
        where k.revoked_at is not null and (k.revoked_at >= $2 or k.key_id = any($1))"#,
        &keys,
        since.0
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter()
        .map(|row| {
            Ok(RevokedKey {
                key_id: KeyId(Column("node_key", "key_id").array(&row.key_id)?),
                node: NodeId(Column("node", "public_id").array(&row.public_id)?),
                is_last: row.is_last,
            })
        })
        .collect()
}

/// Gives a new stream of a key its number, and notes it where the number that the stream shows
/// says that two have the key. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn open_session(
    tx: &mut Tx,
    key_id: &KeyId,
    shown: Option<u64>,
    at: Timestamp,
) -> Result<SessionOpened, StoreError> {
    let row = sqlx::query!(
        "select tenant_id, node_id, session_issued, session_confirmed from node_key
        where key_id = $1 for update",
        &key_id.0
    );
    let row = row.fetch_one(tx.connection()).await?;
    let issued = Column("node_key", "session_issued");
    let confirmed = Column("node_key", "session_confirmed");
    let mut count = SessionCount {
        issued: issued.number(row.session_issued)?,
        confirmed: confirmed.number(row.session_confirmed)?,
    };
    // A number that no column holds was never given.
    let shown = shown.filter(|shown| *shown < i64::MAX.unsigned_abs());
    let opened = count.open(shown);
    let session: i64 = issued.number(opened.session)?;
    sqlx::query!("update node_key set session_issued = $2 where key_id = $1", &key_id.0, session)
        .execute(tx.connection())
        .await?;
    if opened.is_contested {
        sqlx::query!(
            "insert into contested_session (tenant_id, node_id, key_id, session, session_shown,
                session_confirmed, seen_at)
            values ($1, $2, $3, $4, $5, $6, $7)",
            row.tenant_id,
            row.node_id,
            &key_id.0,
            session,
            shown.map_or(Ok(0), |shown| issued.number(shown))?,
            row.session_confirmed,
            at.0
        )
        .execute(tx.connection())
        .await?;
    }
    Ok(opened)
}

/// The stream with this number has kept it. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn confirm_session(tx: &mut Tx, key_id: &KeyId, session: u64) -> Result<(), StoreError> {
    let session: i64 = Column("node_key", "session_confirmed").number(session)?;
    sqlx::query!(
        "update node_key set session_confirmed = greatest(session_confirmed, $2)
        where key_id = $1",
        &key_id.0,
        session
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// How many streams of a node showed that two have its key.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn contested_sessions(tx: &mut Tx, node: NodeKey) -> Result<u32, StoreError> {
    let (tenant, node) = node.columns();
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from contested_session
        where tenant_id = $1 and node_id = $2"#,
        tenant,
        node
    );
    let count = count.fetch_one(tx.connection()).await?;
    Column("contested_session", "session").number(count)
}
