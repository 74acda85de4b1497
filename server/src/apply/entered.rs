//! Terms of a lease from texts that people typed, into a form or a table.
//!
//! Fields have the names of the written form; what was left empty has its default. Everything that
//! is wrong is named by its field. Not here: words for people who do not read English, which are the
//! page's.

use std::collections::BTreeMap;
use std::str::FromStr;

use leasewatch_core::id::Slug;
use leasewatch_core::lease::written::{parse_ratio_ppm, parse_time};
use leasewatch_core::lease::{
    Billing, BillingUnit, Fee, FeeCycle, Label, LeaseKind, LeaseTerms, Minima, Price, PriceUnit,
    ProfileRef, Share, ShareKind,
};
use leasewatch_core::money::{Currency, Money};
use leasewatch_core::time::{Timestamp, Zone};

use super::Wrong;

const MISSING: &str = "is missing";

/// What was typed, by the name of its field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entered(pub BTreeMap<String, String>);

impl Entered {
    /// The text of a field without blanks around it; empty when nothing was typed.
    #[must_use]
    pub fn get(&self, field: &str) -> &str {
        self.0.get(field).map_or("", |text| text.trim())
    }
}

/// An instant as it is written, or a date with or without a time of day in `zone`: `2026-08-01`,
/// `2026-08-01 16:00`, `2026/8/1 16:00:30`.
#[must_use]
pub fn moment(text: &str, zone: Zone) -> Option<Timestamp> {
    let text = text.trim();
    if let Some(at) = parse_time(text) {
        return Some(at);
    }
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let numbers = |text: &str, mark: &[char]| -> Option<Vec<i64>> {
        let parts = text.trim().split(mark);
        let is_number =
            |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        parts.map(|part| Some(part).filter(is_number)?.parse().ok()).collect()
    };
    let ([year, month, day], clock) =
        (<[i64; 3]>::try_from(numbers(date, &['-', '/', '.'])?).ok()?, numbers(clock, &[':'])?);
    let (hour, minute, second) = match clock[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let iso = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    let local = Timestamp::parse_iso(&iso)?;
    let at = zone.instant_of_local_ms(local.0)?;
    (Timestamp::MIN..=Timestamp::MAX).contains(&at).then_some(at)
}

/// Terms, or everything that is wrong, in the order of the fields.
///
/// # Errors
/// Each field with what is wrong with it.
pub fn terms(entered: &Entered, zone: Zone) -> Result<LeaseTerms, Vec<Wrong>> {
    let mut reader = Reader { entered, zone, wrong: Vec::new() };
    match reader.terms() {
        Some(terms) if reader.wrong.is_empty() => {
            let faults = terms.faults();
            let wrong = faults.iter().map(|fault| Wrong::new(fault.field, fault.matter));
            if faults.is_empty() { Ok(terms) } else { Err(wrong.collect()) }
        }
        _ => Err(reader.wrong),
    }
}

/// Terms in place of others that were shown: what was left as shown stays as it was, also where its
/// text says less.
///
/// # Errors
/// Each field with what is wrong with it.
pub fn terms_over(
    (before, shown): (&LeaseTerms, &Entered),
    entered: &Entered,
    zone: Zone,
) -> Result<LeaseTerms, Vec<Wrong>> {
    let mut terms = terms(entered, zone)?;
    // Browsers send line ends of two characters.
    let lines = |text: &str| text.replace("\r\n", "\n");
    let is_same = |field: &str| lines(entered.get(field)) == shown.get(field);
    if is_same("labels") {
        terms.labels.clone_from(&before.labels);
    }
    if is_same("fees") && terms.currency == before.currency {
        terms.fees.clone_from(&before.fees);
    }
    Ok(terms)
}

struct Reader<'a> {
    entered: &'a Entered,
    zone: Zone,
    wrong: Vec<Wrong>,
}

