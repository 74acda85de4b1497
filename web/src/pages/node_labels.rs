//! The labels of a node, that costs can be grouped by.

use askama::Template;
use serde::Serialize;

use super::NodeName;
use super::lease_form::{FieldFault, LeaseMatter, summary};
use crate::context::{Context, SUGGESTED_ZONES};
use crate::i18n::{Language, Text, phrase};
use crate::markup::Markup;
use crate::path::Route;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeLabelsView {
    /// The node.
    pub node: NodeName,
    /// What was typed, or is there: `NAME=VALUE`, one a line.
    pub entered: String,
    /// What is wrong with it.
    pub faults: Vec<FieldFault>,
}

impl NodeLabelsView {
    /// Labels of which one is none.
    #[must_use]
    pub fn sample() -> Self {
        Self {
            node: NodeName {
                id: "0f".repeat(16),
                name: "gpu-node-1".to_owned(),
                origin: leasewatch_core::segment::Origin::Measured,
            },
            entered: "team=nlp\nrack".to_owned(),
            faults: vec![FieldFault::new("labels", LeaseMatter::Invalid)],
        }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &NodeLabelsView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "node_labels.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a NodeLabelsView,
}

impl Page<'_> {
    fn title(&self) -> String {
        phrase::lease_node_labels(self.cx.language, &self.view.node.name)
    }

    fn action(&self) -> String {
        self.cx.here.to(Route::NodeLabels(self.view.node.id.clone())).href()
    }

    fn faults(&self) -> Markup {
        summary(&self.view.faults, self.cx)
    }
}
