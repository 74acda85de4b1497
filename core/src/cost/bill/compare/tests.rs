use proptest::prelude::*;

use super::super::Quantity;
use super::*;
use crate::cost::bill::{BillColumns, DateOrder};
use crate::cost::fixture::sample_terms;
use crate::lease::{
    Billing, BillingSession, BillingUnit, Fee, FeeCycle, LeaseKind, LeaseTerms, Price, PriceUnit,
    SessionSource,
};
use crate::time::{Timestamp, Zone};

fn at(text: &str) -> Timestamp {
    Timestamp::parse_iso(&format!("{text}:00Z")).unwrap()
}

/// Two cards at 2 USD per GPU-hour, in seconds.
fn terms(kind: LeaseKind) -> LeaseTerms {
    LeaseTerms {
        kind,
        gpu_count: 2,
        prices: vec![Price {
            from: at("2026-10-01T00:00"),
            amount: "2.00 USD".parse().unwrap(),
            unit: PriceUnit::GpuHour,
        }],
        billing: Billing { unit: BillingUnit::Second, stop_ends_billing: true, month_day: 1 },
        ..sample_terms()
    }
}

fn session(from: &str, to: &str) -> BillingSession {
    BillingSession { starts_at: at(from), ends_at: Some(at(to)), source: SessionSource::Csv }
}

fn read(rows: &str) -> Vec<BillLine> {
    let some = |name: &str| Some(name.to_owned());
    let columns = BillColumns {
        starts: "from".to_owned(),
        ends: some("to"),
        key: "key".to_owned(),
        quantity: some("quantity"),
        unit: some("unit"),
        rate: some("rate"),
        amount: "amount".to_owned(),
        currency: some("currency"),
        currency_else: "USD".parse().unwrap(),
        unit_else: QuantityUnit::Hour,
        zone: Zone::UTC,
        dates: DateOrder::YearFirst,
    };
    let text = format!("key,from,to,quantity,unit,rate,amount,currency\n{rows}");
    let bill = super::super::read(&text, &columns).unwrap();
    assert_eq!(bill.refused, []);
    bill.lines
}

fn compared(
    rows: &str,
    terms: &LeaseTerms,
    sessions: &[BillingSession],
    down: &[Period],
) -> Comparison {
    let billable = Billable { terms, sessions, until: at("2026-12-01T00:00") };
    let lease = BilledLease { name: &terms.name, keys: &["lease-a", "i-1"], billable, down };
    compare(&read(rows), &[lease], false).unwrap()
}

/// Kinds and amounts, after checking the law.
fn table(found: &Comparison) -> Vec<(&'static str, String)> {
    assert_eq!(law(found), 0, "{found:?}");
    let row = |d: &Difference| (d.kind.name(), d.amount.amount_text());
    found.differences.iter().map(row).collect()
}

/// Sum of differences less (billed - (expected - dead)), over all currencies.
fn law(found: &Comparison) -> i128 {
    let nanos = |sums: &Amounts| sums.iter().map(|sum| sum.nanos).sum::<i128>();
    let listed: i128 = found.differences.iter().map(|d| d.amount.nanos).sum();
    listed - (nanos(&found.billed) - nanos(&found.expected) + nanos(&found.dead))
}

const DAY: &str = "2026-10-02,2026-10-02";

