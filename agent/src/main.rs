//! The agent's program: starts the parts, waits for a signal, stops them in order.
//!
//! Exit codes: 0 stopped as asked, 1 failed, 2 wrong configuration, 3 another agent is running on
//! the same state directory. One thread for the socket, one for recording, few for sampling.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;

use clap::Parser;
use leasewatch_agent::clock::{Anchor, Instant};
use leasewatch_agent::config::{Cli, Command, Config, LogFormat};
use leasewatch_agent::enrollment::{EnrollmentError, Servers};
use leasewatch_agent::identity::{
    IdentityError, Instance, State, StateDir, load_or_create_key, put_aside,
};
use leasewatch_agent::observation::{CHANNEL_CAPACITY, LiveState};
use leasewatch_agent::recorder::{Epoch, Journal, Recorder, Writer};
use leasewatch_agent::sampler::{Sampler, SamplerOptions};
use leasewatch_agent::source::nvml::{SLICE_PREFIX, attached_gpus};
use leasewatch_agent::source::{Source, host};
use leasewatch_agent::uplink::{Shared, Uplink, UplinkOptions};
use leasewatch_core::evidence::chain::ClockSource;
use leasewatch_core::id::{ChainId, EpochId, GpuUuid, Hash};
use leasewatch_core::segment::{LifeUnitKind, StopReason};
use sha2::{Digest, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    leasewatch_proto::channel::install_cryptography();
    let Cli { command: Command::Run(args) } = Cli::parse();
    let config = match Config::new(*args) {
        Ok(config) => config,
        Err(error) => return refuse(&error, 2),
    };
    let Ok(filter) = EnvFilter::try_new(&config.log) else {
        return refuse(&"log: is not a filter such as info or leasewatch_agent=debug", 2);
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match config.log_format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    match start(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = match error.downcast_ref::<IdentityError>() {
                Some(IdentityError::InUse(_)) => 3,
                Some(IdentityError::Key { .. } | IdentityError::Elsewhere { .. }) => 2,
                _ if error.is::<EnrollmentError>() => 2,
                _ => 1,
            };
            refuse(&format_args!("{error:#}"), code)
        }
    }
}

#[expect(clippy::print_stderr, reason = "for whoever started the program by hand")]
fn refuse(why: &dyn std::fmt::Display, code: u8) -> ExitCode {
    eprintln!("leasewatch-agent: {why}");
    ExitCode::from(code)
}

fn start(config: &Config) -> anyhow::Result<()> {
    let state_dir = StateDir::open(&config.state_dir)?;
    let source = Source::open(&config.nvml_library);
    let state = state_of_this_machine(config, &state_dir, &source)?;
    let key = load_or_create_key(&state_dir)?;
    let servers = Servers::resolve(
        &state_dir,
        config.server.clone(),
        config.joining.as_ref(),
        state.enrolled.is_some(),
    )?;
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
        servers = ?servers.addresses,
        version = env!("CARGO_PKG_VERSION"),
        "agent started"
    );
    let shared =
        Shared { journal, state_dir: Arc::new(state_dir), live: Arc::new(OnceLock::new()) };
    // One thread: what is sent is small, and memory on a rented node is not ours.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let options = UplinkOptions {
        servers,
        tenant: config.tenant.clone(),
        provider: config.provider.clone(),
        node_name: config.name.clone(),
    };
    runtime.block_on(run(options, shared, sampler, anchor))
}

/// The state in the directory, unless that was used on another machine: then it is put aside, key
/// and all, and this machine joins as a node of its own.
fn state_of_this_machine(
    config: &Config,
    dir: &StateDir,
    source: &Source,
) -> anyhow::Result<State> {
    let here = Instance::observe(Path::new("/"));
    let state = State::load(dir, ChainId(random()?))?;
    let then = || state.gpus.iter().map(|gpu| gpu.uuid.clone()).filter(is_whole).collect();
    let last = Instance::last(dir);
    let moved_from =
        last.filter(|last| here.is_elsewhere(last, || (then(), attached_gpus(source))));
    let Some(last) = moved_from else {
        keep(&here, dir);
        return Ok(state);
    };
    if config.joining.is_none() {
        let (path, host_name) = (dir.path().to_owned(), last.host_name);
        return Err(IdentityError::Elsewhere { path, host_name }.into());
    }
    let aside = put_aside(dir)?;
    tracing::warn!(
        made_on = last.host_name,
        aside = %aside.display(),
        "the state directory was copied from another machine: it is put aside, and this machine \
         joins as a node of its own"
    );
    let state = State::load(dir, ChainId(random()?))?;
    keep(&here, dir);
    Ok(state)
}

/// A directory that cannot be written now is not a reason not to record.
fn keep(here: &Instance, dir: &StateDir) {
    if Instance::last(dir).as_ref() != Some(here)
        && let Err(error) = here.keep(dir)
    {
        tracing::warn!(error = %error, "which machine this is could not be noted");
    }
}

fn is_whole(uuid: &GpuUuid) -> bool {
    !uuid.as_str().starts_with(SLICE_PREFIX)
}

async fn run(
    options: UplinkOptions,
    shared: Shared,
    sampler: SamplerOptions,
    anchor: Anchor,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (uplink, mut welcomed) = Uplink::new(options, shared.clone());
    let (stop, stopped) = watch::channel(false);
    let uplink = tokio::spawn(uplink.run(stopped));
    let mut recording = None;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = welcomed.wait_for(|welcomed| *welcomed), if recording.is_none() => {
                recording = Some(Recording::start(&shared, sampler.clone(), anchor)?);
            }
        }
    }
    tracing::info!("stopping");
    if let Some(recording) = recording {
        tokio::task::spawn_blocking(move || recording.stop()).await?;
    }
    stop.send_replace(true);
    let waiting = uplink.await?;
    if waiting > 0 {
        tracing::warn!(
            segments = waiting,
            "stopped before the server had everything; the next start declares what is missing"
        );
    }
    tracing::info!("stopped");
    Ok(())
}

/// Sampler and recorder, from the first welcome to the end.
struct Recording {
    sampler: Sampler,
    recorder: thread::JoinHandle<()>,
}

impl Recording {
    fn start(shared: &Shared, options: SamplerOptions, anchor: Anchor) -> io::Result<Self> {
        let (to_recorder, observations) = mpsc::channel(CHANNEL_CAPACITY);
        let begun = Instant::now();
        let sampler = Sampler::start(options, to_recorder)?;
        let live: LiveState = sampler.live();
        let _ = shared.live.set(live.clone());
        let recorder = Recorder::new(Arc::clone(&shared.journal), live, anchor, &begun);
        let recorder = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || recorder.run(observations, StopReason::Shutdown))?;
        Ok(Self { sampler, recorder })
    }

    fn stop(self) {
        self.sampler.stop();
        if self.recorder.join().is_err() {
            tracing::error!("the recorder had panicked");
        }
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

fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(bytes)
}
