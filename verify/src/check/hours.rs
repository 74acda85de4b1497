//! Hours: each says what it says without contradiction, no revision is left out, and hours that are
//! not shown are named.

use std::collections::BTreeSet;

use leasewatch_core::evidence::bundle::name;
use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::id::{Hash, NodeId, SlotNo};
use leasewatch_core::metering::{StatedHour, UtilizationSum};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Hour;

use super::{Evidence, at_line};
use crate::report::Fault;

/// What an hour is of, in the order of the file.
type Key = (NodeId, SlotNo, Hour, String);

#[derive(Default)]
struct Walk {
    last: Option<(Key, u32, Hash)>,
    latest: Option<StatedHour>,
    sum: UtilizationSum,
    shown: BTreeSet<(NodeId, SlotNo, Hour)>,
    slots: BTreeSet<(NodeId, SlotNo)>,
    revised: u64,
    marked: BTreeSet<&'static str>,
}

pub(super) fn check(evidence: &mut Evidence<'_>) -> Result<String, Fault> {
    let (tenant, window) = {
        let scope = &evidence.manifest()?.scope;
        (scope.tenant.clone(), scope.window)
    };
    let mut walk = Walk::default();
    let count = evidence.archive.lines(name::HOURS, |number, line| {
        let wrong = |what: &dyn std::fmt::Display| at_line(name::HOURS, number, what);
        let hour = StatedHour::from_statement(line).map_err(|error| wrong(&error))?;
        if hour.tenant != tenant {
            return Err(wrong(&"is of another tenant"));
        }
        if hour.record.hour.period().intersect(window).is_empty() {
            return Err(wrong(&"is outside of the window"));
        }
        if !evidence.keys.contains_key(&hour.node) {
            return Err(wrong(&"is of a node that never joined"));
        }
        let named = format!("node {} slot {} {}", hour.node, hour.slot.0, hour.record.hour);
        walk.take(hour, leaf_hash(line)).map_err(|what| wrong(&format!("{named}: {what}")))
    })?;
    walk.finish();
    for mark in &walk.marked {
        evidence
            .report
            .notes
            .push(format!("hours of {mark} data are in it: they are no evidence of a real node"));
    }
    let missing = walk.missing();
    if missing > 0 {
        let what = format!(
            "{missing} slot-hours between the first and the last one of their slot are not shown"
        );
        evidence.report.notes.push(what);
    }
    let sum = &walk.sum;
    Ok(format!(
        "{count} statements of {} slots, {} revised: {} ms enrolled = {} ms measured + {} ms of gaps",
        walk.slots.len(),
        walk.revised,
        sum.enrolled_ms,
        sum.measured_ms(),
        sum.gaps.total_ms(),
    ))
}

impl Walk {
    fn take(&mut self, hour: StatedHour, hash: Hash) -> Result<(), &'static str> {
        let key = (hour.node, hour.slot, hour.record.hour, hour.record.gpu.to_string());
        match self.last.take() {
            Some((before, revision, of)) if before == key => {
                if hour.revision != revision + 1 || hour.previous != Some(of) {
                    return Err("does not follow the revision before it");
                }
                self.revised += 1;
            }
            Some((before, ..)) if before > key => return Err("stands out of order"),
            _ if hour.revision != 1 => return Err("earlier revisions of it are left out"),
            _ => self.finish(),
        }
        self.slots.insert((hour.node, hour.slot));
        self.shown.insert((hour.node, hour.slot, hour.record.hour));
        if hour.record.origin != Origin::Measured {
            self.marked.insert(hour.record.origin.name());
        }
        self.last = Some((key, hour.revision, hash));
        self.latest = Some(hour);
        Ok(())
    }

    /// The latest revision of an hour counts.
    fn finish(&mut self) {
        if let Some(hour) = self.latest.take() {
            self.sum.add(&hour.record);
        }
    }

    /// Hours between the first and the last of each slot that are not shown.
    fn missing(&self) -> i64 {
        let mut missing = 0;
        for (node, slot) in &self.slots {
            let of_slot = (*node, *slot, Hour(i64::MIN))..=(*node, *slot, Hour(i64::MAX));
            let hours: Vec<i64> = self.shown.range(of_slot).map(|(.., hour)| hour.0).collect();
            if let (Some(first), Some(last)) = (hours.first(), hours.last()) {
                missing += last - first + 1 - i64::try_from(hours.len()).unwrap_or(i64::MAX);
            }
        }
        missing
    }
}
