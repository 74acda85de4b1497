//! The real server program as a process, and what a browser would get from it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use serde_json::Value;

/// A running `leasewatch-server serve`. Dropped, it is killed.
pub(crate) struct RunningServer {
    child: Child,
    /// `127.0.0.1:port`.
    pub(crate) address: String,
}

impl RunningServer {
    /// Starts it on a free port; returns when it serves.
    pub(crate) fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, "127.0.0.1:0", &["--open-enrollment"])
    }

    /// The same with one promise broken on purpose; none with `None`, and the usual program.
    ///
    /// # Errors
    /// What it said when it did not come to serve.
    pub(crate) fn start_broken(data_dir: &Path, promise: Option<&str>) -> Result<Self, String> {
        let mut command = match promise {
            None => Command::new(env!("CARGO_BIN_EXE_leasewatch-server")),
            Some(_) => Command::new(sabotaged("leasewatch-server")),
        };
        command.env("LEASEWATCH_SABOTAGE", promise.unwrap_or_default());
        Self::launch(command, data_dir, "127.0.0.1:0", &["--open-enrollment"])
    }

    /// One that lets no node in without a token.
    pub(crate) fn start_closed(data_dir: &Path) -> Self {
        Self::start_with(data_dir, "127.0.0.1:0", &[])
    }

    /// The same on the address that one had before.
    pub(crate) fn start_again(data_dir: &Path, address: &str) -> Self {
        Self::start_with(data_dir, address, &[])
    }

    /// One on another address than this machine's own.
    pub(crate) fn start_on(data_dir: &Path, listen: &str) -> Self {
        Self::start_with(data_dir, listen, &[])
    }

    /// One with more options.
    pub(crate) fn start_with(data_dir: &Path, listen: &str, more: &[&str]) -> Self {
        let program = Command::new(env!("CARGO_BIN_EXE_leasewatch-server"));
        Self::launch(program, data_dir, listen, more).unwrap()
    }

    fn launch(
        mut program: Command,
        data_dir: &Path,
        listen: &str,
        more: &[&str],
    ) -> Result<Self, String> {
        let mut child = program
            .args(["serve", "--listen", listen, "--data-dir"])
            .arg(data_dir)
            .args(more)
            .env("LEASEWATCH_LOG", "info,sqlx=warn")
            // What a test uploads is small, and what is too large for one can be small too.
            .env("LEASEWATCH_UPLOAD_MIB_MAX", "1")
            // A developer's own database is not what is tested here.
            .env_remove("DATABASE_URL")
            .env_remove("DATABASE_ADMIN_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = child.wait();
                return Err(format!("the server ended:\n{}", said.join("\n")));
            };
            if let Some((_, address)) = line.split_once("serving address=") {
                break address.trim().to_owned();
            }
            said.push(line);
        };
        // Its log has to be read on, or the server would wait for us; the test shows it on failure.
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| eprintln!("{line}"))
        });
        Ok(Self { child, address })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(mut self) {
        self.child.wait().unwrap();
    }

    /// `http://127.0.0.1:port`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills it as a power button would, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The body of a page.
    pub(crate) fn get(&self, path: &str) -> String {
        let (status, body) = self.ask(path);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// A page's view struct.
    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// Rows of `hours.csv` of a node, as maps from column to cell.
    pub(crate) fn hours(&self, query: &str) -> Vec<std::collections::HashMap<String, String>> {
        let body = self.get(&format!("/hours.csv?{query}"));
        let mut reader = csv::Reader::from_reader(body.as_bytes());
        reader.deserialize().map(Result::unwrap).collect()
    }

    /// Status and body, over HTTP/1.0 so that the body ends with the connection.
    pub(crate) fn ask(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that was built to break promises; `scripts/sabotage` puts them beside the others.
pub(crate) fn sabotaged(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_leasewatch-server")).parent().unwrap();
    let program = folder.join("sabotage").join(name);
    assert!(program.exists(), "{} is not built: run scripts/sabotage", program.display());
    program
}

/// A data directory that the account of PostgreSQL can reach.
pub(crate) fn data_dir() -> tempfile::TempDir {
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    directory
}

/// Asks again until the answer is there; each look waits a little, and a minute is enough for
/// everything that is waited for here.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("waited a minute for: {what}");
}

/// A port that nothing listens on, for programs that have to know each other's before they start.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
