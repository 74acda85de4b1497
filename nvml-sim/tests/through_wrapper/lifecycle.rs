//! Init, shutdown, restarts, old drivers, and callers that pass nonsense.

use std::ffi::{CString, c_char, c_int, c_void};
use std::process::Command;

use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;

use crate::play::{Scene, all_scenarios, library, play, until};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

/// The raw symbol of the library, which is loaded before it is initialised.
pub(crate) fn symbol(name: &str) -> *mut c_void {
    const RTLD_NOW: c_int = 2;
    let path = CString::new(library().to_str().unwrap()).unwrap();
    let name = CString::new(name).unwrap();
    // SAFETY: both texts end with a zero and live through the calls.
    let found = unsafe { dlsym(dlopen(path.as_ptr(), RTLD_NOW), name.as_ptr()) };
    assert!(!found.is_null());
    found
}

type Getter = unsafe extern "C" fn(*mut c_void, *mut u64) -> u32;
type Nullary = unsafe extern "C" fn() -> u32;

#[test]
fn the_library_says_that_it_is_simulated() {
    // SAFETY: the symbol has this signature.
    let version: Nullary = unsafe { std::mem::transmute(symbol("leasewatch_nvml_sim_version")) };
    // SAFETY: it takes nothing.
    assert_eq!(unsafe { version() }, nvidia_ml_sim::VERSION);
}

#[test]
fn nonsense_is_answered_with_a_code() {
    play("lifecycle::nonsense_is_answered_with_a_code", Scene::Named("training"), |stage| {
        const UNINITIALIZED: u32 = 1;
        const INVALID_ARGUMENT: u32 = 2;
        let names = [
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetMemoryInfo",
            "nvmlDeviceGetPciInfo_v3",
            "nvmlDeviceGetTotalEnergyConsumption",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceIsMigDeviceHandle",
        ];
        // SAFETY: all of them take a handle and a pointer.
        let getters = names.map(|name| unsafe { std::mem::transmute::<_, Getter>(symbol(name)) });
        let mut out = [0_u64; 16];
        for getter in getters {
            // SAFETY: the answer of each is smaller than the array.
            assert_eq!(unsafe { getter(std::ptr::null_mut(), out.as_mut_ptr()) }, UNINITIALIZED);
        }
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        for getter in getters {
            for handle in [std::ptr::null_mut(), std::ptr::without_provenance_mut(0x1234)] {
                // SAFETY: as above; a handle is never followed.
                assert_eq!(unsafe { getter(handle, out.as_mut_ptr()) }, INVALID_ARGUMENT);
            }
            // SAFETY: null is allowed, and refused.
            let code = unsafe { getter(device.handle().cast(), std::ptr::null_mut()) };
            assert_eq!(code, INVALID_ARGUMENT);
        }
        assert!(matches!(nvml.device_by_index(2), Err(NvmlError::InvalidArg)));
        assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
        let mut one = 0;
        // SAFETY: a count that is too small is refused before anything is written to the list.
        let code = unsafe {
            nvml.lib().nvmlDeviceGetComputeRunningProcesses_v3(
                device.handle(),
                &mut one,
                std::ptr::null_mut(),
            )
        };
        assert_eq!((code, one), (7, 1));
        // SAFETY: the length that is passed is the array's.
        let code =
            unsafe { nvml.lib().nvmlDeviceGetName(device.handle(), out.as_mut_ptr().cast(), 4) };
        assert_eq!(code, 7);
    });
}

#[test]
fn restarts_change_order_presence_and_identity() {
    play(
        "lifecycle::restarts_change_order_presence_and_identity",
        Scene::Named("training"),
        |stage| {
            let uuids = || -> Vec<String> {
                let nvml = stage.init();
                let devices = 0..nvml.device_count().unwrap();
                devices.map(|index| nvml.device_by_index(index).unwrap().uuid().unwrap()).collect()
            };
            let first = uuids();
            assert_eq!(first.len(), 2);
            assert_eq!(uuids(), first);
            stage.faults("[[faults]]\nkind = \"index_reorder\"\n");
            assert_eq!(uuids(), [first[1].clone(), first[0].clone()]);
            stage.faults("[[faults]]\nkind = \"missing_after_restart\"\ncard = 0\n");
            assert_eq!(uuids(), [first[1].clone()]);
            stage.faults("[[faults]]\nkind = \"uuid_change\"\ncard = 0\n");
            let changed = uuids();
            assert!(changed[0] != first[0] && changed[1] == first[1]);
            stage.faults("[[faults]]\nkind = \"zero_devices\"\n");
            assert!(uuids().is_empty());
            stage.faults("[[faults]]\nkind = \"driver_not_loaded\"\n");
            assert!(matches!(stage.try_init(), Err(NvmlError::DriverNotLoaded)));
            stage.faults("");
            assert_eq!(uuids(), first);
        },
    );
}

#[test]
fn counters_go_on_over_a_restart_when_the_epoch_is_kept() {
    let scene = Scene::Text(
        "driver_version = \"590.48.01\"\nepoch_file = \"EPOCH\"\nstarted_s_ago = 60\n[[cards]]\n\
         model = \"L4\"\nload = { shape = \"constant\", percent = 80 }\n",
    );
    let name = "lifecycle::counters_go_on_over_a_restart_when_the_epoch_is_kept";
    play(name, scene, |stage| {
        let read = || {
            let nvml = stage.init();
            let device = nvml.device_by_index(0).unwrap();
            (device.total_energy_consumption().unwrap(), device.uuid().unwrap())
        };
        let first = read();
        let later =
            until("energy of a later session", || Some(read()).filter(|now| now.0 > first.0));
        assert_eq!(later.1, first.1);
    });
}

