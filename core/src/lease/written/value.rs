//! Single values as they are written, with errors that say what was expected.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::availability::DownCause;
use crate::lease::{BillingUnit, FeeCycle, Label, LeaseKind, PriceUnit, SessionSource, ShareKind};
use crate::money::{Currency, Money};
use crate::time::{HOUR_MS, Timestamp, Zone};

/// Digits of a ratio after the point, and its parts.
const RATIO_SCALE: usize = 6;
const RATIO_PARTS: u32 = 1_000_000;

/// An instant as `2026-08-01T08:00:00Z` or with an offset, as `2026-08-01T16:00:00+08:00`, with or
/// without milliseconds, in the range that leasewatch accepts.
#[must_use]
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let at = match Timestamp::parse_iso(text) {
        Some(at) => at,
        None => {
            let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
            let number = |range: std::ops::Range<usize>| -> Option<i64> {
                let digits = offset.get(range)?;
                digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
            };
            let (hours, minutes) = (number(1..3)?, number(4..6)?);
            let is_offset = offset.as_bytes().get(3) == Some(&b':') && hours <= 14 && minutes <= 59;
            let ms = hours * HOUR_MS + minutes * 60_000;
            let ms = match offset.as_bytes().first() {
                Some(b'+') if is_offset => -ms,
                Some(b'-') if is_offset => ms,
                _ => return None,
            };
            Timestamp::parse_iso(&format!("{local}Z"))?.plus_ms(ms)
        }
    };
    (Timestamp::MIN..=Timestamp::MAX).contains(&at).then_some(at)
}

/// A ratio such as `0.13` in millionths; `None` for anything but a decimal number with at most six
/// digits after the point.
#[must_use]
pub fn parse_ratio_ppm(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > RATIO_SCALE {
        return None;
    }
    format!("{whole}{fraction:0<RATIO_SCALE$}").parse().ok()
}

/// A ratio as [`parse_ratio_ppm`] reads it, in its shortest form.
#[must_use]
pub fn ratio_text(ppm: u32) -> String {
    let text = format!("{}.{:0RATIO_SCALE$}", ppm / RATIO_PARTS, ppm % RATIO_PARTS);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What one reads as text and another checks.
fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(de::Error::custom)
}

fn time(text: &str) -> Result<Timestamp, String> {
    parse_time(text).ok_or_else(|| {
        "must be a time with its zone, as 2026-08-01T00:00:00Z or 2026-08-01T08:00:00+08:00"
            .to_owned()
    })
}

fn ratio_ppm(text: &str) -> Result<u32, String> {
    parse_ratio_ppm(text)
        .ok_or_else(|| "must be a ratio as \"0.13\", with at most 6 digits after it".to_owned())
}

/// What is read and printed as text.
pub(super) mod text {
    use super::{Deserializer, Display, FromStr, Serializer, read};

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in super::super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        read(deserializer, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }
}

pub(super) mod at {
    use super::{Deserializer, Serializer, Timestamp, read, time};

    pub(in super::super) fn serialize<S: Serializer>(
        at: &Timestamp,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(at)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Timestamp, D::Error> {
        read(deserializer, time)
    }
}

pub(super) mod maybe_at {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp, de, time};

    pub(in super::super) fn serialize<S: Serializer>(
        at: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        at.map(|at| at.to_string()).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| time(&text)).transpose().map_err(de::Error::custom)
    }
}

pub(super) mod ratio {
    use super::{Deserializer, Serializer, ratio_ppm, ratio_text, read};

    pub(in super::super) fn serialize<S: Serializer>(
        ppm: &u32,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&ratio_text(*ppm))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u32, D::Error> {
        read(deserializer, ratio_ppm)
    }
}

pub(super) mod maybe_ratio {
    use super::{Deserialize, Deserializer, Serialize, Serializer, de, ratio_ppm, ratio_text};

    pub(in super::super) fn serialize<S: Serializer>(
        ppm: &Option<u32>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        ppm.map(ratio_text).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u32>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| ratio_ppm(&text)).transpose().map_err(de::Error::custom)
    }
}

pub(super) mod zone {
    use super::{Deserializer, Serializer, Zone, read};

    pub(in super::super) fn serialize<S: Serializer>(
        zone: &Zone,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(zone.name())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Zone, D::Error> {
        read(deserializer, |text| Zone::parse(text).map_err(|error| error.to_string()))
    }
}

/// An amount without its currency, in 10^-9 units.
pub(super) mod amount {
    use super::{Currency, Deserializer, Money, Serializer, de, read};

    /// Which one does not matter for the digits.
    fn any<E: de::Error>() -> Result<Currency, E> {
        "XXX".parse().map_err(de::Error::custom)
    }

    pub(in super::super) fn serialize<S: Serializer>(
        nanos: &i128,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let currency = "XXX".parse().map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&Money { nanos: *nanos, currency }.amount_text())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<i128, D::Error> {
        let currency = any::<D::Error>()?;
        let parse = |text: &str| Money::parse(text, currency).map_err(|error| error.to_string());
        read(deserializer, parse).map(|money| money.nanos)
    }
}

impl Serialize for Label {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || "a label has 1 to 60 characters without control characters".to_owned();
        read(deserializer, |text| Self::new(text).ok_or_else(wrong))
    }
}

macro_rules! by_name {
    ($($type:ident,)+) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                read(deserializer, |text| {
                    Self::from_name(text).ok_or_else(|| {
                        let names: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                        format!("must be one of {}", names.join(", "))
                    })
                })
            }
        }
    )+};
}

by_name!(LeaseKind, ShareKind, PriceUnit, FeeCycle, BillingUnit, SessionSource, DownCause,);
