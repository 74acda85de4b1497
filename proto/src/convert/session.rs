//! The handshake and the clock probes.
//!
//! Both signatures of the handshake stand over the hello's **transcript**, which is defined here
//! and not by Protocol Buffers: the encoded bytes of a message may differ between implementations.
//! Each field of the hello, in the order of the .proto, as a big-endian 32-bit length and its
//! bytes; numbers are eight big-endian bytes. The first field is the text `leasewatch/hello/v1`.

use leasewatch_core::delivery::{self, ClockEstimate, Cursor, TimeExchange};
use leasewatch_core::evidence::identity::{self, ROTATIONS_MAX, SignedStatement};
use leasewatch_core::id::{ChainId, EpochId, Hash, LifeUnitId, NodeId, Sequence, Slug, clean_text};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Timestamp;

use super::{ConvertError, PROTOCOL_VERSION, at_most, exactly, sequence, slug, timestamp};
use crate::v1;

/// Bounds of texts in a hello, in bytes.
const NAME_BYTES: usize = 128;
const VERSION_BYTES: usize = 64;
/// Bounds of what a welcome may ask for, in milliseconds.
const CADENCE_MS: std::ops::RangeInclusive<u32> = 100..=3_600_000;

/// Who opens a stream, and where its chain stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented in telemetry.proto")]
pub struct Hello {
    pub public_key: [u8; 32],
    pub client_nonce: [u8; 32],
    pub chain: ChainId,
    pub epoch: EpochId,
    pub life_unit: LifeUnitId,
    /// `None`: the agent holds no segment.
    pub oldest: Option<Sequence>,
    /// `None`: the agent has sealed none.
    pub newest: Option<Sequence>,
    pub tenant: Slug,
    pub provider: Slug,
    pub node_name: String,
    pub origin: Origin,
    pub agent_version: String,
}

/// The server's proof.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented in telemetry.proto")]
pub struct Challenge {
    pub server_nonce: [u8; 32],
    pub identity_key: [u8; 32],
    pub signature: [u8; 64],
    /// Nothing about them is checked but their number and length.
    pub rotations: Vec<SignedStatement>,
}

/// What the server says when the stream is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented in telemetry.proto")]
pub struct Welcome {
    pub node: NodeId,
    pub tenant: Slug,
    pub cursor: Cursor,
    pub cadence_ms: u32,
    pub live_interval_ms: u32,
    pub server_time: Timestamp,
    pub recorded_until: Option<Timestamp>,
    pub window_bytes: u32,
    pub start_wanted: bool,
    /// 0: the server does not count.
    pub session: u64,
}

/// Asks for the agent's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented in telemetry.proto")]
pub struct TimeProbe {
    pub id: u32,
    pub server_sent_ms: i64,
}

/// The agent's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented in telemetry.proto")]
pub struct TimeEcho {
    pub id: u32,
    pub server_sent_ms: i64,
    pub agent_received_ms: i64,
    pub agent_sent_ms: i64,
}

impl Hello {
    /// Reads a hello.
    ///
    /// # Errors
    /// [`ConvertError::Protocol`] first, so that an agent of another version learns which range is
    /// supported; then the first field that is out of bounds.
    pub fn from_wire(wire: &v1::Hello) -> Result<Self, ConvertError> {
        if wire.protocol != PROTOCOL_VERSION {
            return Err(ConvertError::Protocol { got: wire.protocol });
        }
        Ok(Self {
            public_key: exactly("public_key", &wire.public_key)?,
            client_nonce: exactly("client_nonce", &wire.client_nonce)?,
            chain: ChainId(exactly("chain", &wire.chain)?),
            epoch: EpochId(exactly("epoch", &wire.epoch)?),
            life_unit: LifeUnitId(exactly("life_unit", &wire.life_unit)?),
            oldest: sequence(wire.oldest_sequence),
            newest: sequence(wire.newest_sequence),
            tenant: slug("tenant", &wire.tenant)?,
            provider: slug("provider", &wire.provider)?,
            node_name: inert("node_name", &wire.node_name, NAME_BYTES)?,
            origin: Origin::from_name(&wire.origin)
                .ok_or(ConvertError::Range { field: "origin" })?,
            agent_version: inert("agent_version", &wire.agent_version, VERSION_BYTES)?,
        })
    }

