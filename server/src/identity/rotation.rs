//! Passing the server's identity on: a statement that the key before signs, or the recovery key.
//!
//! Beside `identity.key` lie `identity.rotations`, one line for each rotation (the signature in hex,
//! a space, the statement), and `recovery.pub`. The recovery key itself is made at the first start
//! and belongs off the machine. A rotation is written before the key is exchanged, so that one that
//! was broken off in between is finished by the next start. A running server goes on with the key
//! that it began with.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use leasewatch_core::evidence::identity::{
    ROTATIONS_MAX, RotationSigner, ServerRotation, SignedStatement,
};
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::Hash;
use leasewatch_core::time::Timestamp;

use super::{FILE_NAME, Identity, IdentityError, create, read, write_new};

/// The recovery key's file in the data directory, until somebody moves it away.
pub const RECOVERY_FILE: &str = "recovery.key";
const RECOVERY_PUBLIC: &str = "recovery.pub";
const ROTATIONS: &str = "identity.rotations";
const NEXT: &str = "identity.next";

/// A key that was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotated {
    /// Its place among the rotations of this server, from 1.
    pub number: u64,
    /// The new public key.
    pub new: [u8; 32],
}

pub(super) fn open(data_dir: &Path) -> Result<Identity, IdentityError> {
    let rotations = read_rotations(data_dir)?;
    finish(data_dir, &rotations)?;
    let path = data_dir.join(FILE_NAME);
    // A server that has run has a recovery key, and its identity key is not made anew in passing.
    if !path.exists() && data_dir.join(RECOVERY_PUBLIC).exists() {
        return Err(IdentityError::NoKey(path));
    }
    let mut identity = match rotations.last() {
        Some(last) => {
            let identity = read(&path)?;
            if last.new != identity.public_key() {
                return Err(IdentityError::Rotations(data_dir.join(ROTATIONS)));
            }
            identity
        }
        None => Identity::load_or_create(data_dir)?,
    };
    let skipped = rotations.len().saturating_sub(ROTATIONS_MAX);
    identity.rotations = rotations.into_iter().skip(skipped).map(|line| line.signed).collect();
    identity.recovery = Some(recovery(data_dir)?);
    Ok(identity)
}

/// Names a new identity key. With `recovery_file` the key in that file signs, else the one before.
///
/// # Errors
/// [`IdentityError`]; then nothing has changed.
pub fn rotate(
    data_dir: &Path,
    recovery_file: Option<&Path>,
    at: Timestamp,
) -> Result<Rotated, IdentityError> {
    let rotations = read_rotations(data_dir)?;
    finish(data_dir, &rotations)?;
    let path = data_dir.join(FILE_NAME);
    let last = rotations.last();
    let (signing, signer) = match recovery_file {
        None if !path.exists() => return Err(IdentityError::NoKey(path)),
        None => (read(&path)?, RotationSigner::Identity),
        Some(file) => {
            let key = read(file)?;
            if read_public(&data_dir.join(RECOVERY_PUBLIC))? != key.public_key() {
                return Err(IdentityError::NotRecovery(file.to_owned()));
            }
            (key, RotationSigner::Recovery)
        }
    };
    // What cannot be read is not known any more; the recovery key does without.
    let held = read(&path).ok().map(|identity| identity.public_key());
    let old = held.or(last.map(|line| line.new));
    let next = data_dir.join(NEXT);
    remove(&next).map_err(|source| IdentityError::Io { path: next.clone(), source })?;
    let number = last.map_or(1, |line| line.number.saturating_add(1));
    let new = create(data_dir, &next)?.public_key();
    let statement = ServerRotation { number, old, new, at, signer }.statement();
    let signed = signing.sign_statement(StatementKind::ServerRotation, statement);
    append(data_dir, &signed)?;
    finish(data_dir, &read_rotations(data_dir)?)?;
    Ok(Rotated { number, new })
}

