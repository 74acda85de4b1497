//! What a new node is given to join with: where the server is, how to know it, and a secret.
//!
//! A [`JoinString`] is one line that survives being copied: letters, digits, `-` and `_`, with a
//! version in front and a checksum at the end, so that one that was cut says so. Byte for byte:
//!
//! ```text
//! lwj1_ BASE64URL( trust | identity key (32) | addresses | token (24) | checksum (4) )
//! trust     = 0x01, SHA-256 of the certificate's public key (32) | 0x02
//! addresses = count (1) | each: length (1), bytes
//! checksum  = first 4 bytes of SHA-256(everything in front of it)
//! ```
//!
//! Whoever has the string can join a node, so neither it nor its token prints itself. Not here:
//! whether a token is still good (the server's store), and what an address leads to (`proto`).

mod base64url;

use std::fmt;

use crate::id::Hash;

const PREFIX: &str = "lwj";
const VERSION: &str = "1_";
const PIN: u8 = 1;
const WEB: u8 = 2;
const CHECKSUM_BYTES: usize = 4;
const ADDRESSES_MAX: usize = 8;
const ADDRESS_BYTES_MAX: usize = 200;
/// No join string is longer; nothing beyond is looked at.
const TEXT_BYTES_MAX: usize = 4_096;

/// Why a text is not a join string. None repeats any of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// It does not begin as one.
    #[error("a join string begins with lwj1_")]
    NotAJoinString,
    /// It is of a later version.
    #[error(
        "this join string is of a version that this program does not know; install a newer one"
    )]
    Version,
    /// It holds a character that no join string holds.
    #[error(
        "character {0} has no place in a join string; copy it again, without quotes and spaces"
    )]
    Character(usize),
    /// A piece is missing or was changed.
    #[error("the join string was cut or altered on the way; copy all of it again")]
    Damaged,
    /// It is whole and says something that cannot be.
    #[error("the join string is not well-formed: {0}")]
    Malformed(&'static str),
}

/// The secret that lets nodes join: 24 random bytes. It never prints itself.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken(pub [u8; JoinToken::BYTES]);

impl JoinToken {
    /// Length in bytes.
    pub const BYTES: usize = 24;

    /// What a server keeps of it.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Hash::of(&[b"leasewatch/join-token/v1\n".as_slice(), &self.0].concat())
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinToken(..)")
    }
}

/// How a server's certificate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsTrust {
    /// By the SHA-256 of its public key (SubjectPublicKeyInfo), whatever its name and dates.
    Pin(Hash),
    /// As browsers do: by name, dates and a public authority.
    Web,
}

/// Where a server is: `https://host`, `http://host`, each perhaps with a port, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinAddress(String);

impl JoinAddress {
    /// Checks form and length.
    ///
    /// # Errors
    /// [`JoinError::Malformed`].
    pub fn new(text: &str) -> Result<Self, JoinError> {
        let text = text.strip_suffix('/').unwrap_or(text);
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host =
            host.ok_or(JoinError::Malformed("an address begins with http:// or https://"))?;
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b);
        if host.is_empty() || !host.bytes().all(allowed) {
            return Err(JoinError::Malformed("an address is a host name and perhaps a port"));
        }
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(JoinError::Malformed("an address is too long"));
        }
        Ok(Self(text.to_owned()))
    }

    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Everything that a new node needs. Its `Debug` leaves the token out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinString {
    /// Where the server is, in the order in which to try; 1 to 8.
    addresses: Vec<JoinAddress>,
    /// The server's Ed25519 identity key.
    pub identity_key: [u8; 32],
    /// How its certificate is known, for addresses with `https`.
    pub trust: TlsTrust,
    /// The secret.
    pub token: JoinToken,
}

impl JoinString {
    /// Puts one together.
    ///
    /// # Errors
    /// [`JoinError::Malformed`] when there is no address, or more than 8.
    pub fn new(
        addresses: Vec<JoinAddress>,
        identity_key: [u8; 32],
        trust: TlsTrust,
        token: JoinToken,
    ) -> Result<Self, JoinError> {
        if !(1..=ADDRESSES_MAX).contains(&addresses.len()) {
            return Err(JoinError::Malformed("it must name 1 to 8 addresses"));
        }
        Ok(Self { addresses, identity_key, trust, token })
    }

