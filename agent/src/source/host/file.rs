//! Reading small files of the kernel.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use leasewatch_core::sample::Reading;

/// Longer files of the kernel than this are not read by the agent.
const MAX_BYTES: usize = 1 << 20;

/// The text of a file, or the reading that stands for its absence.
pub(super) fn text(path: &Path) -> Result<String, Reading> {
    match fs::read_to_string(path) {
        Ok(text) if text.len() <= MAX_BYTES => Ok(text),
        Ok(_) => Err(Reading::Error),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            Err(Reading::Unsupported)
        }
        Err(_) => Err(Reading::Error),
    }
}

/// A file that holds one whole number.
pub(super) fn number(path: &Path) -> Result<u64, Reading> {
    text(path)?.trim().parse().map_err(|_| Reading::Error)
}

/// The number behind `key` in a file of `key value` lines.
pub(super) fn keyed_number(path: &Path, key: &str) -> Result<u64, Reading> {
    let text = text(path)?;
    let mut lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let (_, value) = lines.find(|(name, _)| *name == key).ok_or(Reading::Unsupported)?;
    value.trim().parse().map_err(|_| Reading::Error)
}

/// A count as a reading; counters are kept as their low 63 bits.
pub(super) fn reading(value: Result<u64, Reading>) -> Reading {
    match value {
        Ok(value) => i64::try_from(value & (u64::MAX >> 1)).map_or(Reading::Error, Reading::Number),
        Err(reason) => reason,
    }
}