    /// The message.
    #[must_use]
    pub fn to_wire(&self) -> v1::Hello {
        v1::Hello {
            protocol: PROTOCOL_VERSION,
            public_key: self.public_key.to_vec(),
            client_nonce: self.client_nonce.to_vec(),
            chain: self.chain.0.to_vec(),
            epoch: self.epoch.0.to_vec(),
            life_unit: self.life_unit.0.to_vec(),
            oldest_sequence: self.oldest.map_or(0, |sequence| sequence.0),
            newest_sequence: self.newest.map_or(0, |sequence| sequence.0),
            tenant: self.tenant.as_str().to_owned(),
            provider: self.provider.as_str().to_owned(),
            node_name: self.node_name.clone(),
            origin: self.origin.name().to_owned(),
            agent_version: self.agent_version.clone(),
        }
    }

    /// The transcript that both signatures stand over (its form: the module's documentation).
    #[must_use]
    pub fn transcript(&self) -> Vec<u8> {
        let number = |sequence: Option<Sequence>| sequence.map_or(0, |s| s.0).to_be_bytes();
        let fields: [&[u8]; 14] = [
            b"leasewatch/hello/v1",
            &u64::from(PROTOCOL_VERSION).to_be_bytes(),
            &self.public_key,
            &self.client_nonce,
            &self.chain.0,
            &self.epoch.0,
            &self.life_unit.0,
            &number(self.oldest),
            &number(self.newest),
            self.tenant.as_str().as_bytes(),
            self.provider.as_str().as_bytes(),
            self.node_name.as_bytes(),
            self.origin.name().as_bytes(),
            self.agent_version.as_bytes(),
        ];
        let mut transcript = Vec::with_capacity(512);
        for field in fields {
            // Every field is bounded far below 2^32.
            let length = u32::try_from(field.len()).unwrap_or(u32::MAX);
            transcript.extend_from_slice(&length.to_be_bytes());
            transcript.extend_from_slice(field);
        }
        transcript
    }

    /// SHA-256 of the transcript.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Hash::of(&self.transcript())
    }

    /// What the server signs with its identity key.
    #[must_use]
    pub fn challenge_message(&self, server_nonce: &[u8; 32]) -> Vec<u8> {
        let prefix = b"leasewatch/session/v1\n".as_slice();
        [prefix, &self.client_nonce, server_nonce, &self.hash().0].concat()
    }
}

impl Challenge {
    /// Reads a challenge.
    ///
    /// # Errors
    /// [`ConvertError::Length`] and [`ConvertError::TooLong`].
    pub fn from_wire(wire: &v1::Challenge) -> Result<Self, ConvertError> {
        Ok(Self {
            server_nonce: exactly("server_nonce", &wire.server_nonce)?,
            identity_key: exactly("identity_key", &wire.identity_key)?,
            signature: exactly("signature", &wire.signature)?,
            rotations: {
                at_most("rotations", wire.rotations.len(), ROTATIONS_MAX)?;
                wire.rotations.iter().map(statement_from_wire).collect::<Result<_, _>>()?
            },
        })
    }

    /// The message.
    #[must_use]
    pub fn to_wire(&self) -> v1::Challenge {
        v1::Challenge {
            server_nonce: self.server_nonce.to_vec(),
            identity_key: self.identity_key.to_vec(),
            signature: self.signature.to_vec(),
            rotations: self.rotations.iter().map(statement_to_wire).collect(),
        }
    }
}

/// Reads a signed statement; what it says, and whether the signature holds, is not looked at.
///
/// # Errors
/// [`ConvertError::Length`] and [`ConvertError::TooLong`].
pub fn statement_from_wire(wire: &v1::SignedStatement) -> Result<SignedStatement, ConvertError> {
    at_most("statement", wire.statement.len(), identity::BYTES_MAX)?;
    Ok(SignedStatement {
        statement: wire.statement.clone(),
        signature: exactly("signature", &wire.signature)?,
    })
}

