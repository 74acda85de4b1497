//! One node shows a token. The token's row is held until the transaction ends.

use leasewatch_core::id::{Hash, KeyId, NodeId};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Timestamp;

use super::TokenKey;
use crate::sabotage;
use crate::store::node::{self, NewNode, NodeRow};
use crate::store::{ProviderKey, StoreError, TenantKey, Tx, node_key};

/// Nodes that one fleet token may let in within [`RATE_MS`].
pub const RATE_JOINS: i64 = 60;
/// The time that [`RATE_JOINS`] counts.
pub const RATE_MS: i64 = 60_000;

/// What a node shows to join.
#[derive(Debug, Clone, Copy)]
pub struct Redemption<'a> {
    /// Hash of the secret that it showed.
    pub token: Hash,
    /// Its Ed25519 public key.
    pub public_key: &'a [u8; 32],
    /// The node that it takes over.
    pub replaces: Option<NodeId>,
    /// Its name for people, cleaned, 1 to 120 characters.
    pub name: &'a str,
    /// Where its data will come from.
    pub origin: Origin,
    /// Server time.
    pub at: Timestamp,
}

/// Why a token lets nobody in. For the server's log; the node learns one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefused {
    /// There is no such token.
    #[error("its token is not known")]
    Unknown,
    /// It was taken back.
    #[error("its token was revoked")]
    Revoked,
    /// Its time is over.
    #[error("its token has expired")]
    Expired,
    /// As many nodes as it is for have joined.
    #[error("its token was used for as many nodes as it is for")]
    Used,
    /// Too many at once; the only one after which trying again helps.
    #[error("its token lets in no more nodes within this minute")]
    TooMany,
    /// The node that it takes over is not there, of another tenant, or of another origin.
    #[error("the node that it would replace is not one of its tenant and origin")]
    NotReplaceable,
}

/// What a token did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redeemed {
    /// The node.
    pub node: NodeRow,
    /// The token; `None` when the key was let in before and nothing was done.
    pub token: Option<TokenKey>,
    /// What the key took over; `None` for a new node.
    pub took_over: Option<TakeOver>,
}

/// A key that took over a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOver {
    /// The public key that the node had last.
    pub old: [u8; 32],
    /// Those that are not accepted any more since now.
    pub revoked: Vec<[u8; 32]>,
}

/// Lets a key in that shows a token: as a new node, or as the new key of one. A key that another
/// stream let in a moment ago is let in again, whatever became of the token. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database. What the token has against it is the inner result.
pub async fn redeem(
    tx: &mut Tx,
    redemption: &Redemption<'_>,
) -> Result<Result<Redeemed, TokenRefused>, StoreError> {
    let Some(token) = lock_token(tx, redemption.token).await? else {
        return Ok(Err(TokenRefused::Unknown));
    };
    let key_id = KeyId::of_public_key(redemption.public_key);
    if let Some(known) = node::find_by_key(tx, &key_id).await? {
        let is_good = known.revoked_at.is_none();
        let known = Redeemed { node: known.node, token: None, took_over: None };
        return Ok(if is_good { Ok(known) } else { Err(TokenRefused::Revoked) });
    }
    let refused = token.refused(tx, redemption.at).await?;
    if let Some(refused) = refused.filter(|_| !sabotage::is("token_reused")) {
        return Ok(Err(refused));
    }
    let done = match redemption.replaces {
        None => Some((token.enroll(tx, redemption).await?, None)),
        Some(old) => {
            let done = token.take_over(tx, redemption, (old, &key_id)).await?;
            done.map(|(node, took_over)| (node, Some(took_over)))
        }
    };
    let Some((node, took_over)) = done else { return Ok(Err(TokenRefused::NotReplaceable)) };
    token.note(tx, redemption, (&node, &key_id)).await?;
    Ok(Ok(Redeemed { node, token: Some(token.key), took_over }))
}

/// A token whose row is held.
struct LockedToken {
    key: TokenKey,
    provider: ProviderKey,
    is_single: bool,
    node_ceiling: i32,
    joins: i32,
    expires_at: Timestamp,
    is_revoked: bool,
}

