//! Promise D3: a cancelled RPC loses, duplicates or mis-tenants nothing.
//!
//! Clients vanish after a random number of the scheduler's turns, so at every await of the stream's
//! task and of the writer's, while one database connection serves everybody. What an acknowledgement promised must be there, once, in
//! the right tenant; then a client that stays delivers the rest.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use leasewatch_core::evidence::chain::SealedSegment;
use leasewatch_core::id::ChainId;
use leasewatch_core::time::Timestamp;
use leasewatch_proto::v1::agent_message::Kind as FromAgent;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_proto::v1::{AgentMessage, ServerMessage};
use leasewatch_server::grpc::serve;
use leasewatch_server::store::Db;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::agent::{Agent, chain_start, message, segment, slug};
use crate::rig::{NOW, Rig};
use crate::support;

const ITERATIONS: u32 = 2_000;
const AGENTS: u8 = 6;
/// A client vanishes after fewer than two to the power of this many turns of the scheduler; a
/// whole visit needs some ten thousand.
const TURNS_MAX_LOG2: u64 = 16;
/// Segments that a visit tries to deliver.
const VISIT: u64 = 3;

/// An agent with everything that it ever sealed, and what it knows to be durable.
struct Visitor {
    agent: Agent,
    sealed: Vec<SealedSegment>,
    acked: u64,
}

#[tokio::test]
async fn clients_that_vanish_at_any_await_lose_duplicate_and_misplace_nothing() {
    let database = support::database().await;
    let one = Db::connect(&database.url, 1).await.unwrap();
    let rig = Rig::on(database, one, |_| ()).await;
    let mut visitors: Vec<Visitor> = (0..AGENTS).map(visitor).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut vanished, mut stayed, mut promised) = (0, 0, 0);
    for _ in 0..ITERATIONS {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let who = usize::try_from((random >> 33) % u64::from(AGENTS)).unwrap();
        // Short visits are as likely as long ones: awaits are dense where little waiting is.
        let longest = 1 << (1 + (random >> 40) % TURNS_MAX_LOG2);
        let turns = (random >> 44) % longest + 1;
        let visitor = &mut visitors[who];
        let before = visitor.acked;
        match (Bounded { turns, inner: Box::pin(visit(&rig, visitor)) }).await {
            Some(result) => {
                result.unwrap();
                stayed += 1;
            }
            None => vanished += 1,
        }
        promised += visitors[who].acked - before;
    }
    println!("{vanished} clients vanished, {stayed} stayed; {promised} acknowledgements");
    // The fault fired, and not every time: otherwise nothing was shown.
    assert!(vanished > ITERATIONS / 4 && stayed > ITERATIONS / 20, "{vanished} {stayed}");
    assert!(promised > u64::from(ITERATIONS) / 20, "{promised}");
    for visitor in &mut visitors {
        let (cursor, _) = rig.cursor(&visitor.agent).await;
        assert!(cursor >= visitor.acked, "acknowledged {}, stored {cursor}", visitor.acked);
        while visitor.acked < u64::try_from(visitor.sealed.len()).unwrap() {
            visit(&rig, visitor).await.unwrap();
        }
        assert_eq!(misplaced(&rig, visitor).await, None);
    }
    // The check sees a single row that is missing.
    rig.administer("delete from segment where ctid = (select ctid from segment limit 1)").await;
    let mut found = 0;
    for visitor in &visitors {
        found += usize::from(misplaced(&rig, visitor).await.is_some());
    }
    assert!(found >= 1);
}

fn visitor(seed: u8) -> Visitor {
    let mut agent = Agent::new(seed + 1, NOW);
    agent.tenant = slug(if seed.is_multiple_of(2) { "default" } else { "demo" });
    Visitor { agent, sealed: Vec::new(), acked: 0 }
}

/// One stream: joins, sends a few segments behind the cursor, waits for their acknowledgement.
async fn visit(rig: &Rig, visitor: &mut Visitor) -> Result<(), Status> {
    let (sender, messages) = mpsc::channel::<Result<AgentMessage, Status>>(8);
    let mut answers = serve(&rig.state, ReceiverStream::new(messages))?;
    let hello = visitor.agent.hello();
    send(&sender, message(FromAgent::Hello(hello.clone()))).await?;
    let ToAgent::Challenge(challenge) = next(&mut answers).await? else { panic!() };
    send(&sender, visitor.agent.prove(&hello, &challenge)).await?;
    let ToAgent::Welcome(welcome) = next(&mut answers).await? else { panic!() };
    if welcome.start_wanted {
        let start = visitor.agent.start(Timestamp(welcome.server_time_ms));
        send(&sender, chain_start(&start, &visitor.agent.key)).await?;
    }
    assert_eq!(welcome.tenant, visitor.agent.tenant.as_str());
    if visitor.sealed.is_empty() {
        // Nothing is recorded before the first welcome.
        visitor.agent.at = Timestamp(welcome.server_time_ms);
    }
    let end = welcome.cursor + VISIT;
    while u64::try_from(visitor.sealed.len()).unwrap() < end {
        let sealed = visitor.agent.seal();
        rig.clock.set(rig.clock.now().max(visitor.agent.at));
        visitor.sealed.push(sealed);
    }
    for index in welcome.cursor..end {
        let sealed = &visitor.sealed[usize::try_from(index).unwrap()];
        send(&sender, segment(sealed)).await?;
    }
    while visitor.acked < end {
        match next(&mut answers).await? {
            ToAgent::Ack(ack) => {
                assert!(!ack.rewind, "{ack:?}");
                visitor.acked = visitor.acked.max(ack.sequence);
            }
            ToAgent::Refusal(refusal) => panic!("{refusal:?}"),
            _ => {}
        }
    }
    Ok(())
}