    /// Where the server is, in the order in which to try; 1 to 8.
    #[must_use]
    pub fn addresses(&self) -> &[JoinAddress] {
        &self.addresses
    }

    /// The text, which is a secret.
    #[must_use]
    pub fn to_secret_text(&self) -> String {
        let mut bytes = Vec::new();
        match self.trust {
            TlsTrust::Pin(pin) => {
                bytes.push(PIN);
                bytes.extend_from_slice(&pin.0);
            }
            TlsTrust::Web => bytes.push(WEB),
        }
        bytes.extend_from_slice(&self.identity_key);
        // Both are bounded far below 256.
        bytes.push(u8::try_from(self.addresses.len()).unwrap_or(0));
        for address in &self.addresses {
            bytes.push(u8::try_from(address.0.len()).unwrap_or(0));
            bytes.extend_from_slice(address.0.as_bytes());
        }
        bytes.extend_from_slice(&self.token.0);
        let checksum = Hash::of(&bytes);
        bytes.extend_from_slice(&checksum.0[..CHECKSUM_BYTES]);
        format!("{PREFIX}{VERSION}{}", base64url::encode(&bytes))
    }

    /// Reads a text; white space around it is left out.
    ///
    /// # Errors
    /// [`JoinError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, JoinError> {
        let text = text.trim();
        let rest = text.strip_prefix(PREFIX).ok_or(JoinError::NotAJoinString)?;
        let Some(digits) = rest.strip_prefix(VERSION) else {
            let is_later = rest.split_once('_').is_some_and(|(version, _)| {
                !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit())
            });
            return Err(if is_later { JoinError::Version } else { JoinError::NotAJoinString });
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(JoinError::Malformed("it is too long"));
        }
        let offset = PREFIX.len() + VERSION.len() + 1;
        let bytes = match base64url::decode(digits) {
            Ok(bytes) => bytes,
            Err(base64url::DecodeError::Character(at)) => {
                return Err(JoinError::Character(offset + at));
            }
            Err(base64url::DecodeError::Length) => return Err(JoinError::Damaged),
        };
        let (content, checksum) =
            bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(JoinError::Damaged)?;
        if Hash::of(content).0[..CHECKSUM_BYTES] != *checksum {
            return Err(JoinError::Damaged);
        }
        Self::read(content)
    }

    fn read(mut bytes: &[u8]) -> Result<Self, JoinError> {
        let trust = match take::<1>(&mut bytes)? {
            [PIN] => TlsTrust::Pin(Hash(take(&mut bytes)?)),
            [WEB] => TlsTrust::Web,
            _ => return Err(JoinError::Malformed("it names no way to know the certificate")),
        };
        let identity_key = take(&mut bytes)?;
        let [count] = take::<1>(&mut bytes)?;
        let mut addresses = Vec::new();
        for _ in 0..count {
            let [length] = take::<1>(&mut bytes)?;
            let (address, rest) = bytes.split_at_checked(usize::from(length)).ok_or(TOO_SHORT)?;
            let text = std::str::from_utf8(address)
                .map_err(|_| JoinError::Malformed("an address is not text"))?;
            let address = JoinAddress::new(text)?;
            if address.as_str() != text {
                return Err(JoinError::Malformed("an address ends with a slash"));
            }
            addresses.push(address);
            bytes = rest;
        }
        let token = JoinToken(take(&mut bytes)?);
        if !bytes.is_empty() {
            return Err(JoinError::Malformed("something follows the token"));
        }
        Self::new(addresses, identity_key, trust, token)
    }
}

