//! The fields of the form, by part.

use leasewatch_core::lease::{BillingUnit, LeaseKind, PriceUnit, ShareKind};

use super::super::lease::terms;
use super::super::lease_told;
use crate::i18n::Text;

/// A field.
#[derive(Clone, Copy)]
pub(in crate::pages) struct Spec {
    /// Its name, as the written form has it.
    pub(in crate::pages) name: &'static str,
    pub(in crate::pages) label: Text,
    /// What it has to be.
    pub(in crate::pages) hint: Text,
    pub(in crate::pages) kind: Kind,
}

/// How it is filled in.
#[derive(Clone, Copy)]
pub(in crate::pages) enum Kind {
    Line,
    /// Values with their words.
    Choice(fn() -> Vec<(&'static str, Text)>),
    Lines,
}

impl Spec {
    pub(in crate::pages) const fn line(name: &'static str, label: Text, hint: Text) -> Self {
        Self { name, label, hint, kind: Kind::Line }
    }

    pub(in crate::pages) const fn lines(name: &'static str, label: Text, hint: Text) -> Self {
        Self { name, label, hint, kind: Kind::Lines }
    }

    pub(in crate::pages) const fn choice(
        name: &'static str,
        label: Text,
        choices: fn() -> Vec<(&'static str, Text)>,
    ) -> Self {
        Self { name, label, hint: Text::LeaseHintChoice, kind: Kind::Choice(choices) }
    }
}

fn kinds() -> Vec<(&'static str, Text)> {
    let usual = [LeaseKind::Reserved, LeaseKind::OnDemand, LeaseKind::Spot, LeaseKind::Own];
    usual.into_iter().map(|kind| (kind.name(), terms::kind(kind))).collect()
}

fn shares() -> Vec<(&'static str, Text)> {
    ShareKind::ALL.iter().map(|kind| (kind.name(), terms::share(*kind))).collect()
}

fn units() -> Vec<(&'static str, Text)> {
    BillingUnit::ALL.iter().map(|unit| (unit.name(), terms::unit(*unit))).collect()
}

fn price_units() -> Vec<(&'static str, Text)> {
    let words = |unit: &PriceUnit| match unit {
        PriceUnit::GpuHour => Text::LeaseUnitGpuHour,
        PriceUnit::Month => Text::LeaseUnitMonth,
    };
    PriceUnit::ALL.iter().map(|unit| (unit.name(), words(unit))).collect()
}

fn yes_or_no() -> Vec<(&'static str, Text)> {
    vec![("no", Text::LeaseNo), ("yes", Text::LeaseYes)]
}

type Part = (Option<Text>, &'static [Spec]);

/// Parts of the form; the first stands open.
pub(super) const PARTS: [Part; 4] = [
    (
        None,
        &[
            Spec::line("name", Text::LeaseName, Text::LeaseHintName),
            Spec::line("provider", Text::WordProvider, Text::LeaseHintProvider),
            Spec::line("gpu_model", Text::LeaseModel, Text::LeaseHintText),
            Spec::line("gpu_count", Text::LeaseCount, Text::LeaseHintCount),
            Spec::line("starts_at", Text::LeaseStart, Text::LeaseHintTime),
            Spec::line("price", Text::LeasePrice, Text::LeaseHintPrice),
            Spec::choice("price_unit", Text::LeasePriceUnit, price_units),
            Spec::line("currency", Text::LeaseCurrency, Text::LeaseHintCurrency),
        ],
    ),
    (
        Some(Text::LeasePartContract),
        &[
            Spec::choice("kind", Text::LeaseKind, kinds),
            Spec::line("ends_at", Text::LeaseEnd, Text::LeaseHintEnd),
            Spec::line("auto_release_at", Text::LeaseRelease, Text::LeaseHintRelease),
            Spec::line("product", Text::LeaseProduct, Text::LeaseHintText),
            Spec::line("profile", Text::LeaseProfile, Text::LeaseHintProfile),
            Spec::line("region", Text::LeaseRegion, Text::LeaseHintText),
            Spec::line("instance", Text::LeaseInstance, Text::LeaseHintText),
            Spec::line("machine", Text::LeaseMachine, Text::LeaseHintText),
            Spec::line("order", Text::LeaseOrder, Text::LeaseHintText),
            Spec::choice("share_kind", Text::LeaseShareKind, shares),
            Spec::line("share", Text::LeaseShare, Text::LeaseHintShare),
            Spec::lines("labels", Text::LeaseLabels, Text::LeaseHintLabels),
        ],
    ),
    (
        Some(Text::LeasePartBilling),
        &[
            Spec::lines("prices", Text::LeasePrices, Text::LeaseHintPrices),
            Spec::lines("fees", Text::LeaseFees, Text::LeaseHintFees),
            Spec::line("tax", Text::LeaseTax, Text::LeaseHintPercent),
            Spec::choice("billing_unit", Text::LeaseBillingUnit, units),
            Spec::choice("stop_ends_billing", Text::LeaseStopEnds, yes_or_no),
            Spec::line("month_day", Text::LeaseMonthDay, Text::LeaseHintDay),
            Spec::line("zone", Text::LeaseBillingZone, Text::LeaseHintZone),
        ],
    ),
    (
        Some(Text::LeaseMinima),
        &[
            Spec::line("power_limit_w", Text::LeasePowerLimit, Text::LeaseHintNumber),
            Spec::line("memory_mib", Text::LeaseMemory, Text::LeaseHintNumber),
            Spec::line("sm_clock_mhz", Text::LeaseSmClock, Text::LeaseHintNumber),
            Spec::line("pcie_generation", Text::LeasePcieGeneration, Text::LeaseHintNumber),
            Spec::line("pcie_width", Text::LeasePcieWidth, Text::LeaseHintNumber),
            Spec::line("nvlinks", Text::LeaseNvlinks, Text::LeaseHintNumber),
        ],
    ),
];

/// Names of all fields of the form.
#[must_use]
pub fn field_names() -> Vec<&'static str> {
    let all = PARTS.iter().flat_map(|(_, specs)| specs.iter().map(|spec| spec.name));
    all.chain(["reason", "tenant"]).collect()
}

/// Label and hint of a field of any form about leases.
pub(super) fn about(name: &str) -> (Text, Text) {
    let own = PARTS.iter().flat_map(|(_, specs)| specs.iter());
    let spec = own.chain(lease_told::specs()).find(|spec| spec.name == name);
    match (spec, name) {
        (Some(spec), _) => (spec.label, spec.hint),
        (None, "rule") => (Text::LeaseSchedule, Text::LeaseHintSchedule),
        (None, "rule_from") => (Text::LeaseFrom, Text::LeaseHintScheduleFrom),
        (None, "gpus") => (Text::LeaseAssignments, Text::LeaseAssignChoose),
        (None, "labels") => (Text::LeaseLabels, Text::LeaseHintLabels),
        (None, _) => (Text::LeaseReason, Text::LeaseHintReason),
    }
}
