//! `[[notice]]`, `[[provider_record]]`, `[[tenant_stop]]`: what people tell about a lease that no
//! agent can know. Forms and tables come here too, so that all of them are held to the same rules.
//!
//! Not here: whether a notice came early enough, which the judgement says by the clause in force.

pub(crate) mod typed;

use leasewatch_core::id::{Slug, clean_text};
use leasewatch_core::lease::written::{NoticeEntry, ProviderRecordEntry, TenantStopEntry};
use leasewatch_core::time::{Period, Timestamp};

use super::{Fault, Run, Verb, Wrong};
use crate::store::lease::{LeaseRow, period};
use crate::store::notice::{self, StopKind, Told};
use crate::store::profile;

/// Characters of a text as it was received, of a source, and of a reason.
const TEXT_CHARS: usize = 8_192;
const SOURCE_CHARS: usize = 200;
/// Exclusions that are named to somebody who chose none of them.
const CLAUSES_NAMED: usize = 12;

/// Writes a provider's notice down, or withdraws it.
pub(crate) async fn notice(run: &mut Run<'_>, entry: &NoticeEntry) -> Result<(), Fault> {
    let lease = run.lease(&entry.lease).await?;
    let told = Period::new(entry.starts_at, entry.ends_at);
    let mut wrong = times(&lease, (entry.starts_at, entry.ends_at));
    if entry.received_at > run.written.at {
        wrong.push(Wrong::new("received_at", "must not lie ahead"));
    }
    wrong.extend(text("text", &entry.text, TEXT_CHARS));
    checked(wrong)?;
    let known = notice::notices(run.tx, lease.key, told).await?;
    let known = known.into_iter().find(|row| {
        (row.period, row.received_at, row.body.as_str()) == (told, entry.received_at, &entry.text)
    });
    let verb = match known {
        None if entry.withdrawn => Verb::Keep,
        Some(_) if !entry.withdrawn => Verb::Keep,
        Some(row) => withdraw(run, &lease, (Told::Notice, row.number)).await?,
        None => {
            let new = (told, entry.received_at, entry.text.as_str());
            notice::insert(run.tx, lease.key, new, run.written).await?;
            Verb::Add
        }
    };
    run.did(verb, format!("notice {} of {}", entry.starts_at, entry.lease));
    Ok(())
}

/// Writes down what the provider's own records say, or withdraws it.
pub(crate) async fn record(run: &mut Run<'_>, entry: &ProviderRecordEntry) -> Result<(), Fault> {
    let lease = run.lease(&entry.lease).await?;
    let told = Period::new(entry.starts_at, entry.ends_at);
    let mut wrong = times(&lease, (entry.starts_at, entry.ends_at));
    if entry.ends_at > run.written.at {
        wrong.push(Wrong::new("ends_at", "must not lie ahead: a record is of what was"));
    }
    wrong.extend(text("source", &entry.source, SOURCE_CHARS));
    wrong.extend(text("text", &entry.text, TEXT_CHARS));
    checked(wrong)?;
    let known = notice::records(run.tx, lease.key, told).await?;
    // As it is stored.
    let source = clean_text(&entry.source, SOURCE_CHARS);
    let known = known.into_iter().find(|row| {
        (row.period, row.cause, row.source.as_str(), row.body.as_str())
            == (told, entry.cause, source.as_str(), &entry.text)
    });
    let verb = match known {
        None if entry.withdrawn => Verb::Keep,
        Some(_) if !entry.withdrawn => Verb::Keep,
        Some(row) => withdraw(run, &lease, (Told::Record, row.number)).await?,
        None => {
            let new = (told, entry.cause, source.as_str(), entry.text.as_str());
            notice::insert_record(run.tx, lease.key, new, run.written).await?;
            Verb::Add
        }
    };
    run.did(verb, format!("provider's record {} of {}", entry.starts_at, entry.lease));
    Ok(())
}

