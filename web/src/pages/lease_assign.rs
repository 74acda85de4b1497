//! Assigning GPUs to a lease: what is free, with what fits first.

use askama::Template;
use serde::Serialize;

use super::NodeName;
use super::lease_form::{FieldFault, line, summary};
use crate::context::{Context, SUGGESTED_ZONES};
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{self, LeasePart, Route, pattern};

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseAssignView {
    /// The tenant's public name.
    pub tenant: String,
    /// The lease's.
    pub lease: String,
    /// How many GPUs are paid for and not assigned.
    pub gpus_unassigned: i64,
    /// How many GPUs are paid for.
    pub gpus_contracted: i64,
    /// Nodes with free GPUs, those that fit first.
    pub nodes: Vec<FreeNode>,
    /// What was typed: from when and until when.
    pub entered: (String, String),
    /// GPUs that were chosen, as `NODE:NUMBER`.
    pub chosen: Vec<String>,
    /// What is wrong with what was sent.
    pub faults: Vec<FieldFault>,
}

/// A node with GPUs that no lease covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FreeNode {
    /// The node.
    pub name: NodeName,
    /// The provider's public name.
    pub provider: String,
    /// Of the lease's provider.
    pub fits: bool,
    /// Its free GPUs, by number.
    pub gpus: Vec<FreeGpu>,
}

/// A GPU that no lease covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FreeGpu {
    /// Its number within the node.
    pub number: u16,
    /// The model as the driver says it, if it is known.
    pub model: Option<String>,
    /// The provider and the model are the lease's.
    pub fits: bool,
}

impl FreeGpu {
    /// Its value in the form.
    #[must_use]
    pub fn value(&self, node: &str) -> String {
        format!("{node}:{}", self.number)
    }
}

impl LeaseAssignView {
    /// A node that fits and one that does not.
    #[must_use]
    pub fn sample() -> Self {
        let node = |digit: &str, fits: bool| FreeNode {
            name: NodeName {
                id: digit.repeat(32),
                name: format!("gpu-node-{digit}"),
                origin: leasewatch_core::segment::Origin::Measured,
            },
            provider: if fits { "acme" } else { "other" }.to_owned(),
            fits,
            gpus: (0..2)
                .map(|number| FreeGpu {
                    number,
                    model: fits.then(|| "NVIDIA H100 80GB HBM3".to_owned()),
                    fits,
                })
                .collect(),
        };
        Self {
            tenant: "default".to_owned(),
            lease: "h100-train".to_owned(),
            gpus_unassigned: 8,
            gpus_contracted: 8,
            nodes: vec![node("1", true), node("2", false)],
            entered: (String::new(), String::new()),
            chosen: Vec::new(),
            faults: vec![FieldFault::new("gpus", super::lease_form::LeaseMatter::Invalid)],
        }
    }

    /// Nothing is free.
    #[must_use]
    pub fn empty_sample() -> Self {
        Self { nodes: Vec::new(), gpus_unassigned: 0, faults: Vec::new(), ..Self::sample() }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &LeaseAssignView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "lease_assign.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a LeaseAssignView,
}

impl Page<'_> {
    fn title(&self) -> String {
        phrase::lease_assign_title(self.cx.language, &self.view.lease)
    }

    fn back(&self) -> String {
        let (tenant, lease) = (self.view.tenant.clone(), self.view.lease.clone());
        self.cx.here.to(Route::Lease { tenant, lease, part: LeasePart::Page }).href()
    }

    fn action(&self) -> String {
        let (tenant, lease) = (&self.view.tenant, &self.view.lease);
        path::lease_action(&self.cx.here, pattern::LEASE_ASSIGN, tenant, lease)
    }

    fn missing(&self) -> Option<String> {
        let (count, contracted) = (self.view.gpus_unassigned, self.view.gpus_contracted);
        (count > 0).then(|| phrase::lease_unassigned(self.cx.language, contracted, count))
    }

    fn faults(&self) -> Markup {
        summary(&self.view.faults, self.cx)
    }

    fn times(&self) -> Markup {
        let mut out = Writer::default();
        let (from, to) = (&self.view.entered.0, &self.view.entered.1);
        let about = ("starts_at", Text::LeaseStart, Text::LeaseHintTime);
        line(&mut out, about, from, (&self.view.faults, self.cx));
        let about = ("ends_at", Text::LeaseEnd, Text::LeaseHintEnd);
        line(&mut out, about, to, (&self.view.faults, self.cx));
        out.finish()
    }

    fn label(&self, gpu: &FreeGpu) -> String {
        phrase::gpu_label(self.cx.language, gpu.number)
    }

    fn is_chosen(&self, value: &str) -> bool {
        self.view.chosen.iter().any(|chosen| chosen == value)
    }
}
