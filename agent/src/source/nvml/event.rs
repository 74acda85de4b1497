//! XIDs as NVML delivers them: one event set for each GPU, waited for in a thread of its own.
//!
//! Only critical XIDs are asked for; ECC errors come from counters, clocks and power states from
//! readings. A GPU that offers no events ends the thread: its XIDs are not seen, which is not an
//! error of the GPU.

use std::time::Duration;

use nvml_wrapper::bitmasks::event::EventTypes;

use super::failure::{Failure, TIMEOUT};
use super::{FoundGpu, Session, checked};
use crate::source::nvml_raw;

/// How long one wait takes, and so how long a session may be held that others want to close.
const WAIT_MS: u32 = 500;

impl Session {
    fn xid_set(&self, gpu: &FoundGpu) -> Result<nvml_wrapper::EventSet<'_>, Failure> {
        let device = self.device(gpu)?;
        let mask = checked(device.supported_event_types())? & EventTypes::CRITICAL_XID_ERROR;
        if mask.is_empty() {
            return Err(Failure::Unsupported);
        }
        // Registering consumes the set and frees it on any error, so each GPU has its own.
        checked(
            device
                .register_events(mask, checked(self.nvml.create_event_set())?)
                .map_err(|e| e.error),
        )
    }
}

/// Calls `on_xid` with the code of each XID of `gpu` until `is_over` says so, or until the driver
/// is gone or offers no events.
pub fn watch_xids(
    session: &Session,
    gpu: &FoundGpu,
    is_over: impl Fn() -> bool,
    on_xid: impl Fn(i64),
) {
    let set = match session.xid_set(gpu) {
        Ok(set) => set,
        Err(failure) => {
            tracing::info!(gpu.uuid = %gpu.uuid, ?failure, "no XID events from this GPU");
            return;
        }
    };
    while !is_over() {
        match nvml_raw::wait_event(&set, WAIT_MS) {
            Ok(event) if event.kind == EventTypes::CRITICAL_XID_ERROR.bits() => {
                on_xid(i64::try_from(event.data).unwrap_or(i64::MAX));
            }
            Ok(_) | Err(TIMEOUT) => {}
            Err(code) => match Failure::from_code(code) {
                Failure::NoDriver(_) | Failure::Unsupported => return,
                // A lost GPU may answer at once; do not spin on it.
                Failure::Lost(_) | Failure::Failed(_) => {
                    std::thread::sleep(Duration::from_millis(u64::from(WAIT_MS)));
                }
            },
        }
    }
}
