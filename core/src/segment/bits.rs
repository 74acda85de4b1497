//! Bytes, variable-length integers and bit fields: the lowest layer of the format.
//!
//! The reader never reads past its end and allocates nothing. Bit fields stand least significant
//! bit first; the last byte is filled with zeros.

use super::DecodeError;

/// Appends an unsigned LEB128 integer in its shortest form.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

/// Appends a signed integer: zigzag, then LEB128.
pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Appends a count or length.
pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    put_varint(out, wide(count));
}

/// Bytes that [`put_varint`] writes.
pub(super) fn varint_len(value: u64) -> usize {
    bit_length(value).div_ceil(7).max(1)
}

/// Bytes that [`put_signed`] writes.
pub(super) fn signed_len(value: i64) -> usize {
    varint_len(zigzag(value))
}

/// Bits that a number needs; 0 for 0.
pub(super) fn bit_length(value: u64) -> usize {
    // At most 64, so the fallback is never taken.
    usize::try_from(u64::BITS - value.leading_zeros()).unwrap_or(64)
}

/// Bytes of `count` fields of `width` bits.
pub(super) fn packed_len(count: usize, width: usize) -> usize {
    (count * width).div_ceil(8)
}

/// `usize` is at most 64 bits wide on every platform that this runs on.
pub(super) fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn zigzag(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// Appends each value in `width` bits (0 to 64). Values must fit.
pub(super) fn put_packed(out: &mut Vec<u8>, width: usize, values: impl Iterator<Item = u64>) {
    if width == 0 {
        return;
    }
    let mut word = 0_u64;
    let mut filled = 0;
    for value in values {
        word |= value << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= 64;
            // What of the value did not fit; all of it fitted when `filled` is 0 now.
            word = if filled == 0 { 0 } else { value >> (width - filled) };
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8)]);
}

/// Reads fields of `width` bits (0 to 64) from the bytes that [`put_packed`] wrote; after them
/// come zeros without end.
pub(super) struct Packed<'a> {
    words: std::slice::Chunks<'a, u8>,
    word: u64,
    left: usize,
    width: usize,
    mask: u64,
}

impl<'a> Packed<'a> {
    pub(super) fn new(bytes: &'a [u8], width: usize) -> Self {
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        Self { words: bytes.chunks(8), word: 0, left: 0, width, mask }
    }

    pub(super) fn next(&mut self) -> u64 {
        if self.width <= self.left {
            let value = self.word & self.mask;
            self.word = shifted(self.word, self.width);
            self.left -= self.width;
            return value;
        }
        let next = self.next_word();
        let value = (self.word | next << self.left) & self.mask;
        let used = self.width - self.left;
        self.word = shifted(next, used);
        self.left = 64 - used;
        value
    }

    fn next_word(&mut self) -> u64 {
        let chunk = self.words.next().unwrap_or(&[]);
        if let Ok(full) = chunk.try_into() {
            return u64::from_le_bytes(full);
        }
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }
}

/// A right shift by 0 to 64.
fn shifted(word: u64, by: usize) -> u64 {
    if by == 64 { 0 } else { word >> by }
}

/// Takes bytes from the front, never more than there are.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// An unsigned LEB128 integer; longer forms than the shortest are refused.
    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Varint);
            }
            value |= bits << shift;
            if byte < 0x80 {
                let overlong = byte == 0 && shift > 0;
                return if overlong { Err(DecodeError::Varint) } else { Ok(value) };
            }
        }
        Err(DecodeError::Varint)
    }

    pub(super) fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A count of at most `max`.
    pub(super) fn count(&mut self, what: &'static str, max: usize) -> Result<usize, DecodeError> {
        let got = self.varint()?;
        match usize::try_from(got) {
            Ok(count) if count <= max => Ok(count),
            _ => Err(DecodeError::TooMany { what, got, max }),
        }
    }

    /// `count` fields of the `width` (at most 64) that stands before them.
    pub(super) fn packed(&mut self, width: usize, count: usize) -> Result<Packed<'a>, DecodeError> {
        if width > 64 {
            return Err(DecodeError::Code { what: "width" });
        }
        Ok(Packed::new(self.take(packed_len(count, width))?, width))
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes that are left.
    pub(super) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_fields_round_trip(width in 0_usize..=64, values in prop::collection::vec(any::<u64>(), 0..200)) {
            let mask = Packed::new(&[], width).mask;
            let values: Vec<u64> = values.into_iter().map(|value| value & mask).collect();
            let mut out = vec![0xaa];
            put_packed(&mut out, width, values.iter().copied());
            prop_assert_eq!(out.len(), 1 + packed_len(values.len(), width));
            let mut packed = Packed::new(&out[1..], width);
            for value in values {
                prop_assert_eq!(packed.next(), value);
            }
        }

        #[test]
        fn integers_round_trip_in_the_length_that_was_said(value in any::<i64>(), shift in 0..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_signed(&mut out, value);
            prop_assert_eq!(out.len(), signed_len(value));
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.signed(), Ok(value));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn an_integer_has_one_form(bytes in prop::collection::vec(any::<u8>(), 1..12)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(value) = reader.varint() {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                prop_assert_eq!(&bytes[..bytes.len() - reader.rest().len()], &out[..]);
            }
        }
    }

    #[test]
    fn overlong_and_overflowing_integers_are_refused() {
        let read = |bytes: &[u8]| Reader::new(bytes).varint();
        assert_eq!(read(&[0x80, 0x00]), Err(DecodeError::Varint));
        assert_eq!(read(&[0xff, 0x80, 0x00]), Err(DecodeError::Varint));
        assert_eq!(read(&[0xff; 11]), Err(DecodeError::Varint));
        let mut largest = [0xff; 10];
        largest[9] = 0x01;
        assert_eq!(read(&largest), Ok(u64::MAX));
        largest[9] = 0x02;
        assert_eq!(read(&largest), Err(DecodeError::Varint));
        assert_eq!(read(&[0x80]), Err(DecodeError::Truncated));
    }
}