impl Reader<'_> {
    fn terms(&mut self) -> Option<LeaseTerms> {
        let name = self.needed("name", slug);
        let provider = self.needed("provider", slug);
        let gpu_model = self.needed("gpu_model", |text| Ok(text.to_owned()));
        let gpu_count = self.needed("gpu_count", |text| parsed(text, "must be a number of GPUs"));
        let zone = self.zone;
        let time = |text: &str| moment(text, zone).ok_or("must be a time such as 2026-08-01 08:00");
        let starts_at = self.needed("starts_at", time);
        let ends_at = self.maybe("ends_at", time);
        let auto_release_at = self.maybe("auto_release_at", time);
        let currency = self.maybe("currency", |text| {
            Currency::from_str(text).map_err(|_| "must be three letters such as USD")
        });
        let currency = currency.or_else(|| Currency::from_str("USD").ok())?;
        let kind = self.maybe("kind", |text| LeaseKind::from_name(text).ok_or("is no kind"));
        let billing = self.billing();
        let share = self.share();
        let tax_ppm = self.maybe("tax", |text| percent(text).ok_or("must be a percentage"));
        let minima = self.minima();
        let profile = self.maybe("profile", |text| profile(text).ok_or("must be ID@VERSION"));
        let billing_zone =
            self.maybe("zone", |text| Zone::parse(text).map_err(|_| "must be an IANA name"));
        let labels = self.maybe("labels", labels).unwrap_or_default();
        let fees = self.maybe("fees", |text| fees(text, currency)).unwrap_or_default();
        let prices = self.prices(starts_at, currency);
        let text = |field: &str| {
            Some(self.entered.get(field)).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let gpu_model = gpu_model?;
        Some(LeaseTerms {
            name: name?,
            provider: provider?,
            product: text("product").unwrap_or_else(|| gpu_model.clone()),
            kind: kind.unwrap_or(LeaseKind::Reserved),
            share,
            region: text("region"),
            instance: text("instance"),
            machine: text("machine"),
            order: text("order"),
            gpu_model,
            gpu_count: gpu_count?,
            currency,
            tax_ppm,
            starts_at: starts_at?,
            ends_at,
            auto_release_at,
            prices,
            fees,
            billing,
            minima,
            profile,
            zone: billing_zone.unwrap_or(Zone::UTC),
            labels,
        })
    }

    fn maybe<T>(
        &mut self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Option<T> {
        let text = self.entered.get(field);
        if text.is_empty() {
            return None;
        }
        parse(text).map_err(|matter| self.wrong.push(Wrong::new(field, matter))).ok()
    }

    fn needed<T>(
        &mut self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Option<T> {
        if self.entered.get(field).is_empty() {
            self.wrong.push(Wrong::new(field, MISSING));
        }
        self.maybe(field, parse)
    }

    fn billing(&mut self) -> Billing {
        let usual = Billing::default();
        let unit = |text: &str| BillingUnit::from_name(text).ok_or("is no unit of billing");
        let day = |text: &str| parsed(text, "must be 1 to 28");
        Billing {
            unit: self.maybe("billing_unit", unit).unwrap_or(usual.unit),
            stop_ends_billing: self.maybe("stop_ends_billing", yes_or_no).unwrap_or_default(),
            month_day: self.maybe("month_day", day).unwrap_or(usual.month_day),
        }
    }

    fn share(&mut self) -> Share {
        let kind = |text: &str| ShareKind::from_name(text).ok_or("is no kind of share");
        let kind = self.maybe("share_kind", kind).unwrap_or(ShareKind::Whole);
        let ppm = |text: &str| percent(text).ok_or("must be a percentage");
        let ppm = self.maybe("share", ppm).unwrap_or(Share::WHOLE.ppm);
        Share { kind, ppm }
    }

    fn minima(&mut self) -> Minima {
        let power = |text: &str| milli(text).ok_or("must be a number");
        let power_limit_mw = self.maybe("power_limit_w", power);
        let mut number = |field| self.maybe(field, |text| parsed::<i64>(text, "must be a number"));
        Minima {
            power_limit_mw,
            memory_mib: number("memory_mib"),
            sm_clock_mhz: number("sm_clock_mhz"),
            pcie_generation: number("pcie_generation"),
            pcie_width: number("pcie_width"),
            nvlinks: number("nvlinks"),
        }
    }

    /// The first price holds from the start; others stand one a line: time, amount, unit.
    fn prices(&mut self, start: Option<Timestamp>, currency: Currency) -> Vec<Price> {
        let amount =
            |text: &str| Money::parse(text, currency).map_err(|_| "must be an amount such as 2.49");
        let unit = |text: &str| PriceUnit::from_name(text).ok_or("must be gpu_hour or month");
        let unit_of_first = self.maybe("price_unit", unit).unwrap_or(PriceUnit::GpuHour);
        let first = self.maybe("price", amount);
        let mut prices: Vec<Price> = first
            .zip(start)
            .map(|(amount, from)| Price { from, amount, unit: unit_of_first })
            .into_iter()
            .collect();
        let zone = self.zone;
        let line = |line: &str| -> Option<Price> {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            let unit = words.pop().and_then(PriceUnit::from_name)?;
            let amount = Money::parse(words.pop()?, currency).ok()?;
            Some(Price { from: moment(&words.join(" "), zone)?, amount, unit })
        };
        let later = self.maybe("prices", |text| {
            let read: Option<Vec<_>> = lines(text).map(line).collect();
            read.ok_or("must be a time, an amount and gpu_hour or month on each line")
        });
        prices.extend(later.unwrap_or_default());
        prices
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

fn slug(text: &str) -> Result<Slug, &'static str> {
    Slug::new(text).map_err(|_| "must be 1 to 40 characters of a-z, 0-9 and -")
}

fn parsed<T: FromStr>(text: &str, matter: &'static str) -> Result<T, &'static str> {
    text.parse().map_err(|_| matter)
}

fn yes_or_no(text: &str) -> Result<bool, &'static str> {
    match text {
        "yes" | "true" | "1" | "on" | "是" => Ok(true),
        "no" | "false" | "0" | "否" => Ok(false),
        _ => Err("must be yes or no"),
    }
}

/// `13`, `14.2857 %`: a percentage in millionths.
fn percent(text: &str) -> Option<u32> {
    let number = text.trim_end_matches('%').trim();
    let (_, fraction) = number.split_once('.').unwrap_or((number, ""));
    (fraction.len() <= 4).then_some(())?;
    Some(parse_ratio_ppm(number)? / 100)
}

/// `700`, `699.5`: a number in thousandths.
fn milli(text: &str) -> Option<i64> {
    let (_, fraction) = text.split_once('.').unwrap_or((text, ""));
    (fraction.len() <= 3).then_some(())?;
    Some(i64::from(parse_ratio_ppm(text)? / 1_000))
}

/// `aws-ec2@3`.
fn profile(text: &str) -> Option<ProfileRef> {
    let (id, version) = text.split_once('@')?;
    let version = version.parse().ok().filter(|version| *version > 0)?;
    Some(ProfileRef { id: Slug::new(id).ok()?, version })
}

/// `team=nlp`, one a line or between semicolons.
pub fn labels(text: &str) -> Result<BTreeMap<Label, Label>, &'static str> {
    let parts = text.split(['\n', ';', '；']).map(str::trim).filter(|part| !part.is_empty());
    let label = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((Label::new(name.trim())?, Label::new(value.trim())?))
    };
    let all: Option<Vec<_>> = parts.map(label).collect();
    let all = all.ok_or("must be NAME=VALUE, each of 1 to 60 characters")?;
    let count = all.len();
    let labels: BTreeMap<_, _> = all.into_iter().collect();
    if labels.len() == count { Ok(labels) } else { Err("must have one value each") }
}

/// `disk: 12.50 month`, one a line.
fn fees(text: &str, currency: Currency) -> Result<Vec<Fee>, &'static str> {
    let fee = |line: &str| {
        let (name, rest) = line.rsplit_once([':', '：'])?;
        let (amount, cycle) = rest.trim().split_once(' ')?;
        let amount = Money::parse(amount, currency).ok()?;
        let cycle = FeeCycle::from_name(cycle.trim())?;
        Some(Fee { name: name.trim().to_owned(), amount, cycle })
    };
    let all: Option<Vec<_>> = lines(text).map(fee).collect();
    all.ok_or("must be NAME: AMOUNT and once, month, running_hour or stopped_hour on each line")
}

