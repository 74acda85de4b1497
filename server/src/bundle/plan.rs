//! Which nodes and slots a bundle is about, and which log.

use std::collections::BTreeMap;

use leasewatch_core::evidence::bundle::{BundleForm, Scope};
use leasewatch_core::id::{SlotNo, Slug};
use leasewatch_core::time::{Hour, Period};

use super::{BundleError, Request, asked, provider_row};
use crate::store::log::{self, LogRow};
use crate::store::node::{self, NodeRow};
use crate::store::{ProviderKey, TenantKey, Tx, assignment, claim, lease};

/// Around a claimed interval, how much is shown.
const AROUND_MS: i64 = 30 * 60_000;

/// What a bundle is about.
pub(super) struct Plan {
    pub(super) tenant: TenantKey,
    pub(super) provider: ProviderKey,
    pub(super) provider_name: String,
    pub(super) log: LogRow,
    pub(super) asked: Scope,
    /// By node id.
    pub(super) nodes: Vec<Planned>,
    /// Times of which heads are shown; `None`: of the whole window.
    pub(super) around: Option<Vec<Period>>,
}

/// A node, and what is shown of it.
pub(super) struct Planned {
    pub(super) node: NodeRow,
    /// Slots with their time within the window; `None`: all of them, always.
    slots: Option<Vec<(SlotNo, Period)>>,
}

impl Planned {
    /// True when an hour of a slot is shown.
    pub(super) fn covers(&self, slot: SlotNo, hour: Hour) -> bool {
        let Some(slots) = &self.slots else { return true };
        let is_shown = |(own, period): &(SlotNo, Period)| {
            *own == slot && !period.intersect(hour.period()).is_empty()
        };
        slots.iter().any(is_shown)
    }
}

impl Plan {
    /// The hours of the window.
    pub(super) fn hours(&self) -> (Hour, Hour) {
        let window = self.asked.window;
        (window.start.hour(), window.end.plus_ms(-1).hour().next())
    }

    /// True when a head of that time is shown.
    pub(super) fn shows(&self, period: Period) -> bool {
        let overlaps = |shown: &Period| period.start < shown.end && period.end > shown.start;
        self.around.as_ref().is_none_or(|around| around.iter().any(overlaps))
    }
}

pub(super) async fn make(
    tx: &mut Tx,
    tenant: TenantKey,
    request: &Request,
) -> Result<Plan, BundleError> {
    if request.window.is_empty() {
        return Err(BundleError::Request("the time ends before it begins".to_owned()));
    }
    let mut leases = request.leases.clone();
    leases.sort_unstable();
    leases.dedup();
    let rented = rented(tx, tenant, &leases, request.window).await?;
    let slug = match (&request.provider, rented.providers.as_slice()) {
        (Some(own), providers) if providers.iter().all(|of| of == own) => own.clone(),
        (None, [one]) => one.clone(),
        (None, []) => return wrong("name a provider or a lease"),
        _ => return wrong("a bundle is about one provider: these leases are of others"),
    };
    let provider = provider_row(tx, &slug).await?;
    let log = log::current(tx, tenant, provider.key).await?;
    let log = log.ok_or_else(|| {
        BundleError::Request(format!("nothing of provider {slug} is published yet"))
    })?;
    let mut nodes: Vec<Planned> = Vec::new();
    for node in node::list(tx).await? {
        let slots = rented.slots.get(&node.key).cloned();
        if node.provider == slug && (leases.is_empty() || slots.is_some()) {
            nodes.push(Planned { node, slots });
        }
    }
    nodes.sort_by_key(|planned| planned.node.id);
    let asked = asked(request, slug, leases);
    let around = (request.form == BundleForm::Small).then_some(rented.claimed);
    let (provider, provider_name) = (provider.key, provider.name);
    Ok(Plan { tenant, provider, provider_name, log, asked, nodes, around })
}

fn wrong<T>(what: &str) -> Result<T, BundleError> {
    Err(BundleError::Request(what.to_owned()))
}

/// What leases cover within a window.
#[derive(Default)]
struct Rented {
    providers: Vec<Slug>,
    slots: BTreeMap<crate::store::NodeKey, Vec<(SlotNo, Period)>>,
    /// Claimed intervals, with the time around them.
    claimed: Vec<Period>,
}

async fn rented(
    tx: &mut Tx,
    tenant: TenantKey,
    leases: &[Slug],
    window: Period,
) -> Result<Rented, BundleError> {
    let mut rented = Rented::default();
    for name in leases {
        let row = lease::by_name(tx, tenant, name).await?;
        let row = row.ok_or_else(|| BundleError::Request(format!("there is no rental {name}")))?;
        if !rented.providers.contains(&row.terms.provider) {
            rented.providers.push(row.terms.provider.clone());
        }
        for of in assignment::of_lease(tx, row.key).await? {
            let period = of.period().intersect(lease::period(&row.terms)).intersect(window);
            if of.withdrawn_at.is_none() && !period.is_empty() {
                rented.slots.entry(of.node).or_default().push((of.assignment.slot, period));
            }
        }
        for claim in claim::list(tx, tenant, Some(row.key)).await? {
            let around =
                |of: &Period| Period::new(of.start.plus_ms(-AROUND_MS), of.end.plus_ms(AROUND_MS));
            let within = claim.draft.intervals.iter().filter(|of| !of.intersect(window).is_empty());
            rented.claimed.extend(within.map(around));
        }
    }
    Ok(rented)
}
