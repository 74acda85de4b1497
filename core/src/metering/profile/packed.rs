//! The packed form of a profile, which the database keeps.
//!
//! Version 2 keeps each column of minutes as one list of integers in the segment's packings: far
//! fewer bytes than version 1 took for the same content. Version 3 is version 2 and the exact
//! stretches. The older ones are still read.

use crate::sample::Metric;

use super::super::counter::CounterDelta;
use super::super::gap::GapCause;
use super::super::packed::{Packer, Unpacker};
use super::super::record::RecordError;
use super::{HourProfile, MINUTES, MinuteGap, MinuteSums, ProfileCell, ReasonMinutes, stretch};

const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;
const VERSION: u8 = 3;

impl HourProfile {
    /// The packed form that the database keeps.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let mut out = Packer::new(VERSION);
        out.integers(self.utilization.iter().map(|(busy, _)| *busy));
        out.integers(self.utilization.iter().map(|(_, measured)| *measured));
        out.list(self.metrics.iter(), |out, (metric, minutes)| {
            out.byte(metric.code());
            put_cells(out, minutes);
        });
        out.list(self.sums.iter(), |out, sums| {
            out.integers(sums.busy_range.iter().map(|(least, _)| i64::from(*least)));
            out.integers(sums.busy_range.iter().map(|(_, most)| i64::from(*most)));
            out.list(sums.counters.iter(), |out, (metric, minutes)| {
                out.byte(metric.code());
                out.integers(minutes.iter().map(|growth| growth.delta));
                out.integers(minutes.iter().map(|growth| growth.covered_ms));
            });
            out.list(sums.reasons.iter(), put_reasons);
            out.list(sums.gaps.iter(), |out, gap| {
                out.byte(gap.minute);
                out.byte(gap.cause as u8);
                out.int(gap.ms);
            });
        });
        out.list(self.stretches.iter(), |out, stretches| stretch::put(out, stretches));
        out.finish()
    }

    /// Reads the packed form, of this version or an older one.
    ///
    /// # Errors
    /// [`RecordError`] for bytes that no version of [`Self::pack`] wrote.
    pub fn unpack(bytes: &[u8]) -> Result<Self, RecordError> {
        let (mut input, version) = Unpacker::new(bytes, VERSION_1..=VERSION)?;
        if version == VERSION_1 {
            return unpack_first(input);
        }
        let (busy, measured) = (input.integers(MINUTES)?, input.integers(MINUTES)?);
        let mut profile = Self {
            utilization: busy.into_iter().zip(measured).collect(),
            metrics: Vec::new(),
            sums: None,
            stretches: None,
        };
        for _ in 0..input.count(Metric::ALL.len())? {
            profile.metrics.push((metric(&mut input)?, take_cells(&mut input)?));
        }
        for _ in 0..input.count(1)? {
            profile.sums = Some(take_sums(&mut input)?);
        }
        let parts = if version == VERSION_2 { 0 } else { input.count(1)? };
        for _ in 0..parts {
            profile.stretches = Some(stretch::take(&mut input)?);
        }
        input.finish()?;
        Ok(profile)
    }
}

fn put_cells(out: &mut Packer, minutes: &[Option<ProfileCell>]) {
    out.integers(minutes.iter().map(|cell| i64::from(cell.is_some())));
    let cells = || minutes.iter().flatten();
    out.integers(cells().map(|cell| cell.mean));
    out.integers(cells().map(|cell| cell.mean.wrapping_sub(cell.min)));
    out.integers(cells().map(|cell| cell.max.wrapping_sub(cell.mean)));
}

