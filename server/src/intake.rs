//! Logs and recordings that somebody uploaded, on their way to the importer: their files, the queue, and what
//! becomes of each.
//!
//! In memory but for the files, and bounded: [`FILES_MAX`] files at a time, the last
//! [`UPLOADS_KEPT`] imports, and nothing of either after a restart. Not here: who uploads
//! (`http`), and reading a log (`import`).

mod outcome;
mod progress;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasewatch_core::id::Slug;
use leasewatch_core::time::{Timestamp, Zone};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

pub use outcome::{Failure, ImportReport, Problem, Problems, RecordingFault, RecordingReport};
pub use progress::{Progress, Step};

/// Files that arrive, wait or are read at one time.
pub const FILES_MAX: usize = 8;
/// Imports that can still be looked at.
pub const UPLOADS_KEPT: usize = 50;

/// Which tool wrote a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// `nvidia-smi`: CSV, or XML snapshots.
    Smi,
    /// A monitoring script: JSON lines.
    Jsonl,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadKind {
    /// A log of another tool.
    Log(LogKind),
    /// An archive of what `leasewatch-agent record` made.
    Recording,
}

/// Seconds with up to three digits after the point, as milliseconds: 0.001 to 3600 seconds.
#[must_use]
pub fn cadence_ms(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction:0<3}");
    let valid = fraction.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit());
    let ms = digits.parse::<u32>().ok().filter(|_| valid && !whole.is_empty());
    ms.filter(|ms| (1..=3_600_000).contains(ms))
}

/// How an uploaded file is to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The name of the file where it came from: inert text, never a path.
    pub file_name: String,
    /// What it is; `None` to find out.
    pub kind: Option<UploadKind>,
    /// Name of the node that the hours are booked on.
    pub node: String,
    /// The tenant that the node belongs to.
    pub tenant: Slug,
    /// The provider of the node.
    pub provider: Slug,
    /// Zone of a log's local times.
    pub zone: Zone,
    /// Names of the columns, for a log without a header.
    pub columns: Option<String>,
    /// Time between two rows of one GPU; the median when not given.
    pub cadence_ms: Option<u32>,
    /// Refuse a log with any line that is not understood.
    pub strict: bool,
}

/// One import.
#[derive(Debug, Clone)]
pub struct Upload {
    /// Its public name: 16 hex digits.
    pub id: String,
    /// What was asked.
    pub order: Order,
    /// When it was asked.
    pub at: Timestamp,
    /// How far it is.
    pub state: State,
}

/// How far an import is.
#[derive(Debug, Clone)]
pub enum State {
    /// Behind others.
    Waiting,
    /// In work.
    Running(Progress),
    /// Done.
    Done(Arc<ImportReport>),
    /// Done, of a recording.
    Recorded(Arc<RecordingReport>),
    /// Not imported.
    Failed(Arc<Failure>),
}

impl State {
    /// True when nothing more will happen.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Recorded(_) | Self::Failed(_))
    }
}

/// As many files are here as there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{FILES_MAX} files are being imported already")]
pub struct Full;

/// All uploads. Clones share them.
#[derive(Debug, Clone)]
pub struct Intake(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    bytes_max: u64,
    room: Arc<Semaphore>,
    queue: mpsc::Sender<Job>,
    /// Latest last.
    uploads: Mutex<VecDeque<Upload>>,
}

/// A file that is here, or arrives. Dropped, it is removed.
#[derive(Debug)]
pub struct HeldFile {
    path: PathBuf,
    _room: OwnedSemaphorePermit,
}

impl HeldFile {
    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "an uploaded file could not be removed");
        }
    }
}

/// An upload whose turn it is.
#[derive(Debug)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// What is asked.
    pub order: Order,
    /// The log or recording.
    pub file: HeldFile,
}

/// The end of the queue, for the one who imports.
#[derive(Debug)]
pub struct Queue {
    jobs: mpsc::Receiver<Job>,
    intake: Intake,
}

