//! An own contract from a form: the fields become the text of a profile's file, which the strict
//! parser reads like any other. What it refuses is named by the field that stands on the line.

use std::fmt::Write as _;

use leasewatch_core::id::Slug;
use leasewatch_core::sla::profile::Profile;

use super::Wrong;
use super::entered::Entered;
use crate::store::audit::{self, Action, Who};
use crate::store::lease::Written;
use crate::store::{StoreError, TenantKey, Tx, profile};

/// What a field's text becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// A whole number.
    Int,
    /// Texts, one a line or between commas.
    List,
    /// `99.9 10` a line: below, and the share of the base.
    Tiers,
}

/// A field: its name in the form, and its table and key in the file.
type Field = (&'static str, &'static str, &'static str, Kind);

/// In the order of the file.
const FIELDS: [Field; 29] = [
    ("contract", "", "id", Kind::Text),
    ("provider", "", "provider", Kind::Text),
    ("product", "", "product", Kind::Text),
    ("effective_from", "", "effective_from", Kind::Text),
    ("reviewed_by", "", "reviewed_by", Kind::Text),
    ("url", "[source]", "url", Kind::Text),
    ("read_on", "[source]", "read_on", Kind::Text),
    ("lead_s", "[notice]", "lead_s", Kind::Int),
    ("deadline", "[claim]", "deadline", Kind::Text),
    ("claim_days", "[claim]", "days", Kind::Int),
    ("after", "[claim]", "after", Kind::Text),
    ("cycles", "[claim]", "cycles", Kind::Int),
    ("months", "[claim]", "months", Kind::Int),
    ("evidence", "[claim]", "evidence", Kind::List),
    ("objective", "[[objective]]", "id", Kind::Text),
    ("unit", "[[objective]]", "unit", Kind::Text),
    ("needs", "[[objective]]", "needs", Kind::Text),
    ("target", "[[objective]]", "target", Kind::Text),
    ("denominator", "[[objective]]", "denominator", Kind::Text),
    ("predicates", "[objective.downtime]", "predicates", Kind::List),
    ("min_consecutive_s", "[objective.downtime]", "min_consecutive_s", Kind::Int),
    ("partial_slice", "[objective.downtime]", "partial_slice", Kind::Text),
    ("buffer_s", "[objective.downtime]", "buffer_s", Kind::Int),
    ("window", "[objective.window]", "kind", Kind::Text),
    ("zone", "[objective.window]", "zone", Kind::Text),
    ("window_days", "[objective.window]", "days", Kind::Int),
    ("credit", "[objective.credit]", "kind", Kind::Text),
    ("tiers", "[objective.credit]", "tiers", Kind::Tiers),
    ("base", "[objective.credit]", "base", Kind::Text),
];
/// Tables that stand there though nothing in them was typed, so that what they lack is named.
const NEEDED: [&str; 5] =
    ["[source]", "[claim]", "[[objective]]", "[objective.downtime]", "[objective.window]"];

/// The text of a version, and which field stands on each of its lines.
fn text(entered: &Entered, version: u32) -> (String, Vec<Option<&'static str>>) {
    let mut out = format!("schema = 1\nversion = {version}\n");
    let mut lines = vec![None, None];
    let mut put = |field: Option<&'static str>, line: &str| {
        let _ = writeln!(out, "{line}");
        lines.push(field);
    };
    let is_reviewed = !entered.get("reviewed_by").is_empty();
    put(Some("reviewed_by"), &format!("reviewed = {is_reviewed}"));
    let mut at = "";
    for (field, table, key, kind) in FIELDS {
        let typed = entered.get(field);
        if typed.is_empty() && !(table != at && NEEDED.contains(&table)) {
            continue;
        }
        if table != at {
            // What a table lacks is told of its first line.
            put(Some(field), table);
            at = table;
        }
        if !typed.is_empty() {
            put(Some(field), &format!("{key} = {}", value(typed, kind)));
        }
    }
    (out, lines)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn value(typed: &str, kind: Kind) -> String {
    match kind {
        Kind::Text => quoted(typed),
        // What is no number is refused by the parser, by its field.
        Kind::Int => typed.parse::<i64>().map_or_else(|_| quoted(typed), |n| n.to_string()),
        Kind::List => {
            let parts = typed.split(['\n', ',']).map(str::trim).filter(|part| !part.is_empty());
            format!("[{}]", parts.map(quoted).collect::<Vec<_>>().join(", "))
        }
        Kind::Tiers => {
            let tier = |line: &str| {
                let (below, share) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                format!("{{ below = {}, share = {} }}", quoted(below), quoted(share.trim()))
            };
            let tiers = typed.lines().map(str::trim).filter(|line| !line.is_empty());
            format!("[{}]", tiers.map(tier).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The fields of a version that is there, from its text.
#[must_use]
pub fn entered_of(profile: &Profile) -> Entered {
    let parsed: Option<toml::Table> = profile.to_toml().parse().ok();
    let mut all = Entered::default();
    let Some(parsed) = parsed else { return all };
    for (field, table, key, kind) in FIELDS {
        let path = table.trim_matches(['[', ']']);
        let mut at = Some(&parsed);
        for name in path.split('.').filter(|name| !name.is_empty()) {
            at = at.and_then(|table| match table.get(name)? {
                toml::Value::Array(list) => list.first()?.as_table(),
                other => other.as_table(),
            });
        }
        if let Some(found) = at.and_then(|table| table.get(key)) {
            all.0.insert(field.to_owned(), typed_of(found, kind));
        }
    }
    all
}

fn typed_of(value: &toml::Value, kind: Kind) -> String {
    let text =
        |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match (value, kind) {
        (toml::Value::Array(list), Kind::Tiers) => {
            let tier = |tier: &toml::Value| {
                let part = |key| tier.get(key).map(&text).unwrap_or_default();
                format!("{} {}", part("below"), part("share"))
            };
            list.iter().map(tier).collect::<Vec<_>>().join("\n")
        }
        (toml::Value::Array(list), _) => list.iter().map(text).collect::<Vec<_>>().join("\n"),
        (other, _) => text(other),
    }
}

/// Reads a form as a version; returns it with its text.
///
/// # Errors
/// The field that the strict parser refuses, with its reason.
pub fn read(entered: &Entered, version: u32) -> Result<(Profile, String), Wrong> {
    let (text, lines) = text(entered, version);
    Profile::parse(&text).map(|profile| (profile, text)).map_err(|error| {
        let on_line = lines.get(error.line.saturating_sub(1)).copied().flatten();
        // A field that is missing has the line of its table, and its own name.
        let named = |(_, table, key, _): &&Field| {
            *key == error.field && on_line.is_none_or(|line| table_of(line) == *table)
        };
        let field = FIELDS.iter().find(named).map(|(field, ..)| *field).or(on_line);
        Wrong::new(field.unwrap_or("contract"), error.reason)
    })
}

fn table_of(field: &str) -> &'static str {
    FIELDS.iter().find(|(name, ..)| *name == field).map_or("", |(_, table, ..)| table)
}

/// Stores a form as the next version of an own contract; a version never changes.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn store(
    tx: &mut Tx,
    tenant: TenantKey,
    entered: &Entered,
    (written, who): (Written<'_>, &Who),
) -> Result<Result<Profile, Wrong>, StoreError> {
    let known = profile::of_tenant(tx, tenant).await?;
    let of_name = |profile: &&Profile| profile.id.as_str() == entered.get("contract");
    let latest = known.iter().map(|(profile, _)| profile).filter(of_name).map(|p| p.version).max();
    let is_shipped = leasewatch_core::sla::profile::shipped()
        .iter()
        .any(|(id, _)| *id == entered.get("contract"));
    if is_shipped {
        let wrong = Wrong::new("contract", "is the name of clauses that come with the program");
        return Ok(Err(wrong));
    }
    if Slug::new(entered.get("contract")).is_err() {
        let wrong = Wrong::new("contract", "must be 1 to 40 characters of a-z, 0-9 and -");
        return Ok(Err(wrong));
    }
    let (profile, body) = match read(entered, latest.unwrap_or(0).saturating_add(1)) {
        Ok(read) => read,
        Err(wrong) => return Ok(Err(wrong)),
    };
    if !profile::insert(tx, tenant, (&profile, &body), written).await? {
        let wrong = Wrong::new("contract", "was changed by somebody else; send it again");
        return Ok(Err(wrong));
    }
    let object = format!("{}@{}", profile.id, profile.version);
    let entry = audit::Entry {
        at: written.at,
        tenant: Some(tenant),
        who,
        action: Action::ProfileChanged,
        object: &object,
        detail: &[],
    };
    audit::write(tx, entry).await?;
    Ok(Ok(profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPED: [(&str, &str); 16] = [
        ("contract", "our-contract"),
        ("provider", "Acme \"Cloud\""),
        ("product", "8x H100"),
        ("url", "contract 2026-118"),
        ("read_on", "2026-11-30"),
        ("deadline", "not_stated"),
        ("objective", "availability"),
        ("unit", "node"),
        ("target", "99.5"),
        ("denominator", "contracted"),
        ("predicates", "connectivity, hardware"),
        ("partial_slice", "exact"),
        ("window", "calendar"),
        ("zone", "Asia/Shanghai"),
        ("credit", "tiers"),
        ("tiers", "99.5 10\n95 25"),
    ];

    fn typed() -> Entered {
        let own = TYPED.map(|(field, text)| (field.to_owned(), text.to_owned()));
        let base = ("base".to_owned(), "lease-charge".to_owned());
        Entered(own.into_iter().chain([base]).collect())
    }

    #[test]
    fn a_form_is_a_profile_and_comes_back_as_it_was_typed() {
        let (profile, body) = read(&typed(), 3).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        assert_eq!((profile.version, profile.provider.as_str()), (3, "Acme \"Cloud\""));
        assert_eq!(Profile::parse(&body), Ok(profile.clone()));
        let back = entered_of(&profile);
        assert_eq!((back.get("target"), back.get("zone")), ("99.5", "Asia/Shanghai"));
        assert_eq!(back.get("predicates"), "connectivity\nhardware");
        let again = read(&back, 3).unwrap_or_else(|wrong| panic!("{wrong:?}")).0;
        assert_eq!(again.objectives, profile.objectives);
    }

    #[test]
    fn what_the_parser_refuses_is_named_by_the_field_of_the_form() {
        for (field, text) in [
            ("target", "lots"),
            ("read_on", "yesterday"),
            ("window", "weekly"),
            ("zone", "Mars/Base"),
            ("predicates", "bad-luck"),
            ("min_consecutive_s", "a minute"),
            ("deadline", "soon"),
            ("provider", ""),
            ("unit", ""),
            ("partial_slice", ""),
        ] {
            let mut entered = typed();
            entered.0.insert(field.to_owned(), text.to_owned());
            let wrong = read(&entered, 1).unwrap_err();
            assert_eq!(wrong.field, field, "{wrong:?}");
        }
        let mut entered = typed();
        entered.0.remove("tiers");
        entered.0.insert("credit".to_owned(), "kindness".to_owned());
        assert_eq!(read(&entered, 1).unwrap_err().field, "credit");
        // `days` is a key of two tables.
        let mut entered = typed();
        entered.0.insert("window_days".to_owned(), "30".to_owned());
        assert_eq!(read(&entered, 1).unwrap_err().field, "window_days");
        entered.0.remove("window_days");
        entered.0.insert("claim_days".to_owned(), "30".to_owned());
        assert_eq!(read(&entered, 1).unwrap_err().field, "claim_days");
    }
}
