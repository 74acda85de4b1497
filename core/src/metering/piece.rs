//! Pieces: a slot's enrolled time, cut so that each piece holds one thing.
//!
//! They lie end to end and cover the window, which is Law M before anything is added up. Records,
//! profiles and the charts of single readings are all made of them, so that none can differ.

use crate::id::GpuUuid;
use crate::time::Period;

use super::gap::{Explanation, Explanations, GapCause, classify};
use super::track::{Cell, Stretch};

/// A stretch of a slot's enrolled time that holds one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// When.
    pub period: Period,
    /// The GPU that owned the slot then.
    pub gpu: &'a GpuUuid,
    /// What.
    pub content: Content,
    /// Measured, but the clock was off by 0.5 to 5 s.
    pub flagged: bool,
}

/// What a piece holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Measured: utilization in percent.
    Busy(u8),
    /// Not measured.
    Gap(GapCause),
}

/// The pieces of the time that each GPU owned, in order.
pub(super) fn pieces<'a>(
    owned: &[(&'a GpuUuid, Period)],
    stretches: &[Stretch<'a>],
    explained: Vec<Explanation>,
) -> Vec<Piece<'a>> {
    let mut explained = Explanations::new(explained);
    let mut out = Vec::with_capacity(stretches.len());
    for (gpu, period) in owned {
        let mut at = period.start;
        let first = stretches.partition_point(|s| s.period.end <= period.start);
        for stretch in &stretches[first..] {
            let part = stretch.period.intersect(*period);
            if stretch.period.start >= period.end {
                break;
            }
            if part.is_empty() {
                continue;
            }
            push_gap(&mut out, gpu, Period::new(at, part.start), &mut explained);
            let (content, flagged) = match stretch.cell {
                Cell::Busy(percent) => (Content::Busy(percent), stretch.flagged),
                Cell::Gap(cause) => (Content::Gap(cause), false),
            };
            out.push(Piece { period: part, gpu, content, flagged });
            at = part.end;
        }
        push_gap(&mut out, gpu, Period::new(at, period.end), &mut explained);
    }
    out
}

fn push_gap<'a>(
    out: &mut Vec<Piece<'a>>,
    gpu: &'a GpuUuid,
    gap: Period,
    explained: &mut Explanations,
) {
    if gap.is_empty() {
        return;
    }
    out.extend(classify(gap, explained.near(gap)).into_iter().map(|part| Piece {
        period: part.period,
        gpu,
        content: Content::Gap(part.cause),
        flagged: false,
    }));
}

/// The longest unbroken time of `gpu` without a measurement, whatever its causes.
pub(super) fn longest_gap_ms(gpu: &GpuUuid, pieces: &[Piece<'_>]) -> i64 {
    let gaps = pieces.iter().filter(|piece| piece.gpu == gpu);
    let gaps = gaps.filter(|piece| matches!(piece.content, Content::Gap(_)));
    let (mut longest, mut current) = (0, None::<Period>);
    for piece in gaps {
        let start =
            current.filter(|c| c.end == piece.period.start).map_or(piece.period.start, |c| c.start);
        let merged = Period::new(start, piece.period.end);
        longest = longest.max(merged.ms());
        current = Some(merged);
    }
    longest
}
