//! The credit rule of an objective's file.

use toml::Spanned;

use super::file::{CreditFile, Text, TierFile};
use super::read::{Fault, Read, fault, one_of, percent, seconds, whole};
use super::{CreditBase, CreditForm, CreditFormula, CreditRule, DowntimeRule, Multiplier, Tier};
use crate::money::Money;
use crate::sla::Target;

/// Fields that only some kinds have, and of which.
const KINDS: [(&str, &str); 4] = [
    ("tiers", "tiers"),
    ("factor", "multiplier"),
    ("round_up_s", "multiplier"),
    ("cap_hours", "hours_from_last_start"),
];

pub(super) fn read(
    file: &Spanned<CreditFile>,
    target: Option<Target>,
    downtime: &DowntimeRule,
) -> Read<CreditRule> {
    let rule = file.get_ref();
    let kind = rule.kind.get_ref().as_str();
    let there = [
        !rule.tiers.is_empty(),
        rule.factor.is_some(),
        rule.round_up_s.is_some(),
        rule.cap_hours.is_some(),
    ];
    for ((name, of), there) in KINDS.into_iter().zip(there) {
        if there && of != kind {
            return Err(fault(name, &rule.kind, format!("it has no place in the kind {kind}")));
        }
    }
    let missing = |name| fault(name, &rule.kind, format!("the kind {kind} needs it"));
    let formula = match kind {
        "tiers" => {
            CreditFormula::Tiers(tiers(&rule.tiers, target).ok_or_else(|| missing("tiers"))??)
        }
        "pro_rata" => CreditFormula::ProRata,
        "multiplier" => {
            let factor = rule.factor.as_ref().ok_or_else(|| missing("factor"))?;
            let step = rule.round_up_s.as_ref().map(|step| seconds("round_up_s", step, 1));
            CreditFormula::Multiplier(Multiplier {
                factor_milli: milli(factor)?,
                round_up_s: step.transpose()?,
            })
        }
        "hours_from_last_start" => {
            let cap = rule.cap_hours.as_ref().ok_or_else(|| missing("cap_hours"))?;
            CreditFormula::HoursFromLastStart {
                cap_hours: i64::from(whole("cap_hours", cap, 1..10_000)?),
            }
        }
        _ => {
            let reason = "one of tiers, pro_rata, multiplier, hours_from_last_start";
            return Err(fault("kind", &rule.kind, reason));
        }
    };
    let by_outage = matches!(
        formula,
        CreditFormula::HoursFromLastStart { .. }
            | CreditFormula::Multiplier(Multiplier { round_up_s: Some(_), .. })
    );
    if by_outage && downtime.buffer_s > 0 {
        let reason = "credits of single outages leave no downtime of a window to take a buffer off";
        return Err(fault("kind", &rule.kind, reason));
    }
    let money = |name, text: &Option<Text>| {
        let parse = |text: &Text| {
            text.get_ref().parse::<Money>().map_err(|e| fault(name, text, e.to_string()))
        };
        text.as_ref().map(parse).transpose()
    };
    let digits = rule.digits.as_ref().map_or(Ok(2), |digits| whole("digits", digits, 0..10))?;
    Ok(CreditRule {
        formula,
        base: rule.base.as_ref().map_or(Ok(CreditBase::UnitCharge), |base| {
            one_of("base", base, CreditBase::ALL, CreditBase::name)
        })?,
        form: rule.form.as_ref().map_or(Ok(CreditForm::Money), |form| {
            one_of("form", form, CreditForm::ALL, CreditForm::name)
        })?,
        cap: rule.cap.as_ref().map(|cap| percent("cap", cap)).transpose()?,
        floor: money("floor", &rule.floor)?,
        minimum: money("minimum", &rule.minimum)?,
        digits: usize::try_from(digits).unwrap_or(2),
    })
}

/// Tiers from the highest edge down; `None` when there are none.
fn tiers(files: &[TierFile], target: Option<Target>) -> Option<Read<Vec<Tier>>> {
    let first = files.first()?;
    let mut out: Vec<Tier> = Vec::with_capacity(files.len());
    for file in files {
        match tier(file, out.last()) {
            Ok(tier) => out.push(tier),
            Err(fault) => return Some(Err(fault)),
        }
    }
    if target.is_none_or(|target| out[0].below > target) {
        let reason = "the first edge does not lie above the objective's target";
        return Some(Err(fault("below", &first.below, reason)));
    }
    Some(Ok(out))
}

fn tier(file: &TierFile, above: Option<&Tier>) -> Result<Tier, Fault> {
    let tier =
        Tier { below: percent("below", &file.below)?, share: percent("share", &file.share)? };
    match above {
        Some(above) if tier.below >= above.below => {
            Err(fault("below", &file.below, "edges go down"))
        }
        Some(above) if tier.share <= above.share => {
            Err(fault("share", &file.share, "shares go up as edges go down"))
        }
        _ => Ok(tier),
    }
}

/// `1.5` as 1,500: a decimal above 0 with at most three digits after the point.
fn milli(text: &Text) -> Read<i64> {
    let wrong = || fault("factor", text, "a decimal above 0 with at most 3 digits after the point");
    let (units, fraction) = text.get_ref().split_once('.').unwrap_or((text.get_ref(), "0"));
    let digits = |part: &str, max| {
        !part.is_empty() && part.len() <= max && part.bytes().all(|b| b.is_ascii_digit())
    };
    if !digits(units, 6) || !digits(fraction, 3) {
        return Err(wrong());
    }
    let milli = format!("{units}{fraction:0<3}").parse().map_err(|_| wrong())?;
    if milli == 0 { Err(wrong()) } else { Ok(milli) }
}