fn take_cells(input: &mut Unpacker<'_>) -> Result<Vec<Option<ProfileCell>>, RecordError> {
    let present = input.integers(MINUTES)?;
    let count = present.iter().filter(|is| **is == 1).count();
    let (mean, below, above) =
        (input.integers(count)?, input.integers(count)?, input.integers(count)?);
    let mut cells = mean.into_iter().zip(below).zip(above).map(|((mean, below), above)| {
        let (min, max) = (mean.wrapping_sub(below), mean.wrapping_add(above));
        ProfileCell { min, mean, max }
    });
    present
        .into_iter()
        .map(|is| match is {
            0 => Ok(None),
            1 => Ok(cells.next()),
            _ => Err(RecordError),
        })
        .collect()
}

fn put_reasons(out: &mut Packer, reasons: &ReasonMinutes) {
    out.integers(reasons.known_ms.iter().copied());
    out.list(reasons.bits.iter(), |out, (bit, minutes)| {
        out.byte(*bit);
        out.integers(minutes.iter().copied());
    });
}

fn take_sums(input: &mut Unpacker<'_>) -> Result<MinuteSums, RecordError> {
    let percent = |value: i64| u8::try_from(value).map_err(|_| RecordError);
    let (least, most) = (input.integers(MINUTES)?, input.integers(MINUTES)?);
    let range = least.into_iter().zip(most);
    let range = range.map(|(least, most)| Ok((percent(least)?, percent(most)?)));
    let busy_range = range.collect::<Result<_, RecordError>>()?;
    let mut sums = MinuteSums { busy_range, ..MinuteSums::default() };
    for _ in 0..input.count(Metric::ALL.len())? {
        let metric = metric(input)?;
        let (growth, covered) = (input.integers(MINUTES)?, input.integers(MINUTES)?);
        let minutes = growth.into_iter().zip(covered);
        let minutes = minutes.map(|(delta, covered_ms)| CounterDelta { delta, covered_ms });
        sums.counters.push((metric, minutes.collect()));
    }
    for _ in 0..input.count(1)? {
        let known_ms = input.integers(MINUTES)?;
        let mut bits = Vec::new();
        for _ in 0..input.count(63)? {
            bits.push((input.byte()?, input.integers(MINUTES)?));
        }
        sums.reasons = Some(ReasonMinutes { known_ms, bits });
    }
    for _ in 0..input.count(MINUTES * GapCause::COUNT)? {
        let minute = input.byte()?;
        let cause = *GapCause::ALL.get(usize::from(input.byte()?)).ok_or(RecordError)?;
        sums.gaps.push(MinuteGap { minute, cause, ms: input.int()? });
    }
    let are_minutes = sums.gaps.iter().all(|gap| usize::from(gap.minute) < MINUTES);
    are_minutes.then_some(sums).ok_or(RecordError)
}

fn metric(input: &mut Unpacker<'_>) -> Result<Metric, RecordError> {
    Metric::from_code(input.byte()?).ok_or(RecordError)
}

fn unpack_first(mut input: Unpacker<'_>) -> Result<HourProfile, RecordError> {
    let mut utilization = Vec::with_capacity(MINUTES);
    for _ in 0..exactly_an_hour(&mut input)? {
        utilization.push((input.int()?, input.int()?));
    }
    let mut metrics = Vec::new();
    for _ in 0..input.count(Metric::ALL.len())? {
        let metric = metric(&mut input)?;
        let mut minutes = Vec::with_capacity(MINUTES);
        for _ in 0..exactly_an_hour(&mut input)? {
            minutes.push(first_cell(&mut input)?);
        }
        metrics.push((metric, minutes));
    }
    input.finish()?;
    Ok(HourProfile { utilization, metrics, sums: None, stretches: None })
}

fn exactly_an_hour(input: &mut Unpacker<'_>) -> Result<usize, RecordError> {
    input.count(MINUTES).and_then(|n| if n == MINUTES { Ok(n) } else { Err(RecordError) })
}

