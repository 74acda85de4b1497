use std::fs;
use std::path::{Path, PathBuf};

use leasewatch_core::sample::{HostMetric, Reading};
use leasewatch_core::segment::LifeUnitKind;
use leasewatch_core::time::Timestamp;

use super::{HostReader, clock_source, inventory, life_unit};
use crate::clock::{Anchor, Instant};
use crate::source::nvml::Versions;

fn tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn anchor() -> Anchor {
    Anchor::at(Instant { boot_ms: 10_000_000, wall: Timestamp(1_800_000_000_900) })
}

/// The numbers of a read, `None` where there is a reason instead.
fn read(name: &str, metrics: &[HostMetric]) -> Vec<Option<i64>> {
    let readings = HostReader::new(&tree(name), &tree(name)).read(10_000_000);
    assert!(readings.windows(2).all(|pair| pair[0].0.code() < pair[1].0.code()));
    let number = |metric: &HostMetric| {
        readings.iter().find(|(other, _)| other == metric).and_then(|(_, reading)| reading.number())
    };
    metrics.iter().map(number).collect()
}

#[test]
fn a_host_is_read_as_a_whole() {
    use HostMetric as M;
    let metrics = [M::CpuQuota, M::CpuThrottled, M::MemoryUsed, M::MemoryTotal, M::Uptime];
    assert_eq!(
        read("host", &metrics),
        [Some(4_000), None, Some(4_096), Some(16_384), Some(10_000)]
    );
    let traffic = [
        M::NetworkRx,
        M::NetworkTx,
        M::NetworkErrors,
        M::TcpRetransmits,
        M::DiskRead,
        M::DiskWritten,
    ];
    assert_eq!(
        read("host", &traffic),
        [Some(1_536), Some(1_024), Some(10), Some(42), Some(102_400), Some(204_800)],
        "loopback, partitions and mappings are left out"
    );
    let rdma = [M::RdmaPorts, M::RdmaPortsActive, M::RdmaRx, M::RdmaTx, M::RdmaErrors];
    assert_eq!(read("host", &rdma), [Some(2), Some(1), Some(200), Some(400), Some(8)]);
    assert_eq!(read("host", &[M::CpuBusy]), [None], "the first read has no interval");
}

#[test]
fn a_container_is_read_by_its_cgroup() {
    use HostMetric as M;
    let metrics = [M::CpuQuota, M::CpuThrottled, M::MemoryUsed, M::MemoryTotal, M::Uptime];
    assert_eq!(
        read("container-v2", &metrics),
        [Some(2_000), Some(1_500), Some(2_048), Some(8_192), Some(6_400)]
    );
    assert_eq!(
        read("container-v1", &metrics),
        [Some(1_500), Some(2_500), Some(2_048), Some(16_384), Some(6_400)],
        "no limit is the host's memory"
    );
    assert_eq!(read("container-v2", &[M::RdmaPorts]), [None], "no RDMA is not zero ports");
}

#[test]
fn cpu_share_follows_the_cgroups_usage() {
    let root = tempfile::tempdir().unwrap();
    let usage = |us: u64| {
        let cgroup = root.path().join("sys/fs/cgroup");
        fs::create_dir_all(&cgroup).unwrap();
        fs::write(root.path().join(".dockerenv"), "").unwrap();
        fs::write(cgroup.join("cpu.max"), "200000 100000\n").unwrap();
        fs::write(cgroup.join("cpu.stat"), format!("usage_usec {us}\n")).unwrap();
    };
    usage(1_000_000);
    let mut reader = HostReader::new(root.path(), root.path());
    let mut busy = |now_ms| {
        let readings = reader.read(now_ms);
        readings.iter().find(|(m, _)| *m == HostMetric::CpuBusy).map(|(_, reading)| *reading)
    };
    assert_eq!(busy(1_000), None);
    usage(6_000_000);
    assert_eq!(busy(11_000), Some(Reading::Number(250)), "5 s of 10 s on 2 CPUs");
    usage(5_000_000);
    assert_eq!(busy(21_000), Some(Reading::Error), "the counter went back");
}

#[test]
fn what_is_missing_is_unsupported_and_what_is_broken_an_error() {
    let root = tempfile::tempdir().unwrap();
    let reader = || HostReader::new(root.path(), root.path()).read(1_000);
    let reasons = reader();
    let counted = |reading| reasons.iter().filter(|(_, other)| *other == reading).count();
    assert_eq!(counted(Reading::Error), 0);
    assert!(counted(Reading::Unsupported) >= 12, "{reasons:?}");

    fs::create_dir_all(root.path().join("proc/net")).unwrap();
    for file in ["proc/stat", "proc/meminfo", "proc/net/dev", "proc/net/snmp", "proc/diskstats"] {
        fs::write(root.path().join(file), "\u{0}garbage\n1 2 3\n").unwrap();
    }
    for (metric, reading) in reader() {
        let known = matches!(metric, HostMetric::DiskFree | HostMetric::Uptime);
        assert!(known || reading.number().is_none(), "{metric} {reading:?}");
    }
}

#[test]
fn the_life_of_a_host_is_its_boot() {
    let life = life_unit(&tree("host"), anchor());
    assert_eq!(life.kind, LifeUnitKind::Host);
    assert_eq!(life.id.to_string(), "1b4e28ba2fa141d2883f0016d3cca427");
    assert_eq!(life.started_at, Timestamp(1_799_990_000_000));
}

#[test]
fn the_life_of_a_container_is_a_run_of_its_first_process() {
    let life = life_unit(&tree("container-v2"), anchor());
    assert_eq!(life.kind, LifeUnitKind::Container);
    assert_eq!(life.started_at, Timestamp(1_799_993_600_000), "an hour after the boot");
    assert_eq!(life, life_unit(&tree("container-v2"), anchor()), "the same at each look");
    assert_ne!(life.id, life_unit(&tree("host"), anchor()).id);

    let root = tempfile::tempdir().unwrap();
    let life_with = |start: &str, hostname: &str| {
        fs::create_dir_all(root.path().join("proc/1")).unwrap();
        fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        fs::write(root.path().join(".dockerenv"), "").unwrap();
        let stat = format!("1 (init) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0\n");
        fs::write(root.path().join("proc/1/stat"), stat).unwrap();
        fs::write(root.path().join("proc/sys/kernel/hostname"), hostname).unwrap();
        life_unit(root.path(), anchor()).id
    };
    let first = life_with("100", "a");
    assert_ne!(first, life_with("101", "a"));
    assert_ne!(first, life_with("100", "b"));
    assert_eq!(first, life_with("100", "a"));
}

#[test]
fn the_host_describes_itself() {
    let versions = Versions {
        driver: "580.95.05".to_owned(),
        nvml: "13.580.95.05".to_owned(),
        cuda: "13.0".to_owned(),
    };
    let host = inventory(&tree("host"), &versions);
    assert_eq!(
        (host.hostname.as_str(), host.kernel.as_str(), host.cpus, host.memory_mib, host.container),
        ("gpu-node-7", "6.8.0-45-generic", 4, 16_384, false)
    );
    assert_eq!(host.driver_version, "580.95.05");
    let container = inventory(&tree("container-v2"), &versions);
    assert_eq!((container.memory_mib, container.container), (8_192, true));
    assert_eq!(clock_source(&tree("host")), "systemd-timesyncd");
    assert_eq!(clock_source(&tree("container-v1")), "unknown");
}
