//! Names of things, each with its own type and its own bounds.
//!
//! Every string that a node sends is hostile. A type of this module can only be built from text
//! that is short, printable ASCII (or bounded text without control characters), so nothing behind
//! this line has to ask again. Internal database keys are not here: they never leave the server.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// Why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text has the wrong length.
    #[error("{what} must have {expected}, got {got} bytes")]
    Length {
        /// Name of the id type.
        what: &'static str,
        /// The lengths that are allowed, in words.
        expected: &'static str,
        /// The length found, in bytes.
        got: usize,
    },
    /// The text holds a character that this id type does not allow.
    #[error("{what} holds a character that is not allowed at byte {at}")]
    Character {
        /// Name of the id type.
        what: &'static str,
        /// Byte offset of the first such character.
        at: usize,
    },
}

macro_rules! bytes_id {
    ($(#[$doc:meta])* $name:ident, $len:literal, $what:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let mut bytes = [0; $len];
                decode_hex(text, &mut bytes, $what, $expected)?;
                Ok(Self(bytes))
            }
        }
    };
}

bytes_id!(
    /// SHA-256 of a node's Ed25519 public key; lower-case hex in text.
    KeyId, 32, "key id", "64 hex digits"
);
bytes_id!(
    /// A node's public id: the first 16 bytes of the [`KeyId`] it first joined with. It stays the
    /// same when the key is rotated.
    NodeId, 16, "node id", "32 hex digits"
);
bytes_id!(
    /// One hash chain of heads: random, made when a node has no (or lost its) delivery state.
    ChainId, 16, "chain id", "32 hex digits"
);
bytes_id!(
    /// One run of the agent: random, made at its start.
    EpochId, 8, "epoch id", "16 hex digits"
);
bytes_id!(
    /// The stretch of life that readings of counters and gaps belong to: a boot of a host, or one
    /// life of a container (hash of PID 1's start time and the host name).
    LifeUnitId, 16, "life unit id", "32 hex digits"
);
bytes_id!(
    /// A SHA-256 digest.
    Hash, 32, "hash", "64 hex digits"
);

impl Hash {
    /// SHA-256 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl KeyId {
    /// The id of an Ed25519 public key (32 bytes, as in RFC 8032).
    #[must_use]
    pub fn of_public_key(key: &[u8; 32]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// The node id of a node that joins with this key for the first time.
    #[must_use]
    pub fn first_node_id(&self) -> NodeId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0[..16]);
        NodeId(id)
    }
}

fn decode_hex(
    text: &str,
    out: &mut [u8],
    what: &'static str,
    expected: &'static str,
) -> Result<(), IdError> {
    let digits = text.as_bytes();
    if digits.len() != out.len() * 2 {
        return Err(IdError::Length { what, expected, got: digits.len() });
    }
    for (at, digit) in digits.iter().enumerate() {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return Err(IdError::Character { what, at }),
        };
        out[at / 2] = out[at / 2] << 4 | value;
    }
    Ok(())
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $expected:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks length and characters.
            ///
            /// # Errors
            /// [`IdError`] names what is wrong; the text itself is not repeated.
            pub fn new(text: &str) -> Result<Self, IdError> {
                if text.is_empty() || text.len() > $max {
                    return Err(IdError::Length { what: $what, expected: $expected, got: text.len() });
                }
                let allowed: fn(u8) -> bool = $allowed;
                match text.bytes().position(|b| !allowed(b)) {
                    Some(at) => Err(IdError::Character { what: $what, at }),
                    None => Ok(Self(text.to_owned())),
                }
            }

            /// The text, known to be valid.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }
    };
}

text_id!(
    /// The public name of a tenant or a provider in URLs and statements: `[a-z0-9-]`, at most 40.
    Slug, "slug", 40, "1 to 40 characters of a-z, 0-9 and -",
    |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
);
text_id!(
    /// NVML's UUID of a GPU, as NVML prints it (`GPU-...`), or `imported-...` where an imported log
    /// names none. At most 96 characters of `[A-Za-z0-9-]`.
    GpuUuid, "gpu uuid", 96, "1 to 96 characters of A-Z, a-z, 0-9 and -",
    |b| b.is_ascii_alphanumeric() || b == b'-'
);
text_id!(
    /// The place a GPU sits in: its PCI bus id as NVML prints it (`00000000:18:00.0`), at most 32
    /// characters of `[A-Za-z0-9:.-]`.
    BusId, "bus id", 32, "1 to 32 characters of A-Z, a-z, 0-9, :, . and -",
    |b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'.' | b'-')
);

/// The position of a segment in its chain: 1, 2, 3 .. without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The first sequence of a chain.
    pub const FIRST: Self = Self(1);

    /// The sequence after this one; `None` at the end of the number range.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of a slot within its node, 0 .. n-1, bound to a [`BusId`] at first sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotNo(pub u16);

/// Cuts text from a node to `max` characters and drops what could act on a terminal or turn the
/// reading direction (controls, bidirectional marks), so that it is safe to store and to show.
#[must_use]
pub fn clean_text(text: &str, max: usize) -> String {
    text.chars().filter(|c| !is_active(*c)).take(max).collect()
}

fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_ids_round_trip_and_refuse_other_spellings() {
        let id = NodeId(*b"0123456789abcdef");
        assert_eq!(id.to_string().parse::<NodeId>(), Ok(id));
        assert!(
            id.to_string().to_uppercase().parse::<NodeId>().is_ok_and(|other| other == id)
                == id.to_string().bytes().all(|b| b.is_ascii_digit())
        );
        assert!("00".parse::<NodeId>().is_err());
        assert!("zz".repeat(16).parse::<NodeId>().is_err());
    }

    #[test]
    fn text_ids_are_bounded() {
        assert!(GpuUuid::new("GPU-1e6f").is_ok());
        assert!(GpuUuid::new("").is_err());
        assert!(GpuUuid::new(&"a".repeat(97)).is_err());
        assert_eq!(GpuUuid::new("GPU\n"), Err(IdError::Character { what: "gpu uuid", at: 3 }));
        assert!(Slug::new("Tenant").is_err());
        assert!(BusId::new("00000000:18:00.0").is_ok());
    }

    #[test]
    fn text_from_a_node_is_made_inert() {
        assert_eq!(clean_text("NVIDIA\u{202e} H\u{7}100\u{1b}[31m", 40), "NVIDIA H100[31m");
        assert_eq!(clean_text("長長長長", 2), "長長");
    }
}
