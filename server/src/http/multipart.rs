//! `multipart/form-data`, read as it arrives (RFC 7578): parts in order, their data in pieces, so
//! that a file of any size needs no memory. Not here: what the fields mean, and how much of them is
//! taken.

use leasewatch_core::id::clean_text;

/// The head of a part.
const HEAD_BYTES_MAX: usize = 8 * 1_024;
/// The longest boundary that the standard allows.
const BOUNDARY_BYTES_MAX: usize = 70;

/// Something that a form holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// A field begins.
    Field {
        /// Its name in the form.
        name: String,
        /// The name of its file, made inert; `None` for a field without one.
        file_name: Option<String>,
    },
    /// Data of the field, as far as it has arrived.
    Data(Vec<u8>),
    /// The form is complete.
    End,
}

/// The body is no form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAForm;

/// Takes bytes and gives pieces.
#[derive(Debug)]
pub(super) struct FormReader {
    /// The line end before a delimiter belongs to it.
    delimiter: Vec<u8>,
    unread: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first delimiter; what stands there is no field.
    Preamble,
    /// Behind a delimiter.
    Delimiter,
    Head,
    Data,
    End,
}

impl FormReader {
    /// For a body of this content type.
    pub(super) fn new(content_type: &str) -> Result<Self, NotAForm> {
        let (kind, parameters) = content_type.split_once(';').ok_or(NotAForm)?;
        let boundary = parameter(parameters, "boundary").ok_or(NotAForm)?;
        let valid = (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len());
        if !kind.trim().eq_ignore_ascii_case("multipart/form-data") || !valid {
            return Err(NotAForm);
        }
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first delimiter needs no line end before it.
        Ok(Self { delimiter, unread: b"\r\n".to_vec(), state: State::Preamble })
    }

    /// Takes what arrived.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// The next piece; `None` until more arrives.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, NotAForm> {
        loop {
            match self.state {
                State::Preamble => match find(&self.unread, &self.delimiter) {
                    Some(at) => self.pass(at + self.delimiter.len(), State::Delimiter),
                    None => {
                        self.take_data();
                        return Ok(None);
                    }
                },
                State::Delimiter => match self.unread.as_slice() {
                    [b'-', b'-', ..] => self.pass(2, State::End),
                    [b' ' | b'\t', ..] => self.pass(1, State::Delimiter),
                    [b'\r', b'\n', ..] => self.pass(2, State::Head),
                    [] | [b'-' | b'\r'] => return Ok(None),
                    _ => return Err(NotAForm),
                },
                State::Head => {
                    let Some(end) = find(&self.unread, b"\r\n\r\n") else {
                        let is_long = self.unread.len() > HEAD_BYTES_MAX;
                        return if is_long { Err(NotAForm) } else { Ok(None) };
                    };
                    let field = field(self.unread.get(..end).unwrap_or_default())?;
                    self.pass(end + 4, State::Data);
                    return Ok(Some(field));
                }
                State::Data => match find(&self.unread, &self.delimiter) {
                    Some(0) => self.pass(self.delimiter.len(), State::Delimiter),
                    Some(at) => return Ok(Some(Piece::Data(self.unread.drain(..at).collect()))),
                    None => return Ok(self.take_data().map(Piece::Data)),
                },
                State::End => return Ok(Some(Piece::End)),
            }
        }
    }

    fn pass(&mut self, bytes: usize, state: State) {
        self.unread.drain(..bytes);
        self.state = state;
    }

    /// What can no longer be the start of a delimiter.
    fn take_data(&mut self) -> Option<Vec<u8>> {
        let kept = self.delimiter.len() - 1;
        let free = self.unread.len().checked_sub(kept).filter(|free| *free > 0)?;
        Some(self.unread.drain(..free).collect())
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

fn field(head: &[u8]) -> Result<Piece, NotAForm> {
    let head = String::from_utf8_lossy(head);
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let (kind, parameters) = disposition.and_then(|d| d.split_once(';')).ok_or(NotAForm)?;
    let name = parameter(parameters, "name").ok_or(NotAForm)?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return Err(NotAForm);
    }
    let file_name = parameter(parameters, "filename").map(|name| clean_text(&name, 120));
    Ok(Piece::Field { name, file_name })
}

/// A parameter such as `name="file"`. Browsers write a quote in a value as `%22` or `\"`.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => {
                let mut escaped = false;
                let end = quoted.find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                })?;
                (quoted[..end].replace("\\\"", "\""), &quoted[end + 1..])
            }
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = after.trim_start().strip_prefix(';')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"preamble\r\n--xYz\r\nContent-Disposition: form-data; name=\"node\"\r\n\r\n\
        old node\r\n--xYz \t\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\\\"\xe2\x80\xae.csv\"\r\n\
        Content-Type: text/csv\r\n\r\n1\r\n--xY\r\n\r\n--xYz\r\nContent-Disposition: form-data; name=empty; filename=\"\"\r\n\r\n\
        \r\n--xYz--\r\nepilogue";

    /// Fields with their data, when the body arrives in pieces of `size`.
    fn read(body: &[u8], size: usize) -> Result<Vec<(String, Option<String>, String)>, NotAForm> {
        let mut reader = FormReader::new("multipart/form-data; boundary=xYz")?;
        let mut fields = Vec::new();
        for bytes in body.chunks(size) {
            reader.push(bytes);
            while let Some(piece) = reader.next()? {
                match piece {
                    Piece::Field { name, file_name } => {
                        fields.push((name, file_name, String::new()));
                    }
                    Piece::Data(data) => {
                        fields.last_mut().unwrap().2.push_str(&String::from_utf8_lossy(&data));
                    }
                    Piece::End => return Ok(fields),
                }
            }
        }
        Err(NotAForm)
    }

    #[test]
    fn a_form_is_the_same_however_it_arrives() {
        let fields = read(BODY, BODY.len()).unwrap();
        let names: Vec<_> =
            fields.iter().map(|(name, file, _)| (name.as_str(), file.as_deref())).collect();
        // The character that turns the reading direction is gone.
        assert_eq!(names, [("node", None), ("file", Some("a\".csv")), ("empty", Some(""))]);
        let data: Vec<_> = fields.iter().map(|(.., data)| data.as_str()).collect();
        assert_eq!(data, ["old node", "1\r\n--xY\r\n", ""]);
        for size in 1..40 {
            assert_eq!(read(BODY, size), Ok(fields.clone()), "pieces of {size}");
        }
    }

    #[test]
    fn what_is_cut_or_no_form_is_refused() {
        let complete = BODY.len() - "\r\nepilogue".len();
        for cut in 0..complete {
            assert_eq!(read(&BODY[..cut], 7), Err(NotAForm), "{cut}");
        }
        assert!(read(&BODY[..complete], 7).is_ok());
        assert_eq!(read(b"--xYz\r\nContent-Type: text/csv\r\n\r\n\r\n--xYz--", 9), Err(NotAForm));
        let endless = [b"--xYz\r\n".as_slice(), &b"a".repeat(9_000)].concat();
        assert_eq!(read(&endless, 1_000), Err(NotAForm));
        for content_type in [
            "",
            "text/plain; boundary=xYz",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; charset=utf-8",
        ] {
            assert!(FormReader::new(content_type).is_err(), "{content_type}");
        }
        let quoted = FormReader::new("Multipart/Form-Data; charset=utf-8; boundary=\"a b\"");
        assert!(quoted.is_ok());
    }
}
