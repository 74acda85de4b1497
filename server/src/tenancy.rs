//! Whole tenants: taking everything of one out, and removing one for good.
//!
//! Both go by what the database says which tables there are. Not here: who may ask (`http`), and
//! making and naming tenants, which is one row (`store::tenant`).

pub mod archive;
pub mod command;

use std::sync::{Arc, Mutex, PoisonError};

use leasewatch_core::id::Slug;
use leasewatch_core::time::Timestamp;

use crate::store::audit::{self, Action, Who};
use crate::store::tenant::TenantRow;
use crate::store::{Db, Scope, StoreError, tenant_data};

/// Removals that can still be looked at.
const REMOVALS_KEPT: usize = 10;

/// How far a removal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalState {
    /// So many tables of so many are empty.
    Running(usize, usize),
    /// The tenant is gone, with so many rows.
    Removed(i64),
    /// Nodes are connected, so nothing was removed.
    Connected,
    /// The database refused, so nothing was removed.
    Failed,
}

/// Removals of this server, in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Removals(Arc<Mutex<Vec<(Slug, RemovalState)>>>);

impl Removals {
    /// The latest, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<(Slug, RemovalState)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, slug: &Slug, state: RemovalState) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| known != slug);
        all.push((slug.clone(), state));
        let surplus = all.len().saturating_sub(REMOVALS_KEPT);
        all.drain(..surplus);
    }

    /// Removes a tenant and tells how far it is; goes on when whoever asked does not wait.
    pub async fn run(&self, db: Db, tenant: TenantRow, who: Who, at: Timestamp) {
        let all = self.clone();
        let work = async move {
            let slug = tenant.slug.clone();
            let told = |done, total| all.set(&slug, RemovalState::Running(done, total));
            let state = match remove(&db, &tenant, (&who, at), told).await {
                Ok(removed) => RemovalState::Removed(removed.rows()),
                Err(StoreError::Connected) => RemovalState::Connected,
                Err(error) => {
                    tracing::error!(error = error.in_full(), "a tenant was not removed");
                    RemovalState::Failed
                }
            };
            all.set(&slug, state);
        };
        // A panic in there is logged by the runtime; nothing was committed then.
        let _ = tokio::spawn(work).await;
    }
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Tables that held rows of the tenant, with how many.
    pub tables: Vec<(String, i64)>,
}

impl Removed {
    /// All rows.
    #[must_use]
    pub fn rows(&self) -> i64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }
}

/// Removes everything of a tenant, sealed hours too, and the tenant itself, in one transaction. What
/// was removed is an entry of the audit log. `progress` hears how many tables are empty, of how many.
///
/// # Errors
/// [`StoreError::Connected`] while one of its nodes is connected with a good key; after any error
/// everything is as it was.
pub async fn remove(
    db: &Db,
    tenant: &TenantRow,
    (who, at): (&Who, Timestamp),
    progress: impl Fn(usize, usize),
) -> Result<Removed, StoreError> {
    let mut tx = db.begin(Scope::Worker).await?;
    let order = tenant_data::order_of_removal(&mut tx).await?;
    let mut removed = Removed { tables: Vec::new() };
    for (done, table) in order.iter().enumerate() {
        progress(done, order.len());
        let rows = tenant_data::remove(&mut tx, tenant, table).await?;
        if rows > 0 {
            removed.tables.push((table.clone(), rows));
        }
    }
    let detail: Vec<_> =
        removed.tables.iter().map(|(table, rows)| (table.as_str(), rows.to_string())).collect();
    let entry = audit::Entry {
        at,
        tenant: None,
        who,
        action: Action::TenantRemoved,
        object: tenant.slug.as_str(),
        detail: &detail,
    };
    audit::write(&mut tx, entry).await?;
    tx.commit().await?;
    Ok(removed)
}

/// Notes that everything of a tenant is taken out.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn note_export(
    db: &Db,
    tenant: &TenantRow,
    (who, at): (&Who, Timestamp),
) -> Result<(), StoreError> {
    let mut tx = db.begin(Scope::Auth).await?;
    let entry = audit::Entry {
        at,
        tenant: Some(tenant.key),
        who,
        action: Action::TenantExported,
        object: tenant.slug.as_str(),
        detail: &[],
    };
    audit::write(&mut tx, entry).await?;
    tx.commit().await
}
