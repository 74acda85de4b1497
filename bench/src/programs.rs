//! The programs that are measured, as children that end with the value.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::process::{self, Usage};

/// Lines of a server's log that are shown.
const WARNINGS: usize = 10;
/// How long a program may take to end after it was asked to.
const STOP: Duration = Duration::from_secs(60);

/// Where the programs are.
#[derive(Debug, Clone, clap::Args)]
pub struct ProgramOptions {
    /// Folder of leasewatch's programs [default: the one of this program].
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Folder for data directories; they are removed at the end. On a disk, not in memory.
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    scratch: PathBuf,
}

impl ProgramOptions {
    /// The path of one of leasewatch's programs.
    ///
    /// # Errors
    /// When it is not built.
    pub fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        let own = std::env::current_exe()?;
        let folder = self.programs.as_deref().or(own.parent()).unwrap_or(Path::new("."));
        let path = folder.join(name);
        let hint =
            "build it: cargo build --release -p leasewatch-server -p leasewatch-agent -p nvml-sim";
        anyhow::ensure!(path.is_file(), "{} is not there; {hint}", path.display());
        Ok(path)
    }

    /// A fresh folder that other accounts may pass through, as PostgreSQL has to.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn scratch(&self) -> anyhow::Result<TempDir> {
        let mode = std::fs::Permissions::from_mode(0o711);
        let mut folder = tempfile::Builder::new();
        folder.prefix("lwb-").permissions(mode);
        folder.tempdir_in(&self.scratch).context("no folder for data")
    }
}

/// A child that is asked to end when the value goes.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts a program that says nothing.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().with_context(|| format!("{:?}", quiet.get_program()))?;
        Ok(Self { child })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end and waits; after a minute it is killed.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        let deadline = Instant::now() + STOP;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                self.child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("a program could not be stopped: {error:#}");
        }
    }
}

/// `leasewatch-server serve` with its own PostgreSQL in a folder of its own.
#[derive(Debug)]
pub struct Server {
    // Fields are dropped in this order: the program first, then its data.
    running: Running,
    /// `http://127.0.0.1:port`.
    pub url: String,
    data: TempDir,
}

impl Server {
    /// Starts one on a free port; returns when it serves.
    ///
    /// # Errors
    /// With its last words when it does not.
    pub fn start(programs: &ProgramOptions) -> anyhow::Result<Self> {
        let data = programs.scratch()?;
        let mut command = Command::new(programs.path("leasewatch-server")?);
        command
            .args(["serve", "--open-enrollment", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data.path())
            .env("LEASEWATCH_LOG", "info,sqlx=warn")
            .env_remove("DATABASE_URL")
            .env_remove("DATABASE_ADMIN_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = command.spawn().context("the server does not start")?;
        let mut running = Running { child };
        let errors = running.child.stderr.take().context("the server has no log")?;
        let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let address = loop {
            let Some(line) = lines.next() else {
                anyhow::bail!("the server ended: {}", said.join("\n"));
            };
            if let Some((_, address)) = line.split_once("serving address=") {
                break address.split_whitespace().next().unwrap_or_default().to_owned();
            }
            said.push(line);
        };
        // Its log has to be read on, or it would wait; what it warns of belongs to the result.
        std::thread::spawn(move || {
            let notable = |line: &String| line.contains("WARN") || line.contains("ERROR");
            let mut told = 0;
            for line in lines.filter(notable) {
                told += 1;
                if told <= WARNINGS {
                    let line: String = line.chars().take(240).collect();
                    eprintln!("server: {line}");
                }
            }
        });
        Ok(Self { running, url: format!("http://{address}"), data })
    }

    /// The server's own use, and that of its PostgreSQL with all backends.
    ///
    /// # Errors
    /// When one of them is gone.
    pub fn usage(&self) -> anyhow::Result<(Usage, Usage)> {
        let path = self.data.path().join("postgres/data/postmaster.pid");
        let text = std::fs::read_to_string(&path).context("PostgreSQL does not run")?;
        let postmaster: u32 = text.lines().next().unwrap_or_default().trim().parse()?;
        // The postmaster is a child of the server, but counts there only once it has ended.
        Ok((process::usage(self.running.pid())?, process::usage_with_children(postmaster)?))
    }

    /// The most memory that the server itself ever had, in MiB.
    ///
    /// # Errors
    /// When it is gone.
    pub fn peak_mib(&self) -> anyhow::Result<f64> {
        process::peak_mib(self.running.pid())
    }

    /// Its data directory, where those that belong to the measurement may put theirs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.data.path()
    }

    /// The certificate that it shows over TLS.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.data.path().join("tls/certificate.pem")
    }

    /// The folder of PostgreSQL's socket.
    #[must_use]
    pub fn socket_folder(&self) -> PathBuf {
        self.data.path().join("postgres/run")
    }
}
