//! The profiles that come with the program.

/// Own objectives, for leases without a provider's profile.
pub const OWN_OBJECTIVE: &str = "own-objective";

/// File names and texts of the profiles that come with the program.
#[must_use]
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    &[]
}
