//! What an agent finds changed when it is started again on the same node.

use leasewatch_core::id::GpuUuid;
use leasewatch_core::segment::EventKind;

use super::modes::{Mode, mode};
use super::recorded::Recorded;

pub(super) fn modes() -> Vec<Mode> {
    vec![
        mode("missing-after-restart", missing).gap(Some("gpu_missing"), "gpu_lost").restarts(),
        mode("uuid-change", exchanged).urgent("gpu_replaced").restarts(),
        mode("index-reorder", reordered).begins(2).restarts(),
        mode("zero-devices", nothing_left)
            .named("zero-devices-after-restart")
            .begins(2)
            .gap(Some("no_gpu_attached"), "gpu_lost")
            .blind()
            .restarts(),
        mode("driver-not-loaded", no_driver)
            .named("driver-not-loaded-after-restart")
            .begins(2)
            .gap(Some("nvml_unavailable"), "nvml_error")
            .blind()
            .restarts(),
    ]
}

/// The GPU of each block and row of a slot, each once, in order.
fn residents(recorded: &Recorded, slot: usize) -> Vec<GpuUuid> {
    let mut uuids: Vec<_> =
        recorded.slots[slot].blocks.iter().map(|block| block.uuid.clone()).collect();
    uuids.dedup();
    let in_rows = |uuid: &GpuUuid| {
        recorded.slots[slot].rows.iter().any(|row| row["gpu_uuid"] == uuid.as_str())
    };
    assert!(uuids.iter().all(in_rows), "{}: {uuids:?}", recorded.name);
    uuids
}

/// Nobody took another's place while the agent was away, and its absence is its own gap.
fn restarted(recorded: &Recorded) {
    assert_eq!(recorded.kinds("agent_started").len(), 2, "{}", recorded.name);
    for slot in &recorded.slots {
        assert!(slot.gap_ms("agent_restart") > 0, "{}: {:?}", recorded.name, slot.rows);
        assert_eq!(slot.gap_ms("gpu_replaced"), 0, "{}: {:?}", recorded.name, slot.rows);
        assert!(slot.blocks.iter().all(|block| block.bus_id == slot.place.bus_id));
    }
}

fn missing(recorded: &Recorded) {
    restarted(recorded);
    let bus_id = recorded.slots[0].place.bus_id.clone();
    assert_eq!(recorded.kinds("gpu_missing"), [&EventKind::GpuMissing { bus_id }]);
    assert!(recorded.kinds("gpu_replaced").is_empty());
    let at = recorded.time_of("gpu_missing");
    assert!(recorded.slots[0].track().iter().all(|point| point.at < at));
    assert!(recorded.slots[1].track().iter().any(|point| point.at > at));
    assert_eq!([residents(recorded, 0).len(), residents(recorded, 1).len()], [1, 1]);
}

/// Each has hours of its own in the same slot, and the time between them is the restart's.
fn exchanged(recorded: &Recorded) {
    restarted(recorded);
    let [old, new] = residents(recorded, 0).try_into().unwrap();
    let bus_id = recorded.slots[0].place.bus_id.clone();
    let exchange = EventKind::GpuReplaced { bus_id, old: old.clone(), new: new.clone() };
    assert_eq!(recorded.kinds("gpu_replaced"), [&exchange]);
    for uuid in [&old, &new] {
        let rows = recorded.slots[0].rows.iter().filter(|row| row["gpu_uuid"] == uuid.as_str());
        let measured: i64 = rows.map(|row| row["measured_ms"].parse::<i64>().unwrap()).sum();
        assert!(measured > 1_000, "{uuid}: {measured} ms");
    }
    assert_eq!(residents(recorded, 1).len(), 1);
}

/// A GPU is its UUID and its place, whatever its index.
fn reordered(recorded: &Recorded) {
    restarted(recorded);
    for kind in ["gpu_replaced", "gpu_missing", "gpu_lost"] {
        assert!(recorded.kinds(kind).is_empty(), "{kind}");
    }
    let started = recorded.events.iter().rfind(|e| e.kind.name() == "agent_started").unwrap().at;
    for (number, slot) in recorded.slots.iter().enumerate() {
        let [uuid] = residents(recorded, number).try_into().unwrap();
        let indices: Vec<i64> = recorded
            .kinds("gpu_seen")
            .into_iter()
            .filter_map(|kind| {
                let EventKind::GpuSeen(seen) = kind else { return None };
                (seen.uuid == uuid && seen.bus_id == slot.place.bus_id).then_some(seen.index)
            })
            .collect();
        let number = i64::try_from(number).unwrap();
        assert_eq!(indices, [number, 1 - number], "the order was reversed, the place kept");
        let track = slot.track();
        assert!(track.iter().any(|p| p.at < started) && track.iter().any(|p| p.at > started));
    }
}

fn nothing_left(recorded: &Recorded) {
    restarted(recorded);
    assert_eq!(recorded.kinds("gpu_missing").len(), 2);
    nothing_after(recorded, "no_gpu_attached");
}

fn no_driver(recorded: &Recorded) {
    restarted(recorded);
    assert!(recorded.kinds("gpu_missing").is_empty(), "without a driver nobody looked");
    nothing_after(recorded, "nvml_unavailable");
}

fn nothing_after(recorded: &Recorded, event: &str) {
    let at = recorded.time_of(event);
    for slot in &recorded.slots {
        assert!(slot.measured_ms() > 1_000 && slot.track().iter().all(|point| point.at < at));
    }
}
