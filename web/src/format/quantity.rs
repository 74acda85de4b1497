//! A value with its unit, already rounded to the digits that it is shown with.

use leasewatch_core::metering::divide_half_even;
use serde::{Serialize, Serializer};

use crate::i18n::{Language, Text};

/// Thin and non-breaking, between a number and its unit.
const SPACE: char = '\u{202f}';

/// A number with a unit, ready to be shown in a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity(Shape);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `scaled` is the value times 10^`digits`.
    Decimal { scaled: i64, digits: u32, unit: Unit },
    /// A stretch of time, shown in its two largest units.
    Duration { ms: i64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Percent,
    Watt,
    KilowattHour,
    Gibibyte,
    Mebibyte,
    Celsius,
    Megahertz,
    Millisecond,
    GpuHour,
    KibibytePerSecond,
    MebibytePerSecond,
    GibibytePerSecond,
    PerSecond,
    None,
}

impl Quantity {
    /// Per mille as a percentage with one digit: `97.3 %`.
    #[must_use]
    pub fn permille(permille: i64) -> Self {
        Self::decimal(permille, 1, Unit::Percent)
    }

    /// Per mille as a whole percentage, for axes: `97 %`.
    #[must_use]
    pub fn whole_permille(permille: i64) -> Self {
        Self::decimal(div_half_even(permille.into(), 10), 0, Unit::Percent)
    }

    /// A transfer rate from kibibytes per second: `24.6 GiB/s`, `512 KiB/s`.
    #[must_use]
    pub fn rate_kib_s(kib_s: i64) -> Self {
        const MIB: i64 = 1_024;
        const GIB: i64 = 1_024 * MIB;
        let tenths = |unit: i64| div_half_even(i128::from(kib_s) * 10, unit.into());
        match kib_s.saturating_abs() {
            GIB.. => Self::decimal(tenths(GIB), 1, Unit::GibibytePerSecond),
            MIB.. => Self::decimal(tenths(MIB), 1, Unit::MebibytePerSecond),
            _ => Self::decimal(kib_s, 0, Unit::KibibytePerSecond),
        }
    }

    /// How often a second: `3 /s`.
    #[must_use]
    pub fn per_second(count: i64) -> Self {
        Self::decimal(count, 0, Unit::PerSecond)
    }

    /// A whole percentage as NVML reports it: `97 %`.
    #[must_use]
    pub fn percent(pct: i64) -> Self {
        Self::decimal(pct, 0, Unit::Percent)
    }

    /// Millionths as a percentage with as many digits as it has, up to four: `99.95 %`, `98.4722 %`.
    #[must_use]
    pub fn ppm(ppm: i64) -> Self {
        let (mut scaled, mut digits) = (ppm, 4);
        while digits > 0 && scaled % 10 == 0 {
            (scaled, digits) = (scaled / 10, digits - 1);
        }
        Self::decimal(scaled, digits, Unit::Percent)
    }

    /// A share with one digit: `97.3 %`. `None` when `whole` is not positive.
    #[must_use]
    pub fn share(part: i64, whole: i64) -> Option<Self> {
        (whole > 0).then(|| {
            let scaled = div_half_even(i128::from(part) * 1_000, i128::from(whole));
            Self::decimal(scaled, 1, Unit::Percent)
        })
    }

    /// The same, but a part that is neither nothing nor the whole is shown as neither.
    #[must_use]
    pub fn open_share(part: i64, whole: i64) -> Option<Self> {
        let rounded = div_half_even(i128::from(part) * 1_000, i128::from(whole.max(1)));
        let scaled = if 0 < part && part < whole { rounded.clamp(1, 999) } else { rounded };
        (whole > 0).then(|| Self::decimal(scaled, 1, Unit::Percent))
    }

    /// Power from milliwatts: `11.6 W`.
    #[must_use]
    pub fn power_mw(mw: i64) -> Self {
        Self::decimal(div_half_even(mw.into(), 100), 1, Unit::Watt)
    }

    /// Power from milliwatts in whole watts, for limits and sums: `700 W`.
    #[must_use]
    pub fn whole_power_mw(mw: i64) -> Self {
        Self::decimal(div_half_even(mw.into(), 1_000), 0, Unit::Watt)
    }

    /// Energy from millijoules: `12.4 kWh`.
    #[must_use]
    pub fn energy_mj(mj: i64) -> Self {
        Self::decimal(div_half_even(i128::from(mj) * 10, 3_600_000_000), 1, Unit::KilowattHour)
    }

