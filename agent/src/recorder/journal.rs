//! The node's chain: seals into it, and holds the spool.
//!
//! Shared by the recorder, which appends, and the uplink, which delivers and trims. A segment is on
//! disk before it may leave, or the end of the chain is: whatever dies, no sequence is used twice.
//! `state.toml` is written when a file of the spool begins, when a segment is in memory only, and
//! when it says something new; the spool knows the end between.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ed25519_dalek::SigningKey;
use leasewatch_core::delivery::ClockEstimate;
use leasewatch_core::evidence::chain::{
    self, ChainStartReason, ClockState, HeadDraft, SealError, SealedSegment,
};
use leasewatch_core::evidence::spool::FileHeader;
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{ChainId, KeyId, NodeId, Sequence, Slug};
use tokio::sync::Notify;

use super::{Content, Epoch};
use crate::clock::{self, Anchor, Instant};
use crate::identity::{Beginning, Enrolled, IdentityError, KnownGpu, State};
use crate::spool::{self, Appended, DroppedRange, Quota, Spool};

/// How fast two clocks may drift apart at worst: one millisecond in ten seconds.
const DRIFT_MS_IN: i64 = 10_000;
/// A clock that is further from the server's than this places nothing in time.
const CLOCK_WRONG_MS: u64 = 5_000;

/// Where and how much a journal keeps.
#[derive(Debug)]
pub struct Writer {
    /// The node's key.
    pub key: SigningKey,
    /// The state directory; its lock is held by whoever made this.
    pub state_dir: PathBuf,
    /// Bounds of the spool.
    pub quota: Quota,
}

/// Why a segment was not sealed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Nothing is recorded before the first welcome.
    #[error("the node was never welcomed by a server")]
    NotEnrolled,
    /// The recorder gathered something that the format refuses.
    #[error(transparent)]
    Seal(#[from] SealError),
}

#[derive(Debug)]
struct Inner {
    state: State,
    spool: Spool,
    /// Server time minus node time, and when (boot ms) it was measured.
    clock: Option<ToldClock>,
    evicted: u64,
    /// The state says something that its file does not.
    is_unsaved: bool,
}

/// The node's chain.
#[derive(Debug)]
pub struct Journal {
    writer: Writer,
    epoch: Epoch,
    inner: Mutex<Inner>,
    sealed: Notify,
}

impl Journal {
    /// Goes on where the chain ends, by `state` and the spool in the state directory. What an
    /// earlier process could not deliver is still there.
    #[must_use]
    pub fn new(writer: Writer, epoch: Epoch, mut state: State) -> Self {
        let public_key = writer.key.verifying_key().to_bytes();
        let owner = FileHeader { chain: state.chain, public_key };
        let folder = spool::folder(&writer.state_dir);
        let mut spool = Spool::open(&folder, writer.quota, owner, state.end);
        let is_known = state.end == spool.end();
        state.end = spool.end();
        match if is_known { Ok(()) } else { state.save(&writer.state_dir) } {
            Ok(()) => spool.remove_stale(),
            Err(error) => report_unsaved(&error),
        }
        let inner = Mutex::new(Inner { state, spool, clock: None, evicted: 0, is_unsaved: false });
        Self { writer, epoch, inner, sealed: Notify::new() }
    }

    /// This run of the agent.
    #[must_use]
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The node's key.
    #[must_use]
    pub fn key(&self) -> &SigningKey {
        &self.writer.key
    }

