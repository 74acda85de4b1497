//! SLA profiles that leases can name, and the form of an own contract.

use std::collections::BTreeMap;

use leasewatch_core::time::Timestamp;
use serde::Serialize;

use super::lease::table;
use super::sheet::{self, Head};
use crate::context::Context;
use crate::i18n::{Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{self, Route, pattern};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContractsView {
    /// Own contracts first, then what comes with the program; each version is a line.
    pub contracts: Vec<ContractLine>,
    /// Public names of tenants that may have one.
    pub tenants: Vec<String>,
    /// What was typed, by field; empty before anything was.
    pub entered: BTreeMap<String, String>,
    /// The field that is wrong, and why in the words of the parser.
    pub wrong: Option<(String, String)>,
}

/// A version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContractLine {
    /// The tenant whose own contract it is; `None`: it comes with the program.
    pub tenant: Option<String>,
    /// Its name.
    pub id: String,
    /// Its version, which never changes.
    pub version: u32,
    /// The provider, as people call it.
    pub provider: String,
    /// The product.
    pub product: String,
    /// Whether a person checked it against the text.
    pub is_reviewed: bool,
    /// When it was written; `None` for what comes with the program.
    #[serde(serialize_with = "wire::maybe_at")]
    pub written_at: Option<Timestamp>,
}

enum Kind {
    Line,
    Lines,
    /// One of these: as profiles name it, and in words.
    Choice(&'static [(&'static str, Text)]),
}

type Spec = (&'static str, Text, &'static str, Kind);

const UNITS: &[(&str, Text)] = &[
    ("gpu", Text::ContractUnitGpu),
    ("node", Text::ContractUnitNode),
    ("cluster", Text::ContractUnitCluster),
    ("account", Text::ContractUnitAccount),
    ("region", Text::ContractUnitRegion),
];
const DENOMINATORS: &[(&str, Text)] = &[
    ("contracted", Text::ContractPerContracted),
    ("calendar", Text::ContractPerCalendar),
    ("contracted-minus-excluded", Text::ContractPerCounted),
];
const SLICES: &[(&str, Text)] = &[
    ("exact", Text::ContractSliceExact),
    ("drop", Text::ContractSliceDrop),
    ("floor", Text::ContractSliceFloor),
    ("ceil", Text::ContractSliceCeil),
];
const WINDOWS: &[(&str, Text)] = &[
    ("calendar", Text::ContractOverCalendar),
    ("billing", Text::ContractOverBilling),
    ("service_month", Text::ContractOverService),
    ("rolling", Text::ContractOverRolling),
];
const DEADLINES: &[(&str, Text)] = &[
    ("not_stated", Text::ContractByNothing),
    ("days", Text::ContractByDays),
    ("billing_cycles", Text::ContractByCycles),
    ("months_after_billing_month", Text::ContractByMonths),
];
const CREDITS: &[(&str, Text)] = &[
    ("", Text::ContractCreditNone),
    ("tiers", Text::ContractCreditTiers),
    ("pro_rata", Text::ContractCreditProRata),
];
const BASES: &[(&str, Text)] = &[
    ("", Text::ContractBaseNone),
    ("lease-charge", Text::ContractBaseLease),
    ("unit-charge", Text::ContractBaseUnit),
    ("prior-lease-charge", Text::ContractBasePrior),
];

/// Fields of the form: name, label, an example or what there is, and how they are filled in.
const FIELDS: [Spec; 29] = [
    ("contract", Text::LeaseName, "our-contract", Kind::Line),
    ("provider", Text::WordProvider, "Acme Cloud", Kind::Line),
    ("product", Text::LeaseProduct, "8x H100", Kind::Line),
    ("url", Text::ContractSource, "contract 2026-118", Kind::Line),
    ("read_on", Text::ContractReadOn, "2026-11-30", Kind::Line),
    ("objective", Text::ContractObjective, "availability", Kind::Line),
    ("target", Text::ContractTarget, "99.5", Kind::Line),
    ("unit", Text::ContractUnit, "", Kind::Choice(UNITS)),
    ("needs", Text::ContractNeeds, "all, any, 7", Kind::Line),
    (
        "predicates",
        Text::ContractPredicates,
        "connectivity, disk, gpu_lost, gpu_count, fabric, hardware, throttle, unusable",
        Kind::Lines,
    ),
    ("min_consecutive_s", Text::ContractMinimum, "300", Kind::Line),
    ("partial_slice", Text::ContractSlice, "", Kind::Choice(SLICES)),
    ("buffer_s", Text::ContractBuffer, "600", Kind::Line),
    ("window", Text::ContractWindow, "", Kind::Choice(WINDOWS)),
    ("zone", Text::LayoutZone, "Asia/Shanghai", Kind::Line),
    ("window_days", Text::ContractWindowDays, "7", Kind::Line),
    ("denominator", Text::ContractDenominator, "", Kind::Choice(DENOMINATORS)),
    ("credit", Text::ContractCredit, "", Kind::Choice(CREDITS)),
    ("tiers", Text::ContractTiers, "99.5 10", Kind::Lines),
    ("base", Text::ContractBase, "", Kind::Choice(BASES)),
    ("lead_s", Text::ContractNotice, "86400", Kind::Line),
    ("deadline", Text::ContractDeadline, "", Kind::Choice(DEADLINES)),
    ("claim_days", Text::ContractClaimDays, "30", Kind::Line),
    ("after", Text::ContractAfter, "incident, period_end, notice", Kind::Line),
    ("cycles", Text::ContractCycles, "2", Kind::Line),
    ("months", Text::ContractMonths, "2", Kind::Line),
    ("evidence", Text::ContractEvidence, "timestamps, logs", Kind::Lines),
    ("effective_from", Text::ContractFrom, "2026-01-01T00:00:00Z", Kind::Line),
    ("reviewed_by", Text::ContractReviewed, "li.lei", Kind::Line),
];

