//! The line under cells that says whether their record can still change: solid where it is sealed,
//! dotted where it is written but not final, a ring under the hour that has not ended.

use leasewatch_core::metering::HourState;
use leasewatch_core::time::Period;

use super::cell::Cell;
use crate::markup::{Milli, Writer};

/// Space under the cells that the line needs, in pixels.
pub(super) const HEIGHT: i64 = 5;

/// Where a line begins, its middle, and where it ends, as SVG lengths.
pub(super) type Span = [String; 3];

/// Neighbouring cells of the same state, in order of time. Cells that were not enrolled have no
/// record and belong to no run.
pub(super) fn runs<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Vec<(HourState, Period)> {
    let mut runs: Vec<(HourState, Period)> = Vec::new();
    for cell in cells.into_iter().filter(|cell| cell.enrolled_ms > 0) {
        match runs.last_mut() {
            Some((state, run)) if *state == cell.state && run.end == cell.period.start => {
                run.end = cell.period.end;
            }
            _ => runs.push((cell.state, cell.period)),
        }
    }
    runs
}

/// Draws one run; `top` is the lower edge of the cells.
pub(super) fn draw(out: &mut Writer, state: HourState, [from, middle, to]: &Span, top: i64) {
    let y = Milli(top * 1_000 + HEIGHT * 500);
    let class = match state {
        HourState::Open => {
            let radius = Milli(1_700);
            out.empty("circle", &[("class", &"open"), ("cx", middle), ("cy", &y), ("r", &radius)]);
            return;
        }
        HourState::Provisional => "provisional",
        HourState::Sealed => "sealed",
    };
    out.empty("line", &[("class", &class), ("x1", from), ("x2", to), ("y1", &y), ("y2", &y)]);
}
