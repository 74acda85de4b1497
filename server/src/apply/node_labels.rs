//! `[[node_labels]]`: all labels of a node.

use leasewatch_core::lease::written::NodeLabelsEntry;

use super::{Fault, Run, Verb, Wrong};
use crate::store::node_label;

const LABELS_MAX: usize = 16;

/// Gives a node its labels.
pub(super) async fn apply(run: &mut Run<'_>, entry: &NodeLabelsEntry) -> Result<(), Fault> {
    if entry.labels.len() > LABELS_MAX {
        return Err(Wrong::new("labels", "must be at most 16").into());
    }
    let node = run.node(&entry.node).await?;
    let before = node_label::of_node(run.tx, node.key).await?;
    let verb = if before == entry.labels {
        Verb::Keep
    } else {
        node_label::set(run.tx, node.key, &entry.labels).await?;
        if before.is_empty() { Verb::Add } else { Verb::Change }
    };
    run.did(verb, format!("labels of {}", node.name));
    Ok(())
}