const TOO_SHORT: JoinError = JoinError::Malformed("it ends too early");

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], JoinError> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(TOO_SHORT)?;
    *bytes = rest;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn join() -> JoinString {
        let address = |text| JoinAddress::new(text).unwrap();
        JoinString::new(
            vec![address("https://203.0.113.7:7443"), address("https://watch.example.org")],
            [7; 32],
            TlsTrust::Pin(Hash([8; 32])),
            JoinToken([9; 24]),
        )
        .unwrap()
    }

    /// A string that was handed out must be read for ever.
    #[test]
    fn the_form_is_fixed() {
        let text = "lwj1_AQgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIBwcHBwcHBwcHBwcHBwcHBwcHBw\
                    cHBwcHBwcHBwcHBwcCGGh0dHBzOi8vMjAzLjAuMTEzLjc6NzQ0MxlodHRwczovL3dhdGNoLmV4Y\
                    W1wbGUub3JnCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJ";
        let made = join().to_secret_text();
        assert!(made.starts_with(text), "{made}");
        // The checksum behind it.
        assert_eq!(made.len(), text.len() + 6);
        assert_eq!(JoinString::parse(&made), Ok(join()));
        assert_eq!(JoinString::parse(&format!("  {made}\n")), Ok(join()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = join().to_secret_text();
        let problem = |text: &str| JoinString::parse(text).unwrap_err();
        assert_eq!(problem(""), JoinError::NotAJoinString);
        assert_eq!(problem("https://203.0.113.7"), JoinError::NotAJoinString);
        assert_eq!(problem("lwj_x"), JoinError::NotAJoinString);
        assert_eq!(problem(&text.replace("lwj1_", "lwj2_")), JoinError::Version);
        assert_eq!(problem(&format!("{text}\"")), JoinError::Character(text.len() + 1));
        assert_eq!(problem(&text.replacen("AQgI", "AQ I", 1)), JoinError::Character(8));
        assert_eq!(problem(&text[..text.len() - 1]), JoinError::Damaged);
        assert_eq!(problem(&"lwj1_".repeat(2)), JoinError::Damaged);
        assert_eq!(
            problem(&format!("lwj1_{}", "A".repeat(5_000))),
            JoinError::Malformed("it is too long")
        );
    }

    #[test]
    fn the_token_prints_nowhere() {
        let shown = format!("{:?} {:?}", join(), join().token);
        assert!(shown.contains("JoinToken(..)") && !shown.contains("9, 9"), "{shown}");
    }

    #[test]
    fn addresses_are_a_host_and_perhaps_a_port() {
        for good in ["http://127.0.0.1:7443", "https://[2001:db8::1]:7443", "https://a.example/"] {
            assert!(JoinAddress::new(good).is_ok(), "{good}");
        }
        let long = format!("https://{}", "a".repeat(200));
        for bad in ["", "https://", "ftp://a", "https://a/b", "https://u@a", "https://a b", &long] {
            assert!(JoinAddress::new(bad).is_err(), "{bad}");
        }
    }

    fn any_join() -> impl Strategy<Value = JoinString> {
        let host = "[a-z0-9.-]{1,60}(:[0-9]{1,5})?";
        let address = (any::<bool>(), host)
            .prop_map(|(tls, host)| format!("http{}://{host}", if tls { "s" } else { "" }));
        let trust = prop_oneof![
            Just(TlsTrust::Web),
            any::<[u8; 32]>().prop_map(|pin| TlsTrust::Pin(Hash(pin)))
        ];
        let addresses = proptest::collection::vec(address, 1..=8);
        (addresses, any::<[u8; 32]>(), trust, any::<[u8; 24]>()).prop_map(
            |(addresses, key, trust, token)| {
                let addresses = addresses.iter().map(|text| JoinAddress::new(text).unwrap());
                JoinString::new(addresses.collect(), key, trust, JoinToken(token)).unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn each_string_is_read_as_it_was_made(join in any_join()) {
            prop_assert_eq!(JoinString::parse(&join.to_secret_text()), Ok(join));
        }

        #[test]
        fn one_wrong_character_is_noticed(join in any_join(), at in any::<prop::sample::Index>(), other in "[A-Za-z0-9_-]") {
            let mut text = join.to_secret_text();
            let at = at.index(text.len());
            prop_assume!(text[at..=at] != other);
            text.replace_range(at..=at, &other);
            prop_assert!(JoinString::parse(&text).is_err());
        }

        #[test]
        fn a_cut_string_is_no_string(join in any_join(), length in any::<prop::sample::Index>()) {
            let text = join.to_secret_text();
            prop_assert!(JoinString::parse(&text[..length.index(text.len())]).is_err());
        }

        #[test]
        fn any_text_is_answered(text in "(lwj1_)?.{0,300}") {
            let _ = JoinString::parse(&text);
        }

        /// Whole, with a good checksum, and anything inside: read, or refused with a reason.
        #[test]
        fn any_content_is_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = content.clone();
            bytes.extend_from_slice(&Hash::of(&content).0[..4]);
            if let Ok(join) = JoinString::parse(&format!("lwj1_{}", base64url::encode(&bytes))) {
                prop_assert_eq!(JoinString::read(&content), Ok(join));
            }
        }
    }
}
