//! The server's certificate: self-signed, made at the first start, kept in the data directory.
//!
//! `tls/certificate.pem` and `tls/key.pem` come to be together, in a folder that is renamed into
//! place, so there are both or none. A folder that is there is used or refused with the way out;
//! it is never replaced, because agents and browsers were told this certificate. A next one waits in
//! `tls.next` until agents were told its key, and then takes its place; the one before stays in
//! `tls.old`. In place of all that, a certificate of somebody else can be given. Not here: noticing
//! that files changed (`showing`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Datelike as _};
use leasewatch_core::id::Hash;
use leasewatch_core::time::Timestamp;
use leasewatch_proto::channel::{fingerprint, public_key_hash};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Folder in the data directory, and the files in it.
const FOLDER: &str = "tls";
const UNFINISHED: &str = "tls.new";
const NEXT: &str = "tls.next";
const OLD: &str = "tls.old";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
/// The most bytes of either file.
const FILE_BYTES: u64 = 65_536;
/// How long a certificate is good for. Agents do not ask; browsers do.
const YEARS: i32 = 10;
/// HTTP/2 for agents and browsers, HTTP/1.1 for everything else.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    /// A file or folder cannot be worked with.
    #[error(
        "{path}: {source}; restore the folder {FOLDER} from a backup, or move it away for a new certificate, which agents and browsers have to be told"
    )]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others may read or write the key.
    #[error(
        "{path} has mode {mode:04o}, so others may know the key; if nobody read it: chmod 600 {path}, else move the folder away for a new certificate"
    )]
    Exposed {
        /// The key.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file does not hold what its name says.
    #[error(
        "{0} does not hold what its name says; restore the folder {FOLDER} from a backup, or move it away for a new certificate, which agents and browsers have to be told"
    )]
    Malformed(PathBuf),
    /// Key and certificate do not belong together, or are of a kind that is not spoken.
    #[error("{path} and its key cannot be used together: {source}")]
    Unfit {
        /// The certificate.
        path: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
    /// A certificate of somebody else cannot be used.
    #[error("--tls-certificate {}: {reason}", .path.display())]
    Given {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There is a next certificate already.
    #[error("a next certificate was made before; let it take over with --now, or remove {0}")]
    NextIsThere(PathBuf),
    /// There is none.
    #[error("there is no next certificate; make one first, without --now")]
    NoNext,
    /// No certificate could be made.
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate that is ready to be shown.
#[derive(Debug)]
pub(super) struct Certificate {
    /// Where it lies, for whoever has to copy it.
    pub(super) path: PathBuf,
    /// SHA-256 of it: `AB:CD:..`.
    pub(super) fingerprint: String,
    /// SHA-256 of its public key, which join strings pin.
    pub(super) pin: Hash,
    /// TLS 1.3 with it.
    pub(super) config: Arc<ServerConfig>,
}

impl Certificate {
    /// Reads the certificate of a data directory, or makes one that begins a day before `now`.
    ///
    /// # Errors
    /// [`CertificateError`]; what is there is never replaced.
    pub(super) fn load_or_create(
        data_dir: &Path,
        now: Timestamp,
    ) -> Result<Self, CertificateError> {
        let folder = data_dir.join(FOLDER);
        match fs::symlink_metadata(&folder) {
            Ok(_) => {}
            // A take-over that was broken off between its two steps.
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_taking_over(data_dir) => {
                rename(data_dir, NEXT, FOLDER)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(data_dir, FOLDER, now)?,
            Err(source) => return Err(CertificateError::Io { path: folder, source }),
        }
        read(&Files::own(&folder))
    }

    /// The certificate that will take over, if there is one.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub(super) fn next(data_dir: &Path) -> Result<Option<Self>, CertificateError> {
        let folder = data_dir.join(NEXT);
        if folder.exists() { read(&Files::own(&folder)).map(Some) } else { Ok(None) }
    }

    /// Makes a certificate with a key of its own that will take over.
    ///
    /// # Errors
    /// [`CertificateError`], also when there is one already.
    pub(super) fn make_next(data_dir: &Path, now: Timestamp) -> Result<Self, CertificateError> {
        let folder = data_dir.join(NEXT);
        if folder.exists() {
            return Err(CertificateError::NextIsThere(folder));
        }
        create(data_dir, NEXT, now)?;
        read(&Files::own(&folder))
    }

    /// The next certificate takes over.
    ///
    /// # Errors
    /// [`CertificateError`], also when there is none.
    pub(super) fn take_over(data_dir: &Path) -> Result<Self, CertificateError> {
        if Self::next(data_dir)?.is_none() {
            return Err(CertificateError::NoNext);
        }
        let old = data_dir.join(OLD);
        match fs::remove_dir_all(&old) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(CertificateError::Io { path: old, source });
            }
            _ => {}
        }
        rename(data_dir, FOLDER, OLD)?;
        rename(data_dir, NEXT, FOLDER)?;
        read(&Files::own(&data_dir.join(FOLDER)))
    }

    /// A certificate of somebody else, perhaps with those that vouch for it behind it.
    ///
    /// # Errors
    /// [`CertificateError::Given`].
    pub(super) fn given(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let files = Files { certificate: certificate.into(), key: key.into(), is_given: true };
        read(&files).map_err(|error| CertificateError::Given {
            path: certificate.to_owned(),
            reason: match error {
                CertificateError::Io { path, source } => format!("{}: {source}", path.display()),
                CertificateError::Malformed(path) => {
                    format!("{} does not hold what it should, in PEM form", path.display())
                }
                CertificateError::Exposed { path, .. } => {
                    format!("everybody may read {}", path.display())
                }
                other => other.to_string(),
            },
        })
    }
}

