//! A slot's hour laid out in time, as exactly as what is stored allows.
//!
//! Profiles of the newest version keep exact stretches. Older ones keep sums by minute, and the
//! first version nothing but the measured time of minutes; then the sums are laid out in their
//! minute or hour, what was measured first. Sums stay exact in either case; where in the minute or
//! hour something happened does not, and [`Grain`] says so.

use crate::time::{HOUR_MS, Hour};

use super::gap::GapCause;
use super::profile::{HourProfile, HourStretch, MinuteSums};
use super::record::HourRecord;

const MINUTE_MS: i64 = 60_000;

/// How exactly it is known where in an hour something happened. Later is coarser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grain {
    /// To the millisecond.
    Exact,
    /// Within its minute.
    Minute,
    /// Within its hour.
    Hour,
}

impl Grain {
    /// Every grain, the finest first.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Minute, Self::Hour];

    /// `exact`, `minute` or `hour`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }

    /// The grain with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|grain| grain.name() == name)
    }
}

/// Lays out one hour of one slot, of which `rows` are the records of the GPUs that sat in it, each
/// with its profile where one is stored. In order and without overlaps; the sums by content are
/// those of the records.
#[must_use]
pub fn laid_out(
    hour: Hour,
    rows: &[(&HourRecord, Option<&HourProfile>)],
) -> (Grain, Vec<HourStretch>) {
    debug_assert!(rows.iter().all(|(record, _)| record.hour == hour));
    let exact = rows.iter().map(|(_, profile)| profile.and_then(|p| p.stretches.as_ref()));
    let (grain, mut stretches) = if let Some(exact) = exact.collect::<Option<Vec<_>>>() {
        (Grain::Exact, exact.into_iter().flatten().copied().collect())
    } else if let Some(minutes) = of_minutes(rows) {
        (Grain::Minute, minutes)
    } else {
        (Grain::Hour, of_records(rows))
    };
    stretches.sort_unstable();
    (grain, merged(stretches))
}

fn of_minutes(rows: &[(&HourRecord, Option<&HourProfile>)]) -> Option<Vec<HourStretch>> {
    let kept: Vec<(&HourProfile, &MinuteSums)> = rows
        .iter()
        .map(|(_, profile)| profile.and_then(|p| Some((p, p.sums.as_ref()?))))
        .collect::<Option<_>>()?;
    let mut out = Vec::new();
    for minute in 0..60_u8 {
        let mut place = Place { at: i64::from(minute) * MINUTE_MS, out: &mut out };
        for (profile, sums) in &kept {
            let measured = profile.utilization.get(usize::from(minute)).map_or(0, |(_, ms)| *ms);
            place.put(None, measured);
            let gaps = sums.gaps.iter().filter(|gap| gap.minute == minute);
            gaps.for_each(|gap| place.put(Some(gap.cause), gap.ms));
        }
    }
    Some(out)
}

fn of_records(rows: &[(&HourRecord, Option<&HourProfile>)]) -> Vec<HourStretch> {
    let mut out = Vec::new();
    let mut place = Place { at: 0, out: &mut out };
    for (record, _) in rows {
        place.put(None, record.measured_ms());
        record.gaps.iter().for_each(|(cause, ms)| place.put(Some(cause), ms));
    }
    out
}

/// Puts sums end to end.
struct Place<'a> {
    at: i64,
    out: &'a mut Vec<HourStretch>,
}

impl Place<'_> {
    fn put(&mut self, gap: Option<GapCause>, ms: i64) {
        let end = self.at + ms.max(0);
        let offset = |ms: i64| u32::try_from(ms.clamp(0, HOUR_MS)).unwrap_or(0);
        let (start_ms, end_ms) = (offset(self.at), offset(end));
        if end_ms > start_ms {
            self.out.push(HourStretch { start_ms, end_ms, gap });
        }
        self.at = end;
    }
}

fn merged(stretches: Vec<HourStretch>) -> Vec<HourStretch> {
    let mut out: Vec<HourStretch> = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        match out.last_mut() {
            Some(last) if last.end_ms == stretch.start_ms && last.gap == stretch.gap => {
                last.end_ms = stretch.end_ms;
            }
            _ => out.push(stretch),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::GpuUuid;
    use crate::metering::MinuteGap;
    use crate::segment::Origin;

    const HOUR: Hour = Hour(500_000);

    fn record(measured_ms: i64, lost_ms: i64) -> HourRecord {
        let mut record = HourRecord::empty(HOUR, GpuUuid::new("GPU-1").unwrap(), Origin::Measured);
        record.enrolled_ms = measured_ms + lost_ms;
        record.histogram.add(50, measured_ms);
        record.gaps.add(GapCause::GpuLost, lost_ms);
        record
    }

    fn minutes(stretches: Option<Vec<HourStretch>>) -> HourProfile {
        let mut profile = HourProfile { stretches, ..HourProfile::empty() };
        profile.utilization = vec![(0, 60_000); 60];
        profile.utilization[3] = (0, 40_000);
        let sums = profile.sums.as_mut().unwrap();
        sums.gaps = vec![MinuteGap { minute: 3, cause: GapCause::GpuLost, ms: 20_000 }];
        profile
    }

    fn stretch(start_ms: u32, end_ms: u32, gap: Option<GapCause>) -> HourStretch {
        HourStretch { start_ms, end_ms, gap }
    }

    #[test]
    fn what_is_stored_decides_how_exact_the_layout_is() {
        let record = record(3_580_000, 20_000);
        let lost = Some(GapCause::GpuLost);
        let at = |start: u32| {
            [
                stretch(0, start, None),
                stretch(start, start + 20_000, lost),
                stretch(start + 20_000, 3_600_000, None),
            ]
        };
        let exact = minutes(Some(at(185_123).to_vec()));
        assert_eq!(
            laid_out(HOUR, &[(&record, Some(&exact))]),
            (Grain::Exact, at(185_123).to_vec())
        );
        let second = minutes(None);
        assert_eq!(
            laid_out(HOUR, &[(&record, Some(&second))]),
            (Grain::Minute, at(220_000).to_vec())
        );
        let first = HourProfile { sums: None, ..minutes(None) };
        let whole = vec![stretch(0, 3_580_000, None), stretch(3_580_000, 3_600_000, lost)];
        assert_eq!(laid_out(HOUR, &[(&record, Some(&first))]), (Grain::Hour, whole.clone()));
        assert_eq!(laid_out(HOUR, &[(&record, None)]), (Grain::Hour, whole));
        assert_eq!(laid_out(HOUR, &[]), (Grain::Exact, Vec::new()));
    }

    #[test]
    fn two_gpus_of_one_slot_lie_end_to_end() {
        let (old, new) = (record(1_000_000, 800_000), record(1_800_000, 0));
        let (_, stretches) = laid_out(HOUR, &[(&old, None), (&new, None)]);
        let lost = Some(GapCause::GpuLost);
        assert_eq!(
            stretches,
            [
                stretch(0, 1_000_000, None),
                stretch(1_000_000, 1_800_000, lost),
                stretch(1_800_000, 3_600_000, None)
            ]
        );
    }
}