#[test]
fn each_difference_is_named_and_has_its_amount() {
    let reserved = terms(LeaseKind::Reserved);
    let mut released = reserved.clone();
    released.ends_at = Some(at("2026-10-02T18:00"));
    let no_price = LeaseTerms { prices: Vec::new(), ..reserved.clone() };
    let table_of = [
        // what is billed for a day of two cards at 2 USD; what is found
        ("right", "24,hour,4.00,96.00,", &reserved, vec![]),
        ("right in GPU-hours", "48,gpu-hours,2.00,96.00,", &reserved, vec![]),
        ("right without quantity", ",,,96.00,", &reserved, vec![]),
        ("another tier", "24,hour,4.50,108.00,", &reserved, vec![("price", "12.00")]),
        ("another tier without rate", "24,hour,,108.00,", &reserved, vec![("price", "12.00")]),
        ("does not multiply", "24,hour,4.00,100.00,", &reserved, vec![("arithmetic", "4.00")]),
        ("to the cent", "24,hour,4.0001,96.00,", &reserved, vec![]),
        ("after release", "24,hour,4.00,96.00,", &released, vec![("after_release", "24.00")]),
        (
            "more hours than a day has",
            "25,hour,4.00,100.00,",
            &reserved,
            vec![("more_time", "4.00")],
        ),
        ("less time", "20,hour,4.00,80.00,", &reserved, vec![("less_time", "-16.00")]),
        (
            "both",
            "25,hour,5.00,126.00,",
            &reserved,
            vec![("arithmetic", "1.00"), ("price", "25.00"), ("more_time", "4.00")],
        ),
        ("no price", "24,hour,4.00,96.00,", &no_price, vec![("no_price", "96.00")]),
        (
            "other currency",
            "24,hour,4.00,96.00,CNY",
            &reserved,
            vec![("other_currency", "96.00"), ("missing_line", "-96.00")],
        ),
    ];
    for (name, cells, terms, expected) in table_of {
        let found = compared(&format!("i-1,{DAY},{cells}\n"), terms, &[], &[]);
        let expected: Vec<_> = expected.into_iter().map(|(k, a)| (k, a.to_owned())).collect();
        assert_eq!(table(&found), expected, "{name}");
    }
}

#[test]
fn down_time_is_listed_apart() {
    let reserved = terms(LeaseKind::Reserved);
    // One card for six hours, both for one: eight GPU-hours.
    let down = [("00:00", "06:00"), ("12:00", "13:00"), ("12:00", "13:00")].map(|(from, to)| {
        Period::new(at(&format!("2026-10-02T{from}")), at(&format!("2026-10-02T{to}")))
    });
    let found = compared(&format!("i-1,{DAY},24,hour,4.00,96.00,\n"), &reserved, &[], &down);
    assert_eq!(table(&found), [("billed_while_down", "16.00".to_owned())]);
    assert_eq!(found.dead.iter().next().unwrap().to_string(), "16.00 USD");
    assert_eq!(found.expected.iter().next().unwrap().to_string(), "96.00 USD");
}

#[test]
fn sessions_and_roundings() {
    let by_session = terms(LeaseKind::OnDemand);
    let sessions = [
        session("2026-10-02T09:00", "2026-10-02T09:10"),
        session("2026-10-02T20:00", "2026-10-02T21:00"),
    ];
    let of = |cells: &str| {
        let rows = format!("i-1,{DAY},{cells}\n");
        table(&compared(&rows, &by_session, &sessions, &[]))
    };
    assert_eq!(of("4200,s,,4.666666667,"), []);
    // The first session billed as a started hour.
    assert_eq!(of("2,h,4,8.00,"), [("rounding", "3.333333333".to_owned())]);
    // Twelve hours that nobody ran.
    assert_eq!(of("13.166666667,h,4,52.67,").last().unwrap().0, "outside_session");
}

#[test]
fn lines_twice_lines_too_few_and_lines_of_nobody() {
    let reserved = terms(LeaseKind::Reserved);
    let rows = format!("i-1,{DAY},24,hour,4.00,96.00,\n").repeat(2)
        + "i-1,2026-10-04,2026-10-04,24,hour,4.00,96.00,\n\
           i-9,2026-10-02,2026-10-04,1,hour,7.00,7.00,\n";
    assert_eq!(
        table(&compared(&rows, &reserved, &[], &[])),
        [
            ("double", "96.00".to_owned()),
            ("unknown_lease", "7.00".to_owned()),
            ("missing_line", "-96.00".to_owned()), // the third of October
        ]
    );
}

#[test]
fn fees_are_compared_with_fees_and_tax_with_tax() {
    let mut with_fees = terms(LeaseKind::Reserved);
    with_fees.tax_ppm = Some(100_000);
    with_fees.fees = vec![Fee {
        name: "disk".to_owned(),
        amount: "0.50 USD".parse().unwrap(),
        cycle: FeeCycle::RunningHour,
    }];
    let rows = format!("i-1,{DAY},24,hour,4.40,105.60,\ni-1,{DAY},100,GB,,15.00,\n");
    let billable = Billable { terms: &with_fees, sessions: &[], until: at("2026-12-01T00:00") };
    let lease = BilledLease { name: &with_fees.name, keys: &["i-1"], billable, down: &[] };
    let found = compare(&read(&rows), &[lease], true).unwrap();
    assert_eq!(table(&found), [("fee", "1.80".to_owned())]); // 15.00 - 12.00 and a tenth
}

