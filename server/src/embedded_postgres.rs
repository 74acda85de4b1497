//! A PostgreSQL of our own: found on the machine, initialised, started and stopped by the server.
//!
//! Layout below the base directory (`/var/lib/leasewatch` as root):
//! `postgres/lock` (held by `flock` while a server uses it), `postgres/data` (PGDATA),
//! `postgres/run` (the socket, 0700), `postgres/postgres.log` (this start's log; the one before is
//! `postgres.log.1`), and `postgresql/VERSION/bin` (programs that `./run` put there; read only).
//!
//! Invariants:
//! 1. Never two servers on one data directory: the lock is taken before anything is looked at.
//! 2. PostgreSQL does not outlive us: it is started through a subcommand of our own executable
//!    ([`become_postgres`]) that asks the kernel for a signal when its parent *thread* dies, and
//!    the parent is a thread that waits for it and does nothing else.
//! 3. One left behind by an older or killed server is stopped before ours starts.
//! 4. Nothing listens on TCP; who may enter the 0700 directory is trusted.
//! 5. A data directory of another major version is refused, never touched.
//!
//! Not here: a download; `./run` makes it, on its own machine, of a file that is pinned by its
//! hash. Where no PostgreSQL is found the error names the package to install and the option to
//! point at one; a server that fetches programs from the network is a surprise that
//! no operator asked for. Not here either: SQL (`store`).

mod account;
mod binaries;
mod cluster;
mod left_behind;
mod process;

use std::path::{Path, PathBuf};

pub use binaries::Binaries;
pub use process::{PostgresArguments, become_postgres};

use crate::store::Durability;
use account::Account;
use cluster::Cluster;
use process::Running;

/// The role that `initdb` makes. It serves bootstrap and migrations, nothing else.
pub const SUPERUSER: &str = "leasewatch";

/// How to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Base directory; see [`default_base_dir`].
    pub base_dir: PathBuf,
    /// Directory with `postgres` and `initdb`; `None` searches the usual places.
    pub bin_dir: Option<PathBuf>,
    /// The executable that runs [`become_postgres`] when its first argument is
    /// `internal-postgres`: our own.
    pub helper: PathBuf,
    /// Whether commits must survive a power cut. Anything else is for tests.
    pub durability: Durability,
}

/// Why there is no PostgreSQL.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// No usable binaries.
    #[error(
        "no PostgreSQL 15 or newer was found ({searched}); install one (Debian, Ubuntu: `apt install postgresql`), \
         or point --pg-bin at the directory that holds `postgres` and `initdb`, or give --database-url; \
         ./run fetches one where there is no package"
    )]
    NotFound {
        /// Where it was looked for.
        searched: String,
    },
    /// The data directory belongs to another major version.
    #[error(
        "{data} was made by PostgreSQL {found}, and only version {available} is here; install PostgreSQL {found} \
         (--pg-bin /usr/lib/postgresql/{found}/bin), or migrate: stop the server, run `pg_upgrade` or dump with \
         version {found}, move {data} away, start once and restore the dump"
    )]
    OtherMajor {
        /// The data directory.
        data: String,
        /// Its version.
        found: u32,
        /// The version of the binaries.
        available: u32,
    },
    /// Another server holds the lock.
    #[error("{0} is in use by another leasewatch-server")]
    InUse(PathBuf),
    /// As root, PostgreSQL has to run as somebody else, and nobody is there.
    #[error(
        "running as root needs an account `postgres` or `nobody` for PostgreSQL, and /etc/passwd has neither"
    )]
    NoAccount,
    /// The socket's path would not fit into a socket address.
    #[error("{0} is too long for a socket (at most 107 bytes); choose a shorter --data-dir")]
    PathTooLong(PathBuf),
    /// `initdb` or `postgres` did not do its work.
    #[error("{program} failed: {message}")]
    Failed {
        /// Which.
        program: &'static str,
        /// Its last words.
        message: String,
    },
    /// A file or process could not be worked with.
    #[error("{action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl EmbeddedError {
    fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

/// A PostgreSQL that runs for as long as this value lives.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    running: Running,
    cluster: Cluster,
}

impl EmbeddedPostgres {
    /// Finds, initialises where needed, and starts PostgreSQL; returns when it accepts
    /// connections. Recovery after a crash may take its time and is waited for.
    ///
    /// # Errors
    /// [`EmbeddedError`]; nothing is left running.
    pub async fn start(options: Options) -> Result<Self, EmbeddedError> {
        let account = Account::for_postgres()?;
        let cluster = Cluster::lock(&options.base_dir, account)?;
        left_behind::stop(&cluster.data_dir(), &cluster.socket_dir()).await?;
        let given = options.bin_dir.as_deref();
        let binaries = match cluster.major()? {
            Some(major) => Binaries::find_major(given, &options.base_dir, major, &cluster)?,
            None => Binaries::find(given, &options.base_dir)?,
        };
        cluster.initialise(&binaries, options.durability).await?;
        let running = Running::start(&cluster, &binaries, &options).await?;
        Ok(Self { running, cluster })
    }

    /// Connection string for a role and a database, over the socket.
    #[must_use]
    pub fn url(&self, role: &str, database: &str) -> String {
        let directory = percent_encoded(&self.cluster.socket_dir());
        format!("postgres:///{database}?host={directory}&user={role}")
    }

    /// Connection string of the PostgreSQL that a running server keeps under `base_dir`; `None`
    /// when none runs there. For commands beside a server.
    #[must_use]
    pub fn running_url(base_dir: &Path, role: &str, database: &str) -> Option<String> {
        let directory = base_dir.join("postgres").join("run");
        let socket = directory.join(cluster::SOCKET_NAME);
        // A socket file outlives a crash; only one that accepts belongs to a running server.
        std::os::unix::net::UnixStream::connect(socket).ok()?;
        let directory = percent_encoded(&directory);
        Some(format!("postgres:///{database}?host={directory}&user={role}"))
    }

    /// Process id of the postmaster.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Completes when PostgreSQL is gone, whoever ended it, with its exit status in words.
    pub async fn exited(&self) -> String {
        self.running.exited().await
    }

    /// Ends all sessions, writes what is due, and waits until PostgreSQL is gone.
    ///
    /// # Errors
    /// [`EmbeddedError::Failed`] when it did not end within a minute.
    pub async fn stop(self) -> Result<(), EmbeddedError> {
        self.running.stop().await
    }
}

/// Where the data stands unless told otherwise: `/var/lib/leasewatch` as root (a home directory of
/// root cannot be entered by the account that PostgreSQL needs), else the XDG data directory.
#[must_use]
pub fn default_base_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/leasewatch");
    }
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    from("XDG_DATA_HOME")
        .or_else(|| from("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"))
        .join("leasewatch")
}

fn percent_encoded(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
