//! A node that delivers minutes of the past as fast as they are acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use leasewatch_core::delivery::limits::WINDOW_BYTES;
use leasewatch_core::evidence::chain::SealedSegment;
use leasewatch_core::time::HOUR_MS;
use leasewatch_proto::convert::SegmentParts;
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use leasewatch_proto::v1::server_message::Kind as FromServer;
use tokio::time::timeout;

use super::stream::Stream;
use super::tally::Weight;
use super::{DRAIN, Shared};
use crate::clock;
use crate::data::{READINGS, SimulatedNode};
use crate::node::BenchNode;

/// Seals everything, joins, waits for the others, and sends.
pub(super) async fn node(shared: Arc<Shared>, number: u64, minutes: i64) -> anyhow::Result<()> {
    let mut node = shared.node(number);
    let minutes = (minutes, shared.options.backlog_step.max(1));
    let sealed = seal_all(&mut node, shared.options.gpus, minutes);
    let stream = shared.join(&node).await?;
    shared.until_go().await?;
    deliver(&shared, stream, sealed?).await
}

type Made = (SealedSegment, Weight);

/// `minutes` minutes, each `step` minutes after the one before; with a step of 1 the last of them
/// is the end of an hour that ended an hour ago.
fn seal_all(
    node: &mut BenchNode,
    gpus: usize,
    (minutes, step): (i64, i64),
) -> anyhow::Result<VecDeque<Made>> {
    let end_ms = clock::wall().hour().start().0 - HOUR_MS;
    let mut samples = SimulatedNode::new(node.number(), gpus);
    let mut sealed = VecDeque::new();
    for minute in 0..minutes {
        let made = samples.seconds(end_ms + (minute - minutes) * step * 60_000, 60);
        if step > 1 {
            node.skip();
        }
        let segment = node.seal(&node.blocks(&made, minute == 0)?)?;
        let weight = Weight::of(&segment, gpus, gpus * 60 * READINGS);
        sealed.push_back((segment, weight));
    }
    Ok(sealed)
}

struct Flight {
    sequence: u64,
    bytes: u64,
    sent_at: Instant,
    weight: Weight,
}

async fn deliver(
    shared: &Shared,
    mut stream: Stream,
    mut unsent: VecDeque<Made>,
) -> anyhow::Result<()> {
    let mut in_flight: VecDeque<Flight> = VecDeque::new();
    while !(unsent.is_empty() && in_flight.is_empty()) {
        let waiting: u64 = in_flight.iter().map(|flight| flight.bytes).sum();
        if (in_flight.is_empty() || waiting < WINDOW_BYTES)
            && let Some((segment, weight)) = unsent.pop_front()
        {
            let sequence = segment.signed.head.sequence.0;
            let parts = SegmentParts::from(&segment);
            let bytes = stream.send(ToServer::Segment(parts.into_wire())).await?;
            shared.tally.sent(bytes);
            let bytes = u64::try_from(bytes)?;
            in_flight.push_back(Flight { sequence, bytes, sent_at: Instant::now(), weight });
            continue;
        }
        let answer =
            timeout(DRAIN, stream.receive()).await.context("no acknowledgement came")??;
        match answer {
            FromServer::Ack(ack) if !ack.rewind => {
                while let Some(flight) = in_flight.pop_front_if(|f| f.sequence <= ack.sequence) {
                    shared.tally.acked(&flight.weight, flight.sent_at.elapsed());
                }
            }
            FromServer::Ack(_) => {
                shared.tally.rewound();
                anyhow::bail!("the server asked for segments again");
            }
            FromServer::Refusal(refusal) => {
                shared.tally.refused();
                anyhow::bail!("refused: {} {}", refusal.code, refusal.message);
            }
            FromServer::TimeProbe(probe) => stream.echo(&probe).await?,
            _ => {}
        }
    }
    Ok(())
}
