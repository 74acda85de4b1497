//! Nodes, slots, GPUs, sessions, and the server's own times.

use leasewatch_core::id::{BusId, GpuUuid, KeyId, SlotNo};
use leasewatch_core::metering::HourState;
use leasewatch_core::segment::{GpuInventory, MigInstance, Origin, Partition, Place};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_server::store::job_status::{self, JobOutcome, JobStatus};
use leasewatch_server::store::node::NewNode;
use leasewatch_server::store::{
    Scope, StoreError, gpu, liveness, node, provider, session, slot, tenant,
};

use crate::fixture::{self, AT, HOUR, connect, number};
use crate::support;

fn period(from: i64, to: i64) -> Period {
    Period::new(AT.plus_ms(from), AT.plus_ms(to))
}

#[tokio::test]
async fn a_key_enrols_once_and_the_first_word_stays() {
    let test = support::database().await;
    let first = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    let demo = tenant::ensure(&mut tx, &fixture::slug("demo"), "Demo").await.unwrap();
    let other = provider::ensure(&mut tx, &fixture::slug("other"), "Other").await.unwrap();
    let again = NewNode {
        tenant: demo.key,
        provider: other.key,
        public_key: &[1; 32],
        name: "another name",
        origin: Origin::Imported,
        at: AT.plus_ms(1),
    };
    assert_eq!(node::enroll_first_use(&mut tx, again).await.unwrap(), first);
    let key = KeyId::of_public_key(&[1; 32]);
    let known = node::find_by_key(&mut tx, &key).await.unwrap();
    assert_eq!(known.map(|known| (known.public_key, known.revoked_at)), Some(([1; 32], None)));
    assert_eq!(first.id, key.first_node_id());
    assert_eq!(
        (first.provider.as_str(), &first.provider_name[..]),
        ("default", "Unnamed provider")
    );
    let unknown = node::find_by_key(&mut tx, &KeyId([0; 32])).await.unwrap();
    assert_eq!(unknown, None);
}

#[tokio::test]
async fn an_imported_node_is_enrolled_for_what_was_recorded_and_others_are_left_alone() {
    let test = support::database().await;
    let imported = fixture::enrol(&test.db, "default", 1, Origin::Imported).await;
    let measured = fixture::enrol(&test.db, "default", 2, Origin::Measured).await;
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    for (recorded, enrolled) in [
        (period(-9_000, -7_000), period(-9_000, -7_000)),
        (period(-6_000, -5_000), period(-9_000, -5_000)),
        (period(-10_000, -8_000), period(-10_000, -5_000)),
    ] {
        node::extend_imported(&mut tx, imported.key, recorded).await.unwrap();
        node::extend_imported(&mut tx, measured.key, recorded).await.unwrap();
        let row = node::by_key(&mut tx, imported.key).await.unwrap().unwrap();
        assert_eq!(row.enrolled(Timestamp::MAX), enrolled);
    }
    assert_eq!(node::by_key(&mut tx, measured.key).await.unwrap(), Some(measured.clone()));
    node::retire(&mut tx, measured.key, AT.plus_ms(5)).await.unwrap();
    let retired = node::by_key(&mut tx, measured.key).await.unwrap().unwrap();
    assert_eq!(retired.retired_at, Some(AT.plus_ms(5)));
}

#[tokio::test]
async fn a_generated_past_moves_the_enrolment_of_a_simulated_node_alone() {
    let test = support::database().await;
    let simulated = fixture::enrol(&test.db, "default", 1, Origin::Simulated).await;
    let measured = fixture::enrol(&test.db, "default", 2, Origin::Measured).await;
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    for (from, enrolled_at) in [(-5_000, -5_000), (-4_000, -5_000), (9_000, -5_000)] {
        node::reach_back_simulated(&mut tx, simulated.key, AT.plus_ms(from)).await.unwrap();
        node::reach_back_simulated(&mut tx, measured.key, AT.plus_ms(from)).await.unwrap();
        let row = node::by_key(&mut tx, simulated.key).await.unwrap().unwrap();
        assert_eq!((row.enrolled_at, row.retired_at), (AT.plus_ms(enrolled_at), None));
    }
    assert_eq!(node::by_key(&mut tx, measured.key).await.unwrap(), Some(measured.clone()));
}

