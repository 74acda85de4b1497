//! What the kernel's log says about GPUs since the boot: XIDs, and GPUs that fell off the bus.
//!
//! `/dev/kmsg` is read once, without waiting. A rented container usually must not read it; that is
//! told, and is no sign of anything. Not here: what a code means. Lines of NVSwitches (`SXid`) are
//! about no GPU and are left out.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use leasewatch_core::id::BusId;

/// Longer records than this are cut by the kernel itself.
const RECORD_BYTES: usize = 8_192;
/// Records that are read; a kernel keeps far fewer.
const RECORDS_MAX: usize = 200_000;
/// What NVIDIA's code for a GPU that fell off the bus is.
const FELL_OFF: u32 = 79;

/// A place on the PCI bus, in the one spelling that all spellings have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciPlace {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u32,
    /// Device.
    pub device: u32,
}

impl PciPlace {
    /// Reads `0000:9b:00`, `0000:9b:00.0` or `00000000:9B:00.0`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |part: &str| {
            let is_hex =
                (1..=8).contains(&part.len()) && part.chars().all(|c| c.is_ascii_hexdigit());
            is_hex.then(|| u32::from_str_radix(part, 16).ok()).flatten()
        };
        let mut parts = text.trim().split(':');
        let (domain, bus) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let device = hex(parts.next()?.split('.').next()?)?;
        parts.next().is_none().then_some(Self { domain, bus, device })
    }

    /// The place of a GPU that NVML lists.
    #[must_use]
    pub fn of(bus_id: &BusId) -> Option<Self> {
        Self::parse(bus_id.as_str())
    }
}

impl std::fmt::Display for PciPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}", self.domain, self.bus, self.device)
    }
}

/// A driver error report in the kernel's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelXid {
    /// The GPU's place.
    pub place: PciPlace,
    /// NVIDIA's code.
    pub code: u32,
}

/// Reads the log of the tree at `root`, as far as the kernel still has it. A GPU that fell off
/// the bus without an XID line counts as XID 79.
///
/// # Errors
/// What the system said; in a container most often that it is not permitted.
pub fn xids(root: &Path) -> io::Result<Vec<KernelXid>> {
    let mut found = Vec::new();
    for record in records(&root.join("dev/kmsg"))? {
        found.extend(xid_of(&record));
    }
    // The same loss often stands there twice, with and without the word.
    let mut seen = Vec::new();
    for xid in found {
        if xid.code != FELL_OFF || !seen.contains(&xid) {
            seen.push(xid);
        }
    }
    Ok(seen)
}

/// Whether the log can be read at all.
///
/// # Errors
/// What the system said.
pub fn probe(root: &Path) -> io::Result<()> {
    open(&root.join("dev/kmsg"))?;
    Ok(())
}

fn open(path: &Path) -> io::Result<std::fs::File> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(nonblocking).open(path)
}

/// Each read of the device gives one record; a plain file, as tests have it, gives lines.
fn records(path: &Path) -> io::Result<Vec<String>> {
    let mut log = open(path)?;
    let mut records = Vec::new();
    let mut buffer = [0; RECORD_BYTES];
    let mut rest = String::new();
    while records.len() < RECORDS_MAX {
        match log.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                rest.push_str(&String::from_utf8_lossy(&buffer[..length]));
                while let Some((line, more)) = rest.split_once('\n') {
                    records.push(line.to_owned());
                    rest = more.to_owned();
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Records were overwritten meanwhile; the next read goes on behind them.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    records.push(rest);
    Ok(records)
}

/// The report in one line, in any of the forms that drivers have written it in.
fn xid_of(line: &str) -> Option<KernelXid> {
    let text = &line[line.find("NVRM")?..];
    if let Some(at) = text.find("Xid (") {
        if text[..at].ends_with('S') {
            return None;
        }
        let (address, after) = text[at + 5..].split_once(')')?;
        let address = address.split(' ').next()?;
        let place = PciPlace::parse(address.strip_prefix("PCI:").unwrap_or(address))?;
        let digits = after.trim_start().strip_prefix(':')?.trim_start();
        let digits = digits.split(|c: char| !c.is_ascii_digit()).next()?;
        return Some(KernelXid { place, code: digits.parse().ok()? });
    }
    let (before, _) = text.split_once("has fallen off the bus")?;
    let word =
        |word: &str| PciPlace::parse(word.trim_matches(|c| matches!(c, ':' | '(' | ')' | ',')));
    let place = before.split_whitespace().find_map(word)?;
    Some(KernelXid { place, code: FELL_OFF })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &str) -> Vec<(String, u32)> {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("dev")).unwrap();
        std::fs::write(temp.path().join("dev/kmsg"), lines).unwrap();
        let xids = xids(temp.path()).unwrap();
        xids.into_iter().map(|xid| (xid.place.to_string(), xid.code)).collect()
    }

    /// Lines of public reports, of drivers from 2013 to 2026: with and without `PCI:`, with slices,
    /// with domains, with a thread tag.
    #[test]
    fn every_form_of_the_line_is_read() {
        let lines = "\
4,1,1,-;NVRM: Xid (0000:03:00): 14, Channel 00000001
[  130.456250] [ T1946] NVRM: Xid (PCI:0000:2b:00): 31, pid=1942, name=python, Ch 00000008
NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal XC1 i0 Link 03
NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1)
kernel: NVRM: Xid (PCI:000d:00:00): 45, pid=7, name=a:b, Ch 1 caused by previous Xid 149
";
        let expected = [
            ("0000:03:00", 14),
            ("0000:2b:00", 31),
            ("0009:01:00", 149),
            ("0000:9b:00", 94),
            ("000d:00:00", 45),
        ];
        assert_eq!(of(lines), expected.map(|(place, code)| (place.to_owned(), code)));
    }

    #[test]
    fn a_gpu_that_fell_off_is_told_once_with_and_without_the_word() {
        let lines = "\
NVRM: Xid (PCI:0000:a1:00): 79, pid=1, name=x, GPU has fallen off the bus.
NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.
NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.
";
        assert_eq!(of(lines), [("0000:a1:00".to_owned(), 79), ("0000:b3:00".to_owned(), 79)]);
    }

    #[test]
    fn lines_about_no_gpu_give_nothing() {
        let lines = "\
6,3964,206764307,-;nvidia-nvswitch2: open (major=509)
nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
NVRM: SXid (PCI:0000:05:00.0): 22013, Non-fatal, Link 1
NVRM: Xid (PCI:zz:05:00): 79, x
NVRM: Xid (PCI:0000:05:00): none
NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03
Xid (PCI:0000:05:00): 79
";
        assert_eq!(of(lines), []);
    }

    #[test]
    fn all_spellings_of_a_place_are_one() {
        let place = PciPlace::parse("0000:9b:00");
        assert_eq!(place, PciPlace::of(&BusId::new("00000000:9B:00.0").unwrap()));
        assert_ne!(place, PciPlace::parse("0001:9b:00"));
        for bad in ["", "9b", "0000:9b", "0000:9b:00:1", "x:y:z", "000000000:9b:00"] {
            assert_eq!(PciPlace::parse(bad), None, "{bad}");
        }
    }
}
