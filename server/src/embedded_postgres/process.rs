//! The running postmaster, and the thread that is its parent.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::binaries::Binaries;
use super::cluster::{Cluster, SOCKET_NAME};
use super::{EmbeddedError, Options};
use crate::store::Durability;

const READY_POLL: Duration = Duration::from_millis(5);
const STOP_PATIENCE: Duration = Duration::from_secs(60);
/// Partitions are many, and a query that cannot prune locks each of them.
const LOCKS_PER_TRANSACTION: &str = "max_locks_per_transaction=512";

/// Arguments of the hidden subcommand.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct PostgresArguments {
    /// Process id that must still be our parent.
    #[arg(long)]
    parent: i32,
    /// The postgres executable.
    #[arg(long)]
    program: PathBuf,
    /// Its arguments.
    #[arg(last = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Turns this process into PostgreSQL: asks for a fast shutdown at the death of the parent, makes
/// sure that the parent still lives, and replaces itself. Returns only an error.
#[must_use]
pub fn become_postgres(arguments: &PostgresArguments) -> io::Error {
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::INT)) {
        return error.into();
    }
    // The signal is sent for a death that comes; one that came before is seen here.
    if rustix::process::getppid() != Pid::from_raw(arguments.parent) {
        return io::Error::other("the server that started this is gone");
    }
    Command::new(&arguments.program).args(&arguments.arguments).exec()
}

/// A postmaster that accepts connections.
#[derive(Debug)]
pub(super) struct Running {
    pid: Pid,
    exit: watch::Receiver<Option<String>>,
}

impl Running {
    pub(super) async fn start(
        cluster: &Cluster,
        binaries: &Binaries,
        options: &Options,
    ) -> Result<Self, EmbeddedError> {
        // Opened here and executed through the descriptor: the account of PostgreSQL may not be
        // able to walk to where our executable lies (a clone below /root).
        let helper = File::open(&options.helper)
            .map_err(EmbeddedError::io(format!("open {}", options.helper.display())))?;
        let mut command =
            cluster.command(&PathBuf::from(format!("/proc/self/fd/{}", helper.as_raw_fd())));
        command.arg0("leasewatch-server").arg("internal-postgres");
        command.arg("--parent").arg(std::process::id().to_string());
        command.arg("--program").arg(binaries.program("postgres")).arg("--");
        command.args(server_arguments(cluster, options.durability));
        let log = cluster.open_log()?;
        command.stdout(log.try_clone().map_err(EmbeddedError::io("share the log"))?).stderr(log);

        let mut running = Self::keep(command).await?;
        drop(helper);
        running.until_ready(cluster).await?;
        Ok(running)
    }

    /// Spawns from a thread that then waits for the child and for nothing else: the death signal
    /// follows the thread that spawned, and a runtime's worker threads come and go.
    async fn keep(mut command: Command) -> Result<Self, EmbeddedError> {
        let (started, start) = tokio::sync::oneshot::channel();
        let (ended, exit) = watch::channel(None);
        let keeper = move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(child_pid(&child)));
            ended.send_replace(Some(wait_in_words(&mut child)));
        };
        let failed = || EmbeddedError::io("start PostgreSQL");
        std::thread::Builder::new()
            .name("postgres-keeper".into())
            .spawn(keeper)
            .map_err(failed())?;
        let pid = start.await.map_err(io::Error::other).flatten().map_err(failed())?;
        let pid = pid.ok_or_else(|| failed()(io::Error::other("no process id")))?;
        Ok(Self { pid, exit })
    }

    /// Ready when the socket accepts. That alone is not enough: a postmaster listens before its
    /// recovery is over and turns everybody away; its pid file says when it lets them in.
    async fn until_ready(&mut self, cluster: &Cluster) -> Result<(), EmbeddedError> {
        loop {
            if let Some(status) = self.exit.borrow().as_ref() {
                let message = format!("{status}: {}", cluster.log_tail());
                return Err(EmbeddedError::Failed { program: "postgres", message });
            }
            let socket = cluster.socket_dir().join(SOCKET_NAME);
            if says_ready(&cluster.data_dir(), self.pid)
                && UnixStream::connect(&socket).await.is_ok()
            {
                return Ok(());
            }
            tokio::time::sleep(READY_POLL).await;
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    pub(super) async fn exited(&self) -> String {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(status) => status.clone().unwrap_or_default(),
            Err(_) => "not known".to_owned(),
        }
    }

    pub(super) async fn stop(self) -> Result<(), EmbeddedError> {
        self.signal(Signal::INT);
        if tokio::time::timeout(STOP_PATIENCE, self.exited()).await.is_ok() {
            return Ok(());
        }
        self.signal(Signal::QUIT);
        let message =
            format!("did not end within {} s of a fast shutdown", STOP_PATIENCE.as_secs());
        Err(EmbeddedError::Failed { program: "postgres", message })
    }

    fn signal(&self, signal: Signal) {
        if self.exit.borrow().is_none() {
            // It may end at this very moment, which is what the signal is for.
            let _ = kill_process(self.pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::INT);
    }
}

fn server_arguments(cluster: &Cluster, durability: Durability) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-D".into(), cluster.data_dir().into()];
    let mut socket: OsString = "unix_socket_directories=".into();
    socket.push(cluster.socket_dir());
    let switch = match durability {
        Durability::Durable => "on",
        Durability::Throwaway => "off",
    };
    let settings = ["fsync", "full_page_writes", "synchronous_commit"]
        .map(|name| OsString::from(format!("{name}={switch}")));
    let fixed = [
        "listen_addresses=",
        "port=5432",
        "unix_socket_permissions=0700",
        "timezone=UTC",
        "log_timezone=UTC",
        "jit=off",
        LOCKS_PER_TRANSACTION,
    ];
    let fixed = fixed.map(OsString::from).into_iter();
    for setting in fixed.chain(settings).chain([socket]) {
        arguments.extend(["-c".into(), setting]);
    }
    arguments
}

fn says_ready(data_dir: &Path, pid: Pid) -> bool {
    let Ok(text) = fs::read_to_string(data_dir.join("postmaster.pid")) else {
        return false;
    };
    let mut lines = text.lines();
    let ours = lines.next().is_some_and(|line| line.trim() == pid.as_raw_pid().to_string());
    ours && lines.nth(6).is_some_and(|status| matches!(status.trim(), "ready" | "standby"))
}

fn child_pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn wait_in_words(child: &mut Child) -> String {
    child.wait().as_ref().map_or_else(ToString::to_string, ExitStatus::to_string)
}
