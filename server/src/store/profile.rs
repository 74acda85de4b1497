//! Own contracts: profiles of a tenant, in versions that never change, and all that it may be judged
//! by: those and the shipped ones.

use std::sync::LazyLock;

use leasewatch_core::lease::ProfileRef;
use leasewatch_core::sla::profile::{Profile, Profiles, shipped};
use leasewatch_core::time::Timestamp;

use super::column::{Column, fitted};
use super::lease::Written;
use super::{StoreError, TenantKey, Tx};

/// Stores a version. The same bytes again change nothing; returns false when the version is there
/// with others. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn insert(
    tx: &mut Tx,
    tenant: TenantKey,
    (profile, body): (&Profile, &str),
    written: Written<'_>,
) -> Result<bool, StoreError> {
    let version: i32 = fitted(profile.version, "version")?;
    sqlx::query!(
        "insert into profile (tenant_id, name, version, body, hash, written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7) on conflict (tenant_id, name, version) do nothing",
        tenant.number(),
        profile.id.as_str(),
        version,
        body,
        &profile.hash.0[..],
        written.at.0,
        written.by
    )
    .execute(tx.connection())
    .await?;
    let kept = sqlx::query_scalar!(
        "select hash from profile where tenant_id = $1 and name = $2 and version = $3",
        tenant.number(),
        profile.id.as_str(),
        version
    );
    Ok(kept.fetch_one(tx.connection()).await? == profile.hash.0)
}

/// Whether there is this version of a profile: one that comes with the program, or an own contract
/// of the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn exists(
    tx: &mut Tx,
    tenant: TenantKey,
    named: &ProfileRef,
) -> Result<bool, StoreError> {
    let is_shipped = |(id, text): &(&str, &str)| {
        let profile = || Profile::parse(text).ok();
        *id == named.id.as_str() && profile().is_some_and(|own| own.version == named.version)
    };
    if shipped().iter().any(is_shipped) {
        return Ok(true);
    }
    let version: i32 = fitted(named.version, "version")?;
    let found = sqlx::query_scalar!(
        r#"select exists (select from profile
            where tenant_id = $1 and name = $2 and version = $3) as "there!""#,
        tenant.number(),
        named.id.as_str(),
        version
    );
    Ok(found.fetch_one(tx.connection()).await?)
}

/// Every version of every own contract of a tenant, by name and version, with when it was written.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a text that is no profile any more.
pub async fn of_tenant(
    tx: &mut Tx,
    tenant: TenantKey,
) -> Result<Vec<(Profile, Timestamp)>, StoreError> {
    let rows = sqlx::query!(
        "select body, hash, written_at from profile where tenant_id = $1 order by name, version",
        tenant.number()
    )
    .fetch_all(tx.connection())
    .await?;
    let profiles = rows.into_iter().map(|row| {
        let body = Column("profile", "body");
        let profile = Profile::parse(&row.body).map_err(|error| body.wrong(error))?;
        if profile.hash.0[..] != row.hash[..] {
            return Err(Column("profile", "hash").wrong("is not that of the text"));
        }
        Ok((profile, Timestamp(row.written_at)))
    });
    profiles.collect()
}

static SHIPPED: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let parsed = shipped().iter().map(|(id, text)| (id, Profile::parse(text)));
    parsed
        .filter_map(|(id, profile)| {
            profile
                .inspect_err(|error| tracing::error!(id, %error, "a shipped profile is not read"))
                .ok()
        })
        .collect()
});

/// The shipped profiles and the tenant's own contracts.
///
/// # Errors
/// As [`of_tenant`].
pub async fn all(tx: &mut Tx, tenant: TenantKey) -> Result<Profiles, StoreError> {
    let own = of_tenant(tx, tenant).await?;
    let mut profiles = Profiles::default();
    for profile in SHIPPED.iter().cloned().chain(own.into_iter().map(|(profile, _)| profile)) {
        if let Err(error) = profiles.add(profile) {
            tracing::warn!(%error, "a profile does not count");
        }
    }
    Ok(profiles)
}
