//! The log: what a server committed to, in order, so that nothing can be taken back.
//!
//! One RFC 6962 tree per tenant and provider. Its leaves are hashes of statements, its states are
//! checkpoints: signed notes in the form of C2SP's `tlog-checkpoint`, so that witnesses which are
//! not ours can read and cosign them. Here are the tree's arithmetic, which needs no tree in
//! memory ([`tree`]), the notes ([`note`], [`checkpoint`]) and the leaves that only a log has
//! ([`leaf`]).
//!
//! Not here: where leaves are kept, and when a checkpoint is made (the server).

pub mod checkpoint;
pub mod leaf;
pub mod note;
pub mod tree;

mod base64;
