//! The server's identity: one Ed25519 key in one file.
//!
//! Agents pin this key, and challenges are signed with it, so it outlives certificates and
//! addresses; it belongs on the backup list. The file `identity.key` holds 64 hex digits and a
//! line end, mode 0600. A file that others can read, a symbolic link, or one that holds anything
//! else is refused with the way to fix it: a key that may be known is no identity. Passing it on to
//! another key is `rotation`'s. Not here: the TLS key.

mod rotation;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signer as _, SigningKey};
use leasewatch_core::evidence::identity::{ServerRotation, SignedStatement};
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{Hash, KeyId};

pub use rotation::{RECOVERY_FILE, Rotated, rotate};

/// Name of the file in the data directory.
pub const FILE_NAME: &str = "identity.key";

/// 64 digits and a line end.
const FILE_BYTES: usize = 65;

/// The identity key, and how it came to be that one. Never printed.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
    /// The first ones first.
    rotations: Vec<SignedStatement>,
    recovery: Option<[u8; 32]>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.key_id())
    }
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file or its directory cannot be worked with.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A link, a directory, a pipe.
    #[error("{0} is not a regular file; put the key itself there")]
    NotAFile(PathBuf),
    /// Others may read or write it.
    #[error(
        "{path} has mode {mode:04o}, so others may know the key; if nobody read it: chmod 600 {path}, \
         else move it away, and agents have to be told the new key"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Not 64 hex digits and a line end.
    #[error("{0} does not hold a key; restore it from the backup")]
    Malformed(PathBuf),
    /// The system gave no random bytes.
    #[error("no random bytes for a new key")]
    Random,
    /// The key is not the one that the rotations lead to.
    #[error("{0} ends with another key than {FILE_NAME} holds; restore both from the same backup")]
    Rotations(PathBuf),
    /// A rotation is asked for with a key that nodes were never told.
    #[error("{0} is not the recovery key of this server")]
    NotRecovery(PathBuf),
    /// There is no key to rotate.
    #[error("{0} is not there; with the recovery key a new one can be named: --recovery FILE")]
    NoKey(PathBuf),
}

impl Identity {
    /// Reads the key of a data directory, or makes one where there is none.
    ///
    /// # Errors
    /// [`IdentityError`]; an existing file is never replaced.
    pub fn load_or_create(data_dir: &Path) -> Result<Self, IdentityError> {
        Self::load_or_create_as(data_dir, FILE_NAME)
    }

    /// The same under another name: the key of a node, in the form that its agent reads.
    ///
    /// # Errors
    /// [`IdentityError`]; an existing file is never replaced.
    pub(crate) fn load_or_create_as(data_dir: &Path, name: &str) -> Result<Self, IdentityError> {
        let path = data_dir.join(name);
        match fs::symlink_metadata(&path) {
            Ok(_) => read(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(data_dir, &path),
            Err(source) => Err(IdentityError::Io { path, source }),
        }
    }

    /// The identity of a server, with its rotations; at the first start a recovery key is made
    /// beside it. A rotation that was broken off is finished.
    ///
    /// # Errors
    /// [`IdentityError`]; an existing file is never replaced.
    pub fn of_server(data_dir: &Path) -> Result<Self, IdentityError> {
        rotation::open(data_dir)
    }

    /// The public key, 32 bytes.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    /// SHA-256 of the public key.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        KeyId::of_public_key(&self.public_key())
    }

    /// Names the server in the names of its logs, for ever: the first 16 hex digits of the id of the
    /// first key that is known.
    #[must_use]
    pub fn log_name(&self) -> String {
        let first = self.rotations.first();
        let first = first.and_then(|signed| ServerRotation::from_statement(&signed.statement).ok());
        let key = first.map_or_else(|| self.public_key(), |first| first.old.unwrap_or(first.new));
        KeyId::of_public_key(&key).to_string().chars().take(16).collect()
    }

    /// The key itself, for sealing imported segments and for signing logs and bundles.
    pub(crate) fn signing_key(&self) -> &SigningKey {
        &self.key
    }

    /// How the key came to be this one, the first rotations first.
    #[must_use]
    pub fn rotations(&self) -> &[SignedStatement] {
        &self.rotations
    }

    /// The public half of the recovery key.
    #[must_use]
    pub fn recovery(&self) -> Option<[u8; 32]> {
        self.recovery
    }

