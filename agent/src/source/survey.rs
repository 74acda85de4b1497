//! One look at every GPU of the node, for commands that judge or print an instant.
//!
//! It shares the readers of the sampler and nothing else with it: nothing is recorded. Each GPU is
//! looked at by a thread of its own, and one that does not answer in time is told as such; its
//! thread is left behind, for the process ends soon.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasewatch_core::id::GpuUuid;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{GpuWiring, Origin, Partition};

use super::Source;
use super::nvml::{
    Failure, FoundGpu, Gone, GpuRead, Lane, OpenError, ReadOptions, Session, Settings, TrackSlot,
    Versions,
};

/// GPUs that are looked at, whatever the driver counts.
const INDEX_MAX: u32 = 256;
/// Between the two reads of a look: some readings are of an interval.
const INTERVAL: Duration = Duration::from_millis(300);

/// Why there is nothing to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SurveyError {
    /// The library cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It does not say how many GPUs there are.
    #[error("NVML does not say how many GPUs there are ({0:?})")]
    Count(Failure),
    /// It does not answer at all.
    #[error("NVML did not answer in time")]
    Hung,
    /// The system has no thread left.
    #[error("the system has no thread left")]
    NoThread,
}

/// Why one GPU was not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// It does not open, or does not tell its name.
    Refused(Failure),
    /// It fell off, or the driver did.
    Gone(Gone),
    /// It did not answer in time.
    Hung,
}

/// What was seen of one slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceLook {
    /// The slice.
    pub uuid: GpuUuid,
    /// What it is a slice of.
    pub partition: Partition,
    /// Its utilization in percent; `None` when the driver had nothing to say.
    pub busy: Option<Reading>,
    /// Ascending by code.
    pub readings: Vec<(Metric, Reading)>,
}

/// What was seen of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Name, place, inventory.
    pub gpu: FoundGpu,
    /// Its utilization in percent; `None` when the driver had nothing to say.
    pub busy: Option<Reading>,
    /// Ascending by code; a number out of its metric's range is an error.
    pub readings: Vec<(Metric, Reading)>,
    /// Its slices.
    pub slices: Vec<SliceLook>,
    /// Modes, pages, links, processes.
    pub settings: Settings,
}

impl Look {
    /// One reading; `None` when it was not asked for.
    #[must_use]
    pub fn reading(&self, metric: Metric) -> Option<Reading> {
        self.readings.iter().find(|(other, _)| *other == metric).map(|(_, reading)| *reading)
    }

    /// One reading, if it is a number.
    #[must_use]
    pub fn number(&self, metric: Metric) -> Option<i64> {
        self.reading(metric)?.number()
    }
}

/// What was seen of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Measured, or simulated.
    pub origin: Origin,
    /// What the driver says about itself.
    pub versions: Versions,
    /// GPUs by NVML's index, as many as it lists.
    pub gpus: Vec<Result<Look, Unseen>>,
    /// How those that were seen hang in the host, in the same order; one that does not tell in time
    /// is left out.
    pub wiring: Vec<GpuWiring>,
}

/// Looks at everything. Waits for `patience` for the library, as long again for the GPUs, and for
/// how they are wired.
///
/// # Errors
/// [`SurveyError`] when nothing can be seen.
pub fn survey(source: &Source, patience: Duration) -> Result<Survey, SurveyError> {
    let (opened, answer) = channel();
    let to_open = source.clone();
    let open = move || {
        let session = Session::open(&to_open).map_err(SurveyError::from);
        let counted = session.and_then(|session| {
            let count = session.device_count().map_err(SurveyError::Count)?;
            Ok((session, count.min(INDEX_MAX)))
        });
        // Nobody waits any more.
        let _ = opened.send(counted);
    };
    thread::Builder::new().spawn(open).map_err(|_| SurveyError::NoThread)?;
    let (session, count) = answer.recv_timeout(patience).map_err(|_| SurveyError::Hung)??;
    let (to, looks) = channel();
    for index in 0..count {
        spawn_look(&session, index, &to)?;
    }
    drop(to);
    let mut gpus = vec![Err(Unseen::Hung); usize::try_from(count).unwrap_or(0)];
    let deadline = Instant::now() + patience;
    while let Ok((index, look)) =
        looks.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        if let Some(gpu) = usize::try_from(index).ok().and_then(|index| gpus.get_mut(index)) {
            *gpu = look;
        }
    }
    let wiring = wirings(&session, &gpus, patience)?;
    Ok(Survey { origin: source.origin(), versions: session.versions().clone(), gpus, wiring })
}

