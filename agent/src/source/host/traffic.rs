//! What goes over network interfaces and block devices, as counters.

use std::path::Path;

use leasewatch_core::sample::{HostMetric, Reading};
use procfs::net::InterfaceDeviceStatus;
use procfs::{DiskStat, FromRead};

use super::{Readings, file};

/// Bytes of a sector in `/proc/diskstats`, whatever the device's own sector size.
const SECTOR_BYTES: u64 = 512;

/// Bytes, errors and drops of all interfaces but loopback, and TCP retransmits.
pub(super) fn network(root: &Path, out: &mut Readings) {
    let path = root.join("proc/net/dev");
    let status = file::text(&path)
        .and_then(|_| InterfaceDeviceStatus::from_file(&path).map_err(|_| Reading::Error))
        // Each network namespace has loopback: a list without any entry was not understood.
        .and_then(|status| if status.0.is_empty() { Err(Reading::Error) } else { Ok(status) });
    let sum = |count: fn(&procfs::net::DeviceStatus) -> u64| {
        let status = status.as_ref().map_err(|reason| *reason)?;
        let interfaces = status.0.values().filter(|interface| interface.name != "lo");
        Ok(interfaces.map(count).fold(0, u64::wrapping_add))
    };
    out.push((HostMetric::NetworkRx, file::reading(sum(|i| i.recv_bytes).map(|b| b >> 10))));
    out.push((HostMetric::NetworkTx, file::reading(sum(|i| i.sent_bytes).map(|b| b >> 10))));
    let errors = sum(|i| {
        [i.recv_errs, i.recv_drop, i.sent_errs, i.sent_drop].into_iter().fold(0, u64::wrapping_add)
    });
    out.push((HostMetric::NetworkErrors, file::reading(errors)));
    out.push((HostMetric::TcpRetransmits, file::reading(tcp_retransmits(root))));
}

fn tcp_retransmits(root: &Path) -> Result<u64, Reading> {
    let text = file::text(&root.join("proc/net/snmp"))?;
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (rows.next().ok_or(Reading::Error)?, rows.next().ok_or(Reading::Error)?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = pairs.find(|(name, _)| *name == "RetransSegs").ok_or(Reading::Error)?;
    value.parse().map_err(|_| Reading::Error)
}

/// Bytes read from and written to whole physical devices: not partitions, loops or mappings, whose
/// bytes would count twice.
pub(super) fn disks(root: &Path, out: &mut Readings) {
    let sectors = sectors(root);
    let kib = |sectors: Result<u64, Reading>| {
        file::reading(sectors.map(|sectors| sectors.wrapping_mul(SECTOR_BYTES) >> 10))
    };
    out.push((HostMetric::DiskRead, kib(sectors.map(|(read, _)| read))));
    out.push((HostMetric::DiskWritten, kib(sectors.map(|(_, written)| written))));
}

fn sectors(root: &Path) -> Result<(u64, u64), Reading> {
    let text = file::text(&root.join("proc/diskstats"))?;
    let (mut read, mut written, mut devices) = (0_u64, 0_u64, 0_u32);
    for line in text.lines() {
        let stat = DiskStat::from_line(line).map_err(|_| Reading::Error)?;
        if is_whole_device(root, &stat.name) {
            read = read.wrapping_add(stat.sectors_read);
            written = written.wrapping_add(stat.sectors_written);
            devices += 1;
        }
    }
    if devices == 0 { Err(Reading::Unsupported) } else { Ok((read, written)) }
}

fn is_whole_device(root: &Path, name: &str) -> bool {
    let virtual_device = ["loop", "ram", "zram", "dm-", "md", "nbd"];
    !virtual_device.iter().any(|prefix| name.starts_with(prefix))
        && !name.contains('/')
        && root.join("sys/block").join(name).exists()
}