/// The files of a certificate.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// Somebody else keeps them: links are followed, and a group may read the key.
    is_given: bool,
}

impl Files {
    fn own(folder: &Path) -> Self {
        Self { certificate: folder.join(CERTIFICATE), key: folder.join(KEY), is_given: false }
    }
}

fn is_taking_over(data_dir: &Path) -> bool {
    data_dir.join(NEXT).exists() && data_dir.join(OLD).exists()
}

fn rename(data_dir: &Path, from: &str, to: &str) -> Result<(), CertificateError> {
    let renamed = fs::rename(data_dir.join(from), data_dir.join(to))
        .and_then(|()| File::open(data_dir)?.sync_all());
    renamed.map_err(|source| CertificateError::Io { path: data_dir.join(from), source })
}

fn read(files: &Files) -> Result<Certificate, CertificateError> {
    let (path, key_path) = (files.certificate.clone(), files.key.clone());
    let (pem, _) = contents(&path, files.is_given)?;
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| CertificateError::Malformed(path.clone()))?;
    let Some(certificate) = chain.first().cloned() else {
        return Err(CertificateError::Malformed(path));
    };
    let (key, mode) = contents(&key_path, files.is_given)?;
    let others = if files.is_given { 0o007 } else { 0o077 };
    if mode & others != 0 {
        return Err(CertificateError::Exposed { path: key_path, mode });
    }
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| CertificateError::Malformed(key_path.clone()))?;
    let fingerprint = fingerprint(&certificate);
    let pin = public_key_hash(&certificate)
        .map_err(|source| CertificateError::Unfit { path: path.clone(), source })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    let mut config =
        config.map_err(|source| CertificateError::Unfit { path: path.clone(), source })?;
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(Certificate { path, fingerprint, pin, config: Arc::new(config) })
}

