//! What cards show while a fault holds, switched on and off through the control file.

use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, Sampling, TemperatureSensor,
};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;

use std::ffi::c_void;

use crate::lifecycle::symbol;
use crate::play::{Scene, play, until};

/// A fault of the first card.
fn fault(kind: &str, more: &str) -> String {
    format!("[[faults]]\nkind = \"{kind}\"\ncard = 0\n{more}\n")
}

fn field(device: &Device<'_>, id: u32) -> Result<SampleValue, NvmlError> {
    let mut values = device.field_values_for(&[FieldId(id)]).unwrap();
    values.remove(0).and_then(|sample| sample.value)
}

/// `(device, four outs)` -> the code.
fn remapped_rows(nvml: &nvml_wrapper::Nvml, device: &Device<'_>) -> (u32, [u32; 4]) {
    let mut rows = [u32::MAX; 4];
    let [corrected, uncorrected, pending, failure] = &mut rows;
    // SAFETY: the handle is the device's own and the pointers are to live variables.
    let code = unsafe {
        nvml.lib().nvmlDeviceGetRemappedRows(
            device.handle(),
            corrected,
            uncorrected,
            pending,
            failure,
        )
    };
    (code, rows)
}

fn event_reasons(nvml: &nvml_wrapper::Nvml, device: &Device<'_>) -> (u32, u64) {
    let mut reasons = 0;
    // SAFETY: the handle is the device's own and the pointer is to a live variable.
    let code =
        unsafe { nvml.lib().nvmlDeviceGetCurrentClocksEventReasons(device.handle(), &mut reasons) };
    (code, reasons)
}

#[test]
fn heat_and_brake_hold_clocks_down_with_reason_and_time() {
    let name = "faults::heat_and_brake_hold_clocks_down_with_reason_and_time";
    play(name, Scene::Named("training"), |stage| {
        let nvml = stage.init();
        let [hot, fine] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
        assert_eq!(event_reasons(&nvml, &hot), (0, 0));
        stage.faults(&fault("thermal_throttle", ""));
        until("thermal slowdown", || (event_reasons(&nvml, &hot) == (0, 0x68)).then_some(()));
        assert!(hot.clock_info(Clock::SM).unwrap() <= 990);
        assert!(hot.temperature(TemperatureSensor::Gpu).unwrap() >= 87);
        // The wrapper translates 251 to 269 for this driver.
        until("a growing counter", || match field(&hot, 251) {
            Ok(SampleValue::U64(ns)) if ns > 0 => Some(()),
            _ => None,
        });
        assert_eq!(event_reasons(&nvml, &fine), (0, 0));
        stage.faults(&fault("power_brake", ""));
        until("the brake", || (event_reasons(&nvml, &hot) == (0, 0x88)).then_some(()));
        stage.faults("");
        until("recovery", || (event_reasons(&nvml, &hot) == (0, 0)).then_some(()));
        assert_eq!(hot.clock_info(Clock::SM).unwrap(), 1_980);
    });
}

#[test]
fn limits_are_told_apart() {
    play("faults::limits_are_told_apart", Scene::Named("training"), |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        let limits = || {
            let management = device.power_management_limit().unwrap();
            (management / 1_000, device.enforced_power_limit().unwrap() / 1_000)
        };
        assert_eq!(limits(), (700, 700));
        stage.faults(&fault("power_limit", "limit_mw = 400000"));
        until("a lowered limit", || (limits() == (400, 400)).then_some(()));
        until("the cap", || (event_reasons(&nvml, &device).1 == 4).then_some(()));
        assert!(device.power_usage().unwrap() <= 400_000);
        assert!(device.clock_info(Clock::SM).unwrap() < 1_980);
        stage.faults(&fault("enforced_below_management", "limit_mw = 450000"));
        until("a limit out of band", || (limits() == (700, 450)).then_some(()));
        assert_eq!(device.power_management_limit_default().unwrap(), 700_000);
        stage.faults(&fault("locked_clocks", "sm_mhz = 1200"));
        until("a locked clock", || (device.clock_info(Clock::SM).unwrap() == 1_200).then_some(()));
        assert_eq!(event_reasons(&nvml, &device), (0, 0));
    });
}

#[test]
fn memory_can_shrink_and_be_held_by_others() {
    play(
        "faults::memory_can_shrink_and_be_held_by_others",
        Scene::Named("foreign-memory"),
        |stage| {
            let nvml = stage.init();
            let device = nvml.device_by_index(0).unwrap();
            assert_eq!(device.memory_info().unwrap().used >> 20, 10_240);
            assert!(device.running_compute_processes().unwrap().is_empty());
            let before = device.memory_info().unwrap().reserved;
            stage.faults(&fault("reserved_memory", "mib = 8192"));
            let after = until("reserved memory", || {
                let memory = device.memory_info().unwrap();
                (memory.reserved != before).then_some(memory)
            });
            assert_eq!(after.reserved - before, 8_192 << 20);
            assert_eq!(after.total, after.free + after.used + after.reserved);
        },
    );
}

