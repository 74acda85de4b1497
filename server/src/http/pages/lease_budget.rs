//! Error budgets of the windows that run, for a lease's page: computed from the states that were
//! judged, as of the last hour that was.

use leasewatch_core::availability::StateStretch;
use leasewatch_core::sla::budget::{BURN_PAIRS, Budget, Burn, burn_as_of};
use leasewatch_core::sla::profile::{Denominator, Objective};
use leasewatch_core::sla::verdict::timeline;
use leasewatch_core::time::{HOUR_MS, Timestamp};
use leasewatch_web::pages::lease::{BudgetLine, BurnLine, UnitName};

use super::lease_judgement::unit;
use crate::http::deadlines::profile_of;
use crate::store::availability::{self, AvailabilityRow};
use crate::store::lease::{LeaseRow, period};
use crate::store::node::NodeRow;
use crate::store::verdict::{Basis, Judged, VerdictRow};
use crate::store::{StoreError, Tx, profile};

/// The longest window that a burn looks back over, and what may pass until it is judged.
const LOOK_BACK_MS: i64 = 76 * HOUR_MS;

/// Budgets of running windows, and up to where hours were judged.
pub(super) async fn budgets(
    tx: &mut Tx,
    lease: &LeaseRow,
    (rows, nodes): (&[VerdictRow], &[NodeRow]),
    now: Timestamp,
) -> Result<(Vec<BudgetLine>, Option<Timestamp>), StoreError> {
    let runs = |row: &&VerdictRow| {
        let of = &row.judged;
        !of.is_over && of.target.is_some() && of.of.window.contains(now)
    };
    let running: Vec<&Judged> = rows.iter().filter(runs).map(|row| &row.judged).collect();
    if running.is_empty() {
        return Ok((Vec::new(), None));
    }
    let profiles = profile::all(tx, lease.key.tenant).await?;
    let hours = (now.plus_ms(-LOOK_BACK_MS).hour(), now.hour().next());
    let states = availability::current(tx, lease.key, hours).await?;
    let judged_until = states.iter().map(|row| row.judged.hour.end()).max();
    let until = judged_until.unwrap_or(Timestamp::MIN);
    let line = |judged: &Judged| {
        let objective = profile_of(&profiles, judged)?.objective(&judged.of.objective)?;
        let slots = of_unit(&states, &judged.of.unit, nodes);
        let name = unit(&judged.of.unit, nodes);
        line(lease, (judged, name), (objective, &slots), (until, now))
    };
    let mut lines: Vec<BudgetLine> = running.into_iter().filter_map(line).collect();
    lines.sort_by_key(|line| !line.is_contract);
    Ok((lines, judged_until))
}

/// The states of each slot of a unit, in order.
fn of_unit(rows: &[AvailabilityRow], unit: &str, nodes: &[NodeRow]) -> Vec<Vec<StateStretch>> {
    let is_own = |row: &&AvailabilityRow| {
        let node = nodes.iter().find(|node| node.key == row.judged.node);
        let id = node.map(|node| node.id.to_string()).unwrap_or_default();
        unit == "lease" || unit == id || unit == format!("{id}/{}", row.judged.slot.0)
    };
    let own: Vec<&AvailabilityRow> = rows.iter().filter(is_own).collect();
    let same = |a: &&AvailabilityRow, b: &&AvailabilityRow| {
        (a.judged.node, a.judged.slot) == (b.judged.node, b.judged.slot)
    };
    let stretches = |slot: &[&AvailabilityRow]| {
        slot.iter().flat_map(|row| row.judged.stretches.iter().cloned()).collect()
    };
    own.chunk_by(same).map(stretches).collect()
}

fn line(
    lease: &LeaseRow,
    (judged, unit): (&Judged, UnitName),
    (objective, slots): (&Objective, &[Vec<StateStretch>]),
    as_of: (Timestamp, Timestamp),
) -> Option<BudgetLine> {
    let target = judged.target?;
    let figures = judged.figures;
    let window = judged.of.window;
    let contracted = window.intersect(period(&lease.terms)).ms();
    let whole_ms = match objective.denominator {
        Denominator::Calendar => window.ms(),
        Denominator::Contracted => contracted,
        Denominator::ContractedMinusExcluded => contracted - figures.excluded_ms,
    };
    let budget = Budget::of(target, whole_ms, (figures.proven_ms, figures.possible_ms));
    let slots: Vec<&[StateStretch]> = slots.iter().map(Vec::as_slice).collect();
    let timeline = timeline(objective, &slots);
    let burns = BURN_PAIRS
        .into_iter()
        .map(|pair| burn_line(burn_as_of(pair, &timeline, (target, whole_ms), as_of)));
    Some(BudgetLine {
        is_contract: judged.of.basis == Basis::Contract,
        objective: judged.of.objective.to_string(),
        unit,
        window,
        target_ppm: u32::try_from(target.ppm()).ok()?,
        allowed_ms: budget.allowed_ms,
        allowed_so_far_ms: figures.allowed_ms?,
        spent_ms: budget.spent_ms,
        possibly_spent_ms: budget.possibly_spent_ms,
        burns: burns.collect(),
    })
}

fn burn_line(burn: Burn) -> BurnLine {
    BurnLine {
        long_ms: burn.pair.long_ms,
        short_ms: burn.pair.short_ms,
        severity: burn.pair.severity,
        state: burn.state,
        long_ppm: burn.long.map(|ppm| ppm.0),
        short_ppm: burn.short.map(|ppm| ppm.0),
        short_coverage_ppm: burn.short_coverage.map(|ppm| ppm.0),
    }
}
