//! Signed notes: a text, and lines of signatures under it (C2SP `signed-note`).
//!
//! Reading one checks its form alone; [`Note::is_signed_by`] and [`Note::cosigned_at`] check
//! signatures, of the two kinds that checkpoints carry: Ed25519 over the text, and a witness's
//! `cosignature/v1` over the text and a time. Signatures by keys that nobody asked for are kept and
//! mean nothing.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use super::base64;

/// Most bytes of a note.
pub const BYTES_MAX: usize = 16_384;
/// Most signatures of a note.
pub const SIGNATURES_MAX: usize = 64;

const SIGNATURE: u8 = 0x01;
const COSIGNATURE: u8 = 0x04;

/// A text with signatures that nobody has checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The signed text. Ends with a line feed.
    pub text: String,
    /// In the order of their lines.
    pub signatures: Vec<NoteSignature>,
}

/// A line under a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteSignature {
    /// Name of the key: no space and no `+`.
    pub name: String,
    /// Four bytes by which its verifier finds it.
    pub key_id: [u8; 4],
    /// What the key made of the text.
    pub bytes: Vec<u8>,
}

/// Why a text is no note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// More than [`BYTES_MAX`] bytes, or more than [`SIGNATURES_MAX`] signatures.
    #[error("a note has at most 16384 bytes and 64 signatures")]
    Long,
    /// A control character other than the line feed.
    #[error("a note holds a control character")]
    Character,
    /// No empty line followed by at least one signature.
    #[error("a note ends with an empty line and its signatures")]
    Form,
    /// A line of a signature that is none.
    #[error("line {line} under a note is no signature")]
    Line {
        /// Counted from 1, under the empty line.
        line: usize,
    },
}

impl Note {
    /// Reads a note.
    ///
    /// # Errors
    /// [`NoteError`]; every other spelling than that of [`Note::to_text`] is refused.
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        if text.len() > BYTES_MAX {
            return Err(NoteError::Long);
        }
        if text.chars().any(|c| c.is_control() && c != '\n') {
            return Err(NoteError::Character);
        }
        let end = text.rfind("\n\n").ok_or(NoteError::Form)? + 1;
        let (body, lines) = (&text[..end], &text[end + 1..]);
        let lines = lines.strip_suffix('\n').ok_or(NoteError::Form)?;
        let signatures: Vec<NoteSignature> = lines
            .split('\n')
            .enumerate()
            .map(|(at, line)| NoteSignature::parse(line).ok_or(NoteError::Line { line: at + 1 }))
            .collect::<Result<_, _>>()?;
        if signatures.len() > SIGNATURES_MAX {
            return Err(NoteError::Long);
        }
        Ok(Self { text: body.to_owned(), signatures })
    }

    /// The note as it travels.
    #[must_use]
    pub fn to_text(&self) -> String {
        let lines = self.signatures.iter().map(NoteSignature::to_line);
        format!("{}\n{}", self.text, lines.collect::<String>())
    }

    /// Adds an Ed25519 signature over the text.
    pub fn sign(&mut self, name: &str, key: &SigningKey) {
        let bytes = key.sign(self.text.as_bytes()).to_bytes().to_vec();
        let key_id = key_id(name, SIGNATURE, &key.verifying_key());
        self.signatures.push(NoteSignature { name: name.to_owned(), key_id, bytes });
    }

    /// Adds a witness's cosignature: Ed25519 over the text and the second at which it was made.
    pub fn cosign(&mut self, name: &str, key: &SigningKey, at_s: u64) {
        let signature = key.sign(&cosigned(&self.text, at_s)).to_bytes();
        let bytes = [at_s.to_be_bytes().as_slice(), &signature].concat();
        let key_id = key_id(name, COSIGNATURE, &key.verifying_key());
        self.signatures.push(NoteSignature { name: name.to_owned(), key_id, bytes });
    }

    /// True when this key, by this name, signed the text. A second signature by the same key that
    /// does not hold spoils the first: nobody may choose which one counts.
    #[must_use]
    pub fn is_signed_by(&self, name: &str, key: &VerifyingKey) -> bool {
        let mut checks = self.of(name, key_id(name, SIGNATURE, key)).map(|signature| {
            let signature = Signature::from_slice(&signature.bytes);
            signature.is_ok_and(|s| key.verify_strict(self.text.as_bytes(), &s).is_ok())
        });
        checks.next() == Some(true) && checks.all(|holds| holds)
    }

    /// The latest second at which this witness, by this name, cosigned the text; `None` when it did
    /// not, or one of its cosignatures does not hold.
    #[must_use]
    pub fn cosigned_at(&self, name: &str, key: &VerifyingKey) -> Option<u64> {
        let mut latest = None;
        for signature in self.of(name, key_id(name, COSIGNATURE, key)) {
            let (at, rest) = signature.bytes.split_first_chunk::<8>()?;
            let at_s = u64::from_be_bytes(*at);
            let signature = Signature::from_slice(rest).ok()?;
            key.verify_strict(&cosigned(&self.text, at_s), &signature).ok()?;
            latest = latest.max(Some(at_s));
        }
        latest
    }

    fn of<'a>(
        &'a self,
        name: &'a str,
        key_id: [u8; 4],
    ) -> impl Iterator<Item = &'a NoteSignature> + 'a {
        self.signatures.iter().filter(move |one| one.name == name && one.key_id == key_id)
    }
}

