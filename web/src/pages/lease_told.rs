//! What people told about a lease: the provider's notices with how early they came, the provider's
//! own records, and the tenant's stops; and the three forms that write one down.
//!
//! Nothing here is changed: what was wrong is withdrawn. Whether time is excluded is the judgement's
//! to say; the page shows the clause that it will go by.

mod sample;

use std::collections::BTreeMap;

use askama::Template;
use leasewatch_core::availability::DownCause;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};
use serde::{Serialize, Serializer};

use super::lease::table;
use super::lease_form::{FieldFault, Spec, fill_in, summary};
use crate::context::{Context, SUGGESTED_ZONES};
use crate::format::Quantity;
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{LeasePart, Route};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseToldView {
    /// The tenant's public name.
    pub tenant: String,
    /// The lease's.
    pub lease: String,
    /// The least trustworthy source of what is measured of it; `None`: no GPU is assigned.
    #[serde(serialize_with = "wire::maybe_origin")]
    pub origin: Option<Origin>,
    /// Notices that count, by their start.
    pub notices: Vec<NoticeLine>,
    /// The provider's records that count, by their start.
    pub records: Vec<RecordLine>,
    /// Stops that count, by their start.
    pub stops: Vec<StopLine>,
    /// Exclusions of the profile that judges now: their ids and words.
    pub clauses: Vec<(String, String)>,
    /// Whether who asks may write something down.
    pub may_change: bool,
    /// What was typed, by field.
    pub entered: BTreeMap<String, String>,
    /// What is wrong with it.
    pub faults: Vec<FieldFault>,
}

/// A notice of maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoticeLine {
    /// Its number within the tenant.
    pub number: i32,
    /// What was announced.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// When it came.
    #[serde(serialize_with = "wire::at")]
    pub received_at: Timestamp,
    /// How long before its start it came; negative: after it.
    pub lead_ms: i64,
    /// How long before it has to come; `None`: the profile has no such rule.
    pub needed_ms: Option<i64>,
    /// `ID@VERSION` of the profile that says so.
    pub profile: Option<String>,
    /// Whether it takes time out of the account; else it is disputed.
    pub counts: bool,
    /// The text as it was received.
    pub text: String,
}

/// An outage as the provider states it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordLine {
    /// Its number within the tenant.
    pub number: i32,
    /// When.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// What was down.
    #[serde(serialize_with = "cause_name")]
    pub cause: DownCause,
    /// Where it is written.
    pub source: String,
    /// The text as it was read.
    pub text: String,
}

/// Time that the tenant takes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StopLine {
    /// Its number within the tenant.
    pub number: i32,
    /// When.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// `stopped`, `maintenance` or `other`.
    pub kind: &'static str,
    /// The exclusion of the profile, for `other`.
    pub clause: Option<String>,
    /// In the tenant's words.
    pub reason: Option<String>,
}

fn cause_name<S: Serializer>(cause: &DownCause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

/// The three forms by the value of their button, which begins the names of their fields too.
pub const FORMS: [&str; 3] = ["notice", "record", "stop"];

const NOTICE: &[Spec] = &[
    Spec::line("notice_starts_at", Text::LeaseStart, Text::LeaseHintTime),
    Spec::line("notice_ends_at", Text::LeaseEnd, Text::ToldHintEnd),
    Spec::line("notice_received_at", Text::ToldReceived, Text::ToldHintReceived),
    Spec::lines("notice_text", Text::ToldText, Text::ToldHintText),
];

const RECORD: &[Spec] = &[
    Spec::line("record_starts_at", Text::LeaseStart, Text::LeaseHintTime),
    Spec::line("record_ends_at", Text::LeaseEnd, Text::ToldHintPast),
    Spec::choice("record_cause", Text::ToldCause, causes),
    Spec::line("record_source", Text::LeaseSource, Text::ToldHintSource),
    Spec::lines("record_text", Text::ToldText, Text::ToldHintText),
];

const STOP: &[Spec] = &[
    Spec::line("stop_starts_at", Text::LeaseStart, Text::LeaseHintTime),
    Spec::line("stop_ends_at", Text::LeaseEnd, Text::ToldHintEnd),
    Spec::choice("stop_kind", Text::LeaseKind, kinds),
    Spec::line("stop_clause", Text::ToldClause, Text::ToldHintClause),
    Spec::line("stop_reason", Text::LeaseReason, Text::ToldHintReason),
];

/// Every field of the three forms.
pub(super) fn specs() -> impl Iterator<Item = &'static Spec> {
    NOTICE.iter().chain(RECORD).chain(STOP)
}

