//! The order of rows in time, and what it shows.

use std::collections::HashMap;

use leasewatch_core::time::Timestamp;

use crate::import::log::{LoggedGpu, LoggedRow};

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    /// It stands before in the log, to the last cell.
    Repeated,
    /// Its time does not fit the others'.
    OutOfOrder,
}

/// Decides on the rows of one GPU, in the order of the log: the longest series of ascending times
/// stays. So one wrong time loses its own row, and not all that stand behind it.
pub(super) fn fates(rows: &[LoggedRow]) -> Vec<Fate> {
    if rows.windows(2).all(|pair| pair[0].at < pair[1].at) {
        return vec![Fate::Kept; rows.len()];
    }
    let mut first_at: HashMap<Timestamp, usize> = HashMap::new();
    let mut fates = vec![Fate::OutOfOrder; rows.len()];
    // By length of the longest series that ends with a row: rows in the order of the log, and so
    // with descending times.
    let mut by_length: Vec<Vec<usize>> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let first = *first_at.entry(row.at).or_insert(index);
        if first != index {
            if rows[first] == *row {
                fates[index] = Fate::Repeated;
            }
            continue;
        }
        let is_before = |same: &Vec<usize>| same.last().is_some_and(|i| rows[*i].at < row.at);
        let length = by_length.partition_point(is_before);
        match by_length.get_mut(length) {
            Some(same) => same.push(index),
            None => by_length.push(vec![index]),
        }
    }
    // Of several longest series the one whose rows lie closest together.
    let last = by_length.last().and_then(|same| same.last());
    let mut next = last.map_or(Timestamp::MAX, |index| rows[*index].at.plus_ms(1));
    for same in by_length.iter().rev() {
        let later = same.partition_point(|index| rows[*index].at >= next);
        if let Some(index) = same.get(later) {
            fates[*index] = Fate::Kept;
            next = rows[*index].at;
        }
    }
    fates
}

/// True when the rows come in bursts, as those of several GPUs do: 4 ms, 4 ms, 4 ms, 988 ms ..
pub(super) fn is_of_several(rows: &[LoggedRow]) -> bool {
    const BURST: i64 = 20;
    let mut distances: Vec<i64> =
        rows.windows(2).map(|pair| pair[1].at.since(pair[0].at).abs()).collect();
    distances.sort_unstable();
    let rank = |tenths: usize| distances.get(distances.len() * tenths / 10).copied();
    // A few rows prove nothing, and one stretch of another cadence is no burst.
    distances.len() >= 8
        && matches!((rank(2), rank(9)), (Some(low), Some(high)) if low * BURST <= high && low <= 100)
}

/// True when both have rows in the same time.
pub(super) fn overlap(a: &LoggedGpu, b: &LoggedGpu) -> bool {
    let span = |gpu: &LoggedGpu| Some((gpu.rows.first()?.at, gpu.rows.last()?.at));
    match (span(a), span(b)) {
        (Some((a_from, a_to)), Some((b_from, b_to))) => a_from <= b_to && b_from <= a_to,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use leasewatch_core::sample::Reading;

    use super::*;

    #[test]
    fn the_longest_series_stays() {
        let rows: Vec<LoggedRow> =
            [(1, 0), (99, 0), (2, 0), (3, 0), (2, 0), (3, 7), (0, 0), (4, 0)]
                .map(|(ms, busy)| LoggedRow {
                    at: Timestamp(ms),
                    busy: Reading::Number(busy),
                    readings: Vec::new(),
                })
                .to_vec();
        use Fate::{Kept, OutOfOrder, Repeated};
        assert_eq!(
            fates(&rows),
            [Kept, OutOfOrder, Kept, Kept, Repeated, OutOfOrder, OutOfOrder, Kept]
        );
    }
}
