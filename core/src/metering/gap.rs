//! Why time was not measured: exactly one cause per millisecond.

use crate::time::Period;

macro_rules! gap_causes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)+) => {
        /// The cause of a gap. Order is precedence: where several hold, the first is written.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum GapCause {
            $($(#[$doc])* $variant = $code,)+
        }

        impl GapCause {
            /// Every cause, by precedence.
            pub const ALL: [Self; GapCause::COUNT] = [$(Self::$variant,)+];

            /// Its name in statements and exports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

gap_causes! {
    /// Two sources claim the same time with their own samples.
    Conflict = 0, "conflict";
    /// The node's clock was more than 5 s off, or jumped over this time.
    ClockInvalid = 1, "clock_invalid";
    /// Utilization is not offered here (MIG parent, old hardware).
    Unsupported = 2, "unsupported";
    /// The driver answered with an error, or not in time.
    NvmlError = 3, "nvml_error";
    /// The GPU fell off the bus or needs a reset.
    GpuLost = 4, "gpu_lost";
    /// Another GPU took the slot; the time between the two.
    GpuReplaced = 5, "gpu_replaced";
    /// The node runs, but no GPU is attached to it.
    NoGpuAttached = 6, "no_gpu_attached";
    /// The driver was reloaded.
    DriverReload = 7, "driver_reload";
    /// Recorded, but given up before delivery; a signed `drop` covers it.
    Dropped = 8, "dropped";
    /// The host booted anew.
    NodeReboot = 9, "node_reboot";
    /// The container was started anew.
    InstanceRestart = 10, "instance_restart";
    /// The agent was starting, was stopped on purpose, or was started anew within one life of the
    /// node.
    AgentRestart = 11, "agent_restart";
    /// The server itself was not recording.
    ObserverDown = 12, "observer_down";
    /// The node had no connection, and what it recorded has not come.
    NetUnreachable = 13, "net_unreachable";
    /// None of the above is shown by anything.
    Unexplained = 14, "unexplained";
}

impl GapCause {
    /// How many causes there are.
    pub const COUNT: usize = 15;

    /// The cause with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// Milliseconds of gap by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gaps([i64; GapCause::COUNT]);

impl Gaps {
    /// Milliseconds with this cause.
    #[must_use]
    pub fn ms(&self, cause: GapCause) -> i64 {
        self.0[cause.index()]
    }

    /// Adds milliseconds to a cause.
    pub fn add(&mut self, cause: GapCause, ms: i64) {
        self.0[cause.index()] += ms;
    }

    /// Adds everything of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (cause, ms) in other.iter() {
            self.add(cause, ms);
        }
    }

    /// Milliseconds of all causes.
    #[must_use]
    pub fn total_ms(&self) -> i64 {
        self.0.iter().sum()
    }

    /// Causes that hold time, by precedence.
    pub fn iter(&self) -> impl Iterator<Item = (GapCause, i64)> + '_ {
        GapCause::ALL.into_iter().map(|cause| (cause, self.ms(cause))).filter(|(_, ms)| *ms != 0)
    }
}

/// Something that explains why there is no measurement in a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// When it holds.
    pub period: Period,
    /// The cause it speaks for.
    pub cause: GapCause,
}

/// Explanations, for gaps that are asked about in the order of time. Each is looked at while it can
/// hold, so that many gaps with many explanations stay cheap.
pub(super) struct Explanations {
    /// By start.
    sorted: std::iter::Peekable<std::vec::IntoIter<Explanation>>,
    /// Those that have begun and may not have ended.
    holding: Vec<Explanation>,
}

impl Explanations {
    pub(super) fn new(mut list: Vec<Explanation>) -> Self {
        list.sort_by_key(|explanation| explanation.period.start);
        Self { sorted: list.into_iter().peekable(), holding: Vec::new() }
    }

    /// Those that hold at some time of `gap`. It begins no earlier than the one before it.
    pub(super) fn near(&mut self, gap: Period) -> &[Explanation] {
        while let Some(next) = self.sorted.next_if(|next| next.period.start < gap.end) {
            self.holding.push(next);
        }
        self.holding.retain(|holding| holding.period.end > gap.start);
        &self.holding
    }
}

/// Cuts `gap` into stretches, each with the cause of highest precedence that holds there.
pub(super) fn classify(gap: Period, explanations: &[Explanation]) -> Vec<Explanation> {
    let near: Vec<Explanation> = explanations
        .iter()
        .map(|e| Explanation { period: e.period.intersect(gap), cause: e.cause })
        .filter(|e| !e.period.is_empty())
        .collect();
    let mut cuts: Vec<_> = near.iter().flat_map(|e| [e.period.start, e.period.end]).collect();
    cuts.extend([gap.start, gap.end]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut stretches: Vec<Explanation> = Vec::new();
    for pair in cuts.windows(2) {
        let period = Period::new(pair[0], pair[1]);
        let cause = near
            .iter()
            .filter(|e| e.period.contains(period.start))
            .map(|e| e.cause)
            .min()
            .unwrap_or(GapCause::Unexplained);
        match stretches.last_mut() {
            Some(last) if last.cause == cause => last.period.end = period.end,
            _ => stretches.push(Explanation { period, cause }),
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn period(start: i64, end: i64) -> Period {
        Period::new(Timestamp(start), Timestamp(end))
    }

    #[test]
    fn precedence_decides_where_causes_overlap() {
        let explanations = [
            Explanation { period: period(-100, 60), cause: GapCause::ObserverDown },
            Explanation { period: period(40, 80), cause: GapCause::NodeReboot },
        ];
        let causes: Vec<_> = classify(period(0, 100), &explanations)
            .into_iter()
            .map(|e| (e.period.start.0, e.period.end.0, e.cause))
            .collect();
        assert_eq!(
            causes,
            [
                (0, 40, GapCause::ObserverDown),
                (40, 80, GapCause::NodeReboot),
                (80, 100, GapCause::Unexplained)
            ]
        );
    }

    #[test]
    fn names_resolve() {
        for (index, cause) in GapCause::ALL.into_iter().enumerate() {
            assert_eq!(cause.index(), index);
            assert_eq!(GapCause::from_name(cause.name()), Some(cause));
        }
    }
}
