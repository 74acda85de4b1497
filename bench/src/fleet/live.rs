//! A node that samples each second, seals each minute and shows itself each few seconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use leasewatch_core::time::Timestamp;
use leasewatch_proto::convert::SegmentParts;
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use leasewatch_proto::v1::server_message::Kind as FromServer;
use prost::Message as _;
use tokio::time::{Instant as Deadline, sleep_until, timeout_at};

use super::frame::live_frame;
use super::stream::Stream;
use super::tally::Weight;
use super::{DRAIN, Shared};
use crate::clock;
use crate::data::{NodeSamples, READINGS, SimulatedNode};
use crate::node::BenchNode;

/// Time between two cuts.
const CUT_MS: i64 = 60_000;

/// Joins, waits for the others, samples for as long as the fleet does, and waits for the last
/// acknowledgement.
pub(super) async fn node(shared: Arc<Shared>, number: u64) -> anyhow::Result<()> {
    let node = shared.node(number);
    let stream = shared.join(&node).await?;
    let began = shared.until_go().await?;
    let until = began + Duration::from_secs(shared.options.seconds);
    let mut samples = SimulatedNode::new(number, shared.options.gpus);
    let start = clock::wall();
    // Shown until the first stretch is there; nothing of it is stored.
    let shown = samples.clone().seconds(start.0, 1);
    let pace = Duration::from_millis(u64::from(stream.welcome.live_interval_ms));
    let mut live = Live {
        sampled_to: start,
        cut_at: first_cut(&shared, number, start),
        frame_at: Instant::now() + pace.mul_f64(crate::measure::real(number % 100) / 100.0),
        samples: &mut samples,
        in_flight: VecDeque::new(),
        shared: &shared,
        shown,
        pace,
        stream,
        node,
    };
    live.run(until).await
}

/// Within the first minute: at the node's own phase, or at the full minute.
fn first_cut(shared: &Shared, number: u64, start: Timestamp) -> Timestamp {
    if shared.options.at_the_minute {
        return Timestamp((start.0.div_euclid(CUT_MS) + 1) * CUT_MS);
    }
    let share = number * 60_000 / shared.options.nodes.max(1);
    start.plus_ms(i64::try_from(share).unwrap_or(0).max(1_000))
}

struct Live<'a> {
    shared: &'a Shared,
    node: BenchNode,
    samples: &'a mut SimulatedNode,
    stream: Stream,
    sampled_to: Timestamp,
    cut_at: Timestamp,
    frame_at: Instant,
    pace: Duration,
    shown: NodeSamples,
    in_flight: VecDeque<(u64, Instant, Weight)>,
}

impl Live<'_> {
    async fn run(&mut self, until: Instant) -> anyhow::Result<()> {
        while Instant::now() < until {
            let cut_in = self.cut_at.since(clock::wall()).max(0);
            let cut = Deadline::now() + Duration::from_millis(cut_in.unsigned_abs());
            tokio::select! {
                () = sleep_until(cut) => self.cut().await?,
                () = sleep_until(self.frame_at.into()) => self.show().await?,
                answer = self.stream.receive() => self.on_answer(answer?).await?,
                () = sleep_until(until.into()) => break,
            }
        }
        // Not cut here: the whole fleet would send at one instant, which no fleet does.
        let end = Deadline::now() + DRAIN;
        while !self.in_flight.is_empty() {
            let answer = timeout_at(end, self.stream.receive()).await;
            self.on_answer(answer.context("no acknowledgement came")??).await?;
        }
        Ok(())
    }

    /// Seals the whole seconds since the last cut.
    async fn cut(&mut self) -> anyhow::Result<()> {
        let now = clock::wall();
        let seconds = now.since(self.sampled_to).div_euclid(1_000);
        self.cut_at = self.cut_at.plus_ms(CUT_MS);
        if seconds < 1 {
            return Ok(());
        }
        self.shown = self.samples.seconds(self.sampled_to.0, seconds);
        self.sampled_to = self.sampled_to.plus_ms(seconds * 1_000);
        let blocks = self.node.blocks(&self.shown, self.node.newest() == 0)?;
        let sealed = self.node.seal(&blocks)?;
        let gpus = self.shown.gpus.len();
        let values = gpus * usize::try_from(seconds)? * READINGS;
        let weight = Weight::of(&sealed, gpus, values);
        let sent_at = Instant::now();
        let parts = SegmentParts::from(&sealed);
        let bytes = self.stream.send(ToServer::Segment(parts.into_wire())).await?;
        self.shared.tally.sent(bytes);
        self.in_flight.push_back((sealed.signed.head.sequence.0, sent_at, weight));
        Ok(())
    }

    async fn show(&mut self) -> anyhow::Result<()> {
        self.frame_at += self.pace;
        let now = clock::wall();
        let second = usize::try_from(now.0.div_euclid(1_000).rem_euclid(60))?;
        let frame = live_frame((self.node.number(), now), &self.shown, second)?.to_wire();
        self.shared.tally.frame(frame.encoded_len());
        self.stream.send(ToServer::Live(frame)).await?;
        Ok(())
    }

    async fn on_answer(&mut self, answer: FromServer) -> anyhow::Result<()> {
        match answer {
            FromServer::Ack(ack) if !ack.rewind => {
                while let Some((_, sent_at, weight)) =
                    self.in_flight.pop_front_if(|(sequence, ..)| *sequence <= ack.sequence)
                {
                    self.shared.tally.acked(&weight, sent_at.elapsed());
                }
            }
            FromServer::Ack(_) => {
                self.shared.tally.rewound();
                anyhow::bail!("the server asked for segments again");
            }
            FromServer::Refusal(refusal) => {
                self.shared.tally.refused();
                anyhow::bail!("refused: {} {}", refusal.code, refusal.message);
            }
            FromServer::TimeProbe(probe) => self.stream.echo(&probe).await?,
            FromServer::LivePace(pace) => {
                self.pace = Duration::from_millis(u64::from(pace.interval_ms.max(250)));
            }
            _ => {}
        }
        Ok(())
    }
}
