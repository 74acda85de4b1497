//! A small bundle with real keys, signatures and a real log, to be altered by tests.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::bundle::{
    BundleFile, BundleForm, LeafLine, LogHeader, Manifest, Scope, name,
};
use leasewatch_core::evidence::chain::{
    Checkpoint, ClockSource, ClockState, HeadDraft, SignedHead, leaf_hash, seal, sign,
};
use leasewatch_core::evidence::identity::{Admission, Enrollment};
use leasewatch_core::evidence::log::checkpoint::{self, LogOrigin};
use leasewatch_core::evidence::log::leaf::{Minute, head_leaf};
use leasewatch_core::evidence::log::note::Note;
use leasewatch_core::evidence::log::tree::CompactRange;
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::{
    ChainId, EpochId, GpuUuid, Hash, LifeUnitId, NodeId, Sequence, SlotNo, Slug,
};
use leasewatch_core::metering::{GapCause, HourNames, HourRecord};
use leasewatch_core::segment::{Block, Event, EventKind, EventsBlock, Origin};
use leasewatch_core::time::{HOUR_MS, Hour, Period, Timestamp, Zone};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// The first hour of the window.
pub(crate) const HOUR: Hour = Hour(495_984);
const HOURS: i64 = 3;
/// Leaves of the log before those of the window.
const BEFORE: u64 = 11;

pub(crate) fn server_key() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

pub(crate) fn node_key() -> SigningKey {
    SigningKey::from_bytes(&[3; 32])
}

pub(crate) fn witness_key() -> SigningKey {
    SigningKey::from_bytes(&[2; 32])
}

fn slug(text: &str) -> Slug {
    Slug::new(text).unwrap()
}

fn origin() -> LogOrigin {
    LogOrigin::from_text("leasewatch/34750f98bd59fcfc/tenant-a/provider-a").unwrap()
}

/// The files of a bundle, before they are bound together. Lines of leaf files are leaves of the log
/// in the order of `order`.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// (file of `name::LEAVES`, line from 1), or a hash that is withheld.
    pub(crate) order: Vec<LeafLine>,
    pub(crate) cosigned: bool,
}

fn lines(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
}

fn hex_lines(signatures: &[[u8; 64]]) -> Vec<u8> {
    let hex = |bytes: &[u8; 64]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    lines(&signatures.iter().map(|signature| hex(signature).into_bytes()).collect::<Vec<_>>())
}

pub(crate) fn joined() -> Enrollment {
    Enrollment {
        key: node_key().verifying_key().to_bytes(),
        tenant: slug("tenant-a"),
        provider: slug("provider-a"),
        name: "node-a".to_owned(),
        origin: Origin::Measured,
        at: HOUR.start().plus_ms(-HOUR_MS),
        admission: Admission::Token(7),
    }
}

pub(crate) fn node() -> NodeId {
    joined().node()
}

fn head(sequence: u64, previous: Option<Hash>) -> SignedHead {
    head_of(ChainId([4; 16]), sequence, previous, &node_key())
}

/// A head of the minute of its sequence.
pub(crate) fn head_of(
    chain: ChainId,
    sequence: u64,
    previous: Option<Hash>,
    key: &SigningKey,
) -> SignedHead {
    let start = HOUR.start().plus_ms(i64::try_from(sequence - 1).unwrap() * 60_000);
    let draft = HeadDraft {
        tenant: slug("tenant-a"),
        node: node(),
        chain,
        epoch: EpochId([5; 8]),
        life_unit: LifeUnitId([6; 16]),
        sequence: Sequence(sequence),
        period: Period::new(start, start.plus_ms(60_000)),
        cadence_ms: 1_000,
        origin: Origin::Measured,
        gpu_count: 1,
        previous,
        clock: ClockState {
            anchor_wall: start,
            anchor_boot_ms: 1_000,
            offset_ms: None,
            bound_ms: None,
            source: ClockSource::Unknown,
        },
        checkpoint: None,
        agent_version: "0.1.0".to_owned(),
        agent_digest: None,
    };
    let at = start.plus_ms(1);
    let event = Event { at, gpu: None, kind: EventKind::TicksMissed { count: 1 } };
    let block = Block::Events(EventsBlock { events: vec![event] });
    seal(draft, &[block], key).unwrap().signed
}

pub(crate) fn hour(hour: Hour, slot: u16, busy_ms: i64) -> HourRecord {
    let gpu = GpuUuid::new(&format!("GPU-{slot}")).unwrap();
    let mut record = HourRecord::empty(hour, gpu, Origin::Measured);
    record.enrolled_ms = HOUR_MS;
    record.histogram.add(90, busy_ms);
    record.histogram.add(0, HOUR_MS - busy_ms - 5_000);
    record.gaps.add(GapCause::Unexplained, 5_000);
    record.max_gap_ms = 5_000;
    record
}

