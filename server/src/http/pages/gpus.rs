//! What every page shows of a node and its GPUs: names, states, live values, hours as cells.

use std::collections::BTreeMap;

use leasewatch_core::delivery::NodeState;
use leasewatch_core::id::{GpuUuid, SlotNo};
use leasewatch_core::metering::{GapCause, HourState};
use leasewatch_core::segment::Partition;
use leasewatch_core::time::{DAY_MS, Hour, Timestamp};
use leasewatch_web::chart::Cell;
use leasewatch_web::format::Measured;
use leasewatch_web::live::LiveValues;
use leasewatch_web::names::Standing;
use leasewatch_web::pages::{GpuRow, NodeName, NodeStatus, SliceOf};

use crate::http::Http;
use crate::live::{LiveGpu, NodeSnapshot};
use crate::store::node::NodeRow;
use crate::store::{StoreError, Tx, gpu, hour};

/// A frame older than this is not "now".
const LIVE_MS: u64 = leasewatch_core::delivery::LATE_AFTER_MS;

/// A node with everything that pages show of it now.
pub(in crate::http) struct NodeNow {
    pub(in crate::http) row: NodeRow,
    pub(in crate::http) standing: Standing,
    pub(in crate::http) snapshot: Option<NodeSnapshot>,
}

impl NodeNow {
    pub(in crate::http) fn of(http: &Http, row: NodeRow) -> Self {
        let standing = match row.retired_at {
            Some(_) => Standing::Ended,
            None => Standing::Live(http.live.state(row.id)),
        };
        Self { standing, snapshot: http.live.node(row.id), row }
    }

    pub(in crate::http) fn name(&self) -> NodeName {
        NodeName {
            id: self.row.id.to_string(),
            name: self.row.name.clone(),
            origin: self.row.origin,
        }
    }

    pub(in crate::http) fn status(&self, now: Timestamp) -> NodeStatus {
        let silent = self.snapshot.as_ref().and_then(|snapshot| snapshot.silent_ms);
        let silent = silent.and_then(|ms| i64::try_from(ms).ok());
        let recorded = self.snapshot.as_ref().and_then(|snapshot| snapshot.recorded_until);
        NodeStatus {
            standing: self.standing,
            last_heard_at: silent.map(|ms| now.plus_ms(-ms)).or(recorded),
        }
    }

    /// The live values of a GPU, while the node is heard: what an unknown node said last is not
    /// "now".
    pub(in crate::http) fn live(&self, uuid: &GpuUuid) -> Option<&LiveGpu> {
        let heard = matches!(self.standing, Standing::Live(NodeState::Up | NodeState::Late));
        let snapshot = self.snapshot.as_ref().filter(|_| heard)?;
        let frame = snapshot.frame.as_ref()?;
        snapshot.frame_age_ms.filter(|age| *age <= LIVE_MS)?;
        frame.gpus.iter().find(|gpu| gpu.uuid == *uuid)
    }
}

/// Live values as pages show them.
pub(in crate::http) fn live_values(gpu: Option<&LiveGpu>) -> LiveValues {
    gpu.map_or(LiveValues::NONE, |gpu| LiveValues {
        busy_pct: gpu.busy_pct.into(),
        memory_used_mib: gpu.memory_used_mib.into(),
        memory_total_mib: gpu.memory_total_mib.into(),
        power_draw_mw: gpu.power_draw_mw.into(),
        power_limit_mw: gpu.power_limit_mw.into(),
        temperature_c: gpu.temperature_c.into(),
    })
}

/// A GPU of a page and its cells over `[from, to)`.
pub(in crate::http) struct GpuHours {
    pub(in crate::http) row: GpuRow,
    pub(in crate::http) cells: Vec<Cell>,
}

