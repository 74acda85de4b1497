//! Base64 as signed notes use it: the alphabet with `+` and `/`, padded (RFC 4648, section 4), one
//! spelling each.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let [a, b, c] = group;
        let digits = [a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63];
        for (at, digit) in digits.into_iter().enumerate() {
            let padding = at > chunk.len();
            text.push(if padding { '=' } else { char::from(ALPHABET[usize::from(digit)]) });
        }
    }
    text
}

/// `None` for a text that [`encode`] did not write.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let kept = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for c in kept.bytes() {
        let value = ALPHABET.iter().position(|known| *known == c)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 255).ok()?);
        }
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc_hold_and_other_spellings_do_not() {
        let examples =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in examples {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text), Some(bytes.as_bytes().to_vec()));
        }
        for wrong in ["Zg", "Zg=", "Zh==", "Zg===", "Z", "Zm9v=", "Zm-v", "=", "Zg==Zg==", " Zm9v"]
        {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn bytes_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
