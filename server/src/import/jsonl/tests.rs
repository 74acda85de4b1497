use leasewatch_core::time::{Period, Zone};

use super::*;

fn reader() -> Reader<'static> {
    let credible = Period::new(Timestamp(1_500_000_000_000), Timestamp(1_800_000_000_000));
    Reader { columns: None, zone: Zone::parse("Asia/Shanghai").unwrap(), credible, progress: None }
}

/// five samples of eight GPUs; memory in bytes, times without a zone.
#[test]
fn a_monitor_s_samples_are_rows_of_each_gpu() {
    let log = parse(include_str!("../../../tests/fixtures/monitor.jsonl"), reader()).unwrap();
    assert_eq!(log.gpus.len(), 8);
    assert!(
        log.gpus
            .iter()
            .zip(0..)
            .all(|(gpu, index)| gpu.rows.len() == 5 && gpu.inventory.index == index)
    );
    let row = &log.gpus[0].rows[0];
    assert_eq!(row.at.to_string(), "2021-12-05T20:19:35.000Z");
    assert_eq!(row.busy, Reading::Number(56));
    assert_eq!(row.reading(Metric::MemoryUsed), Some(Reading::Number(255)));
    assert_eq!(log.gpus[0].inventory.memory_total_mib, Some(16_281));
    assert_eq!(row.reading(Metric::PowerLimitManagement), Some(Reading::Number(250_000)));
    assert_eq!(row.reading(Metric::EccUncorrected), Some(Reading::Number(0)));
    assert!(log.columns_ignored.iter().any(|name| name == "cpu_usage"));
    assert_eq!(log.problems.count, 0, "{}", log.problems);
}

#[test]
fn bad_lines_and_bad_values_are_named_and_the_rest_is_read() {
    let text = r#"{"time": "2021-12-06 04:19:35", "gpu_usage:0": 5, "gpu_usage:1": 101}
{"gpu_usage:0": 5}
{"time": 1638735580, "gpu_usage:0": null, "gpu_temperature:0": "N/A", "gpu_usage:1": 7}
[1]
{"time": "2021-12-06 04:19:50", "cpu_usage": 3}
{"time": "2021-12-06 04:19:51", "gpu_us"#;
    let log = parse(text, reader()).unwrap();
    let busy: Vec<Vec<_>> =
        log.gpus.iter().map(|gpu| gpu.rows.iter().map(|row| row.busy).collect()).collect();
    assert_eq!(busy, [vec![Reading::Number(5), Reading::Error], vec![Reading::Number(7)]]);
    assert_eq!(log.gpus[0].rows[1].reading(Metric::Temperature), Some(Reading::Unsupported));
    assert_eq!(
        log.problems.first.iter().map(|problem| problem.line).collect::<Vec<_>>(),
        [1, 2, 4, 5, 6]
    );
}
