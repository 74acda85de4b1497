//! What the tenant says that was rented: `--want` and a TOML file.
//!
//! What is not named is not judged against a term; it is compared with what is known of the
//! product, and otherwise only told.

use std::fs;
use std::path::{Path, PathBuf};

use leasewatch_core::catalogue::gpu::{self, GpuModel};
use leasewatch_core::segment::PathLevel;
use serde::Deserialize;

/// The wanted terms. The keys of `--want` are the same, with `-` or `_`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Terms {
    /// GPUs of the node.
    pub(crate) gpus: Option<i64>,
    /// Product: a key of the catalogue or its beginning (`H100-SXM`), or the name that NVML prints.
    pub(crate) model: Option<String>,
    /// Memory of each GPU.
    pub(crate) memory_mib: Option<i64>,
    /// Least power limit of each GPU.
    pub(crate) power_limit_w: Option<i64>,
    /// Lanes of each GPU.
    pub(crate) pcie_width: Option<i64>,
    /// PCIe generation under load.
    pub(crate) pcie_gen: Option<i64>,
    /// NVLink links that are up.
    pub(crate) nvlink: Option<i64>,
    /// The farthest that two GPUs may be apart over PCIe, by the name of what they have in common.
    pub(crate) path: Option<String>,
    /// ECC.
    pub(crate) ecc: Option<bool>,
    /// MIG mode.
    pub(crate) mig: Option<bool>,
    /// Persistence mode.
    pub(crate) persistence: Option<bool>,
}

/// Why terms cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TermsError {
    #[error("{}: {source}", .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: Box<toml::de::Error> },
    #[error("--want {0}: must be KEY=VALUE with one of the keys {KEYS}")]
    Key(String),
    #[error("--want {key}: {value:?} is not {expected}")]
    Value { key: String, value: String, expected: &'static str },
    #[error("{key}: must be from {lowest} to {highest}")]
    Range { key: &'static str, lowest: i64, highest: i64 },
    #[error(
        "model: no product of the catalogue is called {0}. Name one as NVML prints it \
         (\"NVIDIA H100 80GB HBM3\"), or a key such as H100-SXM5-80GB or its beginning, H100-SXM"
    )]
    Model(String),
    #[error("path: {0:?} is not one of board, switch, switches, host-bridge, numa-node, system")]
    Path(String),
}

const KEYS: &str = "gpus, model, memory-mib, power-limit-w, pcie-width, pcie-gen, nvlink, path, \
                    ecc, mig, persistence";

impl Terms {
    /// The file's terms, and what `wants` say over them.
    pub(crate) fn new(file: Option<&Path>, wants: &[String]) -> Result<Self, TermsError> {
        let mut terms = file.map(read_file).transpose()?.unwrap_or_default();
        for want in wants.iter().flat_map(|want| want.split(',')) {
            terms.want(want.trim())?;
        }
        terms.check()
    }

    /// The farthest that two GPUs may be apart.
    pub(crate) fn farthest(&self) -> Option<PathLevel> {
        let name = self.path.as_ref()?.replace('-', "_");
        PathLevel::ALL.into_iter().find(|level| level.name() == name)
    }

