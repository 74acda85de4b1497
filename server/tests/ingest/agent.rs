//! An agent made of nothing but its wire protocol: it seals real segments and speaks to a server
//! over a loopback connection, or in the same process.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use leasewatch_core::evidence::chain::{
    ChainStart, ChainStartReason, ClockSource, ClockState, Drop as DropNotice, DropReason,
    HeadDraft, SealedSegment, leaf_hash, merkle_root, seal,
};
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{
    BusId, ChainId, EpochId, GpuUuid, Hash, KeyId, LifeUnitId, NodeId, Sequence, Slug,
};
use leasewatch_core::sample::{HostMetric, Metric, Reading};
use leasewatch_core::segment::{
    Block, Column, Event, EventKind, EventsBlock, GpuBlock, GpuInventory, HostBlock, Origin,
    StopReason, TrackPoint, TrackSource, UtilizationTrack,
};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::convert::{Challenge, Claim, Hello, Proof};
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::{self, AgentMessage};

/// Milliseconds between two samples.
const CADENCE_MS: i64 = 1_000;

/// A node with its key and the end of its chain.
#[derive(Debug, Clone)]
pub struct Agent {
    pub key: SigningKey,
    /// The node that its key took over.
    pub node: Option<NodeId>,
    pub tenant: Slug,
    pub name: String,
    pub origin: Origin,
    pub chain: ChainId,
    /// Why its chain begins.
    pub reason: ChainStartReason,
    /// The last head that it sealed.
    pub last: Option<(Sequence, Hash)>,
    /// Where the next segment begins.
    pub at: Timestamp,
    pub gpus: Vec<(GpuUuid, BusId)>,
}

impl Agent {
    /// A measured node of the tenant `default` with one GPU that begins to record at `at`.
    pub fn new(seed: u8, at: Timestamp) -> Self {
        Self {
            key: SigningKey::from_bytes(&[seed; 32]),
            node: None,
            tenant: slug("default"),
            name: format!("node-{seed}"),
            origin: Origin::Measured,
            chain: ChainId([seed; 16]),
            reason: ChainStartReason::Joined,
            last: None,
            at,
            gpus: vec![gpu(seed, 0)],
        }
    }

    pub fn id(&self) -> NodeId {
        let of_key = KeyId::of_public_key(&self.key.verifying_key().to_bytes()).first_node_id();
        self.node.unwrap_or(of_key)
    }

    pub fn hello(&self) -> v1::Hello {
        v1::Hello {
            protocol: 1,
            public_key: self.key.verifying_key().to_bytes().to_vec(),
            client_nonce: vec![7; 32],
            chain: self.chain.0.to_vec(),
            epoch: vec![3; 8],
            life_unit: vec![4; 16],
            oldest_sequence: 0,
            newest_sequence: self.last.map_or(0, |(sequence, _)| sequence.0),
            tenant: self.tenant.to_string(),
            provider: "default".to_owned(),
            node_name: self.name.clone(),
            origin: self.origin.name().to_owned(),
            agent_version: "0.1.0".to_owned(),
        }
    }

    /// Checks the server's signature and answers with the node's.
    pub fn prove(&self, hello: &v1::Hello, challenge: &v1::Challenge) -> AgentMessage {
        self.prove_with(hello, challenge, Claim::default())
    }

    /// The same with a claim.
    pub fn prove_with(
        &self,
        hello: &v1::Hello,
        challenge: &v1::Challenge,
        claim: Claim,
    ) -> AgentMessage {
        let hello = Hello::from_wire(hello).unwrap();
        let challenge = Challenge::from_wire(challenge).unwrap();
        let server = VerifyingKey::from_bytes(&challenge.identity_key).unwrap();
        let signature = Signature::from_bytes(&challenge.signature);
        let shown = hello.challenge_message(&challenge.server_nonce);
        server.verify_strict(&shown, &signature).unwrap();
        let signature = self.key.sign(&challenge.proof_message(&hello, &claim)).to_bytes();
        message(Kind::Proof(Proof { signature, claim }.to_wire()))
    }

