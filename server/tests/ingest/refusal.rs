//! What is refused leaves nothing behind, and can be covered by a drop.

use leasewatch_core::evidence::chain::HeadDraft;
use leasewatch_core::id::{BusId, ChainId, GpuUuid, NodeId, Sequence};
use leasewatch_core::segment::{Block, Origin};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::{self, AgentMessage};
use tonic::Code;

use crate::agent::{Agent, gpu, message, segment, slug};
use crate::rig::{Client, NOW, Rig};

type Change<T> = fn(&mut T);

async fn opened(seed: u8) -> (Rig, Agent, Client) {
    let rig = Rig::new().await;
    let agent = Agent::new(seed, NOW);
    let client = rig.join(&agent).await.unwrap();
    rig.clock.set(NOW.plus_ms(3_000));
    (rig, agent, client)
}

async fn assert_nothing_stored(rig: &Rig) {
    for table in ["segment", "segment_block", "event", "chain_cursor", "hour_work", "slot", "gpu"] {
        assert_eq!(rig.count(&format!("select count(*) from {table}")).await, 0, "{table}");
    }
}

fn wire(message: AgentMessage) -> v1::Segment {
    match message.kind {
        Some(Kind::Segment(wire)) => wire,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn heads_of_somebody_else_or_another_time_are_refused() {
    let (rig, agent, mut client) = opened(1).await;
    let changes: [(&str, Change<HeadDraft>); 8] = [
        ("foreign_node", |draft| draft.node = NodeId([9; 16])),
        ("foreign_tenant", |draft| draft.tenant = slug("demo")),
        ("foreign_chain", |draft| draft.chain = ChainId([9; 16])),
        ("origin_mismatch", |draft| draft.origin = Origin::Simulated),
        ("too_many_gpus", |draft| draft.gpu_count = 300),
        ("cadence_out_of_range", |draft| draft.cadence_ms = 1),
        ("clock_out_of_range", |draft| draft.period = moved(NOW.plus_ms(-86_400_000))),
        ("clock_out_of_range", |draft| draft.period = moved(NOW.plus_ms(86_400_000))),
    ];
    for (code, change) in changes {
        let mut draft = agent.draft();
        change(&mut draft);
        let refused = client.refusal(segment(&agent.seal_as(draft))).await;
        assert_eq!(refused, (1, code.to_owned()));
    }
    assert_nothing_stored(&rig).await;
}

fn moved(start: Timestamp) -> Period {
    Period::new(start, start.plus_ms(3_000))
}

#[tokio::test]
async fn altered_bytes_another_key_and_another_spelling_are_refused() {
    let (rig, agent, mut client) = opened(2).await;
    let sealed = segment(&agent.seal_as(agent.draft()));
    let altered = |change: fn(&mut v1::Segment)| {
        let mut wire = wire(sealed.clone());
        change(&mut wire);
        message(Kind::Segment(wire))
    };
    let changes: [(&str, Change<v1::Segment>); 6] = [
        ("bad_signature", |wire| wire.signature[3] ^= 1),
        ("bad_signature", |wire| wire.signature.truncate(10)),
        ("bad_root", |wire| wire.blocks[0][9] ^= 1),
        ("bad_root", |wire| wire.blocks.swap(0, 1)),
        ("block_count", |wire| drop(wire.blocks.pop())),
        ("not_canonical", |wire| wire.head.insert(1, b' ')),
    ];
    for (code, change) in changes {
        assert_eq!(client.refusal(altered(change)).await, (1, code.to_owned()));
    }
    let thief = Agent { key: Agent::new(99, NOW).key, ..agent.clone() };
    let forged = segment(&thief.seal_as(HeadDraft { node: agent.id(), ..agent.draft() }));
    assert_eq!(client.refusal(forged).await, (1, "bad_signature".to_owned()));
    assert_nothing_stored(&rig).await;
}

#[tokio::test]
async fn blocks_that_do_not_belong_together_are_refused() {
    let (rig, mut agent, mut client) = opened(3).await;
    agent.gpus = vec![gpu(3, 0), gpu(3, 1)];
    let honest = agent.seal_as(agent.draft());
    // The agent's own sealer refuses two blocks of one GPU, so the bytes are signed by hand.
    let twice = Agent { gpus: vec![gpu(3, 0), (gpu(3, 0).0, gpu(3, 1).1)], ..agent.clone() };
    let blocks: Vec<Vec<u8>> =
        twice.blocks(agent.draft().period).iter().map(|block| block.encode().unwrap()).collect();
    let forged = crate::agent::signed_by_hand(&agent, &honest, blocks);
    assert_eq!(client.refusal(forged).await, (1, "duplicate_gpu".to_owned()));
    let junk = crate::agent::signed_by_hand(&agent, &honest, vec![vec![0xff; 100]]);
    let (sequence, _) = client.refusal(junk).await;
    assert_eq!(sequence, 1);
    let huge = crate::agent::signed_by_hand(&agent, &honest, vec![vec![0; 200_000]]);
    assert_eq!(client.refusal(huge).await, (1, "too_long".to_owned()));
    assert_nothing_stored(&rig).await;
}

#[tokio::test]
async fn sequences_that_no_chain_has_are_refused() {
    let (rig, agent, mut client) = opened(4).await;
    let honest = wire(segment(&agent.seal_as(agent.draft())));
    let text = String::from_utf8(honest.head.clone()).unwrap();
    for number in ["0", "9007199254740991", "9007199254740992", "18446744073709551615"] {
        let head = text.replace("\"sequence\":1", &format!("\"sequence\":{number}"));
        let forged = v1::Segment { head: head.into_bytes(), ..honest.clone() };
        let (sequence, _) = client.refusal(message(Kind::Segment(forged))).await;
        assert_eq!(sequence.to_string(), number);
    }
    let far = HeadDraft {
        sequence: Sequence((1 << 53) - 1),
        previous: Some(leasewatch_core::id::Hash([1; 32])),
        ..agent.draft()
    };
    let refused = client.refusal(segment(&agent.seal_as(far))).await;
    assert_eq!(refused.1, "sequence_out_of_range");
    assert_nothing_stored(&rig).await;
}

#[tokio::test]
async fn what_cannot_even_be_numbered_ends_the_stream() {
    let (rig, agent, mut client) = opened(5).await;
    let junk = v1::Segment { head: b"{".to_vec(), signature: vec![0; 64], blocks: Vec::new() };
    client.send(message(Kind::Segment(junk))).await;
    assert_eq!(client.end().await.code(), Code::InvalidArgument);
    let mut client = rig.join(&agent).await.unwrap();
    client.send(message(Kind::Hello(agent.hello()))).await;
    assert_eq!(client.end().await.code(), Code::InvalidArgument);
    assert_nothing_stored(&rig).await;
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_stream_and_others_are_served() {
    let (rig, agent, mut client) = opened(6).await;
    let honest = wire(segment(&agent.seal_as(agent.draft())));
    let bomb = v1::Segment { blocks: vec![vec![0; 4 * 1_024 * 1_024]], ..honest.clone() };
    client.send(message(Kind::Segment(bomb))).await;
    assert_ne!(client.end().await.code(), Code::Ok);
    assert_nothing_stored(&rig).await;
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(message(Kind::Segment(honest))).await, (1, false));
}

#[tokio::test]
async fn a_refused_segment_is_covered_by_a_drop_and_the_chain_goes_on() {
    let (rig, mut agent, mut client) = opened(7).await;
    agent.at = NOW.plus_ms(86_400_000);
    let refused = agent.seal();
    assert_eq!(client.refusal(segment(&refused)).await, (1, "clock_out_of_range".to_owned()));
    let head = refused.signed.head.hash();
    assert_eq!(client.ack(agent.drop_range(1, 1, head)).await, (1, false));
    agent.at = NOW.plus_ms(3_000);
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (2, false));
    // The drop names a day that this node has not seen; no hour of it is metered.
    let last_hour = NOW.plus_ms(8_000).hour().0;
    let future = format!("select count(*) from hour_work where hour > {last_hour}");
    assert_eq!(rig.count(&future).await, 0);
}

#[tokio::test]
async fn a_node_that_invents_places_without_end_is_refused() {
    let (rig, mut agent, mut client) = opened(8).await;
    let place = |number: u16| {
        let uuid = GpuUuid::new(&format!("GPU-{number:04x}")).unwrap();
        (uuid, BusId::new(&format!("00000000:{number:04X}:00.0")).unwrap())
    };
    for round in 0..16_u16 {
        agent.gpus = (0..64).map(|index| place(round * 64 + index)).collect();
        // The inventory of 64 boards would not fit beside their blocks.
        let mut draft = agent.draft();
        draft.gpu_count = 64;
        let blocks: Vec<Block> = agent
            .blocks(draft.period)
            .into_iter()
            .filter(|block| matches!(block, Block::Gpu(_)))
            .collect();
        let sealed = leasewatch_core::evidence::chain::seal(draft, &blocks, &agent.key).unwrap();
        agent.last = Some((sealed.signed.head.sequence, sealed.signed.head.hash()));
        agent.at = sealed.signed.head.period.end;
        rig.clock.set(agent.at);
        assert_eq!(client.ack(segment(&sealed)).await, (u64::from(round) + 1, false));
    }
    agent.gpus = vec![place(1_024)];
    let refused = client.refusal(rig.seal(&mut agent)).await;
    assert_eq!(refused, (17, "too_many_slots".to_owned()));
    assert_eq!(rig.count("select count(*) from slot").await, 1_024);
}
