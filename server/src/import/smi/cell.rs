//! Cells: numbers with or without their unit, words for "no value", local times.

use leasewatch_core::sample::Reading;
use leasewatch_core::time::{DAY_MS, HOUR_MS, Timestamp, Zone};

/// A number in thousandths of the cell's unit times `scale / 1000`, or why there is none. `scale`
/// is base units per cell unit (W to mW: 1000). `None` for anything else.
pub(super) fn number(cell: &str, scale: i64) -> Option<Reading> {
    let word = cell.trim_matches(['[', ']']).trim();
    match word {
        "N/A" | "Not Supported" => return Some(Reading::Unsupported),
        "Unknown Error" | "GPU requires reset" | "ERR!" => return Some(Reading::Error),
        _ => {}
    }
    if let Some(bits) = word.strip_prefix("0x") {
        return i64::from_str_radix(bits, 16).ok().map(Reading::Number);
    }
    let digits = word.strip_prefix('P').unwrap_or(word);
    let digits = digits.split_whitespace().next()?.trim_end_matches('%');
    decimal(digits, scale).map(Reading::Number)
}

/// `11.64` with scale 1000 is 11640; digits beyond the scale are rounded half to even by the
/// resolution step that follows, so they are cut here only below a thousandth of it.
fn decimal(text: &str, scale: i64) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let plain = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || fraction.len() > 9 {
        return None;
    }
    let denominator = 10_i64.pow(u32::try_from(fraction.len()).ok()?);
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<i64>().ok()? };
    let part = i128::from(fraction) * i128::from(scale) / i128::from(denominator);
    whole.parse::<i64>().ok()?.checked_mul(scale)?.checked_add(i64::try_from(part).ok()?)
}

/// `YYYY/MM/DD hh:mm:ss[.mmm]`, also with dashes, on a clock of `zone`.
pub(super) fn time(cell: &str, zone: Zone) -> Option<Timestamp> {
    let iso = cell.replacen(['/', '-'], "-", 2).replacen(' ', "T", 1);
    let as_utc = Timestamp::parse_iso(&format!("{iso}Z"))?;
    let in_range =
        Timestamp::MIN.plus_ms(DAY_MS) < as_utc && as_utc < Timestamp::MAX.plus_ms(-DAY_MS);
    zone.instant_of_local_ms(as_utc.0)
        .filter(|at| in_range && at.since(as_utc).abs() <= 26 * HOUR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_and_without() {
        assert_eq!(number("11.64 W", 1_000), Some(Reading::Number(11_640)));
        assert_eq!(number("27", 1), Some(Reading::Number(27)));
        assert_eq!(number("0 %", 1), Some(Reading::Number(0)));
        assert_eq!(number("0x0000000000000004", 1), Some(Reading::Number(4)));
        assert_eq!(number("P2", 1), Some(Reading::Number(2)));
        assert_eq!(number("[N/A]", 1), Some(Reading::Unsupported));
        assert_eq!(number("[GPU requires reset]", 1), Some(Reading::Error));
        for cell in ["", "-1", "1e9", "NaN", "1,5", "99999999999999999999", "0xzz", "twelve"] {
            assert_eq!(number(cell, 1_000), None, "{cell}");
        }
    }

    #[test]
    fn times_with_slashes_and_dashes() {
        let at = |cell| time(cell, Zone::UTC).map(|at| at.to_string());
        assert_eq!(at("2026/08/01 03:59:40.361"), Some("2026-08-01T03:59:40.361Z".to_owned()));
        assert_eq!(at("2026-08-01 03:59:40"), Some("2026-08-01T03:59:40.000Z".to_owned()));
        assert_eq!(at("03:59:40"), None);
    }
}
