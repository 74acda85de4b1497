//! Statements about keys of the nodes, and breaks of the log.

use std::collections::BTreeMap;
use std::io::Write as _;

use leasewatch_core::evidence::bundle::name;
use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::evidence::identity::Enrollment;
use leasewatch_core::evidence::statement::{StatementKind, sign};

use super::disclosed::Shown;
use super::document::Report;
use super::parts::signature_line;
use super::{BundleError, Making};
use crate::store::identity_statement;

pub(super) async fn gather(making: &mut Making<'_>) -> Result<(), BundleError> {
    for planned in &making.plan.nodes {
        for row in identity_statement::of_node(&mut making.tx, planned.node.key).await? {
            making.disclosed.add(Some(&row.signed.statement));
        }
    }
    Ok(())
}

/// In the order of the log, signed by the identity key of today.
pub(super) async fn write(making: &mut Making<'_>, report: &mut Report) -> Result<(), BundleError> {
    let mut by_leaf = BTreeMap::new();
    for planned in &making.plan.nodes {
        let node = &planned.node;
        let mut joined = None;
        for row in identity_statement::of_node(&mut making.tx, node.key).await? {
            let hash = leaf_hash(&row.signed.statement);
            let what = || format!("a statement about the keys of node {}", node.name);
            let Some(leaf) = making.disclosed.leaf(hash, what)? else { continue };
            if row.kind == StatementKind::Enrollment {
                joined = Enrollment::from_statement(&row.signed.statement).ok();
            }
            by_leaf.insert(leaf, (row.kind, row.signed.statement));
        }
        report.add_node(node, joined);
    }
    let key = making.identity.signing_key();
    let mut statements = making.parts.begin(name::IDENTITY)?;
    let mut signatures = making.parts.begin(name::IDENTITY_SIGNATURES)?;
    let file = super::leaves::file(name::IDENTITY);
    for (leaf, (kind, statement)) in by_leaf {
        let line = statements.line(&statement)?;
        signatures.line(signature_line(&sign(kind, &statement, key)).as_bytes())?;
        making.disclosed.shown.push(Shown { leaf, file, line });
    }
    making.parts.end(statements)?;
    making.parts.end(signatures)?;
    write_break(making)
}

fn write_break(making: &mut Making<'_>) -> Result<(), BundleError> {
    let Some(statement) = &making.plan.log.first_statement else { return Ok(()) };
    let what = || "the break of the log".to_owned();
    let Some(leaf) = making.disclosed.leaf(leaf_hash(statement), what)? else { return Ok(()) };
    let mut part = making.parts.begin(name::BREAKS)?;
    part.write_all(statement)?;
    part.write_all(b"\n")?;
    making.parts.end(part)?;
    making.disclosed.shown.push(Shown { leaf, file: super::leaves::file(name::BREAKS), line: 1 });
    Ok(())
}
