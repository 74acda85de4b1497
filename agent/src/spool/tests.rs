mod crash;
mod damage;
mod fill;
mod kill;
mod rig;

use leasewatch_core::evidence::chain::DropReason;
use leasewatch_core::id::ChainId;
use leasewatch_core::time::Period;

use self::rig::{Chain, Crash, Forgetful, OWNER, Sabotage, at, instant};
use super::disk::{Disk as _, Folder};
use super::*;

const ROOMY: Quota = Quota { bytes: 1 << 20, hours: 24 * 30, reserve_bytes: 0 };

/// Segments `1 ..= count` in an empty spool in `folder`.
fn filled(folder: &Path, quota: Quota, count: u64) -> Spool {
    let mut spool = Spool::open(folder, quota, OWNER, ChainEnd::START);
    append(&mut spool, count);
    spool
}

fn append(spool: &mut Spool, count: u64) -> u64 {
    let mut given_up = 0;
    for _ in 0..count {
        let sealed = Chain::shared().segment(spool.end().sequence.0 + 1);
        given_up += spool.append(&sealed, instant(sealed.signed.head.sequence.0)).given_up;
    }
    given_up
}

/// Everything from the oldest sequence to the end is a segment that can be read, or dropped.
fn assert_whole(spool: &mut Spool) {
    let mut sequence = spool.oldest();
    while sequence <= spool.newest() {
        let item = spool.item(sequence).unwrap_or_else(|| panic!("nothing at {sequence:?}"));
        match item.kind {
            ItemKind::Segment => {
                let expected = Chain::shared().segment(sequence.0);
                assert_eq!(spool.segment(sequence).as_ref(), Some(&*expected));
            }
            ItemKind::Drop => {
                let range = spool.dropped(sequence, item.last).unwrap();
                assert_eq!(range.last_head, Chain::shared().head(range.last.0));
            }
        }
        sequence = after(item.last);
    }
    let before = after(Sequence(0)).0;
    assert!(spool.oldest().0 >= before);
}

#[test]
fn what_was_appended_is_there_after_a_restart_until_it_was_acknowledged_for_an_hour() {
    let temp = tempfile::tempdir().unwrap();
    let quota = Quota { bytes: 64 << 10, ..ROOMY };
    let spool = filled(temp.path(), quota, 12);
    assert_eq!((spool.oldest(), spool.newest(), spool.segments()), (Sequence(1), Sequence(12), 12));
    let end = spool.end();
    drop(spool);
    // The state knows of nothing: it was saved when the first file began.
    let mut spool = Spool::open(temp.path(), quota, OWNER, ChainEnd::START);
    assert_eq!((spool.end(), spool.segments()), (end, 12));
    assert_whole(&mut spool);
    spool.trim(Sequence(12), instant(12));
    assert_eq!((spool.segments(), spool.oldest()), (0, Sequence(1)));
    drop(spool);
    let mut spool = Spool::open(temp.path(), quota, OWNER, ChainEnd::START);
    assert_eq!((spool.segments(), spool.acked), (0, Sequence(12)));
    spool.trim(Sequence(12), instant(12));
    // A minute before the hour is over nothing goes; then all but the file that is written.
    spool.trim(Sequence(12), instant(12 + 59));
    assert_eq!(spool.oldest(), Sequence(1));
    spool.trim(Sequence(12), instant(12 + 60));
    assert!(spool.oldest() > Sequence(6) && spool.oldest() <= Sequence(12));
    assert_whole(&mut spool);
    assert_eq!(spool.end(), end);
}

#[test]
fn a_server_that_was_restored_has_what_it_had_within_the_hour_again() {
    let temp = tempfile::tempdir().unwrap();
    let quota = Quota { bytes: 64 << 10, ..ROOMY };
    let mut spool = filled(temp.path(), quota, 12);
    spool.trim(Sequence(12), instant(12));
    spool.trim(Sequence(2), instant(50));
    assert_eq!((spool.segments(), spool.oldest()), (10, Sequence(1)));
    // The hour begins anew with the second acknowledgement.
    spool.trim(Sequence(12), instant(60));
    spool.trim(Sequence(12), instant(119));
    assert_eq!((spool.segments(), spool.oldest()), (0, Sequence(1)));
    assert_whole(&mut spool);
    spool.trim(Sequence(12), instant(120));
    assert!(spool.oldest() > Sequence(1));
}

