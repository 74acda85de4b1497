//! Reading the table: text cells to integers in our units. Decimals are scaled, never floats.

use super::{Architecture, BoardClass, EccSupport, GpuModel, Thresholds};

/// Why a row is no product.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowError {
    /// The file is not CSV, or the row is too short or too long.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// A cell does not hold what its column should.
    #[error("column {column}: {text:?}")]
    Cell {
        /// The column's name.
        column: &'static str,
        /// What the cell holds.
        text: String,
    },
}

/// The products of a table, each or why it could not be read.
pub(super) fn rows(table: &str) -> impl Iterator<Item = Result<GpuModel, RowError>> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    reader.into_records().map(move |record| Row { header: &header, record: &record? }.model())
}

struct Row<'a> {
    header: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    fn model(&self) -> Result<GpuModel, RowError> {
        Ok(GpuModel {
            key: self.required("key")?,
            nvml_name: self.required("nvml_name")?,
            aliases: self.list("aliases"),
            pci_device_ids: self.pci_device_ids()?,
            class: self.class()?,
            architecture: self.architecture()?,
            compute_capability: self.compute_capability()?,
            form: self.required("form")?,
            memory_nominal_gb: self.scaled("mem_gb_nominal", 0)?,
            memory_mib: self.scaled("nvml_total_mib", 0)?,
            memory_alternates_mib: self.memory_alternates_mib()?,
            memory_bandwidth_gb_s: self.scaled("mem_bw_gbps", 0)?,
            memory_type: self.text("mem_type").map(str::to_owned),
            bf16_dense_gflops: self.scaled("bf16_dense_tflops", 3)?,
            tdp_mw: self.scaled("tdp_w", 3)?,
            default_limit_mw: self.scaled("nvml_default_limit_w", 3)?,
            min_limit_mw: self.scaled("nvml_limit_min_w", 3)?,
            max_limit_mw: self.scaled("nvml_limit_max_w", 3)?,
            boost_mhz: self.scaled("boost_mhz", 0)?,
            max_sm_mhz: self.scaled("nvml_max_sm_mhz", 0)?,
            max_memory_mhz: self.scaled("nvml_max_mem_mhz", 0)?,
            nvlink_total_mb_s: self.scaled("nvlink_total_gbs", 3)?,
            nvlink_links: self.scaled("nvlink_links", 0)?,
            pcie_gen: self.scaled("pcie_gen", 0)?,
            pcie_width: self.scaled("pcie_width", 0)?,
            temperature: Thresholds {
                shutdown_c: self.parsed("temp_shutdown_c")?,
                slowdown_c: self.parsed("temp_slowdown_c")?,
                max_operating_c: self.parsed("temp_max_op_c")?,
            },
            memory_max_c: self.parsed("temp_mem_max_c")?,
            margin: Thresholds {
                shutdown_c: self.parsed("tlimit_shutdown_c")?,
                slowdown_c: self.parsed("tlimit_slowdown_c")?,
                max_operating_c: self.parsed("tlimit_max_op_c")?,
            },
            ecc: self.ecc()?,
            mig_slices: self.scaled("mig_slices", 0)?,
        })
    }

    /// The cell, or `None` when it is empty or the column is missing.
    fn text(&self, column: &'static str) -> Option<&str> {
        let at = self.header.iter().position(|name| name == column)?;
        self.record.get(at).map(str::trim).filter(|text| !text.is_empty())
    }

    fn bad(&self, column: &'static str) -> RowError {
        RowError::Cell { column, text: self.text(column).unwrap_or_default().to_owned() }
    }

    fn required(&self, column: &'static str) -> Result<String, RowError> {
        self.text(column).map(str::to_owned).ok_or_else(|| self.bad(column))
    }

    fn list(&self, column: &'static str) -> Vec<String> {
        let cells = self.text(column).into_iter().flat_map(|text| text.split(';'));
        cells.map(|cell| cell.trim().to_owned()).collect()
    }

    fn parsed<T: std::str::FromStr>(&self, column: &'static str) -> Result<Option<T>, RowError> {
        let parse = |text: &str| text.parse().map_err(|_| self.bad(column));
        self.text(column).map(parse).transpose()
    }

    fn scaled(&self, column: &'static str, digits: usize) -> Result<Option<i64>, RowError> {
        let parse = |text: &str| scaled(text, digits).ok_or_else(|| self.bad(column));
        self.text(column).map(parse).transpose()
    }

    fn memory_alternates_mib(&self) -> Result<Vec<i64>, RowError> {
        let column = "nvml_total_mib_alt";
        let cells = self.list(column);
        cells.iter().map(|cell| scaled(cell, 0).ok_or_else(|| self.bad(column))).collect()
    }

    fn pci_device_ids(&self) -> Result<Vec<u32>, RowError> {
        let combined = |cell: &String| {
            let (vendor, device) = cell.split_once(':')?;
            let vendor = u16::from_str_radix(vendor, 16).ok()?;
            let device = u16::from_str_radix(device, 16).ok()?;
            Some(u32::from(device) << 16 | u32::from(vendor))
        };
        let ids = self.list("pci_ids");
        ids.iter().map(|cell| combined(cell).ok_or_else(|| self.bad("pci_ids"))).collect()
    }

    fn class(&self) -> Result<BoardClass, RowError> {
        match self.text("class") {
            Some("data-centre") => Ok(BoardClass::DataCentre),
            Some("workstation") => Ok(BoardClass::Workstation),
            Some("geforce") => Ok(BoardClass::GeForce),
            _ => Err(self.bad("class")),
        }
    }

    fn architecture(&self) -> Result<Architecture, RowError> {
        match self.text("arch") {
            Some("Volta") => Ok(Architecture::Volta),
            Some("Turing") => Ok(Architecture::Turing),
            Some("Ampere") => Ok(Architecture::Ampere),
            Some("Ada") => Ok(Architecture::Ada),
            Some("Hopper") => Ok(Architecture::Hopper),
            Some("Blackwell") => Ok(Architecture::Blackwell),
            _ => Err(self.bad("arch")),
        }
    }

    fn compute_capability(&self) -> Result<(i32, i32), RowError> {
        let pair = self.text("cc").and_then(|text| text.split_once('.'));
        let parse = |(major, minor): (&str, &str)| Some((major.parse().ok()?, minor.parse().ok()?));
        pair.and_then(parse).ok_or_else(|| self.bad("cc"))
    }

    fn ecc(&self) -> Result<Option<EccSupport>, RowError> {
        match self.text("ecc") {
            None => Ok(None),
            Some("unsupported") => Ok(Some(EccSupport::Unsupported)),
            Some("off") => Ok(Some(EccSupport::OffByDefault)),
            Some("on") => Ok(Some(EccSupport::OnByDefault)),
            Some(_) => Err(self.bad("ecc")),
        }
    }
}

/// `"149.7"` with 3 digits is 149,700. More digits than fit, signs and other text are refused.
fn scaled(text: &str, digits: usize) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let kept = fraction.trim_end_matches('0');
    if !is_number(whole) || !is_number(fraction) || kept.len() > digits {
        return None;
    }
    format!("{whole}{kept:0<digits$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_scale_exactly_or_not_at_all() {
        assert_eq!(scaled("149.7", 3), Some(149_700));
        assert_eq!(scaled("600", 3), Some(600_000));
        assert_eq!(scaled("3.9", 1), Some(39));
        assert_eq!(scaled("3.90", 1), Some(39));
        for text in ["", "3.95", "-1", "+1", "1e3", "1.", ".5", "1.x", "99999999999999999999"] {
            assert_eq!(scaled(text, 1), None, "{text}");
        }
    }

    #[test]
    fn a_bad_cell_names_its_column() {
        let table =
            "key,nvml_name,class,arch,cc,form,tdp_w\nX,NVIDIA X,geforce,Ada,8.9,PCIe,many\n";
        let error = rows(table).next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "column tdp_w: \"many\"");
    }
}
