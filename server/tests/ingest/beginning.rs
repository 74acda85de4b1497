//! A chain begins with its signed start, and a break of the record is listed.

use axum::body::Body;
use http_body_util::BodyExt as _;
use leasewatch_core::evidence::chain::{ChainStart, ChainStartReason, leaf_hash};
use leasewatch_core::id::{ChainId, Hash, NodeId};
use leasewatch_core::time::HOUR_MS;
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::{self, AgentMessage};
use leasewatch_server::http::{self, Entrance, Http};
use leasewatch_server::intake::Intake;
use leasewatch_server::store::{Scope, chain};
use leasewatch_server::tenancy::Removals;
use serde_json::Value;
use tonic::{Code, Status};
use tower::ServiceExt as _;

use crate::agent::{Agent, chain_start, message};
use crate::rig::{ALWAYS, Client, NOW, Rig};

const STARTS: &str = "select count(*) from chain_start";

async fn ended(mut client: Client, message: AgentMessage) -> Status {
    client.send(message).await;
    client.end().await
}

async fn page(rig: &Rig, path: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let pages = http::router(Http {
        db: rig.database.db.clone(),
        live: rig.live.clone(),
        clock: rig.clock.clone(),
        address: "http://127.0.0.1:7443".to_owned(),
        intake: Intake::open(folder.path().join("uploads"), 1).unwrap().0,
        entrance: Entrance::default(),
        issuer: crate::rig::issuer(&rig.database.db, &rig.clock),
        installers: crate::rig::no_installers(),
        removals: Removals::default(),
    });
    let request = axum::http::Request::get(path).header("host", "127.0.0.1:7443");
    let answer = pages.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_chain_after_lost_state_is_stored_as_it_was_signed_and_listed() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(1, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    rig.clock.set(NOW.plus_ms(HOUR_MS));
    agent.at = rig.clock.now();
    agent.lose_state(ChainId([77; 16]));
    let mut client = rig.greet(&agent).await.unwrap();
    assert!(client.welcome.start_wanted);
    let start = agent.start(rig.clock.now());
    let sent = chain_start(&start, &agent.key);
    assert_eq!(client.ack(sent.clone()).await, (0, false));
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));

    let node = rig.node(agent.id()).await.unwrap();
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    let rows = chain::starts(&mut tx, node.key, ALWAYS, 10).await.unwrap();
    assert_eq!(chain::breaks(&mut tx, node.key).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let reasons: Vec<_> = rows.iter().map(|row| row.start.reason).collect();
    assert_eq!(reasons, [ChainStartReason::LostState, ChainStartReason::Joined]);
    let Some(Kind::ChainStart(wire)) = sent.kind else { panic!() };
    assert_eq!((&rows[0].statement, rows[0].signature.to_vec()), (&wire.statement, wire.signature));
    assert_eq!(rows[0].received_at, NOW.plus_ms(HOUR_MS));

    let json: Value = serde_json::from_str(&page(&rig, &json_path(&agent)).await).unwrap();
    assert_eq!(json["record_breaks"], 1);
    let listed = &json["chain_starts"][0];
    assert_eq!((&listed["reason"], &listed["chain"]), (&"lost_state".into(), &chain_of(&agent)));
    let statement = listed["statement"].as_str().unwrap();
    assert_eq!(leaf_hash(statement.as_bytes()), start.hash());
    for (language, words) in [("en", "A new record began"), ("zh-CN", "新的记录开始")] {
        let html = page(&rig, &format!("/nodes/{}?lang={language}", agent.id())).await;
        assert!(html.contains(words), "{language}");
    }
}

fn json_path(agent: &Agent) -> String {
    format!("/nodes/{}/node.json", agent.id())
}

fn chain_of(agent: &Agent) -> Value {
    agent.chain.to_string().into()
}