#[test]
fn a_full_spool_gives_up_its_oldest_as_one_drop_that_survives() {
    let temp = tempfile::tempdir().unwrap();
    let quota = Quota { bytes: 32 << 10, ..ROOMY };
    let mut spool = filled(temp.path(), quota, 0);
    let mut noted = 0;
    for _ in 0..60 {
        let sealed = Chain::shared().segment(spool.end().sequence.0 + 1);
        let appended = spool.append(&sealed, instant(1));
        assert!(appended.is_durable && spool.bytes() <= quota.bytes);
        for range in &appended.drops {
            let (statement, signature) = Chain::shared().sign_drop(range);
            spool.note_drop(range, &statement, &signature);
            noted += 1;
        }
    }
    assert!(noted > 2, "{noted}");
    let kept = spool.segments();
    let range = spool.dropped(Sequence(1), Sequence(60 - kept)).unwrap();
    assert_eq!((range.reason, range.period.start), (DropReason::Quota, at(0)));
    assert_whole(&mut spool);
    drop(spool);
    let mut spool = Spool::open(temp.path(), quota, OWNER, ChainEnd::START);
    assert_eq!(spool.dropped(Sequence(1), Sequence(60 - kept)), Some(range));
    assert_eq!((spool.segments(), spool.oldest()), (kept, Sequence(1)));
    assert_whole(&mut spool);
}

#[test]
fn a_spool_is_bounded_in_hours_too() {
    let temp = tempfile::tempdir().unwrap();
    let quota = Quota { bytes: 64 << 10, hours: 1, ..ROOMY };
    let spool = filled(temp.path(), quota, 90);
    // Whole files go, so a little less than the hour is kept.
    assert!((50..=60).contains(&spool.segments()), "{}", spool.segments());
}

#[test]
fn a_refused_segment_becomes_a_drop_of_its_own() {
    let temp = tempfile::tempdir().unwrap();
    let mut spool = filled(temp.path(), ROOMY, 3);
    let refused = spool.quarantine(Sequence(2)).unwrap();
    let range = spool.dropped(Sequence(2), Sequence(2)).unwrap();
    assert_eq!((range.reason, range.last_head), (DropReason::Refused, refused.signed.head.hash()));
    let (statement, signature) = Chain::shared().sign_drop(&range);
    spool.note_drop(&range, &statement, &signature);
    assert_eq!((spool.segments(), spool.quarantine(Sequence(2))), (2, None));
    append(&mut spool, 1);
    let mut again = Spool::open(temp.path(), ROOMY, OWNER, ChainEnd::START);
    assert_eq!(again.dropped(Sequence(2), Sequence(2)), Some(range));
    assert_whole(&mut again);
}

#[test]
fn what_the_disk_never_had_is_declared_with_its_last_head() {
    let temp = tempfile::tempdir().unwrap();
    let known = Chain::shared().end(4);
    let mut spool = Spool::open(temp.path(), ROOMY, OWNER, known);
    append(&mut spool, 1);
    assert!(spool.declare(Sequence(2), Some(at(1)), Some(Chain::shared().head(1))));
    let range = spool.dropped(Sequence(2), Sequence(4)).unwrap();
    assert_eq!((range.reason, range.last_head), (DropReason::Lost, Chain::shared().head(4)));
    assert_eq!(range.period, Period::new(at(1), at(4)));
    assert_eq!((spool.oldest(), spool.segments()), (Sequence(2), 1));
    assert_eq!(spool.head_hash(Sequence(1)), Some(Chain::shared().head(1)));
    assert!(!spool.declare(Sequence(2), None, None));
    drop(spool);
    // The state knows of two more: they were in memory.
    let mut spool = Spool::open(temp.path(), ROOMY, OWNER, Chain::shared().end(7));
    assert_eq!(spool.dropped(Sequence(6), Sequence(7)).unwrap().reason, DropReason::Lost);
    assert_whole(&mut spool);
}

#[test]
fn a_record_that_rots_becomes_a_drop_when_it_is_sent() {
    let temp = tempfile::tempdir().unwrap();
    let mut spool = filled(temp.path(), ROOMY, 5);
    let file = std::fs::read_dir(temp.path()).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    let rotten = bytes.len() * 2 / 5;
    bytes[rotten] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let lost: Vec<u64> = (1..=5).filter(|n| spool.segment(Sequence(*n)).is_none()).collect();
    assert_eq!(lost.len(), 1);
    let range = spool.dropped(Sequence(lost[0]), Sequence(lost[0])).unwrap();
    assert_eq!(range.reason, DropReason::Corrupt);
    assert_whole(&mut spool);
    let mut again = Spool::open(temp.path(), ROOMY, OWNER, ChainEnd::START);
    assert_eq!(
        again.dropped(Sequence(lost[0]), Sequence(lost[0])).unwrap().reason,
        DropReason::Corrupt
    );
    assert_whole(&mut again);
}

