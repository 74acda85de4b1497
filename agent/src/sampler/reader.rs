//! The threads of one GPU: one reads when told to, one waits for XIDs.
//!
//! Either may hang in the driver for ever. Nobody joins them: a thread that is not needed any more
//! ends by itself once its call returns.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;

use leasewatch_core::sample::Reading;

use super::Message;
use crate::clock;
use crate::source::nvml::{
    FAST_LANE, Failure, FoundGpu, Gone, GpuRead, Lane, ReadOptions, Session, TrackPlan, TrackSlot,
    watch_xids,
};

/// What the threads of one GPU need.
#[derive(Debug)]
pub(super) struct ReaderTask {
    pub(super) gpu: FoundGpu,
    /// The number that its answers carry.
    pub(super) id: u64,
    pub(super) track: TrackSlot,
    pub(super) options: ReadOptions,
    pub(super) orders: Receiver<Lane>,
    pub(super) is_over: Arc<AtomicBool>,
}

/// Starts both threads.
///
/// # Errors
/// When the operating system has no thread left.
pub(super) fn spawn(
    session: &Arc<Session>,
    task: ReaderTask,
    to: &Sender<Message>,
) -> io::Result<()> {
    let (gpu, is_over) = (task.gpu.clone(), Arc::clone(&task.is_over));
    let (nvml, replies) = (Arc::clone(session), to.clone());
    thread::Builder::new().name("gpu-read".into()).spawn(move || read(&nvml, &task, &replies))?;
    let (nvml, xids) = (Arc::clone(session), to.clone());
    thread::Builder::new().name("gpu-xid".into()).spawn(move || {
        let uuid = gpu.uuid.clone();
        let tell = |code| {
            // Nobody is left to tell once the sampler has stopped.
            let _ = xids.send(Message::Xid { uuid: uuid.clone(), code });
        };
        watch_xids(&nvml, &gpu, || is_over.load(Ordering::Relaxed), tell);
    })?;
    Ok(())
}

fn read(session: &Session, task: &ReaderTask, replies: &Sender<Message>) {
    let open = || session.reader(&task.gpu, Arc::clone(&task.track), task.options);
    let mut reader = open();
    while let Ok(lane) = task.orders.recv() {
        if reader.is_err() {
            reader = open();
        }
        let reply = match &mut reader {
            Ok(reader) => reader.read(lane),
            Err(failure) => refused(task, *failure),
        };
        let (uuid, reader) = (task.gpu.uuid.clone(), task.id);
        if replies.send(Message::Reply { uuid, reader, reply: reply.map(Box::new) }).is_err() {
            return;
        }
    }
}

/// What a GPU that gives no handle is recorded as: it is there, and every reading fails.
fn refused(task: &ReaderTask, failure: Failure) -> Result<GpuRead, Gone> {
    let reading = match failure {
        Failure::Lost(code) => return Err(Gone::Lost(code)),
        Failure::NoDriver(code) => return Err(Gone::NoDriver(code)),
        Failure::Unsupported | Failure::Failed(_) => Reading::Error,
    };
    let at_boot_ms = clock::boot_ms();
    Ok(GpuRead {
        at_boot_ms,
        readings: FAST_LANE.iter().map(|metric| (*metric, reading)).collect(),
        plan: *task.track.get_or_init(|| TrackPlan::poll(task.options.cadence_ms)),
        points: vec![(at_boot_ms, reading)],
        slices: None,
    })
}