/// A line of the file.
struct Line {
    signed: SignedStatement,
    number: u64,
    new: [u8; 32],
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let (signature, statement) = line.split_once(' ')?;
        let (first, second) = signature.split_at_checked(64)?;
        let (first, second): (Hash, Hash) = (first.parse().ok()?, second.parse().ok()?);
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&first.0);
        signature[32..].copy_from_slice(&second.0);
        let rotation = ServerRotation::from_statement(statement.as_bytes()).ok()?;
        let signed = SignedStatement { statement: statement.as_bytes().to_vec(), signature };
        Some(Self { signed, number: rotation.number, new: rotation.new })
    }
}

fn read_rotations(data_dir: &Path) -> Result<Vec<Line>, IdentityError> {
    let path = data_dir.join(ROTATIONS);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(IdentityError::Io { path, source }),
    };
    let lines: Option<Vec<Line>> = text.lines().map(Line::read).collect();
    lines.ok_or(IdentityError::Malformed(path))
}

fn append(data_dir: &Path, signed: &SignedStatement) -> Result<(), IdentityError> {
    let path = data_dir.join(ROTATIONS);
    let before = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    };
    let before = before.map_err(|source| IdentityError::Io { path: path.clone(), source })?;
    let signature: String = signed.signature.iter().map(|byte| format!("{byte:02x}")).collect();
    let statement = String::from_utf8_lossy(&signed.statement);
    replace(data_dir, &path, &format!("{before}{signature} {statement}\n"))
}

/// Written beside and renamed: whole as it was, or whole as it is now.
fn replace(data_dir: &Path, path: &Path, text: &str) -> Result<(), IdentityError> {
    let beside = path.with_extension("new");
    let written = || {
        remove(&beside)?;
        write_new(&beside, text)?;
        fs::rename(&beside, path)?;
        File::open(data_dir)?.sync_all()
    };
    written().map_err(|source| IdentityError::Io { path: path.to_owned(), source })
}

/// What was left by a run that was broken off, if anything.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The key that the last rotation names takes its place, if it is still waiting.
fn finish(data_dir: &Path, rotations: &[Line]) -> Result<(), IdentityError> {
    let (Some(last), next) = (rotations.last(), data_dir.join(NEXT)) else { return Ok(()) };
    if !next.exists() || read(&next)?.public_key() != last.new {
        return Ok(());
    }
    let exchange = || {
        fs::rename(&next, data_dir.join(FILE_NAME))?;
        File::open(data_dir)?.sync_all()
    };
    exchange().map_err(|source| IdentityError::Io { path: next.clone(), source })
}

/// The public half of the recovery key, which is made when there is none.
fn recovery(data_dir: &Path) -> Result<[u8; 32], IdentityError> {
    let (path, public) = (data_dir.join(RECOVERY_FILE), data_dir.join(RECOVERY_PUBLIC));
    if public.exists() {
        return read_public(&public);
    }
    let key = Identity::load_or_create_as(data_dir, RECOVERY_FILE)?.public_key();
    replace(data_dir, &public, &format!("{}\n", Hash(key)))?;
    tracing::warn!(
        file = %path.display(),
        "a recovery key was made: move it off this machine, and keep it. It names a new identity key \
         when this one is lost or stolen"
    );
    Ok(key)
}

fn read_public(path: &Path) -> Result<[u8; 32], IdentityError> {
    let text = fs::read_to_string(path)
        .map_err(|source| IdentityError::Io { path: path.to_owned(), source })?;
    let key: Hash =
        text.trim_end().parse().map_err(|_| IdentityError::Malformed(path.to_owned()))?;
    Ok(key.0)
}

#[cfg(test)]
mod tests {
    use leasewatch_core::evidence::identity::ServerTrust;

    use super::*;

    const AT: Timestamp = Timestamp(1_790_000_000_000);

    fn trusting(identity: &Identity) -> ServerTrust {
        ServerTrust { identity: identity.public_key(), recovery: identity.recovery(), recovered: 0 }
    }