#[test]
fn an_old_driver_lacks_functions() {
    play("lifecycle::an_old_driver_lacks_functions", Scene::Named("old-driver"), |stage| {
        let nvml = stage.init();
        assert_eq!(nvml.sys_driver_version().unwrap(), "418.226.00");
        let device = nvml.device_by_index(0).unwrap();
        assert!(matches!(device.memory_info(), Err(NvmlError::FunctionNotFound)));
        assert!(matches!(device.architecture(), Err(NvmlError::FunctionNotFound)));
        assert!(matches!(device.gpm_support(), Err(NvmlError::FunctionNotFound)));
        let processes = device.running_compute_processes();
        assert!(matches!(processes, Err(NvmlError::FunctionNotFound)));
        let mut reasons = 0;
        // SAFETY: the handle is the device's own and the pointer is to a live variable.
        let code = unsafe {
            nvml.lib().nvmlDeviceGetCurrentClocksEventReasons(device.handle(), &mut reasons)
        };
        assert_eq!(code, 13);
        assert!(device.current_throttle_reasons().is_ok());
        assert!(device.utilization_rates().is_ok() && device.power_usage().is_ok());
        until("samples", || device.samples(Sampling::GpuUtilization, None).ok());
        assert!(device.total_energy_consumption().is_ok());
    });
}

fn slowdown_fields(stage: &crate::play::Stage) -> Vec<u32> {
    let nvml = stage.init();
    let device = nvml.device_by_index(0).unwrap();
    // Raw ids, without the wrapper's translation.
    let works = |id: &u32| {
        let mut value = field_value_bytes(*id);
        // SAFETY: the handle is the device's own and one value is passed.
        let code = unsafe {
            let get: unsafe extern "C" fn(*mut c_void, c_int, *mut [u64; 5]) -> u32 =
                std::mem::transmute(symbol("nvmlDeviceGetFieldValues"));
            get(device.handle().cast(), 1, &mut value)
        };
        assert_eq!(code, 0);
        value[3] >> 32 == 0
    };
    let found = (251..=273).filter(works).collect();
    // Through the wrapper, the older numbers work with either driver.
    let translated = device.field_values_for(&[FieldId(251), FieldId(252), FieldId(253)]).unwrap();
    assert!(translated.iter().all(Result::is_ok));
    found
}

/// A field value as its 40 bytes: the id is the first four.
fn field_value_bytes(id: u32) -> [u64; 5] {
    [u64::from(id), 0, 0, 0, 0]
}

#[test]
fn slowdown_counters_have_the_older_numbers_before_580_82() {
    let name = "lifecycle::slowdown_counters_have_the_older_numbers_before_580_82";
    play(name, Scene::Named("fields-before-580-82"), |stage| {
        assert_eq!(slowdown_fields(stage), [251, 252, 253]);
    });
}

#[test]
fn slowdown_counters_have_the_newer_numbers_since_580_82() {
    let name = "lifecycle::slowdown_counters_have_the_newer_numbers_since_580_82";
    play(name, Scene::Named("fields-since-580-82"), |stage| {
        assert_eq!(slowdown_fields(stage), [269, 270, 271]);
    });
}

#[test]
fn a_scenario_that_is_not_understood_stops_init() {
    let name = "lifecycle::a_scenario_that_is_not_understood_stops_init";
    play(name, Scene::Text("driver_version = \"590.48.01\"\ncolour = 1\n"), |stage| {
        assert!(matches!(stage.try_init(), Err(NvmlError::Unknown)));
    });
}

#[test]
fn a_control_file_that_is_not_understood_changes_nothing() {
    let name = "lifecycle::a_control_file_that_is_not_understood_changes_nothing";
    play(name, Scene::Named("training"), |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        stage.faults("[[faults]]\nkind = \"gpu_lost\"\n");
        until("loss", || device.power_usage().is_err().then_some(()));
        stage.faults("[[faults]]\nkind = \"gpu_lots\"\n");
        // Nothing tells when the file was read and refused: this is longer than its interval.
        std::thread::sleep(std::time::Duration::from_millis(120));
        assert!(matches!(device.power_usage(), Err(NvmlError::GpuLost)));
        stage.faults("");
        until("recovery", || device.power_usage().ok());
    });
}

#[test]
fn every_scenario_can_be_played() {
    if std::env::var_os("NVML_SIM_PLAY_ONE").is_some() {
        match nvml_wrapper::Nvml::builder().lib_path(library().as_os_str()).init() {
            Ok(nvml) => println!("{} devices", nvml.device_count().unwrap()),
            Err(error) => println!("init: {error:?}"),
        }
        return;
    }
    for path in all_scenarios() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lifecycle::every_scenario_can_be_played", "--nocapture"])
            .env("NVML_SIM_PLAY_ONE", "1")
            .env(nvidia_ml_sim::SCENARIO_VARIABLE, &path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let expected = match name.as_str() {
            "driver-not-loaded" => "init: DriverNotLoaded",
            "zero-devices" => "0 devices",
            "demo-h100" | "demo-a100" | "demo-rtx4090" | "demo-h20" => "8 devices",
            "demo-l40s" => "4 devices",
            "demo-v100-t4" => "2 devices",
            _ => " devices",
        };
        assert!(text.contains(expected), "{name}: {text}");
    }
}
