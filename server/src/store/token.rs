//! Tokens that programs sign their requests with. Scope of everything here: auth.

use leasewatch_core::time::Timestamp;

use super::user::{self, Membership, Role, UserKey, UserRow};
use super::{StoreError, TenantKey, Tx};

/// What its owner names a token by; it opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenKey(pub i32);

/// A token that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewToken<'a> {
    /// SHA-256 of its secret.
    pub hash: &'a [u8; 32],
    /// For whom it acts.
    pub user: UserKey,
    /// What it is for, in its owner's words: 1 to 80 characters, clean.
    pub name: &'a str,
    /// It asks for every tenant.
    pub is_operator: bool,
    /// What it asks for otherwise.
    pub grants: &'a [(TenantKey, Role)],
    /// Now.
    pub at: Timestamp,
    /// It is of no use from here on.
    pub expires_at: Timestamp,
}

/// A token that is good now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name.
    pub key: TokenKey,
    /// Its user, not disabled, with no more than the token and the user both have.
    pub user: UserRow,
    /// When it was used last, to the minute; `None` before.
    pub used_at: Option<Timestamp>,
}

/// A token in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Its name.
    pub key: TokenKey,
    /// What it is for, in its owner's words.
    pub name: String,
    /// For whom it acts.
    pub user: String,
    /// It asks for every tenant.
    pub is_operator: bool,
    /// What it asks for otherwise.
    pub grants: Vec<Membership>,
    /// When it was made.
    pub created_at: Timestamp,
    /// It is of no use from here on.
    pub expires_at: Timestamp,
    /// When it was used last, to the minute; `None` before.
    pub used_at: Option<Timestamp>,
}

/// Makes a token.
///
/// # Errors
/// [`StoreError::Constraint`] for a name that is empty or too long.
pub async fn create(tx: &mut Tx, new: NewToken<'_>) -> Result<TokenKey, StoreError> {
    let id = sqlx::query_scalar!(
        "insert into api_token (token_hash, user_id, name, is_operator, created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6) returning token_id",
        new.hash,
        new.user.0,
        new.name,
        new.is_operator,
        new.at.0,
        new.expires_at.0
    )
    .fetch_one(tx.connection())
    .await?;
    for (tenant, role) in new.grants {
        sqlx::query!(
            "insert into api_token_grant (tenant_id, token_id, role) values ($1, $2, $3)",
            tenant.0,
            id,
            role.name()
        )
        .execute(tx.connection())
        .await?;
    }
    Ok(TokenKey(id))
}

/// The token of a secret, if it is good at `now`.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn find(
    tx: &mut Tx,
    hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<Token>, StoreError> {
    let found = sqlx::query!(
        "select token_id, user_id, is_operator, used_at from api_token
        where token_hash = $1 and revoked_at is null and expires_at > $2",
        hash,
        now.0
    );
    let Some(found) = found.fetch_optional(tx.connection()).await? else { return Ok(None) };
    let user = user::by_key(tx, UserKey(found.user_id)).await?;
    let Some(user) = user.filter(|user| user.disabled_at.is_none()) else { return Ok(None) };
    let grants = grants(tx, found.token_id).await?;
    let token = UserRow {
        is_operator: found.is_operator && user.is_operator,
        memberships: grants.into_iter().filter_map(|grant| both(grant, &user)).collect(),
        ..user
    };
    let used_at = found.used_at.map(Timestamp);
    Ok(Some(Token { key: TokenKey(found.token_id), user: token, used_at }))
}

/// What is left of a grant of a token: nothing where its user has no role, and never more.
fn both(grant: Membership, user: &UserRow) -> Option<Membership> {
    if user.is_operator {
        return Some(grant);
    }
    let own = user.memberships.iter().find(|own| own.tenant == grant.tenant)?;
    Some(Membership { role: grant.role.min(own.role), ..grant })
}

async fn grants(tx: &mut Tx, token: i32) -> Result<Vec<Membership>, StoreError> {
    let rows = sqlx::query!(
        "select tenant_id, slug, role from api_token_grant join tenant using (tenant_id)
        where token_id = $1 order by slug",
        token
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter().map(|row| user::membership(row.tenant_id, &row.slug, &row.role)).collect()
}

/// Notes that a token was used.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn touch(tx: &mut Tx, key: TokenKey, at: Timestamp) -> Result<(), StoreError> {
    sqlx::query!("update api_token set used_at = $2 where token_id = $1", key.0, at.0)
        .execute(tx.connection())
        .await?;
    Ok(())
}

/// Tokens that are good, of one user or of all, latest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(
    tx: &mut Tx,
    user: Option<UserKey>,
    now: Timestamp,
) -> Result<Vec<TokenRow>, StoreError> {
    let rows = sqlx::query!(
        "select token_id, t.name, u.name as user_name, t.is_operator, t.created_at, expires_at, used_at
        from api_token t join app_user u using (user_id)
        where ($1::int is null or user_id = $1) and revoked_at is null and expires_at > $2
            and u.disabled_at is null
        order by token_id desc",
        user.map(|user| user.0),
        now.0
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let mut tokens = Vec::with_capacity(rows.len());
    for row in rows {
        tokens.push(TokenRow {
            key: TokenKey(row.token_id),
            name: row.name,
            user: row.user_name,
            is_operator: row.is_operator,
            grants: grants(tx, row.token_id).await?,
            created_at: Timestamp(row.created_at),
            expires_at: Timestamp(row.expires_at),
            used_at: row.used_at.map(Timestamp),
        });
    }
    Ok(tokens)
}

/// Makes a token worthless; false when there is none of that name, or not of that user.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn revoke(
    tx: &mut Tx,
    key: TokenKey,
    user: Option<UserKey>,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let revoked = sqlx::query!(
        "update api_token set revoked_at = $3
        where token_id = $1 and ($2::int is null or user_id = $2) and revoked_at is null",
        key.0,
        user.map(|user| user.0),
        at.0
    );
    Ok(revoked.execute(tx.connection()).await?.rows_affected() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_has_more_than_its_user() {
        let slug = |slug| leasewatch_core::id::Slug::new(slug).unwrap();
        let role =
            |tenant, name, role| Membership { tenant: TenantKey(tenant), slug: slug(name), role };
        let user = |is_operator, memberships| UserRow {
            key: UserKey(1),
            name: "ada".to_owned(),
            language: None,
            is_operator,
            has_password: true,
            created_at: Timestamp(0),
            disabled_at: None,
            memberships,
        };
        let viewer = user(false, vec![role(1, "a", Role::Viewer)]);
        let left = |grant: Membership, user: &UserRow| both(grant, user).map(|left| left.role);
        assert_eq!(left(role(1, "a", Role::Admin), &viewer), Some(Role::Viewer));
        assert_eq!(left(role(2, "b", Role::Viewer), &viewer), None);
        let admin = user(false, vec![role(1, "a", Role::Admin)]);
        assert_eq!(left(role(1, "a", Role::Viewer), &admin), Some(Role::Viewer));
        assert_eq!(left(role(2, "b", Role::Admin), &user(true, Vec::new())), Some(Role::Admin));
    }
}
