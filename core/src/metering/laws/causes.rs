//! Each cause of a gap, and the examples that the documents give.

use super::super::*;
use super::history::{
    EpochPlan, Owned, START, START_MS, World, gpu, lay_out, meter_all, steady, total,
};
use crate::id::{BusId, EpochId, Sequence};
use crate::sample::{Metric, Reading};
use crate::segment::{Column, EventKind, LifeUnitKind, Origin};

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

/// Two runs of thirty seconds with two minutes between, and what is done to the second's start.
fn two_runs(change: impl FnOnce(&mut Owned)) -> Vec<Owned> {
    let first = steady(1_000, 1_000, 30, 50);
    let second = EpochPlan { pause_ms: 120_000, ..steady(1_000, 1_000, 30, 50) };
    let mut segments = lay_out(&[first, second], 60);
    change(&mut segments[1]);
    segments
}

fn causes(sum: &UtilizationSum) -> Vec<(GapCause, i64)> {
    sum.gaps.iter().filter(|(cause, _)| *cause != GapCause::AgentRestart).collect()
}

#[test]
fn a_new_life_of_a_container_is_no_reboot() {
    let segments = two_runs(|second| {
        second.head.life_unit.0 = [7; 16];
        let EventKind::AgentStarted { life_unit, .. } = &mut second.events[0].kind else {
            panic!()
        };
        life_unit.kind = LifeUnitKind::Container;
    });
    assert_eq!(causes(&total(&meter_all(&segments))), [(GapCause::InstanceRestart, 120_000)]);
}

#[test]
fn a_gpu_that_is_missing_after_a_start_is_lost() {
    let mut segments = two_runs(|second| second.block = None);
    let at = segments[1].events[0].at;
    let kind = EventKind::GpuMissing { bus_id: BusId::new("00000000:18:00.0").unwrap() };
    segments[1].events.push(Event { at, gpu: Some(gpu(0)), kind });
    let sum = total(&meter_all(&segments));
    // From the last reading on: the loss is older than the restart that showed it.
    assert_eq!(causes(&sum), [(GapCause::GpuLost, 150_000)]);
}

#[test]
fn a_gpu_that_was_lost_hours_ago_is_still_lost() {
    let mut segments = lay_out(&[steady(1_000, 1_000, 60, 50)], 60);
    let head = segments[0].head.clone();
    let lost = Event {
        at: Timestamp(START - 7_200_000),
        gpu: Some(gpu(0)),
        kind: EventKind::GpuLost { nvml_code: 15 },
    };
    segments[0].block = None;
    let world = World { prior_events: vec![lost], enrolled: Some(head.period), ..World::default() };
    let views =
        [MeteredSegment { head: &head, head_hash: Hash([0; 32]), block: None, events: &[] }];
    let always = [Period::new(Timestamp(0), Timestamp(i64::MAX))];
    let resident = gpu(0);
    let records = meter(&SlotHour {
        hour: head.period.start.hour(),
        origin: Origin::Simulated,
        place: &Place::of(&BusId::new("00000000:18:00.0").unwrap(), None),
        enrolled: head.period,
        resident: Some(Resident { gpu: &resident, partition: None }),
        segments: &views,
        prior_events: &world.prior_events,
        drops: &[],
        observer: &always,
        connected: None,
    });
    assert_eq!(records[0].0.gaps.ms(GapCause::GpuLost), head.period.ms());
    assert_eq!(records[0].0.origin, Origin::Simulated, "an hour without data keeps the mark");
}

/// One run with a hole of 100 s after its twentieth second, and an event in the hole.
fn hole(kind: EventKind, of: Option<GpuUuid>) -> UtilizationSum {
    let mut plan = steady(1_000, 1_000, 20, 90);
    plan.points.push((100_000, Reading::Number(10)));
    let mut segments = lay_out(&[plan], 60);
    let at = Timestamp(START + START_MS + 22_000);
    segments[0].events.push(Event { at, gpu: of, kind });
    total(&meter_all(&segments))
}

#[test]
fn events_explain_a_hole_from_the_last_reading_to_the_next() {
    let cause = |kind, of| causes(&hole(kind, of));
    assert_eq!(cause(EventKind::DriverReloaded, None), [(GapCause::DriverReload, 99_000)]);
    assert_eq!(cause(EventKind::NoGpuAttached, None), [(GapCause::NoGpuAttached, 99_000)]);
    assert_eq!(
        cause(EventKind::NvmlUnavailable { nvml_code: 9 }, None),
        [(GapCause::NvmlError, 99_000)]
    );
    assert_eq!(cause(EventKind::CollectorStalled, Some(gpu(0))), [(GapCause::NvmlError, 99_000)]);
    // What happened to another GPU explains nothing here.
    assert_eq!(cause(EventKind::CollectorStalled, Some(gpu(5))), [(GapCause::Unexplained, 99_000)]);
    assert_eq!(cause(EventKind::Xid { code: 79 }, Some(gpu(0))), [(GapCause::Unexplained, 99_000)]);
}