/// Names of all fields of the form.
#[must_use]
pub fn field_names() -> Vec<&'static str> {
    FIELDS.iter().map(|(name, ..)| *name).chain(["tenant"]).collect()
}

impl ContractsView {
    /// An own contract in two versions, a shipped one, and a form with a mistake.
    #[must_use]
    pub fn sample() -> Self {
        let line = |tenant: Option<&str>, id: &str, version| ContractLine {
            tenant: tenant.map(str::to_owned),
            id: id.to_owned(),
            version,
            provider: "Acme <Cloud>".to_owned(),
            product: "8x H100".to_owned(),
            is_reviewed: tenant.is_some(),
            written_at: tenant.map(|_| super::sample::NOW),
        };
        let typed = [("contract", "our-contract"), ("target", "lots"), ("unit", "node")];
        Self {
            contracts: vec![
                line(Some("default"), "our-contract", 2),
                line(Some("default"), "our-contract", 1),
                line(None, "aws-ec2", 1),
            ],
            tenants: vec!["default".to_owned(), "research".to_owned()],
            entered: typed.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
            wrong: Some(("target".to_owned(), "a percentage".to_owned())),
        }
    }

    /// For who may only look.
    #[must_use]
    pub fn reading_sample() -> Self {
        let Self { contracts, .. } = Self::sample();
        Self { contracts, tenants: Vec::new(), entered: BTreeMap::new(), wrong: None }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &ContractsView, context: &Context) -> Result<String, askama::Error> {
    let head = Head {
        title: context.t(Text::ContractTitle).to_owned(),
        back: Some((context.leases(), context.t(Text::LeaseTitle))),
        origin: None,
    };
    sheet::render(context, head, body(view, context))
}

fn body(view: &ContractsView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.element("p", &[("class", &"lead")], cx.t(Text::ContractLead));
    if let Some((field, why)) = &view.wrong {
        out.open("section", &[("class", &"faults"), ("role", &"alert")]);
        out.element("h2", &[], cx.t(Text::LeaseTableNotStored));
        out.open("p", &[]);
        let spec = FIELDS.iter().find(|(name, ..)| name == field);
        let words = cx.t(spec.map_or(Text::ContractTitle, |(_, label, ..)| *label));
        out.element("a", &[("href", &format!("#{field}"))], words);
        out.text(" ");
        out.element("code", &[], why);
        out.close("p");
        out.close("section");
    }
    let heads = [
        Text::LeaseName,
        Text::ContractVersion,
        Text::WordProvider,
        Text::LeaseProduct,
        Text::LeaseTenant,
        Text::ContractReviewed,
    ];
    let heads = heads.map(|head| cx.t(head));
    let rows = view.contracts.iter().map(|line| (false, row(line, !view.tenants.is_empty(), cx)));
    table::write(&mut out, &heads, rows.collect());
    if !view.tenants.is_empty() {
        form(&mut out, view, cx);
    }
    out.finish()
}

fn row(line: &ContractLine, may_change: bool, cx: &Context) -> Vec<table::Cell> {
    let mut name = Writer::default();
    match line.tenant.as_deref().filter(|_| may_change) {
        // From here the form begins with what this one says.
        Some(tenant) => {
            let href = path::contract(&cx.here, tenant, &line.id);
            name.element("a", &[("href", &href)], &line.id);
        }
        None => name.element("code", &[], &line.id),
    }
    let reviewed = if line.is_reviewed { Text::LeaseYes } else { Text::LeaseNo };
    let tenant = line.tenant.clone().unwrap_or_else(|| cx.t(Text::ContractShipped).to_owned());
    vec![
        name.finish().into(),
        line.version.to_string().into(),
        line.provider.clone().into(),
        line.product.clone().into(),
        tenant.into(),
        cx.t(reviewed).into(),
    ]
}

fn form(out: &mut Writer, view: &ContractsView, cx: &Context) {
    let action = path::of_money(&cx.here.to(Route::Contracts), pattern::CONTRACTS);
    out.open("form", &[("class", &"upload"), ("method", &"post"), ("action", &action)]);
    let typed = |name: &str| view.entered.get(name).map_or("", String::as_str);
    let title = match typed("contract") {
        "" => cx.t(Text::ContractNew).to_owned(),
        name => phrase::contract_next(cx.language, name),
    };
    out.element("h2", &[], title);
    if view.tenants.len() > 1 {
        let all: Vec<_> = view.tenants.iter().map(|name| (name.clone(), name.clone())).collect();
        sheet::choice(out, ("tenant", cx.t(Text::LeaseTenant)), typed("tenant"), &all);
    }
    for (name, label, hint, kind) in &FIELDS {
        let about = (*name, cx.t(*label));
        match kind {
            Kind::Line => sheet::line(out, about, typed(name), hint),
            Kind::Lines => sheet::lines(out, about, typed(name), hint),
            Kind::Choice(values) => {
                let words =
                    |(value, words): &(&str, Text)| ((*value).to_owned(), cx.t(words).to_owned());
                let all: Vec<_> = values.iter().map(words).collect();
                sheet::choice(out, about, typed(name), &all);
            }
        }
    }
    sheet::button(out, "store", cx.t(Text::LeaseSave));
    out.close("form");
}
