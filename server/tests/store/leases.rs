//! Leases on real PostgreSQL: revisions, what covers which slot, what is to be judged anew, whose
//! they are; and files that are applied, again and not at all.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use std::collections::BTreeMap;

use leasewatch_core::id::SlotNo;
use leasewatch_core::lease::{BillingSession, Label, LeaseTerms, SessionSource};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{HOUR_MS, Timestamp, Zone};
use leasewatch_server::apply::table::{self, Keep, Mapping, TableKind};
use leasewatch_server::apply::{Document, Run, Verb, export};
use leasewatch_server::store::assignment::{self, NewAssignment};
use leasewatch_server::store::audit::Who;
use leasewatch_server::store::judge_work::JudgeReason;
use leasewatch_server::store::lease::{self, LeaseRow, NotWritten, Written};
use leasewatch_server::store::node::NodeRow;
use leasewatch_server::store::{
    Db, LeaseKey, Scope, StoreError, TenantKey, Tx, billing_session, judge_work, node_label,
};

use crate::fixture::{AT, HOUR, connect, enrol, run, slug, texts};
use crate::support;

const WRITTEN: Written<'static> = Written { at: AT, by: Some("ada"), reason: None };

fn hour(number: i64) -> Timestamp {
    AT.plus_ms(number * HOUR_MS)
}

pub(crate) fn terms(name: &str, from: i64, to: Option<i64>) -> LeaseTerms {
    let text = format!(
        "{{\"name\": \"{name}\", \"provider\": \"new-one\", \"gpu_model\": \"H100\", \"gpu_count\": 2,
        \"currency\": \"USD\", \"starts_at\": \"{}\",
        \"prices\": [{{\"amount\": \"2.49\", \"unit\": \"gpu_hour\"}}]}}",
        hour(from)
    );
    LeaseTerms { ends_at: to.map(hour), ..serde_json::from_str(&text).unwrap() }
}

fn slot(node: &NodeRow, slot: u16, from: i64, to: Option<i64>) -> NewAssignment {
    NewAssignment {
        node: node.key,
        slot: SlotNo(slot),
        starts_at: hour(from),
        ends_at: to.map(hour),
    }
}

async fn row(tx: &mut Tx, key: LeaseKey) -> LeaseRow {
    lease::by_key(tx, key).await.unwrap().unwrap()
}

/// From and to in hours from [`AT`], with the reason.
async fn judged(db: &Db) -> Vec<(i64, i64, &'static str)> {
    let mut tx = db.begin(Scope::Worker).await.unwrap();
    let rows = judge_work::list(&mut tx, 100).await.unwrap();
    let rows: Vec<_> = rows.into_iter().flat_map(|(_, works)| works).collect();
    let first = AT.hour().0;
    let all: Vec<_> =
        rows.iter().map(|row| (row.from.0 - first, row.to.0 - first, row.reason.name())).collect();
    judge_work::finish(&mut tx, &rows).await.unwrap();
    tx.commit().await.unwrap();
    all
}

#[tokio::test]
async fn terms_are_corrected_by_revisions_and_what_they_change_is_judged() {
    let test = support::database().await;
    let node = enrol(&test.db, "default", 1, Origin::Measured).await;
    let tenant = node.key.tenant;
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let first = terms("lease-a", -10, Some(-2));
    let key = lease::create(&mut tx, tenant, &first, WRITTEN).await.unwrap().unwrap();
    let taken = lease::create(&mut tx, tenant, &first, WRITTEN).await.unwrap();
    assert_eq!(taken, Err(NotWritten::NameTaken));
    tx.commit().await.unwrap();
    assert_eq!(judged(&test.db).await, [(-10, -2, "terms")]);

    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let before = row(&mut tx, key).await;
    let longer = LeaseTerms { name: slug("lease-b"), ..terms("x", -8, None) };
    let why = Written { at: hour(1), reason: Some("read the contract"), ..WRITTEN };
    assert_eq!(lease::revise(&mut tx, &before, &longer, why).await.unwrap(), Ok(2));
    tx.commit().await.unwrap();
    // From the earlier start up to now: what lies ahead is judged when it comes.
    assert_eq!(judged(&test.db).await, [(-10, 2, "terms")]);

    let mut tx = test.db.begin(Scope::Operator).await.unwrap();
    assert_eq!(lease::by_name(&mut tx, tenant, &slug("lease-a")).await.unwrap(), None);
    let all = lease::revisions(&mut tx, key).await.unwrap();
    assert_eq!((all.len(), &all[0].terms, &all[1].terms), (2, &first, &longer));
    assert_eq!((all[1].revision, all[1].reason.as_deref()), (2, Some("read the contract")));
    assert_eq!(lease::list(&mut tx).await.unwrap(), [all[1].clone()]);
    let other = LeaseTerms { provider: slug("default"), ..longer };
    let refused = lease::revise(&mut tx, &all[1], &other, WRITTEN).await.unwrap();
    assert_eq!(refused, Err(NotWritten::OtherProvider));
}

