//! What cards show while nothing is wrong.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PerformanceState, Sampling, TemperatureSensor,
};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;

use crate::play::{Scene, play, until};

const MEMORY_TEMPERATURE: FieldId = FieldId(82);

/// The buffered samples as numbers with their times, oldest first.
fn samples(device: &Device<'_>, kind: Sampling) -> Vec<(u64, u32)> {
    let number = |value: &SampleValue| match value {
        SampleValue::U32(value) => *value,
        other => panic!("{other:?} is not an unsigned int"),
    };
    let found = device.samples(kind, None).unwrap();
    found.iter().map(|sample| (sample.timestamp, number(&sample.value))).collect()
}

fn field(device: &Device<'_>, id: FieldId) -> Result<SampleValue, NvmlError> {
    let mut values = device.field_values_for(&[id]).unwrap();
    values.remove(0).and_then(|sample| sample.value)
}

#[test]
fn an_idle_h100_is_complete_and_plausible() {
    play("readings::an_idle_h100_is_complete_and_plausible", Scene::Named("idle"), |stage| {
        let nvml = stage.init();
        assert_eq!(nvml.device_count().unwrap(), 1);
        assert_eq!(nvml.sys_driver_version().unwrap(), "590.48.01");
        assert_eq!(nvml.sys_nvml_version().unwrap(), "13.590.48.01");
        let device = nvml.device_by_index(0).unwrap();
        assert_eq!(device.name().unwrap(), "NVIDIA H100 80GB HBM3");
        let uuid = device.uuid().unwrap();
        assert!(uuid.len() == 40 && uuid.starts_with("GPU-"), "{uuid}");
        assert_eq!(nvml.device_by_uuid(uuid).unwrap().index().unwrap(), 0);
        let pci = device.pci_info().unwrap();
        assert_eq!((pci.bus_id.as_str(), pci.pci_device_id), ("00000000:18:00.0", 0x2330_10de));
        assert_eq!(nvml.device_by_pci_bus_id("0000:18:00.0").unwrap().index().unwrap(), 0);
        assert_eq!(device.serial().unwrap().len(), 13);
        let memory = device.memory_info().unwrap();
        assert_eq!(memory.total >> 20, 81_559);
        assert_eq!(memory.used, 0);
        assert_eq!(memory.total, memory.free + memory.used + memory.reserved);
        assert_eq!(device.utilization_rates().unwrap().gpu, 0);
        assert_eq!(device.performance_state().unwrap(), PerformanceState::Zero);
        assert_eq!(device.clock_info(Clock::SM).unwrap(), 345);
        assert_eq!(device.max_clock_info(Clock::SM).unwrap(), 1_980);
        assert_eq!(device.enforced_power_limit().unwrap(), 700_000);
        assert!((60_000..80_000).contains(&device.power_usage().unwrap()));
        assert!((20..40).contains(&device.temperature(TemperatureSensor::Gpu).unwrap()));
        assert!(matches!(field(&device, MEMORY_TEMPERATURE), Ok(SampleValue::U32(20..45))));
        assert!(matches!(device.fan_speed(0), Err(NvmlError::NotSupported)));
        assert!(device.is_ecc_enabled().unwrap().currently_enabled);
        assert!(device.gpm_support().unwrap());
        assert!(device.link_wrapper_for(17).is_active().unwrap());
        assert!(matches!(device.link_wrapper_for(18).is_active(), Err(NvmlError::InvalidArg)));
        assert!(device.running_compute_processes().unwrap().is_empty());
        assert_eq!(device.current_throttle_reasons().unwrap().bits(), 1);
    });
}

#[test]
fn a_geforce_keeps_back_what_its_driver_keeps_back() {
    let name = "readings::a_geforce_keeps_back_what_its_driver_keeps_back";
    play(name, Scene::Named("idle-geforce"), |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        assert!(matches!(device.serial(), Err(NvmlError::NotSupported)));
        assert!(matches!(field(&device, MEMORY_TEMPERATURE), Err(NvmlError::NotSupported)));
        let errors = device.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile);
        assert!(matches!(errors, Err(NvmlError::NotSupported)));
        assert!(matches!(device.mig_mode(), Err(NvmlError::NotSupported)));
        assert!(!device.gpm_support().unwrap());
        assert_eq!(device.fan_speed(0).unwrap(), 0);
        assert_eq!(device.performance_state().unwrap(), PerformanceState::Eight);
        assert_eq!(device.current_pcie_link_gen().unwrap(), 1);
        assert_eq!(device.max_pcie_link_gen().unwrap(), 4);
    });
}

