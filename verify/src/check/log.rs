//! The log: every statement of the bundle is a leaf of it, in a range without holes, under a
//! checkpoint that the server signed.

use leasewatch_core::evidence::bundle::{LeafLine, LogHeader, name};
use leasewatch_core::evidence::chain::{Checkpoint, leaf_hash, public_key};
use leasewatch_core::evidence::log::checkpoint;
use leasewatch_core::evidence::log::note::{BYTES_MAX, Note};
use leasewatch_core::evidence::log::tree::CompactRange;
use leasewatch_core::id::Hash;

use super::{Evidence, at_line};
use crate::report::Fault;

/// Most lines of all files that are leaves: 32 bytes of memory each.
const LEAVES_MAX: u64 = 16_000_000;

/// Hashes of the lines of one file, and which of them the log has named.
#[derive(Default)]
struct Lines {
    hashes: Vec<Hash>,
    named: Vec<bool>,
}

pub(super) fn check(evidence: &mut Evidence<'_>) -> Result<String, Fault> {
    let state = checkpoint(evidence)?;
    let mut files = leaf_files(evidence)?;
    let (mut header, mut range) = (None, CompactRange::new(0));
    let (mut disclosed, mut withheld) = (0_u64, 0_u64);
    evidence.archive.lines(name::LOG, |number, line| {
        let wrong = |error| Fault::Malformed(format!("{}, line {number}: {error}", name::LOG));
        if number == 1 {
            let found = LogHeader::from_line(line).map_err(wrong)?;
            range = found.before.clone();
            header = Some(found);
            return Ok(());
        }
        let leaf = match LeafLine::from_line(line).map_err(wrong)? {
            LeafLine::Withheld(hash) => {
                withheld += 1;
                hash
            }
            LeafLine::Disclosed { file, line } => {
                disclosed += 1;
                let found = files.get_mut(file).and_then(|lines| lines.take(line));
                found.ok_or_else(|| {
                    at_line(name::LOG, number, "names a line that is not there, or twice")
                })?
            }
        };
        range.push(leaf);
        Ok(())
    })?;
    let header = header.ok_or_else(|| Fault::Malformed(format!("{} is empty", name::LOG)))?;
    let whole = range.append(&header.after).and_then(|()| range.root());
    let found = whole.map(|root| Checkpoint { size: range.leaves().to, root });
    let from = header.leaves().from;
    for (name, lines) in name::LEAVES.into_iter().zip(&files) {
        if let Some(at) = lines.named.iter().position(|named| !named) {
            return Err(at_line(name, line_number(at), "is not in the log"));
        }
    }
    if found != Some(state) {
        let what =
            "the leaves do not lead to the checkpoint: a statement was altered, left out or moved";
        return Err(Fault::Mismatch(what.to_owned()));
    }
    Ok(format!(
        "{disclosed} statements and {withheld} withheld ones are leaves {from} to {} of {}",
        header.leaves().to,
        state.size
    ))
}

/// The state that the server signed, with who cosigned it.
fn checkpoint(evidence: &mut Evidence<'_>) -> Result<Checkpoint, Fault> {
    let max = u64::try_from(BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = evidence.archive.whole(name::CHECKPOINT, max)?;
    let manifest = evidence.manifest()?;
    let altered =
        |error: &dyn std::fmt::Display| Fault::Mismatch(format!("{}: {error}", name::CHECKPOINT));
    let text = String::from_utf8(bytes).map_err(|error| altered(&error))?;
    let note = Note::parse(&text).map_err(|error| altered(&error))?;
    let key = public_key(&manifest.key).map_err(|error| altered(&error))?;
    let state = checkpoint::open(&note, &manifest.log, &key).map_err(|error| altered(&error))?;
    if state.size != manifest.log_size {
        return Err(altered(&"it is of another size than the manifest says"));
    }
    for (witness, key) in &evidence.trust.witnesses {
        match note.cosigned_at(witness, key) {
            Some(at_s) => evidence.report.witnesses.push(format!("{witness} at second {at_s}")),
            None => evidence.report.is_witness_missing = true,
        }
    }
    Ok(state)
}

fn leaf_files(evidence: &mut Evidence<'_>) -> Result<Vec<Lines>, Fault> {
    let (mut files, mut left) = (Vec::new(), LEAVES_MAX);
    for name in name::LEAVES {
        let mut lines = Lines::default();
        evidence.archive.lines(name, |_, line| {
            left =
                left.checked_sub(1).ok_or_else(|| Fault::Malformed("too many lines".to_owned()))?;
            lines.hashes.push(leaf_hash(line));
            lines.named.push(false);
            Ok(())
        })?;
        files.push(lines);
    }
    Ok(files)
}

impl Lines {
    /// The hash of a line that was not named before.
    fn take(&mut self, line: u64) -> Option<Hash> {
        let at = usize::try_from(line.checked_sub(1)?).ok()?;
        let named = self.named.get_mut(at)?;
        (!std::mem::replace(named, true)).then(|| self.hashes.get(at).copied())?
    }
}

fn line_number(at: usize) -> u64 {
    u64::try_from(at).unwrap_or(u64::MAX).saturating_add(1)
}