/// The statement of an hour, of revision 1 or of one that follows another.
pub(crate) fn stated(record: &HourRecord, slot: u16, previous: Option<(u32, Hash)>) -> Vec<u8> {
    let tenant = slug("tenant-a");
    record.statement(&HourNames {
        tenant: &tenant,
        node: node(),
        slot: SlotNo(slot),
        revision: previous.map_or(1, |(revision, _)| revision + 1),
        previous: previous.map(|(_, hash)| hash),
    })
}

/// Two slots over three hours, one hour of them revised, five heads in five minutes.
pub(crate) fn parts() -> Parts {
    let mut heads: Vec<SignedHead> = Vec::new();
    for sequence in 1..=5 {
        let previous = heads.last().map(|head| head.head.hash());
        heads.push(head(sequence, previous));
    }
    let leaf = |head: &SignedHead| head_leaf(&head.statement, &head.signature);
    let minutes: Vec<Vec<u8>> = (0_i64..)
        .zip(&heads)
        .map(|(at, head)| {
            let at = HOUR.start().plus_ms((at + 1) * 60_000);
            let of = (head.head.node, head.head.sequence, leaf(head));
            Minute::of(at, 60_000, vec![of]).statement()
        })
        .collect();
    let minute_leaves: Vec<Vec<u8>> =
        heads.iter().map(|head| leaf(head).to_string().into_bytes()).collect();
    let mut hours = Vec::new();
    for slot in 0..2 {
        for at in 0..HOURS {
            let first = stated(&hour(Hour(HOUR.0 + at), slot, 1_800_000), slot, None);
            let previous = (1, leaf_hash(&first));
            hours.push(first);
            if (slot, at) == (1, 1) {
                hours.push(stated(&hour(Hour(HOUR.0 + at), slot, 900_000), slot, Some(previous)));
            }
        }
    }
    let identity = joined().statement();
    let signature = sign(StatementKind::Enrollment, &identity, &server_key());
    let file = |name: &str| name::LEAVES.iter().position(|of| *of == name).unwrap();
    let disclosed = |name: &str, count: usize| {
        let file = file(name);
        (1..=count)
            .map(move |line| LeafLine::Disclosed { file, line: u64::try_from(line).unwrap() })
    };
    let mut order: Vec<LeafLine> = disclosed(name::IDENTITY, 1).collect();
    order.extend(disclosed(name::MINUTES, minutes.len()));
    order.push(LeafLine::Withheld(leaf_hash(b"an hour of another lease")));
    order.extend(disclosed(name::HOURS, hours.len()));
    let statements: Vec<Vec<u8>> = heads.iter().map(|head| head.statement.clone()).collect();
    let signatures: Vec<[u8; 64]> = heads.iter().map(|head| head.signature).collect();
    let files = [
        (name::IDENTITY, lines(&[identity])),
        (name::IDENTITY_SIGNATURES, hex_lines(&[signature])),
        (name::MINUTES, lines(&minutes)),
        (name::MINUTE_LEAVES, lines(&minute_leaves)),
        (name::HEADS, lines(&statements)),
        (name::HEAD_SIGNATURES, hex_lines(&signatures)),
        (name::HOURS, lines(&hours)),
    ];
    let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    Parts { files, order, cosigned: false }
}

impl Parts {
    /// Adds statements about keys of the node, signed by the server, as leaves of the log.
    pub(crate) fn say(&mut self, statements: &[(StatementKind, Vec<u8>)]) {
        let (mut lines, mut signatures) =
            (self.of(name::IDENTITY), self.of(name::IDENTITY_SIGNATURES));
        let file = name::LEAVES.iter().position(|of| *of == name::IDENTITY).unwrap();
        for (kind, statement) in statements {
            let signature = hex_lines(&[sign(*kind, statement, &server_key())]);
            signatures.push(signature.strip_suffix(b"\n").unwrap().to_vec());
            lines.push(statement.clone());
            let line = u64::try_from(lines.len()).unwrap();
            self.order.push(LeafLine::Disclosed { file, line });
        }
        self.put(name::IDENTITY, &lines);
        self.put(name::IDENTITY_SIGNATURES, &signatures);
    }

