//! Who gets a stream, and whose node it becomes.

use std::time::Duration;

use leasewatch_core::segment::Origin;
use leasewatch_proto::v1;
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use tonic::{Code, Status};

use crate::agent::{Agent, message, slug};
use crate::rig::{NOW, Rig};

async fn refused(rig: &Rig, hello: v1::Hello) -> Status {
    let mut client = rig.call(message(Kind::Hello(hello))).await.unwrap();
    client.end().await
}

#[tokio::test]
async fn other_protocol_versions_are_told_the_range() {
    let rig = Rig::new().await;
    for protocol in [0, 999] {
        let status = refused(&rig, v1::Hello { protocol, ..Agent::new(1, NOW).hello() }).await;
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("1 to 1"), "{}", status.message());
    }
    assert_eq!(rig.count("select count(*) from node").await, 0);
}

#[tokio::test]
async fn a_key_that_is_not_proven_enrolls_nothing() {
    let rig = Rig::new().await;
    let agent = Agent::new(2, NOW);
    let thief = Agent::new(3, NOW);
    let hello = agent.hello();
    let mut client = rig.call(message(Kind::Hello(hello.clone()))).await.unwrap();
    let ToAgent::Challenge(challenge) = client.next().await.unwrap() else { panic!() };
    client.send(thief.prove(&hello, &challenge)).await;
    let status = client.end().await;
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "not authenticated"));
    // A proof for one stream is none for another: its nonce is the server's.
    let mut client = rig.call(message(Kind::Hello(hello.clone()))).await.unwrap();
    client.send(agent.prove(&hello, &challenge)).await;
    assert_eq!(client.end().await.code(), Code::Unauthenticated);
    assert_eq!(rig.count("select count(*) from node").await, 0);
}

#[tokio::test]
async fn a_message_before_the_proof_ends_the_stream() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(4, NOW);
    let mut client = rig.call(rig.seal(&mut agent)).await.unwrap();
    assert_eq!(client.end().await.code(), Code::InvalidArgument);
    let mut client = rig.call(message(Kind::Hello(agent.hello()))).await.unwrap();
    client.send(rig.seal(&mut agent)).await;
    assert_eq!(client.end().await.code(), Code::InvalidArgument);
    assert_eq!(rig.count("select count(*) from segment").await, 0);
}

#[tokio::test]
async fn only_open_tenants_take_new_nodes_and_the_first_use_decides() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(5, NOW);
    agent.tenant = slug("rival");
    assert_eq!(rig.join(&agent).await.err().unwrap().code(), Code::Unauthenticated);
    assert_eq!(rig.count("select count(*) from tenant where slug = 'rival'").await, 0);
    agent.tenant = slug("demo");
    let client = rig.join(&agent).await.unwrap();
    assert_eq!(client.welcome.tenant, "demo");
    // From now on the row decides, whatever the hello asks for.
    agent.tenant = slug("default");
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.welcome.tenant, "demo");
    let refused = client.refusal(rig.seal(&mut agent)).await;
    assert_eq!(refused, (1, "foreign_tenant".to_owned()));
    assert_eq!(rig.count("select count(*) from node").await, 1);
}

#[tokio::test]
async fn a_node_has_one_origin_for_its_life() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(6, NOW);
    rig.join(&agent).await.unwrap();
    agent.origin = Origin::Simulated;
    let status = rig.join(&agent).await.err().unwrap();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("measured"), "{}", status.message());
}

#[tokio::test]
async fn a_revoked_key_is_turned_away_and_its_open_stream_ends() {
    let rig = Rig::new().await;
    let agent = Agent::new(7, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    rig.administer("update node_key set revoked_at = 1").await;
    rig.live.revoke(agent.id());
    assert_eq!(client.end().await.code(), Code::Unauthenticated);
    let status = rig.join(&agent).await.err().unwrap();
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "not authenticated"));
}

#[tokio::test]
async fn of_three_streams_of_one_key_the_newest_two_stay() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(8, NOW);
    let mut first = rig.join(&agent).await.unwrap();
    let mut second = rig.join(&agent).await.unwrap();
    let mut third = rig.join(&agent).await.unwrap();
    assert_eq!(first.end().await.code(), Code::Aborted);
    let sealed = rig.seal(&mut agent);
    assert_eq!(second.ack(sealed.clone()).await, (1, false));
    assert_eq!(third.ack(sealed).await, (1, false));
}

#[tokio::test]
async fn there_is_room_for_so_many_streams_and_no_more() {
    let rig = Rig::with(|options| options.streams = 1).await;
    let agent = Agent::new(9, NOW);
    let client = rig.join(&agent).await.unwrap();
    let status = rig.call(message(Kind::Hello(agent.hello()))).await.err().unwrap();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
    drop(client);
}

#[tokio::test]
async fn a_client_that_says_nothing_is_not_waited_for() {
    let rig = Rig::with(|options| {
        options.handshake = Duration::from_millis(50);
        options.silence = Duration::from_millis(50);
    })
    .await;
    let mute = rig.call(message(Kind::Hello(Agent::new(10, NOW).hello()))).await;
    assert_eq!(mute.unwrap().end().await.code(), Code::Unauthenticated);
    let rig = Rig::with(|options| options.silence = Duration::from_millis(50)).await;
    let mut silent = rig.greet(&Agent::new(11, NOW)).await.unwrap();
    assert_eq!(silent.end().await.code(), Code::DeadlineExceeded);
}
