//! The field values that are read, in the numbering of the driver that is asked.
//!
//! Pure. Ids 251 to 273 were renumbered with driver 580.82 (CUDA 13.0 update 1); asking with the
//! wrong numbering answers with another quantity, not with an error.

use leasewatch_core::sample::{Metric, Reading};

use super::failure::Failure;
use crate::source::nvml_raw::{FieldNumber, FieldQuery};

/// Which ids the driver uses for the fields that were renumbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// Drivers before 580.82, and drivers that do not tell their version.
    Before580_82,
    /// Drivers from 580.82 on.
    From580_82,
}

impl Numbering {
    /// The numbering of a driver by its version, `580.82.07`.
    #[must_use]
    pub fn of_driver(version: &str) -> Self {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        if number >= (580, 82) { Self::From580_82 } else { Self::Before580_82 }
    }
}

/// How the number of a field becomes the metric's base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// As it is.
    One,
    /// Bytes to KiB.
    BytesToKib,
}

/// One field and the metric that it is a reading of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) metric: Metric,
    pub(super) query: FieldQuery,
    scale: Scale,
}

/// NVLink counters summed over all links.
const ALL_LINKS: u32 = u32::MAX;
/// The number of NVLink links that the board has.
pub(super) const NVLINK_COUNT: FieldQuery = FieldQuery { id: 91, scope: 0, always_u32: false };

/// The fields of one slow read, asked for in one call.
pub(super) fn fields(numbering: Numbering) -> [Field; 12] {
    let [sw_thermal, hw_thermal, hw_power_brake] = match numbering {
        Numbering::Before580_82 => [251, 252, 253],
        Numbering::From580_82 => [269, 270, 271],
    };
    let plain = |metric, id| field(metric, id, 0, Scale::One);
    [
        // Drivers of the 545 series tag this one as a double while the union holds a u32.
        Field {
            metric: Metric::MemoryTemperature,
            query: FieldQuery { id: 82, scope: 0, always_u32: true },
            scale: Scale::One,
        },
        plain(Metric::PcieReplays, 94),
        field(Metric::PcieTx, 197, 0, Scale::BytesToKib),
        field(Metric::PcieRx, 198, 0, Scale::BytesToKib),
        field(Metric::NvlinkTx, 138, ALL_LINKS, Scale::One),
        field(Metric::NvlinkRx, 139, ALL_LINKS, Scale::One),
        plain(Metric::ThrottleSwPower, 74),
        plain(Metric::ThrottleSwThermal, sw_thermal),
        plain(Metric::ThrottleHwThermal, hw_thermal),
        plain(Metric::ThrottleHwPowerBrake, hw_power_brake),
        plain(Metric::ThrottleSyncBoost, 76),
        plain(Metric::RecoveryAction, 230),
    ]
}

fn field(metric: Metric, id: u32, scope: u32, scale: Scale) -> Field {
    Field { metric, query: FieldQuery { id, scope, always_u32: false }, scale }
}

impl Field {
    /// The reading behind the driver's answer.
    pub(super) fn reading(self, answer: Result<FieldNumber, u32>) -> Reading {
        match answer {
            Ok(number) => match (whole(number), self.scale) {
                (Some(value), Scale::One) => Reading::Number(value),
                (Some(value), Scale::BytesToKib) => Reading::Number(value.div_euclid(1_024)),
                (None, _) => Reading::Error,
            },
            Err(code) => Failure::from_code(code).reading(),
        }
    }
}

/// A whole number of at most 63 bits, as counters are kept; `None` for a type without one.
pub(super) fn whole(number: FieldNumber) -> Option<i64> {
    match number {
        FieldNumber::Unsigned(value) => Some(low_63_bits(value)),
        FieldNumber::Signed(value) => Some(value),
        // None of the fields above is documented as a double; a fraction would be a guess.
        FieldNumber::Double(_) | FieldNumber::UnknownType(_) => None,
    }
}

/// Counters and masks are kept as their low 63 bits.
pub(super) fn low_63_bits(value: u64) -> i64 {
    i64::try_from(value & (u64::MAX >> 1)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_renumbering_begins_with_580_82() {
        for old in ["535.104.05", "570.195.03", "580.65.06", "580.81", "", "garbage", "580"] {
            assert_eq!(Numbering::of_driver(old), Numbering::Before580_82, "{old}");
        }
        for new in ["580.82", "580.82.07", "580.105.08", "590.44.01", "615.10"] {
            assert_eq!(Numbering::of_driver(new), Numbering::From580_82, "{new}");
        }
    }

    #[test]
    fn throttle_counters_follow_the_numbering() {
        let id = |numbering, metric| {
            fields(numbering)
                .iter()
                .find(|field| field.metric == metric)
                .map(|field| field.query.id)
        };
        for (metric, old, new) in [
            (Metric::ThrottleSwThermal, 251, 269),
            (Metric::ThrottleHwThermal, 252, 270),
            (Metric::ThrottleHwPowerBrake, 253, 271),
            (Metric::ThrottleSwPower, 74, 74),
        ] {
            assert_eq!(id(Numbering::Before580_82, metric), Some(old));
            assert_eq!(id(Numbering::From580_82, metric), Some(new));
        }
    }

    #[test]
    fn bytes_become_kib_and_wide_counters_keep_63_bits() {
        let tx = fields(Numbering::From580_82)[2];
        assert_eq!(tx.metric, Metric::PcieTx);
        assert_eq!(tx.reading(Ok(FieldNumber::Unsigned(4_096))), Reading::Number(4));
        assert_eq!(tx.reading(Err(3)), Reading::Unsupported);
        assert_eq!(tx.reading(Err(999)), Reading::Error);
        assert_eq!(tx.reading(Ok(FieldNumber::Double(4.0))), Reading::Error);
        assert_eq!(tx.reading(Ok(FieldNumber::UnknownType(9))), Reading::Error);
        assert_eq!(low_63_bits(u64::MAX), i64::MAX);
        assert_eq!(low_63_bits(1 << 63), 0);
    }
}