#[test]
fn a_sync_that_fails_gives_its_file_up_and_a_disk_that_fails_leaves_memory() {
    let disk = Forgetful::new(Sabotage::Nothing);
    let open =
        |disk: &Forgetful, known: ChainEnd| Spool::on(Box::new(disk.clone()), ROOMY, OWNER, known);
    let mut spool = open(&disk, ChainEnd::START);
    append(&mut spool, 2);
    disk.fail_syncs(1);
    let third = spool.append(&Chain::shared().segment(3), instant(3));
    assert!(third.is_durable && third.is_new_file);
    assert_eq!(disk.list().unwrap().len(), 2);
    // Nobody knows whether the disk has the third segment in the first file too.
    for crash in [Crash::Kill, Crash::Nothing, Crash::Half, Crash::Zeros] {
        let mut again = open(&disk.revive(crash), ChainEnd::START);
        assert_eq!((again.end(), again.segments()), (spool.end(), 3), "{crash:?}");
        assert_whole(&mut again);
    }
    disk.fail_syncs(2);
    let fourth = spool.append(&Chain::shared().segment(4), instant(4));
    assert!(!fourth.is_durable && spool.memory_reason().is_some());
    assert_whole(&mut spool);
    // With the state that names the fourth as the end, it is lost and said to be.
    let mut again = open(&disk.revive(Crash::Nothing), spool.end());
    let range = again.dropped(Sequence(4), Sequence(4)).unwrap();
    assert_eq!((range.reason, again.segments()), (DropReason::Lost, 3));
    assert_whole(&mut again);
    // A minute later the disk is asked again.
    assert!(spool.append(&Chain::shared().segment(5), instant(5)).is_durable);
    assert_eq!((spool.memory_reason(), spool.segments()), (None, 5));
}

#[test]
fn a_chain_that_is_given_up_leaves_what_it_owed_and_no_files() {
    let temp = tempfile::tempdir().unwrap();
    let mut spool = filled(temp.path(), ROOMY, 5);
    spool.trim(Sequence(2), instant(5));
    let old = spool.end();
    let next = ChainId([9; 16]);
    assert_eq!(spool.start_chain(next), 3);
    let range = spool.dropped(Sequence(1), Sequence(3)).unwrap();
    assert_eq!((range.reason, Some(range.last_head)), (DropReason::Lost, old.head));
    assert_eq!((spool.segments(), spool.oldest(), spool.end().head), (0, Sequence(1), old.head));
    // A process that dies here, with the state of the new chain on disk or without any state.
    let owner = FileHeader { chain: next, ..OWNER };
    let known = ChainEnd { sequence: Sequence(3), ..old };
    let reopened = Spool::open(temp.path(), ROOMY, owner, known);
    assert_eq!((reopened.end(), reopened.stale.len()), (known, 1));
    let mut lost = Spool::open(temp.path(), ROOMY, owner, ChainEnd::START);
    assert_eq!(lost.dropped(Sequence(1), Sequence(3)).unwrap().last_head, old.head.unwrap());
    assert_eq!((lost.end(), lost.segments()), (known, 0));
    lost.remove_stale();
    assert_eq!(Folder::existing(temp.path()).list().unwrap(), []);
}

#[test]
fn a_spool_without_a_disk_is_in_memory_and_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let quota = Quota { bytes: 64 << 10, ..ROOMY };
    let mut spool = filled(&file, quota, 30);
    assert!(spool.memory_reason().unwrap().contains("file"));
    assert_eq!(spool.segments(), 30);
    assert_whole(&mut spool);
    spool.trim(Sequence(30), instant(30));
    assert_eq!((spool.segments(), spool.bytes()), (0, 0));
    assert!(append(&mut spool, 200) > 0);
    assert!(spool.bytes() <= quota.bytes);
    assert_whole(&mut spool);
}

#[test]
fn a_report_reads_beside_the_writer() {
    let temp = tempfile::tempdir().unwrap();
    let empty = Report::read(&temp.path().join("nothing"));
    assert_eq!((empty.segments, empty.mode, empty.acked), (0, Mode::Disk, None));
    let mut spool = filled(temp.path(), ROOMY, 40);
    spool.trim(Sequence(30), instant(40));
    let report = Report::read(temp.path());
    assert_eq!((report.segments, report.unsent_segments, report.files), (40, 10, 1));
    assert_eq!(report.bytes, spool.bytes());
    assert_eq!((report.oldest_at, report.newest_at), (Some(at(0)), Some(at(40))));
    assert_eq!(report.oldest_unsent_at, Some(at(30)));
    assert_eq!(report.acked, Some((Sequence(30), instant(40).wall)));
    assert_eq!((report.damaged_bytes, report.refused_files), (0, 0));
    assert_eq!(report.hours_that_fit(report.bytes * 9), Some(6));
    let reader = Reader::open(temp.path());
    assert_eq!(reader.period(), Some(Period::new(at(0), at(40))));
    let part = reader.segments(Period::new(at(10), at(12)));
    let sequences: Vec<u64> = part.iter().map(|s| s.signed.head.sequence.0).collect();
    // One that ends where the period begins says what is held over its edge.
    assert_eq!(sequences, [10, 11, 12]);
}
