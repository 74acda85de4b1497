//! What opens something once or for a while: cookies of sessions, tokens, one-time links.
//!
//! 32 random bytes, shown as 64 hex digits and stored as their SHA-256: with that much randomness
//! a slow hash adds nothing. Not here: passwords, which people choose (`password`).

use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

/// What the text of a program's token begins with, so that one that is found where it does not
/// belong can be told from other secrets.
pub const TOKEN_PREFIX: &str = "lw_";

/// A secret. It prints itself only where [`Secret::text`] is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// The system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no random bytes for a secret")]
pub struct NoRandom;

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// [`NoRandom`].
    pub fn random() -> Result<Self, NoRandom> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| NoRandom)?;
        Ok(Self(bytes))
    }

    /// Reads 64 hex digits, small ones; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// The 64 digits, for whom it is made.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// What is stored, and looked for.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_shown_and_never_prints_itself() {
        let secret = Secret::random().unwrap();
        let text = secret.text();
        assert_eq!(Secret::parse(&text), Some(secret.clone()));
        assert_ne!(Secret::random().unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        let other = text.to_uppercase();
        for wrong in ["", &text[1..], &format!("{text}0"), &format!("+{}", &text[1..])] {
            assert_eq!(Secret::parse(wrong), None, "{wrong}");
        }
        assert!(other == text || Secret::parse(&other).is_none());
        // SHA-256 of 32 zero bytes, as `sha256sum` says.
        let zeros: String =
            Secret([0; 32]).hash().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(zeros, "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
    }
}
