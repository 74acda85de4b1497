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

/// How the tables of raw data (segments, blocks, events) are cut by time; fixed at the first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLayout {
    /// Partitions of PostgreSQL, made ahead by the server.
    Partitions,
    /// Hypertables of TimescaleDB, which makes their chunks by itself.
    Hypertables,
}

/// The first minor version of each major without known loss of data.
const FLOORS: [(i32, i32); 4] = [(15, 14), (16, 10), (17, 6), (18, 0)];

/// The oldest TimescaleDB whose hypertables are accepted: the one that the tests run on.
const TIMESCALE_FLOOR: (u32, u32) = (2, 23);

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
    /// The raw data is in hypertables of a TimescaleDB that nobody tried.
    #[error(
        "TimescaleDB {0} holds the segments, and {floor_major}.{floor_minor} is the oldest that works; run `alter extension \
         timescaledb update` as the administrator",
        floor_major = TIMESCALE_FLOOR.0,
        floor_minor = TIMESCALE_FLOOR.1
    )]
    OldTimescale(String),
    /// The raw data is in hypertables, and the extension is not there or not at work.
    #[error(
        "the segments are in hypertables of TimescaleDB, and {0}; nothing can be stored before that is put right"
    )]
    Timescale(&'static str),
}

/// Checks everything that must hold before the first segment is acknowledged. With
/// [`Durability::Throwaway`] settings and minor versions are not looked at. Returns, and logs, which
/// branch of the schema the database has.
///
/// # Errors
/// The first thing that is wrong.
pub async fn preflight(db: &Db, durability: Durability) -> Result<TimeLayout, PreflightError> {
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
    let layout = layout(&facts.raw_tables)?;
    let off = facts.settings.into_iter().find(|(_, value)| value == "off");
    if let (Durability::Durable, Some((setting, value))) = (durability, off) {
        return Err(PreflightError::Setting { setting, value });
    }
    let timescaledb = facts.raw_tables.extension.as_deref().unwrap_or("none");
    tracing::info!(?layout, timescaledb, "the database is fit to store segments");
    Ok(layout)
}

/// An extension that came after the first start has no part in the schema, and is not judged.
fn layout(tables: &RawTables) -> Result<TimeLayout, PreflightError> {
    if tables.partitioned {
        return Ok(TimeLayout::Partitions);
    }
    let Some(version) = &tables.extension else {
        return Err(PreflightError::Timescale("the extension is missing from this database"));
    };
    if !tables.loaded {
        return Err(PreflightError::Timescale(
            "its library is not loaded: shared_preload_libraries has to name timescaledb",
        ));
    }
    let mut numbers = version.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < TIMESCALE_FLOOR {
        return Err(PreflightError::OldTimescale(version.clone()));
    }
    Ok(TimeLayout::Hypertables)
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
    raw_tables: RawTables,
}

struct RawTables {
    partitioned: bool,
    /// Version of TimescaleDB, where it is installed in this database.
    extension: Option<String>,
    /// TimescaleDB is at work in this session.
    loaded: bool,
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
    let raw_tables = sqlx::query_as!(
        RawTables,
        r#"select
            exists (select from pg_partitioned_table where partrelid = to_regclass('public.segment')) as "partitioned!",
            (select extversion from pg_extension where extname = 'timescaledb') as extension,
            current_setting('timescaledb.license', true) is not null as "loaded!""#
    )
    .fetch_one(tx.connection())
    .await?;
    tx.commit().await?;
    Ok(Facts {
        raw_tables,
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
    #[test]
    fn hypertables_need_an_extension_that_works_and_partitions_do_not_care() {
        let layout = |partitioned, extension: Option<&str>, loaded| {
            layout(&RawTables { partitioned, extension: extension.map(str::to_owned), loaded })
        };
        for (extension, loaded) in [(None, false), (Some("2.9.1"), true), (Some("2.26.0"), false)] {
            assert_eq!(layout(true, extension, loaded).ok(), Some(TimeLayout::Partitions));
        }
        for good in ["2.23.0", "2.23.0-dev", "2.100.1", "3.0.0"] {
            assert_eq!(layout(false, Some(good), true).ok(), Some(TimeLayout::Hypertables));
        }
        for old in ["2.22.1", "2.9.3", "1.7.5", "unknown"] {
            let refused = layout(false, Some(old), true).unwrap_err();
            assert!(matches!(&refused, PreflightError::OldTimescale(found) if found == old));
            assert!(refused.to_string().contains("2.23 is the oldest that works"), "{refused}");
        }
        for (extension, sign) in [(None, "missing"), (Some("2.23.0"), "shared_preload_libraries")] {
            let refused = layout(false, extension, false).unwrap_err();
            assert!(refused.to_string().contains(sign), "{refused}");
        }
    }
}
