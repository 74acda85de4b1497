//! Seals the parts of a history, one segment each, in the chain of the node.
//!
//! An `agent_started` in the log begins an epoch, and names the life of the host that it is of.

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::chain::{HeadDraft, SealedSegment, seal};
use leasewatch_core::id::{ChainId, EpochId, Hash, LifeUnitId, NodeId, Sequence, Slug};
use leasewatch_core::segment::{Block, EventKind, EventsBlock, Origin};
use leasewatch_core::time::{Period, Timestamp};
use tokio::sync::mpsc;

use super::line::{Lines, Part};
use super::named;
use crate::import::ImportError;
use crate::import::recorder::log_clock;

/// Who records, and where in the chain.
pub(super) struct Sealer {
    pub(super) key: SigningKey,
    pub(super) node: NodeId,
    pub(super) tenant: Slug,
    pub(super) chain: ChainId,
    pub(super) cadence_ms: u32,
    /// The last durable sequence and its head, if any.
    pub(super) end: Option<(Sequence, Hash)>,
}

/// One run of the agent, as the log tells it.
#[derive(Clone, Copy)]
struct Run {
    epoch: EpochId,
    life_unit: LifeUnitId,
    /// Up to where it is recorded.
    recorded_to: Option<Timestamp>,
}

impl Sealer {
    /// Seals all parts that end after `behind`, in order; returns how many do not.
    pub(super) fn seal_all(
        mut self,
        mut lines: Lines,
        behind: Option<Timestamp>,
        sealed: &mpsc::Sender<Result<SealedSegment, ImportError>>,
    ) -> u64 {
        let (mut run, mut covered) = (None, 0);
        loop {
            let part = lines.next_part().transpose();
            let next = part.map(|part| self.seal_next(&part?, &mut run, behind));
            let segment = match next {
                None => return covered,
                Some(Ok(None)) => {
                    covered += 1;
                    continue;
                }
                Some(Ok(Some(segment))) => Ok(segment),
                Some(Err(error)) => Err(error),
            };
            let failed = segment.is_err();
            // Nobody listens any more when the stream broke.
            if sealed.blocking_send(segment).is_err() || failed {
                return covered;
            }
        }
    }

    /// `None` for a part that the server has.
    fn seal_next(
        &mut self,
        part: &Part,
        run: &mut Option<Run>,
        behind: Option<Timestamp>,
    ) -> Result<Option<SealedSegment>, ImportError> {
        let wrong = |what: String| ImportError::History { line: part.line, what };
        self.follow_run(part, run).map_err(|what| wrong(what.to_owned()))?;
        let Some(run) = run else { return Err(wrong("it comes before any agent_started".into())) };
        let cadence = i64::from(self.cadence_ms);
        let period = period(part, run.recorded_to, cadence)
            .ok_or_else(|| wrong("it has no rows, or goes back in time".into()))?;
        run.recorded_to = Some(period.end);
        if behind.is_some_and(|end| period.end <= end) {
            return Ok(None);
        }
        let segment = self.seal(part, *run, period).map_err(wrong)?;
        let head = &segment.signed.head;
        self.end = Some((head.sequence, head.hash()));
        Ok(Some(segment))
    }

    fn follow_run(&self, part: &Part, run: &mut Option<Run>) -> Result<(), &'static str> {
        for (at, event) in part.events.iter().enumerate() {
            let EventKind::AgentStarted { life_unit, .. } = &event.kind else { continue };
            if at > 0 {
                return Err("an agent_started is not the first event of its part");
            }
            let public_key = self.key.verifying_key().to_bytes();
            let name = named("history-epoch", &public_key, &event.at.0.to_be_bytes());
            let mut epoch = [0; 8];
            epoch.copy_from_slice(&name.0[..8]);
            let recorded_to = run.and_then(|run| run.recorded_to);
            *run = Some(Run { epoch: EpochId(epoch), life_unit: life_unit.id, recorded_to });
        }
        Ok(())
    }

    fn seal(&self, part: &Part, run: Run, period: Period) -> Result<SealedSegment, String> {
        let (sequence, previous) = match self.end {
            Some((end, hash)) => (end.next().ok_or("the chain is full")?, Some(hash)),
            None => (Sequence::FIRST, None),
        };
        let draft = HeadDraft {
            tenant: self.tenant.clone(),
            node: self.node,
            chain: self.chain,
            epoch: run.epoch,
            life_unit: run.life_unit,
            sequence,
            period,
            cadence_ms: self.cadence_ms,
            origin: Origin::Simulated,
            gpu_count: part.gpu_count,
            previous,
            clock: log_clock(period.start),
            checkpoint: None,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            agent_digest: None,
        };
        let events = EventsBlock { events: part.events.clone() };
        let gpus = part.gpus.iter().cloned().map(Block::Gpu);
        let blocks: Vec<Block> = gpus.chain([Block::Events(events)]).collect();
        seal(draft, &blocks, &self.key).map_err(|error| error.to_string())
    }
}

/// From the start of the first weight, or from where the record ended a moment before, to the last
/// row or event.
fn period(part: &Part, recorded_to: Option<Timestamp>, cadence: i64) -> Option<Period> {
    let ticks = || part.gpus.iter().flat_map(|gpu| &gpu.ticks).copied();
    let events = || part.events.iter().map(|event| event.at);
    let (first_row, first) = (ticks().min()?, ticks().chain(events()).min()?);
    let last = ticks().chain(events()).max()?;
    let start = match recorded_to {
        Some(end) if first < end => return None,
        Some(end) if first.since(end) <= 3 * cadence => end,
        Some(end) => first.min(first_row.plus_ms(-cadence)).max(end),
        None => first.min(first_row.plus_ms(-cadence)),
    };
    Some(Period::new(start, last))
}
