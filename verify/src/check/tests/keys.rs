//! Keys that were rotated, revoked, contested, or never the node's.

use super::{checked, refused};
use crate::check::Trust;
use crate::fixture::{HOUR, Parts, head_of, joined, node, node_key, parts, server_key};
use crate::report::{Outcome, Report};
use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::bundle::name;
use leasewatch_core::evidence::chain::{Head, SignedHead};
use leasewatch_core::evidence::identity::{Revocation, RevocationReason, Rotation};
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::{ChainId, Hash};
use leasewatch_core::time::Timestamp;

fn next_key() -> SigningKey {
    SigningKey::from_bytes(&[8; 32])
}

/// A time of the window, in minutes from its start.
fn minute(at: i64) -> Timestamp {
    HOUR.start().plus_ms(at * 60_000)
}

fn rotated(at: Timestamp) -> Vec<(StatementKind, Vec<u8>)> {
    let (old, new) = (joined().key, next_key().verifying_key().to_bytes());
    vec![
        revoked(at, RevocationReason::Replaced),
        (StatementKind::Rotation, Rotation { node: node(), old, new, at, token: 8 }.statement()),
    ]
}

fn revoked(at: Timestamp, reason: RevocationReason) -> (StatementKind, Vec<u8>) {
    let of = Revocation { node: node(), key: joined().key, at, reason, by: None };
    (StatementKind::Revocation, of.statement())
}

/// The first head of the next chain, in the minute of this line.
fn of_next_chain(line: usize, key: &SigningKey) -> SignedHead {
    let sequence = u64::try_from(line).unwrap() + 1;
    head_of(ChainId([5; 16]), sequence, Some(Hash([7; 32])), key)
}

fn of_parts(change: impl FnOnce(&mut Parts)) -> Parts {
    let mut parts = parts();
    change(&mut parts);
    parts.commit().bind(&server_key())
}

fn fault(change: impl FnOnce(&mut Parts)) -> String {
    refused(&of_parts(change), "heads", Outcome::Mismatch)
}

#[track_caller]
fn verified(change: impl FnOnce(&mut Parts)) -> Report {
    let report = checked(&of_parts(change), &Trust::default());
    assert_eq!(report.outcome(), Outcome::Verified, "{}", report.to_text());
    report
}

#[test]
fn a_key_that_was_rotated_counts_from_then_on_and_the_one_before_until_then() {
    let report = verified(|parts| {
        parts.say(&rotated(minute(5)));
        parts.put_head(5, &of_next_chain(5, &next_key()));
    });
    assert_eq!(report.notes, [] as [&str; 0]);
    // The new key on a time at which it was not yet the node's.
    let said = fault(|parts| {
        parts.say(&rotated(minute(60)));
        parts.put_head(5, &of_next_chain(5, &next_key()));
    });
    assert!(said.contains("line 6: is dated before its key was the node's"), "{said}");
    // The old one on a time at which it was not any more.
    let said = fault(|parts| {
        parts.say(&rotated(minute(5)));
        parts.put_head(5, &of_next_chain(5, &node_key()));
    });
    assert!(said.contains("line 6: is dated after its key was revoked or replaced"), "{said}");
}

#[test]
fn a_revoked_key_counts_until_then_to_the_leeway_of_clocks() {
    let revoke = |at: Timestamp| {
        move |parts: &mut Parts| parts.say(&[revoked(at, RevocationReason::Operator)])
    };
    // The last head ends with the fifth minute.
    for at in [minute(5), minute(5).plus_ms(-5_000)] {
        verified(revoke(at));
    }
    let said = fault(revoke(minute(5).plus_ms(-5_001)));
    assert!(said.contains("line 5: is dated after"), "{said}");
    let said = fault(revoke(minute(0)));
    assert!(said.contains("line 1: is dated after"), "{said}");
}

/// Dated before the revocation, committed after it: the reader is told.
#[test]
fn what_a_revoked_key_said_late_is_told() {
    let report = verified(|parts| {
        parts.say(&[revoked(minute(5).plus_ms(-1), RevocationReason::Operator)]);
    });
    let late = "1 heads were committed only after their key had been revoked or replaced";
    assert_eq!(report.notes, [late]);
}

#[test]
fn a_head_that_was_signed_again_by_an_unlisted_key_is_refused() {
    let said = fault(|parts| {
        let last = parts.of(name::HEADS).remove(3);
        let previous = Head::from_statement(&last).unwrap().hash();
        let again = head_of(ChainId([4; 16]), 5, Some(previous), &next_key());
        parts.put_head(4, &again);
    });
    assert!(said.contains("line 5: is not signed by a key of its node"), "{said}");
}

#[test]
fn two_users_of_one_key_are_told() {
    // Two heads of one place.
    let said = fault(|parts| {
        let twin = head_of(ChainId([4; 16]), 5, Some(Hash([7; 32])), &node_key());
        parts.put_head(5, &twin);
    });
    assert!(said.contains("line 6: contradicts the head before it"), "{said}");
    // A chain that tells of the time of another one.
    let report = verified(|parts| {
        parts.put_head(5, &of_next_chain(1, &node_key()));
    });
    let contested = format!("node {} is contested", node());
    assert!(report.notes.iter().any(|note| note.starts_with(&contested)), "{:?}", report.notes);
}
