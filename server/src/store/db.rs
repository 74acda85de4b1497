//! Connections, scopes and transactions.
//!
//! Invariants:
//! 1. Every statement runs in a transaction that [`Db::begin`] opened, under the role of its
//!    scope: `begin`, role and tenant go in one round trip, so there is no moment without them.
//! 2. A caller that is cancelled never leaves a transaction open on a pooled connection. sqlx 0.9
//!    forgets a `begin` that is cancelled before its answer: what the next user does on that
//!    connection happens inside the old transaction, and a statement outside of one is never
//!    committed. So `begin` and `commit` run in tasks of their own, and a connection that comes
//!    back still under a role is closed.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Postgres, Row as _, Transaction};

use super::{StoreError, TenantKey};

const ACQUIRE_PATIENCE: Duration = Duration::from_secs(10);

/// In whose name a transaction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A page of one tenant: reads that tenant's rows.
    Tenant(TenantKey),
    /// The writer of segments: inserts for any tenant.
    Ingest,
    /// Jobs: read everything, write hours, never a sealed one.
    Worker,
    /// The operator: reads everything, writes nothing.
    Operator,
    /// Users and sessions.
    Auth,
}

impl Scope {
    fn begin_statement(self) -> String {
        match self {
            Self::Tenant(tenant) => format!(
                "begin; set local role leasewatch_web; set local leasewatch.tenant = '{}'",
                tenant.number()
            ),
            Self::Ingest => "begin; set local role leasewatch_ingest".to_owned(),
            Self::Worker => "begin; set local role leasewatch_worker".to_owned(),
            Self::Operator => "begin read only; set local role leasewatch_operator".to_owned(),
            Self::Auth => "begin; set local role leasewatch_auth".to_owned(),
        }
    }
}

/// A pool of connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Db {
    pool: PgPool,
}

impl Db {
    /// Connects with a login that is a member of the roles of each [`Scope`]. Fails at once when
    /// the database does not answer.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], or [`StoreError::Query`] for a malformed URL.
    pub async fn connect(url: &str, max_connections: u32) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)?
            .application_name("leasewatch-server")
            .options([("search_path", "public"), ("timezone", "UTC")]);
        Self::open(options, max_connections).await
    }

    /// The same database over connections of its own, so that nobody else can use them up.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn apart(&self, max_connections: u32) -> Result<Self, StoreError> {
        Self::open(self.pool.connect_options().as_ref().clone(), max_connections).await
    }

    async fn open(options: PgConnectOptions, max_connections: u32) -> Result<Self, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .acquire_timeout(ACQUIRE_PATIENCE)
            .after_release(|connection, _| Box::pin(is_clean(connection)));
        Ok(Self { pool: pool.connect_with(options).await? })
    }

    /// Opens a transaction in a scope.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; [`StoreError::Denied`] when the login may not become the role.
    pub async fn begin(&self, scope: Scope) -> Result<Tx, StoreError> {
        let pool = self.pool.clone();
        // Built from a number and literals alone.
        let statement = AssertSqlSafe(scope.begin_statement());
        let begun = detached(async move { pool.begin_with(statement).await }).await?;
        Ok(Tx(begun))
    }

    /// Closes all connections; waits for those in use.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// A transaction in a scope. Dropped without [`Tx::commit`], it is rolled back.
///
/// Every query takes one, and only [`Db::begin`] makes one, which wants the scope:
///
/// ```
/// use leasewatch_server::store::{Db, Scope, StoreError, TenantKey, node};
///
/// async fn nodes(db: &Db, tenant: TenantKey) -> Result<Vec<node::NodeRow>, StoreError> {
///     let mut tx = db.begin(Scope::Tenant(tenant)).await?;
///     node::list(&mut tx).await
/// }
/// ```
///
/// A query without a scope is no program:
///
/// ```compile_fail
/// use leasewatch_server::store::{Db, StoreError, node};
///
/// async fn nodes(db: &Db) -> Result<Vec<node::NodeRow>, StoreError> {
///     let mut tx = db.begin().await?;
///     node::list(&mut tx).await
/// }
/// ```
///
/// Nor is one on a connection of somebody's own:
///
/// ```compile_fail
/// use leasewatch_server::store::{Db, StoreError, node};
///
/// async fn nodes(mut db: Db) -> Result<Vec<node::NodeRow>, StoreError> {
///     node::list(&mut db).await
/// }
/// ```
#[derive(Debug)]
pub struct Tx(Transaction<'static, Postgres>);

impl Tx {
    /// Makes it durable. When the caller is cancelled, the commit still goes through; an error
    /// leaves it open whether it did.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub async fn commit(self) -> Result<(), StoreError> {
        detached(self.0.commit()).await
    }

    /// Undoes it, and waits for that.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub async fn rollback(self) -> Result<(), StoreError> {
        detached(self.0.rollback()).await
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}

async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, sqlx::Error>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(StoreError::Unavailable(sqlx::Error::WorkerCrashed)),
    }
}

/// Each transaction runs under another role than the login, so the login's own role says that none
/// is open. The simple protocol, because the answer must not depend on prepared statements.
async fn is_clean(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let row = sqlx::raw_sql("select current_user = session_user").fetch_one(connection).await?;
    let clean: bool = row.try_get(0)?;
    if !clean {
        tracing::warn!("a connection came back inside a transaction and is closed");
    }
    Ok(clean)
}