    /// The node's public id: the enrolled one, or the one that its key will be enrolled as.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node_of(&self.lock().state)
    }

    fn node_of(&self, state: &State) -> NodeId {
        state.enrolled.as_ref().map_or_else(|| self.first_node(), |enrolled| enrolled.node)
    }

    /// The node that the key makes where it takes over none.
    fn first_node(&self) -> NodeId {
        KeyId::of_public_key(self.writer.key.verifying_key().as_bytes()).first_node_id()
    }

    /// The chain that is written.
    #[must_use]
    pub fn chain(&self) -> ChainId {
        self.lock().state.chain
    }

    /// What the first welcome said; `None` before it.
    #[must_use]
    pub fn enrolled(&self) -> Option<Enrolled> {
        self.lock().state.enrolled.clone()
    }

    /// GPUs as last seen.
    #[must_use]
    pub fn known_gpus(&self) -> Vec<KnownGpu> {
        self.lock().state.gpus.clone()
    }

    /// Notes which GPUs there are; they reach the disk with the next segment.
    pub fn set_known_gpus(&self, gpus: Vec<KnownGpu>) {
        let mut inner = self.lock();
        inner.is_unsaved |= inner.state.gpus != gpus;
        inner.state.gpus = gpus;
    }

    /// Returns when a segment was sealed since the last call returned.
    pub async fn sealed(&self) {
        self.sealed.notified().await;
    }

    /// Seals what was gathered as the next segment and puts it into the spool.
    ///
    /// # Errors
    /// [`JournalError`]; the chain is as it was then.
    pub fn seal(
        &self,
        content: &Content,
        anchor: Anchor,
        gpu_count: u16,
        gpus: Vec<KnownGpu>,
    ) -> Result<Sequence, JournalError> {
        let mut inner = self.lock();
        let draft = self.draft(&inner, content, anchor, gpu_count)?;
        let sealed = chain::seal(draft, &content.blocks(anchor), &self.writer.key)?;
        let sequence = sealed.signed.head.sequence;
        let appended = inner.spool.append(&sealed, Instant::now());
        inner.state.end = inner.spool.end();
        let life_unit = Some(self.epoch.life_unit.id);
        inner.is_unsaved |= inner.state.gpus != gpus || inner.state.life_unit != life_unit;
        (inner.state.gpus, inner.state.life_unit) = (gpus, life_unit);
        if inner.is_unsaved || appended.is_new_file || !appended.is_durable {
            inner.is_unsaved = !self.save(&inner.state);
        }
        self.note_drops(&mut inner, &appended);
        drop(inner);
        self.sealed.notify_one();
        Ok(sequence)
    }

    fn note_drops(&self, inner: &mut Inner, appended: &Appended) {
        let node = self.node_of(&inner.state);
        for range in &appended.drops {
            let (statement, signature) = self.sign_range(node, inner.state.chain, range);
            inner.spool.note_drop(range, &statement, &signature);
        }
        if appended.given_up > 0 {
            inner.evicted += appended.given_up;
            tracing::warn!(
                segments = appended.given_up,
                total = inner.evicted,
                "the spool is full: the oldest segments are given up"
            );
        }
    }

    fn draft(
        &self,
        inner: &Inner,
        content: &Content,
        anchor: Anchor,
        gpu_count: u16,
    ) -> Result<HeadDraft, JournalError> {
        let Enrolled { node, tenant, .. } =
            inner.state.enrolled.clone().ok_or(JournalError::NotEnrolled)?;
        let end = inner.spool.end();
        let ended = content.ended(anchor);
        let estimate = inner.clock.map(|told| told.of(anchor, ended.boot_ms));
        Ok(HeadDraft {
            tenant,
            node,
            chain: inner.state.chain,
            epoch: self.epoch.id,
            life_unit: self.epoch.life_unit.id,
            sequence: end.sequence.next().unwrap_or(end.sequence),
            period: content.period(anchor),
            cadence_ms: self.epoch.cadence_ms,
            origin: self.epoch.origin,
            gpu_count,
            previous: end.head,
            clock: ClockState {
                anchor_wall: ended.wall,
                anchor_boot_ms: ended.boot_ms,
                offset_ms: estimate.map(|estimate| estimate.offset_ms),
                bound_ms: estimate.map(|estimate| estimate.bound_ms),
                source: self.epoch.clock_source,
            },
            checkpoint: None,
            agent_version: self.epoch.version.clone(),
            agent_digest: self.epoch.digest,
        })
    }

    /// Signs the drop of a range of this chain: statement and signature.
    #[must_use]
    pub fn sign_drop(&self, range: &DroppedRange) -> (Vec<u8>, [u8; 64]) {
        let (node, chain) = (self.node(), self.chain());
        self.sign_range(node, chain, range)
    }

    fn sign_range(
        &self,
        node: NodeId,
        chain: ChainId,
        range: &DroppedRange,
    ) -> (Vec<u8>, [u8; 64]) {
        let DroppedRange { first, last, period, reason, last_head } = *range;
        let drop = chain::Drop { node, chain, first, last, period, reason, last_head };
        let statement = drop.statement();
        let signature = sign(StatementKind::Drop, &statement, &self.writer.key);
        (statement, signature)
    }

    /// Sets a segment aside that the server refuses: a signed drop takes its place.
    pub fn quarantine(&self, sequence: Sequence, code: &str) {
        let mut inner = self.lock();
        let Some(sealed) = inner.spool.quarantine(sequence) else { return };
        if let Some(range) = inner.spool.dropped(sequence, sequence) {
            let node = self.node_of(&inner.state);
            let (statement, signature) = self.sign_range(node, inner.state.chain, &range);
            inner.spool.note_drop(&range, &statement, &signature);
        }
        drop(inner);
        self.keep_refused(&sealed, code);
    }

    /// Looks at the spool, or changes it.
    pub fn with_spool<T>(&self, look: impl FnOnce(&mut Spool) -> T) -> T {
        look(&mut self.lock().spool)
    }

    /// Notes what a welcome said. Returns true when it was the first.
    pub fn on_welcome(&self, node: NodeId, tenant: Slug, cadence_ms: u32) -> bool {
        let mut inner = self.lock();
        let enrolled = Some(Enrolled { node, tenant, cadence_ms });
        if inner.state.enrolled == enrolled {
            return false;
        }
        let is_first = inner.state.enrolled.is_none();
        if is_first && node != self.first_node() {
            // The key took over a node that was there before, and had a chain.
            inner.state.beginning.reason = ChainStartReason::LostState;
        }
        inner.state.enrolled = enrolled;
        self.save(&inner.state);
        is_first
    }

    /// Notes how far the server's clock is away, which was learned `at`.
    pub fn set_clock_estimate(&self, estimate: ClockEstimate, at: Instant) {
        self.lock().clock = Some(ToldClock { estimate, at });
    }

    /// How far the server's clock is away, with the bound that the time since has left of it.
    #[must_use]
    pub fn clock_estimate(&self, now: Instant) -> Option<ClockEstimate> {
        self.lock().clock.map(|told| told.of(Anchor::at(now), now.boot_ms))
    }

    /// Bounds of the spool.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.writer.quota
    }

    /// Gives the chain up for a new one. What the old one still owes is declared at the beginning
    /// of the new one; returns how many sequences that are.
    pub fn start_chain(&self, chain: ChainId, reason: ChainStartReason) -> u64 {
        let mut inner = self.lock();
        let owed = inner.spool.start_chain(chain);
        inner.state.chain = chain;
        inner.state.beginning = Beginning { reason, at: Some(clock::wall()) };
        inner.state.end = inner.spool.end();
        // Until the state names the new chain, a process that dies goes on with the old one.
        if self.save(&inner.state) {
            inner.spool.remove_stale();
        }
        owed
    }

    /// Signs the start of the chain: statement and signature. It is dated and written down the
    /// first time; a clock that is known to be wrong is not used for it.
    #[must_use]
    pub fn sign_chain_start(&self) -> (Vec<u8>, [u8; 64]) {
        let mut inner = self.lock();
        let at = inner.state.beginning.at.unwrap_or_else(|| {
            let now = Instant::now();
            let told = inner.clock.map(|told| told.of(Anchor::at(now), now.boot_ms));
            let offset_ms = told.map_or(0, |estimate| estimate.offset_ms);
            let is_wrong = offset_ms.unsigned_abs() > CLOCK_WRONG_MS;
            now.wall.plus_ms(if is_wrong { offset_ms } else { 0 })
        });
        if inner.state.beginning.at != Some(at) {
            inner.state.beginning.at = Some(at);
            self.save(&inner.state);
        }
        let (chain, reason) = (inner.state.chain, inner.state.beginning.reason);
        drop(inner);
        let start = chain::ChainStart { node: self.node(), chain, at, reason };
        let statement = start.statement();
        let signature = sign(StatementKind::ChainStart, &statement, &self.writer.key);
        (statement, signature)
    }

    /// The server does not take the start of the chain as it is dated: the next one is dated anew.
    pub fn redate_chain_start(&self) {
        let mut inner = self.lock();
        inner.state.beginning.at = None;
        self.save(&inner.state);
    }

    /// For whoever has to find out why it was refused: the last one only.
    fn keep_refused(&self, sealed: &SealedSegment, code: &str) {
        let path = self.writer.state_dir.join("refused.head.json");
        if let Err(error) = std::fs::write(&path, &sealed.signed.statement) {
            tracing::warn!(file = %path.display(), error = %error, code, "refused head not kept");
        }
    }

    fn save(&self, state: &State) -> bool {
        let saved = state.save(&self.writer.state_dir);
        saved.inspect_err(report_unsaved).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Recording goes on: a full disk must not blind the node. If the process then dies before the
/// next successful write, the server knows more of the chain than the file, and a new one begins.
fn report_unsaved(error: &IdentityError) {
    tracing::error!(error = %error, "the end of the chain could not be written");
}

/// What the server knew of this node's clock, and when it came.
#[derive(Debug, Clone, Copy)]
struct ToldClock {
    estimate: ClockEstimate,
    at: Instant,
}

impl ToldClock {
    /// The same of the times that are counted from an anchor. By the boot clock, which both share:
    /// a wall clock that was set since, or before and not noticed yet, makes no difference. The
    /// bound grows with the time since.
    fn of(self, anchor: Anchor, now_boot_ms: i64) -> ClockEstimate {
        let Self { estimate: ClockEstimate { offset_ms, bound_ms }, at } = self;
        let ahead_ms = at.wall.since(anchor.wall_of(at.boot_ms));
        let drift_ms = now_boot_ms.saturating_sub(at.boot_ms).max(0) / DRIFT_MS_IN;
        ClockEstimate {
            offset_ms: offset_ms.saturating_add(ahead_ms),
            bound_ms: bound_ms.saturating_add(drift_ms),
        }
    }
}
