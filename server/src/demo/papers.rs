//! What the demo has on paper: a contract of its own that is judged over short windows, and a bill
//! in which something differs.
//!
//! A calendar month is longer than the past that the demo makes up, and would be undecided on most
//! days. The contract promises three days at a time, so a lease shows whole windows that are kept
//! and broken; its text says that it is made up. Leases without it keep the month of own objectives.

use anyhow::bail;
use leasewatch_core::id::Slug;
use leasewatch_core::sla::profile::Profile;
use leasewatch_core::time::{DAY_MS, Timestamp};

use crate::apply::bills::{self, Sent};
use crate::apply::entered::Entered;
use crate::store::audit::Who;
use crate::store::lease::Written;
use crate::store::{TenantKey, Tx, bill, profile};

/// The contract, as leases name it.
pub(super) const CONTRACT: &str = "profile = { id = 'demo-contract', version = 1 }\n";

const CONTRACT_TEXT: &str = r#"schema = 1
id = "demo-contract"
version = 1
provider = "Demo (simulated)"
product = "Any rental of the demo"
reviewed = false
notes = [
    "Made up for the demo: no provider promised this. Three days at a time, because the demo's simulated past is shorter than a month.",
]

[source]
url = "made up for the demo, no contract"
read_on = "2026-12-01"

[claim]
deadline = "days"
days = 30
after = "incident"
evidence = ["times of the outage", "signed hours"]

[[objective]]
id = "three-days"
unit = "gpu"
target = "99.5"
denominator = "contracted"

[objective.downtime]
predicates = ["unusable"]
partial_slice = "exact"

[objective.window]
kind = "rolling"
days = 3

[objective.credit]
kind = "tiers"
tiers = [{ below = "99.5", share = "10" }, { below = "95", share = "25" }]
base = "unit-charge"
"#;

/// Name of the bill's file, by which it is known.
const BILL: &str = "simulated-bill.csv";

/// Writes the contract down for a tenant of the demo; again, it changes nothing.
pub(super) async fn contract(
    tx: &mut Tx,
    tenant: TenantKey,
    written: Written<'_>,
) -> anyhow::Result<()> {
    let parsed = Profile::parse(CONTRACT_TEXT)?;
    if !profile::insert(tx, tenant, (&parsed, CONTRACT_TEXT), written).await? {
        bail!("another contract has the name {}", parsed.id);
    }
    Ok(())
}

/// Imports the bill of a lease, once it has run for two days: the second of them is billed at
/// another price than agreed.
pub(super) async fn bill(
    tx: &mut Tx,
    tenant: TenantKey,
    (provider, lease, start): (&Slug, &str, Timestamp),
    written: Written<'_>,
) -> anyhow::Result<()> {
    let is_there = bill::list(tx).await?.iter().any(|row| row.file_name == BILL);
    if is_there || start.plus_ms(2 * DAY_MS) > written.at {
        return Ok(());
    }
    let day = |days: i64| -> String {
        start.plus_ms(days * DAY_MS).to_string().chars().take(10).collect()
    };
    let text = format!(
        "resource,from,to,quantity,rate,amount\n{lease},{0},{0},192,2.49,478.08\n{lease},{1},{1},192,2.69,516.48\n",
        day(0),
        day(1)
    );
    let mapping = ["starts=from", "ends=to", "key=resource", "quantity=quantity", "rate=rate"];
    let pairs = mapping.into_iter().chain(["amount=amount"]).filter_map(|of| of.split_once('='));
    let entered = Entered(pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect());
    let sent = Sent {
        provider: provider.as_str(),
        file_name: BILL,
        text: &text,
        entered: &entered,
        partial: false,
    };
    match bills::store(tx, tenant, sent, (written, &Who::command())).await? {
        Ok(_) => Ok(()),
        Err(why) => bail!("the bill of the demo was refused: {why:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_is_one_and_says_that_it_is_made_up() {
        let profile = Profile::parse(CONTRACT_TEXT).unwrap();
        assert!(profile.notes[0].contains("Made up for the demo"));
        assert!(CONTRACT.contains(profile.id.as_str()) && profile.version == 1);
        assert_eq!(profile.reviewed_by, None);
    }
}
