//! What values are read against, and what cannot be read here.

use leasewatch_core::catalogue::gpu::{self as catalogue, GpuModel};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::GpuBlock;
use leasewatch_web::pages::gpu::{
    Limit, LimitKind, LimitSource, Masked, MaskedWhy, Series, SeriesKey,
};

use crate::store::gpu::GpuRow;

/// What a page looks for, in the order of its charts.
const WANTED: [SeriesKey; 15] = [
    SeriesKey::Gauge(Metric::SmActive),
    SeriesKey::Gauge(Metric::TensorActive),
    SeriesKey::Gauge(Metric::DramActive),
    SeriesKey::Gauge(Metric::MemoryBusy),
    SeriesKey::Gauge(Metric::MemoryUsed),
    SeriesKey::Gauge(Metric::PowerDraw),
    SeriesKey::Gauge(Metric::PowerLimitEnforced),
    SeriesKey::Gauge(Metric::SmClock),
    SeriesKey::Gauge(Metric::MemoryClock),
    SeriesKey::Gauge(Metric::Temperature),
    SeriesKey::Gauge(Metric::MemoryTemperature),
    SeriesKey::Rate(Metric::PcieTx),
    SeriesKey::Rate(Metric::PcieRx),
    SeriesKey::Rate(Metric::NvlinkTx),
    SeriesKey::Rate(Metric::NvlinkRx),
];

/// A GPU with the last that was recorded of it, and its product.
pub(super) struct Known<'a> {
    pub(super) row: &'a GpuRow,
    /// The last block at the end of the range, if it was about this GPU.
    pub(super) block: Option<&'a GpuBlock>,
    model: Option<&'static GpuModel>,
}

impl<'a> Known<'a> {
    pub(super) fn of(row: &'a GpuRow, block: Option<&'a GpuBlock>) -> Self {
        let block = block.filter(|block| block.uuid == row.uuid);
        let by_name = || {
            let inventory = row.inventory.as_ref();
            let memory_mib = inventory.and_then(|inventory| inventory.memory_total_mib);
            catalogue::find(None, row.name.as_deref()?, memory_mib)
        };
        let by_key = row.catalogue_key.as_deref().and_then(catalogue::by_key);
        Self { row, block, model: by_key.or_else(by_name) }
    }

    /// What the driver said last.
    fn reading(&self, metric: Metric) -> Option<Reading> {
        let column = self.block?.columns.iter().find(|column| column.metric == metric)?;
        column.readings.iter().rev().find_map(|reading| *reading)
    }

    /// The lines that charts show, the driver's word before the catalogue's.
    pub(super) fn limits(&self) -> Vec<Limit> {
        let (inventory, model) = (self.row.inventory.as_ref(), self.model);
        let absolute = model.map(|model| model.temperature).unwrap_or_default();
        let of_model = |fact: fn(&GpuModel) -> Option<i64>| model.and_then(fact);
        let number = |metric| self.reading(metric).and_then(Reading::number);
        let known = [
            (
                LimitKind::MemoryTotal,
                number(Metric::MemoryTotal).or(inventory.and_then(|i| i.memory_total_mib)),
                of_model(|model| model.memory_mib),
            ),
            (
                LimitKind::PowerDefault,
                number(Metric::PowerLimitDefault)
                    .or(inventory.and_then(|i| i.power_limit_default_mw)),
                of_model(|model| model.default_limit_mw),
            ),
            (LimitKind::SmClockMax, number(Metric::SmClockMax), of_model(|m| m.max_sm_mhz)),
            (
                LimitKind::MemoryClockMax,
                number(Metric::MemoryClockMax),
                of_model(|model| model.max_memory_mhz),
            ),
            (LimitKind::MaxOperating, None, absolute.max_operating_c.map(i64::from)),
            (LimitKind::Slowdown, None, absolute.slowdown_c.map(i64::from)),
            (LimitKind::Shutdown, None, absolute.shutdown_c.map(i64::from)),
            (
                LimitKind::MemoryMaxOperating,
                None,
                of_model(|model| model.memory_max_c.map(i64::from)),
            ),
        ];
        let known = known.into_iter().filter_map(|(what, driver, catalogue)| {
            let driver = driver.map(|value| (value, LimitSource::Driver));
            let catalogue = catalogue.map(|value| (value, LimitSource::Catalogue));
            let (value, source) = driver.or(catalogue)?;
            Some(Limit { what, value, source })
        });
        known.collect()
    }

    /// Metrics that a page looks for and that have no number here. Empty when nothing was read at
    /// all: then the gaps say why.
    pub(super) fn masked(&self, series: &[Series]) -> Vec<Masked> {
        if series.is_empty() {
            return Vec::new();
        }
        let absent = WANTED.into_iter().filter(|key| series.iter().all(|known| known.what != *key));
        let masked = absent.filter_map(|key| match key {
            SeriesKey::Gauge(metric) | SeriesKey::Rate(metric) => {
                Some(Masked { metric, why: self.why(metric) })
            }
            SeriesKey::Busy => None,
        });
        masked.collect()
    }

    fn why(&self, metric: Metric) -> MaskedWhy {
        let is_of_class = match metric {
            Metric::MemoryTemperature => self.model.and_then(GpuModel::memory_temperature_readable),
            Metric::SmActive | Metric::TensorActive | Metric::DramActive => {
                self.model.and_then(GpuModel::gpm)
            }
            Metric::NvlinkTx | Metric::NvlinkRx => {
                self.model.and_then(|model| model.nvlink_total_mb_s).map(|total| total > 0)
            }
            _ => None,
        };
        match (is_of_class, self.reading(metric)) {
            (Some(false), _) => MaskedWhy::NotOnClass,
            (_, Some(Reading::Unsupported)) => MaskedWhy::NotOffered,
            _ => MaskedWhy::NotRecorded,
        }
    }
}
