//! Addresses that work once: set-up, invitation, new password, signing in. Scope: auth.

use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::user::{self, Membership, Role, UserKey, UserRow};
use super::{StoreError, TenantKey, Tx};

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Makes the first user, an operator.
    Setup,
    /// Makes a user.
    Invite,
    /// Gives a user another password.
    Reset,
    /// Signs a browser in without a password.
    SignIn,
}

impl Purpose {
    /// Its name in the database.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Invite => "invite",
            Self::Reset => "reset",
            Self::SignIn => "sign_in",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Setup, Self::Invite, Self::Reset, Self::SignIn];
        all.into_iter().find(|purpose| purpose.name() == name)
    }
}

/// A link that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewLink<'a> {
    /// SHA-256 of its secret.
    pub hash: &'a [u8; 32],
    /// What it is for.
    pub purpose: Purpose,
    /// Whom it is for; `None` when it makes a user.
    pub user: Option<UserKey>,
    /// The user that it makes is an operator.
    pub is_operator: bool,
    /// Roles of the user that it makes.
    pub grants: &'a [(TenantKey, Role)],
    /// Who made it; `None` for the command line and the first start.
    pub created_by: Option<UserKey>,
    /// Now.
    pub at: Timestamp,
    /// It is of no use from here on.
    pub expires_at: Timestamp,
}

/// A link that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRow {
    id: i32,
    /// What it is for.
    pub purpose: Purpose,
    /// Whom it is for; `None` when it makes a user.
    pub user: Option<UserRow>,
    /// The user that it makes is an operator.
    pub is_operator: bool,
    /// Roles of the user that it makes.
    pub grants: Vec<Membership>,
}

/// Makes a link. One for a new password replaces those before it for the same user, a set-up link
/// those before it.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn create(tx: &mut Tx, new: NewLink<'_>) -> Result<(), StoreError> {
    if matches!(new.purpose, Purpose::Setup | Purpose::Reset) {
        sqlx::query!(
            "update user_link set expires_at = least(expires_at, $3)
            where purpose = $1 and user_id is not distinct from $2 and used_at is null",
            new.purpose.name(),
            new.user.map(|user| user.0),
            new.at.0
        )
        .execute(tx.connection())
        .await?;
    }
    let id = sqlx::query_scalar!(
        "insert into user_link (link_hash, purpose, user_id, is_operator, created_by, created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7) returning link_id",
        new.hash,
        new.purpose.name(),
        new.user.map(|user| user.0),
        new.is_operator,
        new.created_by.map(|user| user.0),
        new.at.0,
        new.expires_at.0
    )
    .fetch_one(tx.connection())
    .await?;
    for (tenant, role) in new.grants {
        sqlx::query!(
            "insert into user_link_grant (tenant_id, link_id, role) values ($1, $2, $3)",
            tenant.0,
            id,
            role.name()
        )
        .execute(tx.connection())
        .await?;
    }
    Ok(())
}

/// The link of a secret, if it can be used at `now`: not used, not over, whom it is for is not
/// disabled, and whoever made it is still an operator. A set-up link can be used while there is no
/// user.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn find(
    tx: &mut Tx,
    hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<LinkRow>, StoreError> {
    let found = sqlx::query!(
        "select link_id, purpose, user_id, is_operator from user_link l
        where link_hash = $1 and used_at is null and expires_at > $2
            and (created_by is null or exists (select from app_user u
                where u.user_id = l.created_by and u.is_operator and u.disabled_at is null))
            and (purpose <> 'setup' or not exists (select from app_user))",
        hash,
        now.0
    );
    let Some(found) = found.fetch_optional(tx.connection()).await? else { return Ok(None) };
    let mut user = None;
    if let Some(id) = found.user_id {
        user = user::by_key(tx, UserKey(id)).await?.filter(|user| user.disabled_at.is_none());
        if user.is_none() {
            return Ok(None);
        }
    }
    let grants = sqlx::query!(
        "select tenant_id, slug, role from user_link_grant join tenant using (tenant_id)
        where link_id = $1 order by slug",
        found.link_id
    )
    .fetch_all(tx.connection())
    .await?;
    let grants =
        grants.into_iter().map(|row| user::membership(row.tenant_id, &row.slug, &row.role));
    Ok(Some(LinkRow {
        id: found.link_id,
        purpose: Column("user_link", "purpose").named(&found.purpose, Purpose::from_name)?,
        user,
        is_operator: found.is_operator,
        grants: grants.collect::<Result<_, _>>()?,
    }))
}

/// Marks a link as used; false when another transaction was faster.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn use_up(tx: &mut Tx, link: &LinkRow, at: Timestamp) -> Result<bool, StoreError> {
    let used = sqlx::query!(
        "update user_link set used_at = $2 where link_id = $1 and used_at is null",
        link.id,
        at.0
    );
    Ok(used.execute(tx.connection()).await?.rows_affected() == 1)
}
