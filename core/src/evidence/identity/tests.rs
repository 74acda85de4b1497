use ed25519_dalek::SigningKey;
use proptest::prelude::*;

use super::*;
use crate::evidence::statement::{StatementKind, sign};
use crate::id::{NodeId, Slug};
use crate::join::JoinAddress;
use crate::segment::Origin;
use crate::segment::fixture::START;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn public(seed: u8) -> [u8; 32] {
    key(seed).verifying_key().to_bytes()
}

/// The vectors of the document.
pub(in crate::evidence) fn enrollment() -> Enrollment {
    Enrollment {
        key: public(2),
        tenant: Slug::new("default").unwrap(),
        provider: Slug::new("acme").unwrap(),
        name: "gpu-1".to_owned(),
        origin: Origin::Measured,
        at: START,
        admission: Admission::Token(7),
    }
}

pub(in crate::evidence) fn rotation() -> Rotation {
    Rotation {
        node: enrollment().node(),
        old: public(2),
        new: public(3),
        at: START.plus_ms(1_000),
        token: 8,
    }
}

pub(in crate::evidence) fn revocation() -> Revocation {
    Revocation {
        node: enrollment().node(),
        key: public(2),
        at: START.plus_ms(1_000),
        reason: RevocationReason::Operator,
        by: Some("command line".to_owned()),
    }
}

pub(in crate::evidence) fn server_rotation() -> ServerRotation {
    ServerRotation {
        number: 1,
        old: Some(public(1)),
        new: public(4),
        at: START,
        signer: RotationSigner::Identity,
    }
}

pub(in crate::evidence) fn server_notice() -> ServerNotice {
    ServerNotice {
        at: START,
        recovery: Some(public(5)),
        pins: vec![Hash([6; 32]), Hash([7; 32])],
        addresses: vec![JoinAddress::new("https://203.0.113.7:7443").unwrap()],
    }
}

fn signed(rotation: &ServerRotation, by: u8) -> SignedStatement {
    let statement = rotation.statement();
    let signature = sign(StatementKind::ServerRotation, &statement, &key(by));
    SignedStatement { statement, signature }
}

/// The `number`th rotation, from one key to another, signed by `by`.
fn step(number: u64, old: u8, new: u8, by: u8) -> SignedStatement {
    let rotation = ServerRotation {
        number,
        old: Some(public(old)),
        new: public(new),
        at: START,
        signer: if by == RECOVERY { RotationSigner::Recovery } else { RotationSigner::Identity },
    };
    signed(&rotation, by)
}

const RECOVERY: u8 = 99;

fn trusting(identity: u8) -> ServerTrust {
    ServerTrust { identity: public(identity), recovery: Some(public(RECOVERY)), recovered: 0 }
}

#[test]
fn each_statement_is_read_as_it_was_written() {
    let (a, b, c) = (enrollment(), rotation(), revocation());
    assert_eq!(Enrollment::from_statement(&a.statement()), Ok(a));
    assert_eq!(Rotation::from_statement(&b.statement()), Ok(b));
    assert_eq!(Revocation::from_statement(&c.statement()), Ok(c));
    let (d, e) = (server_rotation(), server_notice());
    assert_eq!(ServerRotation::from_statement(&d.statement()), Ok(d));
    assert_eq!(ServerNotice::from_statement(&e.statement()), Ok(e.clone()));
    let silent = ServerNotice { recovery: None, pins: vec![], addresses: vec![], ..e };
    assert_eq!(ServerNotice::from_statement(&silent.statement()), Ok(silent));
}

#[test]
fn what_contradicts_itself_is_refused() {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let foreign = text(enrollment().statement())
        .replace(&enrollment().node().to_string(), &NodeId([9; 16]).to_string());
    assert!(Enrollment::from_statement(foreign.as_bytes()).is_err());
    let open = Enrollment { admission: Admission::Open, ..enrollment() };
    assert_eq!(Enrollment::from_statement(&open.statement()), Ok(open.clone()));
    let numbered = text(open.statement())
        .replace("\"tenant\":\"default\"", "\"tenant\":\"default\",\"token\":1");
    assert!(Enrollment::from_statement(numbered.as_bytes()).is_err());
    let same = Rotation { new: public(2), ..rotation() };
    assert!(Rotation::from_statement(&same.statement()).is_err());
    let nameless = ServerRotation { old: None, ..server_rotation() };
    assert!(ServerRotation::from_statement(&nameless.statement()).is_err());
    let zeroth = ServerRotation { number: 0, ..server_rotation() };
    assert!(ServerRotation::from_statement(&zeroth.statement()).is_err());
}

