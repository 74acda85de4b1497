//! What is written is read again as it was, and what is not in the schema is refused.

use proptest::prelude::*;
use proptest::{collection, option, sample};

use super::*;

fn slug() -> impl Strategy<Value = Slug> {
    // Any slug will do; a pattern would need a feature of proptest that is not compiled in.
    (0_u32..1_000_000).prop_map(|number| Slug::new(&format!("lease-{number}")).unwrap())
}

fn text() -> impl Strategy<Value = String> {
    let chars = sample::select(vec!['a', 'Z', '9', ' ', '"', '\'', '\\', '#', '租', 'é', '=', ']']);
    collection::vec(chars, 1..20).prop_map(|chars| chars.into_iter().collect())
}

fn label() -> impl Strategy<Value = Label> {
    text().prop_map(|text| Label::new(&text).unwrap())
}

fn at() -> impl Strategy<Value = Timestamp> {
    (Timestamp::MIN.0..Timestamp::MAX.0).prop_map(Timestamp)
}

fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    sample::select(all)
}

fn amount() -> impl Strategy<Value = Money> {
    let currency = "CNY".parse().unwrap();
    (0..i128::from(u64::MAX)).prop_map(move |nanos| Money { nanos, currency })
}

fn billing() -> impl Strategy<Value = Billing> {
    (one_of(BillingUnit::ALL), any::<bool>(), 1_u8..=28).prop_map(
        |(unit, stop_ends_billing, month_day)| Billing { unit, stop_ends_billing, month_day },
    )
}

fn prices() -> impl Strategy<Value = Vec<Price>> {
    let price = (at(), amount(), one_of(PriceUnit::ALL)).prop_map(|(from, amount, unit)| Price {
        from,
        amount,
        unit,
    });
    collection::vec(price, 0..4)
}

fn fees() -> impl Strategy<Value = Vec<Fee>> {
    let fee = (text(), amount(), one_of(FeeCycle::ALL)).prop_map(|(name, amount, cycle)| Fee {
        name,
        amount,
        cycle,
    });
    collection::vec(fee, 0..3)
}

fn minima() -> impl Strategy<Value = Minima> {
    let value = || option::of(1_i64..1_000_000_000);
    (value(), value(), value(), value(), value(), value()).prop_map(
        |(power_limit_mw, memory_mib, sm_clock_mhz, pcie_generation, pcie_width, nvlinks)| Minima {
            power_limit_mw,
            memory_mib,
            sm_clock_mhz,
            pcie_generation,
            pcie_width,
            nvlinks,
        },
    )
}

fn terms() -> impl Strategy<Value = LeaseTerms> {
    let names = (slug(), slug(), text(), text(), one_of(LeaseKind::ALL), 1_u32..1_000);
    let places = (option::of(text()), option::of(text()), option::of(text()), option::of(text()));
    let times = (at(), option::of(at()), option::of(at()));
    let share = (one_of(ShareKind::ALL), 1_u32..=1_000_000, option::of(0_u32..1_000_000));
    let profile = option::of((slug(), 1_u32..9));
    let zones = sample::select(vec!["UTC", "Asia/Shanghai", "America/Los_Angeles"]);
    let labels = collection::btree_map(label(), label(), 0..4);
    let lists = (prices(), fees(), billing(), minima(), labels);
    (names, places, times, share, (profile, zones), lists).prop_map(
        |(names, places, times, share, (profile, zone), lists)| LeaseTerms {
            name: names.0,
            provider: names.1,
            product: names.2,
            kind: names.4,
            share: Share { kind: share.0, ppm: share.1 },
            region: places.0,
            instance: places.1,
            machine: places.2,
            order: places.3,
            gpu_model: names.3,
            gpu_count: names.5,
            currency: "CNY".parse().unwrap(),
            tax_ppm: share.2,
            starts_at: times.0,
            ends_at: times.1,
            auto_release_at: times.2,
            prices: lists.0,
            fees: lists.1,
            billing: lists.2,
            minima: lists.3,
            profile: profile.map(|(id, version)| ProfileRef { id, version }),
            zone: Zone::parse(zone).unwrap(),
            labels: lists.4,
        },
    )
}

