//! The one unsafe module: NVML calls that the wrapper lacks or gets wrong.
//!
//! Each function makes one C call and returns plain numbers or NVML's own return code. What a code
//! means is decided in `nvml::failure`. Field ids are passed through as given: the wrapper's
//! renumbering for drivers from 580.82 on does not apply to raw calls.
#![expect(unsafe_code, reason = "raw NVML calls; every block states why it is sound")]

use std::ffi::{OsStr, c_uint, c_ulonglong};

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlEventData_t, nvmlFieldValue_t, nvmlMemory_t, nvmlReturn_t, nvmlValue_t,
};

/// The symbol that every build of `nvml-sim` exports and no NVIDIA library has.
const SIMULATION_MARK: &[u8] = b"leasewatch_nvml_sim_version\0";

/// NVML's return code for a missing symbol: what the library itself says about a function that
/// its driver does not know.
const FUNCTION_NOT_FOUND: nvmlReturn_t = 13;

/// NVML's return code for a shared library that cannot be found or loaded.
const LIBRARY_NOT_FOUND: nvmlReturn_t = 12;

/// True when the library that `nvml` calls into is the simulator.
pub(super) fn is_simulated(nvml: &Nvml) -> bool {
    has_simulation_mark(nvml.lib())
}

/// Loads the library without initialising it and looks for the simulator's mark. `None` when it
/// cannot be loaded.
pub(super) fn is_library_simulated(path: &OsStr) -> Option<bool> {
    // SAFETY: loading runs the library's initialisers. It is the library that the agent is told
    // to take its readings from, and that the wrapper loads the same way.
    let lib = unsafe { NvmlLib::new(path) }.ok()?;
    Some(has_simulation_mark(&lib))
}

fn has_simulation_mark(lib: &NvmlLib) -> bool {
    // SAFETY: the symbol is only looked up. It is neither called nor read, so its type is not
    // relied on.
    unsafe { lib.__library.get::<*const u8>(SIMULATION_MARK) }.is_ok()
}

/// What a field value holds. NVML tags a union; only the tagged member may be read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FieldNumber {
    /// Value type 0.
    Double(f64),
    /// Value types 1 to 3 and 6.
    Unsigned(u64),
    /// Value types 4 and 5.
    Signed(i64),
    /// A value type of a newer NVML.
    UnknownType(u32),
}

/// One field to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldQuery {
    /// The id in the driver's own numbering.
    pub(super) id: u32,
    /// Which part of the device; `u32::MAX` = all NVLink links.
    pub(super) scope: u32,
    /// True where the union holds a u32 whatever the tag says.
    pub(super) always_u32: bool,
}

/// Asks for several fields in one call. The answers are in the order of `queries`.
///
/// # Errors
/// NVML's return code of the call as a whole.
pub(super) fn field_values(
    device: &Device<'_>,
    queries: &[FieldQuery],
) -> Result<Vec<Result<FieldNumber, nvmlReturn_t>>, nvmlReturn_t> {
    let call =
        device.nvml().lib().nvmlDeviceGetFieldValues.as_ref().map_err(|_| FUNCTION_NOT_FOUND)?;
    let mut values: Vec<nvmlFieldValue_t> = queries.iter().map(empty_field).collect();
    let count = i32::try_from(values.len()).unwrap_or(0);
    // SAFETY: `values` holds exactly `count` initialised structs of the layout that this C
    // function takes, and lives past the call; the handle is valid while `device` borrows `Nvml`.
    check(unsafe { call(device.handle(), count, values.as_mut_ptr()) })?;
    Ok(queries.iter().zip(&values).map(|(query, value)| number_of(query, value)).collect())
}

fn empty_field(query: &FieldQuery) -> nvmlFieldValue_t {
    nvmlFieldValue_t {
        fieldId: query.id,
        scopeId: query.scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: 0,
        // A driver that does not fill an entry in must not look as if it had answered 0.
        nvmlReturn: FUNCTION_NOT_FOUND,
        value: nvmlValue_t { ullVal: 0 },
    }
}

