//! The hour's exact stretches: what of a slot's time was measured and what was not, to the
//! millisecond. Whoever judges an hour begins here, since an outage of an hour's average has no
//! beginning and no end.

use crate::id::GpuUuid;
use crate::time::{HOUR_MS, Hour, Period, Timestamp};

use super::super::gap::GapCause;
use super::super::packed::{Packer, Unpacker};
use super::super::piece::{Content, Piece};
use super::super::record::RecordError;

/// Codes of the packed form: time that another GPU owned, measured time, and then the causes.
const NOT_OWNED: u8 = 0;
const MEASURED: u8 = 1;
const FIRST_CAUSE: u8 = 2;

/// A stretch of an hour that was measured throughout, or not measured for one cause throughout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HourStretch {
    /// Milliseconds from the hour's start to its own.
    pub start_ms: u32,
    /// Milliseconds from the hour's start to its end.
    pub end_ms: u32,
    /// Why it was not measured; `None`: it was.
    pub gap: Option<GapCause>,
}

impl HourStretch {
    /// When it was, in this hour.
    #[must_use]
    pub fn period(&self, hour: Hour) -> Period {
        let at = |ms: u32| hour.start().plus_ms(i64::from(ms));
        Period::new(at(self.start_ms), at(self.end_ms))
    }
}

/// The stretches of what `gpu` owned of the hour that begins at `start`: in order, and neighbours
/// that touch differ.
pub(super) fn of_pieces(gpu: &GpuUuid, pieces: &[Piece<'_>], start: Timestamp) -> Vec<HourStretch> {
    let offset = |at: Timestamp| u32::try_from(at.since(start).clamp(0, HOUR_MS)).unwrap_or(0);
    let mut out: Vec<HourStretch> = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.gpu == gpu) {
        let (start_ms, end_ms) = (offset(piece.period.start), offset(piece.period.end));
        let gap = match piece.content {
            Content::Busy(_) => None,
            Content::Gap(cause) => Some(cause),
        };
        match out.last_mut() {
            Some(last) if last.end_ms == start_ms && last.gap == gap => last.end_ms = end_ms,
            _ => out.push(HourStretch { start_ms, end_ms, gap }),
        }
    }
    out
}

/// A code and a length each; 0 stands for the length up to the hour's end, so that an hour that
/// was measured whole takes two bytes and a count.
pub(super) fn put(out: &mut Packer, stretches: &[HourStretch]) {
    let mut coded = Vec::with_capacity(stretches.len());
    let mut at = 0;
    for stretch in stretches {
        if stretch.start_ms > at {
            coded.push((NOT_OWNED, stretch.start_ms - at));
        }
        let to_the_end = i64::from(stretch.end_ms) == HOUR_MS;
        let length = if to_the_end { 0 } else { stretch.end_ms - stretch.start_ms };
        coded.push((stretch.gap.map_or(MEASURED, |cause| FIRST_CAUSE + cause as u8), length));
        at = stretch.end_ms;
    }
    out.list(coded.into_iter(), |out, (code, length)| {
        out.byte(code);
        out.unsigned(u64::from(length));
    });
}

pub(super) fn take(input: &mut Unpacker<'_>) -> Result<Vec<HourStretch>, RecordError> {
    let hour_ms = u32::try_from(HOUR_MS).map_err(|_| RecordError)?;
    let most = usize::try_from(HOUR_MS).map_err(|_| RecordError)?;
    let (mut out, mut start_ms) = (Vec::new(), 0_u32);
    for _ in 0..input.count(most)? {
        let code = input.byte()?;
        let end_ms = match u32::try_from(input.unsigned()?).map_err(|_| RecordError)? {
            0 => hour_ms,
            length => start_ms.checked_add(length).ok_or(RecordError)?,
        };
        if end_ms > hour_ms || start_ms == end_ms {
            return Err(RecordError);
        }
        match code {
            NOT_OWNED => {}
            MEASURED => out.push(HourStretch { start_ms, end_ms, gap: None }),
            _ => {
                let cause = GapCause::ALL.get(usize::from(code - FIRST_CAUSE));
                let gap = Some(*cause.ok_or(RecordError)?);
                out.push(HourStretch { start_ms, end_ms, gap });
            }
        }
        start_ms = end_ms;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(stretches: &[HourStretch]) -> Vec<u8> {
        let mut out = Packer::new(0);
        put(&mut out, stretches);
        out.finish().split_off(1)
    }

    #[test]
    fn a_whole_hour_takes_three_bytes_and_an_outage_eight_more() {
        let measured = |start_ms, end_ms| HourStretch { start_ms, end_ms, gap: None };
        let lost =
            |start_ms, end_ms| HourStretch { start_ms, end_ms, gap: Some(GapCause::GpuLost) };
        assert_eq!(packed(&[measured(0, 3_600_000)]), [1, 1, 0]);
        let outage =
            [measured(0, 1_800_000), lost(1_800_000, 1_861_234), measured(1_861_234, 3_600_000)];
        assert_eq!(packed(&outage).len(), 11);
    }
}
