//! A node of the simulated fleet: its key, its chain, and segments as an agent seals them.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use leasewatch_core::evidence::chain::{
    ChainStart, ChainStartReason, ClockSource, ClockState, HeadDraft, SealedSegment, seal,
};
use leasewatch_core::evidence::statement::{self, StatementKind};
use leasewatch_core::id::{ChainId, EpochId, Hash, KeyId, LifeUnitId, NodeId, Sequence, Slug};
use leasewatch_core::segment::{
    Block, Event, EventKind, EventsBlock, GpuInventory, LifeUnit, LifeUnitKind, Origin, TrackSource,
};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::convert::{ChainStartParts, Challenge, Claim, Hello, Proof};

use crate::data::{self, NodeSamples};

/// The tenant of everything that is simulated here.
pub const TENANT: &str = "demo";
/// What the agent's program would say of itself.
const VERSION: &str = "0.1.0";
/// When every simulated host was booted: the boot clock runs on from segment to segment.
const BOOTED_AT: Timestamp = Timestamp(1_700_000_000_000);
const LIFE_UNIT: LifeUnitId = LifeUnitId([4; 16]);

/// A node and the end of its chain.
#[derive(Debug)]
pub struct BenchNode {
    number: u64,
    gpus: usize,
    key: SigningKey,
    id: NodeId,
    origin: Origin,
    chain: ChainId,
    epoch: EpochId,
    last: Option<(Sequence, Hash)>,
    /// Where the first weight of the next segment begins.
    weight_from: Option<Timestamp>,
}

/// The server did not prove that it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server could not prove its identity")]
pub struct Unproven;

impl BenchNode {
    /// Node `number` of a fresh fleet: its key is random, its samples are those of its number.
    #[must_use]
    pub fn new(number: u64, gpus: usize, origin: Origin) -> Self {
        let key = SigningKey::from_bytes(&random());
        let id = KeyId::of_public_key(&key.verifying_key().to_bytes()).first_node_id();
        let (chain, epoch) = (ChainId(random()), EpochId(random()));
        Self { number, gpus, key, id, origin, chain, epoch, last: None, weight_from: None }
    }

    /// Its public key.
    #[must_use]
    pub fn public_key(&self) -> VerifyingKey {
        self.key.verifying_key()
    }

    /// Its public id.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Its number in the fleet.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What it introduces itself with.
    ///
    /// # Errors
    /// Never for the fixed names.
    pub fn hello(&self) -> anyhow::Result<Hello> {
        Ok(Hello {
            public_key: self.public_key().to_bytes(),
            client_nonce: random(),
            chain: self.chain,
            epoch: self.epoch,
            life_unit: LIFE_UNIT,
            oldest: None,
            newest: self.last.map(|(sequence, _)| sequence),
            tenant: Slug::new(TENANT)?,
            provider: Slug::new(["provider-a", "provider-b", "provider-c"][self.provider()])?,
            node_name: format!("bench-{:05}", self.number),
            origin: self.origin,
            agent_version: VERSION.to_owned(),
        })
    }

    fn provider(&self) -> usize {
        usize::try_from(self.number % 3).unwrap_or(0)
    }

    /// Checks the server's signature and answers with the node's.
    ///
    /// # Errors
    /// [`Unproven`].
    pub fn prove(&self, hello: &Hello, challenge: &Challenge) -> Result<Proof, Unproven> {
        let server = statement::public_key(&challenge.identity_key).map_err(|_| Unproven)?;
        let claim = hello.challenge_message(&challenge.server_nonce);
        let signature = Signature::from_bytes(&challenge.signature);
        server.verify_strict(&claim, &signature).map_err(|_| Unproven)?;
        let signature = self.key.sign(&challenge.proof_message(hello, &Claim::default()));
        Ok(Proof { signature: signature.to_bytes(), claim: Claim::default() })
    }

    /// The signed beginning of its chain.
    #[must_use]
    pub fn chain_start(&self, at: Timestamp) -> ChainStartParts {
        let reason = ChainStartReason::Joined;
        let start = ChainStart { node: self.id, chain: self.chain, at, reason };
        let statement = start.statement();
        let signature = statement::sign(StatementKind::ChainStart, &statement, &self.key);
        ChainStartParts { statement, signature }
    }

    /// The blocks of a stretch of samples; with the inventory when it is the first of the epoch.
    ///
    /// # Errors
    /// For names that do not fit.
    pub fn blocks(&self, samples: &NodeSamples, first: bool) -> anyhow::Result<Vec<Block>> {
        let source = match self.origin {
            Origin::Imported => TrackSource::Import,
            Origin::Measured | Origin::Simulated => TrackSource::Poll,
        };
        let mut blocks = Vec::with_capacity(self.gpus + 2);
        for (gpu, samples) in samples.gpus.iter().enumerate() {
            blocks.push(Block::Gpu(data::gpu_block((self.number, gpu), samples, source)?));
        }
        let samples = samples.gpus.first().map_or(&[][..], Vec::as_slice);
        blocks.push(Block::Host(data::host_block(self.number, samples)));
        if let Some(at) = samples.first().map(|sample| Timestamp(sample.at_ms)).filter(|_| first) {
            blocks.push(Block::Events(EventsBlock { events: self.first_events(at)? }));
        }
        Ok(blocks)
    }