#[test]
fn masked_readings_fail_alone() {
    play("faults::masked_readings_fail_alone", Scene::Named("masked"), |stage| {
        let nvml = stage.init();
        let [masked, open] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
        assert!(matches!(masked.power_usage(), Err(NvmlError::NotSupported)));
        assert!(matches!(masked.total_energy_consumption(), Err(NvmlError::NotSupported)));
        assert!(matches!(field(&masked, 82), Err(NvmlError::NotSupported)));
        assert!(matches!(field(&masked, 83), Err(NvmlError::NotSupported)));
        assert!(masked.utilization_rates().is_ok() && field(&masked, 91).is_ok());
        assert!(open.power_usage().is_ok() && field(&open, 82).is_ok());
    });
}

#[test]
fn a_card_can_be_lost_or_broken_while_the_other_answers() {
    let name = "faults::a_card_can_be_lost_or_broken_while_the_other_answers";
    play(name, Scene::Named("training"), |stage| {
        let nvml = stage.init();
        let [broken, fine] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
        stage.faults(&fault("gpu_lost", ""));
        until("loss", || matches!(broken.power_usage(), Err(NvmlError::GpuLost)).then_some(()));
        assert!(matches!(broken.uuid(), Err(NvmlError::GpuLost)));
        assert!(matches!(broken.field_values_for(&[FieldId(82)]), Err(NvmlError::GpuLost)));
        assert!(matches!(nvml.device_by_index(0), Err(NvmlError::GpuLost)));
        assert_eq!(nvml.device_count().unwrap(), 2);
        stage.faults(&fault("reset_required", ""));
        until("16", || matches!(broken.power_usage(), Err(NvmlError::ResetRequired)).then_some(()));
        stage.faults(&fault("nvml_error", "code = 999\nmetrics = [\"temperature\"]"));
        until("999", || {
            let read = broken.temperature(TemperatureSensor::Gpu);
            matches!(read, Err(NvmlError::Unknown)).then_some(())
        });
        assert!(broken.power_usage().is_ok() && fine.temperature(TemperatureSensor::Gpu).is_ok());
    });
}

#[test]
fn a_hanging_card_blocks_only_its_own_callers() {
    play("faults::a_hanging_card_blocks_only_its_own_callers", Scene::Named("training"), |stage| {
        let nvml = stage.init();
        let [hanging, fine] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
        // The other card's fault shows that the file was read: from then on every call hangs.
        let other = "[[faults]]\nkind = \"power_limit\"\ncard = 1\nlimit_mw = 400000\n";
        stage.faults(&format!("{}{other}", fault("hang", "")));
        until("the fault", || (fine.power_management_limit().unwrap() == 400_000).then_some(()));
        std::thread::scope(|scope| {
            let (enter, entered) = std::sync::mpsc::channel();
            let blocked = scope.spawn(move || {
                enter.send(()).unwrap();
                hanging.power_usage()
            });
            entered.recv().unwrap();
            // Several ticks of the other card pass, and none of its calls blocks.
            let energy = fine.total_energy_consumption().unwrap();
            until("three ticks", || {
                let grown = fine.total_energy_consumption().unwrap() - energy;
                (grown > 3 * u64::from(fine.power_usage().unwrap()) / 6).then_some(())
            });
            assert!(!blocked.is_finished());
            stage.faults("");
            assert!(blocked.join().unwrap().is_ok());
        });
    });
}

#[test]
fn events_reach_whoever_registered_for_that_card() {
    play(
        "faults::events_reach_whoever_registered_for_that_card",
        Scene::Named("training"),
        |stage| {
            let nvml = stage.init();
            let [first, second] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
            let wanted = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR;
            assert!(first.supported_event_types().unwrap().contains(wanted));
            let of_first = first.register_events(wanted, nvml.create_event_set().unwrap()).unwrap();
            let of_second =
                second.register_events(wanted, nvml.create_event_set().unwrap()).unwrap();
            assert!(matches!(of_first.wait(0), Err(NvmlError::Timeout)));
            let xid = fault("xid", "code = 79");
            stage.faults(&xid);
            let event = of_first.wait(20_000).unwrap();
            assert_eq!(event.device.uuid().unwrap(), first.uuid().unwrap());
            assert!(format!("{:?}", event.event_data).contains("79"), "{event:?}");
            assert!(matches!(of_second.wait(100), Err(NvmlError::Timeout)));
            // A fault that stays in the file does not happen again; a second one does.
            stage.faults(&format!("{xid}{}", fault("ecc_uncorrected", "count = 3")));
            let event = of_first.wait(20_000).unwrap();
            assert_eq!(event.event_type, EventTypes::DOUBLE_BIT_ECC_ERROR);
            let errors =
                |counter| first.total_ecc_errors(MemoryError::Uncorrected, counter).unwrap();
            assert_eq!((errors(EccCounter::Volatile), errors(EccCounter::Aggregate)), (3, 3));
            stage.faults(&fault("driver_reload", ""));
            until("a reload", || (errors(EccCounter::Volatile) == 0).then_some(()));
            assert_eq!(errors(EccCounter::Aggregate), 3);
            assert!(matches!(of_first.wait(100), Err(NvmlError::Timeout)));
        },
    );
}

