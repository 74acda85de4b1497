//! `hours.csv`: one row per revision of an hour record, RFC 4180, UTC, integers only.
//!
//! Rows are appended to a buffer, so a month of a fleet streams. A text that a spreadsheet would
//! run as a formula is defused with a leading apostrophe, control characters are dropped. What is not known is an empty cell,
//! never a zero. The hour that is not over yet has no row.
//!
//! The order of the columns is fixed:
//!
//! | columns | hold |
//! |---|---|
//! | `tenant`, `provider`, `node`, `node_name`, `slot`, `gpu_uuid`, `gpu_model` | which GPU |
//! | `hour_utc`, `revision`, `state`, `origin` | which record of which hour |
//! | `enrolled_ms`, `measured_ms`, `busy_pct_ms` | the sums that utilization is made of |
//! | `util_mean_ppm`, `coverage_ppm`, `util_lo_ppm`, `util_hi_ppm` | mean, coverage, bounds |
//! | `util_p05_pct`, `util_p50_pct`, `util_p90_pct`, `util_p95_pct`, `util_p99_pct` | percentiles |
//! | `grade`, `samples`, `conflicts`, `max_gap_ms` | how well it was measured |
//! | `clock_flagged_ms` | measured time whose clock was off by 0.5 to 5 s |
//! | `frozen_ms` | time in which readings stood still: stuck or made up |
//! | `gap_CAUSE_ms`, one for each cause in the order of precedence | unmeasured time |
//! | `energy_mj`, `energy_covered_ms` | energy, and the time that it was counted in |
//! | `throttle_REASON_ms`, five | time below maximum clocks |
//! | `ecc_corrected`, `ecc_uncorrected`, `ecc_uncorrected_aggregate` | new ECC errors |
//! | `remapped_rows_corrected`, `remapped_rows_uncorrected` | newly remapped rows |
//! | `pcie_replays`, `xid_count` | PCIe replays, XID events |
//! | `sources`, `gpu_count_min`, `clock_offset_max_ms`, `clock_bound_max_ms` | how it was seen |
//! | `row_hash` | hash of the record's statement |
//! | `parent_gpu_uuid`, `slices`, `slices_of` | of a MIG slice: its GPU and its share; else empty |

mod audit;
mod bill;
mod claims;
mod costs;
mod leases;
mod readings;

use std::fmt::{Display, Write as _};

use leasewatch_core::id::clean_text;
use leasewatch_core::metering::{GapCause, Grade, HourRecord, HourState};
use leasewatch_core::sample::Metric;

pub use audit::{audit, audit_header};
pub use bill::{bill, bills, prices};
pub use claims::claims;
pub use costs::{CostRow, costs};
pub use leases::leases;
pub use readings::readings;

/// The byte order mark, to be sent before [`header`] when a spreadsheet needs it.
pub const BOM: &str = "\u{feff}";
/// The media type.
pub const CONTENT_TYPE: &str = "text/csv; charset=utf-8; header=present";

/// Percentiles of utilization, in thousandths.
const PERCENTILES: [u16; 5] = [50, 500, 900, 950, 990];

/// Throttle counters by the name of their reason.
const THROTTLES: [(&str, Metric); 5] = [
    ("sw_power", Metric::ThrottleSwPower),
    ("sw_thermal", Metric::ThrottleSwThermal),
    ("hw_thermal", Metric::ThrottleHwThermal),
    ("hw_power_brake", Metric::ThrottleHwPowerBrake),
    ("sync_boost", Metric::ThrottleSyncBoost),
];

/// Counters that are written as they grew.
const COUNTS: [Metric; 6] = [
    Metric::EccCorrected,
    Metric::EccUncorrected,
    Metric::EccUncorrectedAggregate,
    Metric::RemappedCorrected,
    Metric::RemappedUncorrected,
    Metric::PcieReplays,
];

/// An hour record with its names.
#[derive(Debug, Clone, Copy)]
pub struct HourRow<'a> {
    /// The tenant's slug.
    pub tenant: &'a str,
    /// The provider's slug.
    pub provider: &'a str,
    /// The node's public id.
    pub node: &'a str,
    /// The name it enrolled with.
    pub node_name: &'a str,
    /// The GPU's place within the node.
    pub slot: u16,
    /// Product name, if an inventory came.
    pub gpu_model: Option<&'a str>,
    /// The revision, from 1.
    pub revision: u32,
    /// Whether the record can still change.
    pub state: HourState,
    /// Hash of the record's statement, hex; `None` while it is open.
    pub row_hash: Option<&'a str>,
    /// What was measured.
    pub record: &'a HourRecord,
}

