use proptest::prelude::*;

use super::*;
use crate::cost::fixture::sample_terms;
use crate::lease::{Billing, BillingUnit, Fee, LeaseKind, SessionSource, Share, ShareKind};

fn at(text: &str) -> Timestamp {
    Timestamp::parse_iso(&format!("{text}:00Z")).unwrap()
}

fn window(from: &str, to: &str) -> Period {
    Period::new(at(from), at(to))
}

fn price(from: &str, amount: &str, unit: PriceUnit) -> Price {
    Price { from: at(from), amount: amount.parse().unwrap(), unit }
}

fn session(from: &str, to: &str) -> BillingSession {
    BillingSession { starts_at: at(from), ends_at: Some(at(to)), source: SessionSource::Csv }
}

/// Two cards at 2.00 USD per GPU-hour, on demand, from 1 October on.
fn on_demand(unit: BillingUnit, stop_ends_billing: bool) -> LeaseTerms {
    LeaseTerms {
        kind: LeaseKind::OnDemand,
        gpu_count: 2,
        starts_at: at("2026-10-01T00:00"),
        prices: vec![price("2026-10-01T00:00", "2.00 USD", PriceUnit::GpuHour)],
        billing: Billing { unit, stop_ends_billing, month_day: 1 },
        ..sample_terms()
    }
}

fn net(terms: &LeaseTerms, sessions: &[BillingSession], in_window: Period) -> String {
    let billable = Billable { terms, sessions, until: at("2026-11-01T00:00") };
    billable.charges().unwrap().within(in_window).to_string()
}

const DAY: (&str, &str) = ("2026-10-02T00:00", "2026-10-03T00:00");

/// Ten minutes and half a second past nine, and twenty minutes from half past nine.
fn two_sessions() -> [BillingSession; 2] {
    let mut first = session("2026-10-02T09:00", "2026-10-02T09:10");
    first.ends_at = first.ends_at.map(|end| end.plus_ms(500));
    [first, session("2026-10-02T09:30", "2026-10-02T09:50")]
}

#[test]
fn each_unit_rounds_up_its_own_way() {
    let day = window(DAY.0, DAY.1);
    let table = [
        // unit, what two cards cost: 4 USD an hour
        (BillingUnit::Second, "2.001111111 USD"), // 601 s + 1200 s
        (BillingUnit::Minute, "2.066666666 USD"), // 11 min + 20 min, each rounded once
        (BillingUnit::StartedHour, "8.00 USD"),   // an hour, and another one
        (BillingUnit::PrepaidHour, "4.00 USD"),   // the second session uses the first one's hour
        (BillingUnit::Term, "96.00 USD"),         // the whole day, used or not
    ];
    for (unit, expected) in table {
        assert_eq!(net(&on_demand(unit, true), &two_sessions(), day), expected, "{unit:?}");
    }
}

#[test]
fn a_stop_that_does_not_end_billing_is_billed_until_the_release() {
    let mut terms = on_demand(BillingUnit::Second, false);
    terms.ends_at = Some(at("2026-10-02T12:00"));
    // From the first session's start to the release: three hours of two cards.
    assert_eq!(net(&terms, &two_sessions(), window(DAY.0, DAY.1)), "12.00 USD");
    terms.auto_release_at = Some(at("2026-10-02T10:00"));
    assert_eq!(net(&terms, &two_sessions(), window(DAY.0, DAY.1)), "4.00 USD");
}

#[test]
fn a_price_that_changes_inside_counts_from_its_moment() {
    let mut terms = on_demand(BillingUnit::StartedHour, true);
    terms.prices.push(price("2026-10-02T09:45", "4.00 USD", PriceUnit::GpuHour));
    let sessions = [session("2026-10-02T09:00", "2026-10-02T09:20")];
    // The started hour reaches over the change: 45 min at 4 USD and 15 min at 8 USD.
    assert_eq!(net(&terms, &sessions, window(DAY.0, DAY.1)), "5.00 USD");
}

