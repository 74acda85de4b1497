//! Comparing the names that NVML prints with the names in the table.
//!
//! Exact after normalisation, except for names that the driver cut (`...`): products differ in
//! single letters (`L40`, `L40S`), so anything looser would name the wrong one.

use super::GpuModel;

/// True when `name`, whole or cut, is one of the model's names.
pub(super) fn matches(model: &GpuModel, name: &str) -> bool {
    let wanted = normal(name);
    let known = || model.aliases.iter().chain([&model.nvml_name]).map(|known| normal(known));
    match wanted.strip_suffix("...") {
        Some(start) => {
            let start = start.trim_end();
            !start.is_empty() && known().any(|known| known.starts_with(start))
        }
        None => known().any(|known| known == wanted),
    }
}

/// True for the names of vGPU profiles (`NVIDIA A40-12Q`, `GRID A100-40C`, `A100-1-5CME`) and of
/// MIG slices.
pub(super) fn is_virtual(name: &str) -> bool {
    let name = name.trim();
    let profile = name.rsplit_once('-').is_some_and(|(_, tail)| {
        let letters = tail.trim_start_matches(|c: char| c.is_ascii_digit());
        letters.len() < tail.len() && matches!(letters, "A" | "B" | "C" | "Q" | "CME")
    });
    profile || name.split_whitespace().any(|word| word == "GRID" || word == "MIG")
}

/// Lower case, single spaces, without the maker's prefixes, which changed over driver versions.
fn normal(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let words = lower.split_whitespace().filter(|word| !matches!(*word, "nvidia" | "tesla"));
    words.collect::<Vec<_>>().join(" ")
}