    /// Puts a head into the place of the one on a line, or behind the last one, and commits it in
    /// the minute of that line.
    pub(crate) fn put_head(&mut self, at: usize, head: &SignedHead) {
        let leaf = head_leaf(&head.statement, &head.signature);
        let is_new = at == self.of(name::HEADS).len();
        let minute = HOUR.start().plus_ms((i64::try_from(at).unwrap() + 1) * 60_000);
        let minute = Minute::of(minute, 60_000, vec![(node(), head.head.sequence, leaf)]);
        let signature = hex_lines(&[head.signature]).strip_suffix(b"\n").unwrap().to_vec();
        let lines = [
            (name::HEADS, head.statement.clone()),
            (name::HEAD_SIGNATURES, signature),
            (name::MINUTES, minute.statement()),
            (name::MINUTE_LEAVES, leaf.to_string().into_bytes()),
        ];
        for (name, line) in lines {
            let mut all = self.of(name);
            all.splice(at..all.len().min(at + 1), [line]);
            self.put(name, &all);
        }
        if is_new {
            let file = name::LEAVES.iter().position(|of| *of == name::MINUTES).unwrap();
            let line = u64::try_from(at).unwrap() + 1;
            self.order.push(LeafLine::Disclosed { file, line });
        }
    }

    /// Lines of a file.
    pub(crate) fn of(&self, name: &str) -> Vec<Vec<u8>> {
        let bytes = self.files[name].strip_suffix(b"\n").unwrap();
        bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// Puts other lines into a file.
    pub(crate) fn put(&mut self, name: &str, to: &[Vec<u8>]) {
        self.files.insert(name.to_owned(), lines(to));
    }

    /// The log of these statements, with its checkpoint: what an honest server, or one that writes
    /// history anew, would publish.
    pub(crate) fn commit(mut self) -> Self {
        let mut before = CompactRange::new(0);
        (0..BEFORE).for_each(|number| before.push(leaf_hash(&number.to_be_bytes())));
        let mut whole = before.clone();
        for line in &self.order {
            whole.push(match line {
                LeafLine::Withheld(hash) => *hash,
                LeafLine::Disclosed { file, line } => {
                    leaf_hash(&self.of(name::LEAVES[*file])[usize::try_from(*line).unwrap() - 1])
                }
            });
        }
        let mut after = CompactRange::new(whole.leaves().to);
        (0..5_u64).for_each(|number| after.push(leaf_hash(&[9, number.to_be_bytes()[7]])));
        whole.append(&after).unwrap();
        let state = Checkpoint { size: whole.leaves().to, root: whole.root().unwrap() };
        let mut note = checkpoint::sign(&origin(), state, &server_key());
        if self.cosigned {
            note.cosign("witness-a", &witness_key(), 1_785_556_860);
        }
        self.files.insert(name::CHECKPOINT.to_owned(), note.to_text().into_bytes());
        let header = LogHeader { before, after }.to_line();
        let lines: Vec<Vec<u8>> =
            [header].into_iter().chain(self.order.iter().map(LeafLine::to_line)).collect();
        self.put(name::LOG, &lines);
        self
    }

    /// The manifest over the files as they are, signed.
    pub(crate) fn bind(mut self, key: &SigningKey) -> Self {
        self.files.remove(name::MANIFEST);
        self.files.remove(name::MANIFEST_SIGNATURE);
        let files = self.files.iter().map(|(name, bytes)| BundleFile {
            name: name.clone(),
            length: u64::try_from(bytes.len()).unwrap(),
            sha256: Hash::of(bytes),
        });
        let text = String::from_utf8(self.files[name::CHECKPOINT].clone()).unwrap();
        let size = Note::parse(&text).ok().and_then(|note| checkpoint::read(&note).ok());
        let end = Timestamp(HOUR.start().0 + HOURS * HOUR_MS);
        let manifest = Manifest {
            scope: Scope {
                tenant: slug("tenant-a"),
                provider: slug("provider-a"),
                leases: Vec::new(),
                window: Period::new(HOUR.start(), end),
                form: BundleForm::Full,
                zone: Zone::UTC,
            },
            log: origin(),
            log_size: size.map_or(0, |(_, state)| state.size),
            files: files.collect(),
            key: key.verifying_key().to_bytes(),
            tool: "0.1.0".to_owned(),
            tz_database: "2025b".to_owned(),
        };
        let bytes = manifest.statement();
        let signature = Manifest::signature_file(&bytes, key).into_bytes();
        self.files.insert(name::MANIFEST.to_owned(), bytes);
        self.files.insert(name::MANIFEST_SIGNATURE.to_owned(), signature);
        self
    }

    /// The archive.
    pub(crate) fn zip(&self) -> Vec<u8> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default());
        let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in &self.files {
            zip.start_file(name.as_str(), options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// The archive as a file.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        write(folder, &self.zip())
    }
}

/// The honest bundle.
pub(crate) fn bundle() -> Parts {
    parts().commit().bind(&server_key())
}

pub(crate) fn write(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("bundle.zip");
    std::fs::write(&path, bytes).unwrap();
    path
}
