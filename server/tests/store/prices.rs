//! Prices, bills, facts of providers and tickets: what was stored comes back, and stays with its
//! tenant.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use leasewatch_core::cost::bill::{
    BillColumns, BillRowFault, DateOrder, QuantityUnit, read as read_bill,
};
use leasewatch_core::cost::price_table;
use leasewatch_core::lease::SessionSource;
use leasewatch_core::provider_fact::{FactKind, FactValue};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{DAY_MS, Zone};
use leasewatch_server::store::bill::{self, NewBill};
use leasewatch_server::store::contracted;
use leasewatch_server::store::price::{self, NewPriceTable};
use leasewatch_server::store::provider::{self, ProviderRow};
use leasewatch_server::store::provider_fact::{self, NewFact};
use leasewatch_server::store::ticket::{self, Course, NewTicket};
use leasewatch_server::store::{Db, Scope, StoreError, TenantKey, Tx, tenant};

use crate::fixture::{AT, connect, enrol, run, slug};
use crate::support;

async fn two_tenants(db: &Db) -> (TenantKey, TenantKey, ProviderRow) {
    let mut tx = db.begin(Scope::Ingest).await.unwrap();
    let own = tenant::ensure(&mut tx, &slug("own"), "Own").await.unwrap();
    let other = tenant::ensure(&mut tx, &slug("other"), "Other").await.unwrap();
    let provider = provider::ensure(&mut tx, &slug("clouds"), "Clouds").await.unwrap();
    tx.commit().await.unwrap();
    (own.key, other.key, provider)
}

#[tokio::test]
async fn a_price_table_comes_back_with_what_was_refused() {
    let test = support::database().await;
    let db = test.db.clone();
    let (own, _, provider) = two_tenants(&db).await;
    let text = "Cloud,GPU Type,GPUs,On-demand,Per-GPU,Spot,Name\n\
        A,T4 (16 GB),2,1.20,0.60,,a-2\nA,T4 (16 GB),2,1.20,0.60,,a-2\nA,T4 (16 GB),1,,0.60,,a-1\n";
    let table = price_table::read(text, "USD".parse().unwrap(), None).unwrap();
    let mut tx = db.begin(Scope::Ingest).await.unwrap();
    let new = NewPriceTable {
        file_name: "clouds.csv",
        provider: Some(provider.key),
        currency: "USD".parse().unwrap(),
        table: &table,
        at: AT,
        by: Some("ada"),
    };
    let key = price::put(&mut tx, new).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin(Scope::Tenant(own)).await.unwrap();
    let rows = price::list(&mut tx).await.unwrap();
    let counts = (rows[0].rows, rows[0].offers, rows[0].duplicates, rows[0].refused);
    assert_eq!((rows.len(), counts), (1, (3, 1, 1, 1)));
    assert_eq!(
        (rows[0].schema.as_deref(), rows[0].provider.as_deref()),
        (Some("cloud-gpus"), Some("clouds"))
    );
    let offers = price::offers(&mut tx, "T4", 10).await.unwrap();
    assert_eq!(offers[0].on_demand.unwrap().to_string(), "1.20 USD");
    assert_eq!((offers[0].spot, offers[0].gpu_count), (None, 2));
    let refused = price::refused(&mut tx, key, 10).await.unwrap();
    assert_eq!(refused, [(4, table.refused[0].fault.to_string())]);
    drop(tx);
    let mut tx = db.begin(Scope::Ingest).await.unwrap();
    assert!(price::withdraw(&mut tx, key, AT).await.unwrap());
    assert!(!price::withdraw(&mut tx, key, AT).await.unwrap());
    assert_eq!(price::offers(&mut tx, "T4", 10).await.unwrap(), []);
}