    /// Signs a statement.
    #[must_use]
    pub fn sign_statement(&self, kind: StatementKind, statement: Vec<u8>) -> SignedStatement {
        let signature = sign(kind, &statement, &self.key);
        SignedStatement { statement, signature }
    }

    /// Signs a message that carries its own prefix.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }
}

fn read(path: &Path) -> Result<Identity, IdentityError> {
    let fail = |source| IdentityError::Io { path: path.to_owned(), source };
    let mut file =
        OpenOptions::new().read(true).custom_flags(open_flags()).open(path).map_err(|source| {
            match source.raw_os_error() {
                Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                    IdentityError::NotAFile(path.to_owned())
                }
                _ => fail(source),
            }
        })?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(IdentityError::NotAFile(path.to_owned()));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(IdentityError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    let limit = u64::try_from(FILE_BYTES + 1).unwrap_or(u64::MAX);
    let malformed = || IdentityError::Malformed(path.to_owned());
    match (&mut file).take(limit).read_to_string(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(malformed()),
        Err(source) => return Err(fail(source)),
    }
    let digits = text.strip_suffix('\n').ok_or_else(malformed)?;
    let secret: Hash = digits.parse().map_err(|_| malformed())?;
    Ok(of_secret(&secret.0))
}

fn of_secret(secret: &[u8; 32]) -> Identity {
    Identity { key: SigningKey::from_bytes(secret), rotations: Vec::new(), recovery: None }
}

/// Written beside and linked into place: a crash leaves a whole key or none, and two starts at
/// once end with one key.
fn create(data_dir: &Path, path: &Path) -> Result<Identity, IdentityError> {
    let fail = |source| IdentityError::Io { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(fail)?;
    let mut secret = [0_u8; 32];
    getrandom::fill(&mut secret).map_err(|_| IdentityError::Random)?;
    let beside = path.with_extension(format!("key.{}", std::process::id()));
    let written = write_new(&beside, &format!("{}\n", Hash(secret)));
    let linked = written.and_then(|()| fs::hard_link(&beside, path));
    let removed = fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return read(path),
        other => other.and(removed).map_err(fail)?,
    }
    File::open(data_dir).and_then(|directory| directory.sync_all()).map_err(fail)?;
    Ok(of_secret(&secret))
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A link is not followed, and a pipe that nobody writes to does not hang the start.
fn open_flags() -> i32 {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    i32::try_from(flags.bits()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_key_is_made_once_and_read_ever_after() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path().join("deep/data");
        let first = Identity::load_or_create(&data_dir).unwrap();
        let second = Identity::load_or_create(&data_dir).unwrap();
        assert_eq!(first.public_key(), second.public_key());
        let metadata = fs::metadata(data_dir.join(FILE_NAME)).unwrap();
        assert_eq!(metadata.mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&data_dir).unwrap().count(), 1);
        assert!(!format!("{first:?}").contains(&Hash(first.key.to_bytes()).to_string()));
    }

    #[test]
    fn a_file_that_may_be_known_or_is_no_key_is_refused_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        Identity::load_or_create(directory.path()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refusal = Identity::load_or_create(directory.path()).unwrap_err();
        assert!(matches!(refusal, IdentityError::Exposed { mode: 0o644, .. }), "{refusal}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in [Vec::new(), vec![b'a'; 64], vec![b'a'; 4_000], vec![0xff; 65]] {
            fs::write(&path, &text).unwrap();
            let refusal = Identity::load_or_create(directory.path()).unwrap_err();
            assert!(matches!(refusal, IdentityError::Malformed(_)), "{refusal}");
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_link_and_a_directory_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (elsewhere, here) = (directory.path().join("elsewhere"), directory.path().join("here"));
        Identity::load_or_create(&elsewhere).unwrap();
        fs::create_dir(&here).unwrap();
        symlink(elsewhere.join(FILE_NAME), here.join(FILE_NAME)).unwrap();
        let refuse = || Identity::load_or_create(&here).unwrap_err();
        assert!(matches!(refuse(), IdentityError::NotAFile(_)));
        fs::remove_file(here.join(FILE_NAME)).unwrap();
        fs::create_dir(here.join(FILE_NAME)).unwrap();
        assert!(matches!(refuse(), IdentityError::NotAFile(_)));
    }
}
