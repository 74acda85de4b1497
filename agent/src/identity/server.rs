//! The server that the node trusts: its identity key as it was first seen or as it was passed on,
//! and what the server itself said of where it is found later.
//!
//! `server.pub` holds the key; without it the next server that proves one is trusted. The rest is
//! in `notice.toml`, which older agents do not know and leave alone. The recovery key that was told
//! first stays: who steals the identity key must not be able to replace it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::Path;

use leasewatch_core::evidence::identity::{ServerNotice, ServerTrust, SignedStatement};
use leasewatch_core::id::Hash;
use leasewatch_core::join::JoinAddress;
use leasewatch_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{IdentityError, NOTICE, SERVER_KEY, StateDir, write_atomically};

/// What the server said of itself, as far as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptNotice {
    /// Of the statement that said it; `None` before the first.
    pub at: Option<Timestamp>,
    /// The recovery key that was told first.
    pub recovery: Option<[u8; 32]>,
    /// Number of the last rotation that was followed because the recovery key had signed it.
    pub recovered: u64,
    /// What the certificate may be known by; empty: what the join string says.
    pub pins: Vec<Hash>,
    /// Where the server is; empty: where the join string says.
    pub addresses: Vec<JoinAddress>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct NoticeFile {
    at_ms: Option<i64>,
    recovery: Option<String>,
    #[serde(default)]
    recovered: u64,
    #[serde(default)]
    pins: Vec<String>,
    #[serde(default)]
    addresses: Vec<String>,
}

impl KeptNotice {
    /// Reads the file. One that is not there or not understood is an empty one: what stands in it
    /// was told by the server and is told again.
    #[must_use]
    pub fn read(dir: &Path) -> Self {
        let text = fs::read_to_string(dir.join(NOTICE)).unwrap_or_default();
        let file: NoticeFile = toml::from_str(&text).unwrap_or_default();
        let hash = |text: &String| text.parse::<Hash>().ok();
        Self {
            at: file.at_ms.map(Timestamp),
            recovery: file.recovery.as_ref().and_then(hash).map(|hash| hash.0),
            recovered: file.recovered,
            pins: file.pins.iter().filter_map(hash).collect(),
            addresses: file
                .addresses
                .iter()
                .filter_map(|text| JoinAddress::new(text).ok())
                .collect(),
        }
    }

    fn write(&self, dir: &StateDir) -> Result<(), IdentityError> {
        let path = dir.path().join(NOTICE);
        let file = NoticeFile {
            at_ms: self.at.map(|at| at.0),
            recovery: self.recovery.map(|key| Hash(key).to_string()),
            recovered: self.recovered,
            pins: self.pins.iter().map(ToString::to_string).collect(),
            addresses: self.addresses.iter().map(|at| at.as_str().to_owned()).collect(),
        };
        let text = toml::to_string(&file).map_err(|error| IdentityError::Io {
            path: path.clone(),
            source: std::io::Error::other(error),
        })?;
        write_atomically(&path, text.as_bytes())
    }
}

/// Whom the node trusts; `None` before it met a server.
///
/// # Errors
/// [`IdentityError::ServerKey`] when the file holds no key; [`IdentityError::Io`].
pub fn server_trust(dir: &Path) -> Result<Option<ServerTrust>, IdentityError> {
    let path = dir.join(SERVER_KEY);
    let mut file = match OpenOptions::new().read(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(IdentityError::io(&path)(error)),
    };
    let mut text = String::new();
    (&mut file).take(256).read_to_string(&mut text).map_err(IdentityError::io(&path))?;
    let pinned: Hash = text.trim_end().parse().map_err(|_| IdentityError::ServerKey(path))?;
    let kept = KeptNotice::read(dir);
    let (recovery, recovered) = (kept.recovery, kept.recovered);
    Ok(Some(ServerTrust { identity: pinned.0, recovery, recovered }))
}

/// Whether the server that has proven `shown` is the one that the node trusts: by the key that it
/// holds, or because these rotations lead there, or because it is the first. What was followed is
/// kept.
///
/// # Errors
/// [`IdentityError::ServerKey`] when the file holds no key; [`IdentityError::Io`].
pub fn accept_server(
    dir: &StateDir,
    shown: &[u8; 32],
    rotations: &[SignedStatement],
) -> Result<bool, IdentityError> {
    let Some(trust) = server_trust(dir.path())? else {
        pin(dir, shown)?;
        // Of another server, which somebody told the node to forget.
        KeptNotice::default().write(dir)?;
        return Ok(true);
    };
    let followed = trust.follow(rotations);
    if followed.identity != *shown {
        return Ok(trust.identity == *shown);
    }
    if followed.identity != trust.identity {
        tracing::warn!(
            key = %Hash(followed.identity),
            by_recovery = followed.recovered != trust.recovered,
            "the server's identity key was passed on to another one"
        );
        pin(dir, shown)?;
    }
    // Behind the key: a number without the key that it led to could not be followed again.
    if followed.recovered != trust.recovered {
        let kept = KeptNotice { recovered: followed.recovered, ..KeptNotice::read(dir.path()) };
        kept.write(dir)?;
    }
    Ok(true)
}

/// Makes `key` the server's identity key. Returns false, and changes nothing, when another one is
/// pinned and `is_final`.
///
/// # Errors
/// [`IdentityError::ServerKey`] when the file holds no key and `is_final`; [`IdentityError::Io`].
pub fn pin_server_key(
    dir: &StateDir,
    key: &[u8; 32],
    is_final: bool,
) -> Result<bool, IdentityError> {
    if is_final {
        return accept_server(dir, key, &[]);
    }
    pin(dir, key)?;
    KeptNotice::default().write(dir)?;
    Ok(true)
}

