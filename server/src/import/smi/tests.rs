use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::EventKind;
use leasewatch_core::time::{Period, Timestamp, Zone};

use super::*;
use crate::import::log::LoggedRow;

const LOG: &str = "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W], pstate\n\
    2026/08/01 03:59:40.361, 0, 100 %, 10549 MiB, 250.04 W, P0\n\
    2026/08/01 03:59:40.365, 1, [N/A], 12 MiB, [Not Supported], P8\n\
    2026/08/01 03:59:41.371, 0, 63 %, 1764 MiB, 101.06 W, P0\n";

fn reader(columns: Option<&str>) -> Reader<'_> {
    let credible = Period::new(Timestamp(1_500_000_000_000), Timestamp(1_800_000_000_000));
    Reader { columns, zone: Zone::UTC, credible, progress: None }
}

fn read(text: &str) -> ImportLog {
    parse(text, reader(None)).unwrap()
}

fn problems(log: &ImportLog) -> Vec<(usize, String)> {
    log.problems.first.iter().map(|problem| (problem.line, problem.fault.to_string())).collect()
}

fn row_counts(log: &ImportLog) -> Vec<usize> {
    log.gpus.iter().map(|gpu| gpu.rows.len()).collect()
}

fn busy(log: &ImportLog, gpu: usize) -> Vec<Reading> {
    log.gpus[gpu].rows.iter().map(|row| row.busy).collect()
}

/// A capture without times, as a log of one instant: the times are ours, every cell is theirs.
fn at_one_instant(header: &str, rows: &[&str]) -> ImportLog {
    let rows: String = rows.iter().map(|row| format!("2026/08/01 00:00:00.000, {row}\n")).collect();
    read(&format!("timestamp, {header}\n{rows}"))
}

#[test]
fn rows_are_grouped_by_gpu_and_typed() {
    let log = read(LOG);
    assert_eq!(row_counts(&log), [2, 1]);
    let first = &log.gpus[0].rows[0];
    assert_eq!(first.at.to_string(), "2026-08-01T03:59:40.361Z");
    assert_eq!(first.busy, Reading::Number(100));
    assert_eq!(first.reading(Metric::PowerDraw), Some(Reading::Number(250_000)));
    let second = &log.gpus[1].rows[0];
    assert_eq!(second.busy, Reading::Unsupported);
    assert_eq!(second.reading(Metric::PowerDraw), Some(Reading::Unsupported));
    assert_eq!(second.reading(Metric::PerformanceState), Some(Reading::Number(8)));
    assert_eq!(log.problems.count, 0);
}

#[test]
fn local_times_follow_the_zone() {
    let zone = Zone::parse("Asia/Shanghai").unwrap();
    let log = parse(LOG, Reader { zone, ..reader(None) }).unwrap();
    assert_eq!(log.gpus[0].rows[0].at.to_string(), "2026-07-31T19:59:40.361Z");
}

/// Rows of two GPUs each minute through the night of 26 October 2025, as a clock in Berlin has it.
#[test]
fn the_hour_that_a_zone_repeats_is_read_twice() {
    let zone = Zone::parse("Europe/Berlin").unwrap();
    let start = Timestamp::parse_iso("2025-10-25T23:30:00Z").unwrap();
    let minutes = (0..150).map(|minute| start.plus_ms(minute * 60_000));
    let line = |at: Timestamp, gpu: u8| {
        let local = zone.local(at).unwrap();
        format!("2025/10/26 {:02}:{:02}:00, {gpu}, 7 %\n", local.hour, local.minute)
    };
    let rows: Vec<String> =
        minutes.clone().flat_map(|at| [0, 1].map(|gpu| line(at, gpu))).collect();
    assert_eq!(rows.iter().filter(|row| row.contains(" 02:59:00, 0")).count(), 2);
    let header = "timestamp, index, utilization.gpu\n";
    let of = |rows: &[String]| {
        let reader = Reader { zone, ..reader(None) };
        parse(&format!("{header}{}", rows.concat()), reader).unwrap()
    };
    let whole = of(&rows);
    assert_eq!((row_counts(&whole), whole.problems.count), (vec![150, 150], 0));
    assert!(whole.gpus[1].rows.iter().map(|row| row.at).eq(minutes));

    // Up to a message that stands in the second pass, which keeps its time.
    let mut with_message = rows.clone();
    with_message.insert(240, "No devices were found\n".to_owned());
    let log = of(&with_message);
    assert_eq!(log.events[0].at.to_string(), "2025-10-26T01:29:00.001Z");

    // Without a beginning and an end it is no longer clear which pass a row is of.
    let part = of(&rows[70..100]);
    assert!(part.gpus.iter().all(|gpu| gpu.rows.is_empty()), "{part:?}");
    assert_eq!(part.problems.count, 30);
    let what = part.problems.first[0].fault.to_string();
    assert!(what.contains("Europe/Berlin set its clock back"), "{what}");
}