#[tokio::test]
async fn a_slot_is_covered_once_at_a_time() {
    let test = support::database().await;
    let node = enrol(&test.db, "default", 1, Origin::Measured).await;
    let tenant = node.key.tenant;
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let a = lease::create(&mut tx, tenant, &terms("lease-a", -9, Some(-5)), WRITTEN).await;
    let b = lease::create(&mut tx, tenant, &terms("lease-b", -9, None), WRITTEN).await;
    let (a, b) = (a.unwrap().unwrap(), b.unwrap().unwrap());
    // Clipped by the term, not refused.
    assert!(assignment::put(&mut tx, a, slot(&node, 0, -20, None), WRITTEN).await.unwrap().is_ok());
    assert!(assignment::put(&mut tx, b, slot(&node, 0, -5, None), WRITTEN).await.unwrap().is_ok());
    assert!(assignment::put(&mut tx, b, slot(&node, 1, -9, None), WRITTEN).await.unwrap().is_ok());
    tx.commit().await.unwrap();

    let refused = async |lease, new| {
        let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
        let put = assignment::put(&mut tx, lease, new, WRITTEN).await.unwrap();
        tx.rollback().await.unwrap();
        put.err().map(|overlap| overlap.to_string())
    };
    let said = format!(
        "slots: GPU 0 of node-1 is covered by the lease lease-a from {} to {}",
        hour(-9),
        hour(-5)
    );
    assert_eq!(refused(b, slot(&node, 0, -20, Some(-5))).await, Some(said));
    assert!(refused(b, slot(&node, 1, -3, None)).await.unwrap().contains("lease-b"), "its own");
    assert_eq!(refused(a, slot(&node, 1, -5, None)).await, None, "outside of its term");

    // A longer term would cover the slot twice too.
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let before = row(&mut tx, a).await;
    let longer = terms("lease-a", -9, Some(-4));
    let revised = lease::revise(&mut tx, &before, &longer, WRITTEN).await.unwrap();
    assert!(matches!(revised, Err(NotWritten::Overlap(of)) if of.other == slug("lease-b")));
    tx.rollback().await.unwrap();

    // What is withdrawn counts no longer, and stays.
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let known = assignment::of_lease(&mut tx, b).await.unwrap();
    let why = Written { reason: Some("another node"), ..WRITTEN };
    assignment::withdraw(&mut tx, &known[0], why).await.unwrap();
    assignment::end(&mut tx, &known[1], hour(-1), WRITTEN).await.unwrap();
    let before = row(&mut tx, a).await;
    assert_eq!(lease::revise(&mut tx, &before, &longer, WRITTEN).await.unwrap(), Ok(2));
    let known = assignment::of_lease(&mut tx, b).await.unwrap();
    assert_eq!((known.len(), known[0].reason.as_deref()), (2, Some("another node")));
    assert_eq!(assignment::list(&mut tx).await.unwrap().len(), 2);
    tx.commit().await.unwrap();
    let work = judged(&test.db).await;
    assert!(
        work.contains(&(-5, 1, "assignment")) || work.contains(&(-9, 1, "assignment")),
        "{work:?}"
    );
}

