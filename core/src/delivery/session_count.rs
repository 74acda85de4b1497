//! Whether one key has two users, from numbers that a server gives to streams.
//!
//! Each stream of a key is given the next number; the node keeps it and shows it when it opens the
//! next stream. Whoever copied the key has to show a number too, and sooner or later one of both
//! shows one that is older than what the other was given. A number that was given and never
//! confirmed may not have arrived, so the numbers from the last confirmed to the last given are all
//! good. A node that lost its number shows none, and is believed: the other user of its key, if
//! there is one, is noticed at his next stream.
//!
//! Not noticed: a copy that is never used at the same time as the original, and a number that a
//! node confirmed and then could not keep, which looks like a copy.

/// Where the numbers of one key stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionCount {
    /// The last number that was given to a stream; 0 before the first.
    pub issued: u64,
    /// The last number that its stream is known to have received.
    pub confirmed: u64,
}

/// What a new stream is told, and what it shows about its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOpened {
    /// Its number.
    pub session: u64,
    /// Whether the key has two users.
    pub is_contested: bool,
}

impl SessionCount {
    /// A stream opens and shows the number of the one before, if it knows any.
    ///
    /// A number beyond the last that was given was given by a server that lost its newest rows;
    /// counting goes on behind it.
    pub fn open(&mut self, shown: Option<u64>) -> SessionOpened {
        let is_contested = shown.is_some_and(|shown| shown < self.confirmed);
        self.issued = self.issued.max(shown.unwrap_or(0)).saturating_add(1);
        SessionOpened { session: self.issued, is_contested }
    }

    /// The stream with this number spoke after its welcome, so the node has kept it.
    pub fn confirm(&mut self, session: u64) {
        self.confirmed = self.confirmed.max(session.min(self.issued));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A holder of the key.
    #[derive(Clone, Copy, Default)]
    struct User {
        kept: Option<u64>,
    }

    impl User {
        /// Opens a stream; the welcome arrives, and the first words after it, or not.
        fn connect(&mut self, count: &mut SessionCount, arrives: bool, speaks: bool) -> bool {
            let opened = count.open(self.kept);
            if arrives {
                self.kept = Some(opened.session);
                if speaks {
                    count.confirm(opened.session);
                }
            }
            opened.is_contested
        }
    }

    proptest! {
        /// Lost welcomes, lost state and a server that was restored never accuse a lone user.
        #[test]
        fn one_user_is_never_contested(steps in proptest::collection::vec((0_u8..8, any::<bool>(), any::<bool>()), 1..60)) {
            let (mut count, mut user, mut backup) = (SessionCount::default(), User::default(), SessionCount::default());
            for (kind, arrives, speaks) in steps {
                match kind {
                    0 => user.kept = None,
                    1 => backup = count,
                    2 => count = backup,
                    _ => prop_assert!(!user.connect(&mut count, arrives, speaks)),
                }
            }
        }

        /// After a copy, whoever comes first and however often: when the second user has come back
        /// once and the first once more, it is noticed.
        #[test]
        fn two_users_are_noticed_within_two_reconnects(
            before in proptest::collection::vec((any::<bool>(), any::<bool>()), 0..10),
            original_first in any::<bool>(),
            alone in 1_usize..5,
            knows_no_number in any::<bool>(),
        ) {
            let (mut count, mut original) = (SessionCount::default(), User::default());
            for (arrives, speaks) in before {
                original.connect(&mut count, arrives, speaks);
            }
            original.connect(&mut count, true, true);
            // A thief who took the key alone has no number.
            let copy = User { kept: original.kept.filter(|_| !knows_no_number) };
            let mut users = if original_first { [original, copy] } else { [copy, original] };
            for _ in 0..alone {
                prop_assert!(!users[0].connect(&mut count, true, true));
            }
            let noticed = users[1].connect(&mut count, true, true);
            prop_assert!(noticed || users[0].connect(&mut count, true, true));
        }
    }

    #[test]
    fn numbers_end_without_a_wrap() {
        let mut count = SessionCount { issued: u64::MAX - 1, confirmed: 0 };
        assert_eq!(count.open(Some(u64::MAX)).session, u64::MAX);
        count.confirm(u64::MAX);
        assert!(!count.open(Some(u64::MAX)).is_contested);
    }
}
