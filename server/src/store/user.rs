//! Users and what they may see. Scope of everything here: auth.

use leasewatch_core::id::Slug;
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::{StoreError, TenantKey, Tx};

/// The internal number of a user. It never leaves the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserKey(pub(super) i32);

/// What somebody may do within a tenant; a later one includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// See.
    Viewer,
    /// See and change.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Viewer, Self::Admin];

    /// Its name in the database, on the command line and in forms.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Admin => "admin",
        }
    }

    /// The role of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A role within a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The tenant.
    pub tenant: TenantKey,
    /// Its public name.
    pub slug: Slug,
    /// What may be done there.
    pub role: Role,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRow {
    /// Internal number.
    pub key: UserKey,
    /// What is typed to sign in.
    pub name: String,
    /// Tag of the interface's language; `None` for what the browser asks for.
    pub language: Option<String>,
    /// Sees and changes every tenant.
    pub is_operator: bool,
    /// False when only a link signs in.
    pub has_password: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when nothing of it is good; `None` while it is.
    pub disabled_at: Option<Timestamp>,
    /// By public name of the tenant.
    pub memberships: Vec<Membership>,
}

/// A user that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewUser<'a> {
    /// What is typed to sign in; [`is_name`] of it.
    pub name: &'a str,
    /// PHC string; `None` when only a link signs in.
    pub password_hash: Option<&'a str>,
    /// Sees and changes every tenant.
    pub is_operator: bool,
    /// Now.
    pub at: Timestamp,
}

/// True for what can be a user's name: 1 to 64 of `a-z 0-9 . _ @ + -`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._@+-".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}

struct Row {
    user_id: i32,
    name: String,
    language: Option<String>,
    is_operator: bool,
    has_password: bool,
    created_at: i64,
    disabled_at: Option<i64>,
}

impl Row {
    fn user(self, memberships: Vec<Membership>) -> UserRow {
        UserRow {
            key: UserKey(self.user_id),
            name: self.name,
            language: self.language,
            is_operator: self.is_operator,
            has_password: self.has_password,
            created_at: Timestamp(self.created_at),
            disabled_at: self.disabled_at.map(Timestamp),
            memberships,
        }
    }
}

/// True when there is a user, disabled or not.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn exist(tx: &mut Tx) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(r#"select exists (select from app_user) as "found!""#);
    Ok(found.fetch_one(tx.connection()).await?)
}

/// Lets one transaction at a time change who there is, until it ends: so that there is one first
/// user, and always an operator left.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn hold(tx: &mut Tx) -> Result<(), StoreError> {
    sqlx::query!(r#"select pg_advisory_xact_lock(7203991834072) as "held!: ()""#)
        .fetch_one(tx.connection())
        .await?;
    Ok(())
}

/// Makes a user without memberships; `None` when the name is taken.
///
/// # Errors
/// [`StoreError::Constraint`] for a name that is none.
pub async fn create(tx: &mut Tx, new: NewUser<'_>) -> Result<Option<UserKey>, StoreError> {
    let made = sqlx::query_scalar!(
        "insert into app_user (name, password_hash, is_operator, created_at) values ($1, $2, $3, $4)
        on conflict (name) do nothing returning user_id",
        new.name,
        new.password_hash,
        new.is_operator,
        new.at.0
    );
    Ok(made.fetch_optional(tx.connection()).await?.map(UserKey))
}

/// All users by name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<UserRow>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"select user_id, name, language, is_operator, password_hash is not null as "has_password!",
            created_at, disabled_at
        from app_user order by name"#
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let mut users = Vec::with_capacity(rows.len());
    for row in rows {
        let memberships = memberships(tx, UserKey(row.user_id)).await?;
        users.push(row.user(memberships));
    }
    Ok(users)
}

/// The user of this name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_name(tx: &mut Tx, name: &str) -> Result<Option<UserRow>, StoreError> {
    let found = sqlx::query_scalar!("select user_id from app_user where name = $1", name);
    match found.fetch_optional(tx.connection()).await? {
        Some(key) => by_key(tx, UserKey(key)).await,
        None => Ok(None),
    }
}

