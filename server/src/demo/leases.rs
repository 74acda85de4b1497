//! Leases of the demo fleet, written as files and applied as anybody's: prices that changed, minima,
//! a GPU that is paid for and not there, an instance that is stopped each night.
//!
//! The text follows from when the nodes joined and from now alone, so that each start adds the
//! nights since and changes nothing else.

use std::fmt::Write as _;

use anyhow::bail;
use leasewatch_core::id::Slug;
use leasewatch_core::time::{DAY_MS, HOUR_MS, Timestamp};

use super::papers;
use crate::apply::{Document, Run};
use crate::clock::Clock;
use crate::config::ServeOptions;
use crate::store::lease::Written;
use crate::store::node::{self, NodeRow};
use crate::store::{Db, Scope};

/// The first hour of a working day in Shanghai, and the one after its last, in UTC.
const WORK_BEGINS_H: i64 = 1;
const WORK_ENDS_H: i64 = 13;

/// A lease of the demo: the node that it covers, and its terms but for times.
struct Story {
    node: &'static str,
    name: &'static str,
    /// Slots that are assigned.
    slots: u16,
    /// TOML with `{start}`, `{later}` and `{end}`.
    terms: &'static str,
    /// Stopped each night.
    sleeps: bool,
    /// Judged by the demo's own contract.
    has_contract: bool,
}

/// The lease that there is a bill of.
const BILLED: &str = "a-h100-train";

const STORIES: [Story; 5] = [
    Story {
        node: "a1-h100",
        name: "a-h100-train",
        slots: 8,
        sleeps: false,
        has_contract: false,
        terms: "product = '8x H100 SXM5 80GB'\ngpu_model = 'H100'\ngpu_count = 8\nregion = 'north-1'\n\
            currency = 'USD'\nstarts_at = '{start}'\nends_at = '{end}'\nlabels = { team = 'training' }\n\
            minima = { power_limit_mw = 700000, memory_mib = 81000, pcie_generation = 5, pcie_width = 16 }\n\
            prices = [{ amount = '2.49', unit = 'gpu_hour' }, { from = '{later}', amount = '2.29', unit = 'gpu_hour' }]\n",
    },
    Story {
        node: "a2-a100",
        name: "a-a100-month",
        slots: 8,
        sleeps: false,
        has_contract: true,
        terms: "product = '8x A100 80GB, monthly'\ngpu_model = 'A100'\ngpu_count = 8\n\
            currency = 'USD'\ntax = '0.08'\nstarts_at = '{start}'\nends_at = '{end}'\nlabels = { team = 'research' }\n\
            prices = [{ amount = '9200', unit = 'month' }]\nfees = [{ name = 'disk', amount = '120', cycle = 'month' }]\n",
    },
    Story {
        node: "b1-rtx4090",
        name: "b-rtx4090-days",
        slots: 8,
        sleeps: true,
        has_contract: false,
        terms: "product = 'RTX 4090 x8, pay as you go'\ngpu_model = 'RTX 4090'\ngpu_count = 8\nkind = 'on_demand'\n\
            currency = 'CNY'\nzone = 'Asia/Shanghai'\nbilling_unit = 'started_hour'\nstop_ends_billing = true\n\
            starts_at = '{start}'\nauto_release_at = '{end}'\nlabels = { team = 'rendering' }\n\
            prices = [{ amount = '1.98', unit = 'gpu_hour' }]\nfees = [{ name = 'disk while stopped', amount = '0.12', cycle = 'stopped_hour' }]\n",
    },
    // It has four.
    Story {
        node: "b2-l40s",
        name: "b-l40s-inference",
        slots: 4,
        sleeps: false,
        has_contract: false,
        terms: "product = '5x L40S'\ngpu_model = 'L40S'\ngpu_count = 5\ncurrency = 'USD'\n\
            starts_at = '{start}'\nends_at = '{end}'\nlabels = { team = 'inference' }\n\
            prices = [{ amount = '0.89', unit = 'gpu_hour' }]\n",
    },
    Story {
        node: "c1-h20",
        name: "c-h20-year",
        slots: 8,
        sleeps: false,
        has_contract: true,
        terms: "product = 'H20 96GB x8'\ngpu_model = 'H20'\ngpu_count = 8\ncurrency = 'CNY'\ntax = '0.06'\n\
            zone = 'Asia/Shanghai'\norder = 'C-2026-118'\nstarts_at = '{start}'\nends_at = '{end}'\nlabels = { team = 'training' }\n\
            minima = { power_limit_mw = 500000, memory_mib = 97000 }\nprices = [{ amount = '42000', unit = 'month' }]\n",
    },
];

