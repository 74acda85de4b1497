//! Patterns for time without a measurement.
//!
//! Fifteen causes cannot be told apart at this size, so causes of a kind share a pattern and the
//! text beside the pointer names the cause. Patterns differ in shape, not only in colour.

use leasewatch_core::metering::GapCause;

use crate::i18n::Text;
use crate::markup::{Markup, Writer};

/// A pattern of missing time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hatch {
    /// Something was started anew: agent, container, host, driver.
    Restart,
    /// No connection, or the server itself was not recording.
    Network,
    /// The GPU or its driver did not answer.
    Gpu,
    /// Recorded, but not usable as a measurement.
    Record,
    /// The hardware does not offer utilization.
    Unsupported,
    /// Nothing explains it.
    Unexplained,
}

impl Hatch {
    /// Every pattern.
    pub const ALL: [Self; 6] = [
        Self::Restart,
        Self::Network,
        Self::Gpu,
        Self::Record,
        Self::Unsupported,
        Self::Unexplained,
    ];

    /// The pattern of a cause.
    #[must_use]
    pub fn of(cause: GapCause) -> Self {
        match cause {
            GapCause::AgentRestart
            | GapCause::InstanceRestart
            | GapCause::NodeReboot
            | GapCause::DriverReload => Self::Restart,
            GapCause::NetUnreachable | GapCause::ObserverDown => Self::Network,
            GapCause::GpuLost
            | GapCause::GpuReplaced
            | GapCause::NoGpuAttached
            | GapCause::NvmlError => Self::Gpu,
            GapCause::Conflict | GapCause::ClockInvalid | GapCause::Dropped => Self::Record,
            GapCause::Unsupported => Self::Unsupported,
            GapCause::Unexplained => Self::Unexplained,
        }
    }

    /// Its words in the legend.
    #[must_use]
    pub fn text(self) -> Text {
        match self {
            Self::Restart => Text::HatchRestart,
            Self::Network => Text::HatchNetwork,
            Self::Gpu => Text::HatchGpu,
            Self::Record => Text::HatchRecord,
            Self::Unsupported => Text::HatchUnsupported,
            Self::Unexplained => Text::HatchUnexplained,
        }
    }

    /// The value of a `fill` attribute.
    #[must_use]
    pub fn fill(self) -> &'static str {
        match self {
            Self::Restart => "url(#h-restart)",
            Self::Network => "url(#h-network)",
            Self::Gpu => "url(#h-gpu)",
            Self::Record => "url(#h-record)",
            Self::Unsupported => "url(#h-unsupported)",
            Self::Unexplained => "url(#h-unexplained)",
        }
    }

    fn id(self) -> &'static str {
        self.fill().trim_start_matches("url(#").trim_end_matches(')')
    }

    /// Size of the tile and the strokes in it.
    fn tile(self) -> (i64, &'static str) {
        match self {
            Self::Restart => (6, "M-1 7 7 -1M-1 1 1 -1M5 7 7 5"),
            Self::Network => (5, "M1.5 2.5h2"),
            Self::Gpu => (6, "M-1 7 7 -1M-1 -1 7 7"),
            Self::Record => (4, "M0 2h4"),
            Self::Unsupported => (5, "M2.5 0v5"),
            Self::Unexplained => (6, "M-1 -1 7 7M-1 5 1 7M5 -1 7 1"),
        }
    }
}

/// Definitions of every pattern, once per page, before the first chart.
#[must_use]
pub fn patterns() -> Markup {
    let mut out = Writer::default();
    out.open("svg", &[("class", &"defs"), ("width", &0), ("height", &0), ("aria-hidden", &"true")]);
    out.open("defs", &[]);
    for hatch in Hatch::ALL {
        let (size, path) = hatch.tile();
        out.open(
            "pattern",
            &[
                ("id", &hatch.id()),
                ("width", &size),
                ("height", &size),
                ("patternUnits", &"userSpaceOnUse"),
            ],
        );
        out.empty("rect", &[("class", &"h-bg"), ("width", &size), ("height", &size)]);
        let class = format!("h-ink {}", hatch.id());
        out.empty("path", &[("class", &class), ("d", &path)]);
        out.close("pattern");
    }
    out.close("defs");
    out.close("svg");
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fill_is_defined_once() {
        let svg = patterns();
        for id in Hatch::ALL.map(Hatch::id) {
            assert_eq!(svg.as_str().matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
        }
    }
}