/// The user with this number.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_key(tx: &mut Tx, key: UserKey) -> Result<Option<UserRow>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"select user_id, name, language, is_operator, password_hash is not null as "has_password!",
            created_at, disabled_at
        from app_user where user_id = $1"#,
        key.0
    );
    let Some(row) = row.fetch_optional(tx.connection()).await? else { return Ok(None) };
    let memberships = memberships(tx, key).await?;
    Ok(Some(row.user(memberships)))
}

async fn memberships(tx: &mut Tx, key: UserKey) -> Result<Vec<Membership>, StoreError> {
    let rows = sqlx::query!(
        "select tenant_id, slug, role from membership join tenant using (tenant_id)
        where user_id = $1 order by slug",
        key.0
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter().map(|row| membership(row.tenant_id, &row.slug, &row.role)).collect()
}

/// A row of one of the three tables of roles.
pub(super) fn membership(tenant: i32, slug: &str, role: &str) -> Result<Membership, StoreError> {
    Ok(Membership {
        tenant: TenantKey(tenant),
        slug: Column("tenant", "slug").parsed(slug)?,
        role: Column("membership", "role").named(role, Role::from_name)?,
    })
}

/// Who signs in with this name, and the hash to check the password with. `None` when nobody does,
/// or who does is disabled or has no password.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn credentials(tx: &mut Tx, name: &str) -> Result<Option<(UserKey, String)>, StoreError> {
    let found = sqlx::query!(
        r#"select user_id, password_hash as "password_hash!" from app_user
        where name = $1 and disabled_at is null and password_hash is not null"#,
        name
    );
    let found = found.fetch_optional(tx.connection()).await?;
    Ok(found.map(|row| (UserKey(row.user_id), row.password_hash)))
}

/// Gives a user another password.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn set_password(tx: &mut Tx, key: UserKey, hash: &str) -> Result<(), StoreError> {
    sqlx::query!("update app_user set password_hash = $2 where user_id = $1", key.0, hash)
        .execute(tx.connection())
        .await?;
    Ok(())
}

/// Chooses a user's language; `None` for what the browser asks for.
///
/// # Errors
/// [`StoreError::Constraint`] for one that the interface does not have.
pub async fn set_language(
    tx: &mut Tx,
    key: UserKey,
    language: Option<&str>,
) -> Result<(), StoreError> {
    sqlx::query!("update app_user set language = $2 where user_id = $1", key.0, language)
        .execute(tx.connection())
        .await?;
    Ok(())
}

/// Disables a user, whose sessions end, or lets it in again.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn set_disabled(
    tx: &mut Tx,
    key: UserKey,
    since: Option<Timestamp>,
) -> Result<(), StoreError> {
    let since = since.map(|at| at.0);
    sqlx::query!("update app_user set disabled_at = $2 where user_id = $1", key.0, since)
        .execute(tx.connection())
        .await?;
    if since.is_some() {
        sqlx::query!("delete from user_session where user_id = $1", key.0)
            .execute(tx.connection())
            .await?;
    }
    Ok(())
}

/// Makes a user an operator, or no longer one.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn set_operator(tx: &mut Tx, key: UserKey, is_operator: bool) -> Result<(), StoreError> {
    sqlx::query!("update app_user set is_operator = $2 where user_id = $1", key.0, is_operator)
        .execute(tx.connection())
        .await?;
    Ok(())
}

/// Gives a user a role in a tenant, or takes it away.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn set_role(
    tx: &mut Tx,
    key: UserKey,
    tenant: TenantKey,
    role: Option<Role>,
) -> Result<(), StoreError> {
    match role {
        Some(role) => sqlx::query!(
            "insert into membership (tenant_id, user_id, role) values ($1, $2, $3)
            on conflict (tenant_id, user_id) do update set role = excluded.role",
            tenant.0,
            key.0,
            role.name()
        ),
        None => sqlx::query!(
            "delete from membership where tenant_id = $1 and user_id = $2",
            tenant.0,
            key.0
        ),
    }
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// True when an operator other than this user can sign in. Needs [`hold`] to stay true.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn another_operator(tx: &mut Tx, key: UserKey) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        r#"select exists (select from app_user
            where is_operator and disabled_at is null and user_id <> $1) as "found!""#,
        key.0
    );
    Ok(found.fetch_one(tx.connection()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_small_and_plain() {
        for name in ["ada", "a", "li.lei+gpu@example.org", &"x".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "Ada", "a b", "名", "a\n", "<b>", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
