//! A lease: what was judged of it, its terms, what they were before, which GPUs it covers, what is
//! billed of it.
//!
//! The page is a list of sections ([`SECTIONS`]): another one is a file beside `lease/terms.rs`, a
//! line there, and what it shows in [`LeaseView`].

mod assignments;
mod budget;
mod calendar;
mod claims;
mod history;
mod inventory;
mod judgement;
mod prices;
mod reliability;
pub mod report;
mod sample;
mod sessions;
pub(super) mod table;
pub(super) mod terms;
mod verdict;

use askama::Template;
use leasewatch_core::lease::{LeaseTerms, SessionSource};
use leasewatch_core::segment::{Event, Origin};
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use super::NodeName;
use super::claims::ClaimLine;
use super::lease_form::FieldFault;
use super::leases::{LeaseState, term};
use super::prices::OfferLine;
use super::reliability::ReliabilityView;
use crate::context::{Context, SUGGESTED_ZONES};
use crate::deadline::DeadlineLine;
use crate::format;
use crate::i18n::{Language, Text, phrase};
use crate::markup::Markup;
use crate::path::{self, LeasePart, Route, pattern};
use crate::wire;

pub use judgement::{
    BudgetLine, BurnLine, ClaimMark, DayStates, JudgementView, UnitName, VerdictLine,
};

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseView {
    /// The tenant's public name.
    pub tenant: String,
    /// Whether tenants are told apart.
    pub shows_tenant: bool,
    /// Where it stands.
    pub state: LeaseState,
    /// What was judged.
    pub judgement: JudgementView,
    /// Deadlines of claims that run, or passed not long ago.
    pub deadlines: Vec<DeadlineLine>,
    /// Its claims, the latest first.
    pub claims: Vec<ClaimLine>,
    /// The claim that holds what another one was to be drafted from.
    pub taken_by: Option<i32>,
    /// How reliable its nodes were in the last days.
    pub reliability: Option<ReliabilityView>,
    /// What the contract says, as files have it.
    pub terms: LeaseTerms,
    /// Every revision of the terms, the latest first.
    pub history: Vec<Revision>,
    /// Assignments, by node, GPU and start; withdrawn ones too.
    pub assignments: Vec<AssignmentLine>,
    /// GPUs that are paid for and not assigned now, or were not last.
    pub gpus_unassigned: i64,
    /// The most GPUs that are assigned at once, and since when, where those are more than are
    /// contracted.
    pub surplus: Option<Surplus>,
    /// The weekly rule by which it runs.
    pub schedule: Option<ScheduleLine>,
    /// The cheapest offers of its model in price tables, in its currency.
    pub offers: Vec<OfferLine>,
    /// Offers that cost less per GPU-hour than it does now.
    pub offers_cheaper: i64,
    /// Billing sessions, the latest first.
    pub sessions: Vec<SessionLine>,
    /// Changes of the hardware of its nodes within the term, the latest first.
    pub inventory: Vec<InventoryLine>,
    /// Whether who asks may change it.
    pub may_change: bool,
    /// What was typed for a session.
    pub entered: EnteredSession,
    /// What was typed for a weekly rule.
    pub entered_schedule: EnteredSchedule,
    /// What is wrong with what was sent.
    pub faults: Vec<FieldFault>,
}

/// More GPUs than are contracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Surplus {
    /// How many are assigned.
    pub gpus: i64,
    /// Since when.
    #[serde(serialize_with = "wire::at")]
    pub since: Timestamp,
}

/// A weekly rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScheduleLine {
    /// A stretch a line.
    pub rule: String,
    /// The zone of its times.
    pub zone: String,
    /// From when it holds.
    #[serde(serialize_with = "wire::at")]
    pub starts_at: Timestamp,
}

/// What was typed for a weekly rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EnteredSchedule {
    /// The rule.
    pub rule: String,
    /// From when it holds.
    pub from: String,
}

/// A revision of the terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// From 1.
    pub revision: u32,
    /// When it was written.
    #[serde(serialize_with = "wire::at")]
    pub written_at: Timestamp,
    /// Name of the user then; `None`: the command line.
    pub written_by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// What the contract said then.
    pub terms: LeaseTerms,
}

/// An assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AssignmentLine {
    /// Its number within the tenant.
    pub number: i32,
    /// The node.
    pub node: NodeName,
    /// The GPU's number on it.
    pub gpu: u16,
    /// As it was entered.
    #[serde(serialize_with = "wire::at")]
    pub starts_at: Timestamp,
    /// As it was entered; `None`: as long as the lease.
    #[serde(serialize_with = "wire::maybe_at")]
    pub ends_at: Option<Timestamp>,
    /// When it was written.
    #[serde(serialize_with = "wire::at")]
    pub written_at: Timestamp,
    /// Name of the user then; `None`: the command line.
    pub written_by: Option<String>,
    /// Since when it counts no longer.
    #[serde(serialize_with = "wire::maybe_at")]
    pub withdrawn_at: Option<Timestamp>,
    /// Why it was withdrawn.
    pub reason: Option<String>,
}