/// Takes time out of the account, or no longer.
pub(crate) async fn stop(run: &mut Run<'_>, entry: &TenantStopEntry) -> Result<(), Fault> {
    let lease = run.lease(&entry.lease).await?;
    let told = Period::new(entry.starts_at, entry.ends_at);
    let mut wrong = times(&lease, (entry.starts_at, entry.ends_at));
    if let Some(reason) = &entry.reason {
        wrong.extend(text("reason", reason, SOURCE_CHARS));
    }
    let kind = match kind_of(run, &lease, entry).await? {
        Ok(kind) => Some(kind),
        Err(fault) => {
            wrong.push(fault);
            None
        }
    };
    checked(wrong)?;
    let Some(kind) = kind else { return Ok(()) };
    let known = notice::stops(run.tx, lease.key, told).await?;
    let known = known.into_iter().find(|row| (row.period, &row.kind) == (told, &kind));
    let reason = entry.reason.as_deref();
    let verb = match known {
        None if entry.withdrawn => Verb::Keep,
        Some(row) if entry.withdrawn => withdraw(run, &lease, (Told::Stop, row.number)).await?,
        Some(_) => Verb::Keep,
        None => {
            notice::insert_stop(run.tx, lease.key, (told, &kind, reason), run.written).await?;
            Verb::Add
        }
    };
    run.did(verb, format!("stop {} of {}", entry.starts_at, entry.lease));
    Ok(())
}

async fn withdraw(run: &mut Run<'_>, lease: &LeaseRow, told: (Told, i32)) -> Result<Verb, Fault> {
    notice::withdraw(run.tx, lease.key, told, run.written.at).await?;
    Ok(Verb::Withdraw)
}

/// The kind of a stop; a clause has to be one of the profile that judges then.
async fn kind_of(
    run: &mut Run<'_>,
    lease: &LeaseRow,
    entry: &TenantStopEntry,
) -> Result<Result<StopKind, Wrong>, Fault> {
    Ok(match (entry.kind.as_str(), &entry.clause) {
        ("stopped", None) => Ok(StopKind::Stopped),
        ("maintenance", None) => Ok(StopKind::Maintenance),
        ("stopped" | "maintenance", Some(_)) => {
            Err(Wrong::new("clause", "is for stops of the kind other"))
        }
        ("other", clause) => {
            let profiles = profile::all(run.tx, run.tenant).await?;
            let named = lease.terms.profile.as_ref();
            let governing = profiles.governing(named, entry.starts_at);
            let clauses = governing.map_or(&[][..], |profile| &profile.exclusions);
            let wanted = clause.as_deref().map(Slug::new).and_then(Result::ok);
            match wanted.filter(|wanted| clauses.iter().any(|clause| clause.id == *wanted)) {
                Some(clause) => Ok(StopKind::Other(clause.to_string())),
                None => Err(Wrong::new("clause", no_clause(clauses.iter().map(|c| &c.id)))),
            }
        }
        _ => Err(Wrong::new("kind", "must be stopped, maintenance or other")),
    })
}

fn no_clause<'a>(known: impl Iterator<Item = &'a Slug>) -> String {
    let known: Vec<String> = known.take(CLAUSES_NAMED).map(ToString::to_string).collect();
    if known.is_empty() {
        return "the profile that judges then excludes nothing of its own".to_owned();
    }
    format!("must be an exclusion of the profile that judges then: {}", known.join(", "))
}

/// What is wrong with when something was.
fn times(lease: &LeaseRow, (starts_at, ends_at): (Timestamp, Timestamp)) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if ends_at <= starts_at {
        wrong.push(Wrong::new("ends_at", "must be after the start"));
    } else if Period::new(starts_at, ends_at).intersect(period(&lease.terms)).is_empty() {
        wrong.push(Wrong::new("starts_at", "is not within the term of the lease"));
    }
    wrong
}

fn text(field: &str, text: &str, most: usize) -> Option<Wrong> {
    let fits = !clean_text(text, 1).is_empty() && text.chars().count() <= most;
    (!fits || text.contains('\0'))
        .then(|| Wrong::new(field, format!("must have 1 to {most} characters")))
}

fn checked(wrong: Vec<Wrong>) -> Result<(), Fault> {
    if wrong.is_empty() { Ok(()) } else { Err(Fault::Wrong(wrong)) }
}
