//! Lists of integers in the fewest bytes of six packings.
//!
//! The encoder computes the exact length of each packing from one analysis and takes the
//! shortest; of equally short ones that with the lowest code. That choice is part of the format:
//! a list has one encoding. All arithmetic wraps, so any list of 64-bit integers round-trips.

use super::DecodeError;
use super::bits::{
    Reader, bit_length, packed_len, put_count, put_packed, put_signed, put_varint, signed_len,
    varint_len, wide,
};

/// Values as offsets from their minimum in a fixed number of bits.
#[derive(Debug, Clone, Copy)]
struct Frame {
    min: i64,
    width: usize,
}

impl Frame {
    fn of_range(min: i64, max: i64) -> Self {
        Self { min, width: bit_length(offset(max, min)) }
    }

    fn len(self, count: usize) -> usize {
        signed_len(self.min) + 1 + packed_len(count, self.width)
    }

    fn write(self, out: &mut Vec<u8>, values: impl Iterator<Item = i64>) {
        put_signed(out, self.min);
        put_width(out, self.width);
        put_packed(out, self.width, values.map(|value| offset(value, self.min)));
    }
}

/// How a list is packed; codes 0 to 5 in this order.
#[derive(Debug, Clone, Copy)]
enum Packing {
    /// One value for all.
    Constant { value: i64 },
    /// Offsets from the minimum.
    Frame(Frame),
    /// Offsets from the minimum, divided by their greatest common divisor.
    Stepped { min: i64, step: u64, width: usize },
    /// The first value, then differences, as a frame.
    Delta { first: i64, deltas: Frame },
    /// The first value, then distances from a straight line through first and last, as a frame.
    Line { first: i64, slope: i64, residuals: Frame },
    /// Values of runs as a frame, then the lengths of all runs but the last, as a frame.
    Runs { runs: usize, values: Frame, lengths: Frame },
}

/// Appends a list that is not empty, without its length, and returns the code of its packing,
/// which the caller stores in front.
pub(super) fn put_integers(out: &mut Vec<u8>, values: &[i64]) -> u8 {
    let packing = choose(values);
    let rest = values.get(1..).unwrap_or(&[]);
    match packing {
        Packing::Constant { value } => put_signed(out, value),
        Packing::Frame(frame) => frame.write(out, values.iter().copied()),
        Packing::Stepped { min, step, width } => {
            put_signed(out, min);
            put_varint(out, step);
            put_width(out, width);
            put_packed(out, width, values.iter().map(|value| offset(*value, min) / step));
        }
        Packing::Delta { first, deltas } => {
            put_signed(out, first);
            deltas.write(out, differences(values));
        }
        Packing::Line { first, slope, residuals } => {
            put_signed(out, first);
            put_signed(out, slope);
            residuals.write(out, distances(first, slope, rest));
        }
        Packing::Runs { runs, values: frame, lengths } => {
            put_count(out, runs);
            frame.write(out, run_list(values).map(|(value, _)| value));
            lengths.write(out, run_list(values).map(|(_, length)| length).take(runs - 1));
        }
    }
    packing.code()
}

/// Reads a list of `count` (at least 1) integers into `values`, replacing what is there.
pub(super) fn read_integers(
    reader: &mut Reader<'_>,
    code: u8,
    count: usize,
    values: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    values.clear();
    match code {
        0 => {
            let value = reader.signed()?;
            values.resize(count, value);
        }
        1 => read_frame(reader, count, |value| values.push(value))?,
        2 => {
            let (min, step) = (reader.signed()?, reader.varint()?);
            let mut packed = read_packed(reader, count)?;
            let value = |steps: u64| min.wrapping_add(steps.wrapping_mul(step).cast_signed());
            values.extend((0..count).map(|_| value(packed.next())));
        }
        3 => {
            let mut value = reader.signed()?;
            values.push(value);
            read_frame(reader, count - 1, |delta| {
                value = value.wrapping_add(delta);
                values.push(value);
            })?;
        }
        4 => {
            let (mut line, slope) = (reader.signed()?, reader.signed()?);
            values.push(line);
            read_frame(reader, count - 1, |residual| {
                line = line.wrapping_add(slope);
                values.push(line.wrapping_add(residual));
            })?;
        }
        5 => read_runs(reader, count, values)?,
        _ => return Err(DecodeError::Code { what: "packing" }),
    }
    Ok(())
}