#[tokio::test]
async fn sessions_of_a_lease_do_not_overlap_and_the_first_changes_the_whole_term() {
    let test = support::database().await;
    let node = enrol(&test.db, "default", 1, Origin::Measured).await;
    let tenant = node.key.tenant;
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let key = lease::create(&mut tx, tenant, &terms("lease-a", -9, None), WRITTEN).await;
    let key = key.unwrap().unwrap();
    let session = |from, to: Option<i64>| BillingSession {
        starts_at: hour(from),
        ends_at: to.map(hour),
        source: SessionSource::Hand,
    };
    let put = async |tx: &mut Tx, new| billing_session::put(tx, key, &new, WRITTEN).await.unwrap();
    assert!(put(&mut tx, session(-5, None)).await.is_ok());
    let overlap = put(&mut tx, session(-3, None)).await.unwrap_err();
    assert_eq!(
        overlap.to_string(),
        format!("starts_at: another session of the lease goes from {}", hour(-5))
    );
    let rows = billing_session::of_lease(&mut tx, key).await.unwrap();
    billing_session::end(&mut tx, &rows[0], hour(-3), WRITTEN).await.unwrap();
    assert!(put(&mut tx, session(-3, Some(-2))).await.is_ok());
    let rows = billing_session::of_lease(&mut tx, key).await.unwrap();
    assert_eq!(rows.len(), 2);
    billing_session::withdraw(&mut tx, &rows[1], WRITTEN).await.unwrap();
    assert_eq!(billing_session::of_lease(&mut tx, key).await.unwrap(), [rows[0].clone()]);
    tx.commit().await.unwrap();
    let work = judged(&test.db).await;
    assert!(work.iter().any(|(from, to, why)| (*from < -9, *to, *why) == (true, 1, "session")));
}

#[tokio::test]
async fn leases_are_their_tenants_alone() {
    let test = support::database().await;
    let mine = enrol(&test.db, "default", 1, Origin::Measured).await;
    let theirs = enrol(&test.db, "other", 2, Origin::Measured).await;
    let mut keys = Vec::new();
    for node in [&mine, &theirs] {
        let tenant = node.key.tenant;
        let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
        let key = lease::create(&mut tx, tenant, &terms("lease-a", -9, None), WRITTEN).await;
        let key = key.unwrap().unwrap();
        let new = slot(node, 0, -9, None);
        assert!(assignment::put(&mut tx, key, new, WRITTEN).await.unwrap().is_ok());
        let labels = BTreeMap::from([(Label::new("team").unwrap(), Label::new("nlp").unwrap())]);
        node_label::set(&mut tx, node.key, &labels).await.unwrap();
        tx.commit().await.unwrap();
        keys.push(key);
    }
    let mut tx = test.db.begin(Scope::Tenant(mine.key.tenant)).await.unwrap();
    assert_eq!(lease::list(&mut tx).await.unwrap().len(), 1);
    assert_eq!(lease::by_key(&mut tx, keys[1]).await.unwrap(), None);
    assert_eq!(assignment::list(&mut tx).await.unwrap().len(), 1);
    assert_eq!(assignment::of_lease(&mut tx, keys[1]).await.unwrap(), []);
    assert_eq!(assignment::of_node(&mut tx, theirs.key).await.unwrap(), []);
    assert_eq!(node_label::list(&mut tx).await.unwrap().len(), 1);
    tx.commit().await.unwrap();
    // Neither their lease on my node, nor mine on theirs, nor a row in their name.
    let mut refused = 0;
    for (lease, node) in [(keys[1], &mine), (keys[0], &theirs), (keys[1], &theirs)] {
        let mut tx = test.db.begin(Scope::Tenant(mine.key.tenant)).await.unwrap();
        let put = assignment::put(&mut tx, lease, slot(node, 5, -9, None), WRITTEN).await;
        // A node is named within the lease's tenant, so one number of another's is no node here.
        if let Err(StoreError::Denied(_) | StoreError::Constraint { .. }) = put {
            refused += 1;
        }
        tx.rollback().await.unwrap();
    }
    assert_eq!(refused, 3);
    // Terms that were written stay as they are, whatever a page would say.
    let mut login = connect(&test.url).await;
    let rewrite = "begin; set local role leasewatch_web; set local leasewatch.tenant = '1';
        update lease_terms set terms = '{}'";
    assert_eq!(run(&mut login, rewrite).await, Err("42501".to_owned()));
}

const FILE: &str = "
[[lease]]
name = 'h100-a'
provider = 'new-one'
gpu_model = 'H100'
gpu_count = 2
currency = 'USD'
starts_at = '2026-07-01T00:00:00+08:00'
prices = [
  { amount = '2.49', unit = 'gpu_hour' },
  { from = '2026-08-01T00:00:00Z', amount = '2.29', unit = 'gpu_hour' },
]
labels = { team = 'nlp' }