fn first_cell(input: &mut Unpacker<'_>) -> Result<Option<ProfileCell>, RecordError> {
    let Some(mean) = input.optional()? else { return Ok(None) };
    let min = mean.checked_sub(input.int()?).ok_or(RecordError)?;
    let max = mean.checked_add(input.int()?).ok_or(RecordError)?;
    Ok(Some(ProfileCell { min, mean, max }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::HourStretch;
    use super::*;

    fn profile() -> HourProfile {
        let mut minutes = vec![None; MINUTES];
        minutes[7] = Some(ProfileCell { min: 100, mean: 250, max: 700_000 });
        let mut growth = vec![CounterDelta::default(); MINUTES];
        growth[59] = CounterDelta { delta: 41_999_999, covered_ms: 60_000 };
        HourProfile {
            utilization: vec![(3_000_000, 60_000); MINUTES],
            metrics: vec![(Metric::PowerDraw, minutes)],
            sums: Some(MinuteSums {
                busy_range: vec![(50, 100); MINUTES],
                counters: vec![(Metric::Energy, growth)],
                reasons: Some(ReasonMinutes {
                    known_ms: vec![60_000; MINUTES],
                    bits: vec![(2, vec![31; MINUTES]), (62, vec![0; MINUTES])],
                }),
                gaps: vec![MinuteGap { minute: 59, cause: GapCause::GpuLost, ms: 12 }],
            }),
            stretches: Some(vec![
                HourStretch { start_ms: 7, end_ms: 3_540_000, gap: None },
                HourStretch {
                    start_ms: 3_540_000,
                    end_ms: 3_540_012,
                    gap: Some(GapCause::GpuLost),
                },
                HourStretch { start_ms: 3_550_000, end_ms: 3_600_000, gap: None },
            ]),
        }
    }

    #[test]
    fn the_packed_form_round_trips() {
        let without = HourProfile { sums: None, stretches: None, ..profile() };
        for profile in [profile(), HourProfile::empty(), without] {
            assert_eq!(HourProfile::unpack(&profile.pack()), Ok(profile));
        }
    }

    #[test]
    fn damaged_bytes_are_refused_without_a_panic() {
        let bytes = profile().pack();
        for end in 0..bytes.len() {
            assert_eq!(HourProfile::unpack(&bytes[..end]), Err(RecordError), "cut at {end}");
        }
        assert_eq!(HourProfile::unpack(&[bytes.as_slice(), &[0]].concat()), Err(RecordError));
    }

    /// What the first version wrote: the same minutes as variable-length integers.
    fn first_version(profile: &HourProfile) -> Vec<u8> {
        let mut out = Packer::new(VERSION_1);
        out.list(profile.utilization.iter(), |out, (busy, measured)| {
            out.int(*busy);
            out.int(*measured);
        });
        out.list(profile.metrics.iter(), |out, (metric, minutes)| {
            out.byte(metric.code());
            out.list(minutes.iter(), |out, cell| {
                out.optional(cell.map(|cell| cell.mean));
                if let Some(cell) = cell {
                    out.int(cell.mean - cell.min);
                    out.int(cell.max - cell.mean);
                }
            });
        });
        out.finish()
    }

    #[test]
    fn the_first_version_is_read_and_says_nothing_of_what_it_did_not_keep() {
        let expected = HourProfile { sums: None, stretches: None, ..profile() };
        let bytes = first_version(&expected);
        assert_eq!(bytes.first(), Some(&1));
        assert_eq!(HourProfile::unpack(&bytes), Ok(expected));
        assert_eq!(HourProfile::unpack(&bytes[1..]), Err(RecordError));
    }

    #[test]
    fn the_second_version_is_read_and_has_minutes_for_its_grain() {
        let expected = HourProfile { stretches: None, ..profile() };
        let mut bytes = expected.pack();
        // Version 3 without stretches is version 2 and a zero behind it.
        assert_eq!(bytes.pop(), Some(0));
        bytes[0] = VERSION_2;
        assert_eq!(HourProfile::unpack(&bytes), Ok(expected));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), version in 0_u8..5) {
            let _ = HourProfile::unpack(&[&[version], bytes.as_slice()].concat());
        }
    }
}