impl Intake {
    /// Opens the folder for uploads of at most `bytes_max`, and empties it: what a server that was
    /// killed left there was not imported, or is.
    ///
    /// # Errors
    /// The folder cannot be made or emptied.
    pub fn open(folder: PathBuf, bytes_max: u64) -> io::Result<(Self, Queue)> {
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir_all(&folder)?,
        }
        let (queue, jobs) = mpsc::channel(FILES_MAX);
        let room = Arc::new(Semaphore::new(FILES_MAX));
        let uploads = Mutex::default();
        let intake = Self(Arc::new(Inner { folder, bytes_max, room, queue, uploads }));
        Ok((intake.clone(), Queue { jobs, intake }))
    }

    /// The largest file that is taken.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max
    }

    /// Makes room for a file, which the caller then writes.
    ///
    /// # Errors
    /// [`Full`]
    pub fn hold(&self) -> Result<HeldFile, Full> {
        let room = Arc::clone(&self.0.room).try_acquire_owned().map_err(|_| Full)?;
        Ok(HeldFile { path: self.0.folder.join(random_name()), _room: room })
    }

    /// Puts a file that has arrived into the queue. Returns the id of the import.
    ///
    /// # Errors
    /// [`Full`], which cannot be while each file has room.
    pub fn submit(&self, file: HeldFile, order: Order, at: Timestamp) -> Result<String, Full> {
        let id = random_name();
        let upload = Upload { id: id.clone(), order: order.clone(), at, state: State::Waiting };
        let mut uploads = self.uploads();
        self.0.queue.try_send(Job { id: id.clone(), order, file }).map_err(|_| Full)?;
        uploads.push_back(upload);
        if uploads.len() > UPLOADS_KEPT
            && let Some(oldest) = uploads.iter().position(|upload| upload.state.is_over())
        {
            uploads.remove(oldest);
        }
        Ok(id)
    }

    /// One import, and how many wait before it.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(Upload, usize)> {
        let uploads = self.uploads();
        let at = uploads.iter().position(|upload| upload.id == id)?;
        let before = uploads.iter().take(at).filter(|upload| !upload.state.is_over()).count();
        uploads.get(at).map(|upload| (upload.clone(), before))
    }

    /// The imports that can still be looked at, latest first, and how many wait before each.
    #[must_use]
    pub fn latest(&self) -> Vec<(Upload, usize)> {
        let ids: Vec<String> =
            self.uploads().iter().rev().map(|upload| upload.id.clone()).collect();
        ids.iter().filter_map(|id| self.find(id)).collect()
    }

    /// Says how far an import is.
    pub fn set(&self, id: &str, state: State) {
        if let Some(upload) = self.uploads().iter_mut().find(|upload| upload.id == id) {
            upload.state = state;
        }
    }

    // Each entry is replaced whole, so a panic elsewhere leaves nothing half-written.
    fn uploads(&self) -> MutexGuard<'_, VecDeque<Upload>> {
        self.0.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Waits for the next upload; `None` when there will be none.
    pub async fn next(&mut self) -> Option<Job> {
        self.jobs.recv().await
    }

    /// For telling how far it is.
    #[must_use]
    pub fn intake(&self) -> &Intake {
        &self.intake
    }
}

/// 16 hex digits that nobody can guess, and that differ after a restart.
fn random_name() -> String {
    let mut bytes = [0_u8; 8];
    // Without randomness the second upload would take the first one's name; the system has it.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(file_name: &str) -> Order {
        Order {
            file_name: file_name.to_owned(),
            kind: None,
            node: "n".to_owned(),
            tenant: Slug::new("default").unwrap(),
            provider: Slug::new("default").unwrap(),
            zone: Zone::UTC,
            columns: None,
            cadence_ms: None,
            strict: false,
        }
    }

    #[test]
    fn a_cadence_is_seconds() {
        assert_eq!(
            ["5", "0.001", "3600", "1.5"].map(cadence_ms),
            [5_000, 1, 3_600_000, 1_500].map(Some)
        );
        for wrong in ["", "0", "3601", "1.2345", "-1", "1e3", ".5", "1,5"] {
            assert_eq!(cadence_ms(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn files_have_room_until_they_are_imported_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let left_behind = folder.path().join("up/old");
        std::fs::create_dir_all(left_behind.parent().unwrap()).unwrap();
        std::fs::write(&left_behind, "x").unwrap();
        let (intake, mut queue) = Intake::open(folder.path().join("up"), 10).unwrap();
        assert!(!left_behind.exists());
        for number in 0..FILES_MAX {
            let file = intake.hold().unwrap();
            std::fs::write(file.path(), "log").unwrap();
            intake.submit(file, order(&format!("{number}.csv")), Timestamp(0)).unwrap();
        }
        assert!(intake.hold().is_err());
        let job = queue.next().await.unwrap();
        assert_eq!((job.order.file_name.as_str(), intake.find(&job.id).unwrap().1), ("0.csv", 0));
        let path = job.file.path().to_owned();
        assert!(path.exists());
        drop(job);
        assert!(!path.exists() && intake.hold().is_ok());
        let (last, before) = &intake.latest()[0];
        assert_eq!((last.order.file_name.as_str(), *before), ("7.csv", 7));
        assert!(intake.find("0000").is_none());
    }

    #[tokio::test]
    async fn the_oldest_that_is_over_is_forgotten_and_one_that_runs_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (intake, mut queue) = Intake::open(folder.path().join("up"), 10).unwrap();
        let mut ids = Vec::new();
        for number in 0..=UPLOADS_KEPT {
            let file = intake.hold().unwrap();
            ids.push(intake.submit(file, order("x"), Timestamp(0)).unwrap());
            queue.next().await.unwrap();
            let failed = State::Failed(Arc::new(Failure::NodeName));
            intake.set(&ids[number], if number == 0 { State::Waiting } else { failed });
        }
        assert_eq!(intake.latest().len(), UPLOADS_KEPT);
        assert!(intake.find(&ids[0]).is_some() && intake.find(&ids[1]).is_none());
    }
}