/// The GPUs of a node by slot, and their slices behind them, each with the cells of `[from, to)`, and its strip of the last 24
/// hours. Where a slot changed hands, it is named after its present GPU and its cells hold both.
pub(in crate::http) async fn of_node(
    tx: &mut Tx,
    http: &Http,
    node: &NodeNow,
    (from, to): (Hour, Hour),
    now: Timestamp,
) -> Result<Vec<GpuHours>, StoreError> {
    let day = strip_hours(now);
    let (first, last) = (from.min(day.0), to.max(day.1));
    let mut cells = cells(tx, http, node, (first, last), now).await?;
    let mut rows: Vec<GpuHours> = Vec::new();
    let gpus = gpu::of_node(tx, node.row.key).await?;
    let number = |uuid: &GpuUuid| {
        let found = gpus.iter().find(|gpu| gpu.uuid == *uuid && gpu.partition.is_none());
        found.map(|gpu| gpu.slot.0)
    };
    for gpu in &gpus {
        if rows.last().is_some_and(|row: &GpuHours| row.row.number == gpu.slot.0) {
            continue;
        }
        let all = cells.remove(&gpu.slot).unwrap_or_default();
        let within = |(from, to): (Hour, Hour)| -> Vec<Cell> {
            let inside = |cell: &&Cell| (from..to).contains(&cell.period.start.hour());
            all.iter().filter(inside).cloned().collect()
        };
        let strip = within(day);
        let live = node.live(&gpu.uuid);
        let row = GpuRow {
            number: gpu.slot.0,
            uuid: gpu.uuid.to_string(),
            partition: gpu.partition.as_ref().map(|part| slice_of(part, number(&part.parent))),
            model: gpu.name.clone().unwrap_or_default(),
            live: live_values(live),
            lost: live.is_some_and(|gpu| gpu.lost),
            stalled: live.is_some_and(|gpu| gpu.stalled_ms > 0),
            day: strip.iter().fold(Measured::default(), |sum, cell| sum.plus(cell.measured())),
            strip,
        };
        let gpu = GpuHours { row, cells: within((from, to)) };
        let is_shown = gpu.row.partition.is_none() || live.is_some() || gpu.has_record();
        if is_shown {
            rows.push(gpu);
        }
    }
    rows.sort_by_key(GpuHours::order);
    Ok(rows)
}

impl GpuHours {
    /// Whether something of it was due in the hours that are shown. A slice that was cut away long
    /// ago is not.
    fn has_record(&self) -> bool {
        self.cells.iter().chain(&self.row.strip).any(|cell| cell.enrolled_ms > 0)
    }

    /// GPUs by number, each followed by its slices; slices of an unknown GPU at the end.
    fn order(&self) -> (u16, u16) {
        match &self.row.partition {
            Some(part) => (part.parent_number.unwrap_or(u16::MAX), self.row.number),
            None => (self.row.number, 0),
        }
    }
}

fn slice_of(partition: &Partition, parent_number: Option<u16>) -> SliceOf {
    SliceOf {
        parent_uuid: partition.parent.to_string(),
        parent_number,
        gpu_instance: partition.instance.gpu_instance,
        compute_instance: partition.instance.compute_instance,
        slices: partition.slices,
        slices_of: partition.slices_of,
    }
}

/// The hours of a 24 h strip, the open one last.
pub(in crate::http) fn strip_hours(now: Timestamp) -> (Hour, Hour) {
    (now.plus_ms(-DAY_MS).hour().next(), now.hour().next())
}

async fn cells(
    tx: &mut Tx,
    http: &Http,
    node: &NodeNow,
    (from, to): (Hour, Hour),
    now: Timestamp,
) -> Result<BTreeMap<SlotNo, Vec<Cell>>, StoreError> {
    let mut cells: BTreeMap<SlotNo, Vec<Cell>> = BTreeMap::new();
    for row in hour::of_node(tx, node.row.key, from, to).await? {
        let cell = Cell::of_record(&row.record, row.state);
        add(cells.entry(row.slot).or_default(), cell);
    }
    let open = http.live.open_hour(node.row.id, now.hour());
    for (slot, record) in open.iter().flat_map(|records| records.iter()) {
        let cell = Cell::of_record(record, HourState::Open);
        add(cells.entry(*slot).or_default(), cell);
    }
    Ok(cells)
}

/// Two GPUs of one hour and slot become one cell.
fn add(cells: &mut Vec<Cell>, cell: Cell) {
    match cells.last_mut() {
        Some(last) if last.period == cell.period => merge(last, &cell),
        _ => cells.push(cell),
    }
}

fn merge(into: &mut Cell, other: &Cell) {
    into.busy_pct_ms += other.busy_pct_ms;
    into.measured_ms += other.measured_ms;
    into.enrolled_ms += other.enrolled_ms;
    into.frozen_ms += other.frozen_ms;
    into.clock_flagged_ms += other.clock_flagged_ms;
    into.origin = into.origin.max(other.origin);
    into.state = into.state.min(other.state);
    let mut gaps: BTreeMap<GapCause, i64> = into.gaps.iter().copied().collect();
    for (cause, ms) in &other.gaps {
        *gaps.entry(*cause).or_default() += ms;
    }
    into.gaps = gaps.into_iter().collect();
}
