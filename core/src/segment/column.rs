//! One column: which ticks were read, what kind of reading each is, and the numbers.
//!
//! Numbers are divided by the metric's declared resolution before they are packed, and checked
//! against its range; the column's header byte says how the three parts are written.

use super::bits::{Packed, Reader, packed_len, put_packed};
use super::pack::{put_integers, read_integers};
use super::{DecodeError, EncodeError};
use crate::sample::{HostMetric, Metric, Reading};

/// What a column may hold, and the name for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) min: i64,
    pub(super) max: i64,
    pub(super) resolution: i64,
}

/// The rule of the values of a utilization track, in percent.
pub(super) const BUSY: Rule = Rule { name: "busy_pct", min: 0, max: 100, resolution: 1 };

/// A metric of the format.
pub(super) trait Recorded: Copy + Ord {
    fn rule(self) -> Rule;
    fn code(self) -> u8;
    fn from_code(code: u8) -> Option<Self>;
}

macro_rules! recorded {
    ($metric:ident) => {
        impl Recorded for $metric {
            fn rule(self) -> Rule {
                Rule {
                    name: self.name(),
                    min: self.lowest(),
                    max: self.highest(),
                    resolution: self.resolution(),
                }
            }

            fn code(self) -> u8 {
                $metric::code(self)
            }

            fn from_code(code: u8) -> Option<Self> {
                $metric::from_code(code)
            }
        }
    };
}

recorded!(Metric);
recorded!(HostMetric);

/// Presence: bits 0 and 1 of the header.
const EVERY_TICK: u8 = 0;
const LANE: u8 = 1;
const OWN_BITMAP: u8 = 2;

/// Status: bits 2 to 4. 0 = all numbers; 1 to 3 = all unsupported, error, stale; 4 = two bits each.
const ALL_NUMBERS: u8 = 0;
const MIXED: u8 = 4;

/// The columns of one block, read or written with buffers that are used again for each of them.
pub(super) struct Columns<'a> {
    /// The bitmap that columns of the slow lane share.
    lane: &'a [u8],
    numbers: Vec<i64>,
    statuses: Vec<u64>,
    bitmap: Vec<u8>,
}

impl<'a> Columns<'a> {
    /// `lane` is the bitmap of the block's first column with an absent reading, empty when there
    /// is none.
    pub(super) fn new(lane: &'a [u8]) -> Self {
        Self { lane, numbers: Vec::new(), statuses: Vec::new(), bitmap: Vec::new() }
    }