    #[test]
    fn whoever_trusted_any_key_of_a_server_follows_to_the_last() {
        let temp = tempfile::tempdir().unwrap();
        let data_dir = temp.path();
        let first = Identity::of_server(data_dir).unwrap();
        assert!(first.rotations().is_empty());
        let second = rotate(data_dir, None, AT).unwrap();
        let third = rotate(data_dir, None, AT).unwrap();
        assert_eq!((second.number, third.number), (1, 2));
        let now = Identity::of_server(data_dir).unwrap();
        assert_eq!(now.public_key(), third.new);
        assert_eq!(trusting(&first).follow(now.rotations()).identity, third.new);
        assert_eq!((now.log_name(), now.log_name().len()), (first.log_name(), 16));
    }

    #[test]
    fn a_lost_key_is_never_made_anew_and_the_recovery_key_names_another() {
        let temp = tempfile::tempdir().unwrap();
        let data_dir = temp.path();
        let first = Identity::of_server(data_dir).unwrap();
        // The recovery key went off the machine, and comes back because the key is gone.
        let away = tempfile::tempdir().unwrap();
        let kept = away.path().join("kept");
        fs::rename(data_dir.join(RECOVERY_FILE), &kept).unwrap();
        fs::remove_file(data_dir.join(FILE_NAME)).unwrap();
        assert!(matches!(Identity::of_server(data_dir), Err(IdentityError::NoKey(_))));
        assert!(matches!(rotate(data_dir, None, AT), Err(IdentityError::NoKey(_))));
        let last = rotate(data_dir, Some(&kept), AT).unwrap();
        let now = Identity::of_server(data_dir).unwrap();
        assert_eq!((now.public_key(), now.recovery()), (last.new, first.recovery()));
        assert_eq!(trusting(&first).follow(now.rotations()).identity, last.new);
        assert!(!data_dir.join(RECOVERY_FILE).exists(), "it is made once");
    }

    #[test]
    fn a_foreign_recovery_key_names_nothing() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let before = Identity::of_server(here.path()).unwrap().public_key();
        Identity::of_server(there.path()).unwrap();
        let foreign = there.path().join(RECOVERY_FILE);
        let refused = rotate(here.path(), Some(&foreign), AT).unwrap_err();
        assert!(matches!(refused, IdentityError::NotRecovery(_)), "{refused}");
        assert_eq!(Identity::of_server(here.path()).unwrap().public_key(), before);
    }

    #[test]
    fn a_rotation_that_was_broken_off_is_finished_or_never_was() {
        let temp = tempfile::tempdir().unwrap();
        let data_dir = temp.path();
        let first = Identity::of_server(data_dir).unwrap();
        let key = fs::read_to_string(data_dir.join(FILE_NAME)).unwrap();
        // Before the statement: the next key waits for nothing.
        create(data_dir, &data_dir.join(NEXT)).unwrap();
        assert_eq!(Identity::of_server(data_dir).unwrap().public_key(), first.public_key());
        // Behind it.
        let second = rotate(data_dir, None, AT).unwrap();
        fs::rename(data_dir.join(FILE_NAME), data_dir.join(NEXT)).unwrap();
        write_new(&data_dir.join(FILE_NAME), &key).unwrap();
        assert_eq!(Identity::of_server(data_dir).unwrap().public_key(), second.new);
        // A key of before the rotation, from an older backup than the rest.
        replace(data_dir, &data_dir.join(FILE_NAME), &key).unwrap();
        let refused = Identity::of_server(data_dir).unwrap_err();
        assert!(matches!(refused, IdentityError::Rotations(_)), "{refused}");
        fs::write(data_dir.join(ROTATIONS), "what\n").unwrap();
        let refused = Identity::of_server(data_dir).unwrap_err();
        assert!(matches!(refused, IdentityError::Malformed(_)), "{refused}");
    }
}
