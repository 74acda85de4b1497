//! A claim: what is asked for and why, how much time is left, the text for the provider in both
//! languages, and the steps that it took.

mod sample;

use std::fmt::Display;

use askama::Template;
use leasewatch_core::id::Hash;
use leasewatch_core::money::Money;
use leasewatch_core::sla::claim_facts::ClaimFacts;
use leasewatch_core::time::Timestamp;
use serde::{Serialize, Serializer};

use super::claims::ClaimLine;
use crate::claim_text::{self, Letter};
use crate::context::{Context, SUGGESTED_ZONES};
use crate::format;
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{LeasePart, Route};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimView {
    /// As a row of the list.
    #[serde(flatten)]
    pub line: ClaimLine,
    /// `ID@VERSION` of the profile that judged.
    pub profile: String,
    /// The hash of its text.
    #[serde(serialize_with = "hash")]
    pub profile_hash: Hash,
    /// The hash of the verdict that it rests on.
    #[serde(serialize_with = "hash")]
    pub verdict_hash: Hash,
    /// What it was drafted from; `None` for one without a text.
    pub facts: Option<ClaimFacts>,
    /// When the provider was told.
    #[serde(serialize_with = "wire::maybe_at")]
    pub notified_at: Option<Timestamp>,
    /// Name of who drafted it.
    pub drafted_by: Option<String>,
    /// Its steps, in order.
    pub steps: Vec<StepLine>,
    /// Steps that may follow, for who may take them: `notify`, `file`, `accept`, `refuse`,
    /// `withdraw`.
    pub next: Vec<&'static str>,
    /// What was typed for a step.
    pub entered: EnteredStep,
    /// What is wrong with it.
    pub fault: Option<StepFault>,
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepLine {
    /// `notify`, `file`, `accept`, `refuse` or `withdraw`.
    pub step: String,
    /// When it happened.
    #[serde(serialize_with = "wire::at")]
    pub at: Timestamp,
    /// What the provider pays.
    #[serde(serialize_with = "maybe_amount")]
    pub amount: Option<Money>,
    /// The provider's words, or the tenant's.
    pub words: Option<String>,
    /// When it was written down.
    #[serde(serialize_with = "wire::at")]
    pub written_at: Timestamp,
    /// Name of the user then; `None`: nobody was signed in, or the command line.
    pub written_by: Option<String>,
}

/// What was typed for a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EnteredStep {
    /// When.
    pub at: String,
    /// How much is granted.
    pub amount: String,
    /// A note, or the provider's words.
    pub words: String,
}

/// What is wrong with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepFault {
    /// The time is none, or lies ahead.
    Time,
    /// It lies before the step before it.
    Earlier,
    /// A grant without an amount, or with one that cannot be.
    Amount,
    /// A refusal without its reason.
    Reason,
    /// It does not follow.
    Order,
    /// The words are too long.
    Long,
}

impl StepFault {
    fn text(self) -> Text {
        match self {
            Self::Time => Text::ClaimFaultTime,
            Self::Earlier => Text::ClaimFaultEarlier,
            Self::Amount => Text::ClaimFaultAmount,
            Self::Reason => Text::ClaimFaultReason,
            Self::Order => Text::ClaimFaultOrder,
            Self::Long => Text::ClaimFaultLong,
        }
    }
}

fn hash<S: Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(hash)
}

fn maybe_amount<S: Serializer>(money: &Option<Money>, serializer: S) -> Result<S::Ok, S::Error> {
    money.map(|money| money.to_string()).serialize(serializer)
}

impl ClaimView {
    /// A draft with everything that a text can say, and a mistake in the form.
    #[must_use]
    pub fn sample() -> Self {
        sample::draft()
    }

    /// One that was filed and refused, which a viewer looks at.
    #[must_use]
    pub fn refused_sample() -> Self {
        sample::refused()
    }

    /// The text in a language; `None` for a claim that was drafted without one.
    #[must_use]
    pub fn text(&self, language: Language) -> Option<String> {
        let facts = self.facts.as_ref()?;
        let letter = Letter {
            lease: &self.line.lease,
            objective: &self.line.objective,
            profile: &self.profile,
            profile_hash: self.profile_hash,
            window: self.line.window,
            asked: &self.line.asked.to_string(),
            deadline: self.line.deadline_at,
            notified_at: self.notified_at,
            facts,
        };
        Some(claim_text::text(&letter, language))
    }

