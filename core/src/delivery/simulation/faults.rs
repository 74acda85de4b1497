//! What may go wrong in a run, and how often it did.

/// What may go wrong in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults {
    pub(super) cuts: bool,
    pub(super) messages: bool,
    pub(super) crashes: bool,
    pub(super) refusals: bool,
    /// A restarted agent may find its state gone, or an older copy of it.
    pub(super) states: bool,
    /// One partition of up to this length, at least two thirds of it; 0 for none.
    pub(super) long_partition_ms: u64,
    /// When the server is set back to what it held an hour before; 0 for never.
    pub(super) restore_after_ms: u64,
    pub(super) spool_items: usize,
}

impl Faults {
    pub(super) const NONE: Self = Self {
        cuts: false,
        messages: false,
        crashes: false,
        refusals: false,
        states: false,
        long_partition_ms: 0,
        restore_after_ms: 0,
        spool_items: 1_000,
    };
    pub(super) const ALL: Self = Self {
        cuts: true,
        messages: true,
        crashes: true,
        refusals: true,
        states: true,
        spool_items: 5,
        ..Self::NONE
    };
}

/// How often what happened.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Fired {
    pub(super) streams: u64,
    pub(super) cuts: u64,
    pub(super) lost: u64,
    pub(super) duplicates: u64,
    pub(super) stale: u64,
    pub(super) agent_crashes: u64,
    pub(super) server_crashes: u64,
    pub(super) refusals: u64,
    pub(super) evictions: u64,
    pub(super) repeats: u64,
    pub(super) restores: u64,
    pub(super) lost_states: u64,
    pub(super) old_states: u64,
    pub(super) given_up_chains: u64,
    pub(super) carried_over: u64,
    pub(super) not_begun: u64,
    pub(super) longest_outage_ms: u64,
}

impl Fired {
    pub(super) fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.stale += other.stale;
        self.agent_crashes += other.agent_crashes;
        self.server_crashes += other.server_crashes;
        self.refusals += other.refusals;
        self.evictions += other.evictions;
        self.lost_states += other.lost_states;
        self.old_states += other.old_states;
        self.given_up_chains += other.given_up_chains;
        self.carried_over += other.carried_over;
        self.not_begun += other.not_begun;
    }
}
