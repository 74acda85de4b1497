//! Hour records: provisional ones are replaced, sealed ones never change.

use leasewatch_core::id::SlotNo;
use leasewatch_core::metering::HourState;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{HOUR_MS, Hour};
use leasewatch_server::store::hour::{
    HourCursor, current, due_to_seal, of_node, page, profiles, remove_provisional, revisions,
    totals_by_hour, totals_by_node,
};
use leasewatch_server::store::hour_work::{self, WorkReason};
use leasewatch_server::store::{Scope, StoreError};

use crate::fixture::{self, HOUR, connect, put_hour, record, run};
use crate::support;

const SLOT: SlotNo = SlotNo(0);

#[tokio::test]
async fn a_provisional_hour_is_replaced_and_then_sealed() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let mut record = record(1, HOUR, Origin::Measured);
    put_hour(&test.db, &node, &record, HourState::Provisional, 1).await.unwrap();
    record.histogram.add(100, 1_000);
    put_hour(&test.db, &node, &record, HourState::Provisional, 1).await.unwrap();

    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    assert_eq!(due_to_seal(&mut tx, HOUR.next(), None, 10).await.unwrap(), [(node.key, HOUR)]);
    assert!(due_to_seal(&mut tx, HOUR, None, 10).await.unwrap().is_empty());
    tx.commit().await.unwrap();

    put_hour(&test.db, &node, &record, HourState::Sealed, 1).await.unwrap();
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    assert!(due_to_seal(&mut tx, HOUR.next(), None, 10).await.unwrap().is_empty());
    let rows = current(&mut tx, node.key, &[SLOT], HOUR).await.unwrap();
    assert_eq!((rows.len(), rows[0].state, &rows[0].record), (1, HourState::Sealed, &record));
    assert_eq!(profiles(&mut tx, node.key, SLOT, (HOUR, HOUR.next())).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_sealed_hour_cannot_be_changed_or_deleted_by_any_role() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let sealed = record(1, HOUR, Origin::Measured);
    put_hour(&test.db, &node, &sealed, HourState::Sealed, 1).await.unwrap();

    let mut other = sealed.clone();
    other.histogram.add(0, 5);
    for state in [HourState::Sealed, HourState::Provisional] {
        let refused = put_hour(&test.db, &node, &other, state, 1).await;
        assert!(matches!(refused, Err(StoreError::Sealed)), "{refused:?}");
    }
    let mut connection = connect(&test.url).await;
    for (role, code) in [("worker", "LW001"), ("ingest", "42501"), ("operator", "42501")] {
        for sql in ["update hour_record set busy_pct_ms = 0", "delete from hour_record"] {
            let sql = format!("begin; set local role leasewatch_{role}; {sql}");
            assert_eq!(run(&mut connection, &sql).await, Err(code.into()), "{sql}");
            run(&mut connection, "rollback").await.unwrap();
        }
    }
    // Even the superuser has to take the trigger away first.
    let mut admin = connect(&test.admin_url).await;
    for sql in ["update hour_record set state = 1", "delete from hour_record"] {
        assert_eq!(run(&mut admin, sql).await, Err("LW001".into()), "{sql}");
    }
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    remove_provisional(&mut tx, node.key, HOUR, &[(SLOT, &sealed.gpu)]).await.unwrap();
    assert_eq!(current(&mut tx, node.key, &[SLOT], HOUR).await.unwrap()[0].record, sealed);
}

#[tokio::test]
async fn a_new_revision_stands_beside_the_sealed_one_and_counts_alone() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let first = record(1, HOUR, Origin::Measured);
    let mut second = first.clone();
    second.histogram.add(100, 1_000);
    put_hour(&test.db, &node, &first, HourState::Sealed, 1).await.unwrap();
    put_hour(&test.db, &node, &second, HourState::Sealed, 2).await.unwrap();

    let mut tx = test.db.begin(Scope::Tenant(node.key.tenant)).await.unwrap();
    let all = revisions(&mut tx, node.key, SLOT, HOUR).await.unwrap();
    assert_eq!(all.iter().map(|row| row.revision).collect::<Vec<_>>(), [1, 2]);
    assert!(all[0].previous.is_none() && all[1].previous.is_some());
    let latest = current(&mut tx, node.key, &[SLOT], HOUR).await.unwrap();
    assert_eq!((latest.len(), &latest[0].record), (1, &second));

    let busy = HOUR_MS / 2 * 40 + 100_000;
    let by_hour = totals_by_hour(&mut tx, Some(node.key), HOUR, HOUR.next()).await.unwrap();
    let by_node = totals_by_node(&mut tx, HOUR, HOUR.next()).await.unwrap();
    assert_eq!((by_hour.len(), by_node.len()), (1, 1));
    assert_eq!((by_hour[0].busy_pct_ms, by_node[0].busy_pct_ms), (busy, busy));
    assert_eq!((by_hour[0].measured_ms, by_node[0].enrolled_ms), (HOUR_MS / 2 + 1_000, HOUR_MS));
}

