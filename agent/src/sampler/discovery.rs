//! The thread that holds NVML: it opens the library, looks which GPUs there are, starts readers.
//!
//! Each GPU is asked for its name in a thread of its own, so one that hangs keeps nobody else from
//! being found. NVML itself may hang here too; readers that run already do not notice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Message;
use super::fleet::{Scan, ScanError};
use super::reader::{self, ReaderTask};
use super::wiring::WiringLooks;
use crate::source::Source;
use crate::source::nvml::{Failure, FoundGpu, OpenError, Session};

/// GPUs that are asked for their names, whatever the driver counts.
const INDEX_MAX: u32 = 256;
/// How long readers get to let go of a session that is closed.
const RELEASE: Duration = Duration::from_secs(10);

/// What the thread is told to do, in order.
#[derive(Debug)]
pub(super) enum Errand {
    Scan,
    Attach(Box<ReaderTask>),
    Reinitialise { generation: u64 },
}

type Named = (u64, u32, Result<FoundGpu, Failure>);

/// The thread's state.
#[derive(Debug)]
pub(super) struct Discovery {
    source: Source,
    to: Sender<Message>,
    patience: Duration,
    session: Option<Arc<Session>>,
    generation: u64,
    /// Number of the session, so that late names of an earlier one are told apart.
    opened: u64,
    names: (Sender<Named>, Receiver<Named>),
    /// Indexes whose thread has not come back.
    asked: BTreeSet<u32>,
    wiring: WiringLooks,
}

impl Discovery {
    pub(super) fn new(source: Source, patience: Duration, to: Sender<Message>) -> Self {
        Self {
            source,
            to,
            patience,
            session: None,
            generation: 0,
            opened: 0,
            names: channel(),
            asked: BTreeSet::new(),
            wiring: WiringLooks::default(),
        }
    }

    /// Runs errands until nobody sends any more.
    pub(super) fn run(mut self, errands: &Receiver<Errand>) {
        while let Ok(errand) = errands.recv() {
            match errand {
                Errand::Scan => {
                    let (generation, scan) = (self.generation, self.scan());
                    let found = scan.as_ref().map(|scan| scan.gpus.clone()).unwrap_or_default();
                    if self.to.send(Message::Scan { generation, scan }).is_err() {
                        return;
                    }
                    // After the scan, so that the GPUs are known by then.
                    if let Some(session) = &self.session {
                        self.wiring.look(session, found, &self.to);
                    }
                }
                Errand::Attach(task) => self.attach(*task),
                Errand::Reinitialise { generation } => {
                    self.generation = generation;
                    self.close();
                }
            }
        }
    }

    /// Dropping the task is the answer when there is no session or no thread: its orders find
    /// nobody.
    fn attach(&self, task: ReaderTask) {
        let Some(session) = &self.session else { return };
        let uuid = task.gpu.uuid.clone();
        if let Err(error) = reader::spawn(session, task, &self.to) {
            tracing::error!(gpu.uuid = %uuid, %error, "no thread for this GPU");
        }
    }

    fn scan(&mut self) -> Result<Scan, ScanError> {
        let session = self.open()?;
        let count = match session.device_count() {
            Ok(count) => count.min(INDEX_MAX),
            Err(failure) => return Err(self.not_counted(failure)),
        };
        self.ask_names(&session, count);
        let mut scan = Scan {
            gpus: Vec::new(),
            failures: Vec::new(),
            unanswered: 0,
            versions: session.versions().clone(),
        };
        self.collect_names(&mut scan);
        scan.unanswered = self.asked.iter().filter(|index| **index < count).count();
        if count == 0 {
            // NVML learns of new devices only when it is opened.
            drop(session);
            self.close();
        }
        Ok(scan)
    }

    fn open(&mut self) -> Result<Arc<Session>, ScanError> {
        if let Some(session) = &self.session {
            return Ok(Arc::clone(session));
        }
        let session = Session::open(&self.source).map_err(|error| {
            if let OpenError::Origin { .. } = error {
                tracing::error!(%error, "NVML is refused");
            }
            ScanError { code: error.code(), closed: true }
        })?;
        self.opened += 1;
        self.asked.clear();
        self.session = Some(Arc::clone(&session));
        Ok(session)
    }

    fn not_counted(&mut self, failure: Failure) -> ScanError {
        match failure {
            Failure::NoDriver(code) => {
                self.close();
                ScanError { code, closed: true }
            }
            Failure::Lost(code) | Failure::Failed(code) => ScanError { code, closed: false },
            Failure::Unsupported => ScanError { code: 3, closed: false },
        }
    }

    fn ask_names(&mut self, session: &Arc<Session>, count: u32) {
        for index in 0..count {
            if !self.asked.insert(index) {
                continue;
            }
            let (session, names, opened) = (Arc::clone(session), self.names.0.clone(), self.opened);
            let thread = thread::Builder::new().name("gpu-name".into());
            let spawned = thread.spawn(move || {
                let named = session.identify(index);
                drop(session);
                // The receiver lives as long as the process needs names.
                let _ = names.send((opened, index, named));
            });
            if let Err(error) = spawned {
                tracing::error!(%error, "no thread to ask a GPU for its name");
                self.asked.remove(&index);
            }
        }
    }

    fn collect_names(&mut self, scan: &mut Scan) {
        let deadline = Instant::now() + self.patience;
        while !self.asked.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let (opened, index, named) = match self.names.1.recv_timeout(left) {
                Ok(named) => named,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            };
            if opened != self.opened {
                continue;
            }
            self.asked.remove(&index);
            match named {
                Ok(gpu) => scan.gpus.push(gpu),
                Err(failure) => {
                    tracing::warn!(gpu.index = index, ?failure, "a GPU does not tell its name");
                    scan.failures.push(failure);
                }
            }
        }
    }

    /// Lets go of the session. NVML counts its users: only when the last one is gone does the next
    /// opening see the driver anew. A hung call is not waited for.
    fn close(&mut self) {
        let Some(session) = self.session.take() else { return };
        let deadline = Instant::now() + RELEASE;
        while Arc::strong_count(&session) > 1 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(50));
        }
    }
}
