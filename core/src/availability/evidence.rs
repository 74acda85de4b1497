//! What speaks for *down*: classes, causes, and where each may be used.

use crate::id::Hash;
use crate::time::Period;

use super::{Stretch, StretchContent};

macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$vdoc])* $variant,)+
        }

        impl $type {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in statements, profiles and exports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The one with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}
pub(crate) use named;

named! {
    /// How an outage is known. Order is precedence: where several hold, law S counts the first.
    EvidenceClass {
        /// The agent was alive and signed it.
        E1 = "E1",
        /// The agent recorded while cut off and delivered later, and reference targets or a probe
        /// failed while own peers elsewhere were fine.
        E2 = "E2",
        /// Another boot bounds it.
        E3 = "E3",
        /// Probes failed while the prober and own peers elsewhere were fine.
        E4 = "E4",
        /// The provider's own record says so.
        E5 = "E5",
    }
}

named! {
    /// What was down. Order is precedence within a class.
    DownCause {
        /// The instance was not reachable from outside.
        Connectivity = "connectivity",
        /// The boot disk or a persistent disk was lost.
        Disk = "disk",
        /// The host booted without having been shut down.
        Reboot = "reboot",
        /// A GPU fell off the bus or needs a reset.
        GpuLost = "gpu_lost",
        /// A GPU was exchanged: the time between the two.
        GpuReplaced = "gpu_replaced",
        /// Fewer GPUs than contracted.
        GpuCount = "gpu_count",
        /// Other hardware: power, cooling, board.
        Hardware = "hardware",
        /// The fast network between the members of a cluster. A degradation.
        Fabric = "fabric",
        /// Slowed down for a reason that is the provider's. A degradation.
        Throttle = "throttle",
    }
}

impl DownCause {
    /// True for what leaves the GPU there and answering: it is kept as a ground and is never the
    /// state *down*.
    #[must_use]
    pub fn is_degradation(self) -> bool {
        matches!(self, Self::Fabric | Self::Throttle)
    }
}

/// One reason to say *down*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ground {
    /// How it is known.
    pub class: EvidenceClass,
    /// What was down.
    pub cause: DownCause,
}

/// Evidence beside metering: a failed probe, failed references, a provider's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownEvidence {
    /// When it shows the slot to have been down.
    pub period: Period,
    /// What it shows, and how.
    pub ground: Ground,
    /// Where it is written.
    pub source: EvidenceSource,
}

/// Where evidence is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceSource {
    /// SHA-256 of the statement, capture or text.
    pub hash: Hash,
    /// In words for a person; text from outside is cleaned before it comes here.
    pub text: String,
}

impl Ground {
    /// Whether it may be counted by a contract that names its cause: what a reading contradicts may
    /// not, a degradation may.
    pub(crate) fn stands(self, measured: bool) -> bool {
        self.cause.is_degradation() || self.is_down(measured)
    }

    /// Whether it makes a stretch *down* there.
    ///
    /// A GPU that was read was there, whatever E1 and E3 say; that a measured GPU could not be
    /// reached from outside (E2, E4) or that the provider admits an outage (E5) does not
    /// contradict its readings. A degradation never does.
    pub(super) fn is_down(self, measured: bool) -> bool {
        let of_presence = matches!(self.class, EvidenceClass::E1 | EvidenceClass::E3);
        let contradicted = measured && of_presence;
        !(self.cause.is_degradation() || contradicted)
    }

    /// Whether it rests on what the server saw itself: failures of probes and references are worth
    /// nothing while the server was not recording.
    pub(super) fn needs_observer(self) -> bool {
        matches!(self.class, EvidenceClass::E2 | EvidenceClass::E4)
    }
}

/// When a contracted slot that was never seen is down: while at least one slot of its node was
/// measured, so the agent was alive, counted, and did not find it. `others` are the node's slots
/// that were seen. For [`super::SlotFacts::evidence`] of the slot, as class E1, cause `gpu_count`.
#[must_use]
pub fn never_seen(others: &[&[Stretch]]) -> Vec<Period> {
    let measured = others
        .iter()
        .flat_map(|stretches| stretches.iter())
        .filter(|stretch| stretch.content == StretchContent::Measured)
        .map(|stretch| stretch.period);
    super::union(measured)
}
