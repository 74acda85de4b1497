//! Minutes and single readings of random histories: they add up to the hour's record.

use proptest::prelude::*;

use super::super::*;
use super::history::{EpochPlan, Owned, START, bus_id, epoch, lay_out};
use crate::sample::{Metric, Reading};
use crate::segment::{Column, EventKind, Place};

/// What a tick says: growth of the counters, bits of the mask, or nothing.
type Tick = (i64, u8, Reading);

fn tick() -> impl Strategy<Value = Tick> {
    let mask = prop_oneof![
        8 => (0_i64..16).prop_map(Reading::Number),
        1 => Just(Reading::Number(i64::MAX)),
        1 => Just(Reading::Error),
    ];
    (0_i64..1_000_000_000, 0_u8..40, mask)
}

/// Gives each block ticks where its points are, with counters, a mask and a gauge.
fn read(segments: &mut [Owned], ticks: &[Tick]) {
    let mut next = ticks.iter().cycle();
    let mut value = 0_i64;
    for segment in segments {
        let Some(block) = &mut segment.block else { continue };
        block.ticks = block.track.points.iter().map(|point| point.at).collect();
        let (mut counter, mut masks) = (Vec::new(), Vec::new());
        for at in &block.ticks {
            let (growth, chance, mask) = next.next().unwrap();
            match chance {
                0 => value = 0,
                1 => {
                    let (at, kind) = (*at, EventKind::DriverReloaded);
                    segment.events.push(Event { at, gpu: None, kind });
                }
                _ => value += growth,
            }
            // The slow lane is not read at each tick.
            counter.push((chance % 3 != 2).then_some(Reading::Number(value)));
            masks.push(Some(*mask));
        }
        let column = |metric, readings| Column { metric, readings };
        block.columns = vec![
            column(Metric::PowerDraw, counter.clone()),
            column(Metric::ClockEventReasons, masks),
            column(Metric::Energy, counter.clone()),
            column(Metric::ThrottleSwPower, counter),
        ];
    }
}

fn history() -> impl Strategy<Value = Vec<Owned>> {
    let plans = proptest::collection::vec(epoch(), 1..5);
    let ticks = proptest::collection::vec(tick(), 1..90);
    (plans, ticks).prop_map(|(plans, ticks): (Vec<EpochPlan>, Vec<Tick>)| {
        let mut segments = lay_out(&plans, 60);
        read(&mut segments, &ticks);
        segments
    })
}

