//! Cells: numbers with or without their unit, and the words for "no value".

use leasewatch_core::sample::Reading;

/// What a cell counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Percent,
    /// To MiB.
    Memory,
    /// To milliwatts.
    Power,
    Celsius,
    Megahertz,
    /// To nanoseconds.
    Duration,
    Count,
    Bits,
    /// `P0` to `P15`.
    PerformanceState,
    /// `Yes` or `No`, `Enabled` or `Disabled`.
    Flag,
    /// What the driver asks for after an error, by NVML's codes.
    RecoveryAction,
}

/// What a cell says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) reading: Reading,
    /// It says that the GPU needs a reset.
    pub(super) needs_reset: bool,
}

const UNSUPPORTED: [&str; 6] = [
    "n/a",
    "not supported",
    "not available",
    "not found",
    "insufficient permissions",
    "requested functionality has been deprecated",
];
const ERROR: [&str; 3] = ["unknown error", "err!", "error"];
const FAULT: [&str; 3] = ["gpu requires reset", "requires reset", "gpu is lost"];

/// The reading in a cell; `None` for anything that is not one.
pub(super) fn read(cell: &str, measure: Measure) -> Option<Cell> {
    let word = cell.trim().trim_matches(['[', ']']).trim();
    let is = |words: &[&str]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
    let plain = |reading| Some(Cell { reading, needs_reset: false });
    if is(&UNSUPPORTED) {
        plain(Reading::Unsupported)
    } else if is(&ERROR) {
        plain(Reading::Error)
    } else if is(&FAULT) {
        Some(Cell { reading: Reading::Error, needs_reset: true })
    } else {
        plain(Reading::Number(number(word, measure)?))
    }
}

/// True for a cell that says that there is no value.
pub(super) fn says_nothing(cell: &str) -> bool {
    cell.is_empty()
        || read(cell, Measure::Count).is_some_and(|cell| cell.reading.number().is_none())
}

fn number(word: &str, measure: Measure) -> Option<i64> {
    let choice = |words: &[(&str, i64)]| {
        words.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, code)| *code)
    };
    match measure {
        Measure::Flag => {
            choice(&[("yes", 1), ("no", 0), ("enabled", 1), ("disabled", 0), ("1", 1), ("0", 0)])
        }
        Measure::RecoveryAction => choice(&[
            ("none", 0),
            ("reset", 1),
            ("gpu reset", 1),
            ("reboot", 2),
            ("node reboot", 2),
            ("drain p2p", 3),
            ("drain and reset", 4),
        ]),
        Measure::PerformanceState => decimal(word.strip_prefix('P').unwrap_or(word), 1, 1),
        Measure::Bits => match word.strip_prefix("0x") {
            Some(bits) => {
                u64::from_str_radix(bits, 16).ok().and_then(|bits| i64::try_from(bits).ok())
            }
            None => decimal(word, 1, 1),
        },
        _ => {
            let (digits, unit) = split_unit(word);
            let (times, over) = scale(measure, unit)?;
            decimal(digits, times, over)
        }
    }
}

fn split_unit(word: &str) -> (&str, &str) {
    let end = word.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',' | '-'));
    let (digits, unit) = word.split_at(end.unwrap_or(word.len()));
    (digits, unit.trim())
}

/// Base units in one of `unit`, as a fraction. A cell without a unit is in the usual one.
fn scale(measure: Measure, unit: &str) -> Option<(i64, i64)> {
    let times = match (measure, unit) {
        (Measure::Percent, "" | "%") | (Measure::Count, "") => (1, 1),
        // Old drivers write MB and mean MiB.
        (Measure::Memory, "" | "MiB" | "MB") => (1, 1),
        (Measure::Memory, "GiB") => (1_024, 1),
        (Measure::Memory, "KiB") => (1, 1_024),
        (Measure::Memory, "B") => (1, 1_024 * 1_024),
        (Measure::Power, "" | "W") => (1_000, 1),
        (Measure::Power, "mW") => (1, 1),
        (Measure::Celsius, "" | "C" | "°C") => (1, 1),
        (Measure::Megahertz, "" | "MHz") => (1, 1),
        (Measure::Duration, "" | "us") => (1_000, 1),
        (Measure::Duration, "ns") => (1, 1),
        (Measure::Duration, "ms") => (1_000_000, 1),
        _ => return None,
    };
    Some(times)
}

/// `11.64` times 1000 is 11640. What is left below one base unit is rounded half up: the base
/// units are finer than what is recorded, bytes excepted.
fn decimal(text: &str, times: i64, over: i64) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let plain = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    let too_long = whole.len() > 18 || fraction.len() > 9;
    if whole.is_empty()
        || too_long
        || !plain(whole)
        || !plain(fraction)
        || text.ends_with(['.', ','])
    {
        return None;
    }
    let denominator =
        i128::from(10_i64.pow(u32::try_from(fraction.len()).ok()?)) * i128::from(over);
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = (digits * i128::from(times) * 2 + denominator).div_euclid(denominator * 2);
    i64::try_from(scaled).ok().map(|value| value * sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(cell: &str, measure: Measure) -> Option<i64> {
        read(cell, measure).and_then(|cell| cell.reading.number())
    }

    #[test]
    fn numbers_with_units_and_without() {
        assert_eq!(value("11.64 W", Measure::Power), Some(11_640));
        assert_eq!(value("11,64", Measure::Power), Some(11_640));
        assert_eq!(value("27", Measure::Celsius), Some(27));
        assert_eq!(value("-5 C", Measure::Celsius), Some(-5));
        assert_eq!(value("0 %", Measure::Percent), Some(0));
        assert_eq!(value("2 GiB", Measure::Memory), Some(2_048));
        assert_eq!(value("267517952 B", Measure::Memory), Some(255));
        assert_eq!(value("200740215 us", Measure::Duration), Some(200_740_215_000));
        assert_eq!(value("0x0000000000000004", Measure::Bits), Some(4));
        assert_eq!(value("P2", Measure::PerformanceState), Some(2));
        assert_eq!(value("No", Measure::Flag), Some(0));
        for cell in
            ["", "1e9", "NaN", "1.5.2", "5.", "99999999999999999999", "0xzz", "twelve", "5 W"]
        {
            assert_eq!(read(cell, Measure::Memory), None, "{cell}");
        }
    }

    #[test]
    fn words_say_why_there_is_no_number() {
        let reading = |word| read(word, Measure::Percent).map(|cell| cell.reading);
        for word in
            ["[N/A]", "N/A", "[Not Supported]", "[Requested functionality has been deprecated]"]
        {
            assert_eq!(reading(word), Some(Reading::Unsupported), "{word}");
        }
        for word in ["[Unknown Error]", "ERR!", "[GPU requires reset]"] {
            assert_eq!(reading(word), Some(Reading::Error), "{word}");
        }
        assert!(read("[GPU requires reset]", Measure::Celsius).unwrap().needs_reset);
        assert!(!read("[Unknown Error]", Measure::Celsius).unwrap().needs_reset);
        assert!(says_nothing("[N/A]") && says_nothing("") && !says_nothing("0"));
    }
}