fn read_runs(
    reader: &mut Reader<'_>,
    count: usize,
    values: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    let runs = reader.count("runs", count)?;
    let mut starts = Vec::with_capacity(runs);
    read_frame(reader, runs, |value| starts.push(value))?;
    let mut lengths = Vec::with_capacity(runs);
    read_frame(reader, runs.saturating_sub(1), |length| lengths.push(length))?;
    let mut left = count;
    for (index, value) in starts.into_iter().enumerate() {
        let length = match lengths.get(index) {
            Some(length) => usize::try_from(*length).unwrap_or(usize::MAX),
            None => left,
        };
        left = left.checked_sub(length).ok_or(DecodeError::NotCanonical)?;
        values.resize(values.len() + length, value);
    }
    if left == 0 { Ok(()) } else { Err(DecodeError::NotCanonical) }
}

fn read_frame(
    reader: &mut Reader<'_>,
    count: usize,
    mut each: impl FnMut(i64),
) -> Result<(), DecodeError> {
    let min = reader.signed()?;
    let mut packed = read_packed(reader, count)?;
    for _ in 0..count {
        each(min.wrapping_add(packed.next().cast_signed()));
    }
    Ok(())
}

fn read_packed<'a>(
    reader: &mut Reader<'a>,
    count: usize,
) -> Result<super::bits::Packed<'a>, DecodeError> {
    let width = usize::from(reader.byte()?);
    reader.packed(width, count)
}

impl Packing {
    fn code(self) -> u8 {
        match self {
            Self::Constant { .. } => 0,
            Self::Frame(_) => 1,
            Self::Stepped { .. } => 2,
            Self::Delta { .. } => 3,
            Self::Line { .. } => 4,
            Self::Runs { .. } => 5,
        }
    }

    /// Bytes for `count` values, the code not counted.
    fn len(self, count: usize) -> usize {
        match self {
            Self::Constant { value } => signed_len(value),
            Self::Frame(frame) => frame.len(count),
            Self::Stepped { min, step, width } => {
                signed_len(min) + varint_len(step) + 1 + packed_len(count, width)
            }
            Self::Delta { first, deltas } => signed_len(first) + deltas.len(count - 1),
            Self::Line { first, slope, residuals } => {
                signed_len(first) + signed_len(slope) + residuals.len(count - 1)
            }
            Self::Runs { runs, values, lengths } => {
                varint_len(wide(runs)) + values.len(runs) + lengths.len(runs - 1)
            }
        }
    }
}

/// What one pass over a list finds.
struct Analysis {
    min: i64,
    max: i64,
    /// Greatest common divisor of all distances from the first value; 0 when there are none.
    step: u64,
    delta_min: i64,
    delta_max: i64,
    /// Runs of equal values, and the shortest and longest of them but the last.
    runs: usize,
    run_min: usize,
    run_max: usize,
}

fn choose(values: &[i64]) -> Packing {
    let (Some(first), Some(last)) = (values.first().copied(), values.last().copied()) else {
        return Packing::Constant { value: 0 };
    };
    let seen = analyse(first, values);
    if seen.runs == 1 {
        return Packing::Constant { value: first };
    }
    let frame = Frame::of_range(seen.min, seen.max);
    let stepped = (seen.step > 1).then(|| Packing::Stepped {
        min: seen.min,
        step: seen.step,
        width: bit_length(offset(seen.max, seen.min) / seen.step),
    });
    let deltas = Frame::of_range(seen.delta_min, seen.delta_max);
    let slope = slope(first, last, values.len());
    let residuals = frame_of(distances(first, slope, &values[1..]));
    let lengths = Frame::of_range(signed_count(seen.run_min), signed_count(seen.run_max));
    [
        Some(Packing::Frame(frame)),
        stepped,
        Some(Packing::Delta { first, deltas }),
        Some(Packing::Line { first, slope, residuals }),
        Some(Packing::Runs { runs: seen.runs, values: frame, lengths }),
    ]
    .into_iter()
    .flatten()
    // Of equal minima this is the first, so the one with the lowest code.
    .min_by_key(|packing| packing.len(values.len()))
    .unwrap_or(Packing::Frame(frame))
}

