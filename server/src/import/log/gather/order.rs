//! The order of rows in time, and what it shows.

use leasewatch_core::time::Timestamp;

use crate::import::log::{LoggedGpu, LoggedRow};

/// Where a row belongs.
pub(super) enum Place {
    /// Behind all others.
    End,
    /// It is there already, to the last cell.
    Repeated,
    /// Not behind the last one.
    Back(Timestamp),
}

pub(super) fn place(rows: &[LoggedRow], row: &LoggedRow) -> Place {
    match rows.last() {
        Some(last) if last.at >= row.at => {
            let same = rows.binary_search_by_key(&row.at, |other| other.at);
            let same = same.ok().and_then(|at| rows.get(at));
            if same == Some(row) { Place::Repeated } else { Place::Back(last.at) }
        }
        _ => Place::End,
    }
}

/// True when the rows come in bursts, as those of several GPUs do: 4 ms, 4 ms, 4 ms, 988 ms ..
pub(super) fn is_of_several(rows: &[LoggedRow]) -> bool {
    const BURST: i64 = 20;
    let mut distances: Vec<i64> =
        rows.windows(2).map(|pair| pair[1].at.since(pair[0].at)).collect();
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
