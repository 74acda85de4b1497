//! Sums of leases by hour: what a month of them reads, and that none can be stored that does not
//! add up.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use leasewatch_core::cost::{NodeHour, Part};
use leasewatch_core::id::SlotNo;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{HOUR_MS, Hour};
use leasewatch_server::store::cost::{self, LeaseHour};
use leasewatch_server::store::lease::{self, Written};
use leasewatch_server::store::{Db, LeaseKey, NodeKey, Scope, StoreError};

use crate::fixture::{AT, HOUR, connect, enrol, number, run};
use crate::leases::terms;
use crate::support;

const NODES: u8 = 8;
const YEAR_HOURS: i64 = 365 * 24;
const MONTH_HOURS: i64 = 30 * 24;

async fn rented(db: &Db) -> (LeaseKey, NodeKey) {
    let node = enrol(db, "default", 1, Origin::Measured).await.key;
    let mut tx = db.begin(Scope::Tenant(node.tenant())).await.unwrap();
    let written = Written { at: AT, by: None, reason: None };
    let terms = terms("pool", 0, None);
    let key = lease::create(&mut tx, node.tenant(), &terms, written).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    (key, node)
}

/// An hour of two slots: half an hour of each is effective, the rest waited.
fn spent(node: NodeKey, hour: Hour) -> LeaseHour {
    let mut spent = NodeHour { node_ms: HOUR_MS, ..NodeHour::default() };
    spent.measures.contracted_ms = 2 * HOUR_MS;
    spent.measures.parts.add(Part::Effective, HOUR_MS * 100);
    spent.measures.parts.add(Part::Waiting, HOUR_MS * 100);
    spent.measures.delivered_pct_ms = 2 * HOUR_MS * 100;
    spent.origin = Some(Origin::Measured);
    spent.clocks_mhz = vec![(SlotNo(1), 1_980)];
    spent.memory_peaks_mib = vec![(SlotNo(0), 4), (SlotNo(1), 70_000)];
    LeaseHour { node, hour, spent }
}

#[tokio::test]
async fn an_hour_is_replaced_as_a_whole_and_one_that_does_not_add_up_is_refused() {
    let test = support::database().await;
    let (lease, node) = rented(&test.db).await;
    let hours = (HOUR, Hour(HOUR.0 + 2));
    let rows = [spent(node, HOUR), spent(node, HOUR.next())];
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    cost::put_hours(&mut tx, lease, hours, &rows).await.unwrap();
    // Time that is contracted no longer leaves no row.
    let nothing = LeaseHour { spent: NodeHour::default(), ..rows[1].clone() };
    cost::put_hours(&mut tx, lease, (HOUR.next(), hours.1), &[nothing]).await.unwrap();
    assert_eq!(cost::hours(&mut tx, lease, hours).await.unwrap(), rows[..1]);
    let mut wrong = spent(node, HOUR);
    wrong.spent.measures.parts.add(Part::Unknown, 1);
    let refused = cost::put_hours(&mut tx, lease, hours, &[wrong]).await;
    assert!(matches!(refused, Err(StoreError::Constraint { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_month_of_64_gpus_reads_its_own_rows_of_a_year_and_no_more() {
    let test = support::database().await;
    let (lease, _) = rented(&test.db).await;
    for seed in 2..=NODES {
        enrol(&test.db, "default", seed, Origin::Measured).await;
    }
    let mut admin = connect(&test.admin_url).await;
    let from = HOUR.0;
    let fill = format!(
        "insert into lease_hour select n.tenant_id, l.lease_id, h, n.node_id, 28800000, 1440000000,
            0, 1440000000, 0, 0, 0, 0, 0, 0, 2880000000, 2880000000, 0, 0, 0, 0, 3600000,
            'measured', array[1980, 1980, 1965, 1980, 1980, 1980, 1950, 1980],
            array[70000, 70000, 70000, 70000, 70000, 70000, 70000, 70000]
        from generate_series({from}, {}) h, node n, lease l",
        from + YEAR_HOURS - 1
    );
    run(&mut admin, &fill).await.unwrap();
    run(&mut admin, "analyze lease_hour").await.unwrap();
    let month = (Hour(from + 5 * MONTH_HOURS), Hour(from + 6 * MONTH_HOURS));
    let mut tx = test.db.begin(Scope::Tenant(lease.tenant)).await.unwrap();
    let rows = cost::hours(&mut tx, lease, month).await.unwrap();
    assert_eq!(rows.len(), usize::from(NODES) * 720);
    assert!(rows.iter().all(|row| row.spent.measures.is_conserved()));
    drop(tx);
    // Pages of the table and its index that the rows of the month lie on, of 46,080 hour records.
    run(
        &mut admin,
        "create function pages(text) returns bigint language plpgsql as $$ declare plan json;
        begin
            execute 'explain (analyze, buffers, format json) ' || $1 into plan;
            return (plan->0->'Plan'->>'Shared Hit Blocks')::bigint
                + (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
        end $$",
    )
    .await
    .unwrap();
    let asked = format!(
        "select pages('select * from lease_hour where tenant_id = 1 and lease_id = 1
            and hour >= {} and hour < {} order by hour, node_id')",
        month.0.0, month.1.0
    );
    let pages = number(&mut admin, &asked).await;
    assert!((100..=500).contains(&pages), "{pages} pages");
}
