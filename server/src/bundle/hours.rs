//! Hours: every sealed revision, as statements and as a table.

use std::io::Write as _;

use leasewatch_core::evidence::bundle::name;
use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::metering::HourNames;
use leasewatch_web::csv;

use super::disclosed::Shown;
use super::document::Report;
use super::plan::Planned;
use super::{BundleError, Making};
use crate::store::hour::{self, HourRow};
use crate::store::node::NodeRow;

/// Rows of one read.
const ROWS: u32 = 1_000;

pub(super) async fn gather(making: &mut Making<'_>) -> Result<(), BundleError> {
    for at in 0..making.plan.nodes.len() {
        let mut after = None;
        while let Some(rows) = next(making, at, after.as_ref()).await? {
            let planned = &making.plan.nodes[at];
            for row in rows.iter().filter(|row| covers(planned, row)) {
                making.disclosed.add_hash(row.hash);
            }
            after = rows.into_iter().next_back();
        }
    }
    Ok(())
}

/// Writes them; returns how many.
pub(super) async fn write(
    making: &mut Making<'_>,
    report: &mut Report,
) -> Result<u64, BundleError> {
    let mut statements = making.parts.begin(name::HOURS)?;
    let mut table = making.parts.begin(name::HOURS_TABLE)?;
    let mut text = String::new();
    csv::header(&mut text);
    let (mut count, file) = (0, super::leaves::file(name::HOURS));
    for at in 0..making.plan.nodes.len() {
        let mut after = None;
        while let Some(rows) = next(making, at, after.as_ref()).await? {
            let planned = &making.plan.nodes[at];
            for row in rows.iter().filter(|row| covers(planned, row)) {
                let Some((leaf, statement)) = stated(making, &planned.node, row)? else { continue };
                let line = statements.line(&statement)?;
                making.disclosed.shown.push(Shown { leaf, file, line });
                append(&mut text, &planned.node, report.name_of(at), row);
                report.add_hour(at, row);
                count += 1;
            }
            table.write_all(text.as_bytes())?;
            text.clear();
            after = rows.into_iter().next_back();
        }
    }
    table.write_all(text.as_bytes())?;
    making.parts.end(statements)?;
    making.parts.end(table)?;
    Ok(count)
}

async fn next(
    making: &mut Making<'_>,
    at: usize,
    after: Option<&HourRow>,
) -> Result<Option<Vec<HourRow>>, BundleError> {
    let key = making.plan.nodes[at].node.key;
    let rows = hour::sealed(&mut making.tx, key, making.plan.hours(), after, ROWS).await?;
    Ok((!rows.is_empty()).then_some(rows))
}

fn covers(planned: &Planned, row: &HourRow) -> bool {
    planned.covers(row.slot, row.record.hour)
}

/// The statement of a row and its leaf; `None` for one that was published later.
fn stated(
    making: &Making<'_>,
    node: &NodeRow,
    row: &HourRow,
) -> Result<Option<(u64, Vec<u8>)>, BundleError> {
    let statement = row.record.statement(&HourNames {
        tenant: &node.tenant,
        node: node.id,
        slot: row.slot,
        revision: row.revision,
        previous: row.previous,
    });
    let what = || {
        format!(
            "hour {} of node {} slot {} revision {}",
            row.record.hour, node.name, row.slot.0, row.revision
        )
    };
    if leaf_hash(&statement) != row.hash {
        return Err(BundleError::Altered(what()));
    }
    Ok(making.disclosed.leaf(row.hash, what)?.map(|leaf| (leaf, statement)))
}

/// Everything in it stands in the statement, or in the node's enrollment.
fn append(text: &mut String, node: &NodeRow, name: &str, row: &HourRow) {
    csv::append(
        text,
        &csv::HourRow {
            tenant: node.tenant.as_str(),
            provider: node.provider.as_str(),
            node: &node.id.to_string(),
            node_name: name,
            slot: row.slot.0,
            gpu_model: None,
            revision: row.revision,
            state: row.state,
            row_hash: Some(&row.hash.to_string()),
            record: &row.record,
        },
    );
}
