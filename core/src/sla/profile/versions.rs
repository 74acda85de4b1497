//! All versions of all profiles: none ever changes, and the one in force judges.

use super::{OWN_OBJECTIVE, Profile};
use crate::id::Slug;
use crate::lease::ProfileRef;
use crate::time::{Period, Timestamp};

/// All versions of all profiles.
#[derive(Debug, Clone, Default)]
pub struct Profiles(Vec<Profile>);

/// A version that is there already has other bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("version {version} of profile {id} is there with other contents; give it a new version")]
pub struct VersionTaken {
    /// The profile.
    pub id: Slug,
    /// The version.
    pub version: u32,
}

impl Profiles {
    /// Takes a version in. The same bytes again change nothing.
    ///
    /// # Errors
    /// [`VersionTaken`] when the version is there with other bytes.
    pub fn add(&mut self, profile: Profile) -> Result<(), VersionTaken> {
        let same = |one: &&Profile| one.id == profile.id && one.version == profile.version;
        match self.0.iter().find(same) {
            Some(known) if known.hash == profile.hash => Ok(()),
            Some(_) => Err(VersionTaken { id: profile.id, version: profile.version }),
            None => {
                self.0.push(profile);
                self.0.sort_by(|a, b| (&a.id, a.version).cmp(&(&b.id, b.version)));
                Ok(())
            }
        }
    }

    /// The version that is in force at `at`: of those that hold, the highest.
    #[must_use]
    pub fn in_force(&self, id: &Slug, at: Timestamp) -> Option<&Profile> {
        self.0.iter().rev().find(|profile| profile.id == *id && profile.holds_at(at))
    }

    /// The contract that a lease names, in the version that is in force at `at`; the version that
    /// it names where none is.
    #[must_use]
    pub fn contract(&self, named: &ProfileRef, at: Timestamp) -> Option<&Profile> {
        let is_named =
            |profile: &&Profile| profile.id == named.id && profile.version == named.version;
        self.in_force(&named.id, at).or_else(|| self.0.iter().find(is_named))
    }

    /// Own objectives, in the version that is in force at `at`.
    #[must_use]
    pub fn own(&self, at: Timestamp) -> Option<&Profile> {
        self.in_force(&Slug::new(OWN_OBJECTIVE).ok()?, at)
    }

    /// Whose rules hold at `at` for what is excluded and what is owed to a ticket: the contract's,
    /// else those of own objectives.
    #[must_use]
    pub fn governing(&self, named: Option<&ProfileRef>, at: Timestamp) -> Option<&Profile> {
        named.and_then(|named| self.contract(named, at)).or_else(|| self.own(at))
    }

    /// The versions in force over `period`, each with its part, in order; parts without any are
    /// left out.
    #[must_use]
    pub fn in_force_over(&self, id: &Slug, period: Period) -> Vec<(Period, &Profile)> {
        let own = || self.0.iter().filter(|profile| profile.id == *id);
        let mut cuts = vec![period.start, period.end];
        cuts.extend(own().flat_map(|p| [p.effective_from, p.effective_to]).flatten());
        cuts.retain(|at| period.start <= *at && *at <= period.end);
        cuts.sort_unstable();
        cuts.dedup();
        let mut parts: Vec<(Period, &Profile)> = Vec::new();
        for pair in cuts.windows(2) {
            let Some(profile) = self.in_force(id, pair[0]) else { continue };
            match parts.last_mut() {
                Some((last, same)) if last.end == pair[0] && same.version == profile.version => {
                    last.end = pair[1];
                }
                _ => parts.push((Period::new(pair[0], pair[1]), profile)),
            }
        }
        parts
    }

    /// All versions, by id and version.
    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.0.iter()
    }
}
