//! Claims: what was drafted, filed and answered, and every deadline that runs.

use askama::Template;
use leasewatch_core::money::Money;
use leasewatch_core::segment::Origin;
use leasewatch_core::sla::claim::Urgency;
use leasewatch_core::time::{Period, Timestamp, Zone};
use serde::{Serialize, Serializer};

use super::lease::UnitName;
use crate::claim_text;
use crate::context::{Context, SUGGESTED_ZONES};
use crate::deadline::{self, DeadlineLine};
use crate::format;
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{LeasePart, Route};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimsView {
    /// Deadlines that run, and those that passed not long ago, the nearest first.
    pub deadlines: Vec<DeadlineLine>,
    /// Claims, the latest first.
    pub claims: Vec<ClaimLine>,
    /// Whether tenants are told apart.
    pub shows_tenants: bool,
}

/// A claim as a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimLine {
    /// Its number.
    pub number: i32,
    /// The tenant's public name.
    pub tenant: String,
    /// The rental.
    pub lease: String,
    /// The provider; empty for a claim without a text.
    pub provider: String,
    /// Where the data that it rests on comes from.
    #[serde(serialize_with = "wire::maybe_origin")]
    pub origin: Option<Origin>,
    /// The objective that was missed.
    pub objective: String,
    /// What was down.
    pub unit: UnitName,
    /// The window that was judged.
    #[serde(serialize_with = "wire::period")]
    pub window: Period,
    /// `draft`, `notified`, `filed`, `accepted`, `refused` or `withdrawn`.
    pub state: &'static str,
    /// What is asked for.
    #[serde(serialize_with = "amount")]
    pub asked: Money,
    /// What the provider pays.
    #[serde(serialize_with = "maybe_amount")]
    pub granted: Option<Money>,
    /// The last instant at which it is in time; `None` where the contract states none.
    #[serde(serialize_with = "wire::maybe_at")]
    pub deadline_at: Option<Timestamp>,
    /// The zone whose days are counted.
    #[serde(serialize_with = "zone")]
    pub zone: Zone,
    /// How near it is, while it still counts.
    #[serde(serialize_with = "maybe_urgency")]
    pub urgency: Option<Urgency>,
    /// When it was drafted.
    #[serde(serialize_with = "wire::at")]
    pub drafted_at: Timestamp,
}

fn amount<S: Serializer>(money: &Money, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(money)
}

fn maybe_amount<S: Serializer>(money: &Option<Money>, serializer: S) -> Result<S::Ok, S::Error> {
    money.map(|money| money.to_string()).serialize(serializer)
}

fn zone<S: Serializer>(zone: &Zone, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(zone.name())
}

fn maybe_urgency<S: Serializer>(
    urgency: &Option<Urgency>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    urgency.map(Urgency::name).serialize(serializer)
}

impl ClaimLine {
    /// Where it stands; a deadline that was missed says so.
    pub(crate) fn state_words(&self, cx: &Context) -> &'static str {
        cx.t(match self.state {
            _ if self.urgency == Some(Urgency::Missed) => Text::ClaimLate,
            state => state_text(state),
        })
    }

    pub(crate) fn unit_words(&self, cx: &Context) -> String {
        let language = cx.language;
        match &self.unit {
            UnitName::Lease => claim_text::unit(None, None, language),
            UnitName::Node(node) => claim_text::unit(Some(node), None, language),
            UnitName::Gpu { node, number } => claim_text::unit(Some(node), Some(*number), language),
        }
    }

    /// How much is left and until when, while it counts; afterwards the instant alone.
    pub(crate) fn deadline(&self, cx: &Context) -> Markup {
        let mut out = Writer::default();
        match (self.deadline_at, self.urgency) {
            (Some(at), Some(urgency)) => {
                let class = deadline::class(urgency);
                out.element("strong", &[("class", &class)], deadline::left(at, cx));
                out.text(" ");
                let words = deadline::instants(at, self.zone, cx.language);
                out.element("time", &[("datetime", &at)], words);
            }
            (Some(at), None) => {
                let words = deadline::instants(at, self.zone, cx.language);
                out.element("time", &[("datetime", &at)], words);
            }
            (None, _) => out.text(cx.t(Text::ClaimNoRule)),
        }
        out.finish()
    }
}

/// The word for a state.
pub(crate) fn state_text(state: &str) -> Text {
    match state {
        "notified" => Text::ClaimNotified,
        "filed" => Text::ClaimFiled,
        "accepted" => Text::ClaimAccepted,
        "refused" => Text::ClaimRefused,
        "withdrawn" => Text::ClaimWithdrawn,
        _ => Text::ClaimDraft,
    }
}

impl ClaimsView {
    /// A claim in each state, and two deadlines.
    #[must_use]
    pub fn sample() -> Self {
        let states = ["draft", "notified", "filed", "accepted", "refused", "withdrawn"];
        let claims =
            (1_i32..7).zip(states).map(|(number, state)| super::claim::line_sample(number, state));
        let deadlines = DeadlineLine::samples();
        Self { deadlines, claims: claims.rev().collect(), shows_tenants: true }
    }

    /// Before there is one.
    #[must_use]
    pub fn empty_sample() -> Self {
        Self { deadlines: Vec::new(), claims: Vec::new(), shows_tenants: false }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &ClaimsView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "claims.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a ClaimsView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::ClaimTitle)
    }

    fn csv(&self) -> String {
        self.cx.here.claims_csv()
    }

    fn claim(&self, line: &ClaimLine) -> String {
        self.cx.here.to(Route::Claim(line.number)).href()
    }

    fn lease(&self, tenant: &str, lease: &str) -> String {
        let (tenant, lease) = (tenant.to_owned(), lease.to_owned());
        self.cx.here.to(Route::Lease { tenant, lease, part: LeasePart::Page }).href()
    }

    fn money(&self, amount: &Money) -> String {
        format::money(*amount)
    }

    fn heads(&self) -> Vec<&'static str> {
        let heads = [
            Text::ClaimNumber,
            Text::LeaseTitle,
            Text::WordProvider,
            Text::JudgedUnit,
            Text::JudgedWindow,
            Text::ClaimState,
            Text::ClaimAsked,
            Text::ClaimGranted,
            Text::ClaimDeadline,
        ];
        heads.iter().map(|head| self.cx.t(head)).collect()
    }

    fn units(&self, line: &DeadlineLine) -> String {
        phrase::deadline_units(self.cx.language, line.units)
    }
}