    /// Appends a column that has at least one reading.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        rule: Rule,
        readings: &[Option<Reading>],
    ) -> Result<(), EncodeError> {
        self.split(rule, readings)?;
        let header = out.len();
        out.push(0);
        let presence = self.write_presence(out, readings);
        let status = self.write_statuses(out);
        let packing = match self.numbers.is_empty() {
            true => 0,
            false => put_integers(out, &self.numbers),
        };
        out[header] = presence | status << 2 | packing << 5;
        Ok(())
    }

    /// Fills `numbers` and `statuses` from the readings that are there.
    fn split(&mut self, rule: Rule, readings: &[Option<Reading>]) -> Result<(), EncodeError> {
        self.numbers.clear();
        self.statuses.clear();
        for reading in readings.iter().flatten() {
            self.statuses.push(match reading {
                Reading::Number(value) => {
                    self.numbers.push(divided(rule, *value)?);
                    0
                }
                Reading::Unsupported => 1,
                Reading::Error => 2,
                Reading::Stale => 3,
            });
        }
        match self.statuses.is_empty() {
            true => Err(EncodeError::Column { metric: rule.name }),
            false => Ok(()),
        }
    }

    fn write_presence(&mut self, out: &mut Vec<u8>, readings: &[Option<Reading>]) -> u8 {
        if self.statuses.len() == readings.len() {
            return EVERY_TICK;
        }
        self.bitmap.clear();
        put_presence(&mut self.bitmap, readings);
        if self.bitmap == self.lane {
            return LANE;
        }
        out.extend_from_slice(&self.bitmap);
        OWN_BITMAP
    }

    fn write_statuses(&self, out: &mut Vec<u8>) -> u8 {
        if self.numbers.len() == self.statuses.len() {
            return ALL_NUMBERS;
        }
        let first = self.statuses.first().copied().unwrap_or(0);
        if self.statuses.iter().all(|status| *status == first) {
            return u8::try_from(first).unwrap_or(MIXED);
        }
        put_packed(out, 2, self.statuses.iter().copied());
        MIXED
    }

    /// Reads a column of `ticks` entries.
    pub(super) fn read(
        &mut self,
        reader: &mut Reader<'_>,
        rule: Rule,
        ticks: usize,
    ) -> Result<Vec<Option<Reading>>, DecodeError> {
        let header = reader.byte()?;
        let (presence, status, packing) = (header & 3, header >> 2 & 7, header >> 5);
        let bitmap = match presence {
            EVERY_TICK => None,
            LANE => Some(self.lane),
            OWN_BITMAP => Some(reader.take(packed_len(ticks, 1))?),
            _ => return Err(DecodeError::Code { what: "presence" }),
        };
        let count = bitmap.map_or(ticks, |bitmap| ones(bitmap).min(ticks));
        self.read_statuses(reader, status, count)?;
        let numbers = match status {
            ALL_NUMBERS => count,
            MIXED => self.statuses.iter().filter(|status| **status == 0).count(),
            _ => 0,
        };
        self.numbers.clear();
        if numbers > 0 {
            read_integers(reader, packing, numbers, &mut self.numbers)?;
        }
        self.join(rule, ticks, bitmap)
    }

    /// Fills `statuses`; leaves it empty when all are numbers, the common case.
    fn read_statuses(
        &mut self,
        reader: &mut Reader<'_>,
        status: u8,
        count: usize,
    ) -> Result<(), DecodeError> {
        self.statuses.clear();
        match status {
            ALL_NUMBERS => {}
            1..MIXED => self.statuses.resize(count, u64::from(status)),
            MIXED => {
                let mut packed = reader.packed(2, count)?;
                self.statuses.extend((0..count).map(|_| packed.next()));
            }
            _ => return Err(DecodeError::Code { what: "status" }),
        }
        Ok(())
    }

    /// Puts numbers, statuses and presence together.
    fn join(
        &self,
        rule: Rule,
        ticks: usize,
        bitmap: Option<&[u8]>,
    ) -> Result<Vec<Option<Reading>>, DecodeError> {
        let mut readings = Vec::with_capacity(ticks);
        if bitmap.is_none() && self.statuses.is_empty() {
            for value in &self.numbers {
                readings.push(Some(Reading::Number(multiplied(rule, *value)?)));
            }
            return Ok(readings);
        }
        let mut numbers = self.numbers.iter();
        let mut statuses = self.statuses.iter();
        let mut present = bitmap.map(|bitmap| Packed::new(bitmap, 1));
        for _ in 0..ticks {
            if present.as_mut().is_some_and(|present| present.next() == 0) {
                readings.push(None);
                continue;
            }
            readings.push(Some(match statuses.next() {
                None | Some(0) => {
                    let value = numbers.next().ok_or(DecodeError::NotCanonical)?;
                    Reading::Number(multiplied(rule, *value)?)
                }
                Some(1) => Reading::Unsupported,
                Some(2) => Reading::Error,
                Some(_) => Reading::Stale,
            }));
        }
        Ok(readings)
    }
}

/// Appends one bit per tick: 1 where there is a reading.
pub(super) fn put_presence(out: &mut Vec<u8>, readings: &[Option<Reading>]) {
    put_packed(out, 1, readings.iter().map(|reading| u64::from(reading.is_some())));
}

fn ones(bitmap: &[u8]) -> usize {
    bitmap.iter().map(|byte| usize::try_from(byte.count_ones()).unwrap_or(8)).sum()
}

fn divided(rule: Rule, value: i64) -> Result<i64, EncodeError> {
    let in_range = rule.min <= value && value <= rule.max;
    match rule.resolution {
        1 if in_range => Ok(value),
        step if in_range && value % step == 0 => Ok(value / step),
        _ => Err(EncodeError::Value { metric: rule.name, value }),
    }
}

fn multiplied(rule: Rule, value: i64) -> Result<i64, DecodeError> {
    let out_of_range = EncodeError::Value { metric: rule.name, value };
    value.checked_mul(rule.resolution).ok_or(DecodeError::Content(out_of_range))
}
