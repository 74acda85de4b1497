//! What the contract says, but for prices. What it does not say is not listed.

use leasewatch_core::lease::{BillingUnit, FeeCycle, LeaseKind, LeaseTerms, ShareKind};

use super::{LeaseView, Section};
use crate::context::Context;
use crate::format::Quantity;
use crate::i18n::Text;
use crate::markup::{Markup, Writer};

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let mut out = Writer::default();
    out.open("dl", &[("class", &"pair")]);
    for (name, value) in facts(&view.terms, cx) {
        out.element("dt", &[], cx.t(name));
        out.open("dd", &[]);
        match value {
            Fact::Text(text) => out.text(text),
            Fact::Markup(markup) => out.add(&markup),
        }
        out.close("dd");
    }
    out.close("dl");
    Some(Section { id: "terms", title: Text::LeaseTerms, body: out.finish() })
}

enum Fact {
    Text(String),
    Markup(Markup),
}

fn facts(terms: &LeaseTerms, cx: &Context) -> Vec<(Text, Fact)> {
    let language = cx.language;
    let text = |name: Text, value: &str| (name, Fact::Text(value.to_owned()));
    let mut all = vec![
        text(Text::LeaseProduct, &terms.product),
        text(Text::LeaseKind, cx.t(kind(terms.kind))),
        text(Text::LeaseModel, &terms.gpu_model),
        text(Text::LeaseCount, &terms.gpu_count.to_string()),
        (Text::LeaseStart, Fact::Markup(cx.minute(terms.starts_at))),
    ];
    all.extend(terms.ends_at.map(|at| (Text::LeaseEnd, Fact::Markup(cx.minute(at)))));
    let released = terms.auto_release_at;
    all.extend(released.map(|at| (Text::LeaseRelease, Fact::Markup(cx.minute(at)))));
    if terms.share.kind != ShareKind::Whole {
        let part = Quantity::permille(i64::from(terms.share.ppm) / 1_000).text(language);
        all.push(text(Text::LeaseShare, &format!("{} {part}", cx.t(share(terms.share.kind)))));
    }
    let places = [
        (Text::LeaseRegion, &terms.region),
        (Text::LeaseInstance, &terms.instance),
        (Text::LeaseMachine, &terms.machine),
        (Text::LeaseOrder, &terms.order),
    ];
    all.extend(places.into_iter().filter_map(|(name, value)| Some(text(name, value.as_ref()?))));
    all.extend(terms.tax_ppm.map(|ppm| {
        text(Text::LeaseTax, &Quantity::permille(i64::from(ppm) / 1_000).text(language))
    }));
    let billing = terms.billing;
    all.push(text(Text::LeaseBillingUnit, cx.t(unit(billing.unit))));
    let stops = if billing.stop_ends_billing { Text::LeaseYes } else { Text::LeaseNo };
    all.push(text(Text::LeaseStopEnds, cx.t(stops)));
    all.push(text(Text::LeaseMonthDay, &billing.month_day.to_string()));
    all.push(text(Text::LeaseBillingZone, terms.zone.name()));
    let profile = terms.profile.as_ref().map(|of| format!("{}@{}", of.id, of.version));
    let own = || cx.t(Text::LeaseOwnObjectives).to_owned();
    all.push(text(Text::LeaseProfile, &profile.unwrap_or_else(own)));
    let minima = minima(terms, cx);
    if !minima.is_empty() {
        all.push(text(Text::LeaseMinima, &minima.join(cx.t(Text::ListSeparator))));
    }
    let fee = |fee: &leasewatch_core::lease::Fee| {
        format!("{}: {} {}", fee.name, fee.amount, cx.t(cycle(fee.cycle)))
    };
    if !terms.fees.is_empty() {
        let fees: Vec<_> = terms.fees.iter().map(fee).collect();
        all.push(text(Text::LeaseFees, &fees.join(cx.t(Text::ListSeparator))));
    }
    if !terms.labels.is_empty() {
        let labels = terms.labels.iter();
        let labels: Vec<_> =
            labels.map(|(name, value)| format!("{}={}", name.as_str(), value.as_str())).collect();
        all.push(text(Text::LeaseLabels, &labels.join(cx.t(Text::ListSeparator))));
    }
    all
}

fn minima(terms: &LeaseTerms, cx: &Context) -> Vec<String> {
    let minima = terms.minima;
    let quantity = |value: Option<i64>, unit: fn(i64) -> Quantity| {
        value.map(|value| unit(value).text(cx.language))
    };
    let named =
        |value: Option<i64>, name: Text| value.map(|value| format!("{}: {value}", cx.t(name)));
    let all = [
        quantity(minima.power_limit_mw, Quantity::whole_power_mw),
        quantity(minima.memory_mib, Quantity::memory_mib),
        quantity(minima.sm_clock_mhz, Quantity::clock_mhz),
        named(minima.pcie_generation, Text::LeasePcieGeneration),
        named(minima.pcie_width, Text::LeasePcieWidth),
        named(minima.nvlinks, Text::LeaseNvlinks),
    ];
    all.into_iter().flatten().collect()
}

pub(in crate::pages) fn kind(kind: LeaseKind) -> Text {
    match kind {
        LeaseKind::Own => Text::LeaseKindOwn,
        LeaseKind::Reserved => Text::LeaseKindReserved,
        LeaseKind::OnDemand => Text::LeaseKindOnDemand,
        LeaseKind::Spot => Text::LeaseKindSpot,
    }
}

pub(in crate::pages) fn share(kind: ShareKind) -> Text {
    match kind {
        ShareKind::Whole => Text::LeaseShareWhole,
        ShareKind::Mig => Text::LeaseShareMig,
        ShareKind::Vgpu => Text::LeaseShareVgpu,
        ShareKind::Software => Text::LeaseShareSoftware,
    }
}

pub(in crate::pages) fn unit(unit: BillingUnit) -> Text {
    match unit {
        BillingUnit::Second => Text::LeaseUnitSecond,
        BillingUnit::Minute => Text::LeaseUnitMinute,
        BillingUnit::StartedHour => Text::LeaseUnitStartedHour,
        BillingUnit::PrepaidHour => Text::LeaseUnitPrepaidHour,
        BillingUnit::Term => Text::LeaseUnitTerm,
    }
}

fn cycle(cycle: FeeCycle) -> Text {
    match cycle {
        FeeCycle::Once => Text::LeaseCycleOnce,
        FeeCycle::Month => Text::LeaseCycleMonth,
        FeeCycle::RunningHour => Text::LeaseCycleRunningHour,
        FeeCycle::StoppedHour => Text::LeaseCycleStoppedHour,
    }
}