/// Writes leases for the nodes of the demo that are there; returns how many those are, and how many
/// things changed. Works beside a running server.
///
/// # Errors
/// When the database cannot be opened, or does not take them.
pub async fn apply(options: &ServeOptions) -> anyhow::Result<(usize, usize)> {
    let now = Clock::system().now();
    super::on_database(options, async |db| apply_to(&db, now).await).await
}

/// The same on a database that is open.
///
/// # Errors
/// When the database does not take them.
pub async fn apply_to(db: &Db, now: Timestamp) -> anyhow::Result<(usize, usize)> {
    let mut tx = db.begin(Scope::Operator).await?;
    let nodes = node::list(&mut tx).await?;
    tx.commit().await?;
    let (mut leases, mut changed) = (0, 0);
    for (node, story) in nodes.iter().filter_map(|node| Some((node, story_of(node)?))) {
        let document = match Document::parse(story.name, text(node, story, now)) {
            Ok(document) => document,
            Err(refused) => bail!("{refused}"),
        };
        let tenant = node.key.tenant;
        let mut tx = db.begin(Scope::Tenant(tenant)).await?;
        let written = Written { at: now, by: None, reason: None };
        papers::contract(&mut tx, tenant, written).await?;
        match Run::new(&mut tx, tenant, written).apply(&[document]).await? {
            Ok(changes) => {
                if story.name == BILLED {
                    let of = (&node.provider, story.name, first_day(node));
                    papers::bill(&mut tx, tenant, of, written).await?;
                }
                tx.commit().await?;
                leases += 1;
                changed += changes.iter().filter(|change| change.verb.is_change()).count();
            }
            Err(refused) => {
                tx.rollback().await?;
                let lines: Vec<_> = refused.iter().map(ToString::to_string).collect();
                bail!("{}", lines.join("\n"));
            }
        }
    }
    Ok((leases, changed))
}

/// The lease of a simulated node of one of the demo's tenants.
fn story_of(node: &NodeRow) -> Option<&'static Story> {
    let is_demo = node.tenant.as_str().starts_with("demo");
    let is_simulated = node.origin == leasewatch_core::segment::Origin::Simulated;
    STORIES.iter().find(|story| is_demo && is_simulated && story.node == node.name)
}

/// The day in UTC on which a node joined.
fn first_day(node: &NodeRow) -> Timestamp {
    Timestamp(node.enrolled_at.0.div_euclid(DAY_MS) * DAY_MS)
}

fn text(node: &NodeRow, story: &Story, now: Timestamp) -> String {
    let Story { name, slots, sleeps, .. } = story;
    let start = first_day(node);
    let contract = if story.has_contract { papers::CONTRACT } else { "" };
    let (later, end) = (start.plus_ms(4 * DAY_MS), start.plus_ms(90 * DAY_MS));
    let terms = story.terms.replace("{start}", &start.to_string());
    let terms = terms.replace("{later}", &later.to_string()).replace("{end}", &end.to_string());
    let provider: &Slug = &node.provider;
    let mut out = format!("[[lease]]\nname = '{name}'\nprovider = '{provider}'\n{contract}{terms}");
    let slots: Vec<_> = (0..*slots).map(|slot| slot.to_string()).collect();
    let (id, slots) = (node.id, slots.join(", "));
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "\n[[assignment]]\nlease = '{name}'\nnode = '{id}'\nslots = [{slots}]\n\
        \n[[node_labels]]\nnode = '{id}'\nlabels = {{ fleet = 'demo' }}\n"
    );
    let mut day = start;
    while *sleeps && day.plus_ms(WORK_BEGINS_H * HOUR_MS) <= now {
        let (from, to) = (day.plus_ms(WORK_BEGINS_H * HOUR_MS), day.plus_ms(WORK_ENDS_H * HOUR_MS));
        let _ = write!(
            out,
            "\n[[session]]\nlease = '{name}'\nsource = 'schedule'\nstarts_at = '{from}'\n"
        );
        if to <= now {
            let _ = writeln!(out, "ends_at = '{to}'");
        }
        day = day.plus_ms(DAY_MS);
    }
    out
}
