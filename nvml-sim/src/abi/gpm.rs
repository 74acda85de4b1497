//! GPM: means between two samples of the same device (Hopper and later).

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::Metric;

use super::code::{Code, Result};
use super::guard::{get, guard, put};
use super::layout::{Device, GpmMetric, GpmMetricsGet, GpmSampleHandle, GpmSupport};
use super::read::{Call, View, getters, look, supported};
use crate::physics::mig::MigSlice;
use crate::physics::totals::Means;
use crate::replay::Recording;
use crate::scenario::fault::Group;
use crate::state::{self, GpmInstance, GpmSnapshot, RecordedActivity};

const GPM: Call = Call::new(Group::Gpm, 520).by_call();
/// Metrics of a recording: of SMs, tensor cores and memory.
const RECORDED: [Metric; 3] = [Metric::SmActive, Metric::TensorActive, Metric::DramActive];
/// What NVML calls graphics activity, of slices only.
const GRAPHICS: u32 = 1;
/// Metrics that fit into one request.
const MOST_METRICS: u32 = 210;

getters! {
    nvmlGpmQueryIfStreamingEnabled: u32 = Call::new(Group::Gpm, 535), |view| {
        supported(has_gpm(view), 0)
    };
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlGpmQueryDeviceSupport(
    device: Device,
    out: *mut GpmSupport,
) -> u32 {
    guard(|| {
        let has = look(device, GPM, |view| Ok(has_gpm(view)))?;
        // SAFETY: the caller passes null or a struct with its version set, as NVML demands.
        unsafe {
            let version = get(out)?.version;
            put(out, GpmSupport { version, supported: has.into() })
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlGpmSampleAlloc(out: *mut GpmSampleHandle) -> u32 {
    guard(|| {
        let session = state::current()?;
        session.require(GPM.since)?;
        if out.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller passes null or a place for one handle, as NVML demands.
        unsafe { put(out, session.gpm_samples.insert(None)) }
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlGpmSampleFree(sample: GpmSampleHandle) -> u32 {
    guard(|| {
        let session = state::current()?;
        session.gpm_samples.remove(sample).map(drop).ok_or(Code::INVALID_ARGUMENT)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlGpmSampleGet(device: Device, sample: GpmSampleHandle) -> u32 {
    guard(|| take(device, sample, |view| supported(has_gpm(view), None)))
}

/// A GPU instance is as busy as the scenario says, or else as its card.
#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlGpmMigSampleGet(
    device: Device,
    gpu_instance: u32,
    sample: GpmSampleHandle,
) -> u32 {
    guard(|| {
        take(device, sample, |view| {
            supported(has_gpm(view), ())?;
            let cut = view.card.cut().ok_or(Code::NOT_SUPPORTED)?;
            let slice = cut.gpu_instance(gpu_instance).ok_or(Code::INVALID_ARGUMENT)?;
            Ok(Some(*slice))
        })
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlGpmMetricsGet(request: *mut GpmMetricsGet) -> u32 {
    guard(|| {
        let session = state::current()?;
        session.require(GPM.since)?;
        // SAFETY: the caller passes null or an initialised request, as NVML demands. Only the part
        // before the metrics is read here: callers may leave the rest of the array unset.
        let (count, first, second) = unsafe {
            (
                get(&raw const (*request).count)?,
                get(&raw const (*request).first)?,
                get(&raw const (*request).second)?,
            )
        };
        if count > MOST_METRICS {
            return Err(Code::INVALID_ARGUMENT);
        }
        let snapshot = |handle| session.gpm_samples.with(handle, |sample| *sample).flatten();
        let (Some(first), Some(second)) = (snapshot(first), snapshot(second)) else {
            return Err(Code::INVALID_ARGUMENT);
        };
        if first.slot != second.slot || first.part() != second.part() {
            return Err(Code::INVALID_ARGUMENT);
        }
        let means = second.means_since(&first);
        for at in 0..usize::try_from(count).map_err(|_| Code::INVALID_ARGUMENT)? {
            // SAFETY: `at` is below the number of metrics that the caller has set.
            unsafe { answer(&raw mut (*request).metrics[at], means, second.activity) }?;
        }
        Ok(())
    })
}

/// # Safety
/// `metric` points to a metric whose id is set.
unsafe fn answer(
    metric: *mut GpmMetric,
    means: Option<Means>,
    activity: Option<RecordedActivity>,
) -> Result<()> {
    // SAFETY: as promised.
    unsafe {
        let asked = get(&raw const (*metric).id)?;
        let found = match activity {
            Some(activity) => recorded(asked, activity),
            None => means.ok_or(Code::INVALID_ARGUMENT).and_then(|means| value(asked, means)),
        };
        put(&raw mut (*metric).code, found.err().map_or(Code::SUCCESS, |code| code.0))?;
        put(&raw mut (*metric).value, found.unwrap_or_default())?;
        put(&raw mut (*metric).short_name, std::ptr::null())?;
        put(&raw mut (*metric).long_name, std::ptr::null())?;
        put(&raw mut (*metric).unit, std::ptr::null())
    }
}

/// Percent, or MiB/s for transfers.
fn value(metric: u32, means: Means) -> Result<f64> {
    let whole = match metric {
        // Shares in thousandths of a percent: graphics, SM, occupancy, tensor, HMMA, DRAM.
        1 => means.busy_permille * 100,
        2 => means.busy_permille * 92,
        3 => means.busy_permille * 40,
        5 | 7 => means.tensor_permille * 100,
        10 => means.busy_permille * 55,
        4 | 6 | 9 | 11..=13 => 0,
        20 => means.pcie_tx_kib_s * 1_000 / 1_024,
        21 => means.pcie_rx_kib_s * 1_000 / 1_024,
        60 | 61 => means.nvlink_kib_s * 1_000 / 1_024,
        _ => return Err(Code::NOT_SUPPORTED),
    };
    let thousandths = u32::try_from(whole).map_err(|_| Code::UNKNOWN)?;
    Ok(f64::from(thousandths) / 1_000.0)
}

/// Percent, as it was recorded for the time up to the second sample.
fn recorded(metric: u32, activity: RecordedActivity) -> Result<f64> {
    let [sm, tensor, memory] = activity.permille;
    let permille = match metric {
        GRAPHICS => activity.busy_percent?.saturating_mul(10),
        2 => sm?,
        5 => tensor?,
        10 => memory?,
        _ => return Err(Code::NOT_SUPPORTED),
    };
    Ok(f64::from(u32::try_from(permille).map_err(|_| Code::UNKNOWN)?) / 10.0)
}

fn take(
    device: Device,
    sample: GpmSampleHandle,
    part: impl Fn(&View<'_>) -> Result<Option<MigSlice>>,
) -> Result<()> {
    let snapshot = look(device, GPM, |view| {
        let slice = part(view)?;
        let of_part = View { slice: slice.map(|slice| (0, slice)), ..*view };
        let instance = slice.map(|slice| {
            let MigSlice { gpu_instance, percent, .. } = slice;
            GpmInstance { gpu_instance, percent }
        });
        let (activity, totals) = (activity(&of_part), view.card.totals);
        Ok(GpmSnapshot { slot: view.card.slot, instance, totals, activity })
    })?;
    let keep = |kept: &mut Option<GpmSnapshot>| *kept = Some(snapshot);
    state::current()?.gpm_samples.with(sample, keep).ok_or(Code::INVALID_ARGUMENT)
}

/// What a card or a part of it had recorded; `None` where nothing is played. A whole GPU's
/// utilization is not GPM's.
fn activity(view: &View<'_>) -> Option<RecordedActivity> {
    let (recording, at_ms) = view.recording()?;
    let busy = view.slice.map(|_| recording.busy(at_ms).map_err(Code));
    Some(RecordedActivity {
        busy_percent: busy.unwrap_or(Err(Code::NOT_SUPPORTED)),
        permille: RECORDED.map(|metric| recording.reading(metric, at_ms).map_err(Code)),
    })
}

fn has_gpm(view: &View<'_>) -> bool {
    if let Some(replay) = &view.card.replay {
        let offers = |part: &Recording| RECORDED.iter().any(|metric| part.offers(*metric));
        let of_slices =
            || replay.recording.slices().any(|part| part.is_busy_known() || offers(part));
        return offers(&replay.recording) || of_slices();
    }
    view.card.board.model.gpm() == Some(true)
}
