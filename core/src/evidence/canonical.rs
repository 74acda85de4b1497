//! The one form of everything that is committed to: RFC 8785 JSON without floats.
//!
//! A [`Value`] has exactly one spelling. [`Value::to_bytes`] writes it and [`Value::parse`] reads
//! nothing else: other key orders, white space, escapes, number spellings, `null` and fractions
//! are refused, so bytes and content name each other. Not here: which fields a statement has
//! (`statement`).

mod reader;

use std::collections::BTreeMap;

pub use reader::CanonicalError;

/// The largest integer in a statement, 2^53 - 1; the smallest is its negative.
pub const INT_MAX: i64 = 9_007_199_254_740_991;

/// The deepest nesting of arrays and objects that is read; a scalar alone has depth 0.
pub const DEPTH_MAX: usize = 8;

/// A value of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Any text.
    Str(String),
    /// True or false.
    Bool(bool),
    /// An integer of at most [`INT_MAX`] in absolute value.
    Int(i64),
    /// A list.
    Array(Vec<Value>),
    /// Fields by name; names are of `[a-z0-9_]`, at least one character.
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// The canonical bytes. A value that breaks a bound of its type (an integer beyond
    /// [`INT_MAX`], a key outside `[a-z0-9_]`) is written all the same and refused by
    /// [`Value::parse`]; whoever takes numbers from outside reads back what it wrote.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = String::new();
        self.write(&mut out);
        out.into_bytes()
    }

    /// Reads the canonical form of a value from at most `max_bytes` bytes.
    ///
    /// # Errors
    /// [`CanonicalError`] with the byte offset, for anything that [`Value::to_bytes`] would not
    /// have written.
    pub fn parse(bytes: &[u8], max_bytes: usize) -> Result<Self, CanonicalError> {
        reader::parse(bytes, max_bytes)
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Str(text) => write_text(text, out),
            Self::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Self::Int(number) => out.push_str(&number.to_string()),
            Self::Array(items) => write_list(out, ('[', ']'), items, |item, out| item.write(out)),
            // Keys are ASCII, so byte order is RFC 8785's order of UTF-16 code units.
            Self::Object(fields) => write_list(out, ('{', '}'), fields, |(key, value), out| {
                write_text(key, out);
                out.push(':');
                value.write(out);
            }),
        }
    }
}

fn write_list<T>(
    out: &mut String,
    (open, close): (char, char),
    items: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut String),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(close);
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match short_escape(c) {
            Some(escape) => {
                out.push('\\');
                out.push(escape);
            }
            None if c < ' ' => {
                out.push_str("\\u00");
                out.push(if c < '\u{10}' { '0' } else { '1' });
                out.push(char::from_digit(u32::from(c) % 16, 16).unwrap_or('0'));
            }
            None => out.push(c),
        }
    }
    out.push('"');
}

/// The letter after the backslash, for characters that RFC 8785 writes as two.
fn short_escape(c: char) -> Option<char> {
    match c {
        '"' | '\\' => Some(c),
        '\u{8}' => Some('b'),
        '\t' => Some('t'),
        '\n' => Some('n'),
        '\u{c}' => Some('f'),
        '\r' => Some('r'),
        _ => None,
    }
}

/// True for a name that an object may have.
fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests;
