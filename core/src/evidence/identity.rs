//! Who is who: what a server signs about the keys of nodes and about its own.
//!
//! A node's key is admitted, replaced and revoked by statements of the server ([`Enrollment`],
//! [`Rotation`], [`Revocation`]). The server's own key passes on by [`ServerRotation`], which
//! [`ServerTrust::follow`] decides about, and what else nodes need to find it again stands in a
//! [`ServerNotice`]. Not here: keeping any of it, and who may ask for it.

mod node;
mod server;

use crate::evidence::statement::{Fields, StatementError};
use crate::id::Hash;

pub use node::{Admission, Enrollment, Revocation, RevocationReason, Rotation};
pub use server::{
    NOTICE_ADDRESSES, NOTICE_PINS, ROTATIONS_MAX, RotationSigner, ServerNotice, ServerRotation,
    ServerTrust, SignedStatement,
};

/// The most bytes of a statement of this module.
pub const BYTES_MAX: usize = 4_096;

/// A public key as 64 hex digits.
fn key(fields: &mut Fields, field: &'static str) -> Result<[u8; 32], StatementError> {
    fields.id::<Hash>(field).map(|hash| hash.0)
}

fn opt_key(fields: &mut Fields, field: &'static str) -> Result<Option<[u8; 32]>, StatementError> {
    Ok(fields.opt_id::<Hash>(field)?.map(|hash| hash.0))
}

#[cfg(test)]
pub(super) mod tests;
