//! What takes contracted time out of the account: notices, stops, the contract's own exclusions.

use crate::id::Hash;
use crate::segment::StopReason;
use crate::time::{Period, Timestamp};

use super::evidence::named;

/// Time that may be taken out of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclusion {
    /// When.
    pub period: Period,
    /// Why.
    pub cause: ExclusionCause,
}

/// Why time is taken out, with what supports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExclusionCause {
    /// The provider announced maintenance. Counts only with the notice, and only when it was
    /// received early enough.
    ProviderMaintenanceAnnounced {
        /// SHA-256 of the notice's text.
        notice: Hash,
        /// When it was received.
        received_at: Timestamp,
    },
    /// The tenant stopped the instance. Counts only where nothing was measured.
    TenantStopped,
    /// The tenant's own maintenance.
    TenantMaintenance,
    /// Another exclusion of the contract, by its id in the profile.
    Other(String),
}

named! {
    /// Causes of excluded time, as law S counts them. Order is precedence.
    ExclusionKind {
        /// Announced by the provider, in time.
        ProviderMaintenanceAnnounced = "provider_maintenance_announced",
        /// Stopped by the tenant.
        TenantStopped = "tenant_stopped",
        /// The tenant's own maintenance.
        TenantMaintenance = "tenant_maintenance",
        /// Another exclusion of the contract.
        Other = "other_profile_exclusion",
    }
}

impl ExclusionCause {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ExclusionKind {
        match self {
            Self::ProviderMaintenanceAnnounced { .. } => {
                ExclusionKind::ProviderMaintenanceAnnounced
            }
            Self::TenantStopped => ExclusionKind::TenantStopped,
            Self::TenantMaintenance => ExclusionKind::TenantMaintenance,
            Self::Other(_) => ExclusionKind::Other,
        }
    }
}

impl Exclusion {
    /// Whether it is a notice that came too late: shown as disputed, and excludes nothing. Without
    /// a rule for how early it has to come, every notice is late.
    #[must_use]
    pub fn is_late(&self, notice_lead_ms: Option<i64>) -> bool {
        match self.cause {
            ExclusionCause::ProviderMaintenanceAnnounced { received_at, .. } => {
                notice_lead_ms.is_none_or(|lead_ms| self.period.start.since(received_at) < lead_ms)
            }
            _ => false,
        }
    }
}

/// The tenant's stop that a signed goodbye shows: the agent said at `goodbye_at` that the host
/// shuts down or the lease ends, and what ran next, if anything, was another life of the node. A
/// goodbye within one life, or before an upgrade, stopped the agent alone and shows nothing.
///
/// `next` is the first record after it, and whether it is of the same life unit.
#[must_use]
pub fn tenant_stop(
    goodbye_at: Timestamp,
    reason: StopReason,
    next: Option<(Timestamp, bool)>,
) -> Option<Exclusion> {
    let end = match (reason, next) {
        (StopReason::Shutdown | StopReason::LeaseEnd, Some((at, false))) => at,
        (StopReason::LeaseEnd, None) => Timestamp::MAX,
        _ => return None,
    };
    let period = Period::new(goodbye_at, end);
    (!period.is_empty()).then_some(Exclusion { period, cause: ExclusionCause::TenantStopped })
}