#[test]
fn time_before_the_first_price_is_unpriced_and_not_free() {
    let mut terms = on_demand(BillingUnit::Second, true);
    terms.kind = LeaseKind::Reserved;
    terms.prices[0].from = at("2026-10-02T18:00");
    let billable = Billable { terms: &terms, sessions: &[], until: at("2026-11-01T00:00") };
    let charges = billable.charges().unwrap();
    let day = window(DAY.0, DAY.1);
    assert_eq!(charges.within(day).to_string(), "24.00 USD");
    assert_eq!(charges.unpriced_ms(day), 18 * HOUR_MS);
    terms.prices.clear();
    let billable = Billable { terms: &terms, sessions: &[], until: at("2026-11-01T00:00") };
    assert_eq!(billable.charges().unwrap().unpriced_ms(day), 24 * HOUR_MS);
}

#[test]
fn a_month_is_as_long_as_it_is_in_its_zone() {
    let mut terms = on_demand(BillingUnit::Term, true);
    terms.kind = LeaseKind::Reserved;
    terms.zone = Zone::parse("America/Los_Angeles").unwrap();
    terms.starts_at = at("2026-03-01T08:00");
    terms.ends_at = Some(at("2026-12-01T08:00"));
    terms.prices = vec![price("2026-01-01T00:00", "743.00 USD", PriceUnit::Month)];
    // March has 743 hours there, November 721: an hour of March is a dollar.
    assert_eq!(net(&terms, &[], window("2026-03-10T00:00", "2026-03-10T01:00")), "1.00 USD");
    let november = terms.zone.month(2026, 11).unwrap();
    assert_eq!(net(&terms, &[], november), "743.00 USD");
    terms.billing.month_day = 15;
    // From the 15th on: the first fortnight of March belongs to a month of 28 days and 671 hours.
    let first = Period::new(terms.starts_at, terms.starts_at.plus_ms(24 * HOUR_MS));
    assert_eq!(net(&terms, &[], first), "26.575260805 USD");
}

#[test]
fn a_share_of_a_card_costs_its_part() {
    let mut terms = on_demand(BillingUnit::Second, true);
    terms.kind = LeaseKind::Reserved;
    terms.gpu_count = 3;
    terms.share = Share { kind: ShareKind::Mig, ppm: 142_857 };
    let hour = window("2026-10-02T09:00", "2026-10-02T10:00");
    assert_eq!(net(&terms, &[], hour), "0.857142 USD");
}

#[test]
fn fees_have_their_cycles_and_tax_is_on_everything() {
    let mut terms = on_demand(BillingUnit::Second, true);
    terms.tax_ppm = Some(130_000);
    terms.starts_at = at("2026-10-02T09:00");
    terms.ends_at = Some(at("2026-10-02T11:00"));
    let fee = |name: &str, amount: &str, cycle| Fee {
        name: name.to_owned(),
        amount: amount.parse().unwrap(),
        cycle,
    };
    terms.fees = vec![
        fee("setup", "5.00 USD", FeeCycle::Once),
        fee("disk", "31.00 USD", FeeCycle::Month),
        fee("address", "0.60 USD", FeeCycle::RunningHour),
        fee("kept disk", "0.30 USD", FeeCycle::StoppedHour),
    ];
    let sessions = [session("2026-10-02T09:00", "2026-10-02T10:00")];
    let billable = Billable { terms: &terms, sessions: &sessions, until: at("2026-11-01T00:00") };
    let charges = billable.charges().unwrap();
    let day = window(DAY.0, DAY.1);
    let by_name = |name: &str| {
        let of = |charge: &&Charge| charge.kind == ChargeKind::Fee(name.to_owned());
        charges.list.iter().filter(of).map(|charge| charge.nanos_within(day)).sum::<i128>()
    };
    assert_eq!(by_name("setup"), 5_000_000_000);
    assert_eq!(by_name("disk"), 83_333_333); // two of October's 744 hours
    assert_eq!(by_name("address"), 600_000_000);
    assert_eq!(by_name("kept disk"), 300_000_000);
    assert_eq!(charges.gpus_within(day).to_string(), "4.00 USD");
    assert_eq!(charges.within(day).to_string(), "9.983333333 USD");
    assert_eq!(charges.tax_within(day).unwrap().unwrap().to_string(), "1.297833333 USD");
}