/// A billing session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionLine {
    /// Its number within the tenant.
    pub number: i32,
    /// From when.
    #[serde(serialize_with = "wire::at")]
    pub starts_at: Timestamp,
    /// Until when; `None` while it runs.
    #[serde(serialize_with = "wire::maybe_at")]
    pub ends_at: Option<Timestamp>,
    /// Who says so.
    pub source: SessionSource,
}

/// A change of a node's hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InventoryLine {
    /// The node.
    pub node: NodeName,
    /// What happened.
    #[serde(serialize_with = "wire::event")]
    pub event: Event,
}

/// What was typed for a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EnteredSession {
    /// From when.
    pub starts_at: String,
    /// Until when.
    pub ends_at: String,
}

/// A part of the page.
pub(super) struct Section {
    id: &'static str,
    title: Text,
    body: Markup,
}

/// Parts of the page in their order; `None` where there is nothing to say.
const SECTIONS: [fn(&LeaseView, &Context) -> Option<Section>; 11] = [
    verdict::section,
    claims::section,
    budget::section,
    calendar::section,
    reliability::section,
    terms::section,
    assignments::section,
    sessions::section,
    prices::section,
    inventory::section,
    history::section,
];

impl LeaseView {
    /// A lease with something in each section, and a mistake in the form.
    #[must_use]
    pub fn sample() -> Self {
        Self::with_everything()
    }

    /// A lease that was just written down.
    #[must_use]
    pub fn new_sample() -> Self {
        Self::with_little()
    }

    /// Where a form about it is sent.
    fn action(&self, pattern: &str, cx: &Context) -> String {
        path::lease_action(&cx.here, pattern, &self.tenant, self.terms.name.as_str())
    }

    fn part(&self, part: LeasePart, cx: &Context) -> String {
        let (tenant, lease) = (self.tenant.clone(), self.terms.name.to_string());
        cx.here.to(Route::Lease { tenant, lease, part }).href()
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &LeaseView, context: &Context) -> Result<String, askama::Error> {
    let sections = SECTIONS.iter().filter_map(|section| section(view, context)).collect();
    Ok(super::inert(&Page { cx: context, view, sections }.render()?))
}

#[derive(Template)]
#[template(path = "lease.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a LeaseView,
    sections: Vec<Section>,
}

impl Page<'_> {
    fn title(&self) -> String {
        phrase::lease_page_title(self.cx.language, &self.view.terms.name)
    }

    fn term(&self) -> String {
        term(self.view.terms.starts_at, self.view.terms.ends_at, self.cx)
    }

    fn edit(&self) -> String {
        self.view.part(LeasePart::Edit, self.cx)
    }

    fn assign(&self) -> String {
        self.view.part(LeasePart::Assign, self.cx)
    }

    /// The report of the last month that the lease was there in.
    fn report(&self, pattern: &str) -> String {
        let month = self.report_month();
        let href = self.view.action(pattern, self.cx);
        let joint = if href.contains('?') { '&' } else { '?' };
        format!("{href}{joint}month={month}")
    }

    /// The one that runs, or the one that it ended in.
    fn report_month(&self) -> String {
        let terms = &self.view.terms;
        let last = terms.ends_at.map_or(self.cx.now, |end| end.plus_ms(-1).min(self.cx.now));
        let local = terms.zone.local(last).map(|local| (local.year, local.month));
        local.map_or_else(String::new, path::month_text)
    }

    fn told(&self) -> String {
        self.view.part(LeasePart::Told, self.cx)
    }

    /// Hour records from its start on, up to its end or now.
    fn hours(&self) -> String {
        let zone = self.cx.zone;
        let terms = &self.view.terms;
        let last = terms.ends_at.map_or(self.cx.now, |end| end.plus_ms(-1).min(self.cx.now));
        let start = terms.starts_at.min(last);
        let (from, to) = (format::iso_date(start, zone), format::iso_date(last, zone));
        let mut nodes = self.view.assignments.iter().map(|line| line.node.id.as_str());
        // The file is of one node or of all that may be seen.
        let first = nodes.next();
        let only = first.filter(|first| nodes.all(|node| node == *first));
        path::hours_csv(&from, &to, zone, only)
    }

    /// The least trustworthy of the nodes that it covers marks all that is said of it.
    fn origin(&self) -> Option<Origin> {
        self.view.assignments.iter().map(|line| line.node.origin).max()
    }

    fn faults(&self) -> Markup {
        super::lease_form::summary(&self.view.faults, self.cx)
    }
}

/// Who wrote something.
pub(super) fn writer(by: Option<&str>, cx: &Context) -> String {
    by.map_or_else(|| cx.t(Text::LeaseCommandLine).to_owned(), str::to_owned)
}
