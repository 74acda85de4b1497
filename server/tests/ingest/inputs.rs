//! What else can come in: times that no clock shows, statements nested without end, hundreds of
//! repeats, a client that never reads, another protocol on the same path.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::segment::{Block, HostBlock};
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::{self, AgentMessage};
use leasewatch_server::grpc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tower::ServiceExt as _;

use crate::agent::{Agent, message, segment};
use crate::rig::{NOW, Rig};

/// The agent's next segment with a part of its head replaced, and signed as it is then.
fn with_head(agent: &Agent, from: &str, to: &str) -> AgentMessage {
    let sealed = agent.seal_as(agent.draft());
    let text = String::from_utf8(sealed.signed.statement.clone()).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    let head = text.replace(from, to).into_bytes();
    let signature = sign(StatementKind::Head, &head, &agent.key).to_vec();
    message(Kind::Segment(v1::Segment { head, signature, blocks: sealed.blocks.clone() }))
}

#[tokio::test]
async fn times_that_no_clock_shows_are_refused() {
    let rig = Rig::new().await;
    let agent = Agent::new(1, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    rig.clock.set(NOW.plus_ms(3_000));
    let sealed = agent.seal_as(agent.draft());
    let text = String::from_utf8(sealed.signed.statement.clone()).unwrap();
    let key = "\"started_at\":";
    let at = text.find(key).unwrap() + key.len();
    let end = at + text[at..].find([',', '}']).unwrap();
    let honest = &text[at - key.len()..end];
    for time in [
        "0",
        "-1",
        "\"1970-01-01T00:00:00.000Z\"",
        "\"9999-12-31T23:59:59.999Z\"",
        "\"-0001-01-01T00:00:00.000Z\"",
        "\"2026-13-01T00:00:00.000Z\"",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "1e300",
        "null",
    ] {
        let (sequence, code) =
            client.refusal(with_head(&agent, honest, &format!("{key}{time}"))).await;
        assert_eq!(sequence, 1, "{time}: {code}");
    }
    assert_eq!(rig.count("select count(*) from segment").await, 0);
    assert_eq!(client.ack(segment(&sealed)).await, (1, false), "the stream goes on");
}

#[tokio::test]
async fn a_head_that_is_nested_or_named_without_end_is_refused() {
    let rig = Rig::new().await;
    let agent = Agent::new(2, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    rig.clock.set(NOW.plus_ms(3_000));
    let version = "\"agent_version\":\"0.1.0\"";
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for more in [deep(100), "\"".to_owned() + &"x".repeat(100_000) + "\"", "{}".to_owned()] {
        let nested = with_head(&agent, version, &format!("\"agent_version\":{more}"));
        client.send(nested).await;
        match client.answer().await {
            // A head that is too long to be looked at has no number, so the stream ends.
            Err(status) => {
                assert_eq!(status.code(), Code::InvalidArgument);
                client = rig.join(&agent).await.unwrap();
            }
            Ok(leasewatch_proto::v1::server_message::Kind::Refusal(_)) => {}
            Ok(other) => panic!("{other:?}"),
        }
    }
    client.send(with_head(&agent, version, &format!("\"agent_version\":{}", deep(10_000)))).await;
    assert_eq!(client.end().await.code(), Code::InvalidArgument);
    assert_eq!(rig.count("select count(*) from segment").await, 0);
}

#[tokio::test]
async fn two_hundred_repeats_are_acknowledged_and_stored_once() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(3, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    let sealed = rig.seal(&mut agent);
    assert_eq!(client.ack(sealed.clone()).await, (1, false));
    for _ in 0..200 {
        assert_eq!(client.ack(sealed.clone()).await, (1, false));
    }
    assert_eq!(rig.heads(agent.id()).await.len(), 1);
}

#[tokio::test]
async fn a_node_without_gpus_is_a_state_and_not_an_error() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(4, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    agent.gpus.clear();
    rig.clock.set(NOW.plus_ms(3_000));
    let draft = agent.draft();
    assert_eq!(draft.gpu_count, 0);
    let host = Block::Host(HostBlock { ticks: vec![draft.period.end], columns: Vec::new() });
    let sealed = leasewatch_core::evidence::chain::seal(draft, &[host], &agent.key).unwrap();
    assert_eq!(client.ack(segment(&sealed)).await, (1, false));
}

/// Without a transport in between: nothing that is sent to it is ever taken.
#[tokio::test]
async fn a_client_that_never_reads_is_let_go() {
    let rig = Rig::with(|options| options.patience = Duration::from_millis(200)).await;
    let mut agent = Agent::new(5, NOW);
    let mut honest = rig.join(&agent).await.unwrap();
    let sealed = rig.seal(&mut agent);
    assert_eq!(honest.ack(sealed.clone()).await, (1, false));
    let (to_server, inbound) = mpsc::channel(16);
    let mut unread = grpc::serve(&rig.state, ReceiverStream::new(inbound)).unwrap();
    let hello = agent.hello();
    to_server.send(Ok(message(Kind::Hello(hello.clone())))).await.unwrap();
    let first = tokio_stream::StreamExt::next(&mut unread).await.unwrap().unwrap();
    let Some(leasewatch_proto::v1::server_message::Kind::Challenge(challenge)) = first.kind else {
        panic!("{first:?}")
    };
    to_server.send(Ok(agent.prove(&hello, &challenge))).await.unwrap();
    // It never reads from here on. The server takes what its buffers hold, and then no more.
    let mut taken = 0;
    while to_server.send(Ok(sealed.clone())).await.is_ok() {
        taken += 1;
        assert!(taken < 10_000, "the server waits without end");
    }
    assert_eq!(honest.ack(sealed).await, (1, false), "others are served");
}

#[tokio::test]
async fn plain_http_on_the_agents_path_gets_an_answer_and_no_stream() {
    let rig = Rig::new().await;
    let path = "/leasewatch.v1.Telemetry/Stream";
    for request in [
        Request::get(path).body(Body::empty()),
        Request::post(path).header("content-type", "text/plain").body(Body::from("x")),
        Request::post(path).header("content-type", "application/json").body(Body::from("{}")),
        Request::post("/leasewatch.v1.Telemetry/Other")
            .header("content-type", "application/grpc")
            .body(Body::empty()),
    ] {
        let answer = grpc::routes(rig.state.clone()).oneshot(request.unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or_default();
        // Where there is no body, the headers are the trailers.
        let status = trailers.get("grpc-status").or(head.headers.get("grpc-status")).cloned();
        let is_refused = !head.status.is_success() || status.is_some_and(|status| status != "0");
        assert!(is_refused, "{head:?} {trailers:?}");
    }
    assert_eq!(rig.count("select count(*) from node_session").await, 0);
}
