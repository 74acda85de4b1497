//! The past of a simulated node: the cards of a scenario, played over days, written as a log.
//!
//! What the cards did stands in a *story* (`scenarios/history/*.toml`), a file beside the scenario
//! that they are taken from, so the log is of the very GPUs that a live agent on that scenario
//! sees. The log is JSON lines; its form is in `nvml-sim/README.md`, and
//! `leasewatch-server import history` reads it. One story and one end give one log, byte for byte.
//!
//! Not here: the driver's sampler. A row is taken every ten seconds, and between two rows nothing
//! is played.

mod card;
mod columns;
mod inventory;
mod line;
mod play;
mod reading;
mod story;
#[cfg(test)]
mod tests;
mod timetable;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leasewatch_core::time::{DAY_MS, Period, Timestamp};

use crate::scenario::ScenarioError;
use play::Play;
use story::Story;

/// Seconds between two rows of a card.
const STEP_S: i64 = 10;
/// Seconds between two rows that hold the slow lane too.
const SLOW_EVERY_S: i64 = 60;
/// The longest log.
const DAYS_MAX: u32 = 366;

/// A log to write.
#[derive(Debug, Clone)]
pub struct History {
    /// The story.
    pub story: PathBuf,
    /// The log ends here, at the last full ten seconds.
    pub until: Timestamp,
    /// How many days before that it begins, 1 to 366.
    pub days: u32,
}

/// Why there is no log, or only half of one.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HistoryError(#[from] Failure);

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Story(#[from] ScenarioError),
    #[error("the log cannot be written: {0}")]
    Write(#[from] io::Error),
    #[error("days are 1 to {DAYS_MAX}, and the log ends between 2001 and 2199")]
    Span,
}

impl From<io::Error> for HistoryError {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl HistoryError {
    /// True when the reader of the log went away.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(&self.0, Failure::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl History {
    /// Writes the log.
    ///
    /// # Errors
    /// [`HistoryError`] in words.
    pub fn write(&self, out: &mut impl Write) -> Result<(), HistoryError> {
        let span = self.span().ok_or(Failure::Span)?;
        let story = Story::load(&self.story).map_err(Failure::Story)?;
        line::header(out, span)?;
        let mut play = Play::new(&story, span);
        while let Some(part) = play.next_part() {
            line::part(out, &part)?;
        }
        Ok(out.flush()?)
    }

    fn span(&self) -> Option<Period> {
        const YEAR_MS: i64 = 366 * DAY_MS;
        let step_ms = STEP_S * 1_000;
        let end = Timestamp(self.until.0 / step_ms * step_ms);
        let credible = Timestamp::MIN.plus_ms(YEAR_MS)..=Timestamp::MAX.plus_ms(-YEAR_MS);
        let fits = credible.contains(&end) && (1..=DAYS_MAX).contains(&self.days);
        fits.then(|| Period::new(end.plus_ms(-i64::from(self.days) * DAY_MS), end))
    }
}

/// The stories that come with the source, by the name of their scenario.
#[must_use]
pub fn story_path(scenario: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/history");
    directory.join(format!("{scenario}.toml"))
}
