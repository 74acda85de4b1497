//! From a shop's name of a GPU to a product of the catalogue, where it can mean one alone.
//!
//! `A100 (80 GB)` is a module or a PCIe board, `V100` six products: they stay names. `Tesla T4` is
//! one. Memory in a name never decides, since tables mix it up.

use crate::catalogue::gpu;

/// Shop names in lower case without memory and spaces, and the product that each can only mean.
const MARKET: [(&str, &str); 25] = [
    ("t4", "T4"),
    ("a10", "A10"),
    ("a10g", "A10G"),
    ("a30", "A30"),
    ("a40", "A40"),
    ("l4", "L4"),
    ("l20", "L20"),
    ("l40", "L40"),
    ("l40s", "L40S"),
    ("h20", "H20"),
    ("h100hgx", "H100-SXM5-80GB"),
    ("h100sxm", "H100-SXM5-80GB"),
    ("h100sxm5", "H100-SXM5-80GB"),
    ("h100pcie", "H100-PCIE-80GB"),
    ("h100nvl", "H100-NVL"),
    ("h200sxm", "H200-SXM5"),
    ("h200nvl", "H200-NVL"),
    ("a10080gbsxm", "A100-SXM4-80GB"),
    ("a10080gbpcie", "A100-PCIE-80GB"),
    ("a6000", "RTX-A6000"),
    ("rtxa6000", "RTX-A6000"),
    ("rtx6000ada", "RTX-6000-Ada"),
    ("rtx3090", "RTX-3090"),
    ("rtx4090", "RTX-4090"),
    ("rtx5090", "RTX-5090"),
];

/// The product that `name` can only mean, or that the table's details name as the driver does.
pub(super) fn key(name: &str, details: &str) -> Option<&'static str> {
    let plain = plain(name);
    let market = || MARKET.iter().find(|(shop, _)| *shop == plain).map(|(_, key)| *key);
    driver_name(details).or_else(market).filter(|key| gpu::by_key(key).is_some())
}

/// Lower case letters and digits, without what stands in brackets.
fn plain(name: &str) -> String {
    let before = name.split('(').next().unwrap_or_default();
    let kept = before.chars().filter(char::is_ascii_alphanumeric);
    let lower: String = kept.map(|letter| letter.to_ascii_lowercase()).collect();
    let short = lower.strip_prefix("nvidia").or_else(|| lower.strip_prefix("tesla"));
    short.unwrap_or(&lower).to_owned()
}

/// The product of `'Name': 'NVIDIA-H100-80GB-HBM3'` within a cell that Python wrote. That is no
/// JSON, and one name in it is all that is looked for.
fn driver_name(details: &str) -> Option<&'static str> {
    let (_, rest) = details.split_once("'Name': '")?;
    let (name, after) = rest.split_once('\'')?;
    let is_only = !after.contains("'Name': '");
    let driver = name.strip_prefix("NVIDIA-").or_else(|| name.strip_prefix("Tesla-"))?;
    let spaced = driver.replace('-', " ");
    let found = gpu::find(None, &spaced, None).or_else(|| gpu::find(None, driver, None));
    found.filter(|_| is_only).map(|model| model.key.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_becomes_a_key() {
        let table = [
            ("T4 (16 GB)", Some("T4")),
            ("H100 HGX (80GB)", Some("H100-SXM5-80GB")),
            ("H100 PCIe (80GB)", Some("H100-PCIE-80GB")),
            ("H100 (80 GB)", None),
            ("A100 (80 GB)", None),
            ("A100-80GB", None),
            ("A100-80GB-SXM", Some("A100-SXM4-80GB")),
            ("V100 (32 GB)", None),
            ("RTX A6000 (48 GB)", Some("RTX-A6000")),
            ("A6000", Some("RTX-A6000")),
            ("Quadro RTX 6000 (24 GB)", None),
            ("RTX4090", Some("RTX-4090")),
            ("K80 (12 GB)", None),
            ("", None),
        ];
        for (name, expected) in table {
            assert_eq!(key(name, ""), expected, "{name}");
        }
    }

    #[test]
    fn a_driver_name_in_a_python_cell_decides() {
        let cell = |name: &str| format!("{{'Gpus': [{{'Name': '{name}', 'Count': 1}}]}}");
        assert_eq!(key("H100", &cell("NVIDIA-H100-80GB-HBM3")), Some("H100-SXM5-80GB"));
        assert_eq!(key("RTX4090", &cell("NVIDIA-GeForce-RTX-4090")), Some("RTX-4090"));
        assert_eq!(key("V100", &cell("V100")), None);
        assert_eq!(key("H100", "{'Gpus': [{'Name': 'NVIDIA-H100"), None);
    }

    #[test]
    fn every_market_name_is_in_the_catalogue() {
        for (_, key) in MARKET {
            assert!(gpu::by_key(key).is_some(), "{key}");
        }
    }
}