    /// Both texts as one file, the one in `first` before the other.
    #[must_use]
    pub fn file(&self, first: Language) -> Option<String> {
        let other = if first == Language::En { Language::ZhCn } else { Language::En };
        let rule = "-".repeat(72);
        Some(format!("{}\n{rule}\n\n{}", self.text(first)?, self.text(other)?))
    }
}

/// A row of the list, for its sample.
pub(super) fn line_sample(number: i32, state: &'static str) -> ClaimLine {
    sample::line(number, state)
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &ClaimView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "claim.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a ClaimView,
}

impl Page<'_> {
    fn title(&self) -> String {
        phrase::claim_one(self.cx.language, self.view.line.number)
    }

    fn claims(&self) -> String {
        self.cx.here.to(Route::Claims).href()
    }

    fn lease(&self) -> String {
        let (tenant, lease) = (self.view.line.tenant.clone(), self.view.line.lease.clone());
        self.cx.here.to(Route::Lease { tenant, lease, part: LeasePart::Page }).href()
    }

    fn action(&self) -> String {
        self.cx.here.claim_step()
    }

    fn file(&self) -> String {
        self.cx.here.claim_text()
    }

    fn money(&self, amount: &Money) -> String {
        format::money(*amount)
    }

    fn objective(&self) -> String {
        phrase::claim_objective_of(self.cx.language, &self.view.line.objective, &self.view.profile)
    }

    /// The provider's own names for what is rented.
    fn identity(&self) -> Vec<String> {
        let language = self.cx.language;
        let Some(facts) = &self.view.facts else { return Vec::new() };
        let instance = facts.instance.iter().map(|id| phrase::claim_instance(language, id));
        let machine = facts.machine.iter().map(|id| phrase::claim_machine(language, id));
        let order = facts.order.iter().map(|id| phrase::claim_order(language, id));
        instance.chain(machine).chain(order).collect()
    }

    fn arithmetic(&self) -> Vec<String> {
        let facts = self.view.facts.as_ref();
        facts.map_or_else(Vec::new, |facts| claim_text::arithmetic(facts, self.cx.language))
    }

    fn is_unreviewed(&self) -> bool {
        self.view.facts.as_ref().is_some_and(|facts| !facts.is_reviewed)
    }

    /// Id, language and words of each text, the page's language first.
    fn texts(&self) -> Vec<(String, Language, String)> {
        let mut languages = Language::ALL;
        languages.sort_by_key(|language| *language != self.cx.language);
        let text = |language: Language| {
            Some((format!("text-{}", language.tag()), language, self.view.text(language)?))
        };
        languages.into_iter().filter_map(text).collect()
    }

    fn step(&self, step: &str) -> &'static str {
        self.cx.t(match step {
            "notify" => Text::ClaimStepNotify,
            "file" => Text::ClaimStepFile,
            "accept" => Text::ClaimStepAccept,
            "refuse" => Text::ClaimStepRefuse,
            _ => Text::ClaimStepWithdraw,
        })
    }

    fn heads(&self) -> Vec<&'static str> {
        let heads =
            [Text::ClaimStep, Text::ClaimWhen, Text::ClaimGranted, Text::ClaimWords, Text::ClaimBy];
        heads.iter().map(|head| self.cx.t(head)).collect()
    }

    fn fault(&self) -> Option<&'static str> {
        self.view.fault.map(|fault| self.cx.t(fault.text()))
    }

    fn writer(&self, by: &Option<String>) -> String {
        super::lease::writer(by.as_deref(), self.cx)
    }

    fn buttons(&self) -> Markup {
        let mut out = Writer::default();
        for step in &self.view.next {
            let words = match *step {
                "notify" => Text::ClaimDoNotify,
                "file" => Text::ClaimDoFile,
                "accept" => Text::ClaimDoAccept,
                "refuse" => Text::ClaimDoRefuse,
                _ => Text::ClaimDoWithdraw,
            };
            let attributes: [(&str, &dyn Display); 3] =
                [("type", &"submit"), ("name", &"step"), ("value", step)];
            out.element("button", &attributes, self.cx.t(words));
        }
        out.finish()
    }

    fn has(&self, step: &str) -> bool {
        self.view.next.contains(&step)
    }

    fn amount_hint(&self) -> String {
        phrase::claim_amount_hint(self.cx.language, self.view.line.asked.currency)
    }
}
