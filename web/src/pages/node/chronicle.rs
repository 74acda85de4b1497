//! What happened on a node, in one list: events, and the starts of its record's chains.

use std::cmp::Reverse;

use leasewatch_core::evidence::chain::ChainStart;
use leasewatch_core::segment::Event;
use leasewatch_core::time::Timestamp;

use super::NodeView;
use crate::context::Context;
use crate::events::{self, Weight};
use crate::i18n::Text;

/// The start of a chain, as the node signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainBegun {
    /// What it says.
    pub start: ChainStart,
    /// Its canonical JSON.
    pub statement: String,
    /// The node's signature over it, in hex.
    pub signature: String,
}

/// A line of the list.
pub(super) struct Line {
    pub(super) at: Timestamp,
    pub(super) weight: &'static str,
    pub(super) subject: String,
    pub(super) words: String,
}

/// Events and the starts of chains, latest first. `subject` names what an event is about.
pub(super) fn lines(
    view: &NodeView,
    cx: &Context,
    subject: impl Fn(&Event) -> String,
) -> Vec<Line> {
    let events = view.events.iter().map(|event| Line {
        at: event.at,
        weight: Weight::of(event).name(),
        subject: subject(event),
        words: events::describe(&event.kind, cx.language),
    });
    let starts = view.chain_starts.iter().map(|begun| Line {
        at: begun.start.at,
        weight: Weight::of_chain_start(begun.start.reason).name(),
        subject: cx.t(Text::EventNode).to_owned(),
        words: events::describe_chain_start(begun.start.reason, cx.language).to_owned(),
    });
    let mut lines: Vec<Line> = events.chain(starts).collect();
    lines.sort_by_key(|line| Reverse(line.at));
    lines
}
