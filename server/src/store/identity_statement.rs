//! What the server signed about the keys of nodes. Rows are only ever added.

use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::evidence::identity::SignedStatement;
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::KeyId;
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::{NodeKey, StoreError, Tx};

/// A statement about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementRow {
    /// Enrollment, rotation or revocation.
    pub kind: StatementKind,
    /// The key that joined, took over, or was revoked.
    pub key_id: KeyId,
    /// When it was made.
    pub at: Timestamp,
    /// The bytes and the server's signature.
    pub signed: SignedStatement,
    /// The server's public identity key then.
    pub signer: [u8; 32],
}

/// The kinds that are kept here.
const KINDS: [StatementKind; 3] =
    [StatementKind::Enrollment, StatementKind::Rotation, StatementKind::Revocation];

/// Adds a statement, and queues it for its log. One of the same kind about the same key, which another stream of it made a
/// moment ago, stays as it is. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn add(tx: &mut Tx, node: NodeKey, row: &StatementRow) -> Result<(), StoreError> {
    let (tenant, node) = node.columns();
    sqlx::query!(
        "with added as (
        insert into identity_statement (tenant_id, node_id, kind, key_id, at, statement, signature,
            signer)
        values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing returning node_id
        )
        insert into log_work (tenant_id, provider_id, kind, hash)
        select n.tenant_id, n.provider_id, $3, $9
        from added join node n on n.tenant_id = $1 and n.node_id = added.node_id",
        tenant,
        node,
        row.kind.name(),
        &row.key_id.0,
        row.at.0,
        &row.signed.statement,
        &row.signed.signature,
        &row.signer,
        &leaf_hash(&row.signed.statement).0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The statements about a node's keys, the first first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_node(tx: &mut Tx, node: NodeKey) -> Result<Vec<StatementRow>, StoreError> {
    let (tenant, node) = node.columns();
    let rows = sqlx::query!(
        "select kind, key_id, at, statement, signature, signer from identity_statement
        where tenant_id = $1 and node_id = $2 order by at, kind, key_id",
        tenant,
        node
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let column = |name| Column("identity_statement", name);
    rows.into_iter()
        .map(|row| {
            let kind = KINDS.into_iter().find(|kind| kind.name() == row.kind);
            Ok(StatementRow {
                kind: kind.ok_or_else(|| column("kind").wrong("is not one of the three"))?,
                key_id: KeyId(column("key_id").array(&row.key_id)?),
                at: Timestamp(row.at),
                signed: SignedStatement {
                    statement: row.statement,
                    signature: column("signature").array(&row.signature)?,
                },
                signer: column("signer").array(&row.signer)?,
            })
        })
        .collect()
}
