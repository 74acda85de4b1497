//! What NVML's return codes mean for a reading and for the GPU behind it.
//!
//! Pure. The codes are NVML's; those above 22 reach the wrapper's users as unexpected variants.

use leasewatch_core::sample::Reading;

/// What a failed call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// This hardware, driver or sharing mode does not offer the value, and will not in a second.
    Unsupported,
    /// The value should be there and is not.
    Failed(u32),
    /// The GPU fell off, or needs a reset before it answers again.
    Lost(u32),
    /// The driver is gone or another one now: NVML has to be initialised anew.
    NoDriver(u32),
}

/// Not an error of the call: it has nothing new to say.
pub(super) const NOT_FOUND: u32 = 6;
/// Nothing happened while waiting.
pub(super) const TIMEOUT: u32 = 10;
/// NVML's code for a GPU that the driver no longer lists.
pub const GPU_NOT_FOUND: u32 = 28;

impl Failure {
    /// The meaning of a return code other than 0.
    #[must_use]
    pub fn from_code(code: u32) -> Self {
        match code {
            // Not supported, no permission, function not found, argument version not known to this
            // driver, deprecated. All of them last until something else changes.
            3 | 4 | 13 | 25 | 26 => Self::Unsupported,
            // GPU is lost, reset required.
            15 | 16 => Self::Lost(code),
            // Uninitialised, driver not loaded, library and driver differ in version.
            1 | 9 | 18 => Self::NoDriver(code),
            _ => Self::Failed(code),
        }
    }

    /// What is recorded in place of the value. A lost GPU records nothing at all, which its reader
    /// sees to before it asks here.
    #[must_use]
    pub fn reading(self) -> Reading {
        match self {
            Self::Unsupported => Reading::Unsupported,
            Self::Failed(_) | Self::Lost(_) | Self::NoDriver(_) => Reading::Error,
        }
    }

    /// True when asking again in a second is pointless.
    #[must_use]
    pub fn is_permanent(self) -> bool {
        self == Self::Unsupported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_becomes_a_number() {
        for code in (1..=40).chain([999, u32::MAX]) {
            assert_eq!(Failure::from_code(code).reading().number(), None, "code {code}");
        }
    }

    #[test]
    fn deprecated_and_unknown_versions_are_unsupported_not_errors() {
        for code in [3, 4, 13, 25, 26] {
            assert_eq!(Failure::from_code(code).reading(), Reading::Unsupported, "code {code}");
        }
        for code in [2, 5, 10, 17, 19, 20, 23, 24, 27, 28, 29, 30, 999] {
            assert_eq!(Failure::from_code(code), Failure::Failed(code));
        }
    }

    #[test]
    fn lost_gpus_and_lost_drivers_are_told_apart() {
        assert_eq!(Failure::from_code(15), Failure::Lost(15));
        assert_eq!(Failure::from_code(16), Failure::Lost(16));
        for code in [1, 9, 18] {
            assert_eq!(Failure::from_code(code), Failure::NoDriver(code));
        }
    }
}