    fn first_events(&self, at: Timestamp) -> anyhow::Result<Vec<Event>> {
        let life_unit = LifeUnit {
            id: LIFE_UNIT,
            kind: LifeUnitKind::Host,
            boot_id: "5c0de000-0000-4000-8000-000000000000".to_owned(),
            started_at: at.plus_ms(-7_200_000),
        };
        let (version, clock_source) = (VERSION.to_owned(), "tsc".to_owned());
        let started = EventKind::AgentStarted { version, life_unit, clock_source };
        let mut events = vec![Event::new(at, None, started)];
        for gpu in 0..self.gpus {
            let inventory = self.inventory(gpu)?;
            let uuid = inventory.uuid.clone();
            events.push(Event::new(at, Some(uuid), EventKind::GpuSeen(inventory)));
        }
        Ok(events)
    }

    fn inventory(&self, gpu: usize) -> anyhow::Result<GpuInventory> {
        let (uuid, bus_id) = data::gpu_names(self.number, gpu)?;
        Ok(GpuInventory {
            uuid,
            bus_id,
            index: i64::try_from(gpu)?,
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            pci_device_id: 0x2330_10de,
            serial: Some(format!("165{:06}{gpu:02}", self.number)),
            vbios: Some("96.00.74.00.01".to_owned()),
            part_number: Some("692-2G520-0200-000".to_owned()),
            memory_total_mib: Some(81_559),
            power_limit_default_mw: Some(700_000),
            power_limit_management_mw: Some(700_000),
            pcie_generation_max: Some(5),
            pcie_width_max: Some(16),
            mig: false,
            partition: None,
        })
    }

    /// Time passed in which nothing was read: the next weight begins with the next sample.
    pub fn skip(&mut self) {
        self.weight_from = None;
    }

    /// Seals the next segment of the chain.
    ///
    /// # Errors
    /// When the samples break the format: a fault of this program.
    pub fn seal(&mut self, blocks: &[Block]) -> anyhow::Result<SealedSegment> {
        let (first, weight_from, end) = bounds(blocks)?;
        let start = self.weight_from.unwrap_or(first.plus_ms(-1_000));
        let (sequence, previous) = match self.last {
            Some((sequence, hash)) => (Sequence(sequence.0 + 1), Some(hash)),
            None => (Sequence::FIRST, None),
        };
        let draft = HeadDraft {
            tenant: Slug::new(TENANT)?,
            node: self.id,
            chain: self.chain,
            epoch: self.epoch,
            life_unit: LIFE_UNIT,
            sequence,
            period: Period::new(start, end),
            cadence_ms: 1_000,
            origin: self.origin,
            gpu_count: u16::try_from(self.gpus)?,
            previous,
            clock: ClockState {
                anchor_wall: end,
                anchor_boot_ms: end.since(BOOTED_AT),
                offset_ms: Some(0),
                bound_ms: Some(1),
                source: ClockSource::Ntp,
            },
            checkpoint: None,
            agent_version: VERSION.to_owned(),
            agent_digest: Some(Hash([6; 32])),
        };
        let sealed = seal(draft, blocks, &self.key)?;
        self.last = Some((sequence, sealed.signed.head.hash()));
        self.weight_from = Some(weight_from);
        Ok(sealed)
    }

    /// The last sequence that it sealed; 0 before the first.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.last.map_or(0, |(sequence, _)| sequence.0)
    }
}

/// The first tick of any GPU, the earliest of their last ticks, and the last of all times.
fn bounds(blocks: &[Block]) -> anyhow::Result<(Timestamp, Timestamp, Timestamp)> {
    let ticks = blocks.iter().filter_map(|block| match block {
        Block::Gpu(gpu) => Some((gpu.ticks.first().copied()?, gpu.ticks.last().copied()?)),
        Block::Host(_) | Block::Events(_) => None,
    });
    let first = ticks.clone().map(|(first, _)| first).min();
    let earliest_last = ticks.clone().map(|(_, last)| last).min();
    let last = ticks.map(|(_, last)| last).max();
    match (first, earliest_last, last) {
        (Some(first), Some(earliest_last), Some(last)) => Ok((first, earliest_last, last)),
        _ => anyhow::bail!("a segment without samples"),
    }
}

/// Bytes from the system.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        // A key that others can guess must not be used, not even in a measurement.
        eprintln!("no random bytes: {error}");
        std::process::exit(1);
    }
    bytes
}