#[test]
fn a_chain_is_followed_however_long_one_was_away() {
    let chain = [step(1, 1, 2, 1), step(2, 2, 3, 2), step(3, 3, 4, 3)];
    for held in 1..=4 {
        assert_eq!(trusting(held).follow(&chain), trusting(4), "held {held}");
    }
    // Nobody who holds another key is concerned, and nothing leads back.
    assert_eq!(trusting(9).follow(&chain), trusting(9));
    assert_eq!(trusting(4).follow(&[step(4, 1, 9, 1), step(5, 2, 9, 2)]), trusting(4));
}

#[test]
fn a_rotation_that_neither_key_signed_changes_nothing() {
    let good = step(1, 1, 2, 1);
    let mut flipped = good.clone();
    flipped.signature[3] ^= 1;
    let statement = text_of(&good).replace("identity", "recovery").into_bytes();
    let claimed = SignedStatement { statement, ..good.clone() };
    let nonsense = SignedStatement { statement: b"{}".to_vec(), ..good };
    for wrong in [step(1, 1, 9, 9), flipped, claimed, nonsense, step(1, 9, 8, 9)] {
        assert_eq!(trusting(1).follow(&[wrong]), trusting(1));
    }
    // Of a server that never told its recovery key nobody else can be one.
    let untold = ServerTrust { recovery: None, ..trusting(1) };
    assert_eq!(untold.follow(&[step(1, 1, 2, RECOVERY)]), untold);
}

fn text_of(signed: &SignedStatement) -> String {
    String::from_utf8(signed.statement.clone()).unwrap()
}

#[test]
fn the_recovery_key_brings_back_who_followed_a_thief_and_an_old_recovery_no_longer_counts() {
    let recovered = step(2, 2, 5, RECOVERY);
    // The thief of key 2 named his own before the owner noticed.
    let astray = trusting(1).follow(&[step(1, 1, 2, 1), step(2, 2, 66, 2)]);
    assert_eq!(astray.identity, public(66));
    let back = astray.follow(&[step(1, 1, 2, 1), recovered.clone()]);
    assert_eq!((back.identity, back.recovered), (public(5), 2));
    // Key 5 is given up as well; whoever has stolen it shows the recovery that led there.
    let later = back.follow(&[step(3, 5, 6, 5)]);
    assert_eq!(later.follow(&[recovered]).identity, public(6));
    assert_eq!(later.follow(&[step(3, 6, 7, RECOVERY)]).identity, public(7));
    // Without the key before, too.
    let lost = ServerRotation {
        number: 9,
        old: None,
        new: public(8),
        at: START,
        signer: RotationSigner::Recovery,
    };
    assert_eq!(trusting(1).follow(&[signed(&lost, RECOVERY)]).identity, public(8));
}

#[test]
fn a_notice_is_taken_from_the_server_s_key_alone() {
    let statement = server_notice().statement();
    let signature = sign(StatementKind::ServerNotice, &statement, &key(1));
    let signed = SignedStatement { statement, signature };
    assert_eq!(ServerNotice::open(&signed, &public(1)), Ok(server_notice()));
    assert!(ServerNotice::open(&signed, &public(2)).is_err());
}

proptest! {
    /// Whatever somebody without the held key and the recovery key puts together.
    #[test]
    fn without_a_key_nobody_moves_a_node(steps in proptest::collection::vec((1_u64..9, 1_u8..6, 1_u8..6, 2_u8..6), 0..20)) {
        let chain: Vec<SignedStatement> = steps
            .iter()
            .filter(|(_, old, new, _)| old != new)
            .map(|(number, old, new, by)| step(*number, *old, *new, *by))
            .collect();
        prop_assert_eq!(trusting(1).follow(&chain), trusting(1));
    }
}