#[test]
fn readings_without_a_number_are_gaps_with_their_reason() {
    let mut plan = steady(1_000, 1_000, 3, 90);
    plan.points.extend([Reading::Unsupported, Reading::Error, Reading::Stale].map(|r| (1_000, r)));
    let sum = total(&meter_all(&lay_out(&[plan], 60)));
    assert_eq!(causes(&sum), [(GapCause::Unsupported, 1_000), (GapCause::NvmlError, 2_000)]);
}

#[test]
fn silence_at_the_end_is_told_apart_by_what_the_server_knows_of_itself() {
    let segments = lay_out(&[steady(1_000, 1_000, 10, 50)], 60);
    let end = segments[0].head.period.end;
    let after = |from: i64, to: i64| vec![Period::new(end.plus_ms(from), end.plus_ms(to))];
    let enrolled = Some(Period::new(Timestamp(START), end.plus_ms(100_000)));
    let world = World { enrolled, ..World::default() };
    let tail = |world: World| causes(&total(&world.meter(&segments)));
    assert_eq!(tail(world.clone()), [(GapCause::Unexplained, 100_000)]);
    assert_eq!(
        tail(World { cut_off: after(40_000, 200_000), ..world.clone() }),
        [(GapCause::NetUnreachable, 60_000), (GapCause::Unexplained, 40_000)]
    );
    assert_eq!(
        tail(World { cut_off: after(0, 200_000), blind: after(0, 30_000), ..world.clone() }),
        [(GapCause::ObserverDown, 30_000), (GapCause::NetUnreachable, 70_000)]
    );
    assert_eq!(
        tail(World { cut_off: after(0, 200_000), drops: after(10_000, 20_000), ..world }),
        [(GapCause::Dropped, 10_000), (GapCause::NetUnreachable, 90_000)]
    );
}

#[test]
fn a_server_that_was_away_takes_nothing_from_what_was_recorded() {
    let mut plan = steady(1_000, 1_000, 20, 90);
    plan.points.push((60_000, Reading::Number(10)));
    let segments = lay_out(&[plan], 60);
    let blind = vec![Period::new(Timestamp(START), Timestamp(i64::MAX))];
    let sum = total(&World { blind, ..World::default() }.meter(&segments));
    // The agent was recording all the time; its own hole is not the server's.
    assert_eq!(causes(&sum), [(GapCause::Unexplained, 59_000)]);
    assert_eq!(sum.measured_ms(), 21_000);
}

#[test]
fn a_clock_that_is_off_by_seconds_is_usable_and_flagged() {
    let mut segments = lay_out(&[steady(1_000, 1_000, 10, 50)], 60);
    let flagged = |segments: &[Owned]| meter_all(segments)[0].clock_flagged_ms;
    segments[0].head.clock.offset_ms = Some(499);
    assert_eq!(flagged(&segments), 0);
    segments[0].head.clock.offset_ms = Some(-500);
    assert_eq!(flagged(&segments), 10_000);
}

#[test]
fn a_source_that_repeats_itself_is_frozen_and_still_measured() {
    let frozen = |busy: i64, power_step: i64, seconds: usize| {
        let mut segments = lay_out(&[steady(1_000, 1_000, seconds, busy)], 60);
        for segment in &mut segments {
            let block = segment.block.as_mut().unwrap();
            block.ticks = block.track.points.iter().map(|point| point.at).collect();
            let column = |metric, base: i64, step: i64| Column {
                metric,
                readings: block
                    .ticks
                    .iter()
                    .map(|at| Some(Reading::Number(base + at.0 / 1_000 % 2 * step)))
                    .collect(),
            };
            block.columns = vec![
                column(Metric::PowerDraw, 300_000, power_step),
                column(Metric::Temperature, 60, 0),
                column(Metric::SmClock, 1_400, 0),
                column(Metric::MemoryClock, 2_600, 0),
            ];
        }
        let records = meter_all(&segments);
        (records[0].frozen_ms, records[0].measured_ms())
    };
    assert_eq!(frozen(97, 0, 400), (399_000, 400_000));
    assert_eq!(frozen(97, 100, 400), (0, 400_000), "power moves");
    assert_eq!(frozen(0, 0, 400), (0, 400_000), "idle cards stand still");
    assert_eq!(frozen(97, 0, 300), (0, 300_000), "five minutes are not more than five minutes");
}
