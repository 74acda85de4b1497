//! Checkpoints: a log's name, how many leaves it has, and the root over them (C2SP
//! `tlog-checkpoint`).

use ed25519_dalek::{SigningKey, VerifyingKey};

use super::base64;
use super::note::{Note, NoteError};
use crate::evidence::chain::Checkpoint;
use crate::id::{Hash, Slug};

/// The name of a log: `leasewatch/<server>/<tenant>/<provider>`, the server by the first 16 hex
/// digits of its first identity key's id. It is also the name that the identity key signs by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogOrigin(String);

/// Why a note is no checkpoint of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// No note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The text is not origin, size and root.
    #[error("a checkpoint is three lines: the log, its size, its root")]
    Form,
    /// It is of another log.
    #[error("the checkpoint is of another log")]
    Origin,
    /// The log's key did not sign it.
    #[error("the checkpoint is not signed by the log's key")]
    Signature,
}

impl LogOrigin {
    /// The log of a tenant's nodes at a provider. Successors after a restore count from 2.
    #[must_use]
    pub fn new(server: &str, tenant: &Slug, provider: &Slug, generation: u32) -> Option<Self> {
        let is_server = server.len() == 16 && server.bytes().all(|b| b.is_ascii_hexdigit());
        let origin = format!("leasewatch/{server}/{tenant}/{provider}");
        let origin = if generation > 1 { format!("{origin}/{generation}") } else { origin };
        (is_server && generation > 0).then_some(Self(origin))
    }

    /// Any name that a note can carry; `None` for one with white space, `+` or control characters,
    /// or of more than 200 bytes.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let fits = (1..=200).contains(&text.len());
        let is_name = !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '+');
        (fits && is_name).then(|| Self(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The signed note of a state of a log.
#[must_use]
pub fn sign(origin: &LogOrigin, state: Checkpoint, key: &SigningKey) -> Note {
    let root = base64::encode(&state.root.0);
    let text = format!("{}\n{}\n{root}\n", origin.0, state.size);
    let mut note = Note { text, signatures: Vec::new() };
    note.sign(origin.as_str(), key);
    note
}

/// What a note says, if the log's key signed it.
///
/// # Errors
/// [`CheckpointError`].
pub fn open(
    note: &Note,
    origin: &LogOrigin,
    key: &VerifyingKey,
) -> Result<Checkpoint, CheckpointError> {
    let (named, state) = read(note)?;
    if named != *origin {
        return Err(CheckpointError::Origin);
    }
    if !note.is_signed_by(origin.as_str(), key) {
        return Err(CheckpointError::Signature);
    }
    Ok(state)
}

/// What a note says, whoever signed it. Lines under the root are not ours and are refused.
///
/// # Errors
/// [`CheckpointError::Form`].
pub fn read(note: &Note) -> Result<(LogOrigin, Checkpoint), CheckpointError> {
    let mut lines = note.text.split('\n');
    let mut line = || lines.next().ok_or(CheckpointError::Form);
    let (origin, size, root, end) = (line()?, line()?, line()?, line()?);
    let is_decimal =
        size.bytes().all(|b| b.is_ascii_digit()) && (size == "0" || !size.starts_with('0'));
    let size = size.parse().ok().filter(|_| is_decimal).ok_or(CheckpointError::Form)?;
    let root = base64::decode(root).and_then(|root| root.try_into().ok());
    let state = Checkpoint { size, root: Hash(root.ok_or(CheckpointError::Form)?) };
    let origin = LogOrigin::from_text(origin).ok_or(CheckpointError::Form)?;
    if end.is_empty() && lines.next().is_none() {
        Ok((origin, state))
    } else {
        Err(CheckpointError::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::log::tree::empty_root;

    fn origin(generation: u32) -> LogOrigin {
        let slug = |text| Slug::new(text).unwrap();
        LogOrigin::new("0123456789abcdef", &slug("tenant-a"), &slug("provider-a"), generation)
            .unwrap()
    }

    fn key() -> SigningKey {
        SigningKey::from_bytes(&[1; 32])
    }

    #[test]
    fn what_was_signed_is_read_and_nothing_else() {
        let state = Checkpoint { size: 20_852_163, root: Hash([9; 32]) };
        let note = sign(&origin(1), state, &key());
        let read = Note::parse(&note.to_text()).unwrap();
        let public = key().verifying_key();
        assert_eq!(open(&read, &origin(1), &public), Ok(state));
        assert_eq!(open(&read, &origin(2), &public), Err(CheckpointError::Origin));
        let other = SigningKey::from_bytes(&[2; 32]).verifying_key();
        assert_eq!(open(&read, &origin(1), &other), Err(CheckpointError::Signature));
        let larger = read.to_text().replace("20852163", "20852164");
        let larger = Note::parse(&larger).unwrap();
        assert_eq!(open(&larger, &origin(1), &public), Err(CheckpointError::Signature));
    }

    #[test]
    fn other_texts_are_no_checkpoints() {
        let root = base64::encode(&empty_root().0);
        let mut note = sign(&origin(1), Checkpoint { size: 0, root: empty_root() }, &key());
        assert!(read(&note).is_ok());
        for text in [
            format!("a b\n0\n{root}\n"),
            format!("a\n00\n{root}\n"),
            format!("a\n+1\n{root}\n"),
            format!("a\n\n{root}\n"),
            format!("a\n99999999999999999999\n{root}\n"),
            format!("a\n0\n{root}"),
            format!("a\n0\n{root}\nmore\n"),
            "a\n0\nAAAA\n".to_owned(),
            "a\n0\n".to_owned(),
        ] {
            note.text = text;
            assert_eq!(read(&note), Err(CheckpointError::Form), "{:?}", note.text);
        }
    }

    #[test]
    fn a_published_checkpoint_is_read() {
        // The example of C2SP's tlog-checkpoint.
        let text = "example.com/behind-the-sofa\n20852163\n\
            CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
            — example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";
        let (origin, state) = read(&Note::parse(text).unwrap()).unwrap();
        assert_eq!((origin.as_str(), state.size), ("example.com/behind-the-sofa", 20_852_163));
    }
}