/// The message.
#[must_use]
pub fn statement_to_wire(signed: &SignedStatement) -> v1::SignedStatement {
    v1::SignedStatement {
        statement: signed.statement.clone(),
        signature: signed.signature.to_vec(),
    }
}

impl Welcome {
    /// Reads a welcome.
    ///
    /// # Errors
    /// [`ConvertError`], also when a cursor above 0 comes without the head's hash or the reverse, or
    /// with the wish for the chain's start.
    pub fn from_wire(wire: &v1::Welcome) -> Result<Self, ConvertError> {
        let head = match wire.cursor_head.len() {
            0 => None,
            _ => Some(Hash(exactly("cursor_head", &wire.cursor_head)?)),
        };
        if head.is_some() != (wire.cursor > 0) {
            return Err(ConvertError::Range { field: "cursor_head" });
        }
        if wire.start_wanted && wire.cursor > 0 {
            return Err(ConvertError::Range { field: "start_wanted" });
        }
        if !CADENCE_MS.contains(&wire.cadence_ms) {
            return Err(ConvertError::Range { field: "cadence_ms" });
        }
        Ok(Self {
            node: wire.node.parse().map_err(|source| ConvertError::Id { field: "node", source })?,
            tenant: slug("tenant", &wire.tenant)?,
            cursor: Cursor { sequence: Sequence(wire.cursor), head },
            cadence_ms: wire.cadence_ms,
            live_interval_ms: super::live::interval(wire.live_interval_ms)?,
            server_time: timestamp("server_time_ms", wire.server_time_ms)?,
            recorded_until: match wire.recorded_until_ms {
                0 => None,
                ms => Some(timestamp("recorded_until_ms", ms)?),
            },
            window_bytes: wire.window_bytes,
            start_wanted: wire.start_wanted,
            session: wire.session,
        })
    }

    /// The message.
    #[must_use]
    pub fn to_wire(&self) -> v1::Welcome {
        v1::Welcome {
            node: self.node.to_string(),
            tenant: self.tenant.as_str().to_owned(),
            cursor: self.cursor.sequence.0,
            cursor_head: self.cursor.head.map_or_else(Vec::new, |head| head.0.to_vec()),
            cadence_ms: self.cadence_ms,
            live_interval_ms: self.live_interval_ms,
            server_time_ms: self.server_time.0,
            recorded_until_ms: self.recorded_until.map_or(0, |at| at.0),
            window_bytes: self.window_bytes,
            start_wanted: self.start_wanted,
            session: self.session,
        }
    }

    /// The part that decides about delivery.
    #[must_use]
    pub fn delivery(&self) -> delivery::Welcome {
        delivery::Welcome {
            cursor: self.cursor.sequence,
            cursor_head: self.cursor.head,
            start_wanted: self.start_wanted,
            window_bytes: u64::from(self.window_bytes),
        }
    }
}

impl TimeProbe {
    /// Reads a probe; every number is allowed.
    #[must_use]
    pub fn from_wire(wire: &v1::TimeProbe) -> Self {
        Self { id: wire.id, server_sent_ms: wire.server_sent_ms }
    }

    /// The message.
    #[must_use]
    pub fn to_wire(self) -> v1::TimeProbe {
        v1::TimeProbe { id: self.id, server_sent_ms: self.server_sent_ms }
    }
}

impl TimeEcho {
    /// Reads an echo; every number is allowed, and contradictions are for the clock filter.
    #[must_use]
    pub fn from_wire(wire: &v1::TimeEcho) -> Self {
        Self {
            id: wire.id,
            server_sent_ms: wire.server_sent_ms,
            agent_received_ms: wire.agent_received_ms,
            agent_sent_ms: wire.agent_sent_ms,
        }
    }

    /// The message.
    #[must_use]
    pub fn to_wire(self) -> v1::TimeEcho {
        v1::TimeEcho {
            id: self.id,
            server_sent_ms: self.server_sent_ms,
            agent_received_ms: self.agent_received_ms,
            agent_sent_ms: self.agent_sent_ms,
        }
    }

