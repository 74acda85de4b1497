//! From the text of a profile's file to a [`Profile`]: names become kinds, texts become numbers.
//!
//! Nothing is filled in that the file could have meant otherwise: what a kind does not need may
//! not stand there, and what it needs must.

use std::ops::Range;

use toml::Spanned;

use super::file::{ClaimFile, DowntimeFile, Int, ObjectiveFile, ProfileFile, SourceFile, Text};
use super::file::{ExclusionFile, WindowFile};
use super::{
    Denominator, DowntimeRule, ExclusionClause, Needs, Objective, PartialSlice, Predicate, Profile,
    Source, Unit, UnitKind, credit,
};
use crate::id::{Hash, Slug, clean_text};
use crate::sla::Target;
use crate::sla::claim::{DeadlineRule, DeadlineStart};
use crate::sla::window::WindowRule;
use crate::time::{Timestamp, Zone};

/// The schema that this version reads.
const SCHEMA: i64 = 1;
/// No profile's file is longer.
const FILE_BYTES_MAX: usize = 65_536;
/// No text in it is longer, in characters.
const TEXT_MAX: usize = 2_000;
/// No time in it is longer, in seconds: ten years.
const SECONDS_MAX: i64 = 315_360_000;

/// Why a profile cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, {field}: {reason}")]
pub struct ProfileError {
    /// Where, from 1. A missing field has the line of its table.
    pub line: usize,
    /// The field's name.
    pub field: String,
    /// What is wrong, and what is expected.
    pub reason: String,
}

/// Something wrong at a place of the file.
pub(super) struct Fault {
    at: usize,
    field: &'static str,
    reason: String,
}

pub(super) type Read<T> = Result<T, Fault>;

pub(super) fn parse(text: &str) -> Result<Profile, ProfileError> {
    if text.len() > FILE_BYTES_MAX {
        let reason = format!("a profile has at most {FILE_BYTES_MAX} bytes");
        return Err(ProfileError { line: 1, field: "file".to_owned(), reason });
    }
    let file: ProfileFile = toml::from_str(text).map_err(|error| shape_error(text, &error))?;
    let hash = Hash::of(text.as_bytes());
    profile(file, hash).map_err(|fault| ProfileError {
        line: line_of(text, fault.at),
        field: fault.field.to_owned(),
        reason: fault.reason,
    })
}

/// What the TOML reader says, with the field that it does not name itself.
fn shape_error(text: &str, error: &toml::de::Error) -> ProfileError {
    let at = error.span().map_or(0, |span| span.start);
    let message = error.message();
    let named = message.split('`').nth(1).filter(|_| message.contains(" field `"));
    let line = line_of(text, at);
    let key = text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(key, _)| key);
    let field = named.or(key).unwrap_or("file").trim();
    ProfileError {
        line,
        field: clean_text(field, 80),
        reason: clean_text(&message.replace('\n', " "), 300),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    1 + before.iter().fold(0, |lines, byte| lines + usize::from(*byte == b'\n'))
}

fn profile(file: ProfileFile, hash: Hash) -> Read<Profile> {
    if *file.schema.get_ref() != SCHEMA {
        return Err(fault("schema", &file.schema, format!("this version reads schema {SCHEMA}")));
    }
    let objectives = file.objective.into_iter().map(objective).collect::<Read<Vec<_>>>()?;
    let effective_from = file.effective_from.as_ref().map(|at| instant("effective_from", at));
    let effective_to = file.effective_to.as_ref().map(|at| instant("effective_to", at));
    let (effective_from, effective_to) = (effective_from.transpose()?, effective_to.transpose()?);
    if let (Some(from), Some(to), Some(at)) = (effective_from, effective_to, &file.effective_to)
        && to <= from
    {
        return Err(fault("effective_to", at, "it lies after effective_from"));
    }
    let reviewed_by = match (file.reviewed.get_ref(), &file.reviewed_by) {
        (true, Some(name)) => Some(words("reviewed_by", name)?),
        (false, None) => None,
        (true, None) => return Err(fault("reviewed", &file.reviewed, "say who, in reviewed_by")),
        (false, Some(name)) => {
            return Err(fault("reviewed_by", name, "set reviewed = true, or leave it out"));
        }
    };
    let lead = file.notice.as_ref().map(|notice| seconds("lead_s", &notice.lead_s, 0));
    let seconds_of =
        |name, value: &Option<Int>| value.as_ref().map(|value| seconds(name, value, 1)).transpose();
    Ok(Profile {
        id: slug("id", &file.id)?,
        version: whole("version", &file.version, 1..1_000_000)?,
        hash,
        provider: words("provider", &file.provider)?,
        product: words("product", &file.product)?,
        effective_from,
        effective_to,
        source: source(&file.source)?,
        reviewed_by,
        objectives: unique(objectives)?,
        exclusions: file.exclusion.iter().map(exclusion).collect::<Read<Vec<_>>>()?,
        notice_lead_s: lead.transpose()?,
        deadline: deadline(&file.claim)?,
        evidence_required: all_words("evidence", &file.claim.evidence)?,
        response_within_s: seconds_of("response_within_s", &file.support.response_within_s)?,
        replacement_within_s: seconds_of(
            "replacement_within_s",
            &file.support.replacement_within_s,
        )?,
        notes: all_words("notes", &file.notes)?,
    })
}

