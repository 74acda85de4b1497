//! Building view structs, one file a page.

pub(super) mod gpus;
pub(super) mod node;
pub(super) mod overview;
