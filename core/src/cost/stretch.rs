//! Which stretches of a lease are billed, by its unit and its sessions; and billing months.

use crate::lease::{BillingUnit, LeaseKind};
use crate::time::{HOUR_MS, Period, Timestamp, Zone};

use super::billed::Billable;

impl Billable<'_> {
    /// From the lease's start to its end, its release, or what is known, whichever is first.
    pub(super) fn span(&self) -> Period {
        let terms = self.terms;
        let ends = [terms.ends_at, terms.auto_release_at].into_iter().flatten();
        let end = ends.min().unwrap_or(self.until);
        let ahead = terms.billing.unit == BillingUnit::Term;
        Period::new(terms.starts_at, if ahead { end } else { end.min(self.until) })
    }

    /// Whether its sessions, and not its term, say when it ran.
    fn by_session(&self) -> bool {
        matches!(self.terms.kind, LeaseKind::OnDemand | LeaseKind::Spot)
            && self.terms.billing.unit != BillingUnit::Term
            && !self.sessions.is_empty()
    }

    /// When the instance ran: stretches in order that do not touch.
    pub(super) fn running(&self) -> Vec<Period> {
        let span = self.span();
        if !self.by_session() {
            return if span.is_empty() { Vec::new() } else { vec![span] };
        }
        let until = |end: Option<Timestamp>| end.unwrap_or(self.until);
        let sessions = self.sessions.iter().map(|s| Period::new(s.starts_at, until(s.ends_at)));
        union(sessions.map(|session| session.intersect(span)))
    }

    /// When the instance was kept without running, from its first session to its release.
    pub(super) fn stopped(&self) -> Vec<Period> {
        if !self.by_session() {
            return Vec::new();
        }
        let running = self.running();
        let Some(first) = running.first() else { return Vec::new() };
        without(Period::new(first.start, self.span().end), &running)
    }

    /// What is billed, rounded up to the unit. Stretches may overlap: an hour that was started
    /// twice is billed twice.
    pub(super) fn billed(&self) -> Vec<Period> {
        let running = self.running();
        let kept = || Some(Period::new(running.first()?.start, self.span().end));
        let stretches = match self.terms.billing.stop_ends_billing || !self.by_session() {
            true => running,
            false => kept().into_iter().collect(),
        };
        match self.terms.billing.unit {
            BillingUnit::Second => rounded_up(stretches, 1_000),
            BillingUnit::Minute => rounded_up(stretches, 60_000),
            BillingUnit::StartedHour => rounded_up(stretches, HOUR_MS),
            BillingUnit::PrepaidHour => prepaid(&stretches),
            BillingUnit::Term => stretches,
        }
    }
}

fn rounded_up(mut stretches: Vec<Period>, unit_ms: i64) -> Vec<Period> {
    for stretch in &mut stretches {
        stretch.end = paid_to(*stretch, unit_ms);
    }
    stretches
}

fn paid_to(stretch: Period, unit_ms: i64) -> Timestamp {
    let units = stretch.ms().saturating_add(unit_ms - 1) / unit_ms;
    stretch.start.plus_ms(units.saturating_mul(unit_ms))
}

/// Hours paid in advance: what begins within a paid hour uses it up first.
fn prepaid(stretches: &[Period]) -> Vec<Period> {
    let mut paid: Vec<Period> = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        match paid.last_mut() {
            Some(last) if stretch.start < last.end => {
                last.end = last.end.max(paid_to(Period::new(last.start, stretch.end), HOUR_MS));
            }
            _ => paid.push(Period::new(stretch.start, paid_to(*stretch, HOUR_MS))),
        }
    }
    paid
}

/// The union, in order, of stretches that do not touch.
pub(super) fn union(periods: impl Iterator<Item = Period>) -> Vec<Period> {
    let mut parts: Vec<Period> = periods.filter(|part| !part.is_empty()).collect();
    parts.sort_unstable();
    let mut merged: Vec<Period> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            Some(last) if last.end >= part.start => last.end = last.end.max(part.end),
            _ => merged.push(part),
        }
    }
    merged
}

/// `whole` without `holes`, which are in order and do not touch.
pub(super) fn without(whole: Period, holes: &[Period]) -> Vec<Period> {
    let mut rest = Vec::new();
    let mut from = whole.start;
    for hole in holes.iter().map(|hole| hole.intersect(whole)).filter(|hole| !hole.is_empty()) {
        if from < hole.start {
            rest.push(Period::new(from, hole.start));
        }
        from = from.max(hole.end);
    }
    if from < whole.end {
        rest.push(Period::new(from, whole.end));
    }
    rest
}

/// Their lengths together.
pub(super) fn total_ms(periods: &[Period]) -> i64 {
    periods.iter().map(|period| period.ms()).sum()
}

/// What of them lies within `window`.
pub(super) fn ms_within(periods: &[Period], window: Period) -> i64 {
    periods.iter().map(|period| period.intersect(window).ms()).sum()
}

/// The billing months that `span` touches, each whole. A month begins at midnight of its day in
/// the lease's zone. Empty where the calendar ends.
pub(super) fn billing_months(span: Period, zone: Zone, month_day: u8) -> Vec<Period> {
    if span.is_empty() {
        return Vec::new();
    }
    let Some(local) = zone.local(span.start) else { return Vec::new() };
    let start_of = |index: i64| {
        let (year, month) = (index.div_euclid(12), index.rem_euclid(12) + 1);
        let text = format!("{year:04}-{month:02}-{month_day:02}T00:00:00Z");
        zone.instant_of_local_ms(Timestamp::parse_iso(&text)?.0)
    };
    let mut index = i64::from(local.year) * 12 + i64::from(local.month) - 2;
    let mut months = Vec::new();
    while let (Some(start), Some(end)) = (start_of(index), start_of(index + 1)) {
        if start >= span.end {
            break;
        }
        if end > span.start {
            months.push(Period::new(start, end));
        }
        index += 1;
    }
    months
}
