//! Cards that are cut into slices: GPM of each, and handles over a new cut.

use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;

use crate::play::{Scene, play, until};

/// Graphics, SM, tensor and DRAM activity.
const ACTIVITY: [GpmMetricId; 4] = [
    GpmMetricId::GraphicsUtil,
    GpmMetricId::SmUtil,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
];

#[test]
fn gpm_tells_each_gpu_instance_of_a_cut_card() {
    let name = "mig::gpm_tells_each_gpu_instance_of_a_cut_card";
    play(name, Scene::Named("mig-gpm"), |stage| {
        let nvml = stage.init();
        let card = nvml.device_by_index(0).unwrap();
        let slices: Vec<_> = (0..7).map_while(|at| card.mig_device_by_index(at).ok()).collect();
        let shapes: Vec<_> = slices
            .iter()
            .map(|slice| {
                let attributes = slice.attributes().unwrap();
                let memory_gb = slice.memory_info().unwrap().total / 1_000_000_000;
                let slices = attributes.compute_instance_slice_count;
                (attributes.gpu_instance_slice_count, slices, memory_gb)
            })
            .collect();
        assert_eq!(shapes, [(3, 3, 36), (1, 1, 12), (1, 1, 12), (2, 1, 24), (2, 1, 24)]);
        assert!(slices[3].name().unwrap().contains("MIG 1c.2g."));
        // Percent between two samples with a tick between them.
        let activity = |gpu_instance| {
            let first = card.gpm_mig_sample(gpu_instance).unwrap();
            let metrics = until("a tick", || {
                let second = card.gpm_mig_sample(gpu_instance).unwrap();
                let metrics = gpm_metrics_get(&nvml, &first, &second, &ACTIVITY).unwrap();
                metrics.into_iter().collect::<Result<Vec<_>, _>>().ok()
            });
            metrics.iter().map(|metric| format!("{:.1}", metric.value)).collect::<Vec<_>>()
        };
        assert_eq!(activity(2), ["90.0", "82.8", "27.0", "49.5"]);
        assert_eq!(activity(9), ["0.0"; 4]);
        assert_eq!(activity(10)[0], "50.0", "like the card");
        assert_eq!(activity(5)[0], "70.0");
        assert!(matches!(card.gpm_mig_sample(7), Err(NvmlError::InvalidArg)));
        let (first, other) = (card.gpm_mig_sample(2).unwrap(), card.gpm_mig_sample(9).unwrap());
        let mixed = gpm_metrics_get(&nvml, &first, &other, &[GpmMetricId::GraphicsUtil]);
        assert!(mixed.is_err(), "two parts of a card are not compared");
    });
}

#[test]
fn a_slice_that_is_cut_away_has_no_handle_any_more() {
    let name = "mig::a_slice_that_is_cut_away_has_no_handle_any_more";
    play(name, Scene::Named("constant"), |stage| {
        let nvml = stage.init();
        let card = nvml.device_by_index(0).unwrap();
        assert!(matches!(card.mig_device_by_index(0), Err(NvmlError::NotSupported)));
        let cut = |slices: u32| {
            stage.faults(&format!(
                "[[faults]]\nkind = \"mig_on\"\ncard = 0\nslices = [{{ compute_slices = {slices} }}]\n"
            ));
            until("the cut", || {
                let slice = card.mig_device_by_index(0).ok()?;
                let count = slice.attributes().ok()?.compute_instance_slice_count;
                (count == slices).then_some(slice)
            })
        };
        let first = cut(1);
        let name = first.uuid().unwrap();
        let second = cut(4);
        assert_ne!(second.uuid().unwrap(), name);
        assert!(nvml.device_by_uuid(name.as_str()).is_err());
        stage.faults("");
        until("MIG off", || matches!(second.uuid(), Err(NvmlError::InvalidArg)).then_some(()));
    });
}
