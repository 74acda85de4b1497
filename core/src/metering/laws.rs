//! The laws of metering on random histories, against an independent painter.

use proptest::prelude::*;

use super::*;
use crate::evidence::chain::{ClockSource, ClockState};
use crate::id::{BusId, ChainId, EpochId, LifeUnitId, NodeId, Sequence, Slug};
use crate::sample::Reading;
use crate::segment::{
    EventKind, LifeUnit, LifeUnitKind, Origin, StopReason, TrackPoint, TrackSource,
    UtilizationTrack,
};

/// From enrolment to the first run, which was starting then.
const START_MS: i64 = 500;
const START: i64 = 490_000 * crate::time::HOUR_MS;

/// A segment that owns its parts.
#[derive(Debug, Clone)]
struct Owned {
    head: Head,
    block: Option<GpuBlock>,
    events: Vec<Event>,
}

/// One epoch: points of a GPU at a cadence, some of them missing.
#[derive(Debug, Clone)]
struct EpochPlan {
    pause_ms: i64,
    period_ms: i64,
    /// Distance to the point before, and the reading.
    points: Vec<(i64, Reading)>,
    same_life: bool,
    goodbye: bool,
    gpu: u8,
}

fn gpu(number: u8) -> GpuUuid {
    GpuUuid::new(&format!("GPU-{number}")).unwrap()
}

fn reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        20 => (0_i64..=100).prop_map(Reading::Number),
        1 => Just(Reading::Stale),
        1 => Just(Reading::Error),
        1 => Just(Reading::Unsupported),
    ]
}

fn epoch() -> impl Strategy<Value = EpochPlan> {
    let distance =
        prop_oneof![15 => 990_i64..1_010, 2 => 1_900_i64..2_100, 1 => 3_001_i64..400_000];
    (
        0_i64..900_000,
        prop_oneof![Just(167_i64), Just(1_000)],
        proptest::collection::vec((distance, reading()), 1..200),
        any::<bool>(),
        any::<bool>(),
        0_u8..2,
    )
        .prop_map(|(pause_ms, period_ms, points, same_life, goodbye, gpu)| EpochPlan {
            pause_ms,
            period_ms,
            points,
            same_life,
            goodbye,
            gpu,
        })
}

fn head(epoch: u8, life: u8, sequence: u64, period: Period) -> Head {
    Head {
        tenant: Slug::new("tenant-a").unwrap(),
        node: NodeId([1; 16]),
        chain: ChainId([2; 16]),
        epoch: EpochId([epoch; 8]),
        life_unit: LifeUnitId([life; 16]),
        sequence: Sequence(sequence),
        period,
        cadence_ms: 1_000,
        origin: Origin::Measured,
        gpu_count: 1,
        block_count: 1,
        root: Hash([0; 32]),
        previous: None,
        clock: ClockState {
            anchor_wall: Timestamp(0),
            anchor_boot_ms: 0,
            offset_ms: Some(2),
            bound_ms: Some(1),
            source: ClockSource::Ntp,
        },
        checkpoint: None,
        agent_version: "1".to_owned(),
        agent_digest: None,
    }
}

/// Lays the epochs out in time and cuts them into segments of `batch` points.
fn lay_out(plans: &[EpochPlan], batch: usize) -> Vec<Owned> {
    let mut segments = Vec::new();
    let (mut at, mut life) = (START + 500, 0_u8);
    for (number, plan) in (0_u8..).zip(plans) {
        at += plan.pause_ms;
        life += u8::from(!plan.same_life);
        let started = Timestamp(at);
        let mut points = Vec::new();
        for (distance, busy) in &plan.points {
            at += distance;
            points.push(TrackPoint { at: Timestamp(at), busy: *busy });
        }
        let chunks = points.chunks(batch).count();
        let mut from = started;
        for (index, chunk) in points.chunks(batch).enumerate() {
            let end = chunk.last().unwrap().at;
            let mut events = Vec::new();
            if index == 0 {
                events.push(started_event(started, life));
            }
            if index + 1 == chunks && plan.goodbye {
                let kind = EventKind::Goodbye { reason: StopReason::Upgrade };
                events.push(Event { at: end, gpu: None, kind });
            }
            let sequence = u64::try_from(segments.len()).unwrap() + 1;
            segments.push(Owned {
                head: head(number, life, sequence, Period::new(from, end)),
                block: Some(block(plan, chunk)),
                events,
            });
            from = end;
        }
    }
    segments
}

fn started_event(at: Timestamp, life: u8) -> Event {
    let life_unit = LifeUnit {
        id: LifeUnitId([life; 16]),
        kind: LifeUnitKind::Host,
        boot_id: "b".to_owned(),
        started_at: at,
    };
    let (version, clock_source) = ("1".to_owned(), "tsc".to_owned());
    Event { at, gpu: None, kind: EventKind::AgentStarted { version, life_unit, clock_source } }
}

