//! What strangers reported of their GPUs, as samples: what the block keeps and what the hour says.
//!
//! The rows are those of `server/tests/fixtures` (its README names them): four nodes after a job
//! that crashed, cells that are no numbers, GPUs that are gone. How a log is read is not here.

use super::history::{self, Owned, START, World, bus_id, gpu, head, started_event};
use super::*;
use crate::sample::Metric;
use crate::segment::{Block, Column, Place, TrackPoint, TrackSource, UtilizationTrack};

/// `nvidia-smi --query-gpu=index,pstate,utilization.gpu,memory.used,power.draw` on four nodes of 8
/// RTX 5090, which may draw 575 W.
const PHANTOMS: &str = include_str!("reported/phantom-cards.csv");
const MINUTE_MS: i64 = 60_000;

const UNSUPPORTED: Reading = Reading::Unsupported;

fn number(value: i64) -> Reading {
    Reading::Number(value)
}

/// A minute in which the GPU says the same each second, sent and read as a block.
fn minute(busy: Reading, columns: &[(Metric, Reading)]) -> Owned {
    let ticks: Vec<Timestamp> = (1..=60).map(|second| Timestamp(START + second * 1_000)).collect();
    let mut columns: Vec<_> = columns
        .iter()
        .map(|(metric, reading)| Column { metric: *metric, readings: vec![Some(*reading); 60] })
        .collect();
    columns.sort_by_key(|column| column.metric);
    let block = Block::Gpu(GpuBlock {
        uuid: gpu(0),
        bus_id: bus_id(),
        partition: None,
        ticks: ticks.clone(),
        track: UtilizationTrack {
            source: TrackSource::Poll,
            period_ms: 1_000,
            points: ticks.into_iter().map(|at| TrackPoint { at, busy }).collect(),
        },
        columns,
    });
    let Ok(Block::Gpu(block)) = Block::decode(&block.encode().unwrap()) else { panic!("a block") };
    let period = Period::new(Timestamp(START), Timestamp(START + MINUTE_MS));
    let events = vec![started_event(period.start, 1)];
    Owned { head: head(1, 1, 1, period), block: Some(block), events }
}

fn hour(segment: &Owned) -> (HourRecord, HourProfile) {
    let enrolled = segment.head.period;
    let always = [Period::new(Timestamp(0), Timestamp(i64::MAX))];
    let mut books = meter(&SlotHour {
        hour: enrolled.start.hour(),
        origin: segment.head.origin,
        place: &Place::of(&bus_id(), None),
        enrolled,
        resident: None,
        segments: &[segment.view()],
        prior_events: &[],
        drops: &[],
        observer: &always,
        connected: Some(&always),
    });
    assert_eq!(books.len(), 1);
    books.remove(0)
}

/// The reading of a column at its last tick.
fn last(segment: &Owned, metric: Metric) -> Option<Reading> {
    let columns = &segment.block.as_ref().unwrap().columns;
    columns.iter().find(|column| column.metric == metric).and_then(|c| *c.readings.last().unwrap())
}

/// The mean of a gauge in the hour's first minute.
fn mean(profile: &HourProfile, metric: Metric) -> Option<i64> {
    let (_, minutes) = profile.metrics.iter().find(|(known, _)| *known == metric)?;
    minutes[0].map(|cell| cell.mean)
}

/// 14 of 32 cards say 100 % and do nothing. The hour repeats what the driver says, and what shows
/// that it is not work stands beside it: no memory, no process, a fifth of the power.
#[test]
fn phantom_cards_are_100_percent_with_no_memory_no_process_and_low_power() {
    let mut fleet = UtilizationSum::default();
    let mut phantoms = Vec::new();
    for row in PHANTOMS.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = row.split(", ").collect();
        let whole = |cell: &str| -> i64 { cell.split(' ').next().unwrap().parse().unwrap() };
        let (watts, hundredths) =
            cells[4].trim_end_matches(" W").split_once('.').expect("two digits");
        let power_mw = (whole(watts) * 100 + whole(hundredths)) * 10;
        let segment = minute(
            number(whole(cells[2])),
            &[
                (Metric::MemoryUsed, number(whole(cells[3]))),
                (Metric::PowerDraw, number(power_mw).rounded_to(Metric::PowerDraw.resolution())),
                (Metric::ComputeProcesses, number(0)),
                (Metric::PowerLimitEnforced, number(575_000)),
            ],
        );
        let (record, profile) = hour(&segment);
        assert_eq!((record.measured_ms(), record.gaps.total_ms()), (MINUTE_MS, 0));
        fleet.add(&record);
        let (memory, power) =
            (mean(&profile, Metric::MemoryUsed), mean(&profile, Metric::PowerDraw).unwrap());
        assert_eq!(memory, Some(0), "{row}");
        assert_eq!(last(&segment, Metric::ComputeProcesses), Some(number(0)));
        if record.histogram.ms_at(100) == MINUTE_MS {
            assert!((108_000..128_000).contains(&power), "{row}");
            phantoms.push(power);
        } else {
            assert_eq!(record.histogram.ms_at(0), MINUTE_MS, "{row}");
            assert!(power < 23_000, "{row}");
        }
    }
    assert_eq!(phantoms.len(), 14);
    // What the driver says of the fleet, and nothing better is made of it: 43.75 %.
    assert_eq!((fleet.mean(), fleet.coverage()), (Some(Ppm(437_500)), Some(Ppm::ONE)));
}

