//! Promises that are broken on purpose, to see that the test of each notices.
//!
//! A program that was built with the feature `sabotage` breaks the one promise that
//! `LEASEWATCH_SABOTAGE` names. What is broken stands in one line where the promise is kept, and
//! nothing of it here. Without the feature each question is answered with no at compile time.

#[cfg(all(feature = "sabotage", not(debug_assertions)))]
compile_error!("a sabotaged program is for tests alone and is never optimised");

/// Whether this program was told to break this promise.
#[cfg(feature = "sabotage")]
pub(crate) fn is(promise: &str) -> bool {
    use std::sync::OnceLock;

    static BROKEN: OnceLock<Option<String>> = OnceLock::new();
    let broken = BROKEN.get_or_init(|| std::env::var("LEASEWATCH_SABOTAGE").ok());
    broken.as_deref() == Some(promise)
}

/// Whether this program was told to break this promise: it cannot be.
#[cfg(not(feature = "sabotage"))]
pub(crate) const fn is(_promise: &str) -> bool {
    false
}
