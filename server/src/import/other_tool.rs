//! Output that is given by mistake: of other calls of `nvidia-smi`, and of other tools. Told by how
//! it begins, so that the answer is the command that writes what can be imported, and not a list of
//! lines.

use leasewatch_core::log_fault::ForeignOutput;

use super::{LogError, text};
use crate::intake::LogKind;

/// Writes a log that can be imported.
const QUERY: &str = "nvidia-smi --query-gpu=timestamp,index,uuid,name,utilization.gpu,memory.used,power.draw --format=csv -l 1";
/// Writes snapshots.
const SNAPSHOT: &str = "nvidia-smi -q -x";
/// Lines that are looked at.
const LINES: usize = 20;

/// An object or a list, and no name in brackets before a line.
fn is_json(line: &str) -> bool {
    let inside = line.strip_prefix('[').map(str::trim_start);
    line.starts_with('{') || inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
}

/// What a text looks like that holds no row of its kind.
pub(super) fn told(text: &str, kind: LogKind) -> Option<LogError> {
    let start: Vec<&str> =
        text.lines().map(text::trim).filter(|l| !l.is_empty()).take(LINES).collect();
    let any =
        |begins: &[&str]| start.iter().any(|l| begins.iter().any(|begin| l.starts_with(begin)));
    let first = start.first()?;
    let names = |wanted: &[&str]| {
        let is_wanted = |word: &str| wanted.contains(&word);
        start.iter().any(|line| line.starts_with('#') && line.split(['#', ' ', ',']).any(is_wanted))
    };
    let (found, instead) = if is_json(first) && kind == LogKind::Smi {
        (ForeignOutput::Json, "leasewatch-server import jsonl")
    } else if kind == LogKind::Jsonl && !first.starts_with('{') {
        let is_xml = first.starts_with('<');
        let found = if is_xml { ForeignOutput::Xml } else { ForeignOutput::NotJson };
        (found, "leasewatch-server import nvidia-smi")
    } else if any(&["# HELP", "# TYPE", "DCGM_FI_"]) {
        (ForeignOutput::Prometheus, QUERY)
    } else if names(&["pid"]) {
        (ForeignOutput::Pmon, QUERY)
    } else if names(&["pwr", "sm", "gtemp", "mclk", "rxpci", "sbecc"]) {
        (ForeignOutput::Dmon, QUERY)
    } else if start.iter().any(|line| line.contains("NVSMI LOG")) {
        (ForeignOutput::FullText, SNAPSHOT)
    } else if any(&["| NVIDIA-SMI", "|  GPU  Name", "| GPU  Name"]) {
        (ForeignOutput::Table, QUERY)
    } else if first.starts_with("GPU 0:") && first.contains("(UUID:") {
        (ForeignOutput::List, QUERY)
    } else if first.contains("used_gpu_memory") || first.contains("used_memory") {
        (ForeignOutput::ComputeApps, QUERY)
    } else {
        return None;
    };
    Some(LogError::OtherTool { found, instead })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, kind: LogKind) -> Option<String> {
        match told(text, kind) {
            Some(LogError::OtherTool { found, instead }) => {
                assert!(!instead.is_empty());
                Some(found.to_string())
            }
            _ => None,
        }
    }

    #[test]
    fn what_is_given_by_mistake_is_named() {
        for (text, name) in [
            (
                "# gpu   pwr gtemp mtemp    sm   mem\n# Idx     W     C     C     %     %\n    0    24    30     -     0     0\n",
                "dmon",
            ),
            ("#Time        gpu   pwr gtemp\n#HH:MM:SS    Idx     W     C\n", "dmon"),
            ("#gpu, rxpci, txpci\n", "dmon"),
            ("# gpu        pid  type    sm   mem   enc   dec   command\n", "pmon"),
            (
                "\n==============NVSMI LOG==============\n\nTimestamp : Sat Aug  1 03:59:40 2026\n",
                "nvidia-smi -q",
            ),
            (
                "Sat Aug  1 03:59:40 2026\n+-----+\n| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13 |\n",
                "table",
            ),
            ("GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaa)\n", "nvidia-smi -L"),
            ("\u{feff}pid, process_name, used_gpu_memory [MiB]\n", "processes"),
            ("timestamp, gpu_uuid, pid, used_memory [MiB]\n", "processes"),
            ("# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n", "Prometheus"),
            ("[{\"utilization\": 5}]\n", "JSON"),
        ] {
            assert!(found(text, LogKind::Smi).is_some_and(|found| found.contains(name)), "{text}");
        }
        assert_eq!(found("<?xml version=\"1.0\" ?>", LogKind::Jsonl).as_deref(), Some("XML"));
        assert!(found("timestamp, utilization.gpu\n", LogKind::Jsonl).is_some());
    }

    #[test]
    fn what_is_a_log_and_what_is_unknown_is_not() {
        for text in
            ["", "hello\nworld\n", "timestamp, index\n", "# my log\n2026/08/01 03:59:40, 5 %\n"]
        {
            assert_eq!(found(text, LogKind::Smi), None, "{text}");
        }
        assert_eq!(found("{\"time\": 1}\n", LogKind::Jsonl), None);
    }
}
