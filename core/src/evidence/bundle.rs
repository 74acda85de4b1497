//! The bundle: an export of evidence that somebody checks without us.
//!
//! A bundle is a .zip of lines and documents. Here is what its files are called, the [`Manifest`]
//! that lists and binds them, and the lines of `log.jsonl`, which tie every statement in it to the
//! log and leave no room for one that was left out. Not here: the archive itself, where the
//! contents come from (the server), and the order of the checks (`leasewatch-verify`).

mod log_lines;
mod manifest;

pub use log_lines::{LeafLine, LogHeader};
pub use manifest::{
    BYTES_MAX as MANIFEST_BYTES_MAX, BundleFile, BundleForm, Manifest, Scope, signature_of_line,
};

/// Names of files in a bundle.
pub mod name {
    /// What is in it.
    pub const MANIFEST: &str = "manifest.json";
    /// The identity key's signature over the manifest: 128 hex digits and a line feed.
    pub const MANIFEST_SIGNATURE: &str = "manifest.sig";
    /// Hour statements, by node, slot, hour, GPU and revision.
    pub const HOURS: &str = "hours.jsonl";
    /// The same as a table.
    pub const HOURS_TABLE: &str = "hours.csv";
    /// Statements about keys of nodes.
    pub const IDENTITY: &str = "identity.jsonl";
    /// Signatures of the identity key over them, line by line.
    pub const IDENTITY_SIGNATURES: &str = "identity.jsonl.sig";
    /// Minute statements that are disclosed.
    pub const MINUTES: &str = "minutes.jsonl";
    /// For each of them, the leaves of its tree: hex, separated by spaces.
    pub const MINUTE_LEAVES: &str = "minute_leaves.txt";
    /// Head statements, by node, chain and sequence.
    pub const HEADS: &str = "heads.jsonl";
    /// Signatures of nodes over them, line by line.
    pub const HEAD_SIGNATURES: &str = "heads.jsonl.sig";
    /// Breaks of the log, where it has had any.
    pub const BREAKS: &str = "breaks.jsonl";
    /// The leaves of the log in the window: one header, then a line for each leaf.
    pub const LOG: &str = "log.jsonl";
    /// The checkpoint at the log's size, with cosignatures.
    pub const CHECKPOINT: &str = "checkpoint.txt";
    /// Terms of the leases, and the profile in force.
    pub const TERMS: &str = "terms.jsonl";
    /// Which lease covers which slot.
    pub const ASSIGNMENTS: &str = "assignments.jsonl";
    /// States by slot and hour.
    pub const AVAILABILITY: &str = "availability.jsonl";
    /// Incidents.
    pub const INCIDENTS: &str = "incidents.jsonl";
    /// Verdicts.
    pub const VERDICTS: &str = "verdicts.jsonl";

    /// Files whose lines are leaves of the log.
    pub const LEAVES: [&str; 9] =
        [IDENTITY, MINUTES, BREAKS, TERMS, ASSIGNMENTS, HOURS, AVAILABILITY, INCIDENTS, VERDICTS];
}
