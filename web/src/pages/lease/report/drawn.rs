//! The drawings of a report: the calendar, and utilization by GPU and day.

use super::super::judgement::{DayState, DayStates};
use super::{DayUse, GpuDays};
use crate::context::Context;
use crate::document::figure::{Anchor, Figure, Fill};
use crate::format::{self, Quantity};
use crate::i18n::{Text, phrase};

/// Days beside each other in the calendar.
const WEEK: usize = 7;
const CELL: i64 = 71;
const CELL_HEIGHT: i64 = 36;
/// The band that shows how a day's time is divided.
const BAND: i64 = 9;

/// GPUs of one drawing; the next ones have their own, so that each fits a page.
const LANES: usize = 16;
const LANE: i64 = 14;
/// Room for the names before the lanes.
const NAMES: i64 = 110;
const WIDTH: i64 = 500;

/// Each day with the parts of its time; `None` without days.
pub(super) fn calendar(days: &[DayStates], cx: &Context) -> Option<Figure> {
    let rows = i64::try_from(days.len().div_ceil(WEEK)).ok().filter(|rows| *rows > 0)?;
    let mut figure = Figure::new(cx.t(Text::JudgedCalendar), CELL * 7, rows * CELL_HEIGHT);
    for (place, day) in (0_i64..).zip(days) {
        let (x, y) = ((place % 7) * CELL, (place / 7) * CELL_HEIGHT);
        figure.words((x, y + 8), Anchor::Start, format::day(day.starts_at, cx.zone, cx.language));
        band(&mut figure, (x, y + 11), *day);
        let worst = day.parts().next();
        let words = worst.map_or_else(String::new, |(state, ms)| {
            format!("{} {}", cx.t(state), Quantity::duration_ms(ms).text(cx.language))
        });
        if day.state() != DayState::Up {
            figure.words((x, y + 29), Anchor::Start, words);
        }
    }
    Some(figure)
}

/// Parts in proportion. What is there at all is at least a point wide: one minute of proven
/// downtime must be seen.
fn band(figure: &mut Figure, (x, y): (i64, i64), day: DayStates) {
    let parts = [
        (Fill::Down, day.down_ms),
        (Fill::Missing, day.unknown_ms),
        (Fill::Up, day.up_ms),
        (Fill::Excluded, day.excluded_ms),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(_, ms)| *ms > 0).collect();
    let width = CELL - 5;
    let (mut left, mut rest) = (x, width);
    let mut rest_ms: i64 = parts.iter().map(|(_, ms)| ms).sum();
    for (later, (fill, ms)) in (0_i64..parts.len().try_into().unwrap_or(0)).rev().zip(parts) {
        let part = if later == 0 { rest } else { (ms * rest / rest_ms).clamp(1, rest - later) };
        figure.area((left, y, part, BAND), fill);
        (left, rest_ms, rest) = (left + part, rest_ms - ms, rest - part);
    }
    for at in [y, y + BAND] {
        figure.line((x, at), (x + width, at));
    }
}

/// A lane for each GPU, a cell for each day: the fill is mean utilization, the hatched rest of the
/// cell's height is time without a measurement.
pub(super) fn lanes(gpus: &[GpuDays], cx: &Context) -> Vec<Figure> {
    let starts = gpus.iter().flat_map(|gpu| gpu.days.iter().map(|day| day.starts_at));
    let mut starts: Vec<_> = starts.collect();
    starts.sort_unstable();
    starts.dedup();
    let Some(step) =
        i64::try_from(starts.len()).ok().filter(|n| *n > 0).map(|n| (WIDTH - NAMES) / n)
    else {
        return Vec::new();
    };
    let step = step.clamp(1, 40);
    let mut figures = Vec::new();
    for some in gpus.chunks(LANES) {
        let height = LANE * i64::try_from(some.len()).unwrap_or(0) + 12;
        let mut figure = Figure::new(cx.t(Text::ReportUse), WIDTH, height);
        for (row, gpu) in (0_i64..).zip(some) {
            let y = row * LANE + 12;
            let number = phrase::gpu_label(cx.language, gpu.number);
            figure.words(
                (0, y + 8),
                Anchor::Start,
                format!("{} · {number}", short(&gpu.node.name)),
            );
            for day in &gpu.days {
                let place = starts.binary_search(&day.starts_at).unwrap_or(0);
                let x = NAMES + step * i64::try_from(place).unwrap_or(0);
                cell(&mut figure, (x, y, step - 1), *day);
            }
        }
        ends(&mut figure, (&starts, step), cx);
        figures.push(figure);
    }
    figures
}

