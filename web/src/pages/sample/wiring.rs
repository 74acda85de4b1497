//! How the GPUs of the sample hang in their host, and what is signed about its key.

use leasewatch_core::evidence::identity::{Admission, Enrollment};
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::{BusId, GpuUuid, Slug};
use leasewatch_core::segment::{
    DiskMedium, Event, EventKind, GpuPaths, GpuWiring, NvlinkGroup, NvlinkRemote, Origin,
    PathLevel, Unread, WorkDisk,
};
use leasewatch_core::time::Timestamp;

use crate::pages::node::{KeyStatement, NodeGpu};

/// Two NUMA nodes of four GPUs; of one GPU a link is down, and one does not tell its CPUs.
pub(super) fn events(gpus: &[NodeGpu], at: Timestamp) -> Vec<Event> {
    let whole: Vec<&NodeGpu> = gpus.iter().filter(|gpu| gpu.row.partition.is_none()).collect();
    let disk = WorkDisk { medium: Ok(DiskMedium::Nvme), filesystem: Some("ext4".to_owned()) };
    let mut events = vec![Event::new(at, None, EventKind::DiskSeen(disk))];
    let half = whole.len() / 2;
    for (index, gpu) in whole.iter().enumerate() {
        let Ok(uuid) = GpuUuid::new(&gpu.row.uuid) else { continue };
        let group = |count, up| NvlinkGroup {
            count,
            up,
            version: Some(6),
            speed_mb_s: up.then_some(26_562),
            remote: if up { NvlinkRemote::Switch } else { NvlinkRemote::Unknown },
        };
        let (node, cpus) = if index < half { ("0", "0-47,96-143") } else { ("1", "48-95,144-191") };
        let behind = |same: bool| -> Vec<BusId> {
            (index + 1..whole.len())
                .filter(|other| ((*other < half) == (index < half)) == same)
                .filter_map(|other| BusId::new(&format!("00000000:{other:02x}:00.0")).ok())
                .collect()
        };
        let paths = [(PathLevel::NumaNode, behind(true)), (PathLevel::System, behind(false))];
        let wiring = GpuWiring {
            numa_nodes: Ok(node.to_owned()),
            cpus: if index == 7 { Err(Unread::Denied) } else { Ok(cpus.to_owned()) },
            nvlinks: Ok(if index == 2 {
                vec![group(1, false), group(17, true)]
            } else {
                vec![group(18, true)]
            }),
            paths: paths
                .into_iter()
                .filter(|(_, bus_ids)| !bus_ids.is_empty())
                .map(|(level, bus_ids)| GpuPaths { level: Ok(level), bus_ids })
                .collect(),
        };
        events.push(Event::new(at, Some(uuid), EventKind::GpuWired(wiring)));
    }
    events
}

/// That the sample's node joined with a token.
pub(super) fn enrolled(at: Timestamp) -> KeyStatement {
    let slug = |text| Slug::new(text).ok();
    let statement = slug("default").zip(slug("nebula")).map(|(tenant, provider)| {
        let (name, origin) = ("train-01".to_owned(), Origin::Measured);
        let admission = Admission::Token(3);
        Enrollment { key: [7; 32], tenant, provider, name, origin, at, admission }.statement()
    });
    KeyStatement {
        kind: StatementKind::Enrollment,
        at,
        statement: String::from_utf8_lossy(&statement.unwrap_or_default()).into_owned(),
        signature: "0".repeat(128),
        signer: "1".repeat(64),
    }
}
