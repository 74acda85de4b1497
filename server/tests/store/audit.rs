//! The audit log: added to, and otherwise left alone by everybody.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use leasewatch_server::store::audit::{self, Action, Entry, Wanted, Way, Who};
use leasewatch_server::store::{Db, Scope, StoreError, TenantKey, tenant};

use crate::fixture::{AT, connect, run, slug};
use crate::support;

const DENIED: &str = "42501";

async fn tenant(db: &Db, name: &str) -> TenantKey {
    let mut tx = db.begin(Scope::Auth).await.unwrap();
    let made = tenant::create(&mut tx, &slug(name), name).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    made
}

async fn note(
    db: &Db,
    scope: Scope,
    tenant: Option<TenantKey>,
    object: &str,
) -> Result<(), StoreError> {
    let (who, action) = (Who::outside(Some("192.0.2.1".to_owned())), Action::Exported);
    let detail = [("from", "2026-07-01\u{1b}[31m".to_owned())];
    let mut tx = db.begin(scope).await?;
    let entry = Entry { at: AT, tenant, who: &who, action, object, detail: &detail };
    audit::write(&mut tx, entry).await?;
    tx.commit().await
}

#[tokio::test]
async fn an_entry_cannot_be_changed_or_deleted_by_any_role() {
    let test = support::database().await;
    let own = tenant(&test.db, "own").await;
    note(&test.db, Scope::Auth, Some(own), "one").await.unwrap();
    let mut login = connect(&test.url).await;
    for role in ["web", "ingest", "worker", "auth", "operator"] {
        for change in [
            "update audit_entry set object = 'x'",
            "delete from audit_entry",
            "truncate audit_entry",
            "alter table audit_entry disable row level security",
        ] {
            let change = format!("begin; set local role leasewatch_{role}; {change}");
            assert_eq!(run(&mut login, &change).await, Err(DENIED.into()), "{change}");
            run(&mut login, "rollback").await.unwrap();
        }
    }
    // The function that empties a tenant's tables is for jobs, and wants its name.
    for (role, name, code) in
        [("web", "own", DENIED), ("auth", "own", DENIED), ("worker", "other", "LW004")]
    {
        let call = format!(
            "begin; set local role leasewatch_{role};
            select leasewatch_remove_tenant_rows((select max(tenant_id) from tenant), '{name}', 'audit_entry')"
        );
        assert_eq!(run(&mut login, &call).await, Err(code.into()), "{call}");
        run(&mut login, "rollback").await.unwrap();
    }
}

#[tokio::test]
async fn a_tenant_reads_and_writes_its_own_entries_alone() {
    let test = support::database().await;
    let (own, other) = (tenant(&test.db, "own").await, tenant(&test.db, "other").await);
    let scope = Scope::Tenant(own);
    note(&test.db, scope, Some(own), &"x".repeat(500)).await.unwrap();
    note(&test.db, Scope::Worker, Some(other), "theirs").await.unwrap();
    note(&test.db, Scope::Ingest, None, "everybody's").await.unwrap();
    for foreign in [Some(other), None] {
        let refused = note(&test.db, scope, foreign, "y").await;
        assert!(matches!(refused, Err(StoreError::Denied(_))), "{refused:?}");
    }
    assert!(note(&test.db, Scope::Operator, Some(own), "y").await.is_err());

    let read = async |scope, wanted| {
        let mut tx = test.db.begin(scope).await.unwrap();
        audit::read(&mut tx, wanted, 10).await.unwrap()
    };
    let entries = read(scope, Wanted::default()).await;
    assert_eq!(entries.len(), 1);
    let entry = &entries[0];
    assert_eq!((entry.object.len(), entry.way, entry.user.as_deref()), (200, Way::Outside, None));
    assert_eq!(entry.tenant.as_ref().map(|slug| slug.as_str()), Some("own"));
    assert!(!entry.detail[0].1.contains('\u{1b}'), "{:?}", entry.detail);
    let all = read(Scope::Operator, Wanted::default()).await;
    assert_eq!(
        all.iter().map(|entry| entry.object.as_str()).take(2).collect::<Vec<_>>(),
        ["everybody's", "theirs"]
    );
    let of = |action| Wanted { action: Some(action), ..Wanted::default() };
    assert_eq!(read(Scope::Operator, of(Action::Exported)).await.len(), 3);
    assert!(read(Scope::Operator, of(Action::SignedIn)).await.is_empty());
    let later = Wanted { from: Some(AT.plus_ms(1)), ..Wanted::default() };
    assert!(read(Scope::Operator, later).await.is_empty());
    let older =
        Wanted { before: Some(all[0].number), to: Some(AT.plus_ms(1)), ..Wanted::default() };
    assert_eq!(read(Scope::Operator, older).await.len(), 2);
}