    /// Memory from mebibytes: `80.0 GiB`, below one gibibyte `512 MiB`.
    #[must_use]
    pub fn memory_mib(mib: i64) -> Self {
        if mib.unsigned_abs() < 1_024 {
            Self::decimal(mib, 0, Unit::Mebibyte)
        } else {
            Self::decimal(div_half_even(i128::from(mib) * 10, 1_024), 1, Unit::Gibibyte)
        }
    }

    /// A temperature: `41 °C`.
    #[must_use]
    pub fn temperature_c(celsius: i64) -> Self {
        Self::decimal(celsius, 0, Unit::Celsius)
    }

    /// A clock: `1,234 MHz`.
    #[must_use]
    pub fn clock_mhz(mhz: i64) -> Self {
        Self::decimal(mhz, 0, Unit::Megahertz)
    }

    /// GPU-hours from milliseconds of GPU time: `191.4 GPU h`.
    #[must_use]
    pub fn gpu_hours_ms(ms: i64) -> Self {
        Self::decimal(div_half_even(i128::from(ms) * 10, 3_600_000), 1, Unit::GpuHour)
    }

    /// A stretch of time in its two largest units: `53 min 54 s`, `2 d 4 h`, `820 ms`.
    #[must_use]
    pub fn duration_ms(ms: i64) -> Self {
        Self(Shape::Duration { ms })
    }

    /// Microseconds in milliseconds with one digit, for clock offsets: `-0.4 ms`.
    #[must_use]
    pub fn offset_us(us: i64) -> Self {
        Self::decimal(div_half_even(us.into(), 100), 1, Unit::Millisecond)
    }

    /// A number with one digit, without unit: `3.8`.
    #[must_use]
    pub fn tenths(tenths: i64) -> Self {
        Self::decimal(tenths, 1, Unit::None)
    }

    /// A number of things, without unit: `1,234`.
    #[must_use]
    pub fn count(count: i64) -> Self {
        Self::decimal(count, 0, Unit::None)
    }

    /// The number and its unit as text in `language`.
    #[must_use]
    pub fn text(self, language: Language) -> String {
        match self.0 {
            Shape::Duration { ms } => duration(ms, language),
            Shape::Decimal { scaled, digits, unit } => {
                let symbol = unit.symbol(language);
                let number = decimal(scaled, digits);
                if symbol.is_empty() { number } else { format!("{number}{SPACE}{symbol}") }
            }
        }
    }

    fn decimal(scaled: i64, digits: u32, unit: Unit) -> Self {
        Self(Shape::Decimal { scaled, digits, unit })
    }
}

impl Serialize for Quantity {
    /// As English text; raw integers with their unit in the name stand beside it in every view.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text(Language::En))
    }
}

impl Unit {
    fn symbol(self, language: Language) -> &'static str {
        match self {
            Self::Percent => "%",
            Self::Watt => "W",
            Self::KilowattHour => "kWh",
            Self::Gibibyte => "GiB",
            Self::Mebibyte => "MiB",
            Self::Celsius => "°C",
            Self::Megahertz => "MHz",
            Self::Millisecond => "ms",
            Self::GpuHour => Text::UnitGpuHours.words(language),
            Self::KibibytePerSecond => "KiB/s",
            Self::MebibytePerSecond => "MiB/s",
            Self::GibibytePerSecond => "GiB/s",
            Self::PerSecond => "/s",
            Self::None => "",
        }
    }
}

/// `numerator / denominator` rounded half to even, clamped to the range of `i64`.
/// A denominator that is not positive gives 0.
#[must_use]
pub fn div_half_even(numerator: i128, denominator: i128) -> i64 {
    if denominator <= 0 {
        return 0;
    }
    let rounded = divide_half_even(numerator, denominator);
    let limit = if numerator < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(rounded).unwrap_or(limit)
}