#[tokio::test]
async fn a_stream_that_skips_the_start_ends_and_nothing_is_taken() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(2, NOW);
    let silent = [rig.seal(&mut agent), agent.drop_range(1, 1, Hash([1; 32]))];
    for message in silent {
        let status = ended(rig.greet(&agent).await.unwrap(), message).await;
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        assert!(status.message().contains("chain_start"), "{}", status.message());
    }
    for table in ["segment", "dropped_range", "chain_cursor", "chain_start", "hour_work"] {
        assert_eq!(rig.count(&format!("select count(*) from {table}")).await, 0, "{table}");
    }
}

#[tokio::test]
async fn forged_foreign_and_misdated_starts_end_the_stream() {
    let rig = Rig::new().await;
    let agent = Agent::new(3, NOW);
    let honest = agent.start(NOW);
    let thief = Agent::new(4, NOW).key;
    let signed = |start: ChainStart| chain_start(&start, &agent.key);
    let cases: [(&str, AgentMessage); 6] = [
        ("not signed", chain_start(&honest, &thief)),
        ("another node", signed(ChainStart { node: NodeId([9; 16]), ..honest.clone() })),
        ("another chain", signed(ChainStart { chain: ChainId([9; 16]), ..honest.clone() })),
        ("between", signed(ChainStart { at: NOW.plus_ms(-HOUR_MS), ..honest.clone() })),
        ("between", signed(ChainStart { at: NOW.plus_ms(HOUR_MS), ..honest.clone() })),
        ("chain_start", message(Kind::ChainStart(v1::ChainStart::default()))),
    ];
    for (why, forged) in cases {
        let status = ended(rig.greet(&agent).await.unwrap(), forged).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(why), "{why}: {}", status.message());
    }
    assert_eq!(rig.count(STARTS).await, 0);
}

#[tokio::test]
async fn a_repeated_start_is_acknowledged_and_another_one_ends_the_stream() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(5, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    let start = agent.start(NOW);
    for _ in 0..5 {
        assert_eq!(client.ack(chain_start(&start, &agent.key)).await, (0, false));
    }
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    assert_eq!(client.ack(chain_start(&start, &agent.key)).await, (1, false));
    let other = ChainStart { at: NOW.plus_ms(1), ..start };
    let status = ended(client, chain_start(&other, &agent.key)).await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    let stored = format!("{STARTS} where at = {}", NOW.0);
    assert_eq!((rig.count(STARTS).await, rig.count(&stored).await), (1, 1));
}

#[tokio::test]
async fn a_chain_of_before_the_statement_goes_on_and_gets_none_afterwards() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(6, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    rig.administer("delete from chain_start").await;
    let mut client = rig.greet(&agent).await.unwrap();
    assert!(!client.welcome.start_wanted);
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (2, false));
    let status = ended(client, chain_start(&agent.start(NOW), &agent.key)).await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(rig.count(STARTS).await, 0);
}

#[tokio::test]
async fn only_the_first_chain_of_a_node_can_say_that_it_joined() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(7, NOW);
    rig.join(&agent).await.unwrap();
    agent.lose_state(ChainId([78; 16]));
    let pretended = ChainStart { reason: ChainStartReason::Joined, ..agent.start(NOW) };
    let status = ended(rig.greet(&agent).await.unwrap(), chain_start(&pretended, &agent.key)).await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(rig.count(STARTS).await, 1);
    rig.join(&agent).await.unwrap();
    assert_eq!(rig.count(STARTS).await, 2);
}

#[tokio::test]
async fn what_a_chain_owed_is_a_drop_before_the_first_segment_of_the_next() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(8, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    let owed = [rig.seal(&mut agent), rig.seal(&mut agent)];
    let head = agent.last.unwrap();
    agent.lose_state(ChainId([79; 16]));
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(agent.drop_range(1, 2, head.1)).await, (2, false));
    agent.last = Some((leasewatch_core::id::Sequence(2), head.1));
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (3, false));
    assert_eq!(rig.heads(agent.id()).await.len(), 2);
    // The old chain stands where it stood; what comes of it later is not of this stream's chain.
    let [late, _] = owed;
    assert_eq!(client.refusal(late).await, (2, "foreign_chain".to_owned()));
}
