//! The directories of a cluster, their lock, and `initdb`.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::Account;
use super::binaries::Binaries;
use super::{EmbeddedError, SUPERUSER};
use crate::store::Durability;

/// The longest socket path the kernel takes, without its final zero.
const SOCKET_PATH_BYTES: usize = 107;
pub(super) const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// A locked directory. The lock goes with the value.
#[derive(Debug)]
pub(super) struct Cluster {
    root: PathBuf,
    account: Account,
    _lock: File,
}

impl Cluster {
    /// Makes the directory where needed and takes its lock.
    pub(super) fn lock(base_dir: &Path, account: Account) -> Result<Self, EmbeddedError> {
        let base =
            std::path::absolute(base_dir).map_err(EmbeddedError::io("find the data directory"))?;
        let root = base.join("postgres");
        let socket = root.join("run").join(SOCKET_NAME);
        if socket.as_os_str().len() > SOCKET_PATH_BYTES {
            return Err(EmbeddedError::PathTooLong(socket));
        }
        // The account of PostgreSQL has to pass through both, and need not list them.
        // An existing base directory may be shared with other files and stays as it is.
        if !base.is_dir() {
            make_directory(&base, 0o711)?;
        }
        make_directory(&root, 0o711)?;
        let lock = take_lock(&root)?;
        let cluster = Self { root, account, _lock: lock };
        cluster.make_private(&cluster.socket_dir())?;
        Ok(cluster)
    }

    pub(super) fn data_dir(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(super) fn socket_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The major version that made the data; `None` before the first start.
    pub(super) fn major(&self) -> Result<Option<u32>, EmbeddedError> {
        let path = self.data_dir().join("PG_VERSION");
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map(Some).map_err(|_| EmbeddedError::Failed {
                program: "postgres",
                message: format!("{} does not hold a version", path.display()),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(EmbeddedError::io(format!("read {}", path.display()))(error)),
        }
    }

    /// Runs `initdb` unless it was run. The result appears under its name only when complete, so
    /// an interrupted one leaves nothing that looks like data.
    pub(super) async fn initialise(
        &self,
        binaries: &Binaries,
        durability: Durability,
    ) -> Result<(), EmbeddedError> {
        if self.major()?.is_some() {
            return Ok(());
        }
        let unfinished = self.root.join("data.new");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)
                .map_err(EmbeddedError::io("remove an unfinished data directory"))?;
        }
        self.make_private(&unfinished)?;
        let mut command = self.command(&binaries.program("initdb"));
        command.arg("-D").arg(&unfinished).args(["-U", SUPERUSER, "-E", "UTF8", "-k"]);
        command.args(["--auth-local=trust", "--auth-host=reject", "--locale=C.UTF-8"]);
        if durability == Durability::Throwaway {
            command.arg("--no-sync");
        }
        let output = run_to_end(command).await?;
        if !output.status.success() {
            let message = last_lines(&String::from_utf8_lossy(&output.stderr));
            return Err(EmbeddedError::Failed { program: "initdb", message });
        }
        fs::rename(&unfinished, self.data_dir())
            .map_err(EmbeddedError::io("name the data directory"))
    }

    /// A command that runs as the account of PostgreSQL and inherits nothing.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C.UTF-8").current_dir("/").stdin(Stdio::null());
        self.account.apply(&mut command);
        command
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.root.join("postgres.log")
    }

    /// A fresh log; the one of the start before is kept beside it.
    pub(super) fn open_log(&self) -> Result<File, EmbeddedError> {
        let path = self.log_path();
        if path.exists() {
            fs::rename(&path, path.with_extension("log.1"))
                .map_err(EmbeddedError::io("keep the last log"))?;
        }
        let open = OpenOptions::new().create(true).append(true).open(&path);
        open.map_err(EmbeddedError::io(format!("open {}", path.display())))
    }

    pub(super) fn log_tail(&self) -> String {
        last_lines(&fs::read_to_string(self.log_path()).unwrap_or_default())
    }

    fn make_private(&self, path: &Path) -> Result<(), EmbeddedError> {
        make_directory(path, 0o700)?;
        self.account.own(path)
    }
}

fn take_lock(root: &Path) -> Result<File, EmbeddedError> {
    let path = root.join("lock");
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let lock = open.map_err(EmbeddedError::io(format!("open {}", path.display())))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(EmbeddedError::InUse(root.to_owned())),
        Err(fs::TryLockError::Error(error)) => {
            Err(EmbeddedError::io("lock the data directory")(error))
        }
    }
}

/// Makes a directory and what is missing above it. The mode is set, not asked for: a umask of 077
/// would close a path that PostgreSQL's account has to walk.
fn make_directory(path: &Path, mode: u32) -> Result<(), EmbeddedError> {
    let failed = || EmbeddedError::io(format!("make {}", path.display()));
    if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
        make_directory(parent, 0o711)?;
    }
    if !path.is_dir() {
        // Closed until it has its mode.
        DirBuilder::new().mode(0o700).create(path).map_err(failed())?;
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed())
}

async fn run_to_end(mut command: Command) -> Result<std::process::Output, EmbeddedError> {
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    output.map_err(std::io::Error::other).flatten().map_err(EmbeddedError::io("run initdb"))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join("; ")
}
