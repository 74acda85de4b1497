//! The form of a lease: six fields are enough, the others are folded until somebody needs them.
//!
//! What is wrong stands beside its field, and what was typed stays. Fields have the names of the
//! written form; what they mean is read by the server.

mod field;

use std::collections::BTreeMap;
use std::fmt::Display;

use askama::Template;
use leasewatch_core::time::{Period, Timestamp};
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::format::{self, Detail};
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{self, LeasePart, Route, pattern};
use crate::wire;

use field::PARTS;
pub(super) use field::{Kind, Spec};

pub use field::field_names;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseFormView {
    /// Tenant and name of the lease that is changed; `None` for a new one.
    pub of: Option<(String, String)>,
    /// Public names of the tenants in which a new one can be.
    pub tenants: Vec<String>,
    /// What was typed, by field.
    pub entered: BTreeMap<String, String>,
    /// What is wrong with it.
    pub faults: Vec<FieldFault>,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldFault {
    /// Its name in the form.
    pub field: String,
    /// What.
    #[serde(flatten)]
    pub matter: LeaseMatter,
}

/// What can be wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "matter", rename_all = "snake_case")]
pub enum LeaseMatter {
    /// It has to be filled in.
    Missing,
    /// It does not hold what it is for.
    Invalid,
    /// Another lease has the name.
    Taken,
    /// A lease stays with its provider.
    OtherProvider,
    /// Time that another session covers.
    SessionOverlap,
    /// There are no such clauses, or not in this version.
    NoProfile,
    /// A GPU that another lease covers.
    Overlap {
        /// The node.
        node: String,
        /// The GPU's number on it.
        gpu: u16,
        /// The other lease.
        other: String,
        /// When.
        #[serde(serialize_with = "wire::period")]
        period: Period,
    },
}

impl FieldFault {
    /// A fault of a field.
    #[must_use]
    pub fn new(field: &str, matter: LeaseMatter) -> Self {
        Self { field: field.to_owned(), matter }
    }

    fn words(&self, hint: Text, cx: &Context) -> String {
        let text = |text: Text| cx.t(text).to_owned();
        match &self.matter {
            LeaseMatter::Missing => text(Text::ImportMissing),
            LeaseMatter::Invalid => text(hint),
            LeaseMatter::Taken => text(Text::LeaseTaken),
            LeaseMatter::OtherProvider => text(Text::LeaseOtherProvider),
            LeaseMatter::NoProfile => text(Text::LeaseNoProfile),
            LeaseMatter::SessionOverlap => text(Text::LeaseSessionOverlap),
            LeaseMatter::Overlap { node, gpu, other, period } => {
                let when = when(*period, cx);
                phrase::lease_overlap(cx.language, gpu, node, other, when)
            }
        }
    }
}

fn when(period: Period, cx: &Context) -> String {
    let moment = |at| format::moment(at, cx.zone, cx.language, Detail::Minute);
    if period.end < Timestamp::MAX {
        phrase::lease_from_to(cx.language, moment(period.end), moment(period.start))
    } else {
        phrase::lease_since(cx.language, moment(period.start))
    }
}

impl LeaseFormView {
    /// A new lease with two mistakes.
    #[must_use]
    pub fn sample() -> Self {
        let typed = [("name", "h100-train"), ("provider", "acme"), ("gpu_count", "many")];
        let entered = typed.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Self {
            of: None,
            tenants: vec!["default".to_owned(), "research".to_owned()],
            entered: entered.into(),
            faults: vec![
                FieldFault::new("gpu_count", LeaseMatter::Invalid),
                FieldFault::new("gpu_model", LeaseMatter::Missing),
            ],
        }
    }

    /// A lease that is changed, to a term that does not go.
    #[must_use]
    pub fn edit_sample() -> Self {
        let period = Period::new(super::sample::NOW, Timestamp::MAX);
        let overlap = LeaseMatter::Overlap {
            node: "gpu-node-1".to_owned(),
            gpu: 3,
            other: "h100-next".to_owned(),
            period,
        };
        Self {
            of: Some(("default".to_owned(), "h100-train".to_owned())),
            tenants: Vec::new(),
            faults: vec![FieldFault::new("ends_at", overlap)],
            ..Self::sample()
        }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &LeaseFormView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "lease_form.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a LeaseFormView,
}

impl Page<'_> {
    fn title(&self) -> String {
        match &self.view.of {
            None => self.cx.t(Text::LeaseNew).to_owned(),
            Some((_, name)) => phrase::lease_edit_title(self.cx.language, name),
        }
    }

    fn action(&self) -> String {
        match &self.view.of {
            None => self.cx.here.to(Route::LeaseNew).href(),
            Some((tenant, lease)) => {
                path::lease_action(&self.cx.here, pattern::LEASE_EDIT, tenant, lease)
            }
        }
    }

    /// Where it leads back to.
    fn back(&self) -> String {
        match &self.view.of {
            None => self.cx.leases(),
            Some((tenant, lease)) => {
                let (tenant, lease) = (tenant.clone(), lease.clone());
                self.cx.here.to(Route::Lease { tenant, lease, part: LeasePart::Page }).href()
            }
        }
    }

    fn faults(&self) -> Markup {
        summary(&self.view.faults, self.cx)
    }

    fn tenants(&self) -> Markup {
        let mut out = Writer::default();
        if self.view.tenants.len() > 1 {
            let chosen = self.view.entered.get("tenant").map_or("", String::as_str);
            let all = self.view.tenants.iter().map(|tenant| (tenant.as_str(), tenant.as_str()));
            out.open("div", &[("class", &"field")]);
            out.element("label", &[("for", &"tenant")], self.cx.t(Text::LeaseTenant));
            choice(&mut out, "tenant", (chosen, false), all);
            out.close("div");
        }
        out.finish()
    }

    /// Parts of the form; all but the first are folded unless something in them is wrong or filled.
    fn parts(&self) -> Markup {
        let mut out = Writer::default();
        for (index, (title, specs)) in PARTS.iter().enumerate() {
            if let Some(title) = title {
                let is_wrong = specs.iter().any(|spec| self.is_wrong(spec));
                let is_open = is_wrong || self.view.of.is_some();
                let class: (&str, &dyn Display) = ("class", &"more");
                let open: (&str, &dyn Display) = ("open", &"open");
                let attributes = [class, open];
                out.open("details", attributes.get(..1 + usize::from(is_open)).unwrap_or_default());
                out.element("summary", &[], self.cx.t(*title));
            }
            for spec in *specs {
                self.field(&mut out, spec);
            }
            if index > 0 {
                out.close("details");
            }
        }
        if self.view.of.is_some() {
            let reason = Spec::line("reason", Text::LeaseReason, Text::LeaseHintReason);
            self.field(&mut out, &reason);
        }
        out.finish()
    }

    fn is_wrong(&self, spec: &Spec) -> bool {
        self.view.faults.iter().any(|fault| fault.field == spec.name)
    }

    fn field(&self, out: &mut Writer, spec: &Spec) {
        let value = self.view.entered.get(spec.name).map_or("", String::as_str);
        fill_in(out, spec, value, (&self.view.faults, self.cx));
    }
}

/// A field of whatever kind, with its label, hint and fault.
pub(super) fn fill_in(
    out: &mut Writer,
    spec: &Spec,
    value: &str,
    (faults, cx): (&[FieldFault], &Context),
) {
    let about = (spec.name, spec.label, spec.hint);
    let is_wrong = faults.iter().any(|fault| fault.field == spec.name);
    match spec.kind {
        Kind::Line => line(out, about, value, (faults, cx)),
        Kind::Choice(choices) => {
            let words = choices().into_iter().map(|(value, text)| (value, cx.t(text)));
            open_field(out, about, cx);
            choice(out, spec.name, (value, is_wrong), words);
            close_field(out, about, (faults, cx));
        }
        Kind::Lines => lines(out, about, value, (faults, cx)),
    }
}

/// Name, label and hint of a field.
type About = (&'static str, Text, Text);

fn open_field(out: &mut Writer, (name, label, _): About, cx: &Context) {
    out.open("div", &[("class", &"field")]);
    out.element("label", &[("for", &name)], cx.t(label));
}

/// The hint, in red with what is wrong where something is.
fn close_field(out: &mut Writer, (name, _, hint): About, (faults, cx): (&[FieldFault], &Context)) {
    let about = format!("about-{name}");
    let fault = faults.iter().find(|fault| fault.field == name);
    let words = fault.map(|fault| fault.words(hint, cx));
    // A list says by itself that something of it is to be chosen.
    if words.is_none() && hint == Text::LeaseHintChoice {
        out.close("div");
        return;
    }
    out.open("p", &[("class", &"note"), ("id", &about)]);
    if let Some(words) = &words {
        out.element("strong", &[], words);
        out.text(" ");
    }
    if words.as_deref() != Some(cx.t(hint)) {
        out.text(cx.t(hint));
    }
    out.close("p");
    out.close("div");
}

/// A line to type into, with its label, hint and fault.
pub(super) fn line(
    out: &mut Writer,
    about: About,
    value: &str,
    (faults, cx): (&[FieldFault], &Context),
) {
    let name = about.0;
    open_field(out, about, cx);
    let described = format!("about-{name}");
    let mut attributes: Vec<(&str, &dyn Display)> = vec![
        ("id", &name),
        ("name", &name),
        ("value", &value),
        ("maxlength", &"400"),
        ("autocomplete", &"off"),
        ("spellcheck", &"false"),
        ("aria-describedby", &described),
    ];
    if faults.iter().any(|fault| fault.field == name) {
        attributes.push(("aria-invalid", &"true"));
    }
    out.open("input", &attributes);
    close_field(out, about, (faults, cx));
}

/// Lines to type into, with their label, hint and fault.
pub(super) fn lines(
    out: &mut Writer,
    about: About,
    value: &str,
    (faults, cx): (&[FieldFault], &Context),
) {
    let name = about.0;
    open_field(out, about, cx);
    let described = format!("about-{name}");
    let mut attributes: Vec<(&str, &dyn Display)> = vec![
        ("id", &name),
        ("name", &name),
        ("rows", &"3"),
        ("spellcheck", &"false"),
        ("aria-describedby", &described),
    ];
    if faults.iter().any(|fault| fault.field == name) {
        attributes.push(("aria-invalid", &"true"));
    }
    out.element("textarea", &attributes, value);
    close_field(out, about, (faults, cx));
}

fn choice<'a>(
    out: &mut Writer,
    name: &str,
    (chosen, is_wrong): (&str, bool),
    all: impl Iterator<Item = (&'a str, &'a str)>,
) {
    let mut attributes: Vec<(&str, &dyn Display)> = vec![("id", &name), ("name", &name)];
    if is_wrong {
        attributes.push(("aria-invalid", &"true"));
    }
    out.open("select", &attributes);
    for (value, words) in all {
        let option: (&str, &dyn Display) = ("value", &value);
        let selected: (&str, &dyn Display) = ("selected", &"selected");
        let is_chosen = value == chosen;
        let attributes = if is_chosen { &[option, selected][..] } else { &[option][..] };
        out.element("option", attributes, words);
    }
    out.close("select");
}

/// What is wrong, at the top of the page; nothing when nothing is.
pub(super) fn summary(faults: &[FieldFault], cx: &Context) -> Markup {
    let mut out = Writer::default();
    if !faults.is_empty() {
        out.open("section", &[("class", &"faults"), ("id", &"faults"), ("role", &"alert")]);
        out.element("h2", &[], cx.t(Text::ImportFaults));
        out.open("ul", &[]);
        for fault in faults {
            let (label, hint) = field::about(&fault.field);
            out.open("li", &[]);
            let href = format!("#{}", fault.field);
            out.element("a", &[("href", &href)], cx.t(label));
            out.text(" ");
            out.text(fault.words(hint, cx));
            out.close("li");
        }
        out.close("ul");
        out.close("section");
    }
    out.finish()
}
