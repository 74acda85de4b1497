//! A TOML file as it was read, and where in it something is wrong.

use std::fmt;
use std::ops::Range;

use super::{Tables, Wrong};

/// Characters of a message; a file may hold anything.
const MESSAGE_CHARS: usize = 300;

/// A file that holds what it may.
#[derive(Debug)]
pub struct Document {
    file: String,
    text: String,
    pub(super) tables: Tables,
}

/// Something that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What.
    pub wrong: Wrong,
}

impl fmt::Display for Refusal {
    /// `leases.toml:12: ends_at: must be after the start`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { field, matter } = &self.wrong;
        write!(f, "{}:{}: ", self.file, self.line)?;
        if field.is_empty() { f.write_str(matter) } else { write!(f, "{field}: {matter}") }
    }
}

impl Document {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The first thing that is wrong: no TOML, an unknown key, a value that is none.
    pub fn parse(file: &str, text: String) -> Result<Self, Refusal> {
        match toml::from_str(&text) {
            Ok(tables) => Ok(Self { file: file.to_owned(), text, tables }),
            Err(mut error) => {
                let at = error.span().map_or(0, |span| span.start);
                let line = line_of(&text, at);
                // Without its input, an error says in which keys it is.
                error.set_input(None);
                let said = error.to_string();
                let (matter, keys) = match said.trim_end().rsplit_once("\nin `") {
                    Some((matter, keys)) => (matter, keys.trim_end_matches('`')),
                    None => (said.trim_end(), ""),
                };
                let field = keys.rsplit_once('.').map_or(keys, |(_, field)| field);
                let matter = leasewatch_core::id::clean_text(matter, MESSAGE_CHARS);
                let wrong = Wrong::new(field, matter);
                Err(Refusal { file: file.to_owned(), line, wrong })
            }
        }
    }

    /// Something wrong with the entry that stands here: at its field, where the entry has it.
    pub(super) fn refusal(&self, entry: &Range<usize>, wrong: Wrong) -> Refusal {
        let first = line_of(&self.text, entry.start);
        let names = |line: &str| {
            let line = line.trim_start().trim_start_matches('[');
            let key = line.split(['=', ']']).next().unwrap_or_default().trim();
            key == wrong.field || key.rsplit_once('.').is_some_and(|(_, key)| key == wrong.field)
        };
        let is_own = |(index, line): &(usize, &str)| {
            *index == first || !line.trim_start().starts_with("[[") || line.contains('.')
        };
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let mut own = lines.skip(first.saturating_sub(1)).take_while(is_own);
        let line = own.find(|(_, line)| names(line)).map_or(first, |(line, _)| line);
        Refusal { file: self.file.clone(), line, wrong }
    }
}

/// The line, from 1, that this byte stands in.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: &str = "# what we rent\n[[lease]]\nname = 'a'\nprovider = 'p'\ngpu_model = 'H100'\n\
        gpu_count = 8\ncurrency = 'USD'\nstarts_at = '2026-08-01T00:00:00Z'\n\
        prices = [{ amount = '2.49', unit = 'gpu_hour' }]\n";

    fn refused(old: &str, new: &str) -> String {
        let text = LEASE.replacen(old, new, 1);
        assert_ne!(text, LEASE, "{old}");
        Document::parse("leases.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named_by_file_line_and_field() {
        assert!(Document::parse("leases.toml", LEASE.to_owned()).is_ok());
        for (old, new, expected) in [
            ("gpu_count = 8", "gpu_count = 'many'", "leases.toml:6: gpu_count: invalid type"),
            ("gpu_count", "gpu_cuont", "leases.toml:6: "),
            ("'2.49'", "2.49", "leases.toml:9: amount: invalid type"),
            ("'2.49'", "'2,49'", "leases.toml:9: amount: an amount is a decimal number"),
            ("T00:00:00Z", "", "leases.toml:8: starts_at: must be a time with its zone"),
            ("name = 'a'\n", "", "leases.toml:2: lease: missing field `name`"),
            ("[[lease]]", "[[leases]]", "leases.toml:2: "),
            ("'H100'", "'H100", "leases.toml:5: "),
        ] {
            let said = refused(old, new);
            assert!(said.starts_with(expected), "{said}");
        }
        assert!(refused("gpu_count", "gpu_cuont").contains("unknown field `gpu_cuont`"));
    }

    #[test]
    fn a_fault_of_an_entry_stands_at_its_field() {
        let text = format!(
            "{LEASE}\n[[lease.fees]]\nname = ''\namount = '1'\ncycle = 'once'\n{LEASE}ends_at = '2026-07-01T00:00:00Z'\n"
        );
        let document = Document::parse("leases.toml", text).unwrap();
        let spans: Vec<_> = document.tables.lease.iter().map(toml::Spanned::span).collect();
        let line = |entry: usize, field: &str| {
            document.refusal(&spans[entry], Wrong::new(field, "is wrong")).line
        };
        assert_eq!((line(0, "gpu_count"), line(0, "fees")), (6, 11));
        // Not the other entry's.
        assert_eq!((line(0, "ends_at"), line(1, "ends_at")), (2, 24));
        assert_eq!(line(1, "gpu_count"), 20);
    }
}
