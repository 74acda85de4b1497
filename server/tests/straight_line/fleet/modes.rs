//! The modes of the simulator, and what each must show. A table only: how they are played is in
//! `fleet`, and the checks stand with their tables.

use super::recorded::Recorded;

/// One agent on one scenario.
pub(super) struct Mode {
    /// The node's name.
    pub(super) name: &'static str,
    /// The scenario that comes with the simulator.
    pub(super) scenario: &'static str,
    /// Second at which all its faults begin, in place of what the file says.
    pub(super) begins_s: Option<u32>,
    /// A quicker agent, where a counter has to be read several times.
    pub(super) cadence: Option<&'static str>,
    /// The agent is stopped and started again while the scenario goes on.
    pub(super) restarts: bool,
    /// Second of the scenario that has to be over.
    pub(super) until_s: i64,
    /// An event that is sent at once.
    pub(super) urgent: Option<&'static str>,
    /// Cause of the first slot's gap; without one it is measured all the time.
    pub(super) gap: Option<&'static str>,
    /// The gap is every slot's.
    pub(super) whole_node: bool,
    /// At its end the node has no GPU that answers.
    pub(super) blind: bool,
    /// What else holds of what was stored.
    pub(super) check: fn(&Recorded),
}

/// A mode that is called as its scenario.
pub(super) const fn mode(scenario: &'static str, check: fn(&Recorded)) -> Mode {
    Mode {
        name: scenario,
        scenario,
        begins_s: None,
        cadence: None,
        restarts: false,
        until_s: 14,
        urgent: None,
        gap: None,
        whole_node: false,
        blind: false,
        check,
    }
}

impl Mode {
    /// What happens to the first slot: an event, then a gap.
    pub(super) const fn gap(self, urgent: Option<&'static str>, cause: &'static str) -> Self {
        Self { urgent, gap: Some(cause), ..self }
    }

    pub(super) const fn urgent(self, event: &'static str) -> Self {
        Self { urgent: Some(event), ..self }
    }

    pub(super) const fn begins(self, second: u32) -> Self {
        Self { begins_s: Some(second), ..self }
    }

    /// Four reads a second, so that slow readings come each four seconds.
    pub(super) const fn quick(self) -> Self {
        Self { cadence: Some("250ms"), ..self }
    }

    pub(super) const fn until(self, second: i64) -> Self {
        Self { until_s: second, ..self }
    }

    pub(super) const fn restarts(self) -> Self {
        Self { restarts: true, ..self }
    }

    pub(super) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(super) const fn blind(self) -> Self {
        Self { blind: true, whole_node: true, ..self }
    }
}