/// A spreadsheet in German, two files in one with a mark between them, zeros of a disk that lost
/// power, seconds since 1970: whatever is whole is read.
#[test]
fn logs_as_other_programs_leave_them() {
    let rows = |text: &str| row_counts(&read(text));
    let german = "timestamp;index;utilization.gpu [%];power.draw [W]\r\n\
        01.08.2026 03:59:40,361;0;7 %;70,45 W\r\n01.08.2026 03:59:41,361;0;8 %;70,50 W\r\n";
    let log = read(german);
    assert_eq!((row_counts(&log), log.problems.count), (vec![2], 0));
    assert_eq!(log.gpus[0].rows[0].at.to_string(), "2026-08-01T03:59:40.361Z");
    let power = log.gpus[0].rows[1].reading(Metric::PowerDraw);
    assert_eq!(power, Some(Reading::Number(70_500)));

    let later = LOG.replace("03:59:4", "04:59:4");
    assert_eq!(rows(&format!("\u{feff}{LOG}\u{feff}{later}")), [4, 2]);
    assert_eq!(
        rows(&format!("{LOG}{}{}", "\0".repeat(512), &later[later.find('\n').unwrap() + 1..])),
        [4, 2]
    );
    assert_eq!(rows("timestamp,utilization.gpu\n1785556780,5\n1785556781.5,6\n"), [2]);

    // A second file without times: its rows are named, and do not stand under the first header.
    let untimed = format!("{LOG}index, utilization.gpu [%]\n0, 5 %\n");
    let log = read(&untimed);
    assert_eq!((row_counts(&log), log.problems.count), (vec![2, 1], 2), "{}", log.problems);
    let error = parse("index, utilization.gpu [%]\n0, 5 %\n", reader(None)).unwrap_err();
    assert!(matches!(error, LogError::Columns { .. }), "{error}");
}

#[test]
fn a_log_without_a_header_asks_for_columns_and_shows_its_first_row() {
    let row = "2026/04/25 16:06:06.780, 0 %, 2 MiB";
    let error = parse(row, reader(None)).unwrap_err().to_string();
    assert!(error.contains(row) && error.contains("--columns timestamp,"), "{error}");
    let named = reader(Some("timestamp,utilization.gpu,memory.used"));
    for text in [row.to_owned(), row.replace(", ", "\t"), row.replace(", ", ";")] {
        let log = parse(&text, named).unwrap();
        assert_eq!(busy(&log, 0), [Reading::Number(0)], "{text}");
    }
    assert!(parse(row, reader(Some("utilization.gpu"))).is_err());
    let error = parse(&format!("# my log\n{row}\n"), reader(None)).unwrap_err().to_string();
    assert!(error.ends_with(row), "{error}");
    let table = include_str!("../../../tests/fixtures/smi-lost-gpu-texts.txt");
    let log = read(table);
    assert!(log.gpus.is_empty() && log.problems.count > 5, "{}", log.problems);
}

