//! Recorded traces as loads: CSV with the columns `t_ms,busy,mem_used_mib,power_mw,temp_c`.

use std::path::Path;

use serde::Deserialize;

use super::ScenarioError;

/// What was recorded from `t_ms` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) t_ms: u64,
    pub(crate) busy: u32,
    pub(crate) mem_used_mib: u32,
    pub(crate) power_mw: u32,
    pub(crate) temp_c: u32,
}

/// Reads a trace; its rows ascend strictly from `t_ms` 0.
pub(super) fn read_trace(path: &Path) -> Result<Vec<Row>, ScenarioError> {
    let invalid = |what: String| ScenarioError::Invalid { path: path.to_owned(), what };
    let mut reader = csv::Reader::from_path(path).map_err(|error| invalid(error.to_string()))?;
    let rows: Result<Vec<Row>, _> = reader.deserialize().collect();
    let rows = rows.map_err(|error| invalid(error.to_string()))?;
    let ascending = rows.windows(2).all(|pair| pair[0].t_ms < pair[1].t_ms);
    let starts = rows.first().is_some_and(|row| row.t_ms == 0);
    if !ascending || !starts || rows.iter().any(|row| row.busy > 100) {
        return Err(invalid("rows ascend from t_ms 0 and busy is 0 to 100".to_owned()));
    }
    Ok(rows)
}