impl NoteSignature {
    fn parse(line: &str) -> Option<Self> {
        let (name, encoded) = line.strip_prefix("— ")?.split_once(' ')?;
        if name.is_empty() || name.contains('+') || name.chars().any(char::is_whitespace) {
            return None;
        }
        let decoded = base64::decode(encoded)?;
        let (key_id, bytes) = decoded.split_first_chunk::<4>()?;
        let found = !bytes.is_empty();
        found.then(|| Self { name: name.to_owned(), key_id: *key_id, bytes: bytes.to_vec() })
    }

    fn to_line(&self) -> String {
        let encoded = base64::encode(&[self.key_id.as_slice(), &self.bytes].concat());
        format!("— {} {encoded}\n", self.name)
    }
}

/// The line by which people hand a key to a verifier: `name+id+key`.
#[must_use]
pub fn verifier_line(name: &str, key: &VerifyingKey) -> String {
    key_line(name, SIGNATURE, key)
}

/// The same for a witness's key.
#[must_use]
pub fn witness_line(name: &str, key: &VerifyingKey) -> String {
    key_line(name, COSIGNATURE, key)
}

/// Reads what [`verifier_line`] or [`witness_line`] wrote: name, key, and whether it is a
/// witness's. `None` for anything else, keys of small order included.
#[must_use]
pub fn parse_key_line(line: &str) -> Option<(String, VerifyingKey, bool)> {
    let (name, rest) = line.split_once('+')?;
    let (_, encoded) = rest.split_once('+')?;
    let decoded = base64::decode(encoded)?;
    let (kind, bytes) = decoded.split_first()?;
    let key = crate::evidence::statement::public_key(bytes).ok()?;
    let is_known = matches!(*kind, SIGNATURE | COSIGNATURE) && key_line(name, *kind, &key) == line;
    (is_known && !name.is_empty() && !name.contains(char::is_whitespace))
        .then(|| (name.to_owned(), key, *kind == COSIGNATURE))
}

fn key_line(name: &str, kind: u8, key: &VerifyingKey) -> String {
    let id: String = key_id(name, kind, key).iter().map(|byte| format!("{byte:02x}")).collect();
    let encoded = base64::encode(&[&[kind], key.as_bytes().as_slice()].concat());
    format!("{name}+{id}+{encoded}")
}