#[tokio::test]
async fn a_demo_fleet_is_removed_whole_and_a_measured_one_not_at_all() {
    let test = support::database().await;
    let demo = fixture::enrol(&test.db, "demo", 1, Origin::Simulated).await;
    let real = fixture::enrol(&test.db, "default", 2, Origin::Measured).await;
    for (seed, row) in [(1, &demo), (2, &real)] {
        fixture::store(&test.db, row, &fixture::head(row, 1)).await;
        let record = fixture::record(seed, HOUR, row.origin);
        fixture::put_hour(&test.db, row, &record, HourState::Sealed, 1).await.unwrap();
    }
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    assert_eq!(tenant::remove_simulated(&mut tx, demo.key.tenant).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    let refused = tenant::remove_simulated(&mut tx, real.key.tenant).await;
    assert!(matches!(refused, Err(StoreError::NotSimulated)), "{refused:?}");
    drop(tx);
    let mut admin = connect(&test.admin_url).await;
    for table in [
        "node",
        "node_key",
        "slot",
        "gpu",
        "segment",
        "event",
        "chain_cursor",
        "hour_record",
        "hour_profile",
    ] {
        assert_eq!(
            number(&mut admin, &format!("select count(*) from {table}")).await,
            1,
            "{table}"
        );
    }
}

#[tokio::test]
async fn slots_are_numbered_by_first_sight() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    let place = |text: &str| Place::of(&BusId::new(text).unwrap(), None);
    for (bus_id, number) in [
        ("00000000:F0:00.0", 1),
        ("00000000:18:00.0", 0),
        ("00000000:01:00.0", 2),
        ("00000000:F0:00.0", 1),
    ] {
        assert_eq!(
            slot::bind(&mut tx, node.key, &place(bus_id), AT).await.unwrap(),
            SlotNo(number)
        );
    }
    assert_eq!(slot::of_node(&mut tx, node.key).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_slice_has_a_slot_of_its_own_beside_its_parent() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    let bus_id = BusId::new("00000000:18:00.0").unwrap();
    let part = |gpu_instance, compute_instance, slices| Partition {
        parent: fixture::uuid(1),
        instance: MigInstance { gpu_instance, compute_instance },
        slices,
        slices_of: 7,
    };
    let slice = GpuUuid::new("MIG-1").unwrap();
    for (partition, number) in [(part(9, 0, 1), 1), (part(9, 1, 1), 2), (part(9, 0, 1), 1)] {
        let place = Place::of(&bus_id, Some(&partition));
        let slot = slot::bind(&mut tx, node.key, &place, AT).await.unwrap();
        assert_eq!(slot, SlotNo(number), "one slot for each place");
        gpu::see(&mut tx, &[fixture::sight(&node, slot, (&slice, Some(&partition)), AT)])
            .await
            .unwrap();
    }
    let whole = Place::of(&bus_id, None);
    assert_eq!(slot::bind(&mut tx, node.key, &whole, AT).await.unwrap(), SlotNo(0));
    let places: Vec<_> = slot::of_node(&mut tx, node.key).await.unwrap();
    let instances: Vec<_> = places.iter().map(|row| row.place.instance).collect();
    assert_eq!(instances, [None, Some(part(9, 0, 1).instance), Some(part(9, 1, 1).instance)]);
    // A later sight changes the share, an earlier one nothing.
    let larger = part(9, 0, 3);
    let before = part(9, 1, 2);
    for (slot, share, ms) in [(SlotNo(1), &larger, 5), (SlotNo(2), &before, -5)] {
        let sight = fixture::sight(&node, slot, (&slice, Some(share)), AT.plus_ms(ms));
        gpu::see(&mut tx, &[sight]).await.unwrap();
    }
    let gpus = gpu::of_node(&mut tx, node.key).await.unwrap();
    let known: Vec<_> = gpus.iter().map(|gpu| (gpu.slot, gpu.partition.as_ref())).collect();
    assert_eq!(known, [(SlotNo(0), None), (SlotNo(1), Some(&larger))]);
}

#[tokio::test]
async fn a_gpu_is_known_by_its_last_place_and_its_inventory() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let bus_id = BusId::new("00000000:F0:00.0").unwrap();
    let place = Place::of(&bus_id, None);
    let inventory = GpuInventory {
        uuid: fixture::uuid(1),
        bus_id: bus_id.clone(),
        index: 0,
        name: "NVIDIA H100 80GB HBM3".into(),
        pci_device_id: 0x2330_10de,
        serial: None,
        vbios: Some("96.00.74.00.1C".into()),
        part_number: None,
        memory_total_mib: Some(81_559),
        power_limit_default_mw: Some(700_000),
        power_limit_management_mw: None,
        pcie_generation_max: Some(5),
        pcie_width_max: Some(16),
        mig: false,
        partition: None,
    };
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    let before = gpu::of_node(&mut tx, node.key).await.unwrap();
    assert_eq!((before.len(), &before[0].inventory, &before[0].name), (1, &None, &None));
    let slot = slot::bind(&mut tx, node.key, &place, AT).await.unwrap();
    let gpu = fixture::uuid(1);
    // A late segment tells of an earlier place.
    for (slot, ms) in [(slot, 10), (SlotNo(0), -10)] {
        let sight = fixture::sight(&node, slot, (&gpu, None), AT.plus_ms(ms));
        gpu::see(&mut tx, &[sight]).await.unwrap();
    }
    gpu::describe(&mut tx, node.key, &inventory, Some("h100-sxm"), AT.plus_ms(10)).await.unwrap();
    let after = gpu::of_node(&mut tx, node.key).await.unwrap();
    assert_eq!(
        (after.len(), after[0].slot, after[0].inventory.as_ref()),
        (1, slot, Some(&inventory))
    );
    assert_eq!((after[0].first_seen_at, after[0].last_seen_at), (AT.plus_ms(-10), AT.plus_ms(10)));
    assert_eq!(after[0].catalogue_key.as_deref(), Some("h100-sxm"));
}