/// Appends the first line: the names of the columns.
pub fn header(out: &mut String) {
    let mut line = Line { out, first: true };
    for name in [
        "tenant",
        "provider",
        "node",
        "node_name",
        "slot",
        "gpu_uuid",
        "gpu_model",
        "hour_utc",
        "revision",
        "state",
        "origin",
        "enrolled_ms",
        "measured_ms",
        "busy_pct_ms",
        "util_mean_ppm",
        "coverage_ppm",
        "util_lo_ppm",
        "util_hi_ppm",
    ] {
        line.raw(name);
    }
    for per_mille in PERCENTILES {
        line.raw(format_args!("util_p{:02}_pct", per_mille / 10));
    }
    for name in ["grade", "samples", "conflicts", "max_gap_ms", "clock_flagged_ms", "frozen_ms"] {
        line.raw(name);
    }
    for cause in GapCause::ALL {
        line.raw(format_args!("gap_{}_ms", cause.name()));
    }
    line.raw("energy_mj");
    line.raw("energy_covered_ms");
    for (reason, _) in THROTTLES {
        line.raw(format_args!("throttle_{reason}_ms"));
    }
    for name in [
        "ecc_corrected",
        "ecc_uncorrected",
        "ecc_uncorrected_aggregate",
        "remapped_rows_corrected",
        "remapped_rows_uncorrected",
        "pcie_replays",
        "xid_count",
        "sources",
        "gpu_count_min",
        "clock_offset_max_ms",
        "clock_bound_max_ms",
        "row_hash",
        "parent_gpu_uuid",
        "slices",
        "slices_of",
    ] {
        line.raw(name);
    }
    line.end();
}

/// Appends one row.
pub fn append(out: &mut String, row: &HourRow<'_>) {
    let mut line = Line { out, first: true };
    let record = row.record;
    line.text(row.tenant);
    line.text(row.provider);
    line.text(row.node);
    line.text(row.node_name);
    line.raw(row.slot);
    line.text(record.gpu.as_str());
    line.text(row.gpu_model.unwrap_or(""));
    line.raw(record.hour);
    line.raw(row.revision);
    line.raw(row.state.name());
    line.raw(record.origin.name());
    utilization(&mut line, record);
    counters(&mut line, record);
    line.text(&source_names(record));
    line.optional(record.gpu_count_min);
    line.optional(record.clock_offset_max_ms);
    line.optional(record.clock_bound_max_ms);
    line.text(row.row_hash.unwrap_or(""));
    let partition = record.partition.as_ref();
    line.text(partition.map_or("", |part| part.parent.as_str()));
    line.optional(partition.map(|part| part.slices));
    line.optional(partition.map(|part| part.slices_of));
    line.end();
}

fn utilization(line: &mut Line<'_>, record: &HourRecord) {
    let sum = record.sum();
    line.raw(sum.enrolled_ms);
    line.raw(sum.measured_ms());
    line.raw(sum.histogram.busy_pct_ms());
    line.optional(sum.mean().map(|ppm| ppm.0));
    line.optional(sum.coverage().map(|ppm| ppm.0));
    let bounds = sum.bounds();
    line.optional(bounds.map(|(low, _)| low.0));
    line.optional(bounds.map(|(_, high)| high.0));
    for per_mille in PERCENTILES {
        line.optional(sum.histogram.percentile(per_mille));
    }
    line.optional(sum.grade().map(Grade::letter));
    line.raw(record.samples);
    line.raw(record.conflicts);
    line.raw(record.max_gap_ms);
    line.raw(record.clock_flagged_ms);
    line.raw(record.frozen_ms);
    for cause in GapCause::ALL {
        line.raw(sum.gaps.ms(cause));
    }
}

fn counters(line: &mut Line<'_>, record: &HourRecord) {
    let energy = record.counter(Metric::Energy);
    line.optional(energy.map(|counter| counter.delta));
    line.optional(energy.map(|counter| counter.covered_ms));
    for (_, metric) in THROTTLES {
        line.optional(record.counter(metric).map(|counter| counter.delta / 1_000_000));
    }
    for metric in COUNTS {
        line.optional(record.counter(metric).map(|counter| counter.delta));
    }
    line.raw(record.xids);
}