#[test]
fn nothing_billed_is_nothing_found() {
    assert_eq!(compare(&[], &[], false), Ok(Comparison::default()));
}

fn any_line() -> impl Strategy<Value = BillLine> {
    let unit = prop::sample::select(QuantityUnit::ALL.to_vec());
    let quantity = prop::option::of((0_i128..900_000_000_000, unit));
    let rate = prop::option::of(0_i128..9_000_000_000);
    let period = (0_i64..2_000_000, 1_i64..400_000_000);
    let tail = (0_usize..3, any::<bool>(), -5_000_000_000_i128..900_000_000_000);
    (quantity, rate, period, tail).prop_map(|(quantity, rate, (from, ms), (key, is_cny, nanos))| {
        let currency = if is_cny { "CNY" } else { "USD" }.parse().unwrap();
        let start = at("2026-10-02T00:00").plus_ms(from * 400);
        BillLine {
            line: 2,
            key: ["lease-a", "lease-b", "nobody"][key].to_owned(),
            period: Period::new(start, start.plus_ms(ms)),
            quantity: quantity.map(|(nanos, unit)| Quantity { nanos, unit }),
            rate: rate.map(|nanos| Money { nanos, currency }),
            amount: Money { nanos, currency },
        }
    })
}

proptest! {
    /// Whatever is billed: the differences add up, and what is expected is what the terms charge.
    #[test]
    fn differences_add_up_in_each_currency(
        lines in prop::collection::vec(any_line(), 0..8),
        sessions in prop::collection::vec((0_i64..900_000_000, 1_i64..90_000_000), 0..5),
        down in prop::collection::vec((0_i64..900_000_000, 0_i64..90_000_000), 0..5),
        unit in prop::sample::select(BillingUnit::ALL.to_vec()),
        monthly in any::<bool>(),
    ) {
        let base = at("2026-10-01T12:00");
        let period = |(from, ms): (i64, i64)| {
            Period::new(base.plus_ms(from), base.plus_ms(from + ms))
        };
        let sessions: Vec<_> = sessions.into_iter().map(period).map(|p| BillingSession {
            starts_at: p.start, ends_at: Some(p.end), source: SessionSource::Api,
        }).collect();
        let down: Vec<_> = down.into_iter().map(period).collect();
        let mut first = terms(LeaseKind::OnDemand);
        first.billing.unit = unit;
        first.ends_at = Some(at("2026-10-09T07:00"));
        let mut second = terms(LeaseKind::Reserved);
        second.currency = "CNY".parse().unwrap();
        let amount = "9.87 CNY".parse().unwrap();
        let price_unit = if monthly { PriceUnit::Month } else { PriceUnit::GpuHour };
        second.prices = vec![Price { from: base, amount, unit: price_unit }];
        let until = at("2026-10-20T00:00");
        let of = |terms: &'static str| [terms];
        let (key_a, key_b) = (of("lease-a"), of("lease-b"));
        let a = Billable { terms: &first, sessions: &sessions, until };
        let b = Billable { terms: &second, sessions: &[], until };
        let leases = [
            BilledLease { name: &first.name, keys: &key_a, billable: a, down: &down },
            BilledLease { name: &second.name, keys: &key_b, billable: b, down: &[] },
        ];
        let found = compare(&lines, &leases, false).unwrap();
        for currency in ["USD", "CNY"] {
            let currency = currency.parse().unwrap();
            let of = |sums: &Amounts| sums.of(currency).map_or(0, |sum| sum.nanos);
            let own = found.differences.iter().filter(|d| d.amount.currency == currency);
            let listed: i128 = own.map(|d| d.amount.nanos).sum();
            prop_assert_eq!(listed, of(&found.billed) - of(&found.expected) + of(&found.dead));
        }
        let start = lines.iter().map(|line| line.period.start).min();
        let end = lines.iter().map(|line| line.period.end).max();
        if let Some((start, end)) = start.zip(end) {
            let window = Period::new(start, end);
            for (billable, currency) in [(a, "USD"), (b, "CNY")] {
                let charged = billable.charges().unwrap().within(window).nanos;
                let expected = found.expected.of(currency.parse().unwrap()).map_or(0, |m| m.nanos);
                prop_assert_eq!(charged, expected);
            }
        }
    }
}