fn block(plan: &EpochPlan, points: &[TrackPoint]) -> GpuBlock {
    GpuBlock {
        uuid: gpu(plan.gpu),
        bus_id: BusId::new("00000000:18:00.0").unwrap(),
        ticks: Vec::new(),
        track: UtilizationTrack {
            source: TrackSource::Poll,
            period_ms: u32::try_from(plan.period_ms).unwrap(),
            points: points.to_vec(),
        },
        columns: Vec::new(),
    }
}

fn meter_all(segments: &[Owned]) -> Vec<HourRecord> {
    let end = segments.iter().map(|s| s.head.period.end).max().unwrap();
    let enrolled = Period::new(Timestamp(START), end);
    let views: Vec<MeteredSegment<'_>> = segments
        .iter()
        .map(|s| MeteredSegment {
            head: &s.head,
            head_hash: Hash([0; 32]),
            block: s.block.as_ref(),
            events: &s.events,
        })
        .collect();
    let always = [Period::new(Timestamp(0), Timestamp(i64::MAX))];
    enrolled
        .hours()
        .flat_map(|hour| {
            meter(&SlotHour {
                hour,
                enrolled,
                resident: None,
                segments: &views,
                prior_events: &[],
                drops: &[],
                observer: &always,
                connected: None,
            })
        })
        .map(|(record, _)| record)
        .collect()
}

/// What hangs on batching (heads, origin of counters) is left out.
fn content(records: &[HourRecord]) -> Vec<(Hour, GpuUuid, i64, Histogram, Gaps, i64, i64)> {
    records
        .iter()
        .map(|r| {
            let (hour, gpu) = (r.hour, r.gpu.clone());
            (hour, gpu, r.enrolled_ms, r.histogram.clone(), r.gaps, r.samples, r.max_gap_ms)
        })
        .collect()
}

/// The rule of weights written a second time, in the plainest way: paint each millisecond.
fn painted(plans: &[EpochPlan]) -> Histogram {
    let mut paint: Vec<Option<Reading>> = Vec::new();
    let mut at = 500_usize;
    for plan in plans {
        at += usize::try_from(plan.pause_ms).unwrap();
        let period = usize::try_from(plan.period_ms).unwrap();
        let hold = (3 * period).max(3_000);
        for (index, (distance, busy)) in plan.points.iter().enumerate() {
            let distance = usize::try_from(*distance).unwrap();
            at += distance;
            paint.resize(at.max(paint.len()), None);
            let weight = if index > 0 && distance <= hold { distance } else { period };
            for slot in &mut paint[at.saturating_sub(weight)..at] {
                if slot.is_none() {
                    *slot = Some(*busy);
                }
            }
        }
    }
    let mut histogram = Histogram::default();
    for reading in paint.into_iter().flatten() {
        if let Reading::Number(percent) = reading {
            histogram.add(u8::try_from(percent).unwrap(), 1);
        }
    }
    histogram
}

fn total(records: &[HourRecord]) -> UtilizationSum {
    let mut sum = UtilizationSum::default();
    records.iter().for_each(|record| sum.add(record));
    sum
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_enrolled_millisecond_is_in_one_place(plans in proptest::collection::vec(epoch(), 1..6)) {
        let segments = lay_out(&plans, 60);
        let records = meter_all(&segments);
        for record in &records {
            prop_assert!(record.sum().is_conserved(), "{record:?}");
            prop_assert!(record.max_gap_ms <= record.gaps.total_ms());
            prop_assert_eq!(record.max_gap_ms == 0, record.gaps.total_ms() == 0);
        }
        let end = segments.last().unwrap().head.period.end;
        prop_assert_eq!(total(&records).enrolled_ms, end.0 - START);
    }

    #[test]
    fn hours_add_up_to_what_a_painter_sees(plans in proptest::collection::vec(epoch(), 1..6)) {
        let records = meter_all(&lay_out(&plans, 60));
        prop_assert_eq!(total(&records).histogram, painted(&plans));
    }

    #[test]
    fn order_repeats_and_batches_change_nothing(
        plans in proptest::collection::vec(epoch(), 1..5),
        batch in 1_usize..90,
        order in any::<u64>(),
    ) {
        let segments = lay_out(&plans, 60);
        let expected = meter_all(&segments);
        let mut shuffled: Vec<Owned> = segments.iter().chain(&segments).cloned().collect();
        let mut state = order;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
        }
        prop_assert_eq!(&meter_all(&shuffled), &expected);
        prop_assert_eq!(content(&meter_all(&lay_out(&plans, batch))), content(&expected));
    }
}

fn steady(period_ms: i64, distance: i64, count: usize, busy: i64) -> EpochPlan {
    EpochPlan {
        pause_ms: 0,
        period_ms,
        points: vec![(distance, Reading::Number(busy)); count],
        same_life: true,
        goodbye: false,
        gpu: 0,
    }
}

