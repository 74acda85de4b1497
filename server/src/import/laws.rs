//! What holds for every log: an import in pieces is the import of the whole, a cut log gives what
//! is whole, and damage never does more than lose its own lines.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::chain::{SealedSegment, open};
use leasewatch_core::id::{ChainId, EpochId, NodeId, Slug};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Block, Event, EventKind};
use leasewatch_core::time::{Period, Timestamp, Zone};
use proptest::prelude::*;

use super::covered::Covered;
use super::log::{ImportLog, Reader};
use super::recorder::Recorder;
use super::{LogError, smi, text};
use crate::intake::Progress;

/// Two GPUs at the same second, a restart with other columns, a lost GPU, and its reset.
const LOG: &str = "timestamp, index, pci.bus_id, utilization.gpu [%], power.draw [W]\r\n\
    2026/08/01 03:59:40.100, 0, 00000000:06:00.0, 100 %, 250.04 W\r\n\
    2026/08/01 03:59:40.100, 1, 00000000:07:00.0, [N/A], [Not Supported]\r\n\
    2026/08/01 03:59:41.101, 0, 00000000:06:00.0, 63 %, 101.06 W\r\n\
    2026/08/01 03:59:41.101, 1, 00000000:07:00.0, 5 %, 31.16 W\r\n\
    Unable to determine the device handle for GPU0000:07:00.0: Unknown Error\r\n\
    No devices were found\r\n\
    timestamp, pci.bus_id, index, utilization.gpu [%]\r\n\
    2026/08/01 04:10:00, 00000000:06:00.0, 0, 9 %\r\n\
    2026/08/01 04:10:00, 00000000:07:00.0, 1, [GPU requires reset]\r\n\
    2026/08/01 04:10:01, 00000000:06:00.0, 0, 10 %\r\n\
    2026/08/01 04:10:01, 00000000:07:00.0, 1, 11 %\r\n";

type Readings = Vec<(Metric, Reading)>;
type Rows = BTreeMap<(String, Timestamp), (Reading, Readings)>;

/// What a server has of one node.
struct Recorded {
    keys: tempfile::TempDir,
    key: SigningKey,
    segments: Vec<SealedSegment>,
    until: Option<Timestamp>,
}

impl Recorded {
    fn nothing() -> Self {
        let keys = tempfile::tempdir().unwrap();
        Self { keys, key: SigningKey::from_bytes(&[7; 32]), segments: Vec::new(), until: None }
    }

    /// Imports a log as the client does, without the wire; returns how many rows were new.
    fn import(&mut self, log: &ImportLog) -> usize {
        let last = self.segments.last().map(|segment| &segment.signed.head);
        let cursor = last.map(|head| (head.sequence, head.hash()));
        let covered = Covered::load(self.keys.path(), cursor.map(|(_, head)| head), self.until);
        let (fresh, _) = covered.uncovered(log.clone());
        let recorder = Recorder {
            key: &self.key,
            node: NodeId([1; 16]),
            tenant: Slug::new("default").unwrap(),
            chain: ChainId([2; 16]),
            epoch: EpochId([3; 8]),
            cursor,
            cadence_ms: 1_000,
        };
        let segments = recorder.seal_all(&fresh, &Progress::default()).unwrap();
        if let Some(last) = segments.last() {
            covered.store(self.keys.path(), last.signed.head.hash(), &fresh).unwrap();
        }
        self.until = segments.iter().map(|s| s.signed.head.period.end).max().max(self.until);
        self.segments.extend(segments);
        fresh.gpus.iter().map(|gpu| gpu.rows.len()).sum()
    }

    fn blocks(&self) -> Vec<Block> {
        let open = |segment: &SealedSegment| {
            let signed = &segment.signed;
            let key = self.key.verifying_key();
            open(&signed.statement, &signed.signature, &segment.blocks, &key).unwrap().blocks
        };
        self.segments.iter().flat_map(open).collect()
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        for block in self.blocks() {
            let Block::Gpu(gpu) = block else { continue };
            for (at, point) in gpu.track.points.iter().enumerate() {
                let readings = gpu.columns.iter().filter_map(|c| Some((c.metric, c.readings[at]?)));
                let row = (point.busy, readings.collect());
                assert!(rows.insert((gpu.uuid.to_string(), point.at), row).is_none(), "twice");
            }
        }
        rows
    }

    /// What happened to GPUs and the driver.
    fn events(&self) -> Vec<Event> {
        let of_block = |block| match block {
            Block::Events(block) => block.events,
            _ => Vec::new(),
        };
        let mut events: Vec<Event> = self.blocks().into_iter().flat_map(of_block).collect();
        events.retain(|e| matches!(e.kind, EventKind::GpuLost { .. } | EventKind::NoGpuAttached));
        events
    }
}

fn parse(bytes: &[u8]) -> Result<ImportLog, LogError> {
    let credible = Period::new(Timestamp(1_500_000_000_000), Timestamp(1_800_000_000_000));
    smi::parse(
        &text::decode(bytes.to_vec()),
        Reader { columns: None, zone: Zone::UTC, credible, progress: None },
    )
}

