//! The number of the last welcome, which the node shows when it opens its next stream, so that a
//! server notices two users of one key. A file of its own: what is lost with it is only that.

use std::fs;

use super::{IdentityError, SESSION, StateDir, write_atomically};

/// The number that was kept; `None` when none was, or it cannot be read.
#[must_use]
pub fn last_session(dir: &StateDir) -> Option<u64> {
    let text = fs::read_to_string(dir.path().join(SESSION)).ok()?;
    text.trim_end().parse().ok().filter(|number| *number > 0)
}

/// Keeps a number, durably; to be called before anything is said on the stream that it is of.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn keep_session(dir: &StateDir, number: u64) -> Result<(), IdentityError> {
    write_atomically(&dir.path().join(SESSION), format!("{number}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_kept_and_rubbish_is_none() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        assert_eq!(last_session(&dir), None);
        keep_session(&dir, 7).unwrap();
        keep_session(&dir, 8).unwrap();
        assert_eq!(last_session(&dir), Some(8));
        for rubbish in ["", "0\n", "-1\n", "seven\n", "99999999999999999999999\n"] {
            fs::write(temp.path().join(SESSION), rubbish).unwrap();
            assert_eq!(last_session(&dir), None, "{rubbish}");
        }
    }
}