/// Asked once all are known: a way has two ends.
fn wirings(
    session: &Arc<Session>,
    gpus: &[Result<Look, Unseen>],
    patience: Duration,
) -> Result<Vec<GpuWiring>, SurveyError> {
    let seen: Arc<[FoundGpu]> = gpus.iter().flatten().map(|look| look.gpu.clone()).collect();
    let (to, told) = channel();
    for at in 0..seen.len() {
        let (session, seen, to) = (Arc::clone(session), Arc::clone(&seen), to.clone());
        let ask = move || {
            // Nobody waits any more.
            let _ = to.send((at, session.wiring(&seen[at], &seen)));
        };
        thread::Builder::new().spawn(ask).map_err(|_| SurveyError::NoThread)?;
    }
    drop(to);
    let mut all = vec![None; seen.len()];
    let deadline = Instant::now() + patience;
    while let Ok((at, wiring)) =
        told.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        all[at] = wiring.ok();
    }
    Ok(all.into_iter().flatten().collect())
}

type Told = (u32, Result<Look, Unseen>);

fn spawn_look(session: &Arc<Session>, index: u32, to: &Sender<Told>) -> Result<(), SurveyError> {
    let (session, to) = (Arc::clone(session), to.clone());
    let look = move || {
        // Nobody waits any more.
        let _ = to.send((index, look(&session, index)));
    };
    thread::Builder::new().spawn(look).map_err(|_| SurveyError::NoThread)?;
    Ok(())
}

fn look(session: &Session, index: u32) -> Result<Look, Unseen> {
    let gpu = session.identify(index).map_err(Unseen::Refused)?;
    let options = ReadOptions { cadence_ms: 1_000, driver_samples: true, process_counts: true };
    let track = TrackSlot::default();
    let mut reader = session.reader(&gpu, track, options).map_err(Unseen::Refused)?;
    let first = reader.read(Lane::Slow).map_err(Unseen::Gone)?;
    thread::sleep(INTERVAL);
    let second = reader.read(Lane::Slow).map_err(Unseen::Gone)?;
    let settings = session.settings(&gpu).map_err(Unseen::Refused)?;
    Ok(Look {
        gpu,
        busy: newest(&first.points, &second.points),
        readings: joined(&first.readings, &second.readings),
        slices: slices(&first, &second),
        settings,
    })
}

fn slices(first: &GpuRead, second: &GpuRead) -> Vec<SliceLook> {
    let before = first.slices.as_deref().unwrap_or_default();
    let now = second.slices.as_deref().unwrap_or_default();
    let look = |read: &super::nvml::SliceRead| {
        let earlier = before.iter().find(|other| other.slice.uuid == read.slice.uuid);
        let (points, readings) =
            earlier.map_or((&[][..], &[][..]), |read| (&read.points[..], &read.readings[..]));
        SliceLook {
            uuid: read.slice.uuid.clone(),
            partition: read.slice.partition.clone(),
            busy: newest(points, &read.points),
            readings: joined(readings, &read.readings),
        }
    };
    now.iter().map(look).collect()
}

fn newest(first: &[(i64, Reading)], second: &[(i64, Reading)]) -> Option<Reading> {
    let (_, busy) = second.last().or_else(|| first.last())?;
    Some(match busy {
        Reading::Number(share) if !(0..=100).contains(share) => Reading::Error,
        other => *other,
    })
}

/// The second read; where it has no entry, the first.
fn joined(first: &[(Metric, Reading)], second: &[(Metric, Reading)]) -> Vec<(Metric, Reading)> {
    let is_new = |metric: Metric| second.iter().any(|(other, _)| *other == metric);
    let only_first = first.iter().filter(|(metric, _)| !is_new(*metric));
    let mut all: Vec<_> = second.iter().chain(only_first).copied().collect();
    for (metric, reading) in &mut all {
        *reading = match *reading {
            Reading::Number(value) if value < metric.lowest() || value > metric.highest() => {
                Reading::Error
            }
            other => other.rounded_to(metric.resolution()),
        };
    }
    all.sort_unstable_by_key(|(metric, _)| metric.code());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_read_counts_and_the_first_fills_in_and_no_nonsense_is_a_number() {
        let first =
            [(Metric::PowerDraw, Reading::Number(1)), (Metric::SmActive, Reading::Number(7))];
        let second = [
            (Metric::PowerDraw, Reading::Number(250_049)),
            (Metric::Temperature, Reading::Number(900)),
        ];
        let expected = [
            (Metric::PowerDraw, Reading::Number(250_000)),
            (Metric::Temperature, Reading::Error),
            (Metric::SmActive, Reading::Number(7)),
        ];
        assert_eq!(joined(&first, &second), expected);
        assert_eq!(newest(&[(1, Reading::Number(40))], &[]), Some(Reading::Number(40)));
        assert_eq!(newest(&[], &[(2, Reading::Number(101))]), Some(Reading::Error));
        assert_eq!(newest(&[], &[]), None);
    }
}
