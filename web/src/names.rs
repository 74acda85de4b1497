//! Words for the names that core defines: origins, states, gap causes.
//!
//! Each match is exhaustive, so a new variant in core does not compile before it has words in
//! both languages.

use leasewatch_core::delivery::{NodeState, UnknownReason};
use leasewatch_core::metering::{GapCause, HourState};
use leasewatch_core::segment::Origin;

use crate::i18n::Text;

/// Where a node stands: heard live, or the record is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The node is expected to report.
    Live(NodeState),
    /// The record ended: an imported log, or a retired node. Nothing is expected.
    Ended,
}

impl Standing {
    /// Its name in JSON and in class names: `up`, `late`, `unknown`, `ended`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Live(NodeState::Up) => "up",
            Self::Live(NodeState::Late) => "late",
            Self::Live(NodeState::Unknown(_)) => "unknown",
            Self::Ended => "ended",
        }
    }

    /// Its word.
    #[must_use]
    pub fn text(self) -> Text {
        match self {
            Self::Live(NodeState::Up) => Text::StateUp,
            Self::Live(NodeState::Late) => Text::StateLate,
            Self::Live(NodeState::Unknown(_)) => Text::StateUnknown,
            Self::Ended => Text::StateEnded,
        }
    }

    /// Why it is so, in words.
    #[must_use]
    pub fn reason(self) -> Text {
        match self {
            Self::Live(NodeState::Up) => Text::ReasonUp,
            Self::Live(NodeState::Late) => Text::ReasonLate,
            Self::Live(NodeState::Unknown(reason)) => match reason {
                UnknownReason::Revoked => Text::ReasonRevoked,
                UnknownReason::Contested => Text::ReasonContested,
                UnknownReason::Stopped => Text::ReasonStopped,
                UnknownReason::Stalled => Text::ReasonStalled,
                UnknownReason::Network => Text::ReasonNetwork,
                UnknownReason::NeverSeen => Text::ReasonNeverSeen,
            },
            Self::Ended => Text::ReasonEnded,
        }
    }
}

/// The word for an origin; measured data carries no mark.
#[must_use]
pub fn origin_mark(origin: Origin) -> Option<Text> {
    match origin {
        Origin::Measured => None,
        Origin::Simulated => Some(Text::OriginSimulated),
        Origin::Imported => Some(Text::OriginImported),
    }
}

/// The words for an hour's state.
#[must_use]
pub fn hour_state(state: HourState) -> Text {
    match state {
        HourState::Open => Text::HourOpen,
        HourState::Provisional => Text::HourProvisional,
        HourState::Sealed => Text::HourSealed,
    }
}

/// The words for a gap's cause.
#[must_use]
pub fn gap_cause(cause: GapCause) -> Text {
    match cause {
        GapCause::Conflict => Text::GapConflict,
        GapCause::ClockInvalid => Text::GapClockInvalid,
        GapCause::Unsupported => Text::GapUnsupported,
        GapCause::NvmlError => Text::GapNvmlError,
        GapCause::GpuLost => Text::GapGpuLost,
        GapCause::GpuReplaced => Text::GapGpuReplaced,
        GapCause::NoGpuAttached => Text::GapNoGpuAttached,
        GapCause::DriverReload => Text::GapDriverReload,
        GapCause::Dropped => Text::GapDropped,
        GapCause::NodeReboot => Text::GapNodeReboot,
        GapCause::InstanceRestart => Text::GapInstanceRestart,
        GapCause::AgentRestart => Text::GapAgentRestart,
        GapCause::ObserverDown => Text::GapObserverDown,
        GapCause::NetUnreachable => Text::GapNetUnreachable,
        GapCause::Unexplained => Text::GapUnexplained,
    }
}