/// What has to be typed to get these terms.
#[must_use]
pub fn of_terms(terms: &LeaseTerms, time: impl Fn(Timestamp) -> String) -> Entered {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut put = |field: &str, text: Option<String>| {
        all.insert(field.to_owned(), text.unwrap_or_default());
    };
    put("name", Some(terms.name.to_string()));
    put("provider", Some(terms.provider.to_string()));
    put("product", Some(terms.product.clone()));
    put("kind", Some(terms.kind.name().to_owned()));
    put("gpu_model", Some(terms.gpu_model.clone()));
    put("gpu_count", Some(terms.gpu_count.to_string()));
    put("currency", Some(terms.currency.to_string()));
    put("starts_at", Some(time(terms.starts_at)));
    put("ends_at", terms.ends_at.map(&time));
    put("auto_release_at", terms.auto_release_at.map(&time));
    put("region", terms.region.clone());
    put("instance", terms.instance.clone());
    put("machine", terms.machine.clone());
    put("order", terms.order.clone());
    put("share_kind", Some(terms.share.kind.name().to_owned()));
    put("share", Some(percent_text(terms.share.ppm)));
    put("tax", terms.tax_ppm.map(percent_text));
    put("zone", Some(terms.zone.name().to_owned()));
    put("billing_unit", Some(terms.billing.unit.name().to_owned()));
    put("month_day", Some(terms.billing.month_day.to_string()));
    let stops = if terms.billing.stop_ends_billing { "yes" } else { "no" };
    put("stop_ends_billing", Some(stops.to_owned()));
    let number = |value: Option<i64>| value.map(|value| value.to_string());
    let watts = |mw: i64| {
        let text = format!("{}.{:03}", mw / 1_000, mw % 1_000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    put("power_limit_w", terms.minima.power_limit_mw.map(watts));
    put("memory_mib", number(terms.minima.memory_mib));
    put("sm_clock_mhz", number(terms.minima.sm_clock_mhz));
    put("pcie_generation", number(terms.minima.pcie_generation));
    put("pcie_width", number(terms.minima.pcie_width));
    put("nvlinks", number(terms.minima.nvlinks));
    put("profile", terms.profile.as_ref().map(|of| format!("{}@{}", of.id, of.version)));
    let label = |(name, value): (&Label, &Label)| format!("{}={}", name.as_str(), value.as_str());
    put("labels", Some(terms.labels.iter().map(label).collect::<Vec<_>>().join("\n")));
    let fee =
        |fee: &Fee| format!("{}: {} {}", fee.name, fee.amount.amount_text(), fee.cycle.name());
    put("fees", Some(terms.fees.iter().map(fee).collect::<Vec<_>>().join("\n")));
    let is_first = |price: &&Price| price.from == terms.starts_at;
    let first = terms.prices.first().filter(is_first);
    put("price", first.map(|price| price.amount.amount_text()));
    let unit = first.map_or(PriceUnit::GpuHour, |price| price.unit);
    put("price_unit", Some(unit.name().to_owned()));
    let later = terms.prices.iter().skip(usize::from(first.is_some()));
    let line =
        |of: &Price| format!("{} {} {}", time(of.from), of.amount.amount_text(), of.unit.name());
    put("prices", Some(later.map(line).collect::<Vec<_>>().join("\n")));
    Entered(all)
}

/// Millionths as a percentage, without a sign.
fn percent_text(ppm: u32) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(fields: &[(&str, &str)]) -> Entered {
        let least = [
            ("name", "h100-a"),
            ("provider", "acme"),
            ("gpu_model", "H100"),
            ("gpu_count", "8"),
            ("starts_at", "2026-08-01 08:00"),
            ("price", "2.49"),
        ];
        let all = least.iter().chain(fields);
        Entered(all.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    fn wrong(fields: &[(&str, &str)]) -> Vec<String> {
        let read = terms(&entered(fields), Zone::UTC);
        read.err().unwrap_or_default().into_iter().map(|wrong| wrong.field).collect()
    }

    #[test]
    fn six_fields_are_enough_and_each_mistake_is_of_its_field() {
        assert_eq!(wrong(&[]), [""; 0]);
        for (field, text) in [
            ("name", "H100 A"),
            ("provider", ""),
            ("gpu_model", ""),
            ("gpu_count", "0"),
            ("gpu_count", "eight"),
            ("starts_at", "soon"),
            ("ends_at", "2026-07-01"),
            ("price", "2,49"),
            ("price_unit", "week"),
            ("prices", "2026-09-01 2.29"),
            ("currency", "usd"),
            ("share", "150"),
            ("share", "1/7"),
            ("tax", "13.00001"),
            ("zone", "Mars/Base"),
            ("month_day", "31"),
            ("stop_ends_billing", "maybe"),
            ("pcie_width", "x16"),
            ("profile", "aws-ec2"),
            ("labels", "nlp"),
            ("labels", "team=a;team=b"),
            ("fees", "disk 12.50 month"),
        ] {
            assert_eq!(wrong(&[(field, text)]), [field], "{field}={text}");
        }
        assert_eq!(wrong(&[("gpu_count", "0"), ("month_day", "0")]), ["gpu_count", "month_day"]);
    }

    #[test]
    fn what_was_typed_comes_back() {
        let typed = entered(&[
            ("ends_at", "2026/9/1"),
            ("prices", "2026-08-10 00:00 2.29 gpu_hour\n2026-08-20 1800 month"),
            ("tax", "13 %"),
            ("share_kind", "mig"),
            ("share", "14.2857"),
            ("fees", "disk: 12.50 month"),
            ("labels", "team=nlp\nproject=large model"),
            ("power_limit_w", "700"),
            ("profile", "aws-ec2@3"),
            ("kind", "on_demand"),
            ("stop_ends_billing", "yes"),
        ]);
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        let read = terms(&typed, zone).unwrap();
        assert_eq!(read.starts_at.to_string(), "2026-08-01T00:00:00.000Z");
        assert_eq!((read.tax_ppm, read.share.ppm), (Some(130_000), 142_857));
        assert_eq!((read.prices.len(), read.labels.len(), read.fees.len()), (3, 2, 1));
        let again = of_terms(&read, |at| at.to_string());
        assert_eq!(terms(&again, Zone::UTC).unwrap(), read);
    }
}
