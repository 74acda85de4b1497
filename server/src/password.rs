//! Passwords that people choose: argon2id, slow on purpose.
//!
//! One hash takes 19 MiB and tens of milliseconds, so at most [`AT_ONCE`] are computed at a time,
//! on threads for blocking work. Checking a name that does not exist costs the same as checking
//! one that does. Not here: how often somebody may try (`http`).

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

/// Characters that a new password has at least.
pub const CHARACTERS_MIN: usize = 12;
/// Bytes of a password that are looked at; a longer one is refused.
pub const BYTES_MAX: usize = 1_024;

/// Hashes that are computed at one time.
const AT_ONCE: usize = 2;
/// Memory in KiB, passes and lanes: what OWASP names as the least for argon2id.
const COST: (u32, u32, u32) = (19 * 1_024, 2, 1);

/// What is checked where there is no user: at the same cost, and nobody knows what it would be of.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyB0aGlz$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

/// Why a password was not hashed or checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a password could not be hashed")]
pub struct HashFailed;

/// Hashes and checks. Clones share the places.
#[derive(Debug, Clone)]
pub struct Passwords(Arc<Semaphore>);

impl Default for Passwords {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Passwords {
    /// The PHC string to store.
    ///
    /// # Errors
    /// [`HashFailed`].
    pub async fn hash(&self, password: String) -> Result<String, HashFailed> {
        self.slowly(move || hash(password.as_bytes())).await
    }

    /// True when `stored` is of this password. Without one the answer is no, and as slow.
    ///
    /// # Errors
    /// [`HashFailed`], also when what is stored is no hash.
    pub async fn verify(
        &self,
        password: String,
        stored: Option<String>,
    ) -> Result<bool, HashFailed> {
        self.slowly(move || {
            let text = stored.as_deref().unwrap_or(NOBODY);
            let parsed = PasswordHash::new(text).map_err(|_| HashFailed)?;
            let fits = Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok();
            Ok(fits && stored.is_some())
        })
        .await
    }

    async fn slowly<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, HashFailed> + Send + 'static,
    ) -> Result<T, HashFailed> {
        let places = Arc::clone(&self.0);
        let place = places.acquire_owned().await.map_err(|_| HashFailed)?;
        let work = move || {
            // Kept until the work is done, also when whoever asked has gone.
            let _place = place;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| HashFailed)?
    }
}

fn hash(password: &[u8]) -> Result<String, HashFailed> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|_| HashFailed)?;
    let (memory_kib, passes, lanes) = COST;
    let params = Params::new(memory_kib, passes, lanes, None).map_err(|_| HashFailed)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: PasswordHash =
        argon2.hash_password_with_salt(password, &salt).map_err(|_| HashFailed)?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_fits_its_own_hash_alone_and_nobody_has_none() {
        let passwords = Passwords::default();
        let stored = passwords.hash("correct horse battery".to_owned()).await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        let again = passwords.hash("correct horse battery".to_owned()).await.unwrap();
        assert_ne!(stored, again, "each has a salt of its own");
        let verify = async |password: &str, stored: Option<&str>| {
            passwords.verify(password.to_owned(), stored.map(str::to_owned)).await
        };
        assert_eq!(verify("correct horse battery", Some(&stored)).await, Ok(true));
        assert_eq!(verify("correct horse batterY", Some(&stored)).await, Ok(false));
        assert_eq!(verify("nobody has this one", None).await, Ok(false));
        // As slow as the others: the same algorithm at the same cost, and as many bytes.
        let cost = |hash: &str| hash.split('$').take(4).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(cost(NOBODY), cost(&stored));
        assert!(PasswordHash::new(NOBODY).is_ok() && NOBODY.len() <= stored.len());
        assert_eq!(verify("x", Some("no hash")).await, Err(HashFailed));
    }
}