/// Names of all fields of the three forms.
#[must_use]
pub fn field_names() -> Vec<&'static str> {
    specs().map(|spec| spec.name).collect()
}

fn causes() -> Vec<(&'static str, Text)> {
    DownCause::ALL.iter().map(|cause| (cause.name(), cause_words(*cause))).collect()
}

fn cause_words(cause: DownCause) -> Text {
    match cause {
        DownCause::Connectivity => Text::ToldConnectivity,
        DownCause::Disk => Text::ToldDisk,
        DownCause::Reboot => Text::ToldReboot,
        DownCause::GpuLost => Text::ToldGpuLost,
        DownCause::GpuReplaced => Text::ToldGpuReplaced,
        DownCause::GpuCount => Text::ToldGpuCount,
        DownCause::Hardware => Text::ToldHardware,
        DownCause::Fabric => Text::ToldFabric,
        DownCause::Throttle => Text::ToldThrottle,
    }
}

fn kinds() -> Vec<(&'static str, Text)> {
    vec![
        ("stopped", Text::ToldStopped),
        ("maintenance", Text::ToldMaintenance),
        ("other", Text::ToldOther),
    ]
}

impl LeaseToldView {
    /// A lease of which everything was told, and a mistake in a form.
    #[must_use]
    pub fn sample() -> Self {
        Self::with_everything()
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &LeaseToldView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "lease_told.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a LeaseToldView,
}

impl Page<'_> {
    fn title(&self) -> String {
        phrase::told_title(self.cx.language, &self.view.lease)
    }

    fn back(&self) -> String {
        let (tenant, lease) = (self.view.tenant.clone(), self.view.lease.clone());
        self.cx.here.to(Route::Lease { tenant, lease, part: LeasePart::Page }).href()
    }

    fn faults(&self) -> Markup {
        summary(&self.view.faults, self.cx)
    }

    fn notices(&self) -> Markup {
        let heads = [
            Text::ToldAnnounced,
            Text::ToldReceived,
            Text::ToldLead,
            Text::ToldCounts,
            Text::ToldText,
        ];
        let rows = self.view.notices.iter().map(|line| {
            let received = self.cx.minute(line.received_at).into();
            let cells = vec![
                self.period(line.period),
                received,
                self.lead(line).into(),
                self.counts(line).into(),
                line.text.clone().into(),
            ];
            (cells, "notice", line.number)
        });
        self.table(&heads, rows.collect())
    }

    /// `2 d 4 h; needed 3 d by acme-standard@2`.
    fn lead(&self, line: &NoticeLine) -> String {
        let language = self.cx.language;
        let duration = |ms: i64| Quantity::duration_ms(ms).text(language);
        let lead = if line.lead_ms < 0 {
            phrase::told_after_start(language, duration(-line.lead_ms))
        } else {
            duration(line.lead_ms)
        };
        match (line.needed_ms, &line.profile) {
            (Some(needed), Some(profile)) => {
                phrase::told_needed(language, lead, duration(needed), profile)
            }
            _ => phrase::told_no_rule(language, lead),
        }
    }

