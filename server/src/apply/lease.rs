//! `[[lease]]`: the terms of a lease.

use leasewatch_core::lease::LeaseTerms;

use super::{Fault, Run, Verb, Wrong};
use crate::store::lease;

/// Writes a lease down, or corrects its terms.
pub(super) async fn apply(run: &mut Run<'_>, terms: &LeaseTerms) -> Result<(), Fault> {
    let faults = terms.faults();
    if !faults.is_empty() {
        let wrong = faults.iter().map(|fault| Wrong::new(fault.field, fault.matter));
        return Err(Fault::Wrong(wrong.collect()));
    }
    let Some(before) = lease::by_name(run.tx, run.tenant, &terms.name).await? else {
        let made = lease::create(run.tx, run.tenant, terms, run.written).await?;
        made.map_err(|refused| Wrong::of(&refused))?;
        run.did(Verb::Add, format!("lease {}", terms.name));
        return Ok(());
    };
    if before.terms == *terms {
        run.did(Verb::Keep, format!("lease {}", terms.name));
        return Ok(());
    }
    let fields = changed(&before.terms, terms).join(", ");
    let revised = lease::revise(run.tx, &before, terms, run.written).await?;
    revised.map_err(|refused| Wrong::of(&refused))?;
    run.did(Verb::Change, format!("lease {}: {fields}", terms.name));
    Ok(())
}

/// Names of the fields that differ.
fn changed(before: &LeaseTerms, after: &LeaseTerms) -> Vec<String> {
    let fields = |terms: &LeaseTerms| match serde_json::to_value(terms) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (before, after) = (fields(before), fields(after));
    let mut names: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    names.sort();
    names.dedup();
    names.retain(|name| before.get(name) != after.get(name));
    names
}
