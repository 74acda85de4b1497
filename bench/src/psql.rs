//! Questions to the database of a server that is measured, through PostgreSQL's own client: this
//! crate has no database driver, and what it asks is for the measurement alone.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// The client and the socket it goes to.
#[derive(Debug, Clone)]
pub struct Psql {
    program: PathBuf,
    socket_folder: PathBuf,
}

impl Psql {
    /// The newest client below `/usr/lib/postgresql`, or the one on the path.
    #[must_use]
    pub fn new(socket_folder: &Path) -> Self {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let clients = versions.map(|version| version.path().join("bin/psql"));
        let newest = clients.filter(|path| path.is_file()).max();
        let program = newest.unwrap_or_else(|| PathBuf::from("psql"));
        Self { program, socket_folder: socket_folder.to_owned() }
    }

    fn command(&self, sql: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "leasewatch"])
            .args(["-d", "leasewatch", "-h"])
            .arg(&self.socket_folder)
            .args(["-c", sql])
            .stdin(Stdio::null());
        command
    }

    /// The lines that a statement gives.
    ///
    /// # Errors
    /// With what the client said.
    pub fn lines(&self, sql: &str) -> anyhow::Result<Vec<String>> {
        let output = self.command(sql).output().context("psql does not start")?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "psql: {}", said.trim());
        Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
    }

    /// The one number that a query gives.
    ///
    /// # Errors
    /// As [`Psql::lines`], and when it is no number.
    pub fn number(&self, sql: &str) -> anyhow::Result<f64> {
        let lines = self.lines(sql)?;
        let line = lines.first().with_context(|| format!("no row: {sql}"))?;
        line.trim().parse().with_context(|| format!("{line} is no number"))
    }

    /// Calls `each` for every line, without keeping them.
    ///
    /// # Errors
    /// As [`Psql::lines`], and those of `each`.
    pub fn each_line(
        &self,
        sql: &str,
        mut each: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut child = self.command(sql).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("psql has no output")?;
        for line in BufReader::new(output).lines() {
            each(&line?)?;
        }
        anyhow::ensure!(child.wait()?.success(), "psql failed");
        Ok(())
    }
}