proptest! {
    #[test]
    fn terms_are_read_as_they_were_written(terms in terms()) {
        let json = serde_json::to_string(&terms).unwrap();
        prop_assert_eq!(serde_json::from_str::<LeaseTerms>(&json).unwrap(), terms);
    }

    #[test]
    fn a_ratio_is_read_as_it_was_written(ppm in any::<u32>()) {
        prop_assert_eq!(parse_ratio_ppm(&ratio_text(ppm)), Some(ppm));
    }
}

const LEAST: &str = r#"{"name": "a", "provider": "p", "gpu_model": "H100", "gpu_count": 8,
    "currency": "USD", "starts_at": "2026-08-01T08:00:00+08:00",
    "prices": [{"amount": "2.49", "unit": "gpu_hour"}]}"#;

#[test]
fn what_is_left_out_has_its_default() {
    let terms: LeaseTerms = serde_json::from_str(LEAST).unwrap();
    assert_eq!(terms.faults(), []);
    assert_eq!(terms.starts_at.to_string(), "2026-08-01T00:00:00.000Z");
    assert_eq!((terms.product.as_str(), terms.kind), ("H100", LeaseKind::Reserved));
    assert_eq!((terms.share, terms.zone), (Share::WHOLE, Zone::UTC));
    assert_eq!(terms.billing, Billing::default());
    let price = Price {
        from: terms.starts_at,
        amount: "2.49 USD".parse().unwrap(),
        unit: PriceUnit::GpuHour,
    };
    assert_eq!(terms.prices, [price]);
}

#[test]
fn what_is_not_in_the_schema_is_refused_by_what_was_expected() {
    let refused = |old: &str, new: &str| {
        let text = LEAST.replacen(old, new, 1);
        assert_ne!(text, LEAST);
        serde_json::from_str::<LeaseTerms>(&text).unwrap_err().to_string()
    };
    for (old, new, said) in [
        ("\"gpu_count\"", "\"gpu_cuont\"", "unknown field `gpu_cuont`"),
        ("\"name\": \"a\", ", "", "missing field `name`"),
        ("8,", "\"8\",", "expected u32"),
        ("8,", "-8,", "expected u32"),
        ("\"2.49\"", "2.49", "expected a string"),
        ("\"2.49\"", "\"2,49\"", "an amount is a decimal number"),
        ("gpu_hour", "gpuhour", "must be one of gpu_hour, month"),
        ("+08:00", "", "must be a time with its zone"),
        ("\"p\"", "\"The Provider\"", "slug"),
        ("\"USD\"", "\"usd\"", "a currency is three letters"),
        ("{\"name\"", "{\"version\": 2, \"name\"", "version 2 is not known, only 1"),
        ("{\"name\"", "{\"tax\": \"13%\", \"name\"", "must be a ratio"),
        ("{\"name\"", "{\"labels\": {\"\": \"x\"}, \"name\"", "a label has 1 to 60"),
    ] {
        let error = refused(old, new);
        assert!(error.contains(said), "{new}: {error}");
    }
}

#[test]
fn times_have_their_zone() {
    let same =
        ["2026-08-01T00:00:00Z", "2026-08-01T05:45:00+05:45", "2026-07-31T16:00:00.000-08:00"];
    let first = parse_time(same[0]);
    assert!(first.is_some());
    for text in same {
        assert_eq!(parse_time(text), first, "{text}");
    }
    for text in [
        "2026-08-01",
        "2026-08-01T00:00:00",
        "2026-08-01T00:00:00+0800",
        "1999-12-31T23:59:59Z",
        "租2026-08-01T00:00:00+08:00",
        "+08:00",
        "",
    ] {
        assert_eq!(parse_time(text), None, "{text}");
    }
}
