//! GPU products: what NVML should say about each of them.
//!
//! The table is `core/data/gpu_specs.csv`. Not here: prices, and anything that differs between two
//! boards of one product.

mod name;
mod table;

use std::sync::LazyLock;

/// The table as it is compiled in.
const TABLE: &str = include_str!("../../data/gpu_specs.csv");

/// A row that does not parse is left out here and fails the test `every_row_parses`.
static MODELS: LazyLock<Vec<GpuModel>> =
    LazyLock::new(|| table::rows(TABLE).filter_map(Result::ok).collect());

/// Total memory may differ this much from a known figure, in thousandths, and still be it.
const MEMORY_TOLERANCE_PERMILLE: i64 = 15;

/// NVIDIA's GPU families that leasewatch knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are NVIDIA's")]
pub enum Architecture {
    Volta,
    Turing,
    Ampere,
    Ada,
    Hopper,
    Blackwell,
}

/// The market a board is made for, which decides what its driver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BoardClass {
    /// Passively cooled server boards and modules.
    DataCentre,
    /// Professional boards with a fan.
    Workstation,
    /// Consumer boards.
    GeForce,
}

/// Whether a board has ECC that NVML can report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EccSupport {
    /// NVML answers "not supported".
    Unsupported,
    /// Present, off unless somebody turns it on.
    OffByDefault,
    /// Present and on unless somebody turns it off.
    OnByDefault,
}

/// Temperatures of one form, in degrees Celsius.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Thresholds {
    /// The board switches off.
    pub shutdown_c: Option<i32>,
    /// The hardware slows down.
    pub slowdown_c: Option<i32>,
    /// The software slows down.
    pub max_operating_c: Option<i32>,
}

/// One GPU product. `None` = not known, never zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuModel {
    /// Our name of the product, such as `H100-SXM5-80GB`.
    pub key: String,
    /// The name that NVML prints.
    pub nvml_name: String,
    /// Other names of the same product.
    pub aliases: Vec<String>,
    /// PCI device ids as NVML combines them: `device << 16 | vendor`.
    pub pci_device_ids: Vec<u32>,
    /// Which market it is made for.
    pub class: BoardClass,
    /// Its family.
    pub architecture: Architecture,
    /// CUDA compute capability, major and minor.
    pub compute_capability: (i32, i32),
    /// `SXM5`, `PCIe` and the like.
    pub form: String,
    /// The marketing figure in GB.
    pub memory_nominal_gb: Option<i64>,
    /// Total memory that NVML reports.
    pub memory_mib: Option<i64>,
    /// Other totals that NVML is known to report (ECC state, drivers before 510).
    pub memory_alternates_mib: Vec<i64>,
    /// Peak memory bandwidth in GB/s.
    pub memory_bandwidth_gb_s: Option<i64>,
    /// `HBM3`, `GDDR6` and the like.
    pub memory_type: Option<String>,
    /// Peak dense BF16 throughput in GFLOPS.
    pub bf16_dense_gflops: Option<i64>,
    /// The published board power.
    pub tdp_mw: Option<i64>,
    /// The default power limit that NVML reports.
    pub default_limit_mw: Option<i64>,
    /// Lowest power limit that can be set.
    pub min_limit_mw: Option<i64>,
    /// Highest power limit that can be set.
    pub max_limit_mw: Option<i64>,
    /// Published boost clock.
    pub boost_mhz: Option<i64>,
    /// Highest SM clock that NVML reports.
    pub max_sm_mhz: Option<i64>,
    /// Highest memory clock that NVML reports.
    pub max_memory_mhz: Option<i64>,
    /// NVLink bandwidth of all links, both directions, in MB/s; 0 = it has none.
    pub nvlink_total_mb_s: Option<i64>,
    /// Number of NVLink links.
    pub nvlink_links: Option<i64>,
    /// PCI Express generation.
    pub pcie_gen: Option<i64>,
    /// PCI Express lanes.
    pub pcie_width: Option<i64>,
    /// Thresholds as absolute temperatures (before Ada).
    pub temperature: Thresholds,
    /// Highest memory temperature.
    pub memory_max_c: Option<i32>,
    /// Thresholds as degrees of margin (Ada and later).
    pub margin: Thresholds,
    /// Whether it has ECC.
    pub ecc: Option<EccSupport>,
    /// MIG slices it can be cut into.
    pub mig_slices: Option<i64>,
}

impl GpuModel {
    /// Whether NVML reports the temperature of its memory; `None` where the memory type is unknown.
    #[must_use]
    pub fn memory_temperature_readable(&self) -> Option<bool> {
        self.memory_type.as_ref().map(|kind| kind.starts_with("HBM"))
    }

