//! How core's values look in JSON: times as ISO 8601 UTC, names as their names.

use leasewatch_core::metering::{GapCause, HourState};
use leasewatch_core::money::Money;
use leasewatch_core::sample::Metric;
use leasewatch_core::segment::{Event, Origin};
use leasewatch_core::time::{Period, Timestamp};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::i18n::Language;
use crate::names::Standing;
use crate::pages::node::ChainBegun;

pub(crate) fn at<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

pub(crate) fn maybe_at<S: Serializer>(
    at: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    at.map(|at| at.to_string()).serialize(serializer)
}

/// `["2.49 USD"]`.
pub(crate) fn amounts<S: Serializer>(list: &[Money], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(Money::to_string))
}

pub(crate) fn period<S: Serializer>(period: &Period, serializer: S) -> Result<S::Ok, S::Error> {
    [period.start.to_string(), period.end.to_string()].serialize(serializer)
}

pub(crate) fn maybe_period<S: Serializer>(
    period: &Option<Period>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    period.map(|period| [period.start.to_string(), period.end.to_string()]).serialize(serializer)
}

pub(crate) fn origin<S: Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(origin.name())
}

pub(crate) fn maybe_origin<S: Serializer>(
    origin: &Option<Origin>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    origin.map(Origin::name).serialize(serializer)
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

/// `[["2026-08-01T03:00:00.000Z", "2026-08-01T03:01:05.000Z", "agent_restart"]]`.
pub(crate) fn stretches<S: Serializer>(
    gaps: &[(Period, GapCause)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        gaps.iter().map(|(period, cause)| {
            (period.start.to_string(), period.end.to_string(), cause.name())
        }),
    )
}

pub(crate) fn gap_cause<S: Serializer>(cause: &GapCause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

pub(crate) fn metric<S: Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(metric.name())
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

/// `{"at": .., "chain": .., "reason": "lost_state", "text": "..", "statement": "..",
/// "signature": ".."}`: the statement as it was signed, so that a reader can check it.
pub(crate) fn chain_starts<S: Serializer>(
    starts: &[ChainBegun],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        at: String,
        chain: String,
        reason: &'static str,
        text: &'static str,
        statement: &'a str,
        signature: &'a str,
    }
    serializer.collect_seq(starts.iter().map(|begun| Row {
        at: begun.start.at.to_string(),
        chain: begun.start.chain.to_string(),
        reason: begun.start.reason.name(),
        text: crate::events::describe_chain_start(begun.start.reason, Language::En),
        statement: &begun.statement,
        signature: &begun.signature,
    }))
}

#[derive(Serialize)]
struct EventRow<'a> {
    at: String,
    gpu: Option<&'a str>,
    kind: &'static str,
    text: String,
}

impl<'a> From<&'a Event> for EventRow<'a> {
    fn from(event: &'a Event) -> Self {
        Self {
            at: event.at.to_string(),
            gpu: event.gpu.as_ref().map(leasewatch_core::id::GpuUuid::as_str),
            kind: event.kind.name(),
            text: crate::events::describe(&event.kind, Language::En),
        }
    }
}

/// `{"at": .., "gpu": .., "kind": "xid", "text": ".."}`.
pub(crate) fn event<S: Serializer>(event: &Event, serializer: S) -> Result<S::Ok, S::Error> {
    EventRow::from(event).serialize(serializer)
}

/// A list of the same.
pub(crate) fn events<S: Serializer>(events: &[Event], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(events.iter().map(EventRow::from))
}
