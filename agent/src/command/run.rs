//! `run`: starts the parts, waits for a signal, stops them in order.
//!
//! One thread for the socket, one for recording, few for sampling. `exec` starts the same parts
//! beside a job.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;

use clap::Args;
use leasewatch_core::evidence::chain::ClockSource;
use leasewatch_core::id::{EpochId, GpuUuid, Hash};
use leasewatch_core::segment::{LifeUnitKind, StopReason};
use sha2::{Digest, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing_subscriber::EnvFilter;

use super::machine::state_of_this_machine;
use super::once;
use crate::clock::{Anchor, Instant};
use crate::config::{Config, LogFormat, RunArgs};
use crate::enrollment::{EnrollmentError, Servers};
use crate::identity::{IdentityError, State, StateDir, load_or_create_key};
use crate::observation::{CHANNEL_CAPACITY, LiveState, Observation};
use crate::recorder::{Epoch, Journal, Recorder, Writer};
use crate::sampler::{Sampler, SamplerOptions};
use crate::source::nvml::SLICE_PREFIX;
use crate::source::{Source, host};
use crate::status;
use crate::uplink::{Shared, Uplink, UplinkOptions};

/// `run`.
#[derive(Debug, Default, Args)]
pub struct RunCommand {
    #[command(flatten)]
    config: RunArgs,
    /// Take one sample, print it and end. Nothing is recorded, sent or written
    #[arg(long)]
    once: bool,
    /// With --once: print JSON
    #[arg(long, requires = "once")]
    json: bool,
}

/// Runs the agent, or takes one sample.
#[must_use]
pub fn run(command: RunCommand) -> ExitCode {
    let config = match Config::new(command.config) {
        Ok(config) => config,
        Err(error) => return refuse(&error, 2),
    };
    if command.once {
        return once::once(&config, command.json);
    }
    begin_log(&config);
    match start(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&format_args!("{error:#}"), failure_code(&error)),
    }
}

/// Begins the log as it is configured.
pub(super) fn begin_log(config: &Config) {
    let filter = EnvFilter::new(&config.log);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match config.log_format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// The exit code of a start that failed.
pub(super) fn failure_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<IdentityError>() {
        Some(IdentityError::InUse(_)) => 3,
        Some(IdentityError::Key { .. } | IdentityError::Elsewhere { .. }) => 2,
        _ if error.is::<EnrollmentError>() => 2,
        _ => 1,
    }
}

#[expect(clippy::print_stderr, reason = "for whoever started the program by hand")]
pub(super) fn refuse(why: &dyn Display, code: u8) -> ExitCode {
    eprintln!("leasewatch-agent: {why}");
    ExitCode::from(code)
}

/// What a recording needs, before it begins.
pub(super) struct Prepared {
    pub(super) shared: Shared,
    sampler: SamplerOptions,
    anchor: Anchor,
}

/// Opens the state directory and the library.
pub(super) fn prepare(config: &Config) -> anyhow::Result<Prepared> {
    let state_dir = StateDir::open(&config.state_dir)?;
    let source = Source::open(&config.nvml_library);
    let state = state_of_this_machine(config, &state_dir, &source)?;
    let key = load_or_create_key(&state_dir)?;
    let anchor = Anchor::at(Instant::now());
    let welcomed_cadence = state.enrolled.as_ref().map(|enrolled| enrolled.cadence_ms);
    let root = Path::new("/");
    let epoch = Epoch {
        id: EpochId(random()?),
        life_unit: host::life_unit(root, anchor),
        origin: source.origin(),
        cadence_ms: config.cadence_ms.or(welcomed_cadence).unwrap_or(1_000),
        clock_source: clock_source(host::clock_source(root)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        digest: own_digest(),
    };
    let sampler = sampler_options(config, source, &state, &epoch);
    let writer = Writer { key, state_dir: config.state_dir.clone(), quota: config.quota };
    let journal = Arc::new(Journal::new(writer, epoch, state));
    tracing::info!(
        node.id = %journal.node(),
        chain.id = %journal.chain(),
        origin = journal.epoch().origin.name(),
        version = env!("CARGO_PKG_VERSION"),
        "agent started"
    );
    let shared =
        Shared { journal, state_dir: Arc::new(state_dir), live: Arc::new(OnceLock::new()) };
    Ok(Prepared { shared, sampler, anchor })
}

/// Runs the agent until a signal.
fn start(config: &Config) -> anyhow::Result<()> {
    let prepared = prepare(config)?;
    // One thread: what is sent is small, and memory on a rented node is not ours.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(until_signal(config, prepared))
}

async fn until_signal(config: &Config, prepared: Prepared) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (delivery, mut welcomed) = Delivery::start(config, &prepared.shared)?;
    let mut recording = None;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = welcomed.wait_for(|welcomed| *welcomed), if recording.is_none() => {
                recording = Some(Recording::start(&prepared)?);
            }
        }
    }
    tracing::info!("stopping");
    if let Some(recording) = recording {
        recording.stop().await?;
    }
    delivery.stop().await
}