    /// Whether NVML offers GPM (Hopper and later); `None` for Blackwell boards with GDDR, where it
    /// is not attested.
    #[must_use]
    pub fn gpm(&self) -> Option<bool> {
        match (self.architecture, self.compute_capability.0) {
            (Architecture::Blackwell, 12..) => None,
            (architecture, _) => Some(architecture >= Architecture::Hopper),
        }
    }

    /// Whether it can be cut into MIG slices.
    #[must_use]
    pub fn mig(&self) -> bool {
        self.mig_slices.is_some()
    }

    /// Whether it has a fan of its own.
    #[must_use]
    pub fn has_fan(&self) -> bool {
        self.class != BoardClass::DataCentre
    }

    /// Whether NVML tells its serial number.
    #[must_use]
    pub fn serial_readable(&self) -> bool {
        self.class != BoardClass::GeForce
    }

    /// True when `total_mib` is, within 1.5 %, one of the totals that NVML reports for it.
    /// `None` when no total is known.
    #[must_use]
    pub fn memory_fits(&self, total_mib: i64) -> Option<bool> {
        let known = self.memory_mib.iter().chain(&self.memory_alternates_mib);
        let mut known = known.copied().peekable();
        known.peek()?;
        Some(known.any(|mib| {
            total_mib.abs_diff(mib).saturating_mul(1_000)
                <= mib.unsigned_abs().saturating_mul(MEMORY_TOLERANCE_PERMILLE.unsigned_abs())
        }))
    }
}

/// Every product, in the order of the table.
#[must_use]
pub fn all() -> &'static [GpuModel] {
    &MODELS
}

/// The product with this key.
#[must_use]
pub fn by_key(key: &str) -> Option<&'static GpuModel> {
    all().iter().find(|model| model.key == key)
}

/// The product of a GPU: by PCI id, else by name, else by name and memory.
///
/// `pci_device_id` is NVML's combined `device << 16 | vendor`; `name` may be cut (`Tesla
/// V100-SXM2...`); `memory_mib` is NVML's total. Memory alone never names a product: it only chooses
/// between products that share the rest. A virtual GPU or a MIG slice is no physical product, even
/// though it carries the PCI id of one, and gives `None`.
#[must_use]
pub fn find(
    pci_device_id: Option<u32>,
    name: &str,
    memory_mib: Option<i64>,
) -> Option<&'static GpuModel> {
    if name::is_virtual(name) {
        return None;
    }
    let by_id = pci_device_id.map(|id| select(|model| model.pci_device_ids.contains(&id)));
    by_id
        .and_then(|models| one_of(&models, memory_mib))
        .or_else(|| one_of(&select(|model| name::matches(model, name)), memory_mib))
}

fn select(wanted: impl Fn(&GpuModel) -> bool) -> Vec<&'static GpuModel> {
    all().iter().filter(|model| wanted(model)).collect()
}

