//! A sample GPU that is cut into slices.

use leasewatch_core::segment::Origin;
use leasewatch_core::time::Period;

use super::{H100, Habit, gpu_cells, gpu_row};
use crate::format::Datum;
use crate::live::LiveValues;
use crate::pages::node::NodeGpu;
use crate::pages::{GpuRow, NodeName, SliceOf};

/// Puts two slices behind the GPU at `at`, which is in MIG mode.
pub(super) fn cut(gpus: &mut Vec<NodeGpu>, at: usize, week: Period, name: &NodeName) {
    let slices = [(8, Habit::Serving, 3, 2), (9, Habit::Idle, 1, 9)];
    for (index, (number, habit, slices, gpu_instance)) in (at + 1..).zip(slices) {
        let parent = &gpus[at].row;
        let partition = SliceOf {
            parent_uuid: parent.uuid.clone(),
            parent_number: Some(parent.number),
            gpu_instance,
            compute_instance: 0,
            slices,
            slices_of: 7,
        };
        let model = format!("{H100} MIG {slices}g.{}gb", slices * 10);
        let row = gpu_row(habit, number, &model, name);
        let live = LiveValues {
            memory_total_mib: Datum::Number(i64::from(slices) * 9_984),
            memory_used_mib: Datum::Number(i64::from(slices) * 2_117),
            power_draw_mw: Datum::NO_DATA,
            power_limit_mw: Datum::NO_DATA,
            temperature_c: Datum::NO_DATA,
            ..row.live
        };
        let uuid = row.uuid.replacen("GPU", "MIG", 1);
        let row = GpuRow { uuid, partition: Some(partition), live, ..row };
        let hours = gpu_cells(habit, number.into(), week, Origin::Measured);
        gpus.insert(index, NodeGpu { row, hours });
    }
}