/// Digits in groups of three: `1,234`.
#[must_use]
pub fn group(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn decimal(scaled: i64, digits: u32) -> String {
    let sign = if scaled < 0 { "-" } else { "" };
    let magnitude = scaled.unsigned_abs();
    let Some(scale) = 10_u64.checked_pow(digits).filter(|_| digits > 0) else {
        return format!("{sign}{}", group(magnitude));
    };
    let width = usize::try_from(digits).unwrap_or(0);
    format!("{sign}{}.{:0width$}", group(magnitude / scale), magnitude % scale)
}

/// Largest unit first, with its length in milliseconds.
const STEPS: [(i64, Text); 5] = [
    (86_400_000, Text::UnitDays),
    (3_600_000, Text::UnitHours),
    (60_000, Text::UnitMinutes),
    (1_000, Text::UnitSeconds),
    (1, Text::UnitMilliseconds),
];

/// Two units at most; the smaller one is rounded. Below a second it is milliseconds; above, the
/// smallest unit is the second.
fn duration(ms: i64, language: Language) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    let magnitude = i64::try_from(ms.unsigned_abs()).unwrap_or(i64::MAX);
    if magnitude < 1_000 {
        return format!("{sign}{magnitude}{SPACE}{}", Text::UnitMilliseconds.words(language));
    }
    let fine = if magnitude >= 86_400_000 {
        3_600_000
    } else if magnitude >= 3_600_000 {
        60_000
    } else {
        1_000
    };
    let mut rest = div_half_even(magnitude.into(), fine.into()).saturating_mul(fine);
    let mut parts = Vec::new();
    for (length, name) in STEPS {
        let count = rest / length;
        rest %= length;
        if count > 0 {
            let count = group(count.unsigned_abs());
            parts.push(format!("{count}{SPACE}{}", name.words(language)));
        }
    }
    format!("{sign}{}", parts.join("\u{a0}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn en(quantity: Quantity) -> String {
        quantity.text(Language::En).replace([SPACE, '\u{a0}'], " ")
    }

    #[test]
    fn examples_of_each_unit() {
        assert_eq!(en(Quantity::power_mw(11_600)), "11.6 W");
        assert_eq!(en(Quantity::whole_power_mw(700_000)), "700 W");
        assert_eq!(en(Quantity::memory_mib(81_920)), "80.0 GiB");
        assert_eq!(en(Quantity::memory_mib(512)), "512 MiB");
        assert_eq!(en(Quantity::clock_mhz(1_234)), "1,234 MHz");
        assert_eq!(en(Quantity::temperature_c(-5)), "-5 °C");
        assert_eq!(en(Quantity::offset_us(-420)), "-0.4 ms");
        assert_eq!(en(Quantity::gpu_hours_ms(3_600_000 * 1_536)), "1,536.0 GPU h");
        assert_eq!(en(Quantity::energy_mj(3_600_000_000)), "1.0 kWh");
        assert_eq!(en(Quantity::count(1_234_567)), "1,234,567");
        assert_eq!(en(Quantity::permille(973)), "97.3 %");
        assert_eq!(en(Quantity::whole_permille(500)), "50 %");
        assert_eq!(en(Quantity::rate_kib_s(512)), "512 KiB/s");
        assert_eq!(en(Quantity::rate_kib_s(3 * 1_024 + 512)), "3.5 MiB/s");
        assert_eq!(en(Quantity::rate_kib_s(25 * 1_024 * 1_024)), "25.0 GiB/s");
        assert_eq!(en(Quantity::per_second(3)), "3 /s");
        assert_eq!(Quantity::gpu_hours_ms(5_400_000).text(Language::ZhCn), "1.5\u{202f}卡时");
    }

    #[test]
    fn halves_go_to_the_even_neighbour() {
        assert_eq!(en(Quantity::power_mw(11_650)), "11.6 W");
        assert_eq!(en(Quantity::power_mw(11_750)), "11.8 W");
        assert_eq!(Quantity::share(1, 0), None);
        assert_eq!(Quantity::share(9_725, 10_000).map(en).as_deref(), Some("97.2 %"));
        assert_eq!(Quantity::share(9_735, 10_000).map(en).as_deref(), Some("97.4 %"));
        assert_eq!(Quantity::share(1, 1).map(en).as_deref(), Some("100.0 %"));
    }

    #[test]
    fn durations_in_two_units() {
        let text = |ms| en(Quantity::duration_ms(ms));
        assert_eq!(text(0), "0 ms");
        assert_eq!(text(820), "820 ms");
        assert_eq!(text(3_234_000), "53 min 54 s");
        assert_eq!(text(3_600_000), "1 h");
        assert_eq!(text(3_599_999), "1 h");
        assert_eq!(text(7_530_000), "2 h 6 min");
        assert_eq!(text(-61_000), "-1 min 1 s");
        assert_eq!(text(86_400_000 * 1_200), "1,200 d");
        assert_eq!(
            Quantity::duration_ms(3_234_000).text(Language::ZhCn),
            "53\u{202f}分\u{a0}54\u{202f}秒"
        );
    }

    proptest! {
        #[test]
        fn rounding_is_never_off_by_more_than_half(n in any::<i64>(), d in 1_i64..1_000_000) {
            let q = i128::from(div_half_even(n.into(), d.into()));
            prop_assert!((q * i128::from(d) - i128::from(n)).abs() * 2 <= i128::from(d));
        }

        #[test]
        fn any_number_can_be_shown(n in any::<i64>()) {
            for quantity in [Quantity::power_mw(n), Quantity::memory_mib(n), Quantity::duration_ms(n)] {
                prop_assert!(!quantity.text(Language::ZhCn).is_empty());
            }
        }
    }
}
