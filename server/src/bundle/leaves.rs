//! The contiguous range of the log that the bundle is about, between two compact ranges.

use leasewatch_core::evidence::bundle::{LeafLine, LogHeader, name};
use leasewatch_core::evidence::log::tree::{CompactRange, Leaves, cover};
use leasewatch_core::id::Hash;

use super::{BundleError, Making};
use crate::store::{StoreError, log};

/// The place of a file among those whose lines are leaves.
pub(super) fn file(name: &str) -> usize {
    name::LEAVES.iter().position(|of| *of == name).unwrap_or(usize::MAX)
}

pub(super) async fn write(making: &mut Making<'_>) -> Result<(), BundleError> {
    making.disclosed.shown.sort_unstable();
    let shown = &making.disclosed.shown;
    let nothing = || BundleError::Request("nothing of this time is published yet".to_owned());
    let first = shown.first().ok_or_else(nothing)?.leaf;
    let end = shown.last().ok_or_else(nothing)?.leaf + 1;
    let (key, size) = (making.plan.log.key, making.at.state.size);
    let before = range(making, Leaves { from: 0, to: first }).await?;
    let after = range(making, Leaves { from: end, to: size }).await?;
    let mut part = making.parts.begin(name::LOG)?;
    part.line(&LogHeader { before, after }.to_line())?;
    let mut shown = making.disclosed.shown.iter().peekable();
    let line = |number: u64, hash: Hash| {
        let leaf = match shown.next_if(|shown| shown.leaf == number) {
            Some(shown) => LeafLine::Disclosed { file: shown.file, line: shown.line.into() },
            None => LeafLine::Withheld(hash),
        };
        part.line(&leaf.to_line()).map(|_| ())
    };
    log::leaves(&mut making.tx, key, (first, end), line).await?;
    making.parts.end(part)?;
    making.parts.add(name::CHECKPOINT, making.checkpoint().as_bytes())
}

async fn range(making: &mut Making<'_>, leaves: Leaves) -> Result<CompactRange, BundleError> {
    let hashes = log::hashes(&mut making.tx, making.plan.log.key, &cover(leaves)).await?;
    let range = CompactRange::of_hashes(leaves, &hashes);
    Ok(range.ok_or(StoreError::OutOfRange { what: "a part of the log" })?)
}
