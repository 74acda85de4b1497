//! From bytes of a log file to text: what PowerShell, `tee` and editors make of it.

use encoding_rs::{UTF_8, UTF_16BE, UTF_16LE};

/// The bytes are not text in an encoding that logs come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the file is neither UTF-8 nor UTF-16 with a byte order mark; save it as UTF-8 and try again"
)]
pub struct EncodingError;

/// Decodes UTF-8 (with or without a mark) and UTF-16 with a mark.
///
/// # Errors
/// [`EncodingError`]; nothing is replaced or guessed.
pub fn decode(bytes: &[u8]) -> Result<String, EncodingError> {
    let (encoding, rest) = match bytes {
        [0xff, 0xfe, rest @ ..] => (UTF_16LE, rest),
        [0xfe, 0xff, rest @ ..] => (UTF_16BE, rest),
        [0xef, 0xbb, 0xbf, rest @ ..] => (UTF_8, rest),
        rest => (UTF_8, rest),
    };
    encoding
        .decode_without_bom_handling_and_without_replacement(rest)
        .map(std::borrow::Cow::into_owned)
        .ok_or(EncodingError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_decide_and_nothing_is_replaced() {
        assert_eq!(decode(b"a,b"), Ok("a,b".to_owned()));
        assert_eq!(decode(b"\xef\xbb\xbfa"), Ok("a".to_owned()));
        assert_eq!(decode(b"\xff\xfea\0\n\0"), Ok("a\n".to_owned()));
        assert_eq!(decode(b"\xfe\xff\0a"), Ok("a".to_owned()));
        assert_eq!(decode(b"\xff\xfea"), Err(EncodingError));
        assert_eq!(decode(b"a\xffb"), Err(EncodingError));
    }
}
