//! Contracted time: which slot, from when to when.

use crate::id::{NodeId, SlotNo, Slug};
use crate::time::{Period, Timestamp};

use super::billing::names;
use super::terms::{LeaseKind, LeaseTerms};

/// Who says that something was billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionSource {
    /// A file of the provider.
    Csv,
    /// The provider's interface, through ours.
    Api,
    /// A schedule that the tenant keeps.
    Schedule,
    /// A person, by hand.
    Hand,
}

names!(SessionSource { Csv = "csv", Api = "api", Schedule = "schedule", Hand = "hand", });

/// A stretch that is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BillingSession {
    /// From when.
    pub starts_at: Timestamp,
    /// Until when; `None` while it runs.
    pub ends_at: Option<Timestamp>,
    /// Who says so.
    pub source: SessionSource,
}

/// Which slot a lease covers, from when to when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The lease's public name.
    pub lease: Slug,
    /// The node.
    pub node: NodeId,
    /// The slot on it.
    pub slot: SlotNo,
    /// From when.
    pub starts_at: Timestamp,
    /// Until when; `None`: as long as the lease.
    pub ends_at: Option<Timestamp>,
}

/// Contracted time of one assigned slot within `window`: stretches in order that do not touch.
///
/// A lease that is billed by sessions (on demand or spot, and at least one session is known) is
/// contracted in its sessions alone, so that an instance that is stopped each night is not unknown
/// each night. Every other one is contracted from its start to its end.
#[must_use]
pub fn contracted(
    terms: &LeaseTerms,
    sessions: &[BillingSession],
    assignment: &Assignment,
    window: Period,
) -> Vec<Period> {
    let until = |end: Option<Timestamp>| end.unwrap_or(Timestamp::MAX);
    let whole = Period::new(terms.starts_at, until(terms.ends_at))
        .intersect(Period::new(assignment.starts_at, until(assignment.ends_at)))
        .intersect(window);
    let by_session = matches!(terms.kind, LeaseKind::OnDemand | LeaseKind::Spot);
    if !by_session || sessions.is_empty() {
        return if whole.is_empty() { Vec::new() } else { vec![whole] };
    }
    let mut parts: Vec<Period> = sessions
        .iter()
        .map(|session| Period::new(session.starts_at, until(session.ends_at)).intersect(whole))
        .filter(|part| !part.is_empty())
        .collect();
    parts.sort_by_key(|part| part.start);
    let mut merged: Vec<Period> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            Some(last) if last.end >= part.start => {
                *last = Period::new(last.start, last.end.max(part.end))
            }
            _ => merged.push(part),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Billing, Minima, Share};
    use crate::time::{HOUR_MS, Zone};

    fn terms(kind: LeaseKind) -> LeaseTerms {
        LeaseTerms {
            name: Slug::new("lease-a").unwrap(),
            provider: Slug::new("provider-a").unwrap(),
            product: "8x".to_owned(),
            kind,
            share: Share::WHOLE,
            region: None,
            instance: None,
            machine: None,
            order: None,
            gpu_model: "H100".to_owned(),
            gpu_count: 1,
            currency: "USD".parse().unwrap(),
            tax_ppm: None,
            starts_at: Timestamp(HOUR_MS),
            ends_at: Some(Timestamp(9 * HOUR_MS)),
            auto_release_at: None,
            prices: Vec::new(),
            fees: Vec::new(),
            billing: Billing::default(),
            minima: Minima::default(),
            profile: None,
            zone: Zone::UTC,
            labels: Default::default(),
        }
    }

    fn assignment(from: i64, to: Option<i64>) -> Assignment {
        Assignment {
            lease: Slug::new("lease-a").unwrap(),
            node: NodeId([1; 16]),
            slot: SlotNo(0),
            starts_at: Timestamp(from * HOUR_MS),
            ends_at: to.map(|hour| Timestamp(hour * HOUR_MS)),
        }
    }

    fn session(from: i64, to: Option<i64>) -> BillingSession {
        let ends_at = to.map(|hour| Timestamp(hour * HOUR_MS));
        BillingSession {
            starts_at: Timestamp(from * HOUR_MS),
            ends_at,
            source: SessionSource::Hand,
        }
    }

    fn hours(periods: &[Period]) -> Vec<(i64, i64)> {
        periods.iter().map(|p| (p.start.0 / HOUR_MS, p.end.0 / HOUR_MS)).collect()
    }

    const DAY: Period = Period { start: Timestamp(0), end: Timestamp(24 * HOUR_MS) };

    #[test]
    fn a_term_is_contracted_where_lease_assignment_and_window_overlap() {
        let of = |a| hours(&contracted(&terms(LeaseKind::Reserved), &[], &a, DAY));
        assert_eq!(of(assignment(0, None)), [(1, 9)]);
        assert_eq!(of(assignment(2, Some(30))), [(2, 9)]);
        assert_eq!(of(assignment(9, None)), []);
    }

    #[test]
    fn pay_as_you_go_is_contracted_in_its_sessions_alone() {
        let sessions = [session(5, None), session(2, Some(3)), session(3, Some(4))];
        let of = |kind, sessions: &[_]| {
            hours(&contracted(&terms(kind), sessions, &assignment(0, None), DAY))
        };
        assert_eq!(of(LeaseKind::OnDemand, &sessions), [(2, 4), (5, 9)]);
        assert_eq!(of(LeaseKind::OnDemand, &[]), [(1, 9)]);
        assert_eq!(of(LeaseKind::Reserved, &sessions), [(1, 9)]);
    }

    #[test]
    fn faults_name_their_fields() {
        let mut wrong = terms(LeaseKind::Reserved);
        assert_eq!(wrong.faults(), []);
        wrong.product = String::new();
        wrong.gpu_count = 0;
        wrong.ends_at = Some(wrong.starts_at);
        wrong.billing.month_day = 31;
        let fields: Vec<_> = wrong.faults().iter().map(|fault| fault.field).collect();
        assert_eq!(fields, ["product", "gpu_count", "ends_at", "month_day"]);
    }
}