#[test]
fn the_running_cost_is_that_of_this_moment() {
    let terms = on_demand(BillingUnit::Second, true);
    let sessions = two_sessions();
    let billable = Billable { terms: &terms, sessions: &sessions, until: at("2026-11-01T00:00") };
    let charges = billable.charges().unwrap();
    assert_eq!(charges.per_hour_at(at("2026-10-02T09:05")).to_string(), "4.00 USD");
    assert_eq!(charges.per_hour_at(at("2026-10-02T09:20")).to_string(), "0.00 USD");
}

#[test]
fn amounts_beyond_all_reason_are_an_error() {
    let mut terms = on_demand(BillingUnit::Second, true);
    terms.kind = LeaseKind::Reserved;
    terms.prices[0].amount.nanos = i128::MAX / 3;
    let billable = Billable { terms: &terms, sessions: &[], until: at("2026-11-01T00:00") };
    assert_eq!(billable.charges(), Err(MoneyError::Range));
}

fn any_terms() -> impl Strategy<Value = LeaseTerms> {
    let unit = prop::sample::select(BillingUnit::ALL);
    let kind = prop::sample::select(LeaseKind::ALL);
    let prices =
        prop::collection::vec((0_i64..5_000_000, 0_i128..9_000_000_000, any::<bool>()), 0..4);
    let tail = (any::<bool>(), 1_u8..=28, prop::option::of(0_u32..300_000));
    (unit, kind, prices, tail, 1_u32..9).prop_map(|(unit, kind, prices, tail, count)| {
        let start = at("2026-02-20T03:17");
        let mut from = start.plus_ms(-1_000_000);
        let prices = prices.into_iter().map(|(step, nanos, monthly)| {
            from = from.plus_ms(step * 200 + 1);
            let unit = if monthly { PriceUnit::Month } else { PriceUnit::GpuHour };
            Price { from, amount: Money { nanos, currency: "USD".parse().unwrap() }, unit }
        });
        LeaseTerms {
            kind,
            gpu_count: count,
            starts_at: start,
            prices: prices.collect(),
            fees: vec![Fee {
                name: "disk".to_owned(),
                amount: "7.31 USD".parse().unwrap(),
                cycle: FeeCycle::Month,
            }],
            billing: Billing { unit, stop_ends_billing: tail.0, month_day: tail.1 },
            tax_ppm: tail.2,
            zone: Zone::parse("America/Los_Angeles").unwrap(),
            ..sample_terms()
        }
    })
}

fn any_sessions() -> impl Strategy<Value = Vec<BillingSession>> {
    prop::collection::vec((0_i64..4_000_000_000, 1_i64..90_000_000), 0..6).prop_map(|list| {
        let start = at("2026-02-20T03:17");
        let session = |(from, ms): (i64, i64)| BillingSession {
            starts_at: start.plus_ms(from),
            ends_at: Some(start.plus_ms(from + ms)),
            source: SessionSource::Hand,
        };
        list.into_iter().map(session).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Any split of a window adds up to the window, and so do its days and their tax.
    #[test]
    fn windows_and_days_add_up(
        terms in any_terms(),
        sessions in any_sessions(),
        cuts in prop::collection::vec(0_i64..5_000_000_000, 1..6),
    ) {
        let start = at("2026-02-19T00:00");
        let until = start.plus_ms(4_800_000_000);
        let charges = Billable { terms: &terms, sessions: &sessions, until }.charges().unwrap();
        let whole = Period::new(start, start.plus_ms(5_000_000_000));
        let mut bounds: Vec<_> = cuts.into_iter().map(|cut| start.plus_ms(cut)).collect();
        bounds.extend([whole.start, whole.end]);
        bounds.sort_unstable();
        let parts = bounds.windows(2).map(|pair| charges.within(Period::new(pair[0], pair[1])).nanos);
        prop_assert_eq!(parts.sum::<i128>(), charges.within(whole).nanos);
        let days = charges.days(whole, terms.zone).unwrap();
        prop_assert_eq!(days.iter().map(|day| day.net.nanos).sum::<i128>(), charges.within(whole).nanos);
        let tax: Option<Vec<_>> = days.iter().map(|day| day.tax.map(|tax| tax.nanos)).collect();
        let of_whole = charges.tax_within(whole).unwrap().map(|tax| tax.nanos);
        prop_assert_eq!(tax.map(|tax| tax.iter().sum::<i128>()), of_whole);
    }
}
