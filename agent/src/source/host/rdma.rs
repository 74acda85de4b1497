//! InfiniBand and RoCE ports under `/sys/class/infiniband`.

use std::fs;
use std::path::{Path, PathBuf};

use leasewatch_core::sample::{HostMetric, Reading};

use super::{Readings, file};

/// Ports that are looked at, whatever the directory holds.
const PORTS_MAX: usize = 1_024;

#[derive(Debug, Default, Clone, Copy)]
struct Ports {
    all: u64,
    active: u64,
    rx_kib: u64,
    tx_kib: u64,
    errors: u64,
}

pub(super) fn read(root: &Path, out: &mut Readings) {
    let ports = read_ports(&root.join("sys/class/infiniband"));
    let push = |out: &mut Readings, metric, count: fn(&Ports) -> u64| {
        out.push((metric, file::reading(ports.map(|ports| count(&ports)))));
    };
    push(out, HostMetric::RdmaPorts, |ports| ports.all);
    push(out, HostMetric::RdmaPortsActive, |ports| ports.active);
    push(out, HostMetric::RdmaRx, |ports| ports.rx_kib);
    push(out, HostMetric::RdmaTx, |ports| ports.tx_kib);
    push(out, HostMetric::RdmaErrors, |ports| ports.errors);
}

fn read_ports(class: &Path) -> Result<Ports, Reading> {
    let mut sum = Ports::default();
    let devices = children(class).ok_or(Reading::Unsupported)?;
    let ports = devices.iter().filter_map(|device| children(&device.join("ports"))).flatten();
    for port in ports.take(PORTS_MAX) {
        sum.all += 1;
        // `4: ACTIVE`
        let state = file::text(&port.join("state"))?;
        sum.active += u64::from(state.trim_start().starts_with("4:"));
        let count = |name: &str| optional(file::number(&port.join("counters").join(name)));
        // The specification counts data in words of four bytes.
        sum.rx_kib = sum.rx_kib.wrapping_add(count("port_rcv_data")? >> 8);
        sum.tx_kib = sum.tx_kib.wrapping_add(count("port_xmit_data")? >> 8);
        for name in ["symbol_error", "link_downed", "port_rcv_errors"] {
            sum.errors = sum.errors.wrapping_add(count(name)?);
        }
    }
    Ok(sum)
}

/// Virtual functions leave some counters out; those add nothing to the sum.
fn optional(count: Result<u64, Reading>) -> Result<u64, Reading> {
    match count {
        Err(Reading::Unsupported) => Ok(0),
        other => other,
    }
}

/// Entries of a directory in a fixed order; `None` when there is none.
fn children(directory: &Path) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).ok()?;
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort_unstable();
    Some(paths)
}