fn rows_of(log: &ImportLog) -> usize {
    log.gpus.iter().map(|gpu| gpu.rows.len()).sum()
}

#[test]
fn a_log_cut_at_any_byte_gives_what_is_whole_and_grows_to_the_whole() {
    let whole = parse(LOG.as_bytes()).unwrap();
    assert_eq!((rows_of(&whole), whole.problems.count), (8, 0), "{}", whole.problems);
    let mut at_once = Recorded::nothing();
    assert_eq!(at_once.import(&whole), 8);
    assert_eq!(at_once.events().len(), 3);
    for cut in 0..LOG.len() {
        let mut grown = Recorded::nothing();
        if let Ok(part) = parse(&LOG.as_bytes()[..cut]) {
            let lines = LOG[..cut].matches('\n').count();
            assert!(part.problems.count <= 1, "at {cut}: {}", part.problems);
            let broken = part.problems.first.first().map(|problem| problem.line);
            assert!(broken.is_none_or(|line| line == lines + 1), "at {cut}");
            let first = grown.import(&part);
            assert_eq!(first + grown.import(&whole), 8, "at {cut}");
        } else {
            assert_eq!(grown.import(&whole), 8);
        }
        assert_eq!(grown.rows(), at_once.rows(), "at {cut}");
        assert_eq!(grown.events(), at_once.events(), "at {cut}");
        if cut % 16 == 0 {
            assert_eq!(grown.import(&whole), 0, "importing again changes nothing");
        }
    }
}

#[test]
fn a_cut_utf16_log_gives_what_is_whole() {
    let bytes = include_bytes!("../../tests/fixtures/smi-log-utf16le.csv");
    for cut in (2_000..2_300).chain(bytes.len() - 90..bytes.len()) {
        let log = parse(&bytes[..cut]).unwrap();
        let lines = bytes[..cut].chunks_exact(2).filter(|unit| *unit == [b'\n', 0]).count();
        assert!((lines - 1..=lines).contains(&rows_of(&log)), "at {cut}");
        assert!(log.problems.count <= 1, "at {cut}: {}", log.problems);
    }
}

#[test]
fn a_faster_stretch_and_a_replaced_gpu_fit_into_segments() {
    let row = |second: i64, uuid: &str| {
        let at = Timestamp(1_785_000_000_000 + second * 1_000).to_string();
        format!("{at}, {uuid}, 00000000:06:00.0, 9 %\n")
    };
    let header = "timestamp, uuid, pci.bus_id, utilization.gpu\n".to_owned();
    let slow = (0..1_500).map(|i| row(i * 10, "GPU-a"));
    let fast = (0..1_400).map(|i| row(15_000 + i, "GPU-a"));
    let other = (0..900).map(|i| row(16_400 + i, "GPU-b"));
    let text: String = [header].into_iter().chain(slow).chain(fast).chain(other).collect();
    let log = parse(text.as_bytes()).unwrap();
    assert_eq!(log.problems.count, 0, "{}", log.problems);
    let mut recorded = Recorded::nothing();
    assert_eq!(recorded.import(&log), 3_800);
    assert_eq!(recorded.rows().len(), 3_800);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damage_never_panics_and_what_is_read_can_be_recorded(
        hits in prop::collection::vec((0..LOG.len(), any::<u8>()), 1..6),
        cut in 0..LOG.len(),
    ) {
        let mut bytes = LOG.as_bytes().to_vec();
        for (at, byte) in hits {
            bytes[at] = byte;
        }
        bytes.truncate(LOG.len() - cut / 4);
        if let Ok(log) = parse(&bytes) {
            prop_assert!(rows_of(&log) <= 8);
            let new = Recorded::nothing().import(&log);
            prop_assert_eq!(new, rows_of(&log));
        }
    }

    #[test]
    fn damaged_lines_lose_only_themselves(line in 1_usize..5, byte in 0_usize..60, with in any::<u8>()) {
        let mut lines: Vec<Vec<u8>> =
            LOG.split_inclusive('\n').map(|line| line.as_bytes().to_vec()).collect();
        let (byte, original) = (byte.min(lines[line].len() - 3), lines[line].clone());
        prop_assume!(with != b'\n' && original[byte] != with);
        lines[line][byte] = with;
        let log = parse(&lines.concat()).unwrap();
        let mut recorded = Recorded::nothing();
        recorded.import(&log);
        let whole = parse(LOG.as_bytes()).unwrap();
        let mut at_once = Recorded::nothing();
        at_once.import(&whole);
        let found = recorded.rows();
        let lost = at_once.rows().iter().filter(|(key, row)| found.get(*key) != Some(*row)).count();
        prop_assert!(lost <= 2, "{} lost: {}", lost, log.problems);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let text = text::decode(bytes);
        let credible = Period::new(Timestamp::MIN, Timestamp::MAX);
        let reader = Reader { columns: Some("timestamp,utilization.gpu"), zone: Zone::UTC, credible, progress: None };
        let _ = smi::parse(&text, reader);
        let _ = super::jsonl::parse(&text, reader);
        let _ = super::xml::parse(&text, reader);
    }
}