    /// The state is lost: another chain begins.
    pub fn lose_state(&mut self, chain: ChainId) {
        self.chain = chain;
        self.reason = ChainStartReason::LostState;
        self.last = None;
    }

    /// What the start of the chain says when the server asks for it at `now`.
    pub fn start(&self, now: Timestamp) -> ChainStart {
        let at = if self.origin == Origin::Imported { self.at } else { now };
        ChainStart { node: self.id(), chain: self.chain, at, reason: self.reason }
    }

    /// The head of the next segment: three seconds, one GPU block each, a host block.
    pub fn draft(&self) -> HeadDraft {
        let (sequence, previous) = match self.last {
            Some((sequence, hash)) => (sequence.next().unwrap(), Some(hash)),
            None => (Sequence::FIRST, None),
        };
        HeadDraft {
            tenant: self.tenant.clone(),
            node: self.id(),
            chain: self.chain,
            epoch: EpochId([3; 8]),
            life_unit: LifeUnitId([4; 16]),
            sequence,
            period: Period::new(self.at, self.at.plus_ms(3 * CADENCE_MS)),
            cadence_ms: 1_000,
            origin: self.origin,
            gpu_count: u16::try_from(self.gpus.len()).unwrap(),
            previous,
            clock: ClockState {
                anchor_wall: crate::rig::NOW,
                anchor_boot_ms: 5_000,
                offset_ms: Some(-3),
                bound_ms: Some(2),
                source: ClockSource::Ntp,
            },
            checkpoint: None,
            agent_version: "0.1.0".to_owned(),
            agent_digest: Some(Hash([6; 32])),
        }
    }

    /// Seals the next segment and moves on.
    pub fn seal(&mut self) -> SealedSegment {
        let sealed = self.seal_as(self.draft());
        self.last = Some((sealed.signed.head.sequence, sealed.signed.head.hash()));
        self.at = sealed.signed.head.period.end;
        sealed
    }

    /// Seals a segment under this head without moving on.
    pub fn seal_as(&self, draft: HeadDraft) -> SealedSegment {
        let blocks = self.blocks(draft.period);
        seal(draft, &blocks, &self.key).unwrap()
    }

    /// Seals a segment that holds a planned stop and nothing else, and moves on.
    pub fn seal_goodbye(&mut self) -> AgentMessage {
        let draft = self.draft();
        let kind = EventKind::Goodbye { reason: StopReason::Shutdown };
        let events = vec![Event::new(draft.period.end, None, kind)];
        let sealed = seal(draft, &[Block::Events(EventsBlock { events })], &self.key).unwrap();
        self.last = Some((sealed.signed.head.sequence, sealed.signed.head.hash()));
        self.at = sealed.signed.head.period.end;
        segment(&sealed)
    }

    pub fn blocks(&self, period: Period) -> Vec<Block> {
        let ticks: Vec<Timestamp> = (1..=3).map(|n| period.start.plus_ms(n * CADENCE_MS)).collect();
        let mut blocks: Vec<Block> =
            self.gpus.iter().map(|(uuid, bus_id)| self.gpu_block(uuid, bus_id, &ticks)).collect();
        let readings = vec![Some(Reading::Number(512)), None, Some(Reading::Error)];
        let columns = vec![Column { metric: HostMetric::MemoryUsed, readings }];
        blocks.push(Block::Host(HostBlock { ticks: ticks.clone(), columns }));
        if self.last.is_none() {
            let seen = self.gpus.iter().enumerate().map(|(index, (uuid, bus_id))| {
                let kind = EventKind::GpuSeen(inventory(uuid, bus_id, index));
                Event::new(ticks[0], Some(uuid.clone()), kind)
            });
            blocks.push(Block::Events(EventsBlock { events: seen.collect() }));
        }
        blocks
    }