fn pin(dir: &StateDir, key: &[u8; 32]) -> Result<(), IdentityError> {
    write_atomically(&dir.path().join(SERVER_KEY), format!("{}\n", Hash(*key)).as_bytes())
}

/// Keeps what the server said, when it is later than what was kept. Returns whether it was.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn keep_notice(dir: &StateDir, said: ServerNotice) -> Result<bool, IdentityError> {
    let kept = KeptNotice::read(dir.path());
    if kept.at.is_some_and(|at| at >= said.at) {
        return Ok(false);
    }
    let ServerNotice { at, recovery, pins, addresses } = said;
    let recovery = kept.recovery.or(recovery);
    let next = KeptNotice { at: Some(at), recovery, recovered: kept.recovered, pins, addresses };
    next.write(dir).map(|()| true)
}

/// Forgets where the server said that it is, for a join string says it anew.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn forget_addresses(dir: &StateDir) -> Result<(), IdentityError> {
    let kept = KeptNotice::read(dir.path());
    if kept.pins.is_empty() && kept.addresses.is_empty() {
        return Ok(());
    }
    KeptNotice { pins: Vec::new(), addresses: Vec::new(), ..kept }.write(dir)
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use leasewatch_core::evidence::identity::{RotationSigner, ServerRotation};
    use leasewatch_core::evidence::statement::{StatementKind, sign};

    use super::*;

    const AT: Timestamp = Timestamp(1_790_000_000_000);

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    fn public(seed: u8) -> [u8; 32] {
        key(seed).verifying_key().to_bytes()
    }

    fn rotation(number: u64, (old, new): (u8, u8), by: u8) -> SignedStatement {
        let signer = if by == old { RotationSigner::Identity } else { RotationSigner::Recovery };
        let (old, new) = (Some(public(old)), public(new));
        let statement = ServerRotation { number, old, new, at: AT, signer }.statement();
        let signature = sign(StatementKind::ServerRotation, &statement, &key(by));
        SignedStatement { statement, signature }
    }

    fn notice(ms: i64, recovery: u8) -> ServerNotice {
        ServerNotice {
            at: AT.plus_ms(ms),
            recovery: Some(public(recovery)),
            pins: vec![Hash([1; 32]), Hash([2; 32])],
            addresses: vec![JoinAddress::new("https://b.example").unwrap()],
        }
    }

    #[test]
    fn the_first_server_is_kept_and_another_is_not_taken() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        assert_eq!(server_trust(dir.path()).unwrap(), None);
        assert!(accept_server(&dir, &public(1), &[]).unwrap());
        assert!(accept_server(&dir, &public(1), &[]).unwrap());
        assert!(!accept_server(&dir, &public(2), &[]).unwrap());
        assert!(!pin_server_key(&dir, &public(2), true).unwrap());
        fs::write(temp.path().join(SERVER_KEY), "rubbish").unwrap();
        let refused = accept_server(&dir, &public(1), &[]).unwrap_err();
        assert!(matches!(refused, IdentityError::ServerKey(_)), "{refused}");
    }

    #[test]
    fn a_server_that_was_passed_on_is_followed_and_its_old_key_is_worth_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        accept_server(&dir, &public(1), &[]).unwrap();
        let chain = [rotation(1, (1, 2), 1), rotation(2, (2, 3), 2)];
        // A chain that does not lead to the key that was shown.
        assert!(!accept_server(&dir, &public(4), &chain).unwrap());
        assert!(!accept_server(&dir, &public(3), &chain[1..]).unwrap());
        assert!(accept_server(&dir, &public(3), &chain).unwrap());
        assert!(!accept_server(&dir, &public(1), &chain).unwrap());
        assert!(!accept_server(&dir, &public(9), &[rotation(3, (1, 9), 1)]).unwrap());
    }

    #[test]
    fn the_recovery_key_that_was_told_first_leads_on_once() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        accept_server(&dir, &public(1), &[]).unwrap();
        let recovered = [rotation(1, (1, 2), 90)];
        assert!(!accept_server(&dir, &public(2), &recovered).unwrap(), "nobody told it");
        assert!(keep_notice(&dir, notice(0, 90)).unwrap());
        assert!(keep_notice(&dir, notice(1, 91)).unwrap());
        assert!(!accept_server(&dir, &public(2), &[rotation(1, (1, 2), 91)]).unwrap());
        assert!(accept_server(&dir, &public(2), &recovered).unwrap());
        assert!(accept_server(&dir, &public(3), &[rotation(2, (2, 3), 2)]).unwrap());
        assert!(!accept_server(&dir, &public(2), &recovered).unwrap(), "it counts once");
    }

    #[test]
    fn a_later_notice_takes_the_place_of_an_earlier_one_and_not_the_reverse() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        assert_eq!(KeptNotice::read(dir.path()), KeptNotice::default());
        assert!(keep_notice(&dir, notice(5, 90)).unwrap());
        let earlier = ServerNotice { pins: Vec::new(), ..notice(4, 90) };
        assert!(!keep_notice(&dir, earlier).unwrap());
        let kept = KeptNotice::read(dir.path());
        assert_eq!((kept.pins.len(), kept.addresses.len()), (2, 1));
        forget_addresses(&dir).unwrap();
        let kept = KeptNotice::read(dir.path());
        assert_eq!((kept.pins.len(), kept.addresses.len()), (0, 0));
        assert_eq!(kept.recovery, Some(public(90)));
        fs::write(temp.path().join(NOTICE), "what").unwrap();
        assert_eq!(KeptNotice::read(dir.path()), KeptNotice::default());
    }
}