#[test]
fn a_script_is_followed_by_samples_and_rates_exactly() {
    let scene = Scene::Text(
        "driver_version = \"590.48.01\"\nstarted_s_ago = 10\n[[cards]]\nmodel = \"T4\"\n\
         load = { shape = \"script\", steps = [[0, 100], [3, 0], [5, 40], [9, 77]] }\n",
    );
    let name = "readings::a_script_is_followed_by_samples_and_rates_exactly";
    play(name, scene, |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        let found = samples(&device, Sampling::GpuUtilization);
        let busy: Vec<u32> = found.iter().map(|sample| sample.1).collect();
        let expected = [(18, 100), (12, 0), (24, 40), (6, 77)];
        let expected: Vec<u32> =
            expected.iter().flat_map(|(count, value)| vec![*value; *count]).collect();
        assert_eq!(busy[..60], expected);
        assert!(
            found.windows(2).all(|pair| (166_666..=166_667).contains(&(pair[1].0 - pair[0].0)))
        );
        assert_eq!(device.utilization_rates().unwrap().gpu, 77);
        // Only what is newer than the last one seen, and an error when there is nothing newer.
        let last = found[59].0;
        let newer = until("a newer sample", || device.samples(Sampling::GpuUtilization, last).ok());
        assert!(newer.iter().all(|sample| sample.timestamp > last));
        let future = device.samples(Sampling::GpuUtilization, last + 3_600_000_000);
        assert!(matches!(future, Err(NvmlError::NotFound)));
    });
}

#[test]
fn energy_is_the_integral_of_power() {
    let scene = Scene::Text(
        "driver_version = \"590.48.01\"\nstarted_s_ago = 15\n[[cards]]\n\
         model = \"H100-SXM5-80GB\"\nload = { shape = \"training\" }\n",
    );
    play("readings::energy_is_the_integral_of_power", scene, |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        let (power, energy_mj) = until("two reads within one tick", || {
            let before = samples(&device, Sampling::Power);
            let energy_mj = device.total_energy_consumption().unwrap();
            (before == samples(&device, Sampling::Power)).then_some((before, energy_mj))
        });
        assert!(power.len() >= 90 && power.len() < 120, "the buffer still holds every tick");
        let sum: u64 = power.iter().map(|sample| u64::from(sample.1)).sum();
        assert_eq!(energy_mj, sum / 6);
        assert!(power.iter().all(|sample| sample.1 <= 700_000));
        let full = power.iter().filter(|sample| sample.1 > 500_000).count();
        assert!(full > 60, "a training card draws most of its limit: {full}");
    });
}

#[test]
fn heat_follows_power_and_memory_is_held() {
    let scene = Scene::Text(
        "driver_version = \"590.48.01\"\nstarted_s_ago = 300\n[[cards]]\n\
         model = \"H100-SXM5-80GB\"\nload = { shape = \"constant\", percent = 100 }\n\
         [[cards]]\nmodel = \"H100-SXM5-80GB\"\nload = { shape = \"idle\" }\n",
    );
    play("readings::heat_follows_power_and_memory_is_held", scene, |stage| {
        let nvml = stage.init();
        let [hot, cold] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
        let temperature = |device: &Device<'_>| device.temperature(TemperatureSensor::Gpu).unwrap();
        assert!(temperature(&hot) > temperature(&cold) + 25);
        assert!(temperature(&hot) < 85);
        assert_eq!(hot.clock_info(Clock::SM).unwrap(), 1_980);
        assert_eq!(hot.current_throttle_reasons().unwrap().bits(), 0);
        let processes = hot.running_compute_processes().unwrap();
        assert_eq!(processes.len(), 1);
        assert!(hot.memory_info().unwrap().used > 0);
        assert_eq!(nvml.sys_process_name(processes[0].pid, 64).unwrap(), "python3");
        let own = hot.process_utilization_stats(None).unwrap();
        assert_eq!((own[0].pid, own[0].sm_util), (processes[0].pid, 100));
        assert!(matches!(cold.process_utilization_stats(None), Err(NvmlError::NotFound)));
    });
}

#[test]
fn gpm_metrics_are_means_between_two_samples() {
    play(
        "readings::gpm_metrics_are_means_between_two_samples",
        Scene::Named("constant"),
        |stage| {
            let nvml = stage.init();
            let device = nvml.device_by_index(0).unwrap();
            let first = device.gpm_sample().unwrap();
            let wanted =
                [GpmMetricId::GraphicsUtil, GpmMetricId::AnyTensorUtil, GpmMetricId::DramBwUtil];
            let values = until("a tick between the samples", || {
                let second = device.gpm_sample().unwrap();
                let metrics =
                    nvml_wrapper::gpm::gpm_metrics_get(&nvml, &first, &second, &wanted).unwrap();
                metrics
                    .into_iter()
                    .map(|metric| metric.ok().map(|metric| metric.value))
                    .collect::<Option<Vec<f64>>>()
            });
            assert_eq!(values, [50.0, 15.0, 27.5]);
        },
    );
}

#[test]
fn a_trace_is_found_again_exactly() {
    play("readings::a_trace_is_found_again_exactly", Scene::Named("trace"), |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        until("the busiest row of the trace", || {
            (device.utilization_rates().unwrap().gpu == 97).then_some(())
        });
        let row = until("that row's readings", || {
            let power = device.power_usage().unwrap();
            let used = device.memory_info().unwrap().used >> 20;
            let celsius = device.temperature(TemperatureSensor::Gpu).unwrap();
            ((power, used) == (371_220, 41_230)).then_some(celsius)
        });
        assert!((47..=50).contains(&row));
    });
}