    fn want(&mut self, text: &str) -> Result<(), TermsError> {
        let unknown = || TermsError::Key(text.to_owned());
        let (key, value) = text.split_once('=').ok_or_else(unknown)?;
        let (key, value) = (key.trim().replace('-', "_"), value.trim());
        let wrong =
            |expected| TermsError::Value { key: key.clone(), value: value.to_owned(), expected };
        let number = || value.parse::<i64>().map(Some).map_err(|_| wrong("a whole number"));
        let flag = || match value {
            "on" | "true" => Ok(Some(true)),
            "off" | "false" => Ok(Some(false)),
            _ => Err(wrong("on or off")),
        };
        match key.as_str() {
            "gpus" => self.gpus = number()?,
            "model" => self.model = Some(value.to_owned()),
            "memory_mib" => self.memory_mib = number()?,
            "power_limit_w" => self.power_limit_w = number()?,
            "pcie_width" => self.pcie_width = number()?,
            "pcie_gen" => self.pcie_gen = number()?,
            "nvlink" => self.nvlink = number()?,
            "path" => self.path = Some(value.to_owned()),
            "ecc" => self.ecc = flag()?,
            "mig" => self.mig = flag()?,
            "persistence" => self.persistence = flag()?,
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn check(self) -> Result<Self, TermsError> {
        let ranges = [
            ("gpus", self.gpus, 1, 256),
            ("memory_mib", self.memory_mib, 1, 16_777_216),
            ("power_limit_w", self.power_limit_w, 1, 10_000),
            ("pcie_width", self.pcie_width, 1, 32),
            ("pcie_gen", self.pcie_gen, 1, 8),
            ("nvlink", self.nvlink, 0, 64),
        ];
        for (key, value, lowest, highest) in ranges {
            if value.is_some_and(|value| !(lowest..=highest).contains(&value)) {
                return Err(TermsError::Range { key, lowest, highest });
            }
        }
        if let Some(path) = self.path.as_ref().filter(|_| self.farthest().is_none()) {
            return Err(TermsError::Path(path.clone()));
        }
        match &self.model {
            Some(wanted) if !is_product(wanted) => Err(TermsError::Model(wanted.clone())),
            _ => Ok(self),
        }
    }
}

fn read_file(path: &Path) -> Result<Terms, TermsError> {
    let text = fs::read_to_string(path)
        .map_err(|source| TermsError::Read { path: path.to_owned(), source })?;
    toml::from_str(&text)
        .map_err(|source| TermsError::File { path: path.to_owned(), source: Box::new(source) })
}

/// A product of the catalogue, or a whole name that a driver may print of a newer one.
fn is_product(wanted: &str) -> bool {
    wanted.contains(' ') || gpu::all().iter().any(|model| names_product(wanted, model))
}

/// Whether `wanted` names this product: by its key, its key's beginning, or one of its names.
pub(crate) fn names_product(wanted: &str, model: &GpuModel) -> bool {
    let is_name = |name: &String| name.eq_ignore_ascii_case(wanted);
    begins_key(wanted, &model.key) || is_name(&model.nvml_name) || model.aliases.iter().any(is_name)
}

/// `H100-SXM` begins `H100-SXM5-80GB`, but `L40` does not begin `L40S`, nor `H20` `H200`.
fn begins_key(wanted: &str, key: &str) -> bool {
    let Some(head) = key.get(..wanted.len()) else { return false };
    if !wanted.contains(|c: char| c.is_ascii_digit()) || !head.eq_ignore_ascii_case(wanted) {
        return false;
    }
    let last = wanted.chars().next_back();
    match key[wanted.len()..].chars().next() {
        None | Some('-') => true,
        Some(next) => next.is_ascii_digit() && last.is_some_and(|c| c.is_ascii_alphabetic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(want: &str) -> Result<Terms, TermsError> {
        Terms::new(None, &[want.to_owned()])
    }

    #[test]
    fn terms_of_the_command_line_weigh_more_than_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("terms.toml");
        fs::write(&path, "gpus = 4\nmodel = \"H100-SXM\"\necc = true\n").unwrap();
        let terms = Terms::new(Some(&path), &["gpus=8,power-limit-w=700".to_owned()]).unwrap();
        assert_eq!((terms.gpus, terms.power_limit_w, terms.ecc), (Some(8), Some(700), Some(true)));
        fs::write(&path, "gpu = 4\n").unwrap();
        assert!(Terms::new(Some(&path), &[]).unwrap_err().to_string().contains("gpu"));
    }

    #[test]
    fn mistakes_are_named() {
        for (want, told) in [
            ("gpus", "--want gpus"),
            ("gpu=8", "--want gpu=8"),
            ("gpus=eight", "gpus"),
            ("gpus=0", "gpus: must be from 1 to 256"),
            ("ecc=yes", "on or off"),
            ("model=H100-SMX", "H100-SMX"),
            ("model=", "model"),
            ("path=near", "path: \"near\" is not one of board, switch"),
        ] {
            let error = of(want).unwrap_err().to_string();
            assert!(error.contains(told), "{want}: {error}");
        }
        assert!(of("model=NVIDIA Something New").is_ok());
        assert_eq!(of("path=numa-node").unwrap().farthest(), Some(PathLevel::NumaNode));
    }

    #[test]
    fn a_beginning_names_a_product_only_where_a_part_of_its_key_ends() {
        let named = |wanted: &str| -> Vec<&str> {
            let all = gpu::all().iter().filter(|model| names_product(wanted, model));
            all.map(|model| model.key.as_str()).collect()
        };
        assert_eq!(named("H100-SXM"), ["H100-SXM5-80GB"]);
        assert_eq!(named("h100-sxm5"), ["H100-SXM5-80GB"]);
        assert_eq!(named("L40"), ["L40"]);
        assert_eq!(named("L40S"), ["L40S"]);
        assert_eq!(named("RTX-4090"), ["RTX-4090"]);
        assert_eq!(named("H20"), ["H20", "H20-3e"]);
        assert_eq!(named("NVIDIA H100 80GB HBM3"), ["H100-SXM5-80GB"]);
        assert_eq!(named("A100-SXM4").len(), 2);
        assert!(named("").is_empty() && named("H").is_empty());
    }
}