fn cell(figure: &mut Figure, (x, y, width): (i64, i64, i64), day: DayUse) {
    let height = LANE - 3;
    if day.enrolled_ms <= 0 {
        return;
    }
    // Rounded down: a gap that is there is seen.
    let measured = (day.measured_ms * height / day.enrolled_ms).clamp(0, height);
    figure.area((x, y, width, height - measured), Fill::Missing);
    if let Some(mean) = day.mean() {
        let ppm = u32::try_from(mean.0).unwrap_or(0);
        figure.area((x, y + height - measured, width, measured), Fill::busy(ppm));
    }
}

/// Names of the first and the last day.
fn ends(
    figure: &mut Figure,
    (starts, step): (&[leasewatch_core::time::Timestamp], i64),
    cx: &Context,
) {
    let day = |at| format::day(at, cx.zone, cx.language);
    if let Some(first) = starts.first() {
        figure.words((NAMES, 8), Anchor::Start, day(*first));
    }
    if let (Some(last), true) = (starts.last(), starts.len() > 4) {
        let x = NAMES + step * i64::try_from(starts.len()).unwrap_or(0);
        figure.words((x, 8), Anchor::End, day(*last));
    }
}

/// A name that leaves room for the number; the table has it whole.
fn short(name: &str) -> String {
    if name.chars().count() <= 14 {
        return name.to_owned();
    }
    name.chars().take(13).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::figure::Shape;
    use leasewatch_core::time::Timestamp;
    use proptest::prelude::*;

    fn fills(figure: &Figure) -> Vec<(Fill, i64)> {
        let area = |shape: &Shape| match shape {
            Shape::Area((.., width, _), fill) => Some((*fill, *width)),
            _ => None,
        };
        figure.shapes.iter().filter_map(area).collect()
    }

    proptest! {
        /// Every state with time is seen, and the parts fill the band.
        #[test]
        fn a_day_shows_each_of_its_states(parts in prop::array::uniform4(prop_oneof![Just(0_i64), 1_i64..100, 1_i64..90_000_000])) {
            let [up_ms, down_ms, unknown_ms, excluded_ms] = parts;
            let day = DayStates { starts_at: Timestamp(0), up_ms, down_ms, unknown_ms, excluded_ms };
            let mut figure = Figure::new("", CELL, CELL_HEIGHT);
            band(&mut figure, (0, 0), day);
            let fills = fills(&figure);
            prop_assert_eq!(fills.len(), parts.iter().filter(|ms| **ms > 0).count());
            prop_assert!(fills.iter().all(|(_, width)| *width >= 1));
            let total: i64 = fills.iter().map(|(_, width)| width).sum();
            prop_assert_eq!(total, if parts == [0; 4] { 0 } else { CELL - 5 });
        }
    }

    #[test]
    fn a_cell_without_measurement_is_hatched_whole() {
        let mut figure = Figure::new("", 50, 50);
        let day = DayUse { enrolled_ms: 100, ..DayUse::default() };
        cell(&mut figure, (0, 0, 10), day);
        assert_eq!(fills(&figure), [(Fill::Missing, 10)]);
        let mut figure = Figure::new("", 50, 50);
        cell(&mut figure, (0, 0, 10), DayUse { measured_ms: 100, ..day });
        assert_eq!(fills(&figure), [(Fill::Busy(0), 10)], "idle is not missing");
    }
}
