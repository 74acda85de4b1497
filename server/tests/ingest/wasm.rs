//! PostgreSQL with TimescaleDB as a process: `scripts/timescale/serve.mjs`, one backend for
//! everybody. Not here: anything that could start a second one; each test would need 10 s for it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

use leasewatch_server::store::Db;

use crate::support::TestDb;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/timescale/serve.mjs");

/// A running server with the extension and nothing else. It has one connection at a time: close
/// one before another is opened, or the opening waits.
pub struct Wasm {
    port: u16,
    child: Child,
    // The server ends when this does, also where nobody drops anything.
    _life: ChildStdin,
}

impl Wasm {
    /// Starts it; returns when it answers.
    pub fn start() -> Self {
        let mut child = Command::new("node")
            .arg(SCRIPT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let life = child.stdin.take().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let port = said.strip_prefix("ready ").and_then(|port| port.trim().parse().ok());
        let port = port.unwrap_or_else(|| {
            panic!("{SCRIPT} says {said:?}; are its packages there? ./test installs them")
        });
        Self { port, child, _life: life }
    }

    /// The address for a connection as this role. The database cannot be chosen.
    pub fn url(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/template1?sslmode=disable", self.port)
    }

    /// The connection that is there, as a database of a test.
    pub async fn database(&self) -> TestDb {
        let (url, admin_url) = (self.url("leasewatch_login"), self.url("postgres"));
        TestDb { db: Db::connect(&url, 1).await.unwrap(), url, admin_url }
    }
}

impl Drop for Wasm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