#[tokio::test]
async fn a_gpu_that_later_data_moved_away_loses_its_provisional_record() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    for seed in [1, 2] {
        let record = record(seed, HOUR, Origin::Measured);
        put_hour(&test.db, &node, &record, HourState::Provisional, 1).await.unwrap();
    }
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    let displaced = [fixture::uuid(1), fixture::uuid(3)];
    let displaced: Vec<_> = displaced.iter().map(|gpu| (SLOT, gpu)).collect();
    remove_provisional(&mut tx, node.key, HOUR, &displaced).await.unwrap();
    let rows = current(&mut tx, node.key, &[SLOT], HOUR).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row.record.gpu.clone()).collect::<Vec<_>>(),
        [fixture::uuid(2)]
    );
    assert_eq!(profiles(&mut tx, node.key, SLOT, (HOUR, HOUR.next())).await.unwrap().len(), 1);
}

#[tokio::test]
async fn pages_of_hours_give_each_row_once_whatever_their_size() {
    let test = support::database().await;
    for seed in [1, 2] {
        let node = fixture::enrol(&test.db, "default", seed, Origin::Measured).await;
        for offset in 0..3 {
            let record = record(seed, Hour(HOUR.0 + offset), Origin::Measured);
            put_hour(&test.db, &node, &record, HourState::Sealed, 1).await.unwrap();
            put_hour(&test.db, &node, &record, HourState::Sealed, 2).await.unwrap();
        }
    }
    let range = (HOUR, Hour(HOUR.0 + 3));
    let mut tx = test.db.begin(Scope::Operator).await.unwrap();
    let whole = page(&mut tx, range, None, None, 100).await.unwrap();
    assert_eq!(whole.len(), 6);
    assert!(whole.iter().all(|row| row.revision == 2));
    for size in 1..=7 {
        let mut seen = Vec::new();
        loop {
            let cursor = seen.last().map(|row| HourCursor::after(row).unwrap());
            let next = page(&mut tx, range, None, cursor.as_ref(), size).await.unwrap();
            if next.is_empty() {
                break;
            }
            seen.extend(next);
        }
        assert_eq!(seen, whole, "pages of {size}");
    }
}

#[tokio::test]
async fn hours_of_a_node_end_before_the_last() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Imported).await;
    // Around new year, so that two partitions are read.
    let hours: Vec<Hour> = (0..4).map(|offset| Hour(490_894 + offset)).collect();
    for hour in &hours {
        let record = record(1, *hour, Origin::Imported);
        put_hour(&test.db, &node, &record, HourState::Provisional, 1).await.unwrap();
    }
    let mut tx = test.db.begin(Scope::Operator).await.unwrap();
    let rows = of_node(&mut tx, node.key, hours[1], hours[3]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.record.hour).collect::<Vec<_>>(), hours[1..3]);
}

#[tokio::test]
async fn an_hour_waits_once_is_taken_once_and_returns_after_a_rollback() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let hours: Vec<Hour> = (0..5).map(|offset| Hour(HOUR.0 + offset)).collect();
    let waiting = |hours: &[Hour]| hours.iter().map(|hour| (node.key, *hour)).collect::<Vec<_>>();
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    for _ in 0..2 {
        hour_work::add(&mut tx, &waiting(&hours), WorkReason::Data).await.unwrap();
    }
    tx.commit().await.unwrap();

    let mut one = test.db.begin(Scope::Worker).await.unwrap();
    let mut two = test.db.begin(Scope::Worker).await.unwrap();
    let all = Hour(HOUR.0 + 5);
    // The latest first.
    let of = |range: &[Hour]| range.iter().rev().map(|hour| (node.key, *hour)).collect::<Vec<_>>();
    assert_eq!(hour_work::list(&mut one, all, true, 10).await.unwrap(), of(&hours));
    assert_eq!(hour_work::list(&mut one, hours[1], true, 10).await.unwrap(), of(&hours[..1]));
    assert!(hour_work::take(&mut one, node.key, hours[0]).await.unwrap());
    assert!(!hour_work::take(&mut two, node.key, hours[0]).await.unwrap(), "taken by another");
    assert!(hour_work::take(&mut two, node.key, hours[4]).await.unwrap());
    one.rollback().await.unwrap();
    two.commit().await.unwrap();

    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    assert_eq!(hour_work::waiting(&mut tx).await.unwrap(), 4);
    assert!(!hour_work::take(&mut tx, node.key, hours[4]).await.unwrap(), "taken before");
    hour_work::add(&mut tx, &waiting(&hours[..1]), WorkReason::Again).await.unwrap();
    assert_eq!(hour_work::list(&mut tx, all, false, 10).await.unwrap(), of(&hours[1..4]));
}

#[tokio::test]
async fn an_hour_that_data_is_being_written_to_is_not_taken_before_the_commit() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let mut first = test.db.begin(Scope::Ingest).await.unwrap();
    hour_work::add(&mut first, &[(node.key, HOUR)], WorkReason::Data).await.unwrap();
    first.commit().await.unwrap();

    let mut writer = test.db.begin(Scope::Ingest).await.unwrap();
    hour_work::add(&mut writer, &[(node.key, HOUR)], WorkReason::Data).await.unwrap();
    let mut job = test.db.begin(Scope::Worker).await.unwrap();
    assert!(
        !hour_work::take(&mut job, node.key, HOUR).await.unwrap(),
        "its data is not visible yet"
    );
    writer.commit().await.unwrap();
    assert!(hour_work::take(&mut job, node.key, HOUR).await.unwrap());
}