/// A GB10 has no memory of its own to tell of. It is idle for sure; its memory is not empty.
#[test]
fn memory_that_is_not_told_is_neither_empty_nor_full() {
    let segment = minute(
        number(0),
        &[
            (Metric::MemoryTotal, UNSUPPORTED),
            (Metric::MemoryUsed, UNSUPPORTED),
            (Metric::PowerDraw, number(11_200)),
            (Metric::Temperature, number(35)),
        ],
    );
    let (record, profile) = hour(&segment);
    assert_eq!(record.histogram.ms_at(0), MINUTE_MS);
    assert_eq!(last(&segment, Metric::MemoryUsed), Some(UNSUPPORTED));
    assert_eq!(last(&segment, Metric::MemoryTotal), Some(UNSUPPORTED));
    assert_eq!(mean(&profile, Metric::MemoryUsed), None);
    assert_eq!(mean(&profile, Metric::PowerDraw), Some(11_200));
    assert_eq!(mean(&profile, Metric::Temperature), Some(35));
}

/// A GTX 770 cannot tell its utilization: that hour has no mean, and is not idle.
#[test]
fn utilization_that_is_not_supported_is_a_gap() {
    let columns = [
        (Metric::PowerDraw, UNSUPPORTED),
        (Metric::Temperature, number(52)),
        (Metric::FanSpeed, number(52)),
    ];
    let (record, profile) = hour(&minute(UNSUPPORTED, &columns));
    assert_eq!((record.measured_ms(), record.sum().mean()), (0, None));
    assert_eq!(record.gaps.ms(GapCause::Unsupported), MINUTE_MS);
    assert_eq!(mean(&profile, Metric::Temperature), Some(52));
    assert_eq!(mean(&profile, Metric::PowerDraw), None);
}

/// `ERR!` in every cell but the memory, which is what was there before the GPU stopped answering;
/// and `[GPU requires reset]`.
#[test]
fn cells_of_a_gpu_that_does_not_answer_are_errors_and_not_zero() {
    let columns = [
        (Metric::Temperature, Reading::Error),
        (Metric::PowerDraw, Reading::Error),
        (Metric::MemoryUsed, number(58_222)),
        (Metric::MemoryTotal, number(97_887)),
    ];
    let segment = minute(Reading::Error, &columns);
    let (record, profile) = hour(&segment);
    assert_eq!((record.measured_ms(), record.sum().mean()), (0, None));
    assert_eq!(record.gaps.ms(GapCause::NvmlError), MINUTE_MS);
    assert_eq!(last(&segment, Metric::Temperature), Some(Reading::Error));
    assert_eq!(mean(&profile, Metric::MemoryUsed), Some(58_222));
    assert_eq!(mean(&profile, Metric::Temperature), None);
}

/// Five reports of "unable to determine the device handle", and one of a driver that is gone. The
/// others of the node are silent too, for the tool lists none; they are not lost.
#[test]
fn a_gpu_that_is_gone_is_lost_and_the_others_are_only_silent() {
    let lost = |nvml_code| EventKind::GpuLost { nvml_code };
    let away = EventKind::NvmlUnavailable { nvml_code: 9 };
    for (kind, at_gpu, causes) in [
        // Unknown error, four times with other addresses.
        (lost(999), Some(0), [GapCause::GpuLost, GapCause::Unexplained]),
        // "GPU is lost. Reboot the system to recover this GPU", and a cell that asks for a reset.
        (lost(15), Some(0), [GapCause::GpuLost, GapCause::Unexplained]),
        (lost(16), Some(0), [GapCause::GpuLost, GapCause::Unexplained]),
        (away, None, [GapCause::NvmlError, GapCause::NvmlError]),
    ] {
        for (number_of_gpu, cause) in (0..).zip(causes) {
            let mut segment = minute(number(97), &[]);
            segment.block.as_mut().unwrap().uuid = gpu(number_of_gpu);
            let seen = segment.head.period;
            let event = Event { at: seen.end, gpu: at_gpu.map(gpu), kind: kind.clone() };
            segment.events.push(event);
            let enrolled = Some(Period::new(seen.start, seen.end.plus_ms(10 * MINUTE_MS)));
            let records = World { enrolled, ..World::default() }.meter(&[segment]);
            let sum = history::total(&records);
            assert_eq!(sum.measured_ms(), MINUTE_MS);
            assert_eq!(sum.mean(), Some(Ppm(970_000)), "silence is not 0 %");
            let gaps: Vec<_> = sum.gaps.iter().collect();
            assert_eq!(gaps, [(cause, 10 * MINUTE_MS)], "{kind:?} for GPU {number_of_gpu}");
        }
    }
}
