//! What a lease had of its nodes in a window, hour by hour: from the sums that were judged, and from
//! hour records where there are none yet.
//!
//! Records are read for the hours that were not judged, that wait to be judged again, or that the
//! window or a day of the page's zone cuts.

use std::collections::BTreeMap;

use leasewatch_core::cost::NodeHour;
use leasewatch_core::id::SlotNo;
use leasewatch_core::time::{Hour, Period, Zone};

use crate::store::availability::{self, LostHour};
use crate::store::contracted::ContractedLease;
use crate::store::cost::{self, LeaseHour, NodeRecords, SlotPart};
use crate::store::{NodeKey, StoreError, Tx, judge_work};

/// Slot-hours without sums of a page that are looked at minute by minute.
const MINUTE_HOURS_MAX: usize = 20_000;

/// What is asked about leases.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) window: Period,
    pub(super) zone: Zone,
}

/// An hour of a node, or the part of it that lies in one day of the window.
pub(super) struct Part {
    pub(super) period: Period,
    pub(super) node: NodeKey,
    pub(super) spent: NodeHour,
}

/// A lease in a window.
pub(super) struct Spent {
    /// By time.
    pub(super) parts: Vec<Part>,
    /// Minutes were looked at wherever they are kept.
    pub(super) has_minutes: bool,
}

pub(super) async fn read(
    tx: &mut Tx,
    lease: &ContractedLease,
    asked: Asked,
) -> Result<Spent, StoreError> {
    let slots = Contracted::of(lease, asked.window);
    let hours: Vec<Hour> = slots.span.hours().filter(|hour| slots.touch(*hour)).collect();
    let mut parts = Vec::new();
    let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
        return Ok(Spent { parts, has_minutes: true });
    };
    let range = (*first, last.next());
    let waiting = judge_work::of_lease(tx, lease.key).await?;
    let waits = |hour: Hour| waiting.iter().any(|(from, to)| (*from..*to).contains(&hour));
    let mut known: BTreeMap<Hour, Vec<LeaseHour>> = BTreeMap::new();
    for row in cost::hours(tx, lease.key, range).await? {
        known.entry(row.hour).or_default().push(row);
    }
    let mut unknown = Vec::new();
    for hour in hours {
        let is_whole = pieces(hour, asked) == [hour.period()];
        match known.remove(&hour).filter(|_| is_whole && !waits(hour)) {
            Some(rows) => parts.extend(rows.into_iter().map(|row| Part {
                period: hour.period(),
                node: row.node,
                spent: row.spent,
            })),
            None => unknown.push(hour),
        }
    }
    let has_minutes = unknown.len().saturating_mul(slots.slots.len()) <= MINUTE_HOURS_MAX;
    parts.extend(from_records(tx, lease, (&slots, &unknown, has_minutes), asked).await?);
    parts.sort_by_key(|part| (part.period.start, part.node));
    Ok(Spent { parts, has_minutes })
}

/// The hour cut by the window and by days.
fn pieces(hour: Hour, asked: Asked) -> Vec<Period> {
    let hour = hour.period().intersect(asked.window);
    let (mut pieces, mut from) = (Vec::new(), hour.start);
    while from < hour.end {
        let day_end = asked.zone.day(from).map_or(hour.end, |day| day.end);
        let to = day_end.min(hour.end).max(from.plus_ms(1));
        pieces.push(Period::new(from, to));
        from = to;
    }
    pieces
}

/// Contracted time of a lease's slots in a window.
struct Contracted {
    slots: Vec<(NodeKey, SlotNo, Vec<Period>)>,
    /// From the first moment to the last.
    span: Period,
}

impl Contracted {
    fn of(lease: &ContractedLease, window: Period) -> Self {
        let slots = lease.slots().into_iter();
        let of_slot = |(node, slot)| (node, slot, lease.of_slot(node, slot, window));
        let slots: Vec<_> = slots.map(of_slot).collect();
        let all = || slots.iter().flat_map(|(_, _, periods)| periods);
        let start = all().map(|period| period.start).min();
        let end = all().map(|period| period.end).max();
        let span =
            start.zip(end).map_or(Period::new(window.start, window.start), |(start, end)| {
                Period::new(start, end)
            });
        Self { slots, span }
    }

    fn touch(&self, hour: Hour) -> bool {
        let hour = hour.period();
        let mut all = self.slots.iter().flat_map(|(_, _, periods)| periods);
        all.any(|period| !period.intersect(hour).is_empty())
    }
}

async fn from_records(
    tx: &mut Tx,
    lease: &ContractedLease,
    (contracted, hours, with_minutes): (&Contracted, &[Hour], bool),
    asked: Asked,
) -> Result<Vec<Part>, StoreError> {
    let (Some(first), Some(last)) = (hours.first(), hours.last()) else { return Ok(Vec::new()) };
    let lost = availability::lost(tx, lease.key, (*first, last.next())).await?;
    let lost: BTreeMap<_, LostHour> =
        lost.into_iter().map(|row| ((row.node, row.slot, row.hour), row)).collect();
    let mut parts = Vec::new();
    for of_node in contracted.slots.chunk_by(|a, b| a.0 == b.0) {
        let node = of_node[0].0;
        let records = NodeRecords::read(tx, node, hours, with_minutes).await?;
        for hour in hours.iter().copied() {
            for period in pieces(hour, asked) {
                let mut spent = NodeHour::default();
                for (_, slot, periods) in of_node {
                    let states = lost.get(&(node, *slot, hour));
                    let states = states.map(|row| row.stretches.as_slice()).unwrap_or_default();
                    let contracted: Vec<Period> =
                        periods.iter().map(|stretch| stretch.intersect(period)).collect();
                    let part = SlotPart { slot: *slot, hour, contracted: &contracted, states };
                    records.add_to(&mut spent, &lease.terms, part);
                }
                if spent.measures.contracted_ms > 0 {
                    parts.push(Part { period, node, spent });
                }
            }
        }
    }
    Ok(parts)
}