#[test]
fn a_bad_row_is_named_and_the_rest_is_read() {
    for (row, what) in [
        ("2026/08/01 03:59:42.000, 0, 1e9 %, 1 MiB, 1 W, P0", "not a utilization"),
        ("2026/08/01 03:59:42.000, 0, 101 %, 1 MiB, 1 W, P0", "not a utilization"),
        ("2026/13/01 03:59:42.000, 0, 1 %, 1 MiB, 1 W, P0", "not a time"),
        ("2026/08/01 03:59:42.000, 0, 1 %", "3 cells where the header has 6"),
        ("2026/08/01 03:59:41.371, 0, 1 %, 1 MiB, 1 W, P0", "stands still"),
        ("2026/08/01 03:59:39.000, 0, 1 %, 1 MiB, 1 W, P0", "goes backwards"),
        ("2026/08/01 03:59:42.000, 0, 1 %, 1 dB, 1 W, P0", "not memory_used_mib"),
        ("2096/08/01 03:59:42.000, 0, 1 %, 1 MiB, 1 W, P0", "the clock was not set"),
        ("2026/08/01 03:59:42.000, 0, 1\0 %, 1 MiB, 1 W, P0", "bytes that are not text"),
        ("2026/08/01 03:59:42.000, 0, 1\u{fffd} %, 1 MiB, 1 W, P0", "bytes that are not text"),
        ("2026/08/01 03:59:42.000, 0, \"1 %, 1 MiB, 1 W, P0", "a quote is not closed"),
        ("| NVIDIA-SMI 450.51.05    Driver Version: 450.51.05 |", "1 cells where"),
    ] {
        let after = "2026/08/01 03:59:43.000, 0, 5 %, 1 MiB, 1 W, P0\n";
        let log = read(&format!("{LOG}{row}\n{after}"));
        assert_eq!(problems(&log).len(), 1, "{row}");
        assert!(problems(&log)[0].0 == 5 && problems(&log)[0].1.contains(what), "{log:?}");
        assert_eq!(busy(&log, 0).last(), Some(&Reading::Number(5)), "{row}");
    }
    assert!(read(" \n").gpus.is_empty());
}

#[test]
fn a_number_that_cannot_be_leaves_out_its_cell_alone() {
    let log = read(
        &format!("{LOG}2026/08/01 03:59:42.000, 0, 7 %, 9 MiB, 4294967.29 W, P0\n")
            .replace("4294967.29", "42949672.95"),
    );
    let last = log.gpus[0].rows.last().unwrap();
    assert_eq!(last.busy, Reading::Number(7));
    assert_eq!(last.reading(Metric::PowerDraw), None);
    assert!(problems(&log)[0].1.contains("power_draw_mw of 42949672950 cannot be"));
}

#[test]
fn only_the_first_problems_are_shown_and_all_are_counted() {
    let log = read(&format!("{LOG}{}", "noise\n".repeat(50)));
    assert_eq!((log.problems.first.len(), log.problems.count), (20, 50));
    assert!(
        log.problems
            .to_string()
            .ends_with("line 24: 1 cells where the header has 6: noise\nand 30 more\n")
    );
}

#[test]
fn a_restart_repeats_the_header_in_another_order() {
    let log = read(&format!(
        "{LOG}\nutilization.gpu [%], timestamp, index, clocks.sm [MHz]\n\
        5 %, 2026/08/01 04:10:00.000, 0, 1980 MHz\n6 %, 2026/08/01 04:10:00.001, 1, 345 MHz\n{LOG}"
    ));
    assert_eq!(row_counts(&log), [3, 2]);
    assert_eq!(busy(&log, 1), [Reading::Unsupported, Reading::Number(6)]);
    assert_eq!(log.rows_repeated, 3, "the log stands in the file twice");
    assert_eq!(log.problems.count, 0);
}