fn number_of(query: &FieldQuery, field: &nvmlFieldValue_t) -> Result<FieldNumber, nvmlReturn_t> {
    check(field.nvmlReturn)?;
    let value = field.value;
    // SAFETY: all members are plain numbers for which every bit pattern is valid, and all eight
    // bytes were initialised by `empty_field`, so reading any member is sound.
    Ok(unsafe {
        match field.valueType {
            _ if query.always_u32 => FieldNumber::Unsigned(u64::from(value.uiVal)),
            0 => FieldNumber::Double(value.dVal),
            1 => FieldNumber::Unsigned(u64::from(value.uiVal)),
            2 => FieldNumber::Unsigned(value.ulVal),
            3 => FieldNumber::Unsigned(value.ullVal),
            4 => FieldNumber::Signed(value.sllVal),
            5 => FieldNumber::Signed(i64::from(value.siVal)),
            6 => FieldNumber::Unsigned(u64::from(value.usVal)),
            other => FieldNumber::UnknownType(other),
        }
    })
}

/// All bits of the clock event reasons, also those that the wrapper does not know.
///
/// # Errors
/// NVML's return code.
pub(super) fn clock_event_reasons(device: &Device<'_>) -> Result<u64, nvmlReturn_t> {
    let lib = device.nvml().lib();
    // The newer name may be missing, or be there without a driver that knows it.
    let names = [
        &lib.nvmlDeviceGetCurrentClocksEventReasons,
        &lib.nvmlDeviceGetCurrentClocksThrottleReasons,
    ];
    let mut answer = Err(FUNCTION_NOT_FOUND);
    for call in names.into_iter().flatten() {
        let mut reasons: c_ulonglong = 0;
        // SAFETY: one output pointer to an initialised u64; both functions have this signature.
        answer = check(unsafe { call(device.handle(), &raw mut reasons) }).map(|()| reasons);
        if answer != Err(FUNCTION_NOT_FOUND) {
            break;
        }
    }
    answer
}

/// Row remapping: corrected, uncorrected, pending, failure.
///
/// # Errors
/// NVML's return code.
pub(super) fn remapped_rows(device: &Device<'_>) -> Result<[u32; 4], nvmlReturn_t> {
    let call =
        device.nvml().lib().nvmlDeviceGetRemappedRows.as_ref().map_err(|_| FUNCTION_NOT_FOUND)?;
    let [mut corrected, mut uncorrected, mut pending, mut failure]: [c_uint; 4] = [0; 4];
    // SAFETY: four output pointers to initialised u32 that live past the call.
    check(unsafe {
        call(
            device.handle(),
            &raw mut corrected,
            &raw mut uncorrected,
            &raw mut pending,
            &raw mut failure,
        )
    })?;
    Ok([corrected, uncorrected, pending, failure])
}

/// Bytes of device memory by the first version of the call: (total, used with the reserved part).
///
/// # Errors
/// NVML's return code.
pub(super) fn memory_v1(device: &Device<'_>) -> Result<(u64, u64), nvmlReturn_t> {
    let call =
        device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref().map_err(|_| FUNCTION_NOT_FOUND)?;
    let mut memory = nvmlMemory_t { total: 0, free: 0, used: 0 };
    // SAFETY: one output pointer to an initialised struct of the layout that this C function has.
    check(unsafe { call(device.handle(), &raw mut memory) })?;
    Ok((memory.total, memory.used))
}

/// NVML's ids of a slice's GPU instance and compute instance.
///
/// # Errors
/// NVML's return code.
pub(super) fn mig_instance(slice: &Device<'_>) -> Result<(u32, u32), nvmlReturn_t> {
    let lib = slice.nvml().lib();
    let gpu = lib.nvmlDeviceGetGpuInstanceId.as_ref().map_err(|_| FUNCTION_NOT_FOUND)?;
    let compute = lib.nvmlDeviceGetComputeInstanceId.as_ref().map_err(|_| FUNCTION_NOT_FOUND)?;
    let [mut gpu_instance, mut compute_instance]: [c_uint; 2] = [0; 2];
    // SAFETY: one output pointer to an initialised u32 that lives past the call.
    check(unsafe { gpu(slice.handle(), &raw mut gpu_instance) })?;
    // SAFETY: the same.
    check(unsafe { compute(slice.handle(), &raw mut compute_instance) })?;
    Ok((gpu_instance, compute_instance))
}

