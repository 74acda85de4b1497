//! Structs of the C interface, in NVML's layout on 64-bit Linux.

use std::ffi::{c_char, c_void};

/// `nvmlDevice_t`.
pub(crate) type Device = *mut c_void;
/// `nvmlEventSet_t`.
pub(crate) type EventSetHandle = *mut c_void;
/// `nvmlGpmSample_t`.
pub(crate) type GpmSampleHandle = *mut c_void;

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident, $size:literal { $($field:ident: $kind:ty,)+ })+) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name {
            $(pub(crate) $field: $kind,)+
        }

        const _: () = assert!(size_of::<$name>() == $size, stringify!($name));
    )+};
}

layouts! {
    /// `nvmlPciInfo_t`.
    PciInfo, 68 {
        bus_id_legacy: [c_char; 16],
        domain: u32,
        bus: u32,
        device: u32,
        pci_device_id: u32,
        pci_subsystem_id: u32,
        bus_id: [c_char; 32],
    }
    /// `nvmlMemory_t`, bytes.
    Memory, 24 { total: u64, free: u64, used: u64, }
    /// `nvmlMemory_v2_t`, bytes.
    MemoryV2, 40 { version: u32, total: u64, reserved: u64, free: u64, used: u64, }
    /// `nvmlUtilization_t`, percent.
    Utilization, 8 { gpu: u32, memory: u32, }
    /// `nvmlSample_t`; the value is the union's 32-bit member.
    Sample, 16 { at_us: u64, value: u64, }
    /// `nvmlProcessInfo_t` of the `_v3` functions.
    ProcessInfo, 24 { pid: u32, used_bytes: u64, gpu_instance: u32, compute_instance: u32, }
    /// `nvmlProcessUtilizationSample_t`.
    ProcessUtilization, 32 {
        pid: u32,
        at_us: u64,
        sm: u32,
        memory: u32,
        encoder: u32,
        decoder: u32,
    }
    /// `nvmlViolationTime_t`: microseconds of host time, nanoseconds of violation.
    ViolationTime, 16 { reference_us: u64, violation_ns: u64, }
    /// `nvmlEventData_t`.
    EventData, 32 {
        device: Device,
        kind: u64,
        data: u64,
        gpu_instance: u32,
        compute_instance: u32,
    }
    /// `nvmlFieldValue_t`; the value is the union's bytes.
    FieldValue, 40 {
        field_id: u32,
        scope_id: u32,
        at_us: i64,
        latency_us: i64,
        value_type: u32,
        code: u32,
        value: u64,
    }
    /// `nvmlRowRemapperHistogramValues_t`: banks by how many spare rows they have left.
    RemapHistogram, 20 { max: u32, high: u32, partial: u32, low: u32, none: u32, }
    /// `nvmlDeviceAttributes_t`.
    DeviceAttributes, 40 {
        multiprocessors: u32,
        copy_engines: u32,
        decoders: u32,
        encoders: u32,
        jpeg: u32,
        ofa: u32,
        gpu_slices: u32,
        compute_slices: u32,
        memory_mb: u64,
    }
    /// `nvmlMarginTemperature_t`.
    MarginTemperature, 8 { version: u32, margin_c: i32, }
    /// `nvmlGpmSupport_t`.
    GpmSupport, 8 { version: u32, supported: u32, }
    /// `nvmlGpmMetric_t`.
    GpmMetric, 40 {
        id: u32,
        code: u32,
        value: f64,
        short_name: *const c_char,
        long_name: *const c_char,
        unit: *const c_char,
    }
    /// `nvmlGpmMetricsGet_t`.
    GpmMetricsGet, 8_424 {
        version: u32,
        count: u32,
        first: GpmSampleHandle,
        second: GpmSampleHandle,
        metrics: [GpmMetric; 210],
    }
}
