//! Which keys were a node's, from when to when: statements of the server about them.

use ed25519_dalek::VerifyingKey;
use leasewatch_core::evidence::bundle::{name, signature_of_line};
use leasewatch_core::evidence::chain::{Head, public_key, verify};
use leasewatch_core::evidence::identity::{Enrollment, Revocation, Rotation};
use leasewatch_core::evidence::statement::{StatementError, StatementKind};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Timestamp;

use super::{Evidence, at_line};
use crate::report::Fault;

/// How far before the statement about it a key may date a head, beside the cadence: the hold of the
/// first sample and a clock that is a minute off.
const EARLY_MS: i64 = 60_000;
/// How far behind its end: a server takes no head that is dated further into its future.
const LATE_MS: i64 = 5_000;

/// A key of a node, and when it was by the server's clock.
pub(super) struct NodeKey {
    pub(super) key: VerifyingKey,
    from: Timestamp,
    until: Timestamp,
}

/// What is known of a node.
#[derive(Default)]
pub(super) struct NodeKeys {
    /// Absent where it joined before there were statements about that.
    origin: Option<Origin>,
    pub(super) keys: Vec<NodeKey>,
}

impl NodeKeys {
    /// What is wrong with a head that this key signed, by its dates. Logs and simulations may tell
    /// of any time before.
    pub(super) fn objection(&self, key: &NodeKey, head: &Head) -> Option<&'static str> {
        let is_told = head.origin != Origin::Measured
            || self.origin.is_some_and(|origin| origin != Origin::Measured);
        let early_ms = EARLY_MS + i64::from(head.cadence_ms);
        if !is_told && key.from != Timestamp::MIN && head.period.start < key.from.plus_ms(-early_ms)
        {
            return Some("is dated before its key was the node's");
        }
        let is_late = key.until != Timestamp::MAX && head.period.end > key.until.plus_ms(LATE_MS);
        is_late.then_some("is dated after its key was revoked or replaced")
    }

    /// The key with these dates as well: it counts from the latest beginning to the earliest end.
    fn add(&mut self, key: VerifyingKey, from: Timestamp, until: Timestamp) {
        match self.keys.iter_mut().find(|own| own.key == key) {
            Some(own) => {
                own.from = own.from.max(from);
                own.until = own.until.min(until);
            }
            None => self.keys.push(NodeKey { key, from, until }),
        }
    }
}

impl NodeKey {
    /// Whether a head that was committed in the minute that begins then came after the key's end.
    pub(super) fn is_over(&self, minute: Timestamp) -> bool {
        minute > self.until
    }
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
    let usable = |key: &[u8; 32]| {
        public_key(key).map_err(|error| Fault::Mismatch(format!("{}: {error}", name::IDENTITY)))
    };
    let (always, ever) = (Timestamp::MIN, Timestamp::MAX);
    match said {
        Said::Joined(joined) => {
            let node = evidence.keys.entry(joined.node()).or_default();
            node.origin = Some(joined.origin);
            node.add(usable(&joined.key)?, joined.at, ever);
        }
        Said::Changed(changed) => {
            let node = evidence.keys.entry(changed.node).or_default();
            node.add(usable(&changed.old)?, always, changed.at);
            node.add(usable(&changed.new)?, changed.at, ever);
        }
        Said::Revoked(revoked) => {
            let node = evidence.keys.entry(revoked.node).or_default();
            node.add(usable(&revoked.key)?, always, revoked.at);
        }
    }
    Ok(())
}
