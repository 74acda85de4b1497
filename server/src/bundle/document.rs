//! The documents: a report for people, and how to check by hand.

use leasewatch_core::evidence::identity::Enrollment;
use leasewatch_core::evidence::log::note::verifier_line;
use leasewatch_core::evidence::statement::public_key;
use leasewatch_core::metering::{HourRecord, UtilizationSum};
use leasewatch_web::report::{ReportNode, ReportView, render};

use super::plan::Plan;
use super::{BundleError, Making};
use crate::store::hour::HourRow;
use crate::store::log::CheckpointRow;
use crate::store::node::NodeRow;
use crate::store::segment::HeadRow;

/// How to check by hand, and how the system works, in both languages. The program's, not this
/// bundle's.
const DOCUMENTS: [(&str, &str); 2] =
    [("verify.md", include_str!("verify.md")), ("process.md", include_str!("process.md"))];

/// What the report says, gathered while the files are written.
pub(super) struct Report {
    view: ReportView,
    /// Of the hour that was added last: its node, its latest record, and how many revisions.
    last: Option<(usize, HourRow)>,
    pub(super) minutes: u64,
}

impl Report {
    pub(super) fn new(plan: &Plan, at: &CheckpointRow) -> Self {
        let (asked, state) = (&plan.asked, at.state);
        let view = ReportView {
            tenant: asked.tenant.to_string(),
            provider: (asked.provider.to_string(), plan.provider_name.clone()),
            leases: asked.leases.iter().map(ToString::to_string).collect(),
            window: asked.window,
            zone: asked.zone,
            nodes: Vec::new(),
            log: (plan.log.origin.as_str().to_owned(), state.size, state.root.to_string(), at.at),
            key_line: String::new(),
            heads: 0,
            minutes: 0,
            lag_ms: None,
            is_successor: plan.log.first_statement.is_some(),
        };
        Self { view, last: None, minutes: 0 }
    }

    /// A node by its place in the plan, as it joined.
    pub(super) fn add_node(&mut self, node: &NodeRow, joined: Option<Enrollment>) {
        self.view.nodes.push(ReportNode {
            name: joined.map_or_else(|| node.id.to_string(), |joined| joined.name),
            id: node.id.to_string(),
            origin: node.origin,
            hours: 0,
            revised: 0,
            sum: UtilizationSum::default(),
        });
    }

    /// The name with which a node joined.
    pub(super) fn name_of(&self, at: usize) -> &str {
        self.view.nodes.get(at).map_or("", |node| &node.name)
    }

    /// An hour of a node, each revision behind the one before.
    pub(super) fn add_hour(&mut self, at: usize, row: &HourRow) {
        let key = |row: &HourRow| (row.slot, row.record.hour, row.record.gpu.clone());
        match &self.last {
            Some((of, before)) if *of == at && key(before) == key(row) => {}
            _ => self.finish_hour(),
        }
        self.last = Some((at, row.clone()));
    }

    /// The latest revision counts.
    fn finish_hour(&mut self) {
        let Some((at, row)) = self.last.take() else { return };
        let record: &HourRecord = &row.record;
        if let Some(node) = self.view.nodes.get_mut(at) {
            node.hours += 1;
            node.revised += u64::from(row.revision > 1);
            node.sum.add(record);
        }
    }

    pub(super) fn add_head(&mut self, row: &HeadRow) {
        let lag_ms = row.received_at.since(row.head.period.end).max(0);
        self.view.lag_ms = self.view.lag_ms.max(Some(lag_ms));
        self.view.heads += 1;
    }
}

/// Writes them.
pub(super) fn write(making: &mut Making<'_>, mut report: Report) -> Result<(), BundleError> {
    report.finish_hour();
    let key = public_key(&making.identity.public_key());
    let key = key.map_err(|error| BundleError::Request(error.to_string()))?;
    let view = ReportView {
        key_line: verifier_line(making.plan.log.origin.as_str(), &key),
        minutes: report.minutes,
        ..report.view
    };
    making.parts.add("report.html", render(&view).as_bytes())?;
    for (name, text) in DOCUMENTS {
        making.parts.add(name, text.as_bytes())?;
    }
    Ok(())
}