#[test]
fn quotes_tabs_semicolons_and_bare_numbers_are_read() {
    let plain = read(
        "timestamp, index, utilization.gpu [%], power.draw [W]\n2026/08/01 03:59:40, 0, 40 %, 11.64 W\n",
    );
    for text in [
        "\"timestamp\",\"index\",\"utilization.gpu [%]\",\"power.draw [W]\"\n\"2026/08/01 03:59:40\",\"0\",\"40 %\",\"11.64 W\"\n",
        "timestamp\tindex\tutilization.gpu [%]\tpower.draw [W]\n8/1/2026 3:59:40 AM\t0\t40\t11.64\n",
        "timestamp;index;utilization.gpu [%];power.draw [W]\r\n2026-08-01 03:59:40;0;40 %;11,64 W\r\n",
        "power.draw, utilization.gpu, index, timestamp\n11.64, 40, 0, 2026-08-01T03:59:40Z\n",
    ] {
        assert_eq!(read(text).gpus, plain.gpus, "{text}");
    }
}

#[test]
fn a_last_line_counts_when_it_cannot_go_on() {
    let log = |row: &str| read(&format!("timestamp, utilization.gpu\n{row}")).gpus.len();
    for whole in [
        "2026/08/01 03:59:40.361, 63 %",
        "2026/08/01 03:59:40.361, 63\r",
        "2026/08/01 03:59:40.361, [N/A]",
    ] {
        assert_eq!(log(whole), 1, "{whole}");
    }
    for cut in
        ["2026/08/01 03:59:40.361, 6", "2026/08/01 03:59:40.361, ", "2026/08/01 03:59:40.361, [N/A"]
    {
        assert_eq!(log(cut), 0, "{cut}");
    }
}

#[test]
fn lines_about_lost_gpus_become_events() {
    let header = "timestamp, pci.bus_id, utilization.gpu\n";
    let row = |second: u32, bus: &str| {
        format!("2026/08/01 03:59:{second:02}.000, 00000000:{bus}:00.0, 9 %\n")
    };
    let lost = "Unable to determine the device handle for GPU0000:07:00.0: Unknown Error\n";
    let elsewhere = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error.\n";
    let text = [
        header,
        lost,
        &row(1, "06"),
        &row(1, "07"),
        lost,
        lost,
        elsewhere,
        "No devices were found\n",
        &row(40, "06"),
    ]
    .concat();
    let log = read(&text);
    let events: Vec<_> = log
        .events
        .iter()
        .map(|event| (event.at.to_string(), event.gpu.clone(), event.kind.clone()))
        .collect();
    let second =
        log.gpus.iter().find(|gpu| gpu.inventory.bus_id.as_str().contains(":07:")).unwrap();
    assert_eq!(
        events,
        [
            (
                "2026-08-01T03:59:01.001Z".to_owned(),
                Some(second.inventory.uuid.clone()),
                EventKind::GpuLost { nvml_code: 999 }
            ),
            ("2026-08-01T03:59:01.003Z".to_owned(), None, EventKind::NoGpuAttached),
        ]
    );
    let found = problems(&log);
    assert!(
        found[0]
            == (2, "the GPU at 0000:07 is lost, before the first row: not recorded".to_owned()),
        "{found:?}"
    );
    assert!(
        found[1] == (7, "the GPU at 0000:0B is lost: no row names a GPU there".to_owned()),
        "{found:?}"
    );
    assert_eq!(found.len(), 2);
}

#[test]
fn a_gpu_that_requires_reset_is_a_fault_and_not_unsupported() {
    let log = read(
        "timestamp, index, utilization.gpu, temperature.gpu\n\
        2026/08/01 00:00:01, 0, 50, 60\n2026/08/01 00:00:02, 0, [GPU requires reset], [GPU requires reset]\n\
        2026/08/01 00:00:03, 0, [GPU requires reset], [GPU requires reset]\n2026/08/01 00:00:04, 0, ERR!, 60\n",
    );
    assert_eq!(
        busy(&log, 0),
        [Reading::Number(50), Reading::Error, Reading::Error, Reading::Error]
    );
    let events: Vec<_> =
        log.events.iter().map(|event| (event.at.0 % 60_000, event.kind.clone())).collect();
    assert_eq!(events, [(2_000, EventKind::GpuLost { nvml_code: 16 })]);
}