/// What an NVLink link leads to, by NVML's number. The wrapper's call loses what the driver said.
///
/// # Errors
/// NVML's return code.
pub(super) fn nvlink_remote(device: &Device<'_>, link: u32) -> Result<u32, nvmlReturn_t> {
    let lib = device.nvml().lib();
    let call = lib.nvmlDeviceGetNvLinkRemoteDeviceType.as_ref().map_err(|_| FUNCTION_NOT_FOUND)?;
    let mut kind: c_uint = 0;
    // SAFETY: one output pointer to an initialised u32 that lives past the call.
    check(unsafe { call(device.handle(), link, &raw mut kind) })?;
    Ok(kind)
}

/// One event as NVML delivers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawEvent {
    /// The one bit of NVML's event types.
    pub(super) kind: u64,
    /// For an XID: its code.
    pub(super) data: u64,
}

/// Waits up to `timeout_ms` for the next event of `set`.
///
/// # Errors
/// NVML's return code; 10 when nothing happened.
pub(super) fn wait_event(set: &EventSet<'_>, timeout_ms: u32) -> Result<RawEvent, nvmlReturn_t> {
    let call = set.nvml.lib().nvmlEventSetWait_v2.as_ref().map_err(|_| FUNCTION_NOT_FOUND)?;
    let mut data = nvmlEventData_t {
        device: std::ptr::null_mut(),
        eventType: 0,
        eventData: 0,
        gpuInstanceId: 0,
        computeInstanceId: 0,
    };
    // SAFETY: the set is freed only when `set` is dropped, which this borrow outlives; one output
    // pointer to an initialised struct. The device pointer that comes back is not used.
    check(unsafe { call(set.handle(), &raw mut data, timeout_ms) })?;
    Ok(RawEvent { kind: data.eventType, data: data.eventData })
}

fn check(code: nvmlReturn_t) -> Result<(), nvmlReturn_t> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// NVML's return code behind an error of the wrapper.
pub(super) fn code_of(error: NvmlError) -> nvmlReturn_t {
    match error {
        NvmlError::LibloadingError(_) => LIBRARY_NOT_FOUND,
        NvmlError::FailedToLoadSymbol(_) => FUNCTION_NOT_FOUND,
        other => nvmlReturn_t::from(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(value_type: u32, value: nvmlValue_t) -> nvmlFieldValue_t {
        let query = FieldQuery { id: 83, scope: 0, always_u32: false };
        nvmlFieldValue_t { valueType: value_type, nvmlReturn: 0, value, ..empty_field(&query) }
    }

    #[test]
    fn each_value_type_reads_its_own_member() {
        let query = FieldQuery { id: 83, scope: 0, always_u32: false };
        let read = |value_type, value| number_of(&query, &field(value_type, value));
        assert_eq!(read(0, nvmlValue_t { dVal: 1.5 }), Ok(FieldNumber::Double(1.5)));
        assert_eq!(read(1, nvmlValue_t { uiVal: 7 }), Ok(FieldNumber::Unsigned(7)));
        let wide = u64::from(u32::MAX) + 1;
        assert_eq!(read(2, nvmlValue_t { ulVal: wide }), Ok(FieldNumber::Unsigned(wide)));
        assert_eq!(read(3, nvmlValue_t { ullVal: wide }), Ok(FieldNumber::Unsigned(wide)));
        assert_eq!(read(4, nvmlValue_t { sllVal: -1 }), Ok(FieldNumber::Signed(-1)));
        assert_eq!(read(5, nvmlValue_t { siVal: -2 }), Ok(FieldNumber::Signed(-2)));
        assert_eq!(read(6, nvmlValue_t { usVal: 9 }), Ok(FieldNumber::Unsigned(9)));
        assert_eq!(read(7, nvmlValue_t { ullVal: 9 }), Ok(FieldNumber::UnknownType(7)));
    }

    #[test]
    fn memory_temperature_ignores_a_wrong_tag() {
        let query = FieldQuery { id: 82, scope: 0, always_u32: true };
        assert_eq!(
            number_of(&query, &field(0, nvmlValue_t { uiVal: 61 })),
            Ok(FieldNumber::Unsigned(61))
        );
    }

    #[test]
    fn an_entry_that_the_driver_left_alone_is_no_zero() {
        let query = FieldQuery { id: 83, scope: 0, always_u32: false };
        assert_eq!(number_of(&query, &empty_field(&query)), Err(FUNCTION_NOT_FOUND));
    }
}
