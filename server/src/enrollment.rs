//! Letting nodes in, and shutting them out: join strings and revocations, for pages, the command line
//! and the import of logs.
//!
//! A join string holds a secret of 24 random bytes; the database keeps its hash and what it is
//! good for. Not here: redeeming one (`store::enrollment`, in the transaction that makes the node),
//! and who may ask for one.

pub mod command;

use std::sync::Arc;

use leasewatch_core::evidence::identity::{Revocation, RevocationReason};
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::{KeyId, NodeId, Slug, clean_text};
use leasewatch_core::join::{JoinAddress, JoinError, JoinString, JoinToken, TlsTrust};
use leasewatch_core::time::{DAY_MS, Timestamp};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::identity::Identity;
use crate::store::audit::{self, Action, Entry, Way, Who};
use crate::store::enrollment::{self, NewToken};
use crate::store::identity_statement::{self, StatementRow};
use crate::store::lease::{self, LeaseRow};
use crate::store::node::{self, NodeRow};
use crate::store::provider::{self, ProviderRow};
use crate::store::{Db, Scope, StoreError, TenantKey, Tx, node_key, tenant};

pub use crate::store::enrollment::{TokenKey, TokenKind};

/// How long a token for one node is good unless somebody says otherwise.
pub const SINGLE_MS: i64 = 15 * 60_000;
/// How long a token for a fleet is good unless somebody says otherwise.
pub const FLEET_MS: i64 = 30 * DAY_MS;
/// The longest time for either.
pub const VALID_MS_MAX: i64 = 366 * DAY_MS;
/// The most nodes of one token.
pub const CEILING_MAX: u32 = 100_000;
const CREATOR_CHARS: usize = 120;

/// Makes join strings of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// Where tokens are kept.
    pub db: Db,
    /// Time.
    pub clock: Clock,
    /// The server's identity; what is done about a key is signed with it.
    pub identity: Arc<Identity>,
    /// How its certificate is known, now.
    pub trust: watch::Receiver<TlsTrust>,
    /// Where nodes reach it, in the order in which to try.
    pub addresses: Vec<JoinAddress>,
}

/// A join string that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The tenant of the nodes; made if there is none.
    pub tenant: &'a Slug,
    /// Who supplies them; made if there is none. `None`: who supplies the lease, which is named then.
    pub provider: Option<&'a Slug>,
    /// A lease of the tenant: the GPUs of nodes that join are assigned to it from then on.
    pub lease: Option<&'a Slug>,
    /// How many nodes it is for.
    pub kind: TokenKind,
    /// For how long from now.
    pub valid_ms: i64,
    /// Who asks, for people.
    pub created_by: &'a str,
    /// Who asks, for the audit log; `None` where what it is for stands there already.
    pub who: Option<&'a Who>,
}

/// A join string that was made.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The string; it is shown once and kept nowhere.
    pub join: JoinString,
    /// To name its token by.
    pub key: TokenKey,
    /// Good until here.
    pub expires_at: Timestamp,
}

/// Why there is no join string.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// For no time, or too long.
    #[error("a join token is good for a minute to 366 days")]
    Validity,
    /// For no node, or too many.
    #[error("a join token of a fleet is for 1 to {CEILING_MAX} nodes")]
    Ceiling,
    /// The tenant has no such lease; another tenant's is none.
    #[error("the tenant {tenant} has no lease {lease}")]
    NoLease {
        /// The tenant.
        tenant: Slug,
        /// What was asked for.
        lease: Slug,
    },
    /// A node has one provider, and the lease another.
    #[error("the lease {lease} is of the provider {provider}, not of the one that is named")]
    OtherProvider {
        /// The lease.
        lease: Slug,
        /// Its provider.
        provider: Slug,
    },
    /// Nobody supplies the nodes.
    #[error("a join token names a provider, or a lease, whose provider it is then")]
    NoProvider,
    /// The system gave no random bytes.
    #[error("no random bytes for a join token")]
    Random,
    /// Its parts make none.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// It could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Issuer {
    /// Makes a join string.
    ///
    /// # Errors
    /// [`IssueError`]; then nothing is stored.
    pub async fn issue(&self, order: Order<'_>) -> Result<Issued, IssueError> {
        if !(60_000..=VALID_MS_MAX).contains(&order.valid_ms) {
            return Err(IssueError::Validity);
        }
        if matches!(order.kind, TokenKind::Fleet(ceiling) if !(1..=CEILING_MAX).contains(&ceiling))
        {
            return Err(IssueError::Ceiling);
        }
        let mut token = JoinToken([0; JoinToken::BYTES]);
        getrandom::fill(&mut token.0).map_err(|_| IssueError::Random)?;
        let hash = token.hash();
        let trust = *self.trust.borrow();
        let identity = self.identity.public_key();
        let join = JoinString::new(self.addresses.clone(), identity, trust, token)?;
        let now = self.clock.now();
        let expires_at = now.plus_ms(order.valid_ms);
        let mut tx = self.db.begin(Scope::Ingest).await?;
        let tenant = tenant::ensure(&mut tx, order.tenant, order.tenant.as_str()).await?;
        let (lease, provider) = supplied(&mut tx, tenant.key, &order).await?;
        let new = NewToken {
            tenant: tenant.key,
            provider: provider.key,
            lease: lease.as_ref().map(|row| row.key),
            kind: order.kind,
            hash,
            created_by: &clean_text(order.created_by, CREATOR_CHARS),
            at: now,
            expires_at,
        };
        let key = enrollment::create_token(&mut tx, &new).await?;
        if let Some(who) = order.who {
            let mut detail = vec![
                ("provider", provider.slug.to_string()),
                ("nodes", order.kind.node_ceiling().to_string()),
                ("expires_at", expires_at.to_string()),
            ];
            detail.extend(lease.map(|row| ("lease", row.terms.name.to_string())));
            let entry = Entry {
                at: now,
                tenant: Some(tenant.key),
                who,
                action: Action::JoinTokenMade,
                object: &key.number().to_string(),
                detail: &detail,
            };
            audit::write(&mut tx, entry).await?;
        }
        tx.commit().await?;
        Ok(Issued { join, key, expires_at })
    }

    /// Removes a token that nobody joined with, as if it had never been made.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub async fn forget_unused(&self, key: TokenKey) -> Result<(), StoreError> {
        let mut tx = self.db.begin(Scope::Ingest).await?;
        enrollment::forget_unused_token(&mut tx, key).await?;
        tx.commit().await
    }
}

