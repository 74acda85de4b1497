//! The strict reader: it checks the spelling while it reads, so nothing has to be written again.

use std::collections::BTreeMap;

use super::{DEPTH_MAX, INT_MAX, Value, is_key, short_escape};

/// Why bytes are not the canonical form of a value. Offsets are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// More bytes than the caller accepts.
    #[error("{got} bytes are over the bound of {max}")]
    TooLong {
        /// The length found.
        got: usize,
        /// The bound.
        max: usize,
    },
    /// Not UTF-8.
    #[error("the bytes are not UTF-8")]
    Utf8,
    /// A byte that cannot stand there: white space, `null`, a fraction, a wrong escape, an end.
    #[error("unexpected byte, or the end, at byte {at}")]
    Syntax {
        /// Where.
        at: usize,
    },
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("nested too deep at byte {at}")]
    Depth {
        /// Where.
        at: usize,
    },
    /// An integer beyond 2^53 - 1, with leading zeros, or `-0`.
    #[error("not a canonical integer at byte {at}")]
    Integer {
        /// Where it begins.
        at: usize,
    },
    /// A key that is not of `[a-z0-9_]`, repeated, or out of order.
    #[error("a key is not allowed, repeated or out of order at byte {at}")]
    Key {
        /// Where it begins.
        at: usize,
    },
}

pub(super) fn parse(bytes: &[u8], max: usize) -> Result<Value, CanonicalError> {
    if bytes.len() > max {
        return Err(CanonicalError::TooLong { got: bytes.len(), max });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| CanonicalError::Utf8)?;
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    if reader.at == bytes.len() { Ok(value) } else { Err(reader.syntax()) }
}

struct Reader<'a> {
    text: &'a str,
    /// Always on a character boundary.
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, CanonicalError> {
        match self.peek() {
            Some(b'"') => self.text().map(Value::Str),
            Some(b't') => self.expect("true").map(|()| Value::Bool(true)),
            Some(b'f') => self.expect("false").map(|()| Value::Bool(false)),
            Some(b'-' | b'0'..=b'9') => self.integer().map(Value::Int),
            Some(b'[' | b'{') if depth == DEPTH_MAX => Err(CanonicalError::Depth { at: self.at }),
            Some(b'[') => self.array(depth + 1),
            Some(b'{') => self.object(depth + 1),
            _ => Err(self.syntax()),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, CanonicalError> {
        self.expect("[")?;
        let mut items = Vec::new();
        if self.take("]") {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.take("]") {
                return Ok(Value::Array(items));
            }
            self.expect(",")?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, CanonicalError> {
        self.expect("{")?;
        let mut fields = BTreeMap::new();
        if self.take("}") {
            return Ok(Value::Object(fields));
        }
        loop {
            let at = self.at;
            let key = self.text()?;
            let ascends = fields.last_key_value().is_none_or(|(last, _)| *last < key);
            if !ascends || !is_key(&key) {
                return Err(CanonicalError::Key { at });
            }
            self.expect(":")?;
            fields.insert(key, self.value(depth)?);
            if self.take("}") {
                return Ok(Value::Object(fields));
            }
            self.expect(",")?;
        }
    }

    fn integer(&mut self) -> Result<i64, CanonicalError> {
        let at = self.at;
        let negative = self.take("-");
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let text = &self.rest()[..digits];
        let zero_first = text.starts_with('0') && (digits > 1 || negative);
        let number = text.parse::<i64>().ok().filter(|number| !zero_first && *number <= INT_MAX);
        self.at += digits;
        let number = number.ok_or(CanonicalError::Integer { at })?;
        Ok(if negative { -number } else { number })
    }

    fn text(&mut self) -> Result<String, CanonicalError> {
        self.expect("\"")?;
        let mut text = String::new();
        loop {
            let plain =
                self.rest().bytes().take_while(|b| !matches!(b, b'"' | b'\\' | 0..=0x1f)).count();
            text.push_str(&self.rest()[..plain]);
            self.at += plain;
            if self.take("\"") {
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    /// An escape that RFC 8785 would write; each character has one spelling.
    fn escape(&mut self) -> Result<char, CanonicalError> {
        self.expect("\\")?;
        let at = self.at;
        let short = ['"', '\\', '\u{8}', '\t', '\n', '\u{c}', '\r'];
        let letter = self.rest().chars().next();
        if let Some(c) = short.into_iter().find(|c| short_escape(*c) == letter) {
            self.at += 1;
            return Ok(c);
        }
        self.expect("u00")?;
        let high = self.peek().filter(|b| matches!(b, b'0' | b'1'));
        let low = self.rest().as_bytes().get(1);
        let low = low.copied().filter(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let (Some(high), Some(low)) = (high, low) else {
            return Err(self.syntax());
        };
        self.at += 2;
        let low = if low.is_ascii_digit() { low - b'0' } else { low - b'a' + 10 };
        let c = char::from((high - b'0') * 16 + low);
        if short_escape(c).is_some() { Err(CanonicalError::Syntax { at }) } else { Ok(c) }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), CanonicalError> {
        if self.take(token) { Ok(()) } else { Err(self.syntax()) }
    }

    fn syntax(&self) -> CanonicalError {
        CanonicalError::Syntax { at: self.at }
    }
}