fn source(file: &SourceFile) -> Read<Source> {
    let text_hash = file.text_sha256.as_ref().map(|text| {
        text.get_ref().parse().map_err(|_| fault("text_sha256", text, "64 lower-case hex digits"))
    });
    let midnight = format!("{}T00:00:00Z", file.read_on.get_ref());
    if Timestamp::parse_iso(&midnight).is_none() {
        return Err(fault("read_on", &file.read_on, "a date such as 2026-11-30"));
    }
    Ok(Source {
        url: words("url", &file.url)?,
        read_on: file.read_on.get_ref().clone(),
        text_hash: text_hash.transpose()?,
        second_hand: file.second_hand,
    })
}

fn exclusion(file: &ExclusionFile) -> Read<ExclusionClause> {
    Ok(ExclusionClause { id: slug("id", &file.id)?, text: words("text", &file.text)? })
}

fn deadline(file: &ClaimFile) -> Read<DeadlineRule> {
    let kind = file.deadline.get_ref().as_str();
    let fields = [
        ("days", file.days.is_some(), "days"),
        ("after", file.after.is_some(), "days"),
        ("cycles", file.cycles.is_some(), "billing_cycles"),
        ("months", file.months.is_some(), "months_after_billing_month"),
    ];
    if let Some((name, ..)) = fields.iter().find(|(_, there, of)| *there && *of != kind) {
        return Err(fault(name, &file.deadline, format!("it has no place in the kind {kind}")));
    }
    let count = |name, value: &Option<Int>| match value {
        Some(value) => whole(name, value, 1..1_000),
        None => Err(fault(name, &file.deadline, format!("the kind {kind} needs it"))),
    };
    match kind {
        "days" => {
            let after = file.after.as_ref();
            let after = after.ok_or_else(|| fault("after", &file.deadline, "days need it"))?;
            let days = count("days", &file.days)?;
            let after = one_of("after", after, DeadlineStart::ALL, DeadlineStart::name)?;
            Ok(DeadlineRule::Days { days, after })
        }
        "billing_cycles" => {
            Ok(DeadlineRule::BillingCycles { cycles: count("cycles", &file.cycles)? })
        }
        "months_after_billing_month" => {
            let months = count("months", &file.months)?;
            Ok(DeadlineRule::MonthsAfterBillingMonth { months })
        }
        "not_stated" => Ok(DeadlineRule::NotStated),
        _ => Err(fault(
            "deadline",
            &file.deadline,
            "one of days, billing_cycles, months_after_billing_month, not_stated",
        )),
    }
}

fn objective(file: Spanned<ObjectiveFile>) -> Read<(Range<usize>, Objective)> {
    let span = file.span();
    let file = file.into_inner();
    let target = file.target.as_ref().map(|text| percent("target", text)).transpose()?;
    let downtime = downtime(&file.downtime)?;
    let objective = Objective {
        id: slug("id", &file.id)?,
        unit: unit(&file)?,
        target,
        window: window(&file.window)?,
        denominator: one_of("denominator", &file.denominator, Denominator::ALL, Denominator::name)?,
        credit: file
            .credit
            .as_ref()
            .map(|rule| credit::read(rule, target, &downtime))
            .transpose()?,
        downtime,
    };
    Ok((span, objective))
}

fn unit(file: &ObjectiveFile) -> Read<Unit> {
    let kind = one_of("unit", &file.unit, UnitKind::ALL, UnitKind::name)?;
    let needs = match &file.needs {
        None => Needs::All,
        Some(needs) => match needs.get_ref().as_str() {
            "all" => Needs::All,
            "any" => Needs::Any,
            count => match count.parse() {
                Ok(count) if (1..=1_000_000).contains(&count) => Needs::AtLeast(count),
                _ => return Err(fault("needs", needs, "\"all\", \"any\" or a count as text")),
            },
        },
    };
    Ok(Unit { kind, needs })
}

