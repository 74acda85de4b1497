//! May this database be trusted with evidence? Asked once, before anything is ingested.

use super::migration::newest_version;
use super::{Db, Scope, StoreError};

/// Whether an acknowledged commit must survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It must.
    Durable,
    /// It need not: a test's database that nobody misses.
    Throwaway,
}

/// The first minor version of each major without known loss of data.
const FLOORS: [(i32, i32); 4] = [(15, 14), (16, 10), (17, 6), (18, 0)];

/// What is wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// It could not be asked.
    #[error("the database cannot be checked")]
    Store(#[from] StoreError),
    /// Read only.
    #[error("the database is a standby: it cannot store anything; point the server at the primary")]
    Standby,
    /// A setting that gives committed rows away.
    #[error(
        "the database runs with {setting} = {value}: rows that were acknowledged can be lost; set it to on and restart PostgreSQL"
    )]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
    },
    /// A minor version with known loss of data.
    #[error(
        "PostgreSQL {major}.{minor} has known faults that lose or corrupt data; update to {major}.{floor} or newer"
    )]
    OldMinor {
        /// Its major version.
        major: i32,
        /// Its minor version.
        minor: i32,
        /// The oldest one that is accepted.
        floor: i32,
    },
    /// A major version that the schema is not written for.
    #[error("PostgreSQL {0} is too old; 15 is the oldest that works")]
    OldMajor(i32),
    /// A role that row-level security does not bind.
    #[error(
        "the role {0} is a superuser or bypasses row-level security, so tenants would not be kept apart; connect as \
         leasewatch_login (`alter role leasewatch_login password '..'`) and give the administrator's URL as DATABASE_ADMIN_URL"
    )]
    PrivilegedRole(String),
    /// The database was migrated by a newer program.
    #[error(
        "the schema is at version {found}, this program knows {known}: run a newer leasewatch-server"
    )]
    NewerSchema {
        /// Of the database.
        found: i64,
        /// Of this program.
        known: i64,
    },
    /// Migrations were not run.
    #[error(
        "the schema is at version {found}, this program needs {known}: give DATABASE_ADMIN_URL so that migrations can run"
    )]
    OlderSchema {
        /// Of the database.
        found: i64,
        /// Of this program.
        known: i64,
    },
}

/// Checks everything that must hold before the first segment is acknowledged. With
/// [`Durability::Throwaway`] settings and minor versions are not looked at.
///
/// # Errors
/// The first thing that is wrong.
pub async fn preflight(db: &Db, durability: Durability) -> Result<(), PreflightError> {
    let known = newest_version();
    let facts = match read_facts(db).await {
        Err(StoreError::Query(error)) if lacks_schema(&error) => {
            return Err(PreflightError::OlderSchema { found: 0, known });
        }
        facts => facts?,
    };
    if let Some(role) = facts.privileged_role {
        return Err(PreflightError::PrivilegedRole(role));
    }
    if facts.standby {
        return Err(PreflightError::Standby);
    }
    check_version(facts.version, durability)?;
    match facts.schema {
        found if found > known => return Err(PreflightError::NewerSchema { found, known }),
        found if found < known => return Err(PreflightError::OlderSchema { found, known }),
        _ => {}
    }
    if durability == Durability::Throwaway {
        return Ok(());
    }
    let off = facts.settings.into_iter().find(|(_, value)| value == "off");
    off.map_or(Ok(()), |(setting, value)| Err(PreflightError::Setting { setting, value }))
}

fn check_version(number: i32, durability: Durability) -> Result<(), PreflightError> {
    let (major, minor) = (number / 10_000, number % 10_000);
    let Some((_, floor)) = FLOORS.into_iter().rev().find(|(known, _)| *known <= major) else {
        return Err(PreflightError::OldMajor(major));
    };
    // A major after the last known one has no floor.
    let known = FLOORS.into_iter().any(|(known, _)| known == major);
    if known && minor < floor && durability == Durability::Durable {
        return Err(PreflightError::OldMinor { major, minor, floor });
    }
    Ok(())
}

/// No role of ours, or no table of applied migrations.
fn lacks_schema(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| ["22023", "42P01"].contains(&code.as_ref()))
}

struct Facts {
    version: i32,
    standby: bool,
    settings: [(&'static str, String); 3],
    privileged_role: Option<String>,
    schema: i64,
}

async fn read_facts(db: &Db) -> Result<Facts, StoreError> {
    let mut tx = db.begin(Scope::Operator).await?;
    let server = sqlx::query!(
        r#"select current_setting('server_version_num')::int as "version!",
            pg_is_in_recovery() as "standby!",
            current_setting('fsync') as "fsync!",
            current_setting('full_page_writes') as "full_page_writes!",
            current_setting('synchronous_commit') as "synchronous_commit!""#
    )
    .fetch_one(tx.connection())
    .await?;
    let privileged_role = sqlx::query_scalar!(
        r#"select rolname::text as "role!" from pg_roles
        where (rolsuper or rolbypassrls) and (rolname = session_user or rolname in
            ('leasewatch_owner', 'leasewatch_web', 'leasewatch_ingest', 'leasewatch_worker',
            'leasewatch_auth', 'leasewatch_operator'))
        order by rolname limit 1"#
    )
    .fetch_optional(tx.connection())
    .await?;
    let schema = sqlx::query_scalar!(
        r#"select coalesce(max(version), 0) as "version!" from _sqlx_migrations where success"#
    )
    .fetch_one(tx.connection())
    .await?;
    tx.commit().await?;
    Ok(Facts {
        version: server.version,
        standby: server.standby,
        settings: [
            ("fsync", server.fsync),
            ("full_page_writes", server.full_page_writes),
            ("synchronous_commit", server.synchronous_commit),
        ],
        privileged_role,
        schema,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_major_has_its_floor_and_a_future_one_has_none() {
        let check = |number| check_version(number, Durability::Durable);
        assert!(matches!(check(150_013), Err(PreflightError::OldMinor { floor: 14, .. })));
        assert!(matches!(check(160_009), Err(PreflightError::OldMinor { floor: 10, .. })));
        assert!(matches!(check(170_005), Err(PreflightError::OldMinor { floor: 6, .. })));
        for number in [150_014, 150_018, 160_010, 170_006, 180_000, 190_000] {
            assert!(check(number).is_ok(), "{number}");
        }
        assert!(matches!(check(140_020), Err(PreflightError::OldMajor(14))));
        assert!(check_version(150_001, Durability::Throwaway).is_ok());
    }
}