async fn send(
    sender: &mpsc::Sender<Result<AgentMessage, Status>>,
    message: AgentMessage,
) -> Result<(), Status> {
    sender.send(Ok(message)).await.map_err(|_| Status::cancelled("the server hung up"))
}

async fn next(
    answers: &mut ReceiverStream<Result<ServerMessage, Status>>,
) -> Result<ToAgent, Status> {
    let message = answers.next().await.ok_or_else(|| Status::cancelled("ended"))??;
    Ok(message.kind.unwrap())
}

/// Chains that [`a_start_is_stored_once_or_not_at_all_whenever_its_client_vanishes`] begins.
const CHAINS: u8 = 200;

#[tokio::test]
async fn a_start_is_stored_once_or_not_at_all_whenever_its_client_vanishes() {
    let database = support::database().await;
    let one = Db::connect(&database.url, 1).await.unwrap();
    let rig = Rig::on(database, one, |_| ()).await;
    let mut agent = Agent::new(1, NOW);
    drop(rig.join(&agent).await.unwrap());
    let (mut vanished, mut acked) = (0, 0);
    for chain in 2..CHAINS {
        agent.lose_state(ChainId([chain; 16]));
        // From a few turns of the scheduler to some that end behind the acknowledgement.
        let turns = 1 << (chain % 17);
        let mut answered = false;
        let begin = Box::pin(begin_chain(&rig, &agent, &mut answered));
        match (Bounded { turns, inner: begin }).await {
            Some(result) => result.unwrap(),
            None => vanished += 1,
        }
        let count = format!(
            "select count(*) from chain_start where chain_id = '\\x{}'::bytea",
            agent.chain
        );
        if answered {
            acked += 1;
            assert_eq!(rig.count(&count).await, 1, "acknowledged and not stored");
        }
        // Whatever became of it, the next stream begins the chain or finds it begun.
        let mut client = rig.join(&agent).await.unwrap();
        assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
        assert_eq!(rig.count(&count).await, 1);
    }
    println!("{vanished} clients vanished, {acked} starts were acknowledged");
    assert!(vanished > CHAINS / 4 && acked > CHAINS / 20, "{vanished} {acked}");
}

async fn begin_chain(rig: &Rig, agent: &Agent, answered: &mut bool) -> Result<(), Status> {
    let (sender, messages) = mpsc::channel::<Result<AgentMessage, Status>>(8);
    let mut answers = serve(&rig.state, ReceiverStream::new(messages))?;
    let hello = agent.hello();
    send(&sender, message(FromAgent::Hello(hello.clone()))).await?;
    let ToAgent::Challenge(challenge) = next(&mut answers).await? else { panic!() };
    send(&sender, agent.prove(&hello, &challenge)).await?;
    let ToAgent::Welcome(welcome) = next(&mut answers).await? else { panic!() };
    assert!(welcome.start_wanted);
    let start = agent.start(Timestamp(welcome.server_time_ms));
    send(&sender, chain_start(&start, &agent.key)).await?;
    loop {
        if let ToAgent::Ack(ack) = next(&mut answers).await? {
            assert_eq!((ack.sequence, ack.rewind), (0, false));
            *answered = true;
            return Ok(());
        }
    }
}

/// What is wrong with what is stored of an agent: everything that it sealed must be there once,
/// as it was sealed, in its own tenant.
async fn misplaced(rig: &Rig, visitor: &Visitor) -> Option<String> {
    let id = visitor.agent.id();
    let row = rig.node(id).await.unwrap();
    if row.tenant != visitor.agent.tenant {
        return Some(format!("in tenant {}", row.tenant));
    }
    let mut stored = BTreeMap::new();
    for row in rig.heads(id).await {
        let sequence = row.head.sequence.0;
        if stored.insert(sequence, row.head.statement()).is_some() {
            return Some(format!("{sequence} is stored twice"));
        }
    }
    for (sequence, sealed) in (1..).zip(&visitor.sealed) {
        if stored.remove(&sequence).as_ref() != Some(&sealed.signed.statement) {
            return Some(format!("{sequence} is missing or another one"));
        }
    }
    if let Some((sequence, _)) = stored.pop_first() {
        return Some(format!("{sequence} was never sealed"));
    }
    let sent: usize = visitor.sealed.iter().map(|sealed| sealed.blocks.len()).sum();
    let blocks = rig.blocks(id).await.len();
    (blocks != sent).then(|| format!("{blocks} blocks instead of {sent}"))
}

/// A future that is dropped unfinished after so many turns of the scheduler, whether or not it was
/// its own turn to go on.
struct Bounded<F> {
    turns: u64,
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for Bounded<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.inner.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.turns <= 1 => Poll::Ready(None),
            Poll::Pending => {
                self.turns -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}