    fn gpu_block(&self, uuid: &GpuUuid, bus_id: &BusId, ticks: &[Timestamp]) -> Block {
        let points = ticks.iter().zip([0, 73, 100]);
        let points = points.map(|(at, busy)| TrackPoint { at: *at, busy: Reading::Number(busy) });
        let source = match self.origin {
            Origin::Imported => TrackSource::Import,
            Origin::Measured | Origin::Simulated => TrackSource::Poll,
        };
        let readings =
            vec![Some(Reading::Number(350_000)), Some(Reading::Unsupported), Some(Reading::Stale)];
        Block::Gpu(GpuBlock {
            uuid: uuid.clone(),
            bus_id: bus_id.clone(),
            partition: None,
            ticks: ticks.to_vec(),
            track: UtilizationTrack { source, period_ms: 1_000, points: points.collect() },
            columns: vec![Column { metric: Metric::PowerDraw, readings }],
        })
    }

    /// A signed drop of a range, as after a refusal.
    pub fn drop_range(&self, first: u64, last: u64, last_head: Hash) -> AgentMessage {
        let notice = DropNotice {
            node: self.id(),
            chain: self.chain,
            first: Sequence(first),
            last: Sequence(last),
            period: Period::new(self.at, self.at.plus_ms(3_000)),
            reason: DropReason::Refused,
            last_head,
        };
        let statement = notice.statement();
        let signature = sign(StatementKind::Drop, &statement, &self.key).to_vec();
        message(Kind::Drop(v1::Drop { statement, signature }))
    }
}

pub fn slug(text: &str) -> Slug {
    Slug::new(text).unwrap()
}

pub fn gpu(node: u8, index: u8) -> (GpuUuid, BusId) {
    let uuid = GpuUuid::new(&format!("GPU-{node:02x}{index:02x}")).unwrap();
    (uuid, BusId::new(&format!("00000000:{index:02X}:00.0")).unwrap())
}

pub fn inventory(uuid: &GpuUuid, bus_id: &BusId, index: usize) -> GpuInventory {
    GpuInventory {
        uuid: uuid.clone(),
        bus_id: bus_id.clone(),
        index: i64::try_from(index).unwrap(),
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        pci_device_id: 0x2330_10de,
        serial: None,
        vbios: None,
        part_number: None,
        memory_total_mib: Some(81_559),
        power_limit_default_mw: Some(700_000),
        power_limit_management_mw: Some(700_000),
        pcie_generation_max: Some(5),
        pcie_width_max: Some(16),
        mig: false,
        partition: None,
    }
}

pub fn message(kind: Kind) -> AgentMessage {
    AgentMessage { kind: Some(kind) }
}

/// A start of a chain as it travels, signed with this key.
pub fn chain_start(start: &ChainStart, key: &SigningKey) -> AgentMessage {
    let statement = start.statement();
    let signature = sign(StatementKind::ChainStart, &statement, key).to_vec();
    message(Kind::ChainStart(v1::ChainStart { statement, signature }))
}

/// A sealed segment as it travels.
pub fn segment(sealed: &SealedSegment) -> AgentMessage {
    message(Kind::Segment(v1::Segment {
        head: sealed.signed.statement.clone(),
        signature: sealed.signed.signature.to_vec(),
        blocks: sealed.blocks.clone(),
    }))
}

/// A segment with the head of another one changed so that it fits these blocks: what a dishonest
/// node can sign.
pub fn signed_by_hand(agent: &Agent, model: &SealedSegment, blocks: Vec<Vec<u8>>) -> AgentMessage {
    let hashes: Vec<Hash> = blocks.iter().map(|block| leaf_hash(block)).collect();
    let mut head = model.signed.head.clone();
    head.block_count = u16::try_from(blocks.len()).unwrap();
    head.root = merkle_root(&hashes).unwrap();
    let statement = head.statement();
    let signature = sign(StatementKind::Head, &statement, &agent.key).to_vec();
    message(Kind::Segment(v1::Segment { head: statement, signature, blocks }))
}