fn source_names(record: &HourRecord) -> String {
    let names: Vec<&str> = record.sources.iter().map(|source| source.name()).collect();
    names.join(" ")
}

struct Line<'a> {
    out: &'a mut String,
    first: bool,
}

impl Line<'_> {
    /// A number, or a name of our own that needs no quoting.
    fn raw(&mut self, value: impl Display) {
        self.separate();
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{value}");
    }

    fn optional(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.raw(value),
            None => self.separate(),
        }
    }

    /// Text from elsewhere: without control characters, defused, and quoted where it must be.
    fn text(&mut self, text: &str) {
        self.separate();
        let text = clean_text(text, usize::MAX);
        let defuse = text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
        let quote = text.contains([',', '"']);
        if quote {
            self.out.push('"');
        }
        if defuse {
            self.out.push('\'');
        }
        if quote {
            self.out.push_str(&text.replace('"', "\"\""));
            self.out.push('"');
        } else {
            self.out.push_str(&text);
        }
    }

    fn separate(&mut self) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(',');
        }
    }

    fn end(self) {
        self.out.push_str("\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::id::GpuUuid;
    use leasewatch_core::metering::CounterDelta;
    use leasewatch_core::segment::Origin;
    use leasewatch_core::time::Timestamp;

    fn record() -> HourRecord {
        let hour = Timestamp::parse_iso("2026-08-01T03:00:00Z").unwrap().hour();
        HourRecord::empty(hour, GpuUuid::new("GPU-1").unwrap(), Origin::Measured)
    }

    fn cells(record: &HourRecord, node_name: &str) -> Vec<(String, String)> {
        let mut text = String::new();
        header(&mut text);
        let row = HourRow {
            tenant: "default",
            provider: "demo",
            node: "00",
            node_name,
            slot: 3,
            gpu_model: None,
            revision: 1,
            state: HourState::Sealed,
            row_hash: None,
            record,
        };
        append(&mut text, &row);
        let (names, values) = text.split_once("\r\n").unwrap();
        let values = values.strip_suffix("\r\n").unwrap();
        assert_eq!(names.split(',').count(), values.split(',').count());
        names.split(',').map(str::to_owned).zip(values.split(',').map(str::to_owned)).collect()
    }

    fn cell(cells: &[(String, String)], name: &str) -> String {
        cells.iter().find(|(column, _)| column == name).unwrap().1.clone()
    }

    #[test]
    fn a_measured_hour() {
        let mut record = record();
        record.enrolled_ms = 3_600_000;
        record.histogram.add(97, 2_700_000);
        record.gaps.add(GapCause::NodeReboot, 900_000);
        record.max_gap_ms = 900_000;
        record.clock_flagged_ms = 61_000;
        record.frozen_ms = 302_000;
        let growth = |metric, delta| (metric, CounterDelta { delta, covered_ms: 7 });
        record.counters = vec![
            growth(Metric::Energy, 5),
            growth(Metric::EccUncorrectedAggregate, 2),
            growth(Metric::RemappedCorrected, 3),
            growth(Metric::RemappedUncorrected, 4),
        ];
        let row = cells(&record, "node-1");
        assert_eq!(cell(&row, "hour_utc"), "2026-08-01T03:00:00Z");
        assert_eq!(cell(&row, "util_mean_ppm"), "970000");
        assert_eq!(cell(&row, "coverage_ppm"), "750000");
        assert_eq!(cell(&row, "util_lo_ppm"), "727500");
        assert_eq!(cell(&row, "util_hi_ppm"), "977500");
        assert_eq!(cell(&row, "util_p50_pct"), "97");
        assert_eq!(cell(&row, "gap_node_reboot_ms"), "900000");
        assert_eq!(cell(&row, "grade"), "D");
        assert_eq!(cell(&row, "energy_mj"), "5");
        assert_eq!(cell(&row, "max_gap_ms"), "900000");
        assert_eq!(cell(&row, "clock_flagged_ms"), "61000");
        assert_eq!(cell(&row, "frozen_ms"), "302000");
        assert_eq!(cell(&row, "ecc_uncorrected"), "");
        assert_eq!(cell(&row, "ecc_uncorrected_aggregate"), "2");
        assert_eq!(cell(&row, "remapped_rows_corrected"), "3");
        assert_eq!(cell(&row, "remapped_rows_uncorrected"), "4");
        assert_eq!(cell(&row, "pcie_replays"), "");
        assert_eq!(cell(&row, "throttle_hw_thermal_ms"), "");
        assert!(row.iter().all(|(_, value)| !value.contains('.')));
    }

    #[test]
    fn the_order_of_columns_is_fixed() {
        let mut line = String::new();
        header(&mut line);
        assert_eq!(
            line,
            "tenant,provider,node,node_name,slot,gpu_uuid,gpu_model,hour_utc,revision,state,\
             origin,enrolled_ms,measured_ms,busy_pct_ms,util_mean_ppm,coverage_ppm,util_lo_ppm,\
             util_hi_ppm,util_p05_pct,util_p50_pct,util_p90_pct,util_p95_pct,util_p99_pct,grade,\
             samples,conflicts,max_gap_ms,clock_flagged_ms,frozen_ms,gap_conflict_ms,\
             gap_clock_invalid_ms,gap_unsupported_ms,gap_nvml_error_ms,gap_gpu_lost_ms,\
             gap_gpu_replaced_ms,gap_no_gpu_attached_ms,gap_driver_reload_ms,gap_dropped_ms,\
             gap_node_reboot_ms,gap_instance_restart_ms,gap_agent_restart_ms,\
             gap_observer_down_ms,gap_net_unreachable_ms,gap_unexplained_ms,energy_mj,\
             energy_covered_ms,throttle_sw_power_ms,throttle_sw_thermal_ms,\
             throttle_hw_thermal_ms,throttle_hw_power_brake_ms,throttle_sync_boost_ms,\
             ecc_corrected,ecc_uncorrected,ecc_uncorrected_aggregate,remapped_rows_corrected,\
             remapped_rows_uncorrected,pcie_replays,xid_count,sources,gpu_count_min,\
             clock_offset_max_ms,clock_bound_max_ms,row_hash,parent_gpu_uuid,slices,slices_of\r\n"
        );
    }

    #[test]
    fn nothing_measured_leaves_cells_empty() {
        let mut record = record();
        record.enrolled_ms = 3_600_000;
        record.gaps.add(GapCause::GpuLost, 3_600_000);
        let row = cells(&record, "node-1");
        for column in [
            "util_mean_ppm",
            "util_p99_pct",
            "energy_mj",
            "ecc_uncorrected_aggregate",
            "row_hash",
            "gpu_model",
        ] {
            assert_eq!(cell(&row, column), "", "{column}");
        }
        assert_eq!(cell(&row, "coverage_ppm"), "0");
        assert_eq!(cell(&row, "util_hi_ppm"), "1000000");
    }

    #[test]
    fn a_slice_names_its_gpu_and_its_share_in_the_last_columns() {
        let whole = cells(&record(), "node-1");
        for column in ["parent_gpu_uuid", "slices", "slices_of"] {
            assert_eq!(cell(&whole, column), "", "{column}");
        }
        let partition = leasewatch_core::segment::Partition {
            parent: GpuUuid::new("GPU-2").unwrap(),
            instance: leasewatch_core::segment::MigInstance {
                gpu_instance: 9,
                compute_instance: 0,
            },
            slices: 3,
            slices_of: 7,
        };
        let slice = cells(&HourRecord { partition: Some(partition), ..record() }, "node-1");
        assert_eq!(cell(&slice, "parent_gpu_uuid"), "GPU-2");
        assert_eq!(cell(&slice, "slices"), "3");
        assert_eq!(cell(&slice, "slices_of"), "7");
    }

    #[test]
    fn formulas_are_defused_and_quotes_doubled() {
        let written = |text: &str| {
            let mut out = String::new();
            Line { out: &mut out, first: true }.text(text);
            out
        };
        assert_eq!(written("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
        for start in ["+1", "-1", "@SUM", "\t=1", "\r=1", "\u{202e}=1", "＝1"] {
            assert!(written(start).starts_with('\''), "{start}");
        }
        assert_eq!(written("\u{1b}[31m\r\n"), "[31m");
        assert_eq!(written("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(written("node-1"), "node-1");
    }
}
