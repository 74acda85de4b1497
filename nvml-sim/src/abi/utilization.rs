//! Utilization: the current value, and the driver's own buffer of samples.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::Metric;

use super::code::{Code, Result};
use super::guard::{get, guard, put};
use super::layout::{Device, Sample, Utilization};
use super::read::{Call, View, getters, look, read, supported};
use crate::physics::instant::Instant;
use crate::replay::Replay;
use crate::scenario::fault::Group;

const VALUE_UNSIGNED_INT: u32 = 1;

getters! {
    /// Of the last whole tick of the driver's sampler. Not available under MIG.
    nvmlDeviceGetUtilizationRates: Utilization = Call::new(Group::Utilization, 0).by_call(), |view| {
        if let Some(replay) = &view.card.replay {
            return recorded(view, replay);
        }
        let shown = &view.card.shown;
        supported(!view.mig_on(), Utilization { gpu: shown.busy, memory: shown.memory_busy })
    };
}

/// One call for two readings: the GPU's decides whether there is an answer, and memory that was not
/// recorded is NVML's "not available".
fn recorded(view: &View<'_>, replay: &Replay) -> Result<Utilization> {
    const NOT_AVAILABLE: u32 = u32::MAX;
    let busy = replay.recording.busy(replay.at_ms()).map_err(Code)?;
    let gpu = u32::try_from(busy).map_err(|_| Code::UNKNOWN)?;
    let memory = view.recorded_as(Metric::MemoryBusy).and_then(Result::ok);
    Ok(Utilization { gpu, memory: memory.unwrap_or(NOT_AVAILABLE) })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetEncoderUtilization(
    device: Device,
    out: *mut u32,
    period_us: *mut u32,
) -> u32 {
    let call = Call::new(Group::Encoder, 0).of(Metric::EncoderBusy);
    // SAFETY: same contract.
    guard(|| unsafe { coder(device, call, |shown| shown.encoder, (out, period_us)) })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetDecoderUtilization(
    device: Device,
    out: *mut u32,
    period_us: *mut u32,
) -> u32 {
    let call = Call::new(Group::Decoder, 0).of(Metric::DecoderBusy);
    // SAFETY: same contract.
    guard(|| unsafe { coder(device, call, |shown| shown.decoder, (out, period_us)) })
}

/// # Safety
/// The pointers are null or point to places for one value each.
unsafe fn coder(
    device: Device,
    call: Call,
    value: impl Fn(&Instant) -> u32,
    (out, period_us): (*mut u32, *mut u32),
) -> Result<()> {
    let busy = read(device, call, |view| supported(!view.mig_on(), value(&view.card.shown)))?;
    let period = look(device, call, |view| Ok(1_000_000 / view.card.ticks_per_second))?;
    // SAFETY: as promised.
    unsafe {
        put(out, busy)?;
        put(period_us, period)
    }
}

/// The buffered samples that are newer than `last_seen_us`, oldest first. With `samples` null only
/// how many the buffer can hold. "Not found" when nothing is new.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetSamples(
    device: Device,
    kind: u32,
    last_seen_us: u64,
    value_type: *mut u32,
    count: *mut u32,
    samples: *mut Sample,
) -> u32 {
    guard(|| {
        let call = Call::new(Group::Samples, 0).by_call();
        let (capacity, list) = look(device, call, |view| buffered(view, kind, last_seen_us))?;
        // SAFETY: the caller passes null or places for one value each, as NVML demands.
        let room = unsafe {
            put(value_type, VALUE_UNSIGNED_INT)?;
            get(count)?
        };
        if samples.is_null() {
            // SAFETY: as above.
            return unsafe { put(count, capacity) };
        }
        if list.is_empty() {
            return Err(Code::NOT_FOUND);
        }
        let room = usize::try_from(room).map_err(|_| Code::INVALID_ARGUMENT)?;
        let written = list.len().min(room);
        for (at, sample) in list.into_iter().take(written).enumerate() {
            // SAFETY: `at` is below the number of samples that the caller has room for.
            unsafe { put(samples.add(at), sample) }?;
        }
        // SAFETY: as above.
        unsafe { put(count, u32::try_from(written).map_err(|_| Code::UNKNOWN)?) }
    })
}

/// The buffer's capacity and its newer samples.
fn buffered(view: &View<'_>, kind: u32, last_seen_us: u64) -> Result<(u32, Vec<Sample>)> {
    let value: fn(&Instant) -> u32 = match kind {
        0 => |shown| shown.power_mw,
        1 => |shown| shown.busy,
        2 => |shown| shown.memory_busy,
        3 => |shown| shown.encoder,
        4 => |shown| shown.decoder,
        5 => |shown| shown.sm_mhz,
        6 => |shown| shown.memory_mhz,
        7..=9 => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    supported(!view.mig_on(), ())?;
    let capacity = u32::try_from(view.card.sample_ring()).map_err(|_| Code::UNKNOWN)?;
    if let Some(replay) = &view.card.replay {
        let busy = replay.driver_samples(view.card.sample_ring()).filter(|_| kind == 1);
        let all = busy.ok_or(Code::NOT_SUPPORTED)?.into_iter().map(|(at_us, busy)| Sample {
            at_us: view.session.host_time_us(at_us),
            value: u64::from(busy),
        });
        return Ok((capacity, all.filter(|sample| sample.at_us > last_seen_us).collect()));
    }
    let garbage = view.card.active.garbage.has(Group::Samples);
    let all = view.card.samples.iter().map(|sample| Sample {
        at_us: view.session.host_time_us(sample.at_us),
        value: u64::from(if garbage { u32::MAX } else { value(&sample.instant) }),
    });
    Ok((capacity, all.filter(|sample| sample.at_us > last_seen_us).collect()))
}
