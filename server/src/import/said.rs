//! What `nvidia-smi` prints instead of rows when a GPU or the driver is gone.

use leasewatch_core::id::GpuUuid;
use leasewatch_core::log_fault::{LogNotice, LogText};

use super::log::BusNumber;

/// Something that a line says which is no row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// The driver lists a GPU that does not answer. The others are silent too, but not lost.
    GpuLost {
        /// Where it sits.
        bus: BusNumber,
        /// NVML's return code.
        nvml_code: i64,
    },
    /// A row says that the GPU needs a reset.
    NeedsReset(GpuUuid),
    /// The driver works and lists nothing.
    NoGpu,
    /// The driver does not answer.
    DriverAway {
        /// NVML's return code.
        nvml_code: i64,
    },
}

impl Said {
    /// The same for a message.
    pub(super) fn notice(&self) -> LogNotice {
        match self {
            Self::GpuLost { bus, .. } => {
                LogNotice::GpuLost { place: LogText::quote(&bus.to_string()) }
            }
            Self::NeedsReset(uuid) => LogNotice::NeedsReset { gpu: uuid.clone() },
            Self::NoGpu => LogNotice::NoGpu,
            Self::DriverAway { .. } => LogNotice::DriverAway,
        }
    }
}

const NVML_UNKNOWN: i64 = 999;

/// NVML's return codes by the words that it has for them.
const CODES: [(&str, i64); 6] = [
    ("insufficient permissions", 4),
    ("driver not loaded", 9),
    ("couldn't communicate", 9),
    ("gpu is lost", 15),
    ("requires reset", 16),
    ("version mismatch", 18),
];

/// What a line says, if it is one of the driver's messages.
pub(super) fn read(line: &str) -> Option<Said> {
    const LOST: &str = "unable to determine the device handle for gpu";
    let lower = line.to_ascii_lowercase();
    let nvml_code = CODES
        .iter()
        .find(|(words, _)| lower.contains(words))
        .map_or(NVML_UNKNOWN, |(_, code)| *code);
    if let Some(at) = lower.find(LOST) {
        let address = lower.get(at + LOST.len()..)?.trim_start();
        let end = address.find(|c: char| !c.is_ascii_hexdigit() && !matches!(c, ':' | '.'));
        let bus = BusNumber::read(address[..end.unwrap_or(address.len())].trim_end_matches(':'))?;
        return Some(Said::GpuLost { bus, nvml_code });
    }
    if lower.contains("no devices were found") {
        return Some(Said::NoGpu);
    }
    let away = ["nvidia-smi has failed", "failed to initialize nvml"];
    away.iter().any(|words| lower.contains(words)).then_some(Said::DriverAway { nvml_code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_say_that_a_gpu_is_gone() {
        let text = include_str!("../../tests/fixtures/smi-lost-gpu-texts.txt");
        let said: Vec<_> = text.lines().take(6).map(|line| read(line).unwrap()).collect();
        let lost = |address: &str, nvml_code| Said::GpuLost {
            bus: BusNumber::read(address).unwrap(),
            nvml_code,
        };
        assert_eq!(
            said,
            [
                lost("00000000:07:00.0", 999),
                lost("00000000:0B:00.0", 999),
                lost("00000000:BA:00.0", 999),
                lost("00000000:0A:00.0", 15),
                lost("00000000:09:00.0", 999),
                Said::DriverAway { nvml_code: 9 },
            ]
        );
        assert_eq!(read("No devices were found"), Some(Said::NoGpu));
        assert_eq!(read("2026/08/01 03:59:40.361, 0, 100 %"), None);
        assert_eq!(read("Unable to determine the device handle for GPU"), None);
    }
}