#[test]
fn rows_of_several_gpus_without_a_name_are_refused() {
    let rows: String = (0..12)
        .flat_map(|second| {
            (0..4).map(move |gpu| format!("2026/08/01 03:59:{second:02}.00{gpu}, 9 %\n"))
        })
        .collect();
    let refused = parse(&format!("timestamp, utilization.gpu\n{rows}"), reader(None));
    assert_eq!(refused, Err(LogError::GpusNotNamed));
}

#[test]
fn a_damaged_uuid_is_no_second_gpu() {
    let row = |second: u32, uuid: &str| {
        format!("2026/08/01 03:59:{second:02}, {uuid}, 00000000:07:00.0, 9 %\n")
    };
    let text: String =
        (0..9).map(|second| row(second, if second == 4 { "GPU-1f" } else { "GPU-1e" })).collect();
    let log = read(&format!("timestamp, uuid, pci.bus_id, utilization.gpu\n{text}"));
    assert_eq!(row_counts(&log), [8]);
    assert_eq!(problems(&log), [(6, "GPU-1f in 00000000:07:00.0, where GPU-1e sits".to_owned())]);
}

/// 14 of 32 cards say 100 % with no memory in use, while they draw a fifth of their power.
#[test]
fn phantom_cards_stay_visible() {
    let text = include_str!("../../../tests/fixtures/smi-phantom-query.csv");
    let is_phantom = |row: &LoggedRow| row.busy == Reading::Number(100);
    let mut phantoms = Vec::new();
    for node in text.split("# gpu-node-").skip(1) {
        let rows: Vec<&str> = node.lines().skip(1).collect();
        let log = at_one_instant(
            "index, pstate, utilization.gpu [%], memory.used [MiB], power.draw [W]",
            &rows,
        );
        assert_eq!((log.gpus.len(), log.problems.count), (8, 0));
        let found = log.gpus.iter().filter(|gpu| is_phantom(&gpu.rows[0]));
        phantoms.push(found.map(|gpu| gpu.inventory.index).collect::<Vec<_>>());
        for row in log.gpus.iter().map(|gpu| &gpu.rows[0]) {
            let power = row.reading(Metric::PowerDraw).and_then(Reading::number).unwrap();
            assert_eq!(row.reading(Metric::MemoryUsed), Some(Reading::Number(0)));
            assert_eq!(power > 100_000, is_phantom(row));
            assert!(power < 130_000, "of 575 W");
        }
    }
    assert_eq!(phantoms, [vec![1, 3, 4, 5, 7], vec![5, 6], vec![3, 5, 6, 7], vec![1, 2, 4]]);
}

/// what a GB10, a GTX 770 and a vGPU do not tell is not zero, and not idle.
#[test]
fn cells_that_are_no_numbers_say_why() {
    let text = include_str!("../../../tests/fixtures/smi-nonnumeric-cells.txt");
    let line = |number: usize| text.lines().nth(number - 1).unwrap();
    let gb10 = at_one_instant(line(2), &[line(3)]);
    let row = &gb10.gpus[0].rows[0];
    assert_eq!(row.busy, Reading::Number(0));
    assert_eq!(row.reading(Metric::MemoryTotal), Some(Reading::Unsupported));
    assert_eq!(row.reading(Metric::MemoryUsed), Some(Reading::Unsupported));
    assert_eq!(row.reading(Metric::PowerDraw), Some(Reading::Number(11_200)));
    assert_eq!(row.reading(Metric::Temperature), Some(Reading::Number(35)));
    assert_eq!(gb10.gpus[0].inventory.memory_total_mib, None);

    let columns = "memory.total,memory.free,memory.used,temperature.gpu,fan.speed,utilization.gpu,utilization.memory";
    for old_or_new in [8, 9] {
        let log = at_one_instant(columns, &[line(old_or_new)]);
        let row = &log.gpus[0].rows[0];
        assert_eq!(row.reading(Metric::FanSpeed), Some(Reading::Unsupported));
        assert_eq!(row.reading(Metric::MemoryUsed), Some(Reading::Number(0)));
    }

    let gtx770 = at_one_instant(line(12).trim_start_matches("# GTX 770: "), &[line(13)]);
    let row = &gtx770.gpus[0].rows[0];
    assert_eq!(gtx770.gpus[0].inventory.name, "GeForce GTX 770");
    assert_eq!(row.busy, Reading::Unsupported);
    assert_eq!(row.reading(Metric::PowerDraw), Some(Reading::Unsupported));
    assert_eq!(row.reading(Metric::Temperature), Some(Reading::Number(52)));

    let vgpu = at_one_instant(
        "clocks.max.sm,memory.total,gpu_name,utilization.gpu",
        &[&format!("{}, [N/A]", line(15))],
    );
    assert_eq!(vgpu.gpus[0].inventory.memory_total_mib, Some(24_576));
    assert_eq!(vgpu.gpus[0].rows[0].reading(Metric::SmClockMax), Some(Reading::Unsupported));
}

