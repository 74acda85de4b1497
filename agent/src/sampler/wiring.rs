//! Looks now and then how each GPU hangs in its host.
//!
//! A thread of its own for each GPU, as for everything that asks the driver: one that hangs is left
//! alone, and not asked again before it came back. What was seen is told each time; whether that is
//! news, the fleet knows.

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use leasewatch_core::id::GpuUuid;

use super::Message;
use crate::source::nvml::{FoundGpu, Session};

/// Time between two looks at the same GPUs.
const LOOK_EVERY: Duration = Duration::from_secs(300);

/// Who was looked at when.
#[derive(Debug, Default)]
pub(super) struct WiringLooks {
    last: Option<(Instant, BTreeSet<GpuUuid>)>,
    /// GPUs whose thread has not come back.
    asked: Arc<Mutex<BTreeSet<GpuUuid>>>,
}

impl WiringLooks {
    /// Looks at `gpus`, when they are others than last time or that is long ago.
    pub(super) fn look(
        &mut self,
        session: &Arc<Session>,
        gpus: Vec<FoundGpu>,
        to: &Sender<Message>,
    ) {
        let names: BTreeSet<GpuUuid> = gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        let is_recent = |(at, before): &(Instant, BTreeSet<GpuUuid>)| {
            *before == names && at.elapsed() < LOOK_EVERY
        };
        if self.last.as_ref().is_some_and(is_recent) {
            return;
        }
        self.last = Some((Instant::now(), names));
        let gpus = Arc::new(gpus);
        for at in 0..gpus.len() {
            self.ask(session, (&gpus, at), to);
        }
    }

    fn ask(
        &self,
        session: &Arc<Session>,
        (gpus, at): (&Arc<Vec<FoundGpu>>, usize),
        to: &Sender<Message>,
    ) {
        let (session, gpus, to) = (Arc::clone(session), Arc::clone(gpus), to.clone());
        let Some(uuid) = gpus.get(at).map(|gpu| gpu.uuid.clone()) else { return };
        let asked = Arc::clone(&self.asked);
        if !asked.lock().unwrap_or_else(PoisonError::into_inner).insert(uuid.clone()) {
            return;
        }
        let thread = thread::Builder::new().name("gpu-wiring".into());
        let spawned = thread.spawn(move || {
            let wiring = gpus.get(at).map(|gpu| session.wiring(gpu, &gpus));
            drop(session);
            asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&uuid);
            if let Some(Ok(wiring)) = wiring {
                // Nobody is left to tell once the sampler has stopped.
                let _ = to.send(Message::Wiring { uuid, wiring: Box::new(wiring) });
            }
        });
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread to look how a GPU hangs in its host");
        }
    }
}