#[tokio::test]
async fn sessions_give_the_time_with_an_open_stream() {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    let first = session::open(&mut tx, node.key, "0.1.0", AT).await.unwrap();
    session::close(&mut tx, first, AT.plus_ms(100)).await.unwrap();
    session::open(&mut tx, node.key, "0.1.0", AT.plus_ms(200)).await.unwrap();
    let whole = period(50, 1_000);
    let open = session::periods(&mut tx, node.key, whole).await.unwrap();
    assert_eq!(open, [period(50, 100), period(200, 1_000)]);
    assert_eq!(session::close_all_open(&mut tx, AT.plus_ms(300)).await.unwrap(), 1);
    let closed = session::periods(&mut tx, node.key, whole).await.unwrap();
    assert_eq!(closed, [period(50, 100), period(200, 300)]);
    assert_eq!(session::close_all_open(&mut tx, AT.plus_ms(400)).await.unwrap(), 0);
}

#[tokio::test]
async fn the_servers_own_recording_has_exact_edges() {
    let test = support::database().await;
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    assert_eq!(liveness::last(&mut tx).await.unwrap(), None);
    // Every ten seconds for three minutes, a pause of 25 s, and on.
    for step in 0..18 {
        liveness::record(&mut tx, period(step * 10_000, (step + 1) * 10_000)).await.unwrap();
    }
    liveness::record(&mut tx, period(205_000, 215_000)).await.unwrap();
    liveness::record(&mut tx, period(215_000, 215_000)).await.unwrap();
    let recorded = liveness::periods(&mut tx, period(5_000, 210_000)).await.unwrap();
    assert_eq!(recorded, [period(5_000, 180_000), period(205_000, 210_000)]);
    assert_eq!(liveness::last(&mut tx).await.unwrap(), Some(AT.plus_ms(215_000)));
    tx.commit().await.unwrap();
    let mut admin = connect(&test.admin_url).await;
    assert_eq!(number(&mut admin, "select count(*) from server_liveness").await, 4);
}

#[tokio::test]
async fn a_job_has_one_status() {
    let test = support::database().await;
    let mut status = JobStatus {
        job: "close_hours".into(),
        started_at: AT,
        finished_at: None,
        outcome: JobOutcome::Running,
        message: None,
        items: 0,
    };
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    job_status::write(&mut tx, &status).await.unwrap();
    status.finished_at = Some(AT.plus_ms(5));
    status.outcome = JobOutcome::Failed;
    status.message = Some("why".into());
    status.items = 3;
    job_status::write(&mut tx, &status).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = test.db.begin(Scope::Operator).await.unwrap();
    assert_eq!(job_status::list(&mut tx).await.unwrap(), [status]);
}
