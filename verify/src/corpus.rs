//! Files that a reader of evidence must take or refuse, and never panic over: `corpus/`, one folder
//! for each reader, `good-` or `bad-` in front of the name. Each is read as it is, and with
//! bytes changed in turn. What a fuzzer finds is added there under a name that says what it is.

use std::path::{Path, PathBuf};

use leasewatch_core::evidence::bundle::{LeafLine, LogHeader, Manifest};
use leasewatch_core::evidence::canonical::Value;
use leasewatch_core::evidence::chain::{ChainStart, Drop, Head};
use leasewatch_core::evidence::identity::{Enrollment, Revocation, Rotation};
use leasewatch_core::evidence::log::checkpoint;
use leasewatch_core::evidence::log::leaf::{LogBreak, Minute};
use leasewatch_core::evidence::log::note::Note;
use leasewatch_core::metering::StatedHour;
use leasewatch_core::segment::Block;

use crate::check::{Trust, check};
use crate::report::Outcome;

/// Most changed bytes of one file, and the longest file that is changed.
const CHANGES_MAX: usize = 256;
const CHANGED_BYTES_MAX: usize = 8_192;

#[test]
fn archives_are_verified_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    replay("archive", |bytes| {
        let path = folder.path().join("bundle.zip");
        std::fs::write(&path, bytes).unwrap();
        check(&path, &Trust::default()).outcome() == Outcome::Verified
    });
}

#[test]
fn statements_are_read_or_refused() {
    replay("statement", |bytes| {
        // The typed readers say no to all but their own kind; that they answer is what counts.
        let answers = [
            Manifest::from_statement(bytes).is_ok(),
            StatedHour::from_statement(bytes).is_ok(),
            Head::from_statement(bytes).is_ok(),
            Drop::from_statement(bytes).is_ok(),
            ChainStart::from_statement(bytes).is_ok(),
            Enrollment::from_statement(bytes).is_ok(),
            Rotation::from_statement(bytes).is_ok(),
            Revocation::from_statement(bytes).is_ok(),
            Minute::from_statement(bytes).is_ok(),
            LogBreak::from_statement(bytes).is_ok(),
            LogHeader::from_line(bytes).is_ok(),
            LeafLine::from_line(bytes).is_ok(),
        ];
        assert!(answers.iter().filter(|read| **read).count() <= 1, "read as two kinds");
        let read = Value::parse(bytes, 1 << 20);
        if let Ok(value) = &read {
            assert_eq!(value.to_bytes(), bytes, "it has another spelling");
        }
        read.is_ok()
    });
}

#[test]
fn notes_are_read_or_refused() {
    replay("note", |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        let note = Note::parse(text);
        if let Ok(note) = &note {
            assert_eq!(note.to_text(), text, "it has another spelling");
            let _ = checkpoint::read(note);
        }
        note.is_ok()
    });
}

#[test]
fn blocks_are_decoded_or_refused() {
    replay("block", |bytes| {
        let block = Block::decode(bytes);
        if let Ok(block) = &block {
            assert_eq!(block.encode().unwrap(), bytes, "it has another encoding");
        }
        block.is_ok()
    });
}

/// Reads every file of a folder, and its changed copies, whose answer is open.
fn replay(folder: &str, read: impl Fn(&[u8]) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{} files", files.len());
    for path in files {
        let (name, bytes) = (path.file_name().unwrap(), std::fs::read(&path).unwrap());
        let is_good = name.to_str().unwrap().starts_with("good-");
        assert!(is_good || name.to_str().unwrap().starts_with("bad-"), "{name:?}");
        assert_eq!(read(&bytes), is_good, "{name:?}");
        if bytes.len() > CHANGED_BYTES_MAX {
            continue;
        }
        let step = bytes.len().div_ceil(CHANGES_MAX).max(1);
        for at in (0..bytes.len()).step_by(step) {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                read(&changed);
            }
        }
    }
}