/// Hands each enrolled hour of a history to a law.
fn each_hour(segments: &[Owned], mut law: impl FnMut(&SlotHour<'_>)) {
    let end = segments.iter().map(|s| s.head.period.end).max().unwrap();
    let enrolled = Period::new(Timestamp(START + 200), end);
    let views: Vec<MeteredSegment<'_>> = segments.iter().map(Owned::view).collect();
    let always = [Period::new(Timestamp(0), Timestamp(i64::MAX))];
    let place = Place::of(&bus_id(), None);
    for hour in enrolled.hours() {
        law(&SlotHour {
            hour,
            origin: Origin::Measured,
            place: &place,
            enrolled,
            resident: None,
            segments: &views,
            prior_events: &[],
            drops: &[],
            observer: &always,
            connected: Some(&always),
        });
    }
}

fn gaps_of(gaps: impl Iterator<Item = (GapCause, i64)>) -> Gaps {
    let mut sum = Gaps::default();
    gaps.for_each(|(cause, ms)| sum.add(cause, ms));
    sum
}

/// Stretches are the record laid out in time, and the minutes are the stretches cut by minute.
fn assert_stretches_add_up(record: &HourRecord, profile: &HourProfile) {
    let stretches = profile.stretches.as_ref().unwrap();
    let ms = |s: &HourStretch| i64::from(s.end_ms) - i64::from(s.start_ms);
    assert!(stretches.iter().all(|s| ms(s) > 0 && s.end_ms <= 3_600_000));
    let follows = |a: &HourStretch, b: &HourStretch| {
        a.end_ms < b.start_ms || (a.end_ms == b.start_ms && a.gap != b.gap)
    };
    assert!(stretches.windows(2).all(|pair| follows(&pair[0], &pair[1])), "{stretches:?}");
    let measured = stretches.iter().filter(|s| s.gap.is_none());
    assert_eq!(measured.clone().map(ms).sum::<i64>(), record.measured_ms());
    assert_eq!(gaps_of(stretches.iter().filter_map(|s| Some((s.gap?, ms(s))))), record.gaps);
    for (minute, (_, expected)) in profile.utilization.iter().enumerate() {
        let minute = HourProfile::minute(record.hour, minute);
        let inside = measured.clone().map(|s| s.period(record.hour).intersect(minute).ms());
        assert_eq!(inside.sum::<i64>(), *expected);
    }
}

fn assert_minutes_add_up(record: &HourRecord, profile: &HourProfile) {
    let sums = profile.sums.as_ref().unwrap();
    let busy: i64 = profile.utilization.iter().map(|(busy, _)| busy).sum();
    let measured: i64 = profile.utilization.iter().map(|(_, measured)| measured).sum();
    assert_eq!((busy, measured), (record.histogram.busy_pct_ms(), record.measured_ms()));
    assert_eq!(gaps_of(sums.gaps.iter().map(|gap| (gap.cause, gap.ms))), record.gaps);
    assert_stretches_add_up(record, profile);
    for (minute, (busy, measured)) in profile.utilization.iter().enumerate() {
        let (least, most) = sums.busy_range[minute];
        assert!(i64::from(least) * measured <= *busy && *busy <= i64::from(most) * measured);
        let of_minute = sums.gaps.iter().filter(|gap| usize::from(gap.minute) == minute);
        assert!(measured + of_minute.map(|gap| gap.ms).sum::<i64>() <= 60_000);
    }
    let kept = record.counters.iter().filter(|(metric, _)| PROFILE_COUNTERS.contains(metric));
    let mut summed = Vec::new();
    for (metric, minutes) in &sums.counters {
        let mut sum = CounterDelta::default();
        for minute in minutes {
            assert!(minute.delta >= 0 && minute.covered_ms <= 60_000, "{minute:?}");
            sum.delta += minute.delta;
            sum.covered_ms += minute.covered_ms;
        }
        summed.push((*metric, sum));
    }
    assert_eq!(summed, kept.copied().collect::<Vec<_>>());
    if let Some(reasons) = &sums.reasons {
        for (minute, known) in reasons.known_ms.iter().enumerate() {
            assert!(*known <= 60_000);
            assert!(reasons.bits.iter().all(|(_, ms)| ms[minute] <= *known));
        }
    }
}

/// Pieces lie end to end and are the record; growth and reasons are the profile's.
fn assert_detail_is_the_hour(input: &SlotHour<'_>, metered: &[(HourRecord, HourProfile)]) {
    let detail = detail(input);
    let mut at = input.window().start;
    for piece in &detail.pieces {
        assert!(piece.period.start == at && !piece.period.is_empty());
        at = piece.period.end;
    }
    assert_eq!(at, input.window().end);
    for (record, profile) in metered {
        let own = || detail.pieces.iter().filter(|piece| *piece.gpu == record.gpu);
        let mut histogram = Histogram::default();
        let mut gaps = Gaps::default();
        for piece in own() {
            match piece.content {
                Content::Busy(percent) => histogram.add(percent, piece.period.ms()),
                Content::Gap(cause) => gaps.add(cause, piece.period.ms()),
            }
        }
        assert_eq!((&histogram, gaps), (&record.histogram, record.gaps));
        let gpu = detail.gpus.iter().find(|gpu| *gpu.gpu == record.gpu).unwrap();
        for (metric, parts) in &gpu.growth {
            let grown: i64 = parts.iter().map(|(_, growth)| growth).sum();
            assert_eq!(record.counter(*metric).unwrap().delta, grown);
        }
        let reasons = profile.sums.as_ref().unwrap().reasons.as_ref();
        let known: i64 = reasons.map_or(0, |reasons| reasons.known_ms.iter().sum());
        assert_eq!(gpu.reasons.iter().map(|(period, _)| period.ms()).sum::<i64>(), known);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn minutes_and_readings_add_up_to_the_hour(segments in history()) {
        each_hour(&segments, |input| {
            let metered = meter(input);
            for (record, profile) in &metered {
                assert_minutes_add_up(record, profile);
                assert_eq!(HourProfile::unpack(&profile.pack()).as_ref(), Ok(profile));
            }
            assert_detail_is_the_hour(input, &metered);
        });
    }
}

/// A card at its power limit for an hour, read as an agent reads it.
fn busy_hour() -> Vec<Owned> {
    let plan = EpochPlan {
        points: (0..3_600).map(|i| (1_000, Reading::Number(90 + i % 11))).collect(),
        ..super::history::steady(1_000, 1_000, 1, 0)
    };
    let mut segments = lay_out(&[plan], 60);
    let (mut second, mut energy) = (0_i64, 0_i64);
    for segment in &mut segments {
        let block = segment.block.as_mut().unwrap();
        block.ticks = block.track.points.iter().map(|point| point.at).collect();
        block.columns = Metric::ALL
            .iter()
            .map(|metric| Column { metric: *metric, readings: Vec::new() })
            .collect();
        for _ in &block.ticks {
            second += 1;
            // Spread like noise, the same in each run.
            let noise = second * 7_919 % 1_009;
            energy += 690_000 + noise * 10;
            for column in &mut block.columns {
                let slow = column.metric.kind() == crate::sample::MetricKind::Counter;
                let value = match column.metric {
                    Metric::PowerDraw => 690_000 + noise * 100 / 10,
                    Metric::Energy => energy / 1_000 * 1_000,
                    Metric::PcieTx | Metric::PcieRx => second * 3_000_000 + noise,
                    Metric::NvlinkTx | Metric::NvlinkRx => second * 90_000_000 + noise,
                    Metric::ThrottleSwPower => second * 400_000_000 + noise * 1_000_000,
                    Metric::SmClock => 1_700 + noise / 5,
                    Metric::SmActive | Metric::TensorActive | Metric::DramActive => 300 + noise / 2,
                    Metric::MemoryBusy => 40 + noise / 50,
                    Metric::Temperature | Metric::MemoryTemperature => 60 + noise / 300,
                    Metric::ClockEventReasons => 4,
                    _ => 1_000,
                };
                let due = !slow || second % 15 == 0;
                column.readings.push(due.then_some(Reading::Number(value)));
            }
        }
    }
    segments
}

/// What a profile costs, so that whoever adds to it sees what it does to the database.
#[test]
fn a_busy_hour_takes_less_than_three_kilobytes() {
    let (mut largest, mut exact) = (0, 0);
    each_hour(&busy_hour(), |input| {
        for (_, profile) in meter(input) {
            let bytes = profile.pack().len();
            largest = largest.max(bytes);
            let without = HourProfile { stretches: None, ..profile };
            exact = exact.max(bytes - without.pack().len());
        }
    });
    assert!((1_500..3_000).contains(&largest), "{largest} bytes");
    // Parts of hours, whose ends take three bytes more than that of a whole one.
    assert_eq!(exact, 9, "what exact stretches cost");
}
