//! Browsers that are signed in. Scope of everything here: auth.

use leasewatch_core::time::Timestamp;

use super::user::{self, UserKey, UserRow};
use super::{StoreError, Tx};

/// What its owner names a session by; it opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey(pub i32);

/// A session that begins.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// SHA-256 of the cookie's secret.
    pub hash: &'a [u8; 32],
    /// Whose it is.
    pub user: UserKey,
    /// Now.
    pub at: Timestamp,
    /// Its end, however busy it is.
    pub expires_at: Timestamp,
    /// Where it begins.
    pub address: Option<&'a str>,
    /// How the browser calls itself; clean text.
    pub browser: Option<&'a str>,
}

/// A session that is good now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name.
    pub key: SessionKey,
    /// Whose it is; not disabled.
    pub user: UserRow,
    /// When it was used last, to the minute.
    pub seen_at: Timestamp,
}

/// A session in the list of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its name.
    pub key: SessionKey,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was used last, to the minute.
    pub seen_at: Timestamp,
    /// Where it began.
    pub address: Option<String>,
    /// How the browser called itself.
    pub browser: Option<String>,
}

/// Begins a session, and forgets those that are over.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn open(tx: &mut Tx, new: NewSession<'_>) -> Result<SessionKey, StoreError> {
    sqlx::query!("delete from user_session where expires_at <= $1", new.at.0)
        .execute(tx.connection())
        .await?;
    let made = sqlx::query_scalar!(
        "insert into user_session (session_hash, user_id, created_at, seen_at, expires_at, address, browser)
        values ($1, $2, $3, $3, $4, $5, $6) returning session_id",
        new.hash,
        new.user.0,
        new.at.0,
        new.expires_at.0,
        new.address,
        new.browser
    );
    Ok(SessionKey(made.fetch_one(tx.connection()).await?))
}

/// The session of a cookie, if it is good at `now`, was used since `idle_since`, and its user is
/// not disabled.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn find(
    tx: &mut Tx,
    hash: &[u8; 32],
    now: Timestamp,
    idle_since: Timestamp,
) -> Result<Option<Session>, StoreError> {
    let found = sqlx::query!(
        "select session_id, user_id, seen_at from user_session
        where session_hash = $1 and expires_at > $2 and seen_at >= $3",
        hash,
        now.0,
        idle_since.0
    );
    let Some(found) = found.fetch_optional(tx.connection()).await? else { return Ok(None) };
    let user = user::by_key(tx, UserKey(found.user_id)).await?;
    let user = user.filter(|user| user.disabled_at.is_none());
    let (key, seen_at) = (SessionKey(found.session_id), Timestamp(found.seen_at));
    Ok(user.map(|user| Session { key, user, seen_at }))
}

/// Notes that a session was used.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn touch(tx: &mut Tx, key: SessionKey, at: Timestamp) -> Result<(), StoreError> {
    sqlx::query!("update user_session set seen_at = $2 where session_id = $1", key.0, at.0)
        .execute(tx.connection())
        .await?;
    Ok(())
}

/// Sessions of a user that are good, the one used last first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_user(
    tx: &mut Tx,
    user: UserKey,
    now: Timestamp,
    idle_since: Timestamp,
) -> Result<Vec<SessionRow>, StoreError> {
    let rows = sqlx::query!(
        "select session_id, created_at, seen_at, address, browser from user_session
        where user_id = $1 and expires_at > $2 and seen_at >= $3
        order by seen_at desc, session_id desc",
        user.0,
        now.0,
        idle_since.0
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    let rows = rows.map(|row| SessionRow {
        key: SessionKey(row.session_id),
        created_at: Timestamp(row.created_at),
        seen_at: Timestamp(row.seen_at),
        address: row.address,
        browser: row.browser,
    });
    Ok(rows.collect())
}

/// Ends one session of a user; false when it has none of that name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn close(tx: &mut Tx, user: UserKey, key: SessionKey) -> Result<bool, StoreError> {
    let closed = sqlx::query!(
        "delete from user_session where user_id = $1 and session_id = $2",
        user.0,
        key.0
    );
    Ok(closed.execute(tx.connection()).await?.rows_affected() == 1)
}

/// Ends the session of a cookie, whoever's it is.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn close_cookie(tx: &mut Tx, hash: &[u8; 32]) -> Result<(), StoreError> {
    sqlx::query!("delete from user_session where session_hash = $1", hash)
        .execute(tx.connection())
        .await?;
    Ok(())
}

/// Ends every session of a user.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn close_all(tx: &mut Tx, user: UserKey) -> Result<(), StoreError> {
    sqlx::query!("delete from user_session where user_id = $1", user.0)
        .execute(tx.connection())
        .await?;
    Ok(())
}
