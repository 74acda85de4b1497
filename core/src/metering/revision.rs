//! The life of an hour record: open -> provisional -> sealed, then revisions.
//!
//! A provisional record is replaced while late data comes. A sealed one never changes: data after
//! sealing makes the next revision, once, when the node has settled.

use crate::time::{Hour, Timestamp};

use super::record::HourRecord;

/// Hours are sealed this long after their end.
pub const SEAL_AFTER_MS: i64 = 24 * crate::time::HOUR_MS;
/// A node that sent nothing for this long has settled.
pub const SETTLED_AFTER_MS: i64 = 600_000;

/// Where an hour stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HourState {
    /// Not over yet; shown from memory.
    Open,
    /// Written, and replaced while late data comes.
    Provisional,
    /// Immutable.
    Sealed,
}

impl HourState {
    /// `open`, `provisional` or `sealed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Provisional => "provisional",
            Self::Sealed => "sealed",
        }
    }
}

/// The latest stored revision of an hour.
#[derive(Debug, Clone, Copy)]
pub struct Current<'a> {
    /// Its state; never open.
    pub state: HourState,
    /// 1, 2, ..
    pub revision: u32,
    /// Its content.
    pub record: &'a HourRecord,
}

/// What to do with a freshly metered record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Nothing: it is stored already, or data may still be on its way to a sealed hour.
    Keep,
    /// Data for a sealed hour has come, but the node has not settled: look again later.
    Wait,
    /// Write it in this state under this revision, replacing a provisional one of that revision.
    Put {
        /// Provisional or sealed.
        state: HourState,
        /// Its revision.
        revision: u32,
    },
}

/// Decides what becomes of `record` for `hour` at `now`. `settled` says that the node's cursor has
/// passed the hour, or that nothing came for [`SETTLED_AFTER_MS`].
#[must_use]
pub fn decide(
    current: Option<Current<'_>>,
    record: &HourRecord,
    hour: Hour,
    now: Timestamp,
    settled: bool,
) -> Write {
    let due = now.since(hour.end()) >= SEAL_AFTER_MS && settled;
    let state = if due { HourState::Sealed } else { HourState::Provisional };
    match current {
        None => Write::Put { state, revision: 1 },
        Some(current) if current.state == HourState::Sealed => match current.record == record {
            true => Write::Keep,
            false if settled => Write::Put {
                state: HourState::Sealed,
                revision: current.revision.saturating_add(1),
            },
            false => Write::Wait,
        },
        Some(current) if current.record == record && !due => Write::Keep,
        Some(current) => Write::Put { state, revision: current.revision },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::GpuUuid;
    use crate::segment::Origin;

    fn record(enrolled_ms: i64) -> HourRecord {
        let mut record =
            HourRecord::empty(Hour(500_000), GpuUuid::new("GPU-1").unwrap(), Origin::Measured);
        record.enrolled_ms = enrolled_ms;
        record
    }

    #[test]
    fn an_hour_is_replaced_then_sealed_then_revised() {
        let hour = Hour(500_000);
        let (old, new) = (record(1), record(2));
        let soon = hour.end().plus_ms(1_000);
        let late = hour.end().plus_ms(SEAL_AFTER_MS);
        let provisional = Current { state: HourState::Provisional, revision: 1, record: &old };
        let sealed = Current { state: HourState::Sealed, ..provisional };
        let put = |state, revision| Write::Put { state, revision };

        assert_eq!(decide(None, &new, hour, soon, true), put(HourState::Provisional, 1));
        assert_eq!(decide(Some(provisional), &old, hour, soon, true), Write::Keep);
        assert_eq!(
            decide(Some(provisional), &new, hour, soon, true),
            put(HourState::Provisional, 1)
        );
        assert_eq!(decide(Some(provisional), &old, hour, late, true), put(HourState::Sealed, 1));
        assert_eq!(decide(Some(provisional), &old, hour, late, false), Write::Keep);
        assert_eq!(decide(Some(sealed), &old, hour, late, true), Write::Keep);
        assert_eq!(decide(Some(sealed), &new, hour, late, false), Write::Wait);
        assert_eq!(decide(Some(sealed), &new, hour, late, true), put(HourState::Sealed, 2));
    }
}