fn downtime(file: &DowntimeFile) -> Read<DowntimeRule> {
    let read = |text: &Text| one_of("predicates", text, Predicate::ALL, Predicate::name);
    let predicates = file.predicates.get_ref().iter().map(read).collect::<Read<Vec<_>>>()?;
    if predicates.is_empty() {
        return Err(fault("predicates", &file.predicates, "at least one"));
    }
    let or = |name, value: &Option<Int>, least, absent| {
        value.as_ref().map_or(Ok(absent), |value| seconds(name, value, least))
    };
    Ok(DowntimeRule {
        predicates,
        min_consecutive_s: or("min_consecutive_s", &file.min_consecutive_s, 0, 0)?,
        partial_slice: one_of(
            "partial_slice",
            &file.partial_slice,
            PartialSlice::ALL,
            PartialSlice::name,
        )?,
        slice_s: or("slice_s", &file.slice_s, 1, 60)?,
        buffer_s: or("buffer_s", &file.buffer_s, 0, 0)?,
        from_notice: file.from_notice,
    })
}

fn window(file: &WindowFile) -> Read<WindowRule> {
    let kind = file.kind.get_ref().as_str();
    let zone = || match &file.zone {
        Some(zone) => {
            Zone::parse(zone.get_ref()).map_err(|error| fault("zone", zone, error.to_string()))
        }
        None => Err(fault("zone", &file.kind, format!("the kind {kind} needs it"))),
    };
    let rule = match kind {
        "calendar" => WindowRule::Calendar { zone: zone()? },
        "service_month" => WindowRule::ServiceMonth { zone: zone()? },
        "billing" => WindowRule::Billing,
        "rolling" => match &file.days {
            Some(days) => WindowRule::Rolling { days: whole("days", days, 1..3_661)? },
            None => return Err(fault("days", &file.kind, "the kind rolling needs it")),
        },
        _ => {
            let reason = "one of calendar, billing, service_month, rolling";
            return Err(fault("kind", &file.kind, reason));
        }
    };
    let has_zone = matches!(rule, WindowRule::Calendar { .. } | WindowRule::ServiceMonth { .. });
    match (&file.zone, &file.days) {
        (Some(zone), _) if !has_zone => {
            Err(fault("zone", zone, format!("it has no place in the kind {kind}")))
        }
        (_, Some(days)) if !matches!(rule, WindowRule::Rolling { .. }) => {
            Err(fault("days", days, format!("it has no place in the kind {kind}")))
        }
        _ => Ok(rule),
    }
}

/// Objectives, at least one, of which no two have the same id.
fn unique(objectives: Vec<(Range<usize>, Objective)>) -> Read<Vec<Objective>> {
    let mut out: Vec<Objective> = Vec::with_capacity(objectives.len());
    for (span, objective) in objectives {
        if out.iter().any(|other| other.id == objective.id) {
            let reason = format!("{} is there already", objective.id);
            return Err(Fault { at: span.start, field: "id", reason });
        }
        out.push(objective);
    }
    if out.is_empty() {
        return Err(Fault { at: 0, field: "objective", reason: "at least one".to_owned() });
    }
    Ok(out)
}

pub(super) fn fault<T>(field: &'static str, at: &Spanned<T>, reason: impl Into<String>) -> Fault {
    Fault { at: at.span().start, field, reason: reason.into() }
}

/// The value whose name the text is.
pub(super) fn one_of<T: Copy>(
    field: &'static str,
    text: &Text,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Read<T> {
    let found = all.iter().copied().find(|one| name(*one) == text.get_ref());
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        fault(field, text, format!("one of {}", names.join(", ")))
    })
}

pub(super) fn percent(field: &'static str, text: &Text) -> Read<Target> {
    Target::parse(text.get_ref()).map_err(|error| fault(field, text, error.to_string()))
}

pub(super) fn seconds(field: &'static str, value: &Int, least: i64) -> Read<i64> {
    let seconds = *value.get_ref();
    if (least..=SECONDS_MAX).contains(&seconds) {
        return Ok(seconds);
    }
    Err(fault(field, value, format!("whole seconds from {least} to {SECONDS_MAX}")))
}

pub(super) fn whole(field: &'static str, value: &Int, range: Range<u32>) -> Read<u32> {
    let number = u32::try_from(*value.get_ref()).ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        fault(field, value, format!("a whole number from {} to {}", range.start, range.end - 1))
    })
}

fn slug(field: &'static str, text: &Text) -> Read<Slug> {
    Slug::new(text.get_ref()).map_err(|error| fault(field, text, error.to_string()))
}

fn instant(field: &'static str, text: &Text) -> Read<Timestamp> {
    Timestamp::parse_iso(text.get_ref())
        .ok_or_else(|| fault(field, text, "an instant in UTC such as 2026-01-01T00:00:00Z"))
}

/// A text for a person: not empty, bounded, without characters that act.
fn words(field: &'static str, text: &Text) -> Read<String> {
    let words = text.get_ref();
    let is_plain = clean_text(words, TEXT_MAX) == *words && !words.trim().is_empty();
    if !is_plain {
        let reason = format!("1 to {TEXT_MAX} characters on one line");
        return Err(fault(field, text, reason));
    }
    Ok(words.clone())
}

fn all_words(field: &'static str, texts: &[Text]) -> Read<Vec<String>> {
    texts.iter().map(|text| words(field, text)).collect()
}