/// The lease and the provider of an order.
async fn supplied(
    tx: &mut Tx,
    tenant: TenantKey,
    order: &Order<'_>,
) -> Result<(Option<LeaseRow>, ProviderRow), IssueError> {
    let lease = match order.lease {
        None => None,
        Some(name) => Some(lease::by_name(tx, tenant, name).await?.ok_or_else(|| {
            IssueError::NoLease { tenant: order.tenant.clone(), lease: name.clone() }
        })?),
    };
    let of_lease = lease.as_ref().map(|row| &row.terms.provider);
    let named = order.provider.or(of_lease).ok_or(IssueError::NoProvider)?;
    if let Some((lease, provider)) = order.lease.zip(of_lease).filter(|(_, of)| *of != named) {
        let (lease, provider) = (lease.clone(), provider.clone());
        return Err(IssueError::OtherProvider { lease, provider });
    }
    let provider = provider::ensure(tx, named, named.as_str()).await?;
    Ok((lease, provider))
}

/// Notes that a token was taken back, in the transaction that does it.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn taken_back(
    tx: &mut Tx,
    (tenant, number): (TenantKey, i32),
    who: &Who,
    at: Timestamp,
) -> Result<(), StoreError> {
    let entry = Entry {
        at,
        tenant: Some(tenant),
        who,
        action: Action::JoinTokenRevoked,
        object: &number.to_string(),
        detail: &[],
    };
    audit::write(tx, entry).await
}

/// Accepts a node's keys no more: open streams end within seconds, and a statement for each key says
/// who did it. Returns the node and how many keys that were; `None` without such a node.
///
/// # Errors
/// [`StoreError`] of the database; then nothing is revoked.
pub async fn revoke(
    db: &Db,
    identity: &Identity,
    (node, who): (NodeId, &Who),
    at: Timestamp,
) -> Result<Option<(NodeRow, usize)>, StoreError> {
    let mut tx = db.begin(Scope::Ingest).await?;
    let Some(row) = node::by_public_id(&mut tx, node).await? else { return Ok(None) };
    let revoked = node_key::revoke_all(&mut tx, row.key, at).await?;
    let by = match (&who.user, who.way) {
        (Some((_, name)), _) => name.as_str(),
        (None, Way::Command) => "command line",
        (None, _) => "a page",
    };
    for key in &revoked {
        let (reason, by) = (RevocationReason::Operator, Some(clean_text(by, CREATOR_CHARS)));
        let statement = Revocation { node, key: *key, at, reason, by }.statement();
        let statement = StatementRow {
            kind: StatementKind::Revocation,
            key_id: KeyId::of_public_key(key),
            at,
            signed: identity.sign_statement(StatementKind::Revocation, statement),
            signer: identity.public_key(),
        };
        identity_statement::add(&mut tx, row.key, &statement).await?;
    }
    if !revoked.is_empty() {
        let entry = Entry {
            at,
            tenant: Some(row.key.tenant()),
            who,
            action: Action::NodeRevoked,
            object: &row.name,
            detail: &[("node", node.to_string()), ("keys", revoked.len().to_string())],
        };
        audit::write(&mut tx, entry).await?;
    }
    tx.commit().await?;
    Ok(Some((row, revoked.len())))
}