    fn counts(&self, line: &NoticeLine) -> &'static str {
        self.cx.t(if line.counts { Text::ToldExcludes } else { Text::ToldDisputed })
    }

    fn records(&self) -> Markup {
        let heads = [Text::LeaseWhen, Text::ToldCause, Text::LeaseSource, Text::ToldText];
        let rows = self.view.records.iter().map(|line| {
            let cells = vec![
                self.period(line.period),
                self.cx.t(cause_words(line.cause)).into(),
                line.source.clone().into(),
                line.text.clone().into(),
            ];
            (cells, "record", line.number)
        });
        self.table(&heads, rows.collect())
    }

    fn stops(&self) -> Markup {
        let heads = [Text::LeaseWhen, Text::LeaseKind, Text::LeaseReason];
        let rows = self.view.stops.iter().map(|line| {
            let found = kinds().into_iter().find(|(name, _)| *name == line.kind);
            let mut kind = found.map_or("", |(_, words)| self.cx.t(words)).to_owned();
            if let Some(clause) = &line.clause {
                kind = format!("{kind}: {clause}");
            }
            let reason = line.reason.clone().unwrap_or_default();
            (vec![self.period(line.period), kind.into(), reason.into()], "stop", line.number)
        });
        self.table(&heads, rows.collect())
    }

    fn period(&self, period: Period) -> table::Cell {
        let mut out = Writer::default();
        out.add(&self.cx.minute(period.start));
        out.text(" – ");
        out.add(&self.cx.minute(period.end));
        out.finish().into()
    }

    /// Rows with the way to withdraw each.
    fn table(&self, heads: &[Text], rows: Vec<(Vec<table::Cell>, &str, i32)>) -> Markup {
        let mut out = Writer::default();
        if rows.is_empty() {
            out.element("p", &[("class", &"quiet")], self.cx.t(Text::ToldNone));
            return out.finish();
        }
        let mut words: Vec<&str> = heads.iter().map(|head| self.cx.t(head)).collect();
        if self.view.may_change {
            words.push(self.cx.t(Text::AccessChange));
        }
        let rows = rows.into_iter().map(|(mut cells, what, number)| {
            if self.view.may_change {
                cells.push(self.withdraw(what, number).into());
            }
            (false, cells)
        });
        table::write(&mut out, &words, rows.collect());
        out.finish()
    }

    fn withdraw(&self, what: &str, number: i32) -> Markup {
        let mut out = Writer::default();
        let action = self.cx.here.href();
        out.open("form", &[("class", &"row"), ("method", &"post"), ("action", &action)]);
        out.open("input", &[("type", &"hidden"), ("name", &"number"), ("value", &number)]);
        let value = format!("withdraw_{what}");
        let attributes: [(&str, &dyn std::fmt::Display); 4] =
            [("class", &"small"), ("type", &"submit"), ("name", &"action"), ("value", &value)];
        out.element("button", &attributes, self.cx.t(Text::LeaseWithdraw));
        out.close("form");
        out.finish()
    }

    fn notice_form(&self) -> Markup {
        self.form(Text::ToldAddNotice, NOTICE, "notice")
    }

    fn record_form(&self) -> Markup {
        self.form(Text::ToldAddRecord, RECORD, "record")
    }

    fn stop_form(&self) -> Markup {
        self.form(Text::ToldAddStop, STOP, "stop")
    }

    /// Folded, unless something in it is wrong.
    fn form(&self, title: Text, specs: &[Spec], value: &str) -> Markup {
        let mut out = Writer::default();
        if !self.view.may_change {
            return out.finish();
        }
        let own = |fault: &FieldFault| specs.iter().any(|spec| spec.name == fault.field);
        let is_wrong = self.view.faults.iter().any(own);
        let attributes: [(&str, &dyn std::fmt::Display); 2] =
            [("class", &"more"), ("open", &"open")];
        out.open("details", attributes.get(..1 + usize::from(is_wrong)).unwrap_or_default());
        out.element("summary", &[], self.cx.t(title));
        let action = self.cx.here.href();
        out.open("form", &[("class", &"upload"), ("method", &"post"), ("action", &action)]);
        for spec in specs {
            let typed = self.view.entered.get(spec.name).map_or("", String::as_str);
            fill_in(&mut out, spec, typed, (&self.view.faults, self.cx));
        }
        let attributes: [(&str, &dyn std::fmt::Display); 3] =
            [("type", &"submit"), ("name", &"action"), ("value", &value)];
        out.element("button", &attributes, self.cx.t(Text::LeaseAdd));
        out.close("form");
        out.close("details");
        out.finish()
    }
}
