//! How core's values look in JSON: times as ISO 8601 UTC, names as their names.

use leasewatch_core::metering::{GapCause, HourState};
use leasewatch_core::segment::{Event, Origin};
use leasewatch_core::time::{Period, Timestamp};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::i18n::Language;
use crate::names::Standing;

pub(crate) fn at<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

pub(crate) fn maybe_at<S: Serializer>(
    at: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    at.map(|at| at.to_string()).serialize(serializer)
}

pub(crate) fn period<S: Serializer>(period: &Period, serializer: S) -> Result<S::Ok, S::Error> {
    [period.start.to_string(), period.end.to_string()].serialize(serializer)
}

pub(crate) fn origin<S: Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(origin.name())
}

pub(crate) fn hour_state<S: Serializer>(
    state: &HourState,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name())
}

/// `{"agent_restart": 65000}`.
pub(crate) fn gaps<S: Serializer>(
    gaps: &[(GapCause, i64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(gaps.len()))?;
    for (cause, ms) in gaps {
        map.serialize_entry(cause.name(), ms)?;
    }
    map.end()
}

/// `{"state": "unknown", "reason": "The node has never reported"}`.
pub(crate) fn standing<S: Serializer>(
    standing: &Standing,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("state", standing.name())?;
    map.serialize_entry("reason", standing.reason().words(Language::En))?;
    map.end()
}

/// `{"at": .., "gpu": .., "kind": "xid", "text": ".."}`.
pub(crate) fn events<S: Serializer>(events: &[Event], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        at: String,
        gpu: Option<&'a str>,
        kind: &'static str,
        text: String,
    }
    serializer.collect_seq(events.iter().map(|event| Row {
        at: event.at.to_string(),
        gpu: event.gpu.as_ref().map(leasewatch_core::id::GpuUuid::as_str),
        kind: event.kind.name(),
        text: crate::events::describe(&event.kind, Language::En),
    }))
}