async fn lock_token(tx: &mut Tx, hash: Hash) -> Result<Option<LockedToken>, StoreError> {
    let row = sqlx::query!(
        "select tenant_id, token_id, kind, provider_id, node_ceiling, joins, expires_at, revoked_at
        from join_token where token_hash = $1 for update",
        &hash.0
    );
    let row = row.fetch_optional(tx.connection()).await?;
    Ok(row.map(|row| LockedToken {
        key: TokenKey { tenant: TenantKey(row.tenant_id), token: row.token_id },
        provider: ProviderKey(row.provider_id),
        is_single: row.kind == "single",
        node_ceiling: row.node_ceiling,
        joins: row.joins,
        expires_at: Timestamp(row.expires_at),
        is_revoked: row.revoked_at.is_some(),
    }))
}

impl LockedToken {
    async fn refused(
        &self,
        tx: &mut Tx,
        at: Timestamp,
    ) -> Result<Option<TokenRefused>, StoreError> {
        if self.is_revoked {
            return Ok(Some(TokenRefused::Revoked));
        }
        if at >= self.expires_at {
            return Ok(Some(TokenRefused::Expired));
        }
        if self.joins >= self.node_ceiling {
            return Ok(Some(TokenRefused::Used));
        }
        if self.is_single {
            return Ok(None);
        }
        let recent = sqlx::query_scalar!(
            r#"select count(*) as "count!" from node_join
            where tenant_id = $1 and token_id = $2 and joined_at > $3"#,
            self.key.tenant.0,
            self.key.token,
            at.plus_ms(-RATE_MS).0
        );
        let recent = recent.fetch_one(tx.connection()).await?;
        Ok((recent >= RATE_JOINS).then_some(TokenRefused::TooMany))
    }

    async fn enroll(
        &self,
        tx: &mut Tx,
        redemption: &Redemption<'_>,
    ) -> Result<NodeRow, StoreError> {
        let new = NewNode {
            tenant: self.key.tenant,
            provider: self.provider,
            public_key: redemption.public_key,
            name: redemption.name,
            origin: redemption.origin,
            at: redemption.at,
        };
        node::enroll_first_use(tx, new).await
    }

    async fn take_over(
        &self,
        tx: &mut Tx,
        redemption: &Redemption<'_>,
        (old, key_id): (NodeId, &KeyId),
    ) -> Result<Option<(NodeRow, TakeOver)>, StoreError> {
        let row = node::by_public_id(tx, old).await?;
        let row =
            row.filter(|row| row.key.tenant == self.key.tenant && row.origin == redemption.origin);
        let Some(row) = row else { return Ok(None) };
        let Some(last) = node_key::all(tx, row.key).await?.pop() else { return Ok(None) };
        let revoked = node_key::revoke_all(tx, row.key, redemption.at).await?;
        let key = (key_id, redemption.public_key);
        node_key::add(tx, row.key, key, redemption.at).await?;
        Ok(Some((row, TakeOver { old: last.public_key, revoked })))
    }

    async fn note(
        &self,
        tx: &mut Tx,
        redemption: &Redemption<'_>,
        (row, key_id): (&NodeRow, &KeyId),
    ) -> Result<(), StoreError> {
        let (tenant, node) = row.key.columns();
        sqlx::query!(
            "insert into node_join (tenant_id, token_id, node_id, key_id, joined_at, has_replaced)
            values ($1, $2, $3, $4, $5, $6)",
            tenant,
            self.key.token,
            node,
            &key_id.0,
            redemption.at.0,
            redemption.replaces.is_some()
        )
        .execute(tx.connection())
        .await?;
        if sabotage::is("token_reused") {
            return Ok(());
        }
        sqlx::query!(
            "update join_token set joins = joins + 1 where tenant_id = $1 and token_id = $2",
            tenant,
            self.key.token
        )
        .execute(tx.connection())
        .await?;
        Ok(())
    }
}
