//! What can go wrong in the store, by what the caller can do about it.

use leasewatch_core::id::clean_text;
use sqlx::error::ErrorKind;

/// Characters of an error in a log.
const LOG_CHARS: usize = 400;

/// Why a store function did not do its work. The transaction is of no more use after any of them.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database does not answer, or has no connection free. Try again later.
    #[error("the database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// Two transactions stood in each other's way. Try again at once.
    #[error("the transaction collided with another one")]
    Collision(#[source] sqlx::Error),
    /// The role of the scope may not do this: a mistake in the program.
    #[error("the database role of this scope may not do that")]
    Denied(#[source] sqlx::Error),
    /// The hour is sealed and never changes.
    #[error("the hour is sealed")]
    Sealed,
    /// No partition holds rows of that time: `partition::ensure` was not called.
    #[error("no partition of {table} holds that time")]
    NoPartition {
        /// The partitioned table.
        table: String,
    },
    /// A period that no partitions are made for.
    #[error("{0}")]
    PartitionRange(String),
    /// The tenant has nodes that are not simulated, so its data cannot be removed.
    #[error("the tenant has nodes that are not simulated")]
    NotSimulated,
    /// A value contradicts the schema.
    #[error("{table}: the row breaks {constraint}")]
    Constraint {
        /// The table.
        table: String,
        /// Name of the constraint.
        constraint: String,
    },
    /// A number does not fit its column.
    #[error("{what} does not fit into the database")]
    OutOfRange {
        /// Which number.
        what: &'static str,
    },
    /// A stored row is not what this program writes.
    #[error("table {table}, column {column}: {problem}")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The database was migrated by a newer program.
    #[error(
        "the database has migration {0}, which this program does not know: it is older than the database"
    )]
    NewerSchema(i64),
    /// The database can be read only.
    #[error("the database is a standby: it cannot store anything; point the server at the primary")]
    Standby,
    /// A migration did not run.
    #[error("migration failed")]
    Migration(#[source] sqlx::migrate::MigrateError),
    /// Anything else that the database said.
    #[error("the database refused a statement")]
    Query(#[source] sqlx::Error),
}

impl StoreError {
    /// The error with its causes, on one line, for a log; cut, since a database may repeat what it
    /// was given.
    #[must_use]
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        clean_text(&text, LOG_CHARS)
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error),
            sqlx::Error::Database(inner) => match of_database(inner.as_ref()) {
                Some(known) => known(error),
                None => Self::Query(error),
            },
            _ => Self::Query(error),
        }
    }
}

type Known = Box<dyn FnOnce(sqlx::Error) -> StoreError>;

fn of_database(error: &dyn sqlx::error::DatabaseError) -> Option<Known> {
    let code = error.code()?;
    let table = error.table().unwrap_or("a table").to_owned();
    Some(match code.as_ref() {
        // No right, or a write in a scope that only reads.
        "42501" | "25006" => Box::new(StoreError::Denied),
        "LW001" => Box::new(|_| StoreError::Sealed),
        "LW002" => {
            let message = error.message().to_owned();
            Box::new(|_| StoreError::PartitionRange(message))
        }
        "LW003" => Box::new(|_| StoreError::NotSimulated),
        "23514" if error.constraint().is_none() => Box::new(|_| StoreError::NoPartition { table }),
        "40001" | "40P01" | "55P03" => Box::new(StoreError::Collision),
        // Shutting down, starting up, out of resources, connection lost.
        code if ["57P", "53", "08"].iter().any(|class| code.starts_with(class)) => {
            Box::new(StoreError::Unavailable)
        }
        _ if !matches!(error.kind(), ErrorKind::Other) => {
            let constraint = error.constraint().unwrap_or("a constraint").to_owned();
            Box::new(|_| StoreError::Constraint { table, constraint })
        }
        _ => return None,
    })
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        match error {
            sqlx::migrate::MigrateError::VersionMissing(version) => Self::NewerSchema(version),
            other => Self::Migration(other),
        }
    }
}
