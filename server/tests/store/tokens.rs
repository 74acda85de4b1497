//! Join tokens when many want them at once.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use leasewatch_core::id::Hash;
use leasewatch_core::segment::Origin;
use leasewatch_server::store::enrollment::{
    self, NewToken, RATE_JOINS, Redemption, TokenKey, TokenKind, TokenRefused,
};
use leasewatch_server::store::{Db, Scope, provider, tenant};

use crate::fixture::{AT, connect, number, slug};
use crate::support;

const AT_ONCE: u32 = 200;

async fn create(db: &Db, kind: TokenKind, seed: u32) -> (TokenKey, Hash) {
    let hash = Hash::of(&seed.to_be_bytes());
    let mut tx = db.begin(Scope::Ingest).await.unwrap();
    let tenant = tenant::ensure(&mut tx, &slug("default"), "unused").await.unwrap();
    let provider = provider::ensure(&mut tx, &slug("default"), "unused").await.unwrap();
    let new = NewToken {
        tenant: tenant.key,
        provider: provider.key,
        lease: None,
        kind,
        hash,
        created_by: "a test",
        at: AT,
        expires_at: AT.plus_ms(60_000),
    };
    let key = enrollment::create_token(&mut tx, &new).await.unwrap();
    tx.commit().await.unwrap();
    (key, hash)
}

/// One key shows the token in a transaction of its own, as a stream does.
async fn redeem(db: Db, token: Hash, key: u32) -> Result<(), TokenRefused> {
    let public_key = Hash::of(&[b"key".as_slice(), &key.to_be_bytes()].concat()).0;
    let mut tx = db.begin(Scope::Ingest).await.unwrap();
    let redemption = Redemption {
        token,
        public_key: &public_key,
        replaces: None,
        name: "node",
        origin: Origin::Measured,
        at: AT.plus_ms(1),
    };
    let outcome = enrollment::redeem(&mut tx, &redemption).await.unwrap().map(|_| ());
    match outcome {
        Ok(()) => tx.commit().await.unwrap(),
        Err(_) => tx.rollback().await.unwrap(),
    }
    outcome
}

/// How often each outcome came.
async fn race(db: &Db, token: Hash, first_key: u32) -> (usize, usize, usize) {
    let mut all = tokio::task::JoinSet::new();
    for key in first_key..first_key + AT_ONCE {
        all.spawn(redeem(db.clone(), token, key));
    }
    let outcomes = all.join_all().await;
    let count = |wanted: Result<(), TokenRefused>| {
        outcomes.iter().filter(|outcome| **outcome == wanted).count()
    };
    let used = count(Err(TokenRefused::Used));
    (count(Ok(())), used, count(Err(TokenRefused::TooMany)))
}

#[tokio::test]
async fn of_two_hundred_at_once_one_gets_in() {
    let races = if std::env::var_os("LEASEWATCH_CAMPAIGN").is_some() { 500 } else { 50 };
    let test = support::database().await;
    let db = Db::connect(&test.url, 16).await.unwrap();
    for seed in 0..races {
        let (_, token) = create(&db, TokenKind::Single, seed).await;
        let (joined, used, _) = race(&db, token, seed * AT_ONCE).await;
        assert_eq!((joined, used), (1, 199), "race {seed}");
    }
    let mut admin = connect(&test.admin_url).await;
    let nodes = number(&mut admin, "select count(*) from node").await;
    assert_eq!(nodes, i64::from(races));
    assert_eq!(number(&mut admin, "select count(*) from node_join").await, nodes);
    assert_eq!(number(&mut admin, "select sum(joins)::bigint from join_token").await, nodes);
}

#[tokio::test]
async fn a_fleet_token_never_exceeds_its_ceiling() {
    let test = support::database().await;
    let db = Db::connect(&test.url, 16).await.unwrap();
    for ceiling in [1_u32, 2, 59] {
        let (_, token) = create(&db, TokenKind::Fleet(ceiling), ceiling).await;
        let wanted = usize::try_from(ceiling).unwrap();
        let (joined, used, _) = race(&db, token, ceiling * 1_000).await;
        assert_eq!((joined, used), (wanted, 200 - wanted));
    }
    let (_, token) = create(&db, TokenKind::Fleet(1_000), 1_000).await;
    let pace = usize::try_from(RATE_JOINS).unwrap();
    assert_eq!(race(&db, token, 1_000_000).await, (pace, 0, 200 - pace));
}

#[tokio::test]
async fn one_key_at_once_on_many_streams_is_one_node_and_one_join() {
    let test = support::database().await;
    let db = Db::connect(&test.url, 16).await.unwrap();
    let (token_key, token) = create(&db, TokenKind::Fleet(9), 1).await;
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..50 {
        all.spawn(redeem(db.clone(), token, 1));
    }
    assert!(all.join_all().await.iter().all(Result::is_ok));
    let mut tx = db.begin(Scope::Operator).await.unwrap();
    assert_eq!(enrollment::joins(&mut tx, token_key).await.unwrap().len(), 1);
    assert_eq!(enrollment::tokens(&mut tx).await.unwrap()[0].joins, 1);
}

#[tokio::test]
async fn a_token_is_forgotten_only_while_nobody_joined_with_it() {
    let test = support::database().await;
    let (unused, _) = create(&test.db, TokenKind::Single, 1).await;
    let (used, token) = create(&test.db, TokenKind::Single, 2).await;
    redeem(test.db.clone(), token, 1).await.unwrap();
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    for key in [unused, used] {
        enrollment::forget_unused_token(&mut tx, key).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mut tx = test.db.begin(Scope::Operator).await.unwrap();
    let left: Vec<_> = enrollment::tokens(&mut tx).await.unwrap().iter().map(|t| t.key).collect();
    assert_eq!(left, [used]);
}
