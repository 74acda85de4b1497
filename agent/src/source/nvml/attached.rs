//! Which GPUs there are, asked once and before anything else runs.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasewatch_core::id::GpuUuid;

use super::{Session, Source};

/// A driver that takes longer is not waited for: the thread that asked it stays behind.
const PATIENCE: Duration = Duration::from_secs(5);

/// The GPUs that NVML lists; empty when there is no answer within a few seconds.
#[must_use]
pub fn attached_gpus(source: &Source) -> BTreeSet<GpuUuid> {
    let (answer, answered) = mpsc::channel();
    let source = source.clone();
    let asked = thread::Builder::new().name("attached".to_owned()).spawn(move || {
        // Nobody waits any more when this fails.
        let _ = answer.send(listed(&source));
    });
    match asked {
        Ok(_) => answered.recv_timeout(PATIENCE).unwrap_or_default(),
        Err(_) => BTreeSet::new(),
    }
}

fn listed(source: &Source) -> BTreeSet<GpuUuid> {
    let Ok(session) = Session::open(source) else { return BTreeSet::new() };
    let count = session.device_count().unwrap_or(0);
    (0..count).filter_map(|index| Some(session.identify(index).ok()?.uuid)).collect()
}