#[test]
fn polling_that_slows_down_does_not_bias_the_mean() {
    // 30 min at 1 Hz and 100 %, then 30 min at 0.5 Hz and 0 %: the mean of samples is 66.7 %.
    let mut plan = steady(1_000, 1_000, 1_800, 100);
    plan.points.extend(vec![(2_000, Reading::Number(0)); 900]);
    plan.pause_ms = -500;
    let sum = total(&meter_all(&lay_out(&[plan], 60)));
    assert_eq!(sum.mean(), Some(Ppm(500_000)));
    assert_eq!(sum.coverage(), Some(Ppm::ONE));
}

#[test]
fn a_point_after_silence_speaks_only_for_its_own_period() {
    let mut plan = steady(1_000, 1_000, 10, 100);
    plan.points.push((60_000, Reading::Number(100)));
    let sum = total(&meter_all(&lay_out(&[plan], 60)));
    assert_eq!(sum.measured_ms(), 11_000);
    assert_eq!(sum.gaps.ms(GapCause::Unexplained), 59_000);
    assert_eq!(sum.gaps.ms(GapCause::AgentRestart), START_MS);
}

#[test]
fn causes_follow_the_life_unit() {
    let cause = |same_life, goodbye| {
        let mut first = steady(1_000, 1_000, 30, 50);
        first.goodbye = goodbye;
        let mut second = EpochPlan { pause_ms: 120_000, same_life, ..steady(1_000, 1_000, 30, 50) };
        second.points[0].0 = 2_500;
        let sum = total(&meter_all(&lay_out(&[first, second], 60)));
        sum.gaps.iter().collect::<Vec<_>>()
    };
    let gap = 120_000 + 1_500;
    assert_eq!(cause(true, false), [(GapCause::AgentRestart, gap + START_MS)]);
    let reboot = [(GapCause::NodeReboot, gap), (GapCause::AgentRestart, START_MS)];
    assert_eq!(cause(false, false), reboot);
    assert_eq!(cause(false, true), [(GapCause::AgentRestart, gap + START_MS)]);
}

#[test]
fn a_lost_gpu_is_a_gap_with_its_cause_until_it_answers() {
    let mut plan = steady(1_000, 1_000, 20, 90);
    plan.points.push((100_000, Reading::Number(10)));
    let mut segments = lay_out(&[plan], 60);
    let lost_at = Timestamp(START + 500 + 21_000);
    segments[0].events.push(Event {
        at: lost_at,
        gpu: Some(gpu(0)),
        kind: EventKind::GpuLost { nvml_code: 15 },
    });
    let sum = total(&meter_all(&segments));
    assert_eq!(sum.gaps.ms(GapCause::GpuLost), 99_000);
    assert_eq!(sum.gaps.ms(GapCause::AgentRestart), START_MS);
}

#[test]
fn a_swap_within_a_run_belongs_to_the_old_gpu() {
    let mut segments = lay_out(&[steady(1_000, 1_000, 10, 50), steady(1_000, 1_000, 10, 60)], 60);
    let shift = segments[0].head.epoch;
    segments[1].head.epoch = shift;
    segments[1].events.clear();
    segments[1].block.as_mut().unwrap().uuid = gpu(1);
    let mut points = segments[1].block.as_ref().unwrap().track.points.clone();
    points.iter_mut().for_each(|p| p.at = p.at.plus_ms(30_000));
    segments[1].block.as_mut().unwrap().track.points = points;
    segments[1].head.period.end = segments[1].head.period.end.plus_ms(30_000);
    let records = meter_all(&segments);
    assert_eq!(records.len(), 2);
    assert_eq!(
        (records[0].gpu.clone(), records[0].gaps.ms(GapCause::GpuReplaced)),
        (gpu(0), 30_000)
    );
    assert_eq!((records[1].gpu.clone(), records[1].gaps.total_ms()), (gpu(1), 0));
    assert_eq!(records[1].measured_ms(), 10_000);
}

#[test]
fn contradicting_sources_are_a_conflict_and_agreeing_ones_are_not() {
    let meter_two = |other: i64| {
        let mut segments = lay_out(&[steady(1_000, 1_000, 10, 50)], 60);
        let mut twin = lay_out(&[steady(1_000, 1_000, 10, other)], 60);
        twin[0].head.epoch = EpochId([9; 8]);
        twin[0].head.sequence = Sequence(2);
        segments.extend(twin);
        total(&meter_all(&segments))
    };
    assert_eq!(meter_two(50).gaps.ms(GapCause::Conflict), 0);
    let contested = meter_two(60);
    // The twin's first point is cut to the end of what was measured before, so it claims nothing.
    assert_eq!((contested.gaps.ms(GapCause::Conflict), contested.measured_ms()), (9_000, 1_000));
}

#[test]
fn a_wrong_clock_places_nothing() {
    let mut segments = lay_out(&[steady(1_000, 1_000, 10, 50)], 60);
    segments[0].head.clock.offset_ms = Some(-4_990);
    segments[0].head.clock.bound_ms = Some(20);
    let sum = total(&meter_all(&segments));
    assert_eq!((sum.measured_ms(), sum.gaps.ms(GapCause::ClockInvalid)), (0, 10_000));
}