fn key_id(name: &str, kind: u8, key: &VerifyingKey) -> [u8; 4] {
    let hash = Sha256::new()
        .chain_update(name)
        .chain_update([b'\n', kind])
        .chain_update(key.as_bytes())
        .finalize();
    let mut id = [0; 4];
    id.copy_from_slice(&hash[..4]);
    id
}

fn cosigned(text: &str, at_s: u64) -> Vec<u8> {
    format!("cosignature/v1\ntime {at_s}\n{text}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Go's package `note`, by which every implementation is tried.
    const KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    const NOTE: &str = "If you think cryptography is the answer to your problem,\n\
        then you don't know what your problem is.\n\n\
        — PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

    fn witness() -> SigningKey {
        SigningKey::from_bytes(&[7; 32])
    }

    #[test]
    fn a_published_note_holds_and_an_altered_one_does_not() {
        let (name, key, is_witness) = parse_key_line(KEY).unwrap();
        assert_eq!((name.as_str(), is_witness), ("PeterNeumann", false));
        assert_eq!(verifier_line(&name, &key), KEY);
        let note = Note::parse(NOTE).unwrap();
        assert_eq!(note.to_text(), NOTE);
        assert!(note.is_signed_by(&name, &key));
        assert!(!note.is_signed_by("PeterNeuman", &key));
        let altered = Note::parse(&NOTE.replace("answer", "Answer")).unwrap();
        assert!(!altered.is_signed_by(&name, &key));
    }

    #[test]
    fn a_witness_says_when_and_nothing_else_counts_as_its_word() {
        let mut note = Note::parse(NOTE).unwrap();
        let key = witness().verifying_key();
        assert_eq!(note.cosigned_at("witness-a", &key), None);
        note.cosign("witness-a", &witness(), 1_785_556_800);
        note.cosign("witness-a", &witness(), 1_785_556_000);
        let read = Note::parse(&note.to_text()).unwrap();
        assert_eq!(read.cosigned_at("witness-a", &key), Some(1_785_556_800));
        assert!(!read.is_signed_by("witness-a", &key), "a cosignature is no signature");
        let line = witness_line("witness-a", &key);
        assert_eq!(parse_key_line(&line), Some(("witness-a".to_owned(), key, true)));
        note.signatures[1].bytes[7] ^= 1;
        assert_eq!(note.cosigned_at("witness-a", &key), None, "another second");
    }

    #[test]
    fn a_signature_that_does_not_hold_spoils_the_one_that_does() {
        let (name, key, _) = parse_key_line(KEY).unwrap();
        let mut note = Note::parse(NOTE).unwrap();
        let mut second = note.signatures[0].clone();
        second.bytes[0] ^= 1;
        note.signatures.push(second);
        assert!(!note.is_signed_by(&name, &key));
    }

    #[test]
    fn other_forms_are_refused() {
        let without_end = NOTE.trim_end_matches('\n');
        for (text, error) in [
            ("text\n", NoteError::Form),
            ("text\n\n", NoteError::Form),
            (without_end, NoteError::Form),
            ("text\r\n\n— a AAAAAAA=\n", NoteError::Character),
            ("text\n\n- a AAAAAAA=\n", NoteError::Line { line: 1 }),
            ("text\n\n— a+b AAAAAAA=\n", NoteError::Line { line: 1 }),
            ("text\n\n— a AAAAAA==\n", NoteError::Line { line: 1 }),
            ("text\n\n— a AAAAAAA=\nmore\n", NoteError::Line { line: 2 }),
        ] {
            assert_eq!(Note::parse(text), Err(error), "{text:?}");
        }
        let many = format!("text\n\n{}", "— a AAAAAAA=\n".repeat(65));
        assert_eq!(Note::parse(&many), Err(NoteError::Long));
        assert_eq!(Note::parse(&"x".repeat(BYTES_MAX + 1)), Err(NoteError::Long));
        for line in [
            "a+00000000+AQ==",
            "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        ] {
            assert_eq!(parse_key_line(line), None);
        }
    }
}
