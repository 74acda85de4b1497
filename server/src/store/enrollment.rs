//! Join tokens, and the nodes that joined with them.
//!
//! A token names tenant and provider; what a node says of them counts for nothing. Each redemption
//! holds the token's row until its transaction ends, so a single token never lets two in and a
//! fleet token never more than its ceiling. Not here: making secrets and join strings
//! (`enrollment`), and who may ask for them.

mod leased;
mod redemption;

use leasewatch_core::id::{Hash, NodeId, Slug};
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::{LeaseKey, ProviderKey, StoreError, TenantKey, Tx};

pub use leased::{LeasedJoin, assign, unassigned};
pub use redemption::{RATE_JOINS, RATE_MS, Redeemed, Redemption, TakeOver, TokenRefused, redeem};

/// How many nodes a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// One.
    Single,
    /// Up to so many.
    Fleet(u32),
}

impl TokenKind {
    /// How many nodes that are at most.
    #[must_use]
    pub fn node_ceiling(self) -> u32 {
        match self {
            Self::Single => 1,
            Self::Fleet(ceiling) => ceiling,
        }
    }

    fn columns(self) -> Result<(&'static str, i32), StoreError> {
        match self {
            Self::Single => Ok(("single", 1)),
            Self::Fleet(ceiling) => {
                Ok(("fleet", Column("join_token", "node_ceiling").number(ceiling)?))
            }
        }
    }
}

/// The internal number of a token, to name it by within its tenant. It opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenKey {
    tenant: TenantKey,
    token: i32,
}

impl TokenKey {
    /// The token with this number of a tenant.
    #[must_use]
    pub fn new(tenant: TenantKey, number: i32) -> Self {
        Self { tenant, token: number }
    }

    /// Its number, for people.
    #[must_use]
    pub fn number(self) -> i32 {
        self.token
    }
}

/// A token that is made.
#[derive(Debug, Clone)]
pub struct NewToken<'a> {
    /// Whose nodes will join.
    pub tenant: TenantKey,
    /// Who supplies them.
    pub provider: ProviderKey,
    /// A lease of the tenant with that provider, which their GPUs will be assigned to.
    pub lease: Option<LeaseKey>,
    /// How many.
    pub kind: TokenKind,
    /// Of the secret.
    pub hash: Hash,
    /// Who made it, for people: 1 to 120 characters, cleaned.
    pub created_by: &'a str,
    /// Server time.
    pub at: Timestamp,
    /// Good until here.
    pub expires_at: Timestamp,
}

/// A token as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// To name it by.
    pub key: TokenKey,
    /// Public name of its tenant.
    pub tenant: Slug,
    /// Public name of its provider.
    pub provider: Slug,
    /// Name of the lease that their GPUs are assigned to.
    pub lease: Option<Slug>,
    /// How many nodes it is for.
    pub kind: TokenKind,
    /// How many joined with it.
    pub joins: u32,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// Good until here.
    pub expires_at: Timestamp,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
}

/// A node that joined with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRow {
    /// The node's public id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// When, by the server's clock.
    pub joined_at: Timestamp,
    /// Whether its key took over a node that was there before.
    pub has_replaced: bool,
}

/// Makes a token. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn create_token(tx: &mut Tx, new: &NewToken<'_>) -> Result<TokenKey, StoreError> {
    let (kind, node_ceiling) = new.kind.columns()?;
    let token = sqlx::query_scalar!(
        "insert into join_token (tenant_id, token_hash, kind, provider_id, node_ceiling,
            created_at, created_by, expires_at, lease_id)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning token_id",
        new.tenant.0,
        &new.hash.0,
        kind,
        new.provider.0,
        node_ceiling,
        new.at.0,
        new.created_by,
        new.expires_at.0,
        new.lease.map(|lease| lease.columns().1)
    )
    .fetch_one(tx.connection())
    .await?;
    Ok(TokenKey { tenant: new.tenant, token })
}

/// Tokens that the scope may see, the newest first, at most 1000.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn tokens(tx: &mut Tx) -> Result<Vec<TokenRow>, StoreError> {
    let rows = sqlx::query!(
        r#"select t.tenant_id, t.token_id, n.slug as tenant, p.slug as provider, t.kind,
            t.node_ceiling, t.joins, t.created_by, t.created_at, t.expires_at, t.revoked_at,
            l.name as "lease?"
        from join_token t join tenant n using (tenant_id) join provider p using (provider_id)
        left join lease l on l.tenant_id = t.tenant_id and l.lease_id = t.lease_id
        order by t.created_at desc, t.token_id desc limit 1000"#
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let column = |name| Column("join_token", name);
    rows.into_iter()
        .map(|row| {
            let ceiling = column("node_ceiling").number(row.node_ceiling)?;
            let is_single = row.kind == "single";
            Ok(TokenRow {
                key: TokenKey { tenant: TenantKey(row.tenant_id), token: row.token_id },
                tenant: Column("tenant", "slug").parsed(&row.tenant)?,
                provider: Column("provider", "slug").parsed(&row.provider)?,
                lease: row.lease.map(|name| Column("lease", "name").parsed(&name)).transpose()?,
                kind: if is_single { TokenKind::Single } else { TokenKind::Fleet(ceiling) },
                joins: column("joins").number(row.joins)?,
                created_by: row.created_by,
                created_at: Timestamp(row.created_at),
                expires_at: Timestamp(row.expires_at),
                revoked_at: row.revoked_at.map(Timestamp),
            })
        })
        .collect()
}

/// Who joined with a token, the first first, at most 1000.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn joins(tx: &mut Tx, token: TokenKey) -> Result<Vec<JoinRow>, StoreError> {
    let rows = sqlx::query!(
        "select n.public_id, n.name, j.joined_at, j.has_replaced
        from node_join j join node n using (tenant_id, node_id)
        where j.tenant_id = $1 and j.token_id = $2 order by j.joined_at, j.key_id limit 1000",
        token.tenant.0,
        token.token
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter()
        .map(|row| {
            Ok(JoinRow {
                node: NodeId(Column("node", "public_id").array(&row.public_id)?),
                name: row.name,
                joined_at: Timestamp(row.joined_at),
                has_replaced: row.has_replaced,
            })
        })
        .collect()
}

/// Takes a token back: nobody joins with it any more, and whoever did stays. False when there is no
/// such token, or it was taken back before. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn revoke_token(tx: &mut Tx, token: TokenKey, at: Timestamp) -> Result<bool, StoreError> {
    let revoked = sqlx::query!(
        "update join_token set revoked_at = $3
        where tenant_id = $1 and token_id = $2 and revoked_at is null",
        token.tenant.0,
        token.token,
        at.0
    );
    Ok(revoked.execute(tx.connection()).await?.rows_affected() > 0)
}

/// Removes a token that nobody joined with, as if it had never been made. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn forget_unused_token(tx: &mut Tx, token: TokenKey) -> Result<(), StoreError> {
    sqlx::query!(
        "delete from join_token where tenant_id = $1 and token_id = $2 and joins = 0",
        token.tenant.0,
        token.token
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}