/// The uplink, and the file that tells `status` how it is.
pub(super) struct Delivery {
    stop: watch::Sender<bool>,
    uplink: tokio::task::JoinHandle<u64>,
    status: tokio::task::JoinHandle<()>,
}

impl Delivery {
    /// Starts both. The flag becomes true with the first welcome ever.
    ///
    /// # Errors
    /// When it is not clear where to deliver.
    pub(super) fn start(
        config: &Config,
        shared: &Shared,
    ) -> Result<(Self, watch::Receiver<bool>), EnrollmentError> {
        let is_enrolled = shared.journal.enrolled().is_some();
        let (named, joining) = (config.server.clone(), config.joining.as_ref());
        let servers = Servers::resolve(&shared.state_dir, named, joining, is_enrolled)?;
        let addresses: Vec<String> = servers.addresses.iter().map(ToString::to_string).collect();
        let addresses = addresses.join(", ");
        tracing::info!(servers = addresses, "delivering");
        let options = UplinkOptions {
            servers,
            tenant: config.tenant.clone(),
            provider: config.provider.clone(),
            node_name: config.name.clone(),
        };
        let (uplink, welcomed) = Uplink::new(options, shared.clone());
        let connected = uplink.connected();
        let (stop, stopped) = watch::channel(false);
        let uplink = tokio::spawn(uplink.run(stopped));
        let told = status::Told::new(addresses, shared.clone(), connected);
        let status = tokio::spawn(told.keep_written());
        Ok((Self { stop, uplink, status }, welcomed))
    }

    /// Waits a little for the last acknowledgements.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let waiting = self.uplink.await?;
        self.status.abort();
        if waiting > 0 {
            tracing::warn!(segments = waiting, "stopped before the server had everything");
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// Sampler and recorder, from the first welcome to the end.
pub(super) struct Recording {
    sampler: Sampler,
    recorder: thread::JoinHandle<()>,
    /// The recorder's inbox, for what is not the sampler's to see.
    pub(super) to_recorder: mpsc::Sender<Observation>,
}

impl Recording {
    pub(super) fn start(prepared: &Prepared) -> io::Result<Self> {
        let Prepared { shared, sampler, anchor } = prepared;
        let (to_recorder, observations) = mpsc::channel(CHANNEL_CAPACITY);
        let begun = Instant::now();
        let sampler = Sampler::start(sampler.clone(), to_recorder.clone())?;
        let live: LiveState = sampler.live();
        let _ = shared.live.set(live.clone());
        let recorder = Recorder::new(Arc::clone(&shared.journal), live, *anchor, &begun);
        let recorder = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || recorder.run(observations, StopReason::Shutdown))?;
        Ok(Self { sampler, recorder, to_recorder })
    }

    /// Ends with a goodbye, once everything that was seen is sealed.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        // The recorder ends when nobody can tell it anything any more.
        drop(self.to_recorder);
        let (sampler, recorder) = (self.sampler, self.recorder);
        let stop = move || {
            sampler.stop();
            if recorder.join().is_err() {
                tracing::error!("the recorder had panicked");
            }
        };
        Ok(tokio::task::spawn_blocking(stop).await?)
    }
}

fn sampler_options(
    config: &Config,
    source: Source,
    state: &State,
    epoch: &Epoch,
) -> SamplerOptions {
    let mut options = SamplerOptions::new(source, config.state_dir.clone());
    options.timing.cadence_ms = epoch.cadence_ms;
    options.process_counts = config.process_lists;
    // A container that restarts may be given other cards: that is no replacement.
    let is_same_life = state.life_unit == Some(epoch.life_unit.id);
    let is_all = is_same_life || epoch.life_unit.kind == LifeUnitKind::Host;
    // A slice that is not there any more was cut away in any case.
    let is_known = |uuid: &GpuUuid| is_all || uuid.as_str().starts_with(SLICE_PREFIX);
    let known = state.gpus.iter().filter(|gpu| is_known(&gpu.uuid));
    options.known = known.map(|gpu| (gpu.bus_id.clone(), gpu.uuid.clone())).collect();
    options
}

fn clock_source(name: &str) -> ClockSource {
    match name {
        "chrony" | "systemd-timesyncd" | "ntpd" => ClockSource::Ntp,
        "ptp4l" => ClockSource::Ptp,
        _ => ClockSource::Unknown,
    }
}

/// SHA-256 of the program that runs, so that evidence can name it.
fn own_digest() -> Option<Hash> {
    let mut program = std::fs::File::open("/proc/self/exe").ok()?;
    let mut digest = Sha256::new();
    let mut buffer = [0; 64 * 1_024];
    loop {
        match io::Read::read(&mut program, &mut buffer).ok()? {
            0 => return Some(Hash(digest.finalize().into())),
            length => digest.update(&buffer[..length]),
        }
    }
}

/// Bytes from the system.
pub(super) fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(bytes)
}
