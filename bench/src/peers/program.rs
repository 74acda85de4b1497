//! VictoriaMetrics and Prometheus as Debian packages them: started on loopback with a data
//! directory of their own, asked through their public interfaces alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use leasewatch_core::time::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

use crate::http::{Answer, Client, free_address, percent_encoded};
use crate::process::{self, Usage};
use crate::programs::{ProgramOptions, Running};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    VictoriaMetrics,
    Prometheus,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::VictoriaMetrics, Self::Prometheus];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::VictoriaMetrics => "VictoriaMetrics",
            Self::Prometheus => "Prometheus",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::VictoriaMetrics => "victoria-metrics",
            Self::Prometheus => "prometheus",
        }
    }
}

/// A running peer.
pub(super) struct Peer {
    kind: Kind,
    running: Running,
    pub(super) client: Client,
    data: TempDir,
}

impl Peer {
    pub(super) fn start(
        kind: Kind,
        folder: &Path,
        programs: &ProgramOptions,
    ) -> anyhow::Result<Self> {
        let data = programs.scratch()?;
        let address = free_address()?;
        let program = find(folder, kind.program())?;
        let mut command = Command::new(program);
        match kind {
            Kind::VictoriaMetrics => command
                .arg(format!("-storageDataPath={}", data.path().join("data").display()))
                .arg(format!("-httpListenAddr={address}"))
                .args(["-retentionPeriod=12", "-search.latencyOffset=0s"]),
            Kind::Prometheus => {
                let config = data.path().join("prometheus.yml");
                std::fs::write(&config, "global: {}\n")?;
                command
                    .arg(format!("--config.file={}", config.display()))
                    .arg(format!("--storage.tsdb.path={}", data.path().join("data").display()))
                    .arg(format!("--web.listen-address={address}"))
                    .args(["--web.enable-remote-write-receiver", "--web.enable-admin-api"])
            }
        };
        let running = Running::start(&mut command)?;
        let ready = match kind {
            Kind::VictoriaMetrics => "/health",
            Kind::Prometheus => "/-/ready",
        };
        let client = Client::connect_when_ready(address, ready)?;
        Ok(Self { kind, running, client, data })
    }

    pub(super) fn usage(&self) -> anyhow::Result<Usage> {
        process::usage(self.running.pid())
    }

    pub(super) fn write(&mut self, body: &[u8]) -> anyhow::Result<()> {
        let headers = super::remote_write::HEADERS;
        let answer = self.client.post("/api/v1/write", headers, body)?;
        done(&answer)
    }

    /// What came last becomes readable: VictoriaMetrics holds it back for a while.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        match self.kind {
            Kind::VictoriaMetrics => done(&self.client.get("/internal/force_flush")?),
            Kind::Prometheus => Ok(()),
        }
    }

    /// Bytes of everything that is kept for long, with indexes; and of the log before it.
    pub(super) fn bytes_on_disk(&mut self) -> anyhow::Result<(u64, u64)> {
        let data = self.data.path().join("data");
        match self.kind {
            Kind::VictoriaMetrics => {
                // The first answers before the index's last parts are on disk.
                done(&self.client.get("/internal/force_merge")?)?;
                done(&self.client.get("/internal/force_flush")?)?;
                self.until_settled(&data)?;
                Ok((process::bytes_below(&data), 0))
            }
            Kind::Prometheus => {
                done(&self.client.post("/api/v1/admin/tsdb/snapshot", "", &[])?)?;
                let wal = process::bytes_below(&data.join("wal"));
                Ok((process::bytes_below(&data.join("snapshots")), wal))
            }
        }
    }

    /// Merging goes on behind the answer: the size has to stay for three seconds.
    fn until_settled(&self, data: &Path) -> anyhow::Result<()> {
        let (mut last, mut same) = (0, 0);
        for _ in 0..120 {
            std::thread::sleep(std::time::Duration::from_millis(500));
            let bytes = process::bytes_below(data);
            same = if bytes == last { same + 1 } else { 0 };
            last = bytes;
            if same >= 6 {
                return Ok(());
            }
        }
        anyhow::bail!("{} does not come to rest", self.kind.name())
    }

    /// The one number of a query at an instant; `None` for an empty answer.
    pub(super) fn number(&mut self, query: &str, at: Timestamp) -> anyhow::Result<Option<f64>> {
        let seconds = at.0.div_euclid(1_000);
        let path = format!("/api/v1/query?time={seconds}&query={}", percent_encoded(query));
        let answer = self.client.get(&path)?;
        done(&answer)?;
        let json: Value = serde_json::from_slice(&answer.body)?;
        let text = json.pointer("/data/result/0/value/1").and_then(Value::as_str);
        text.map(|text| text.parse().context("a value that is no number")).transpose()
    }

    /// All readings of a GPU, each second of an hour.
    pub(super) fn gpu_hour(&mut self, gpu: &str, end: Timestamp) -> anyhow::Result<Answer> {
        let end_s = end.0.div_euclid(1_000);
        let query = percent_encoded(&format!("{{gpu=\"{gpu}\"}}"));
        let start_s = end_s - 3_600;
        let path = format!("/api/v1/query_range?start={start_s}&end={end_s}&step=1&query={query}");
        let answer = self.client.get(&path)?;
        done(&answer)?;
        Ok(answer)
    }
}

fn done(answer: &Answer) -> anyhow::Result<()> {
    let said = String::from_utf8_lossy(&answer.body);
    let said: String = said.chars().take(200).collect();
    anyhow::ensure!((200..300).contains(&answer.status), "{}: {said}", answer.status);
    Ok(())
}

/// The program in the folder, in a package that was unpacked there, or on the path.
pub fn find(folder: &Path, program: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = [folder.to_owned(), folder.join("usr/bin")];
    let mut places = places.into_iter().chain(std::env::split_paths(&path));
    let found = places.find_map(|place| Some(place.join(program)).filter(|path| path.is_file()));
    found.with_context(|| {
        format!("{program} is not there; scripts/bench fetches the package from Debian")
    })
}
