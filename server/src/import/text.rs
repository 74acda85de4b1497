//! From bytes of a log file to text: what PowerShell, `tee`, editors and power failures make of
//! it. Nothing is guessed: bytes that are not text become U+FFFD, which no row may contain.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Decodes UTF-8 and UTF-16, by the mark, or by the zero bytes that ASCII has in UTF-16.
#[must_use]
pub fn decode(bytes: &[u8]) -> String {
    let (encoding, rest): (&Encoding, _) = match bytes {
        [0xff, 0xfe, rest @ ..] => (UTF_16LE, rest),
        [0xfe, 0xff, rest @ ..] => (UTF_16BE, rest),
        [0xef, 0xbb, 0xbf, rest @ ..] => (UTF_8, rest),
        rest if is_ascii_in_pairs(rest, 0) => (UTF_16LE, rest),
        rest if is_ascii_in_pairs(rest, 1) => (UTF_16BE, rest),
        rest => (UTF_8, rest),
    };
    encoding.decode_without_bom_handling(rest).0.into_owned()
}

/// True when the start is text with a zero beside each byte, and the text bytes at `at`.
fn is_ascii_in_pairs(bytes: &[u8], at: usize) -> bool {
    let start = bytes.get(..bytes.len().min(64)).unwrap_or_default();
    start.len() >= 8
        && start
            .chunks_exact(2)
            .all(|pair| pair[1 - at] == 0 && (pair[at] >= b' ' || pair[at] == b'\n'))
}

/// A line of a log.
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    /// Without what surrounds it: blanks, marks of joined files, zeros of a disk that lost power.
    pub(super) text: &'a str,
    /// False for the last line of a file that does not end with a line end.
    pub(super) ended: bool,
}

impl Line<'_> {
    /// True when a byte in it was not text.
    pub(super) fn is_damaged(&self) -> bool {
        self.text.chars().any(|c| c == '\u{fffd}' || (c.is_control() && c != '\t'))
    }
}

/// The lines that hold something.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let around = |c: char| c.is_whitespace() || matches!(c, '\0' | '\u{feff}');
    text.split_inclusive('\n').zip(1..).filter_map(move |(raw, number)| {
        let ended = raw.ends_with(['\n', '\r']);
        let text = raw.trim_matches(around);
        (!text.is_empty()).then_some(Line { number, text, ended })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_decide_and_nothing_is_guessed() {
        assert_eq!(decode(b"a,b"), "a,b");
        assert_eq!(decode(b"\xef\xbb\xbfa"), "a");
        assert_eq!(decode(b"\xff\xfea\0\n\0"), "a\n");
        assert_eq!(decode(b"\xfe\xff\0a"), "a");
        assert_eq!(decode(b"\xff\xfea\0b"), "a\u{fffd}");
        assert_eq!(decode(b"a\xffb"), "a\u{fffd}b");
        assert_eq!(decode(b"t\0i\0m\0e\0s\0"), "times");
        assert_eq!(decode(b"\0t\0i\0m\0e\0s"), "times");
    }

    #[test]
    fn lines_know_their_number_and_whether_they_end() {
        let found: Vec<_> = lines("\u{feff}a\r\n\n\0\0b \n\u{feff}c\0d\ne")
            .map(|line| (line.number, line.text, line.ended, line.is_damaged()))
            .collect();
        assert_eq!(
            found,
            [
                (1, "a", true, false),
                (3, "b", true, false),
                (4, "c\0d", true, true),
                (5, "e", false, false)
            ]
        );
    }
}