[[session]]
lease = 'h100-a'
starts_at = '2026-07-02T00:00:00Z'

[[assignment]]
lease = 'h100-a'
node = 'node-1'
slots = [0, 1]

[[node_labels]]
node = 'node-1'
labels = { rack = 'b7' }
";

async fn apply(db: &Db, tenant: TenantKey, text: &str) -> Result<Vec<String>, Vec<String>> {
    let document = Document::parse("a.toml", text.to_owned()).unwrap();
    let mut tx = db.begin(Scope::Tenant(tenant)).await.unwrap();
    // Late enough for everything in the files to be over.
    let written = Written { at: AT.plus_ms(90 * 24 * HOUR_MS), ..WRITTEN };
    let applied = Run::new(&mut tx, tenant, written).apply(&[document]).await.unwrap();
    match applied {
        Ok(changes) => {
            tx.commit().await.unwrap();
            let changed = changes.into_iter().filter(|change| change.verb != Verb::Keep);
            Ok(changed.map(|change| change.to_string()).collect())
        }
        Err(refused) => {
            tx.rollback().await.unwrap();
            Err(refused.iter().map(ToString::to_string).collect())
        }
    }
}

#[tokio::test]
async fn files_are_applied_whole_or_not_at_all_and_once() {
    let test = support::database().await;
    let node = enrol(&test.db, "default", 1, Origin::Measured).await;
    let tenant = node.key.tenant;
    let broken = FILE
        .replace("gpu_count = 2", "gpu_count = 0")
        .replace("'node-1'\nslots", "'node-9'\nslots");
    let refused = apply(&test.db, tenant, &broken).await.unwrap_err();
    let expected = [
        "a.toml:6: gpu_count: must be 1 to 16384",
        "a.toml:16: lease: there is no lease h100-a",
        "a.toml:20: lease: there is no lease h100-a",
    ];
    assert_eq!(refused, expected);
    let mut admin = connect(&test.admin_url).await;
    assert_eq!(texts(&mut admin, "select name from lease").await, [""; 0]);
    let none: Vec<String> = texts(&mut admin, "select node_id::text from node_label").await;
    assert!(none.is_empty(), "the labels were right, and are not there either");

    let added = apply(&test.db, tenant, FILE).await.unwrap();
    assert_eq!(
        added,
        [
            "add      lease h100-a",
            "add      session 2026-07-02T00:00:00.000Z of h100-a",
            "add      assignment of GPU 0 of node-1 to h100-a",
            "add      assignment of GPU 1 of node-1 to h100-a",
            "add      labels of node-1",
        ]
    );
    assert_eq!(apply(&test.db, tenant, FILE).await, Ok(vec![]));
    // What comes out goes in again and changes nothing.
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let exported = export(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert!(exported.contains("slots = [0, 1]") || exported.contains("slots = [\n"), "{exported}");
    assert_eq!(apply(&test.db, tenant, &exported).await, Ok(vec![]));

    let changed = FILE
        .replace("2026-07-01T00:00:00+08:00", "2026-07-01T08:00:00+08:00")
        .replace(
            "starts_at = '2026-07-02T00:00:00Z'",
            "starts_at = '2026-07-02T00:00:00Z'\nends_at = '2026-07-03T00:00:00Z'",
        )
        .replace("slots = [0, 1]", "slots = [1]\nwithdrawn = 'the wrong one'");
    let said = apply(&test.db, tenant, &changed).await.unwrap();
    assert_eq!(
        said,
        [
            "change   lease h100-a: prices, starts_at",
            "change   session 2026-07-02T00:00:00.000Z of h100-a",
            "withdraw assignment of GPU 1 of node-1 to h100-a",
        ]
    );
    assert_eq!(apply(&test.db, tenant, &changed).await, Ok(vec![]));
}

#[tokio::test]
async fn a_table_is_stored_whole_unless_the_right_rows_are_asked_for() {
    let test = support::database().await;
    let node = enrol(&test.db, "default", 1, Origin::Measured).await;
    let tenant = node.key.tenant;
    let columns = "name,provider,gpu,gpus,start,price\n";
    let text = format!(
        "{columns}a,acme,H100,8,2026-07-01,2.49\nb,acme,H100,0,2026-07-01,2.49\nc,acme,H100,8,2026-07-01,2.49\n"
    );
    let store = async |text: &str, kind, keep| {
        let mapping = Mapping::parse(kind, &[], Zone::UTC).unwrap();
        let rows = table::read(text.as_bytes(), &mapping).unwrap();
        table::store(&test.db, tenant, rows, (WRITTEN, keep, &Who::command())).await.unwrap()
    };
    let names = async || {
        let mut admin = connect(&test.admin_url).await;
        texts(&mut admin, "select name from lease order by name").await
    };
    let all = store(&text, TableKind::Leases, Keep::All).await;
    assert!(!all.is_stored && all.changes.len() == 2);
    assert_eq!(
        (all.refused[0].line, all.refused[0].said().as_str()),
        (3, "gpu_count: must be 1 to 16384")
    );
    assert!(names().await.is_empty());
    assert!(store(&text, TableKind::Leases, Keep::Right).await.is_stored);
    assert_eq!(names().await, ["a", "c"]);
    // A table says too little of a lease to change it.
    let other = format!("{columns}a,acme,H100,8,2026-07-01,2.49\nc,acme,H100,8,2026-07-01,2.99\n");
    let again = store(&other, TableKind::Leases, Keep::Right).await;
    assert_eq!((again.changes.len(), again.refused[0].line), (1, 3));
    let sessions = "lease,start,end\na,2026-07-01 09:00,2026-07-01 18:00\na,2026-07-01 17:00,2026-07-01 19:00\nx,2026-07-01,\n";
    let outcome = store(sessions, TableKind::Sessions, Keep::Right).await;
    let refused: Vec<_> =
        outcome.refused.iter().map(|row| (row.line, row.wrong[0].field.as_str())).collect();
    assert_eq!((outcome.changes.len(), refused), (1, vec![(3, "starts_at"), (4, "lease")]));
}

const TOLD: &str = "[[notice]]
lease = 'h100-a'
starts_at = '2026-07-10T00:00:00Z'
ends_at = '2026-07-10T02:00:00Z'
received_at = '2026-07-08T00:00:00Z'
text = 'switch maintenance'

[[provider_record]]
lease = 'h100-a'
starts_at = '2026-07-11T00:00:00Z'
ends_at = '2026-07-11T01:00:00Z'
cause = 'connectivity'
source = 'status page'
text = 'rack offline'

[[tenant_stop]]
lease = 'h100-a'
starts_at = '2026-07-12T00:00:00Z'
ends_at = '2026-07-12T06:00:00Z'
reason = 'night'
";

#[tokio::test]
async fn what_people_tell_is_applied_judged_anew_and_withdrawn_and_each_fault_is_named() {
    let test = support::database().await;
    let node = enrol(&test.db, "default", 1, Origin::Measured).await;
    let tenant = node.key.tenant;
    apply(&test.db, tenant, FILE).await.unwrap();
    let mut admin = connect(&test.admin_url).await;
    run(&mut admin, "delete from judge_work").await.unwrap();
    let broken = TOLD
        .replace("ends_at = '2026-07-10T02:00:00Z'", "ends_at = '2026-07-09T00:00:00Z'")
        .replace("'2026-07-08T00:00:00Z'", "'2036-07-08T00:00:00Z'")
        .replace("source = 'status page'", "source = ''")
        .replace("reason = 'night'", "kind = 'other'\nclause = 'moon'")
        .replace("2026-07-12", "2019-07-12");
    let refused = apply(&test.db, tenant, &broken).await.unwrap_err();
    let expected = [
        "a.toml:4: ends_at: must be after the start",
        "a.toml:5: received_at: must not lie ahead",
        "a.toml:13: source: must have 1 to 200 characters",
        "a.toml:18: starts_at: is not within the term of the lease",
        "a.toml:21: clause: the profile that judges then excludes nothing of its own",
    ];
    assert_eq!(refused, expected);
    let cause = TOLD.replace("'connectivity'", "'bad luck'");
    let refused = Document::parse("a.toml", cause).unwrap_err().to_string();
    assert!(refused.starts_with("a.toml:12: cause: must be one of connectivity, "), "{refused}");

    let added = apply(&test.db, tenant, TOLD).await.unwrap();
    assert_eq!(
        added,
        [
            "add      notice 2026-07-10T00:00:00.000Z of h100-a",
            "add      provider's record 2026-07-11T00:00:00.000Z of h100-a",
            "add      stop 2026-07-12T00:00:00.000Z of h100-a",
        ]
    );
    let queued = "select reason || ' ' || (to_hour - from_hour) from judge_work order by reason";
    // A record is evidence; notice and stop widen one row.
    assert_eq!(texts(&mut admin, queued).await, ["evidence 1", "notice 54"]);
    assert_eq!(apply(&test.db, tenant, TOLD).await, Ok(vec![]));
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let exported = export(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(apply(&test.db, tenant, &exported).await, Ok(vec![]));

    run(&mut admin, "delete from judge_work").await.unwrap();
    let gone = TOLD
        .replace("text = 'switch maintenance'", "text = 'switch maintenance'\nwithdrawn = true");
    let said = apply(&test.db, tenant, &gone).await.unwrap();
    assert_eq!(said, ["withdraw notice 2026-07-10T00:00:00.000Z of h100-a"]);
    assert_eq!(texts(&mut admin, queued).await, ["notice 2"]);
    assert_eq!(apply(&test.db, tenant, &gone).await, Ok(vec![]));
}

#[tokio::test]
async fn the_file_of_the_documents_is_one() {
    let text = include_str!("../../../docs/OPERATIONS.md");
    let (_, leases) = text.split_once("\n## Leases\n").unwrap();
    let (_, file) = leases.split_once("```toml\n").unwrap();
    let (file, _) = file.split_once("```").unwrap();
    let test = support::database().await;
    let node = enrol(&test.db, "default", 1, Origin::Measured).await;
    let tenant = node.key.tenant;
    assert_eq!(apply(&test.db, tenant, file).await.unwrap().len(), 1 + 8 + 1 + 1 + 1 + 3);
    assert_eq!(apply(&test.db, tenant, file).await, Ok(vec![]));
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let exported = export(&mut tx).await.unwrap();
    assert_eq!(apply(&test.db, tenant, &exported).await, Ok(vec![]));
}

/// A page writes two reasons of a lease in one order while the job takes them out in the other.
/// Before rows that are being written were passed over, PostgreSQL had to end one of the two.
#[tokio::test]
async fn who_finishes_judging_waits_for_nobody_who_writes_reasons_in_another_order() {
    let test = support::database().await;
    let node = enrol(&test.db, "default", 1, Origin::Measured).await;
    let tenant = node.key.tenant;
    let mut tx = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let lease = lease::create(&mut tx, tenant, &terms("lease-a", -9, None), WRITTEN).await;
    let lease = lease.unwrap().unwrap();
    let changed = HOUR.period();
    for reason in [JudgeReason::Assignment, JudgeReason::Terms] {
        judge_work::add(&mut tx, lease, changed, (reason, AT.plus_ms(HOUR_MS))).await.unwrap();
    }
    tx.commit().await.unwrap();

    let mut worker = test.db.begin(Scope::Worker).await.unwrap();
    let listed = judge_work::list(&mut worker, 10).await.unwrap();
    let works: Vec<_> = listed.into_iter().flat_map(|(_, works)| works).collect();
    let of = |reason| works.iter().filter(move |work| work.reason == reason).cloned();
    let of = |reason| of(reason).collect::<Vec<_>>();
    let (assignment, rest) = (of(JudgeReason::Assignment), of(JudgeReason::Terms));
    assert_eq!((assignment.len(), rest.len()), (1, 1));
    let mut page = test.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let write = (JudgeReason::Terms, AT.plus_ms(HOUR_MS));
    judge_work::add(&mut page, lease, changed, write).await.unwrap();
    judge_work::finish(&mut worker, &assignment).await.unwrap();
    // The page wants the row that the job took out; the job wants the row that the page wrote.
    let job = async {
        judge_work::finish(&mut worker, &rest).await?;
        worker.commit().await
    };
    let page = async {
        let write = (JudgeReason::Assignment, AT.plus_ms(HOUR_MS));
        judge_work::add(&mut page, lease, changed, write).await?;
        page.commit().await
    };
    let (job, page) = tokio::join!(job, page);
    job.unwrap();
    page.unwrap();
    let left: Vec<_> = judged(&test.db).await.into_iter().map(|(_, _, reason)| reason).collect();
    assert_eq!(left, ["assignment", "terms"], "both were written again");
}
