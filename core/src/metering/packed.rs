//! Bytes of packed rows: LEB128 integers behind a version byte. For rows that the server wrote
//! itself; what comes from outside is read by `segment`.

use std::ops::RangeInclusive;

use super::record::RecordError;
use crate::segment::{put_list, take_list};

/// Writes a packed row.
pub(super) struct Packer(Vec<u8>);

impl Packer {
    pub(super) fn new(version: u8) -> Self {
        Self(vec![version])
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    /// Zigzag, so that small negative numbers are short too.
    pub(super) fn int(&mut self, value: i64) {
        self.unsigned((value << 1 ^ value >> 63).cast_unsigned());
    }

    pub(super) fn optional(&mut self, value: Option<i64>) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            self.int(value);
        }
    }

    /// Integers whose number the reader knows, in the fewest bytes of the segment's packings.
    pub(super) fn integers(&mut self, values: impl Iterator<Item = i64>) {
        put_list(&mut self.0, &values.collect::<Vec<_>>());
    }

    pub(super) fn list<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        let items: Vec<T> = items.collect();
        self.unsigned(u64::try_from(items.len()).unwrap_or(u64::MAX));
        items.into_iter().for_each(|item| write(self, item));
    }
}

/// Reads a packed row.
pub(super) struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    /// The rest of the row, and which of the known versions it is.
    pub(super) fn new(
        bytes: &'a [u8],
        versions: RangeInclusive<u8>,
    ) -> Result<(Self, u8), RecordError> {
        match bytes.split_first() {
            Some((first, rest)) if versions.contains(first) => Ok((Self(rest), *first)),
            _ => Err(RecordError),
        }
    }

    pub(super) fn finish(self) -> Result<(), RecordError> {
        if self.0.is_empty() { Ok(()) } else { Err(RecordError) }
    }

    pub(super) fn byte(&mut self) -> Result<u8, RecordError> {
        let (first, rest) = self.0.split_first().ok_or(RecordError)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(RecordError)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn unsigned(&mut self) -> Result<u64, RecordError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(RecordError)
    }

    pub(super) fn int(&mut self) -> Result<i64, RecordError> {
        let value = self.unsigned()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn optional(&mut self) -> Result<Option<i64>, RecordError> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.int().map(Some),
            _ => Err(RecordError),
        }
    }

    pub(super) fn integers(&mut self, count: usize) -> Result<Vec<i64>, RecordError> {
        take_list(&mut self.0, count).map_err(|_| RecordError)
    }

    pub(super) fn count(&mut self, max: usize) -> Result<usize, RecordError> {
        usize::try_from(self.unsigned()?).ok().filter(|n| *n <= max).ok_or(RecordError)
    }
}
