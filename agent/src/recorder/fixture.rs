//! A journal, heads and observations for tests.

use std::path::Path;

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::chain::{ClockSource, ClockState, HeadDraft};
use leasewatch_core::id::{
    BusId, ChainId, EpochId, GpuUuid, Hash, KeyId, LifeUnitId, NodeId, Sequence, Slug,
};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{
    LifeUnit, LifeUnitKind, MigInstance, Origin, Partition, TrackSource,
};
use leasewatch_core::time::{Period, Timestamp};

use super::{Epoch, Journal, Writer};
use crate::clock::Instant;
use crate::identity::State;
use crate::observation::{GpuObservation, Observation, TrackObservation};
use crate::spool::Quota;

/// Ten seconds past a full minute of the wall clock.
pub(crate) const START: Instant =
    Instant { boot_ms: 5_000_000, wall: Timestamp(1_800_000_010_000) };

pub(crate) fn key() -> SigningKey {
    SigningKey::from_bytes(&[42; 32])
}

pub(crate) fn node() -> NodeId {
    KeyId::of_public_key(key().verifying_key().as_bytes()).first_node_id()
}

pub(crate) fn head_draft(sequence: Sequence, previous: Option<Hash>) -> HeadDraft {
    HeadDraft {
        tenant: tenant(),
        node: node(),
        chain: ChainId([1; 16]),
        epoch: EpochId([2; 8]),
        life_unit: LifeUnitId([3; 16]),
        sequence,
        period: Period::new(START.wall, START.wall.plus_ms(50_000)),
        cadence_ms: 1_000,
        origin: Origin::Simulated,
        gpu_count: 1,
        previous,
        clock: ClockState {
            anchor_wall: START.wall,
            anchor_boot_ms: START.boot_ms,
            offset_ms: None,
            bound_ms: None,
            source: ClockSource::Unknown,
        },
        checkpoint: None,
        agent_version: "0.1.0".to_owned(),
        agent_digest: None,
    }
}

pub(crate) fn tenant() -> Slug {
    Slug::new("default").unwrap()
}

/// A journal in `dir` that goes on where the state file there says.
pub(crate) fn journal(dir: &Path, quota: Quota, state: State) -> Journal {
    let epoch = Epoch {
        id: EpochId([2; 8]),
        life_unit: LifeUnit {
            id: LifeUnitId([3; 16]),
            kind: LifeUnitKind::Host,
            boot_id: "b".to_owned(),
            started_at: START.wall,
        },
        origin: Origin::Simulated,
        cadence_ms: 1_000,
        clock_source: ClockSource::Unknown,
        version: "0.1.0".to_owned(),
        digest: None,
    };
    Journal::new(Writer { key: key(), state_dir: dir.to_owned(), quota }, epoch, state)
}

/// One tick of GPU `n` at `at_boot_ms`, half busy.
pub(crate) fn gpu(n: u8, at_boot_ms: i64) -> Observation {
    Observation::Gpu(gpu_observation(n, at_boot_ms))
}

/// One tick of slice `n` of GPU 1 at `at_boot_ms`.
pub(crate) fn slice_observation(n: u8, at_boot_ms: i64) -> GpuObservation {
    let parent = gpu_observation(1, at_boot_ms);
    GpuObservation {
        uuid: GpuUuid::new(&format!("MIG-{n}")).unwrap(),
        partition: Some(Partition {
            parent: parent.uuid.clone(),
            instance: MigInstance { gpu_instance: n, compute_instance: 0 },
            slices: 1,
            slices_of: 7,
        }),
        ..parent
    }
}

pub(crate) fn gpu_observation(n: u8, at_boot_ms: i64) -> GpuObservation {
    GpuObservation {
        uuid: GpuUuid::new(&format!("GPU-{n}")).unwrap(),
        bus_id: BusId::new(&format!("00000000:{n:02}:00.0")).unwrap(),
        partition: None,
        at_boot_ms,
        readings: vec![
            (Metric::MemoryUsed, Reading::Number(1_024)),
            (Metric::MemoryTemperature, Reading::Unsupported),
        ],
        track: TrackObservation {
            source: TrackSource::Poll,
            period_ms: 1_000,
            points: vec![(at_boot_ms, Reading::Number(50))],
        },
    }
}