    /// The whole exchange. `server_sent_ms` must come from the server's own note of probe `id`,
    /// not from the echo: a node must not be able to choose it.
    #[must_use]
    pub fn exchange(self, server_sent_ms: i64, server_received_ms: i64) -> TimeExchange {
        TimeExchange {
            server_sent_ms,
            agent_received_ms: self.agent_received_ms,
            agent_sent_ms: self.agent_sent_ms,
            server_received_ms,
        }
    }
}

/// Largest offset or bound that a statement can hold, in milliseconds.
const STATED_MS: i64 = (1 << 53) - 1;

/// What the server knows of the agent's clock; `None` when it cannot be stated in a head.
#[must_use]
pub fn estimate_from_wire(wire: &v1::TimeEstimate) -> Option<ClockEstimate> {
    let v1::TimeEstimate { offset_ms, bound_ms } = *wire;
    let is_stated =
        (-STATED_MS..=STATED_MS).contains(&offset_ms) && (0..=STATED_MS).contains(&bound_ms);
    is_stated.then_some(ClockEstimate { offset_ms, bound_ms })
}

/// A text that is signed over must arrive as it was signed, so an unclean one is refused, not
/// cleaned.
fn inert(field: &'static str, text: &str, max: usize) -> Result<String, ConvertError> {
    at_most(field, text.len(), max)?;
    if text.is_empty() || clean_text(text, max) != text {
        return Err(ConvertError::Text { field });
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            public_key: [1; 32],
            client_nonce: [2; 32],
            chain: ChainId([3; 16]),
            epoch: EpochId([4; 8]),
            life_unit: LifeUnitId([5; 16]),
            oldest: None,
            newest: Some(Sequence(0x0102)),
            tenant: Slug::new("default").unwrap(),
            provider: Slug::new("demo").unwrap(),
            node_name: "gpu-1".to_owned(),
            origin: Origin::Simulated,
            agent_version: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn a_hello_survives_the_wire() {
        let hello = hello();
        assert_eq!(Hello::from_wire(&hello.to_wire()), Ok(hello));
    }

    /// The transcript is part of the protocol: this vector must never change.
    #[test]
    fn the_transcript_is_fixed() {
        let transcript = hello().transcript();
        let mut expected = Vec::new();
        expected.extend_from_slice(b"\x00\x00\x00\x13leasewatch/hello/v1");
        expected.extend_from_slice(b"\x00\x00\x00\x08\0\0\0\0\0\0\0\x01");
        for (length, byte) in [(32_u8, 1_u8), (32, 2), (16, 3), (8, 4), (16, 5)] {
            expected.extend_from_slice(&[0, 0, 0, length]);
            expected.extend(std::iter::repeat_n(byte, usize::from(length)));
        }
        expected.extend_from_slice(b"\x00\x00\x00\x08\0\0\0\0\0\0\0\0");
        expected.extend_from_slice(b"\x00\x00\x00\x08\0\0\0\0\0\0\x01\x02");
        expected.extend_from_slice(b"\x00\x00\x00\x07default\x00\x00\x00\x04demo");
        expected.extend_from_slice(b"\x00\x00\x00\x05gpu-1\x00\x00\x00\x09simulated");
        expected.extend_from_slice(b"\x00\x00\x00\x050.1.0");
        assert_eq!(transcript, expected);
    }

    #[test]
    fn every_field_of_a_hello_is_in_its_hash() {
        let changes: [fn(&mut Hello); 12] = [
            |h| h.public_key[31] ^= 1,
            |h| h.client_nonce[0] ^= 1,
            |h| h.chain.0[0] ^= 1,
            |h| h.epoch.0[0] ^= 1,
            |h| h.life_unit.0[0] ^= 1,
            |h| h.oldest = Some(Sequence(1)),
            |h| h.newest = None,
            |h| h.tenant = Slug::new("defaul").unwrap(),
            |h| h.provider = Slug::new("demo2").unwrap(),
            |h| h.node_name.push('x'),
            |h| h.origin = Origin::Measured,
            |h| h.agent_version.push('x'),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut other = hello();
            change(&mut other);
            assert_ne!(other.hash(), hello().hash(), "change {index}");
        }
    }

    #[test]
    fn hostile_hellos_are_refused_with_a_code() {
        let refused = |change: fn(&mut v1::Hello)| {
            let mut wire = hello().to_wire();
            change(&mut wire);
            Hello::from_wire(&wire).map_err(|error| error.code())
        };
        assert_eq!(refused(|h| h.protocol = 0), Err("unsupported_protocol"));
        assert_eq!(refused(|h| h.protocol = 999), Err("unsupported_protocol"));
        assert_eq!(refused(|h| h.public_key.truncate(31)), Err("bad_length"));
        assert_eq!(refused(|h| h.chain = vec![0; 1 << 20]), Err("bad_length"));
        assert_eq!(refused(|h| h.tenant = "../x".to_owned()), Err("bad_id"));
        assert_eq!(refused(|h| h.node_name = "x".repeat(129)), Err("too_long"));
        assert_eq!(refused(|h| h.node_name = "a\u{202e}b".to_owned()), Err("bad_text"));
        assert_eq!(refused(|h| h.node_name.clear()), Err("bad_text"));
        assert_eq!(refused(|h| h.origin = "real".to_owned()), Err("out_of_range"));
    }

    #[test]
    fn an_estimate_that_no_head_can_state_is_none() {
        let read =
            |offset_ms, bound_ms| estimate_from_wire(&v1::TimeEstimate { offset_ms, bound_ms });
        assert_eq!(read(-5, 2), Some(ClockEstimate { offset_ms: -5, bound_ms: 2 }));
        assert_eq!(read(i64::MIN, 2), None);
        assert_eq!(read(0, -1), None);
        assert_eq!(read(0, i64::MAX), None);
    }

    #[test]
    fn a_challenge_survives_the_wire_and_its_rotations_are_bounded() {
        let rotation = SignedStatement { statement: b"{}".to_vec(), signature: [5; 64] };
        let challenge = Challenge {
            server_nonce: [1; 32],
            identity_key: [2; 32],
            signature: [3; 64],
            rotations: vec![rotation; ROTATIONS_MAX],
        };
        let wire = challenge.to_wire();
        assert_eq!(Challenge::from_wire(&wire), Ok(challenge));
        let refused = |change: fn(&mut v1::Challenge)| {
            let mut wire = wire.clone();
            change(&mut wire);
            Challenge::from_wire(&wire).map_err(|error| error.code())
        };
        assert_eq!(refused(|c| c.rotations.push(c.rotations[0].clone())), Err("too_long"));
        assert_eq!(refused(|c| c.rotations[0].statement = vec![0; 5_000]), Err("too_long"));
        assert_eq!(refused(|c| c.rotations[0].signature.clear()), Err("bad_length"));
    }

    #[test]
    fn a_welcome_survives_the_wire_and_its_cursor_needs_a_head() {
        let welcome = Welcome {
            node: NodeId([7; 16]),
            tenant: Slug::new("default").unwrap(),
            cursor: Cursor { sequence: Sequence(4), head: Some(Hash([8; 32])) },
            cadence_ms: 1_000,
            live_interval_ms: 5_000,
            server_time: Timestamp(1_800_000_000_000),
            recorded_until: None,
            window_bytes: 0,
            start_wanted: false,
            session: 7,
        };
        assert_eq!(Welcome::from_wire(&welcome.to_wire()), Ok(welcome.clone()));
        let unbegun = v1::Welcome { start_wanted: true, ..welcome.to_wire() };
        assert!(Welcome::from_wire(&unbegun).is_err());
        let cursor = Cursor::START;
        let unknown = Welcome { cursor, start_wanted: true, ..welcome.clone() };
        assert_eq!(Welcome::from_wire(&unknown.to_wire()), Ok(unknown));
        let headless = v1::Welcome { cursor_head: Vec::new(), ..welcome.to_wire() };
        assert!(Welcome::from_wire(&headless).is_err());
        let timeless = v1::Welcome { server_time_ms: i64::MIN, ..welcome.to_wire() };
        assert!(Welcome::from_wire(&timeless).is_err());
    }
}
