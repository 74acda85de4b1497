//! From bytes of a log file to text: what PowerShell, `tee`, editors and power failures make of
//! it. Nothing is guessed: bytes that are not text become U+FFFD, which no row may contain.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::log::Reader;

/// Decodes UTF-8 and UTF-16, by the mark, or by the zero bytes that ASCII has in UTF-16.
#[must_use]
pub fn decode(bytes: Vec<u8>) -> String {
    let (encoding, mark) = encoding(&bytes);
    let rest = bytes.get(mark..).unwrap_or_default();
    if encoding != UTF_8 || std::str::from_utf8(rest).is_err() {
        return encoding.decode_without_bom_handling(rest).0.into_owned();
    }
    // A long log that is what it should be is not copied.
    let mut text = String::from_utf8(bytes).unwrap_or_default();
    text.drain(..mark);
    text
}

/// The encoding, and how many bytes its mark has.
fn encoding(bytes: &[u8]) -> (&'static Encoding, usize) {
    match bytes {
        [0xff, 0xfe, ..] => (UTF_16LE, 2),
        [0xfe, 0xff, ..] => (UTF_16BE, 2),
        [0xef, 0xbb, 0xbf, ..] => (UTF_8, 3),
        bytes if is_ascii_in_pairs(bytes, 0) => (UTF_16LE, 0),
        bytes if is_ascii_in_pairs(bytes, 1) => (UTF_16BE, 0),
        _ => (UTF_8, 0),
    }
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

/// A line without what surrounds it, and without what a terminal was told before it.
pub(super) fn trim(line: &str) -> &str {
    let mut text = line.trim_matches(is_around);
    while let Some((parameters, rest)) = text.strip_prefix("\u{1b}[").and_then(split_sequence)
        && parameters.chars().all(|c| c.is_ascii_digit() || matches!(c, ';' | '?'))
    {
        text = rest.trim_start_matches(is_around);
    }
    text
}

fn is_around(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\0' | '\u{feff}')
}

/// What stands before the letter that ends a sequence, and what behind it.
fn split_sequence(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| c.is_ascii_alphabetic())?;
    Some((&text[..end], &text[end + 1..]))
}

/// Lines between two looks at how far the reading is.
const LINES_UNTOLD: usize = 1_000;

/// The lines that hold something. Tells the reader how far they are.
pub(super) fn lines<'a>(text: &'a str, reader: Reader<'a>) -> impl Iterator<Item = Line<'a>> {
    let mut read = 0;
    // A file without a single line feed has the line ends of an old system.
    let end = if text.contains('\n') { '\n' } else { '\r' };
    text.split_inclusive(end).zip(1_usize..).filter_map(move |(raw, number)| {
        read += raw.len();
        if number.is_multiple_of(LINES_UNTOLD) || read == text.len() {
            reader.tell(read, text.len());
        }
        let ended = raw.ends_with(['\n', '\r']);
        let text = trim(raw);
        (!text.is_empty()).then_some(Line { number, text, ended })
    })
}

#[cfg(test)]
mod tests {
    use leasewatch_core::time::{Period, Timestamp, Zone};

    use super::*;
    use crate::intake::{Progress, Step};

    #[test]
    fn marks_decide_and_nothing_is_guessed() {
        assert_eq!(decode(b"a,b".to_vec()), "a,b");
        assert_eq!(decode(b"\xef\xbb\xbfa".to_vec()), "a");
        assert_eq!(decode(b"\xff\xfea\0\n\0".to_vec()), "a\n");
        assert_eq!(decode(b"\xfe\xff\0a".to_vec()), "a");
        assert_eq!(decode(b"\xff\xfea\0b".to_vec()), "a\u{fffd}");
        assert_eq!(decode(b"a\xffb".to_vec()), "a\u{fffd}b");
        assert_eq!(decode(b"t\0i\0m\0e\0s\0".to_vec()), "times");
        assert_eq!(decode(b"\0t\0i\0m\0e\0s".to_vec()), "times");
    }

    #[test]
    fn lines_know_their_number_and_whether_they_end() {
        let progress = Progress::default();
        let credible = Period::new(Timestamp::MIN, Timestamp::MAX);
        let reader = Reader { columns: None, zone: Zone::UTC, credible, progress: Some(&progress) };
        let found: Vec<_> = lines("\u{feff}a\r\n\n\0\0b \n\u{feff}c\0d\ne", reader)
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
        assert_eq!(progress.step(), Step::Reading(20, 20));
        let texts = |text| lines(text, reader).map(|line| line.text).collect::<Vec<_>>();
        assert_eq!(texts("a\rb\r"), ["a", "b"]);
        assert_eq!(texts("\u{1b}[?25l\u{1b}[0;32m a\n\u{1b}b\n"), ["a", "\u{1b}b"]);
    }
}
