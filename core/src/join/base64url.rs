//! Base64 with the alphabet of URLs and without padding (RFC 4648, section 5); one spelling each.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Why a text is not the encoding of anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// Which character, counted from 0, is not of the alphabet.
    Character(usize),
    /// No bytes encode to a text that ends like this.
    Length,
}

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let [a, b, c] = group;
        let digits = [a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63];
        for digit in &digits[..=chunk.len()] {
            text.push(char::from(ALPHABET[usize::from(*digit)]));
        }
    }
    text
}

pub(super) fn decode(text: &str) -> Result<Vec<u8>, DecodeError> {
    let digit = |(at, c): (usize, char)| {
        let found = ALPHABET.iter().position(|known| char::from(*known) == c);
        found.and_then(|value| u8::try_from(value).ok()).ok_or(DecodeError::Character(at))
    };
    let digits: Vec<u8> = text.chars().enumerate().map(digit).collect::<Result<_, _>>()?;
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for chunk in digits.chunks(4) {
        let mut group = [0; 4];
        group[..chunk.len()].copy_from_slice(chunk);
        let [a, b, c, d] = group;
        let whole = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
        let kept = chunk.len() - 1;
        // Bits that stand for nothing are zero, or two texts would mean the same.
        if kept == 0 || whole[kept..].iter().any(|rest| *rest != 0) {
            return Err(DecodeError::Length);
        }
        bytes.extend_from_slice(&whole[..kept]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc_hold() {
        let examples = [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")];
        for (bytes, text) in examples {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text), Ok(bytes.as_bytes().to_vec()));
        }
        assert_eq!(encode(&[0xfb, 0xff]), "-_8");
        assert_eq!(decode("Zh"), Err(DecodeError::Length));
        assert_eq!(decode("Z"), Err(DecodeError::Length));
        assert_eq!(decode("Zg="), Err(DecodeError::Character(2)));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(text in "[A-Za-z0-9_-]{0,60}") {
            if let Ok(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }

        #[test]
        fn bytes_survive(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        }
    }
}