fn analyse(first: i64, values: &[i64]) -> Analysis {
    let mut seen = Analysis {
        min: first,
        max: first,
        step: 0,
        delta_min: i64::MAX,
        delta_max: i64::MIN,
        runs: 1,
        run_min: usize::MAX,
        run_max: 0,
    };
    let (mut before, mut run) = (first, 1);
    for value in values.iter().skip(1).copied() {
        let delta = value.wrapping_sub(before);
        seen.delta_min = seen.delta_min.min(delta);
        seen.delta_max = seen.delta_max.max(delta);
        if delta == 0 {
            run += 1;
            continue;
        }
        seen.min = seen.min.min(value);
        seen.max = seen.max.max(value);
        if seen.step != 1 {
            seen.step = greatest_common_divisor(seen.step, value.abs_diff(first));
        }
        seen.run_min = seen.run_min.min(run);
        seen.run_max = seen.run_max.max(run);
        seen.runs += 1;
        (before, run) = (value, 1);
    }
    seen
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

/// The slope of the line through first and last, rounded down.
fn slope(first: i64, last: i64, count: usize) -> i64 {
    last.wrapping_sub(first).div_euclid(signed_count(count) - 1)
}

fn frame_of(values: impl Iterator<Item = i64>) -> Frame {
    let (min, max) =
        values.fold((i64::MAX, i64::MIN), |(min, max), value| (min.min(value), max.max(value)));
    Frame::of_range(min, max)
}

fn differences(values: &[i64]) -> impl Iterator<Item = i64> {
    values.iter().zip(values.iter().skip(1)).map(|(before, value)| value.wrapping_sub(*before))
}

/// Distances of the values after the first from the line that starts in it.
fn distances(first: i64, slope: i64, rest: &[i64]) -> impl Iterator<Item = i64> {
    let mut line = first;
    rest.iter().map(move |value| {
        line = line.wrapping_add(slope);
        value.wrapping_sub(line)
    })
}

/// Runs of equal values with their lengths.
fn run_list(values: &[i64]) -> impl Iterator<Item = (i64, i64)> {
    values.chunk_by(|a, b| a == b).map(|run| (run[0], signed_count(run.len())))
}

fn offset(value: i64, min: i64) -> u64 {
    value.wrapping_sub(min).cast_unsigned()
}

fn put_width(out: &mut Vec<u8>, width: usize) {
    // At most 64, so the fallback is never taken.
    out.push(u8::try_from(width).unwrap_or(64));
}

/// Lists are bounded by `limits`, far below the range.
fn signed_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(values: &[i64]) -> (u8, Vec<u8>) {
        let mut out = Vec::new();
        let code = put_integers(&mut out, values);
        (code, out)
    }

    fn assert_round_trip(values: &[i64]) {
        let (code, out) = packed(values);
        assert_eq!(out.len(), choose(values).len(values.len()));
        let mut reader = Reader::new(&out);
        let mut back = vec![1, 2, 3];
        assert_eq!(read_integers(&mut reader, code, values.len(), &mut back), Ok(()));
        assert_eq!(reader.finish(), Ok(()));
        assert_eq!(back, values);
    }

    proptest! {
        #[test]
        fn any_list_round_trips(values in prop::collection::vec(any::<i64>(), 1..100)) {
            assert_round_trip(&values);
        }

        #[test]
        fn shaped_lists_round_trip(
            start in any::<i64>(),
            slope in -2_000_i64..2_000,
            step in 1_i64..40,
            noise in prop::collection::vec((0_i64..4, 1_usize..6), 1..60),
        ) {
            let values: Vec<i64> = noise
                .iter()
                .flat_map(|(value, run)| std::iter::repeat_n(*value, *run))
                .zip(0_i64..)
                .map(|(value, at)| start.wrapping_add(value * step + at * slope))
                .collect();
            assert_round_trip(&values);
            assert_round_trip(&values.iter().map(|value| value / 50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_packing_wins_where_it_is_meant_to() {
        let code = |value: fn(i64) -> i64| packed(&(0..60).map(value).collect::<Vec<_>>()).0;
        assert_eq!(code(|_| 7), 0);
        assert_eq!(packed(&[-5]).0, 0);
        assert_eq!(code(|at| at * at * at % 61), 1);
        assert_eq!(code(|at| 1_000 + at * at * at % 61 * 15), 2);
        assert_eq!(code(|at| (at - 30) * (at - 30) * 700 + at), 3);
        assert_eq!(code(|at| at * 1_000 + at * at * at % 61), 4);
        assert_eq!(code(|at| if at < 17 { 1_980 } else { 345 }), 5);
    }

    #[test]
    fn a_run_that_is_too_long_does_not_grow_the_list() {
        let mut out = vec![2];
        Frame::of_range(0, 1).write(&mut out, [0, 1].into_iter());
        Frame::of_range(i64::MAX, i64::MAX).write(&mut out, [i64::MAX].into_iter());
        let mut values = Vec::new();
        let read = read_integers(&mut Reader::new(&out), 5, 60, &mut values);
        assert_eq!(read, Err(DecodeError::NotCanonical));
        assert!(values.len() <= 60);
    }
}