/// Bytes and permission bits of a plain file.
fn contents(path: &Path, follows: bool) -> Result<(Vec<u8>, u32), CertificateError> {
    let fail = |source| CertificateError::Io { path: path.to_owned(), source };
    // A link to a key of our own is not followed, and a pipe that nobody writes to does not hang
    // the start.
    let mut flags = rustix::fs::OFlags::NONBLOCK;
    flags.set(rustix::fs::OFlags::NOFOLLOW, !follows);
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(CertificateError::Malformed(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes).map_err(fail)?;
    Ok((bytes, metadata.mode() & 0o7777))
}

fn create(data_dir: &Path, folder: &str, now: Timestamp) -> Result<(), CertificateError> {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let certificate = parameters(now)?.self_signed(&key)?;
    let beside = data_dir.join(UNFINISHED);
    let written = || -> io::Result<()> {
        // What a start that was killed left.
        match fs::remove_dir_all(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
        DirBuilder::new().mode(0o700).create(&beside)?;
        write_new(&beside.join(CERTIFICATE), &certificate.pem())?;
        write_new(&beside.join(KEY), &key.serialize_pem())?;
        File::open(&beside)?.sync_all()?;
        fs::rename(&beside, data_dir.join(folder))?;
        File::open(data_dir)?.sync_all()
    };
    written().map_err(|source| CertificateError::Io { path: beside.clone(), source })
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn parameters(now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_name = !host.is_empty()
        && host.len() <= 253
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if is_name && !names.contains(&host) {
        names.push(host);
    }
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name.push(DnType::CommonName, "leasewatch server");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // A day before, for clocks that are behind; each month has a 28th.
    let today = DateTime::from_timestamp_millis(now.plus_ms(-leasewatch_core::time::DAY_MS).0);
    let today = today.unwrap_or_default();
    let month = u8::try_from(today.month()).unwrap_or(1);
    let day = u8::try_from(today.day().min(28)).unwrap_or(1);
    parameters.not_before = date_time_ymd(today.year(), month, day);
    parameters.not_after = date_time_ymd(today.year() + YEARS, month, day);
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const NOW: Timestamp = Timestamp(1_790_000_000_000);

    fn load(directory: &Path) -> Result<Certificate, CertificateError> {
        Certificate::load_or_create(directory, NOW)
    }

    #[test]
    fn a_certificate_is_made_once_and_its_files_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path().join("data");
        fs::create_dir_all(data_dir.join(UNFINISHED).join("half")).unwrap();
        let first = load(&data_dir).unwrap();
        let again = Certificate::load_or_create(&data_dir, NOW.plus_ms(1)).unwrap();
        assert_eq!(first.fingerprint, again.fingerprint);
        assert_eq!(first.config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        let folder = data_dir.join(FOLDER);
        assert_eq!(mode(folder.clone()), 0o700);
        assert_eq!(mode(folder.join(KEY)), 0o600);
        assert_eq!(mode(folder.join(CERTIFICATE)), 0o600);
        assert_eq!(fs::read_dir(&data_dir).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_whole_is_refused_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        load(directory.path()).unwrap();
        let folder = directory.path().join(FOLDER);
        for name in [CERTIFICATE, KEY] {
            let path = folder.join(name);
            let whole = fs::read(&path).unwrap();
            for broken in [&whole[..whole.len() / 2], b"", b"\0\0\0"] {
                fs::write(&path, broken).unwrap();
                let refusal = load(directory.path()).unwrap_err();
                assert!(matches!(refusal, CertificateError::Malformed(_)), "{name}: {refusal}");
                assert_eq!(fs::read(&path).unwrap(), broken);
            }
            fs::remove_file(&path).unwrap();
            let refusal = load(directory.path()).unwrap_err();
            assert!(matches!(refusal, CertificateError::Io { .. }), "{name}: {refusal}");
            assert!(refusal.to_string().contains("backup"), "{refusal}");
            assert!(!path.exists());
            symlink("/dev/zero", &path).unwrap();
            assert!(load(directory.path()).is_err());
            fs::remove_file(&path).unwrap();
            write_new(&path, std::str::from_utf8(&whole).unwrap()).unwrap();
        }
        assert!(load(directory.path()).is_ok());
    }

    #[test]
    fn a_key_that_others_may_know_or_that_is_another_ones_is_refused() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        load(here.path()).unwrap();
        load(there.path()).unwrap();
        let key = |directory: &Path| directory.join(FOLDER).join(KEY);
        fs::set_permissions(key(here.path()), fs::Permissions::from_mode(0o640)).unwrap();
        let refusal = load(here.path()).unwrap_err();
        assert!(matches!(refusal, CertificateError::Exposed { mode: 0o640, .. }), "{refusal}");
        fs::set_permissions(key(here.path()), fs::Permissions::from_mode(0o600)).unwrap();
        fs::copy(key(there.path()), key(here.path())).unwrap();
        let refusal = load(here.path()).unwrap_err();
        assert!(matches!(refusal, CertificateError::Unfit { .. }), "{refusal}");
    }

    #[test]
    fn a_next_certificate_waits_and_takes_over_whatever_breaks_off() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path();
        let first = load(data_dir).unwrap();
        assert!(matches!(Certificate::take_over(data_dir), Err(CertificateError::NoNext)));
        assert!(Certificate::next(data_dir).unwrap().is_none());
        let next = Certificate::make_next(data_dir, NOW).unwrap();
        assert_ne!(first.pin, next.pin);
        let again = Certificate::make_next(data_dir, NOW).unwrap_err();
        assert!(matches!(again, CertificateError::NextIsThere(_)), "{again}");
        assert_eq!(load(data_dir).unwrap().pin, first.pin);
        assert_eq!(Certificate::next(data_dir).unwrap().unwrap().pin, next.pin);
        // Between its two steps.
        fs::rename(data_dir.join(FOLDER), data_dir.join(OLD)).unwrap();
        assert_eq!(load(data_dir).unwrap().pin, next.pin);
        let third = Certificate::make_next(data_dir, NOW).unwrap();
        assert_eq!(Certificate::take_over(data_dir).unwrap().pin, third.pin);
        assert_eq!(load(data_dir).unwrap().pin, third.pin);
    }

    #[test]
    fn a_given_certificate_may_be_a_link_and_its_key_not_everybody_s() {
        let (own, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let expected = load(own.path()).unwrap().pin;
        let file = |name: &str| elsewhere.path().join(name);
        for name in [CERTIFICATE, KEY] {
            symlink(own.path().join(FOLDER).join(name), file(name)).unwrap();
        }
        let given = || Certificate::given(&file(CERTIFICATE), &file(KEY));
        assert_eq!(given().unwrap().pin, expected);
        let set = |mode| fs::set_permissions(file(KEY), fs::Permissions::from_mode(mode)).unwrap();
        set(0o640);
        assert_eq!(given().unwrap().pin, expected);
        set(0o644);
        assert!(given().unwrap_err().to_string().contains("everybody may read"));
        set(0o600);
        let swapped = Certificate::given(&file(KEY), &file(CERTIFICATE)).unwrap_err();
        assert!(swapped.to_string().contains("PEM"), "{swapped}");
    }

    #[test]
    fn a_certificate_made_on_any_day_has_dates() {
        // 2028-02-29 and 2099-12-31.
        for ms in [1_835_481_600_000, 4_102_358_400_000] {
            let parameters = parameters(Timestamp(ms)).unwrap();
            assert!(parameters.not_before < parameters.not_after);
        }
    }
}