/// The only candidate, or the only one that this much memory fits.
fn one_of(candidates: &[&'static GpuModel], memory_mib: Option<i64>) -> Option<&'static GpuModel> {
    if let [only] = candidates {
        return Some(only);
    }
    let total_mib = memory_mib?;
    let mut fitting = candidates.iter().filter(|model| model.memory_fits(total_mib) == Some(true));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(id: Option<u32>, name: &str, mib: Option<i64>) -> Option<&'static str> {
        find(id, name, mib).map(|model| model.key.as_str())
    }

    #[test]
    fn every_row_parses() {
        let rows: Vec<_> = table::rows(TABLE).collect();
        for row in &rows {
            assert!(row.is_ok(), "{row:?}");
        }
        assert_eq!(rows.len(), TABLE.lines().count() - 1);
        assert_eq!(all().len(), rows.len());
    }

    #[test]
    fn keys_names_and_pci_ids_are_unique_and_found() {
        let mut seen_keys = HashSet::new();
        let mut seen_ids = HashSet::new();
        for model in all() {
            assert!(seen_keys.insert(&model.key));
            assert_eq!(by_key(&model.key), Some(model));
            for id in &model.pci_device_ids {
                assert!(seen_ids.insert(id), "{id:x}");
                assert_eq!(key(Some(*id), "a name of no product", None), Some(model.key.as_str()));
            }
            for name in model.aliases.iter().chain([&model.nvml_name]) {
                assert_eq!(key(None, name, None), Some(model.key.as_str()), "{name}");
                assert_eq!(key(None, &name.to_lowercase(), Some(8_376)), Some(model.key.as_str()));
            }
        }
    }

    #[test]
    fn the_pci_id_wins_over_the_name() {
        assert_eq!(key(Some(0x2330_10de), "NVIDIA H20", Some(97_871)), Some("H100-SXM5-80GB"));
        assert_eq!(key(Some(0xffff_10de), "NVIDIA H20", None), Some("H20"));
    }

    #[test]
    fn a_cut_name_needs_the_memory_where_products_share_it() {
        assert_eq!(key(None, "Tesla V100-SXM2...", Some(32_510)), Some("V100-SXM2-32GB"));
        assert_eq!(key(None, "Tesla V100-SXM2...", Some(16_160)), Some("V100-SXM2-16GB"));
        assert_eq!(key(None, "Tesla V100-SXM2...", None), None);
        assert_eq!(key(None, "Tesla V100-SXM2...", Some(8_000)), None);
        assert_eq!(key(None, "NVIDIA A100-SXM...", Some(81_251)), Some("A100-SXM4-80GB"));
        assert_eq!(key(None, "NVIDIA GeForce ...", Some(24_576)), None);
        assert_eq!(key(None, "NVIDIA L40S...", None), Some("L40S"));
        assert_eq!(key(None, "...", Some(81_559)), None);
    }

    #[test]
    fn names_that_only_begin_alike_are_different_products() {
        assert_eq!(key(None, "NVIDIA H100", None), Some("H100-2339"));
        assert_eq!(key(None, "NVIDIA H100 PCIe", None), Some("H100-PCIE-80GB"));
        assert_eq!(key(None, "NVIDIA GeForce RTX 4090 D", None), Some("RTX-4090D"));
        assert_eq!(key(None, "NVIDIA GeForce RTX 4090 Laptop GPU", None), None);
        assert_eq!(key(None, "NVIDIA L40S", None), Some("L40S"));
        assert_eq!(key(None, "NVIDIA H20-3e", None), Some("H20-3e"));
        assert_eq!(key(None, "NVIDIA GeForce RTX 4090", Some(49_140)), Some("RTX-4090"));
    }

    #[test]
    fn virtual_gpus_are_no_physical_product() {
        let names = [
            "NVIDIA A40-12Q",
            "GRID A100-40C",
            "NVIDIA A100-1-5CME",
            "GRID V100D-32Q",
            "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "NVIDIA L40S-48A",
            "NVIDIA T4-16B",
        ];
        for name in names {
            assert_eq!(key(Some(0x2330_10de), name, Some(81_559)), None, "{name}");
        }
    }

    #[test]
    fn decimals_are_scaled_and_unknown_is_none() {
        let l20 = by_key("L20").unwrap();
        assert_eq!(l20.bf16_dense_gflops, Some(119_500));
        assert_eq!((l20.tdp_mw, l20.default_limit_mw), (Some(275_000), Some(350_000)));
        assert_eq!(by_key("A40").unwrap().nvlink_total_mb_s, Some(112_500));
        let unknown = by_key("H100-2339").unwrap();
        assert_eq!(unknown.memory_mib, None);
        assert_eq!(unknown.memory_fits(81_559), None);
        assert_eq!(unknown.memory_temperature_readable(), None);
    }

    #[test]
    fn classes_decide_what_can_be_read() {
        let h100 = by_key("H100-SXM5-80GB").unwrap();
        assert_eq!((h100.gpm(), h100.memory_temperature_readable()), (Some(true), Some(true)));
        assert!(h100.mig() && h100.serial_readable() && !h100.has_fan());
        assert_eq!(h100.margin.shutdown_c, Some(-8));
        let geforce = by_key("RTX-4090").unwrap();
        assert_eq!(
            (geforce.gpm(), geforce.memory_temperature_readable()),
            (Some(false), Some(false))
        );
        assert!(!geforce.mig() && !geforce.serial_readable() && geforce.has_fan());
        assert_eq!(by_key("RTX-5090").unwrap().gpm(), None);
    }

    #[test]
    fn memory_is_compared_with_every_known_total() {
        let l40s = by_key("L40S").unwrap();
        assert_eq!(l40s.memory_fits(46_068), Some(true));
        assert_eq!(l40s.memory_fits(49_140), Some(true));
        assert_eq!(l40s.memory_fits(47_500), Some(false));
        assert_eq!(l40s.memory_fits(8_376), Some(false));
        assert_eq!(l40s.memory_fits(i64::MIN), Some(false));
    }
}
