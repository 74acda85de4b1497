//! From a [`Profile`] to the text of its file, for contracts that are entered in a form.
//!
//! The text is what is kept, hashed and read back; nothing else of a form is.

use std::fmt::Write;

use super::{
    CreditFormula, CreditRule, DowntimeRule, Needs, Objective, PartialSlice, Predicate, Profile,
};
use crate::sla::claim::DeadlineRule;
use crate::sla::window::WindowRule;

/// Lines of TOML.
#[derive(Default)]
struct Lines(String);

pub(super) fn to_toml(profile: &Profile) -> String {
    let mut out = Lines::default();
    out.number("schema", 1);
    out.text("id", profile.id.as_str());
    out.number("version", i64::from(profile.version));
    out.text("provider", &profile.provider);
    out.text("product", &profile.product);
    out.some_text("effective_from", profile.effective_from);
    out.some_text("effective_to", profile.effective_to);
    out.line(&format!("reviewed = {}", profile.reviewed_by.is_some()));
    out.some_text("reviewed_by", profile.reviewed_by.as_ref());
    out.list("notes", &profile.notes);
    out.table("[source]");
    out.text("url", &profile.source.url);
    out.text("read_on", &profile.source.read_on);
    out.some_text("text_sha256", profile.source.text_hash);
    out.flag("second_hand", profile.source.second_hand);
    if let Some(lead_s) = profile.notice_lead_s {
        out.table("[notice]");
        out.number("lead_s", lead_s);
    }
    out.table("[claim]");
    deadline(&mut out, profile.deadline);
    out.list("evidence", &profile.evidence_required);
    if profile.response_within_s.is_some() || profile.replacement_within_s.is_some() {
        out.table("[support]");
        out.some_number("response_within_s", profile.response_within_s);
        out.some_number("replacement_within_s", profile.replacement_within_s);
    }
    for exclusion in &profile.exclusions {
        out.table("[[exclusion]]");
        out.text("id", exclusion.id.as_str());
        out.text("text", &exclusion.text);
    }
    profile.objectives.iter().for_each(|one| objective(&mut out, one));
    out.0
}

fn deadline(out: &mut Lines, rule: DeadlineRule) {
    match rule {
        DeadlineRule::Days { days, after } => {
            out.text("deadline", "days");
            out.number("days", i64::from(days));
            out.text("after", after.name());
        }
        DeadlineRule::BillingCycles { cycles } => {
            out.text("deadline", "billing_cycles");
            out.number("cycles", i64::from(cycles));
        }
        DeadlineRule::MonthsAfterBillingMonth { months } => {
            out.text("deadline", "months_after_billing_month");
            out.number("months", i64::from(months));
        }
        DeadlineRule::NotStated => out.text("deadline", "not_stated"),
    }
}

fn objective(out: &mut Lines, objective: &Objective) {
    out.table("[[objective]]");
    out.text("id", objective.id.as_str());
    out.text("unit", objective.unit.kind.name());
    match objective.unit.needs {
        Needs::All => {}
        Needs::Any => out.text("needs", "any"),
        Needs::AtLeast(count) => out.text("needs", &count.to_string()),
    }
    out.some_text("target", objective.target);
    out.text("denominator", objective.denominator.name());
    downtime(out, &objective.downtime);
    out.table("[objective.window]");
    match objective.window {
        WindowRule::Calendar { zone } => {
            out.text("kind", "calendar");
            out.text("zone", zone.name());
        }
        WindowRule::ServiceMonth { zone } => {
            out.text("kind", "service_month");
            out.text("zone", zone.name());
        }
        WindowRule::Billing => out.text("kind", "billing"),
        WindowRule::Rolling { days } => {
            out.text("kind", "rolling");
            out.number("days", i64::from(days));
        }
    }
    if let Some(rule) = &objective.credit {
        credit(out, rule);
    }
}

fn downtime(out: &mut Lines, rule: &DowntimeRule) {
    out.table("[objective.downtime]");
    let names: Vec<&str> = rule.predicates.iter().copied().map(Predicate::name).collect();
    out.list("predicates", &names);
    out.number("min_consecutive_s", rule.min_consecutive_s);
    out.text("partial_slice", PartialSlice::name(rule.partial_slice));
    out.number("slice_s", rule.slice_s);
    out.number("buffer_s", rule.buffer_s);
    out.flag("from_notice", rule.from_notice);
}

fn credit(out: &mut Lines, rule: &CreditRule) {
    out.table("[objective.credit]");
    match &rule.formula {
        CreditFormula::Tiers(tiers) => {
            out.text("kind", "tiers");
            let tier = |tier: &super::Tier| {
                format!("{{ below = \"{}\", share = \"{}\" }}", tier.below, tier.share)
            };
            let tiers: Vec<String> = tiers.iter().map(tier).collect();
            out.line(&format!("tiers = [{}]", tiers.join(", ")));
        }
        CreditFormula::ProRata => out.text("kind", "pro_rata"),
        CreditFormula::Multiplier(multiplier) => {
            out.text("kind", "multiplier");
            let (whole, milli) = (multiplier.factor_milli / 1_000, multiplier.factor_milli % 1_000);
            out.text("factor", &format!("{whole}.{milli:03}"));
            out.some_number("round_up_s", multiplier.round_up_s);
        }
        CreditFormula::HoursFromLastStart { cap_hours } => {
            out.text("kind", "hours_from_last_start");
            out.number("cap_hours", *cap_hours);
        }
    }
    out.text("base", rule.base.name());
    out.text("form", rule.form.name());
    out.some_text("cap", rule.cap);
    out.some_text("floor", rule.floor);
    out.some_text("minimum", rule.minimum);
    out.line(&format!("digits = {}", rule.digits));
}

impl Lines {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn table(&mut self, head: &str) {
        self.line("");
        self.line(head);
    }

    fn number(&mut self, name: &str, value: i64) {
        self.line(&format!("{name} = {value}"));
    }

    fn some_number(&mut self, name: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    /// Only what is true is written; absent is false.
    fn flag(&mut self, name: &str, value: bool) {
        if value {
            self.line(&format!("{name} = true"));
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        self.line(&format!("{name} = {}", quoted(value)));
    }

    fn some_text(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.text(name, &value.to_string());
        }
    }

    fn list(&mut self, name: &str, values: &[impl AsRef<str>]) {
        if !values.is_empty() {
            let quoted: Vec<String> = values.iter().map(|value| quoted(value.as_ref())).collect();
            self.line(&format!("{name} = [{}]", quoted.join(", ")));
        }
    }
}

/// A basic string of TOML. Whatever could end it or act is escaped, so a text of a form stays a
/// text.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