/// over 190 columns of two drivers, in one file.
#[test]
fn full_captures_of_two_drivers_are_read() {
    let older = include_str!("../../../tests/fixtures/smi-capture-4080.csv");
    let newer = include_str!("../../../tests/fixtures/smi-capture-h100.csv");
    let log = read(older);
    let idle = &log.gpus[0].rows[0];
    assert_eq!(log.problems.count, 0, "{}", log.problems);
    assert_eq!(idle.busy, Reading::Number(0));
    assert_eq!(idle.reading(Metric::MemoryBusy), Some(Reading::Number(23)));
    assert_eq!(idle.reading(Metric::PcieGeneration), Some(Reading::Number(1)));
    assert_eq!(log.gpus[0].inventory.pcie_generation_max, Some(4));
    assert_eq!(idle.reading(Metric::MemoryTemperature), Some(Reading::Unsupported));
    assert_eq!(idle.reading(Metric::PowerDraw), Some(Reading::Number(26_200)));

    let log = read(newer);
    let [idle, load] = log.gpus[0].rows.as_slice() else { panic!("{log:?}") };
    assert_eq!((idle.busy, load.busy), (Reading::Number(0), Reading::Number(100)));
    assert_eq!(idle.reading(Metric::PerformanceState), Some(Reading::Number(0)), "idle in P0");
    assert_eq!(idle.reading(Metric::ClockEventReasons), Some(Reading::Number(1)));
    assert_eq!(load.reading(Metric::ClockEventReasons), Some(Reading::Number(0)));
    assert_eq!(idle.reading(Metric::FanSpeed), Some(Reading::Unsupported));
    assert_eq!(load.reading(Metric::PowerDraw), Some(Reading::Number(632_000)));
    assert_eq!(load.reading(Metric::MemoryUsed), Some(Reading::Number(19_818)));
    assert_eq!(log.gpus[0].inventory.memory_total_mib, Some(81_559));
}

#[test]
fn one_wrong_time_loses_its_row_alone() {
    let rows = |wrong: &str| {
        let row = |second: u32| format!("2026/08/01 03:59:{second:02}, {second} %\n");
        let after: String = (3..9).map(row).collect();
        read(&format!("timestamp, utilization.gpu\n{}{wrong}, 99 %\n{after}", row(1)))
    };
    for wrong in ["2026/08/11 03:59:02", "2026/01/01 03:59:02"] {
        let log = rows(wrong);
        assert_eq!(row_counts(&log), [7], "{wrong}");
        assert!(problems(&log)[0].0 == 3 && problems(&log)[0].1.contains("backwards"), "{log:?}");
    }
    assert_eq!(row_counts(&rows("2026/08/01 03:59:02")), [8]);
    let text = "2026/08/01 03:59:01, 1 %\n2026/08/11 03:59:02, 2 %\n2026/08/01 03:59:03, 3 %\n";
    let log = read(&format!("timestamp, utilization.gpu\n{text}"));
    assert_eq!(busy(&log, 0), [Reading::Number(1), Reading::Number(3)]);
}
