//! Which keys were a node's, from when to when: statements of the server about them.

use ed25519_dalek::VerifyingKey;
use leasewatch_core::evidence::bundle::{name, signature_of_line};
use leasewatch_core::evidence::chain::{public_key, verify};
use leasewatch_core::evidence::identity::{Enrollment, Revocation, Rotation};
use leasewatch_core::evidence::statement::{StatementError, StatementKind};
use leasewatch_core::id::NodeId;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Timestamp;

use super::{Evidence, at_line};
use crate::report::Fault;

/// A key of a node.
pub(super) struct NodeKey {
    pub(super) key: VerifyingKey,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

enum Said {
    Joined(Enrollment),
    Changed(Rotation),
    Revoked(Revocation),
}

pub(super) fn check(evidence: &mut Evidence<'_>) -> Result<String, Fault> {
    let (tenant, provider, server) = {
        let manifest = evidence.manifest()?;
        (manifest.scope.tenant.clone(), manifest.scope.provider.clone(), manifest.key)
    };
    let server = public_key(&server).map_err(|error| Fault::Mismatch(error.to_string()))?;
    let mut signatures = Vec::new();
    evidence.archive.lines(name::IDENTITY_SIGNATURES, |number, line| {
        let signature = std::str::from_utf8(line).ok().and_then(signature_of_line);
        signatures.push(
            signature
                .ok_or_else(|| at_line(name::IDENTITY_SIGNATURES, number, "is no signature"))?,
        );
        Ok(())
    })?;
    let mut said = Vec::new();
    let count = evidence.archive.lines(name::IDENTITY, |number, line| {
        let wrong = |what: &dyn std::fmt::Display| at_line(name::IDENTITY, number, what);
        let (kind, statement) = read(line).map_err(|error| wrong(&error))?;
        let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let signature = signatures.get(at).ok_or_else(|| wrong(&"has no signature"))?;
        verify(kind, line, signature, &server).map_err(|error| wrong(&error))?;
        if let Said::Joined(joined) = &statement
            && (joined.tenant != tenant || joined.provider != provider)
        {
            return Err(wrong(&"is about a node of another tenant or provider"));
        }
        said.push(statement);
        Ok(())
    })?;
    for statement in said {
        apply(evidence, statement)?;
    }
    Ok(format!("{count} statements of the server about keys of {} nodes", evidence.keys.len()))
}

fn read(line: &[u8]) -> Result<(StatementKind, Said), StatementError> {
    match Enrollment::from_statement(line) {
        Err(StatementError::Kind { .. }) => {}
        joined => return Ok((StatementKind::Enrollment, Said::Joined(joined?))),
    }
    match Rotation::from_statement(line) {
        Err(StatementError::Kind { .. }) => {}
        changed => return Ok((StatementKind::Rotation, Said::Changed(changed?))),
    }
    Ok((StatementKind::Revocation, Said::Revoked(Revocation::from_statement(line)?)))
}

fn apply(evidence: &mut Evidence<'_>, said: Said) -> Result<(), Fault> {
    let unusable =
        |error: &dyn std::fmt::Display| Fault::Mismatch(format!("{}: {error}", name::IDENTITY));
    let mut add = |node: NodeId, key: &[u8; 32], from| {
        let key = public_key(key).map_err(|error| unusable(&error))?;
        let until = Timestamp::MAX;
        evidence.keys.entry(node).or_default().push(NodeKey { key, from, until });
        Ok(())
    };
    match said {
        // What a node recorded in the minute before it joined is dated before it, and what it was
        // told of, in a log or by a simulator, before that.
        Said::Joined(joined) => {
            let is_measured = joined.origin == Origin::Measured;
            let from = if is_measured { joined.at.plus_ms(-60_000) } else { Timestamp::MIN };
            add(joined.node(), &joined.key, from)
        }
        Said::Changed(changed) => add(changed.node, &changed.new, Timestamp::MIN),
        Said::Revoked(revoked) => {
            let keys = evidence.keys.entry(revoked.node).or_default();
            for own in keys.iter_mut().filter(|own| own.key.as_bytes() == &revoked.key) {
                own.until = own.until.min(revoked.at);
            }
            Ok(())
        }
    }
}
