use std::fs;

use leasewatch_core::evidence::chain::{
    ClockSource, ClockState, DropReason, HeadDraft, SealedSegment, seal,
};
use leasewatch_core::evidence::spool::{FileHeader, encode_drop, encode_segment};
use leasewatch_core::id::{ChainId, EpochId, Hash, LifeUnitId, Slug};
use leasewatch_core::segment::{Block, Event, EventKind, EventsBlock};
use leasewatch_core::time::{Period, Timestamp};

use super::*;

const START: Timestamp = Timestamp(1_790_000_000_000);
const CHAIN: ChainId = ChainId([3; 16]);

struct Recording {
    dir: tempfile::TempDir,
    identity: Identity,
    previous: Option<Hash>,
    sequence: u64,
}

impl Recording {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::load_or_create_as(dir.path(), "node.key").unwrap();
        fs::create_dir(dir.path().join("spool")).unwrap();
        Self { dir, identity, previous: None, sequence: 0 }
    }

    /// The next minute's segment.
    fn next(&mut self) -> SealedSegment {
        self.sequence += 1;
        let start = START.plus_ms(i64::try_from(self.sequence).unwrap() * 60_000);
        let draft = HeadDraft {
            tenant: Slug::new("default").unwrap(),
            node: self.identity.key_id().first_node_id(),
            chain: CHAIN,
            epoch: EpochId([3; 8]),
            life_unit: LifeUnitId([4; 16]),
            sequence: Sequence(self.sequence),
            period: Period::new(start, start.plus_ms(60_000)),
            cadence_ms: 1_000,
            origin: Origin::Measured,
            gpu_count: 0,
            previous: self.previous,
            clock: ClockState {
                anchor_wall: start,
                anchor_boot_ms: 5,
                offset_ms: None,
                bound_ms: None,
                source: ClockSource::Unknown,
            },
            checkpoint: None,
            agent_version: "0.1.0".to_owned(),
            agent_digest: None,
        };
        let events = vec![Event::new(start, None, EventKind::NoGpuAttached)];
        let blocks = [Block::Events(EventsBlock { events })];
        let sealed = seal(draft, &blocks, self.identity.signing_key()).unwrap();
        self.previous = Some(sealed.signed.head.hash());
        sealed
    }

    fn file(&self, number: u32, public_key: [u8; 32], records: &[Vec<u8>]) -> PathBuf {
        let header = FileHeader { chain: CHAIN, public_key }.encode();
        let path = self.dir.path().join(format!("spool/{number:010}.spool"));
        fs::write(&path, [&header[..], &records.concat()].concat()).unwrap();
        path
    }

    /// Two files of these many segments.
    fn written(counts: [usize; 2]) -> (Self, [PathBuf; 2]) {
        let mut recording = Self::new();
        let key = recording.identity.public_key();
        let mut files = (1..).zip(counts).map(|(number, count)| {
            let records: Vec<Vec<u8>> =
                (0..count).map(|_| encode_segment(&recording.next())).collect();
            recording.file(number, key, &records)
        });
        let files = [files.next().unwrap(), files.next().unwrap()];
        (recording, files)
    }

    fn open(&self) -> Result<(Files, Summary), ImportError> {
        Files::open(&self.dir.path().join("spool"), self.identity.signing_key().clone())
    }

    /// What is sent behind a sequence: `n` for a segment, `first-last reason` for a drop; and what
    /// is left out, of the files and of the sequences.
    fn sent(&self, behind: u64) -> (Vec<String>, usize, Vec<String>) {
        let (files, summary) = self.open().unwrap();
        let (queue, mut items) = mpsc::channel(100);
        let holes = files.read_all(Sequence(behind), &queue);
        drop(queue);
        let mut sent = Vec::new();
        while let Some(item) = items.blocking_recv() {
            sent.push(match item {
                Item::Segment { sequence, .. } => sequence.0.to_string(),
                Item::Drop { parts, .. } => {
                    let drop =
                        leasewatch_core::evidence::chain::Drop::from_statement(&parts.statement);
                    let drop = drop.unwrap();
                    format!("{}-{} {}", drop.first.0, drop.last.0, drop.reason.name())
                }
            });
        }
        (sent, summary.left_out.len(), holes)
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_recording_is_sent_in_order_behind_what_the_server_has() {
    let (recording, _) = Recording::written([3, 2]);
    assert_eq!(recording.sent(0), (texts(&["1", "2", "3", "4", "5"]), 0, vec![]));
    assert_eq!(recording.sent(3).0, ["4", "5"]);
    assert_eq!(recording.sent(5).0, Vec::<String>::new());
    let (_, summary) = recording.open().unwrap();
    assert_eq!((summary.segments, summary.period.ms()), (5, 300_000));
}

#[test]
fn what_is_damaged_is_named_and_covered_by_a_drop() {
    let (recording, [first, last]) = Recording::written([3, 2]);
    let mut bytes = fs::read(&first).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&first, &bytes).unwrap();
    let (sent, files, holes) = recording.sent(0);
    assert_eq!((sent, files), (texts(&["1", "2-2 corrupt", "3", "4", "5"]), 1));
    assert!(holes[0].starts_with("segments 2 to 2, "), "{holes:?}");
    // A whole file that is somebody else's, and one that ends in the middle of a write.
    recording.file(1, [9; 32], &[]);
    let torn = fs::read(&last).unwrap();
    fs::write(&last, &torn[..torn.len() - 1]).unwrap();
    let (sent, files, _) = recording.sent(0);
    assert_eq!((sent, files), (texts(&["1-3 corrupt", "4"]), 2));
}

#[test]
fn a_hole_that_the_recording_explains_keeps_its_reason() {
    let mut recording = Recording::new();
    let lost: Vec<SealedSegment> = (0..2).map(|_| recording.next()).collect();
    let head = &lost[1].signed.head;
    let drop = leasewatch_core::evidence::chain::Drop {
        node: head.node,
        chain: CHAIN,
        first: Sequence(1),
        last: Sequence(2),
        period: Period::new(START, head.period.end),
        reason: DropReason::Quota,
        last_head: head.hash(),
    };
    let drop = encode_drop(Sequence(2), &drop.statement(), &[1; 64]);
    let third = encode_segment(&recording.next());
    recording.file(7, recording.identity.public_key(), &[third, drop]);
    assert_eq!(recording.sent(0).0, ["1-2 quota", "3"]);
}

#[test]
fn a_folder_without_a_segment_or_a_key_is_told_so() {
    let recording = Recording::new();
    let no_segment =
        |result| matches!(result, Err(ImportError::Recording(RecordingFault::NoSegment)));
    assert!(no_segment(recording.open()));
    recording.file(1, recording.identity.public_key(), &[]);
    assert!(no_segment(recording.open()));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(identity(empty.path()), Err(ImportError::File { .. })));
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}
