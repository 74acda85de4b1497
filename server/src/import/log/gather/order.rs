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
    // The last row of the best series of each length, and the row before each in its series.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; rows.len()];
    for (index, row) in rows.iter().enumerate() {
        let first = *first_at.entry(row.at).or_insert(index);
        if first != index {
            if rows[first] == *row {
                fates[index] = Fate::Repeated;
            }
            continue;
        }
        let length = ends.partition_point(|end| rows[*end].at < row.at);
        before[index] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut at = ends.last().copied();
    while let Some(index) = at {
        fates[index] = Fate::Kept;
        at = before[index];
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
