//! Samples all GPUs of the node once a tick and tells the recorder what it saw.
//!
//! `fleet` and `watch` decide, without threads and clocks; `coordinator` ticks; `discovery` holds
//! NVML; `reader` holds the threads of one GPU. A thread that hangs in the driver is given up and
//! never joined. Nothing here turns boot time into wall time, and nothing here records.

mod changes;
mod coordinator;
mod discovery;
mod fleet;
mod outbox;
mod plausible;
mod reader;
mod slices;
mod watch;
mod wiring;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{HostMetric, Reading};
use leasewatch_core::segment::{GpuWiring, WorkDisk};
use tokio::sync::mpsc;

use crate::clock;
use crate::observation::{LiveState, Observation};
use crate::source::Source;
use crate::source::host::{self, HostReader};
use crate::source::nvml::{Gone, GpuRead};
use coordinator::Coordinator;
use discovery::Discovery;
use fleet::{Scan, ScanError};
use outbox::Outbox;

pub use fleet::Timing;

/// Reads of the host between two looks at its disk.
const DISK_EACH_READS: u64 = 20;

/// What the sampler does.
#[derive(Debug, Clone)]
pub struct SamplerOptions {
    /// The NVML library; its origin is the node's.
    pub source: Source,
    /// GPUs that the node had in an earlier epoch of the same life, by place. One that is not
    /// there is reported missing, one that is another is reported replaced. In a container, leave
    /// out the GPUs that an earlier life had: an instance that restarts may be given other cards.
    /// Slices are looked for in any case.
    pub known: Vec<(BusId, GpuUuid)>,
    /// How often things happen.
    pub timing: Timing,
    /// Take the driver's own utilization samples where they are good enough, instead of polling.
    pub driver_samples: bool,
    /// Count compute processes.
    pub process_counts: bool,
    /// Where `/proc` and `/sys` are: `/`.
    pub host_root: PathBuf,
    /// Where the agent keeps its state; its free space is a reading.
    pub state_dir: PathBuf,
    /// Where the tenant works: the disk below it is told. Absolute.
    pub work_dir: PathBuf,
}

impl SamplerOptions {
    /// The defaults: 1 Hz, nothing known from before, no process counts, and the directory that
    /// the agent was started in as the working directory.
    #[must_use]
    pub fn new(source: Source, state_dir: PathBuf) -> Self {
        Self {
            source,
            known: Vec::new(),
            timing: Timing::default(),
            driver_samples: true,
            process_counts: false,
            host_root: PathBuf::from("/"),
            state_dir,
            work_dir: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        }
    }
}

/// What threads tell the coordinator.
#[derive(Debug)]
enum Message {
    Reply { uuid: GpuUuid, reader: u64, reply: Result<Box<GpuRead>, Gone> },
    Scan { generation: u64, scan: Result<Scan, ScanError> },
    Xid { uuid: GpuUuid, code: i64 },
    Wiring { uuid: GpuUuid, wiring: Box<GpuWiring> },
    Host(Vec<(HostMetric, Reading)>),
    Disk(WorkDisk),
    Stop,
}

/// A running sampler. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Sampler {
    live: LiveState,
    messages: Sender<Message>,
    coordinator: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the threads. The first tick is at the next multiple of the cadence.
    ///
    /// # Errors
    /// When the operating system has no thread left.
    pub fn start(
        options: SamplerOptions,
        to_recorder: mpsc::Sender<Observation>,
    ) -> io::Result<Self> {
        let live = LiveState::default();
        let (messages, inbox) = channel();
        let (errands, errand_inbox) = channel();
        let patience = Duration::from_millis(u64::try_from(options.timing.stall_ms).unwrap_or(0));
        let discovery = Discovery::new(options.source.clone(), patience, messages.clone());
        let named = |name: &str| thread::Builder::new().name(name.into());
        named("nvml").spawn(move || discovery.run(&errand_inbox))?;
        let host = HostReader::new(&options.host_root, &options.state_dir);
        let period = host_period(&options.timing);
        let to_coordinator = messages.clone();
        let disk =
            DiskLook { root: options.host_root.clone(), directory: options.work_dir.clone() };
        named("host").spawn(move || read_host((host, disk), period, &to_coordinator))?;
        let outbox = Outbox::new(to_recorder);
        let coordinator = Coordinator::new(options, errands, outbox, live.clone());
        let coordinator = named("sampler").spawn(move || coordinator.run(&inbox))?;
        Ok(Self { live, messages, coordinator: Some(coordinator) })
    }

    /// Latest values, shared with the running sampler.
    #[must_use]
    pub fn live(&self) -> LiveState {
        self.live.clone()
    }

    /// Stops ticking and returns when the last observation was sent. Threads that hang in the
    /// driver are left behind.
    pub fn stop(mut self) {
        // It may have stopped by itself, when the recorder went away.
        let _ = self.messages.send(Message::Stop);
        if let Some(coordinator) = self.coordinator.take()
            && coordinator.join().is_err()
        {
            tracing::error!("the sampler had panicked");
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
    }
}

fn host_period(timing: &Timing) -> Duration {
    Duration::from_millis(u64::from(timing.cadence_ms) * u64::from(timing.slow_every_ticks.max(1)))
}

/// Where the disk of the working directory is looked for.
#[derive(Debug)]
struct DiskLook {
    root: PathBuf,
    directory: PathBuf,
}

/// Reads the host until the coordinator is gone, and every now and then which disk it works on.
fn read_host((mut host, disk): (HostReader, DiskLook), period: Duration, to: &Sender<Message>) {
    for read in 0_u64.. {
        if read % DISK_EACH_READS == 0 {
            let seen = host::work_disk(&disk.root, &disk.directory);
            // The next send notices that nobody is there.
            let _ = to.send(Message::Disk(seen));
        }
        if to.send(Message::Host(host.read(clock::boot_ms()))).is_err() {
            return;
        }
        thread::sleep(period);
    }
}
