//! How somebody gets in: passwords, the count of those that failed, and sessions that begin.
//!
//! Failures are counted in memory, for the name that was tried and for the address that tried, so
//! a restart forgets them. A try counts before its password is looked at: many at once are no way
//! around it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::header::USER_AGENT;
use axum::http::{HeaderName, request};
use leasewatch_core::id::clean_text;
use leasewatch_core::time::Timestamp;

use super::Http;
use super::asking::users_exist;
use super::cookie::{self, Peer};
use super::error::Fault;
use crate::password::Passwords;
use crate::secret::Secret;
use crate::store::user::UserKey;
use crate::store::user_session::{self, NewSession};
use crate::store::{Db, StoreError, Tx};

/// The end of a session, however busy it is.
const SESSION_MS: i64 = 30 * 86_400_000;
/// Failures are forgotten after this.
const WINDOW_MS: i64 = 15 * 60_000;
/// Tries within the window, for one name and from one address.
const NAME_TRIES_MAX: u32 = 10;
const ADDRESS_TRIES_MAX: u32 = 50;
/// Names and addresses that are counted at one time.
const COUNTED_MAX: usize = 10_000;
/// Characters of what a browser calls itself.
const BROWSER_CHARACTERS_MAX: usize = 200;

/// What all requests share. Clones share it too.
#[derive(Debug, Clone, Default)]
pub struct Entrance {
    pub(super) passwords: Passwords,
    tries: Arc<Mutex<HashMap<Tried, Tries>>>,
    /// Users are never removed, so what was true once stays true.
    has_users: Arc<AtomicBool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Tried {
    Name(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy)]
struct Tries {
    count: u32,
    since: Timestamp,
}

impl Entrance {
    pub(super) async fn has_users(&self, db: &Db) -> Result<bool, StoreError> {
        if !self.has_users.load(Ordering::Relaxed) && users_exist(db).await? {
            self.has_users.store(true, Ordering::Relaxed);
        }
        Ok(self.has_users.load(Ordering::Relaxed))
    }

    /// Counts a try; false when there were too many, and then the password is not to be looked at.
    pub(super) fn admit(&self, name: &str, address: Option<IpAddr>, now: Timestamp) -> bool {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |tried: &Tries| !(0..WINDOW_MS).contains(&now.since(tried.since));
        let counted = [
            (Some(Tried::Name(name.to_owned())), NAME_TRIES_MAX),
            (address.map(|address| Tried::Address(network(address))), ADDRESS_TRIES_MAX),
        ];
        let full = counted.iter().any(|(tried, most)| {
            let known = tried.as_ref().and_then(|tried| tries.get(tried));
            known.is_some_and(|known| !is_over(known) && known.count >= *most)
        });
        if full {
            return false;
        }
        for tried in counted.into_iter().filter_map(|(tried, _)| tried) {
            make_room(&mut tries, is_over);
            let entry = tries.entry(tried).or_insert(Tries { count: 0, since: now });
            if is_over(entry) {
                *entry = Tries { count: 0, since: now };
            }
            entry.count += 1;
        }
        true
    }

    /// The try was right: it counts no more, and nothing is held against the name.
    pub(super) fn forgive(&self, name: &str, address: Option<IpAddr>) {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        tries.remove(&Tried::Name(name.to_owned()));
        let address = address.map(|address| Tried::Address(network(address)));
        if let Some(entry) = address.and_then(|address| tries.get_mut(&address)) {
            entry.count = entry.count.saturating_sub(1);
        }
    }
}

/// Whoever has one address of IPv6 has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let bits = u128::from(address) >> 64 << 64;
            IpAddr::V6(bits.into())
        }
    }
}

fn make_room(tries: &mut HashMap<Tried, Tries>, is_over: impl Fn(&Tries) -> bool) {
    if tries.len() < COUNTED_MAX {
        return;
    }
    tries.retain(|_, known| !is_over(known));
    while tries.len() >= COUNTED_MAX {
        let Some(oldest) = tries.iter().min_by_key(|(_, known)| known.since) else { return };
        let oldest = oldest.0.clone();
        tries.remove(&oldest);
    }
}

/// The headers of an answer that begins a session.
pub(super) type SessionCookie = [(HeaderName, String); 1];

/// Begins a session for whoever sent this request: always with a new secret, and the session that
/// the request came with ends.
///
/// # Errors
/// [`Fault`] of the database, or without random bytes.
pub(super) async fn begin_session(
    http: &Http,
    tx: &mut Tx,
    parts: &request::Parts,
    user: UserKey,
) -> Result<SessionCookie, Fault> {
    let over_tls = cookie::over_tls(&parts.extensions);
    if let Some(before) = cookie::session(&parts.headers, over_tls) {
        user_session::close_cookie(tx, &before.hash()).await?;
    }
    let secret = Secret::random()?;
    let browser = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let browser = browser.map(|text| clean_text(text, BROWSER_CHARACTERS_MAX));
    let address = peer_address(parts).map(|address| address.to_string());
    let now = http.clock.now();
    let new = NewSession {
        hash: &secret.hash(),
        user,
        at: now,
        expires_at: now.plus_ms(SESSION_MS),
        address: address.as_deref(),
        browser: browser.as_deref(),
    };
    user_session::open(tx, new).await?;
    Ok(cookie::set(&secret, over_tls, SESSION_MS / 1_000))
}

/// Where a request came from.
pub(super) fn peer_address(parts: &request::Parts) -> Option<IpAddr> {
    parts.extensions.get::<Peer>().map(|peer| peer.address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_790_000_000_000);

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_name_and_an_address_have_their_tries_and_get_them_back_with_time() {
        let entrance = Entrance::default();
        let (here, there) = (address("192.0.2.1"), address("192.0.2.2"));
        let admitted =
            |name: &str, from, at| (0..100).filter(|_| entrance.admit(name, from, at)).count();
        assert_eq!(admitted("ada", here, NOW), 10);
        // From elsewhere it is the same name, and another name is not concerned.
        assert_eq!(admitted("ada", there, NOW), 0);
        assert_eq!(admitted("bob", there, NOW.plus_ms(1)), 10);
        assert_eq!(admitted("ada", there, NOW.plus_ms(WINDOW_MS - 1)), 0);
        assert_eq!(admitted("ada", there, NOW.plus_ms(WINDOW_MS)), 10);
        // A clock that was set back locks nobody out for long.
        assert_eq!(admitted("ada", here, NOW.plus_ms(-1)), 10);
    }

    #[test]
    fn an_address_that_tries_many_names_is_stopped_with_its_neighbours() {
        let entrance = Entrance::default();
        let admitted = (0..200)
            .filter(|n| entrance.admit(&format!("u{n}"), address(&format!("2001:db8::{n:x}")), NOW))
            .count();
        assert_eq!(admitted, 50);
        assert!(entrance.admit("u200", address("2001:db8:0:1::1"), NOW));
        // The right password takes its try back.
        entrance.forgive("u0", address("2001:db8::1"));
        assert!(entrance.admit("u201", address("2001:db8::1"), NOW));
        assert!(!entrance.admit("u202", address("2001:db8::1"), NOW));
    }

    #[test]
    fn what_is_counted_is_bounded() {
        let entrance = Entrance::default();
        for number in 0..COUNTED_MAX + 50 {
            entrance.admit(&number.to_string(), None, NOW);
        }
        assert_eq!(entrance.tries.lock().unwrap().len(), COUNTED_MAX);
    }
}