#[test]
fn a_driver_reload_resets_counters() {
    play("faults::a_driver_reload_resets_counters", Scene::Named("driver-reload"), |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        let mut highest = device.total_energy_consumption().unwrap();
        assert!(highest > 0);
        until("energy that falls", || {
            let energy = device.total_energy_consumption().unwrap();
            let fell = energy < highest;
            highest = highest.max(energy);
            fell.then_some(())
        });
    });
}

#[test]
fn memory_errors_show_in_remapped_rows() {
    play("faults::memory_errors_show_in_remapped_rows", Scene::Named("remapped-rows"), |stage| {
        let nvml = stage.init();
        let [pending, failed] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
        assert_eq!(remapped_rows(&nvml, &pending), (0, [0, 1, 1, 0]));
        assert_eq!(remapped_rows(&nvml, &failed), (0, [0, 3, 0, 1]));
        assert!(matches!(field(&failed, 145), Ok(SampleValue::U32(1))));
        // SAFETY: the symbol has this signature, and the struct is five numbers.
        let get: unsafe extern "C" fn(*mut c_void, *mut [u32; 5]) -> u32 =
            unsafe { std::mem::transmute(symbol("nvmlDeviceGetRowRemapperHistogram")) };
        let mut histogram = [0; 5];
        // SAFETY: the handle is the device's own and the pointer is to a live variable.
        assert_eq!(unsafe { get(failed.handle().cast(), &mut histogram) }, 0);
        let [max, high, partial, low, none] = histogram;
        assert_eq!((max + high + partial + low + none, none), (2_560, 1));
    });
}

#[test]
fn under_mig_utilization_is_not_available_and_slices_are() {
    let name = "faults::under_mig_utilization_is_not_available_and_slices_are";
    play(name, Scene::Named("mig-on"), |stage| {
        let nvml = stage.init();
        let [cut, whole] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
        assert_eq!(cut.mig_mode().unwrap().current, 1);
        assert_eq!(whole.mig_mode().unwrap().current, 0);
        assert!(matches!(cut.utilization_rates(), Err(NvmlError::NotSupported)));
        let samples = cut.samples(Sampling::GpuUtilization, None);
        assert!(matches!(samples, Err(NvmlError::NotSupported)));
        assert_eq!(remapped_rows(&nvml, &cut).0, 3);
        assert!(cut.power_usage().is_ok() && whole.utilization_rates().is_ok());
        assert_eq!(cut.mig_device_count().unwrap(), 7);
        let slice = cut.mig_device_by_index(2).unwrap();
        assert!(matches!(cut.mig_device_by_index(3), Err(NvmlError::NotFound)));
        assert!(slice.mig_is_mig_device_handle().unwrap());
        assert!(slice.uuid().unwrap().starts_with("MIG-"));
        assert_eq!(slice.mig_parent_device().unwrap().uuid().unwrap(), cut.uuid().unwrap());
        let totals = (slice.memory_info().unwrap().total, cut.memory_info().unwrap().total);
        assert_eq!(totals.0, totals.1 / 3);
        assert!(matches!(slice.power_usage(), Err(NvmlError::NotSupported)));
        assert!(cut.gpm_mig_sample(9).is_ok());
        assert!(matches!(cut.gpm_mig_sample(1), Err(NvmlError::InvalidArg)));
    });
}

#[test]
fn garbage_and_frozen_readings() {
    play("faults::garbage_and_frozen_readings", Scene::Named("saw-tooth"), |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        stage.faults(&fault("garbage", ""));
        until("garbage", || (device.utilization_rates().unwrap().gpu == u32::MAX).then_some(()));
        assert_eq!(device.power_usage().unwrap(), u32::MAX);
        let memory = device.memory_info().unwrap();
        assert!(memory.used > memory.total);
        stage.faults(&fault("frozen", ""));
        until("sane values", || (device.utilization_rates().unwrap().gpu <= 100).then_some(()));
        let readings = || (device.power_usage().unwrap(), device.utilization_rates().unwrap().gpu);
        let (before, energy) = (readings(), device.total_energy_consumption().unwrap());
        until("energy", || (device.total_energy_consumption().unwrap() > energy).then_some(()));
        assert_eq!(readings(), before);
    });
}

#[test]
fn links_train_lower() {
    play("faults::links_train_lower", Scene::Named("links"), |stage| {
        let nvml = stage.init();
        let [slow, fine] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
        let pcie = |device: &Device<'_>| {
            (device.current_pcie_link_gen().unwrap(), device.current_pcie_link_width().unwrap())
        };
        assert_eq!((pcie(&slow), pcie(&fine)), ((3, 4), (5, 16)));
        let active = |device: &Device<'_>| {
            (0..18).filter(|link| device.link_wrapper_for(*link).is_active().unwrap()).count()
        };
        assert_eq!((active(&slow), active(&fine)), (16, 18));
    });
}
