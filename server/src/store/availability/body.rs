//! The packed form of an hour's states. For rows that the server wrote itself.
//!
//! Each stretch is a flag byte, its distance from the end of the one before, its length, and what
//! the flags announce. Codes are written out here, not taken from the order of the enums: stored
//! rows outlive it.

use leasewatch_core::availability::{
    DownCause, EvidenceClass, ExclusionKind, Ground, Seen, State, StateStretch, UnknownCause,
};
use leasewatch_core::metering::GapCause;
use leasewatch_core::time::{HOUR_MS, Hour, Period, Timestamp};

use crate::store::StoreError;

const VERSION: u8 = 1;
const REACHABLE: u8 = 1;
const DISPUTED: u8 = 2;
const NOT_ENROLLED: u8 = 255;

const CLASSES: [(u8, EvidenceClass); 5] = [
    (1, EvidenceClass::E1),
    (2, EvidenceClass::E2),
    (3, EvidenceClass::E3),
    (4, EvidenceClass::E4),
    (5, EvidenceClass::E5),
];

const CAUSES: [(u8, DownCause); 9] = [
    (1, DownCause::Connectivity),
    (2, DownCause::Disk),
    (3, DownCause::Reboot),
    (4, DownCause::GpuLost),
    (5, DownCause::GpuReplaced),
    (6, DownCause::GpuCount),
    (7, DownCause::Hardware),
    (8, DownCause::Fabric),
    (9, DownCause::Throttle),
];

const EXCLUSIONS: [(u8, ExclusionKind); 4] = [
    (1, ExclusionKind::ProviderMaintenanceAnnounced),
    (2, ExclusionKind::TenantStopped),
    (3, ExclusionKind::TenantMaintenance),
    (4, ExclusionKind::Other),
];

pub(super) fn pack(hour: Hour, stretches: &[StateStretch]) -> Result<Vec<u8>, StoreError> {
    let mut out = vec![VERSION];
    let mut at = hour.start();
    for stretch in stretches {
        let Period { start, end } = stretch.period;
        let flags = u8::from(stretch.reachable) * REACHABLE + u8::from(stretch.disputed) * DISPUTED;
        out.push(flags);
        number(&mut out, start.since(at))?;
        number(&mut out, end.since(start))?;
        match stretch.state {
            State::Up => out.push(0),
            State::Down(ground) => {
                out.push(1);
                put_ground(&mut out, ground)?;
            }
            State::Unknown(cause) => out.extend([2, unknown_code(cause)]),
            State::Excluded(kind) => out.extend([3, code(&EXCLUSIONS, kind)?]),
        }
        match stretch.seen {
            Seen::Working => out.push(0),
            Seen::NodeOnly(cause) => out.extend([1, unknown_code(cause)]),
            Seen::Nothing(cause) => out.extend([2, unknown_code(cause)]),
        }
        out.push(u8::try_from(stretch.grounds.len()).map_err(|_| refused())?);
        for ground in &stretch.grounds {
            put_ground(&mut out, *ground)?;
        }
        at = end;
    }
    Ok(out)
}

/// `None` for bytes that [`pack`] did not write.
pub(super) fn unpack(hour: Hour, bytes: &[u8]) -> Option<Vec<StateStretch>> {
    let mut input = Input(bytes.strip_prefix(&[VERSION])?);
    let (mut out, mut at) = (Vec::new(), hour.start());
    while !input.0.is_empty() {
        let stretch = input.stretch(at)?;
        at = stretch.period.end;
        if at > hour.end() {
            return None;
        }
        out.push(stretch);
    }
    Some(out)
}

fn put_ground(out: &mut Vec<u8>, ground: Ground) -> Result<(), StoreError> {
    out.extend([code(&CLASSES, ground.class)?, code(&CAUSES, ground.cause)?]);
    Ok(())
}

fn code<T: Copy + PartialEq>(table: &[(u8, T)], value: T) -> Result<u8, StoreError> {
    table.iter().find(|(_, one)| *one == value).map(|(code, _)| *code).ok_or_else(refused)
}

fn value<T: Copy>(table: &[(u8, T)], code: u8) -> Option<T> {
    table.iter().find(|(one, _)| *one == code).map(|(_, value)| *value)
}

fn unknown_code(cause: UnknownCause) -> u8 {
    match cause {
        UnknownCause::NotEnrolled => NOT_ENROLLED,
        UnknownCause::Gap(gap) => gap as u8,
    }
}