#[tokio::test]
async fn the_latest_fact_counts_and_must_haves_filter() {
    let test = support::database().await;
    let db = test.db.clone();
    let (_, _, provider) = two_tenants(&db).await;
    let mut tx = db.begin(Scope::Ingest).await.unwrap();
    let facts = [
        (FactKind::OwnRooms, FactValue::Bool(false), 0),
        (FactKind::OwnRooms, FactValue::Bool(true), 1),
        (FactKind::HourlyHistory, FactValue::Bool(true), 1),
        (FactKind::HourlyHistory, FactValue::Bool(false), 2),
        (FactKind::Licence, FactValue::Text("B1-1234".to_owned()), 0),
        (FactKind::Licence, FactValue::Text("B1-5678".to_owned()), 1),
    ];
    for (kind, value, days) in &facts {
        let new = NewFact {
            provider: provider.key,
            kind: *kind,
            value,
            source: "its web page",
            as_of: AT.plus_ms(days * DAY_MS),
            at: AT,
            by: None,
        };
        provider_fact::put(&mut tx, new).await.unwrap();
    }
    let current = provider_fact::current(&mut tx).await.unwrap();
    let values: Vec<_> = current.iter().map(|row| (row.kind, row.value.clone())).collect();
    assert_eq!(values, [3, 4, 5, 1].map(|index| (facts[index].0, facts[index].1.clone())));
    let having = async |tx: &mut Tx, kinds: &[FactKind]| {
        let slugs = provider_fact::having(tx, kinds).await.unwrap();
        slugs.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(having(&mut tx, &[FactKind::OwnRooms, FactKind::Licence]).await, ["clouds"]);
    // A "no" is not a "yes", and what nobody wrote down is neither.
    assert_eq!(having(&mut tx, &[FactKind::HourlyHistory]).await, [""; 0]);
    assert_eq!(having(&mut tx, &[FactKind::OutOfBand]).await, [""; 0]);
    assert_eq!(having(&mut tx, &[]).await, ["clouds", "default"]);
}

#[tokio::test]
async fn a_bill_comes_back_and_stays_with_its_tenant() {
    let test = support::database().await;
    let db = test.db.clone();
    let (own, other, provider) = two_tenants(&db).await;
    let columns = BillColumns {
        starts: "from".to_owned(),
        ends: Some("to".to_owned()),
        key: "id".to_owned(),
        quantity: Some("hours".to_owned()),
        unit: None,
        rate: None,
        amount: "amount".to_owned(),
        currency: None,
        currency_else: "CNY".parse().unwrap(),
        unit_else: QuantityUnit::Hour,
        zone: Zone::UTC,
        dates: DateOrder::YearFirst,
    };
    let text = "id,from,to,hours,amount\ni-1,2026-10-01,2026-10-31,744,18600\n\
        i-2,2026-10-01,2026-10-31,,-12.345678901\ni-3,never,never,1,1\n";
    let read = read_bill(text, &columns).unwrap();
    let new = |tenant| NewBill {
        tenant,
        provider: provider.key,
        file_name: "october.csv",
        with_tax: true,
        bill: &read,
        at: AT,
        by: Some("ada"),
    };
    let mut tx = db.begin(Scope::Tenant(own)).await.unwrap();
    let key = bill::put(&mut tx, new(own)).await.unwrap();
    assert_eq!(bill::lines(&mut tx, key).await.unwrap(), read.lines);
    let refused = &bill::refused(&mut tx, key).await.unwrap()[0];
    assert_eq!((refused.line, refused.fault), (4, BillRowFault::Date));
    assert_eq!(refused.column.as_deref(), Some("from"));
    let row = bill::by_key(&mut tx, key).await.unwrap().unwrap();
    assert_eq!((row.lines, row.period.unwrap()), (2, read.lines[0].period));
    let pair = (own, provider.key);
    assert_eq!(bill::mapping(&mut tx, pair).await.unwrap(), None);
    for mapping in ["starts=from", "starts=From"] {
        bill::keep_mapping(&mut tx, pair, mapping, (AT, Some("ada"))).await.unwrap();
        assert_eq!(bill::mapping(&mut tx, pair).await.unwrap().as_deref(), Some(mapping));
    }
    tx.commit().await.unwrap();
    let mut tx = db.begin(Scope::Tenant(other)).await.unwrap();
    assert_eq!(bill::list(&mut tx).await.unwrap(), []);
    assert_eq!(bill::lines(&mut tx, key).await.unwrap(), []);
    assert_eq!(bill::by_key(&mut tx, key).await.unwrap(), None);
    assert_eq!(bill::mapping(&mut tx, (own, provider.key)).await.unwrap(), None);
    assert!(!bill::withdraw(&mut tx, key, AT).await.unwrap());
    assert!(matches!(bill::put(&mut tx, new(own)).await, Err(StoreError::Denied(_))));
    drop(tx);
    let mut tx = db.begin(Scope::Tenant(own)).await.unwrap();
    let row = &bill::list(&mut tx).await.unwrap()[0];
    assert_eq!((row.provider.as_str(), row.with_tax, row.refused), ("clouds", true, 1));
    assert!(bill::withdraw(&mut tx, key, AT).await.unwrap());
    assert_eq!(bill::list(&mut tx).await.unwrap(), []);
}

#[tokio::test]
async fn a_ticket_is_followed_and_stays_with_its_tenant() {
    let test = support::database().await;
    let db = test.db.clone();
    let (own, other, provider) = two_tenants(&db).await;
    let mut tx = db.begin(Scope::Tenant(own)).await.unwrap();
    let new = NewTicket {
        tenant: own,
        provider: provider.key,
        subject: "GPU 3 fell off the bus",
        opened_at: AT,
        course: &Course::default(),
        at: AT,
        by: None,
    };
    ticket::put(&mut tx, new).await.unwrap();
    let number = ticket::list(&mut tx).await.unwrap()[0].number;
    let course = Course {
        number: Some("T-77".to_owned()),
        answered_at: Some(AT.plus_ms(1_800_000)),
        fixed_at: Some(AT.plus_ms(7_200_000)),
        replaced_at: None,
        answer: Some("The card was seated anew".to_owned()),
        reason: None,
    };
    assert!(ticket::follow(&mut tx, own, number, &course).await.unwrap());
    assert_eq!(ticket::list(&mut tx).await.unwrap()[0].course, course);
    tx.commit().await.unwrap();
    let mut tx = db.begin(Scope::Tenant(other)).await.unwrap();
    assert_eq!(ticket::list(&mut tx).await.unwrap(), []);
    assert!(!ticket::follow(&mut tx, own, number, &Course::default()).await.unwrap());
}

#[tokio::test]
async fn costs_see_the_last_terms_and_what_was_not_withdrawn() {
    let test = support::database().await;
    let node = enrol(&test.db, "own", 1, Origin::Measured).await;
    enrol(&test.db, "other", 2, Origin::Measured).await;
    let mut admin = connect(&test.admin_url).await;
    let terms = |count| {
        format!(
            r#"{{"version": 1, "name": "pool", "provider": "default", "gpu_model": "H100", "currency": "USD",
            "gpu_count": {count}, "starts_at": "2026-10-01T00:00:00.000Z", "tax": "0.13",
            "prices": [{{"amount": "2.49", "unit": "gpu_hour"}}], "labels": {{"team": "nlp"}}}}"#
        )
    };
    let sql = format!(
        "begin;
        insert into lease (tenant_id, name, provider_id, created_at)
            select t.tenant_id, 'pool', p.provider_id, 1 from tenant t, provider p
            where t.slug = 'own' and p.slug = 'default';
        insert into lease_terms (tenant_id, lease_id, revision, starts_at, terms, written_at)
            select tenant_id, lease_id, 1, 1, '{}'::jsonb, 1 from lease
            union all select tenant_id, lease_id, 2, 1, '{}'::jsonb, 1 from lease;
        insert into billing_session (tenant_id, lease_id, starts_at, ends_at, source, written_at, withdrawn_at)
            select tenant_id, lease_id, 10, 20, 'hand', 1, null::bigint from lease
            union all select tenant_id, lease_id, 30, 40, 'hand', 1, 2 from lease;
        insert into assignment (tenant_id, lease_id, node_id, slot_no, starts_at, written_at, withdrawn_at)
            select tenant_id, lease_id, node_id, 0, 5, 1, null::bigint from lease join node using (tenant_id)
            union all select tenant_id, lease_id, node_id, 1, 5, 1, 2 from lease join node using (tenant_id);
        commit",
        terms(4),
        terms(8)
    );
    run(&mut admin, &sql).await.unwrap();
    let tenant = async |name| {
        let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
        tenant::ensure(&mut tx, &slug(name), name).await.unwrap().key
    };
    let (own, other) = (tenant("own").await, tenant("other").await);
    let mut tx = test.db.begin(Scope::Tenant(own)).await.unwrap();
    let leases = contracted::list(&mut tx).await.unwrap();
    let lease = &leases[0].1;
    assert_eq!(leases[0].0, slug("own"));
    assert_eq!((leases.len(), lease.terms.gpu_count), (1, 8), "the last terms count");
    assert_eq!(lease.terms.prices[0].amount.to_string(), "2.49 USD");
    assert_eq!((lease.terms.tax_ppm, lease.terms.faults()), (Some(130_000), Vec::new()));
    let sessions: Vec<_> = lease.sessions.iter().map(|s| (s.starts_at.0, s.source)).collect();
    assert_eq!(sessions, [(10, SessionSource::Hand)]);
    assert_eq!(lease.slots(), [(node.key, leasewatch_core::id::SlotNo(0))]);
    drop(tx);
    let mut tx = test.db.begin(Scope::Tenant(other)).await.unwrap();
    assert_eq!(contracted::list(&mut tx).await.unwrap(), []);
}