fn unknown_cause(code: u8) -> Option<UnknownCause> {
    match code {
        NOT_ENROLLED => Some(UnknownCause::NotEnrolled),
        code => GapCause::ALL.get(usize::from(code)).map(|gap| UnknownCause::Gap(*gap)),
    }
}

fn refused() -> StoreError {
    StoreError::OutOfRange { what: "a stretch of contracted time" }
}

/// LEB128.
fn number(out: &mut Vec<u8>, ms: i64) -> Result<(), StoreError> {
    let mut rest = u32::try_from(ms).map_err(|_| refused())?;
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
    Ok(())
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<i64> {
        let mut value = 0_i64;
        for shift in (0..28).step_by(7) {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return (value <= HOUR_MS).then_some(value);
            }
        }
        None
    }

    fn ground(&mut self) -> Option<Ground> {
        let class = value(&CLASSES, self.byte()?)?;
        Some(Ground { class, cause: value(&CAUSES, self.byte()?)? })
    }

    fn stretch(&mut self, after: Timestamp) -> Option<StateStretch> {
        let flags = self.byte()?;
        let start = after.plus_ms(self.number()?);
        let period = Period::new(start, start.plus_ms(self.number()?));
        let state = match self.byte()? {
            0 => State::Up,
            1 => State::Down(self.ground()?),
            2 => State::Unknown(unknown_cause(self.byte()?)?),
            3 => State::Excluded(value(&EXCLUSIONS, self.byte()?)?),
            _ => return None,
        };
        let seen = match self.byte()? {
            0 => Seen::Working,
            1 => Seen::NodeOnly(unknown_cause(self.byte()?)?),
            2 => Seen::Nothing(unknown_cause(self.byte()?)?),
            _ => return None,
        };
        let grounds = (0..self.byte()?).map(|_| self.ground()).collect::<Option<Vec<_>>>()?;
        let (reachable, disputed) = (flags & REACHABLE != 0, flags & DISPUTED != 0);
        Some(StateStretch { period, state, seen, reachable, grounds, disputed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Hour = Hour(490_000);

    fn stretch(start: i64, end: i64, state: State, seen: Seen) -> StateStretch {
        let at = |ms| HOUR.start().plus_ms(ms);
        let grounds = match state {
            State::Down(ground) => vec![ground],
            _ => Vec::new(),
        };
        let period = Period::new(at(start), at(end));
        StateStretch { period, state, seen, reachable: start == 0, grounds, disputed: end == 9 }
    }

    #[test]
    fn every_state_comes_back_as_it_was() {
        let mut stretches = vec![stretch(0, 1, State::Up, Seen::Working)];
        let mut at = 1;
        let mut add = |state, seen| {
            stretches.push(stretch(at + 1, at + 5, state, seen));
            at += 5;
        };
        let causes = || GapCause::ALL.into_iter().map(UnknownCause::Gap);
        for cause in causes().chain([UnknownCause::NotEnrolled]) {
            add(State::Unknown(cause), Seen::Nothing(cause));
            add(State::Unknown(cause), Seen::NodeOnly(cause));
        }
        for kind in ExclusionKind::ALL {
            add(State::Excluded(*kind), Seen::Working);
        }
        for class in EvidenceClass::ALL {
            for cause in DownCause::ALL {
                let ground = Ground { class: *class, cause: *cause };
                add(State::Down(ground), Seen::Nothing(UnknownCause::NotEnrolled));
            }
        }
        stretches.push(stretch(1_000, 3_600_000, State::Up, Seen::Working));
        let bytes = pack(HOUR, &stretches).unwrap();
        assert_eq!(unpack(HOUR, &bytes), Some(stretches));
    }

    #[test]
    fn an_hour_that_was_up_takes_few_bytes_and_damage_is_refused() {
        let up = [stretch(0, 3_600_000, State::Up, Seen::Working)];
        let bytes = pack(HOUR, &up).unwrap();
        assert_eq!(bytes.len(), 10);
        assert!((1..bytes.len()).all(|end| end == 1 || unpack(HOUR, &bytes[..end]).is_none()));
        assert_eq!(unpack(HOUR, &[]), None);
        assert_eq!(unpack(HOUR, &[2]), None);
        let beyond = [bytes.as_slice(), &[0, 0, 1, 0, 0, 0]].concat();
        assert_eq!(unpack(HOUR, &beyond), None, "it ends after the hour");
    }
}
