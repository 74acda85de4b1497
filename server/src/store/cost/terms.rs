//! Terms as the column `lease_terms.terms` holds them.

use std::collections::BTreeMap;
use std::str::FromStr;

use leasewatch_core::id::Slug;
use leasewatch_core::lease::{
    Billing, BillingUnit, Fee, FeeCycle, Label, LeaseKind, LeaseTerms, Minima, Price, PriceUnit,
    ProfileRef, Share, ShareKind,
};
use leasewatch_core::money::{Currency, Money};
use leasewatch_core::time::{Timestamp, Zone};
use serde::Deserialize;

#[derive(Deserialize)]
struct Written {
    name: String,
    provider: String,
    product: Option<String>,
    kind: Option<String>,
    share_kind: Option<String>,
    share: Option<String>,
    region: Option<String>,
    instance: Option<String>,
    machine: Option<String>,
    order: Option<String>,
    gpu_model: String,
    gpu_count: u32,
    currency: String,
    tax: Option<String>,
    starts_at: String,
    ends_at: Option<String>,
    auto_release_at: Option<String>,
    zone: Option<String>,
    billing_unit: Option<String>,
    #[serde(default)]
    stop_ends_billing: bool,
    month_day: Option<u8>,
    profile: Option<WrittenProfile>,
    #[serde(default)]
    minima: WrittenMinima,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    prices: Vec<WrittenPrice>,
    #[serde(default)]
    fees: Vec<WrittenFee>,
}

#[derive(Deserialize)]
struct WrittenPrice {
    from: Option<String>,
    amount: String,
    unit: String,
}

#[derive(Deserialize)]
struct WrittenFee {
    name: String,
    amount: String,
    cycle: String,
}

#[derive(Deserialize)]
struct WrittenProfile {
    id: String,
    version: u32,
}

#[derive(Default, Deserialize)]
struct WrittenMinima {
    power_limit_mw: Option<i64>,
    memory_mib: Option<i64>,
    sm_clock_mhz: Option<i64>,
    pcie_generation: Option<i64>,
    pcie_width: Option<i64>,
    nvlinks: Option<i64>,
}

/// Reads terms; an error says what of them is not understood.
pub(super) fn read(text: &str) -> Result<LeaseTerms, String> {
    let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let currency: Currency = parsed("currency", &written.currency)?;
    let starts_at = at("starts_at", &written.starts_at)?;
    let maybe_at = |name, text: &Option<String>| text.as_deref().map(|t| at(name, t)).transpose();
    let prices = written.prices.iter().map(|price| {
        Ok(Price {
            from: maybe_at("prices", &price.from)?.unwrap_or(starts_at),
            amount: money(&price.amount, currency)?,
            unit: named("unit", &price.unit, PriceUnit::from_name)?,
        })
    });
    let fees = written.fees.iter().map(|fee| {
        let amount = money(&fee.amount, currency)?;
        let cycle = named("cycle", &fee.cycle, FeeCycle::from_name)?;
        Ok(Fee { name: fee.name.clone(), amount, cycle })
    });
    let labels = written.labels.iter().map(|(name, value)| {
        let label = |text| Label::new(text).ok_or_else(|| format!("label {text:?}"));
        Ok((label(name)?, label(value)?))
    });
    let profile = written.profile.as_ref().map(|profile| {
        Ok::<_, String>(ProfileRef { id: slug(&profile.id)?, version: profile.version })
    });
    let share = Share {
        kind: or("share_kind", &written.share_kind, ShareKind::from_name, Share::WHOLE.kind)?,
        ppm: written.share.as_deref().map_or(Ok(Share::WHOLE.ppm), ratio)?,
    };
    let minima = &written.minima;
    Ok(LeaseTerms {
        name: slug(&written.name)?,
        provider: slug(&written.provider)?,
        kind: or("kind", &written.kind, LeaseKind::from_name, LeaseKind::Reserved)?,
        share,
        currency,
        tax_ppm: written.tax.as_deref().map(ratio).transpose()?,
        starts_at,
        ends_at: maybe_at("ends_at", &written.ends_at)?,
        auto_release_at: maybe_at("auto_release_at", &written.auto_release_at)?,
        prices: prices.collect::<Result<_, String>>()?,
        fees: fees.collect::<Result<_, String>>()?,
        billing: Billing {
            unit: or(
                "billing_unit",
                &written.billing_unit,
                BillingUnit::from_name,
                BillingUnit::Second,
            )?,
            stop_ends_billing: written.stop_ends_billing,
            month_day: written.month_day.unwrap_or(1),
        },
        minima: Minima {
            power_limit_mw: minima.power_limit_mw,
            memory_mib: minima.memory_mib,
            sm_clock_mhz: minima.sm_clock_mhz,
            pcie_generation: minima.pcie_generation,
            pcie_width: minima.pcie_width,
            nvlinks: minima.nvlinks,
        },
        profile: profile.transpose()?,
        zone: Zone::parse(written.zone.as_deref().unwrap_or("UTC")).map_err(|e| e.to_string())?,
        labels: labels.collect::<Result<_, String>>()?,
        product: written.product.unwrap_or_else(|| written.gpu_model.clone()),
        region: written.region,
        instance: written.instance,
        machine: written.machine,
        order: written.order,
        gpu_model: written.gpu_model,
        gpu_count: written.gpu_count,
    })
}

fn parsed<T: FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} {text:?}"))
}

fn slug(text: &str) -> Result<Slug, String> {
    parsed("name", text)
}

fn at(name: &str, text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_iso(text).ok_or_else(|| format!("{name} {text:?}"))
}

fn money(text: &str, currency: Currency) -> Result<Money, String> {
    Money::parse(text, currency).map_err(|error| error.to_string())
}

fn named<T>(name: &str, text: &str, find: fn(&str) -> Option<T>) -> Result<T, String> {
    find(text).ok_or_else(|| format!("{name} {text:?}"))
}

fn or<T>(
    name: &str,
    text: &Option<String>,
    find: fn(&str) -> Option<T>,
    default: T,
) -> Result<T, String> {
    text.as_deref().map_or(Ok(default), |text| named(name, text, find))
}

/// A ratio such as `0.13` in millionths.
fn ratio(text: &str) -> Result<u32, String> {
    let wrong = || format!("ratio {text:?}");
    let currency: Currency = parsed("currency", "XXX")?;
    let nanos = Money::parse(text, currency).map_err(|_| wrong())?.nanos;
    u32::try_from(nanos / 1_000).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let text = r#"{"version": 1, "name": "a", "provider": "p", "gpu_model": "H100", "gpu_count": 8,
            "currency": "USD", "starts_at": "2026-10-01T00:00:00.000Z", "tax": "0.13",
            "prices": [{"amount": "2.49", "unit": "gpu_hour"}], "labels": {"team": "nlp"}}"#;
        let terms = read(text).unwrap();
        assert_eq!(terms.prices[0].amount.to_string(), "2.49 USD");
        assert_eq!(terms.prices[0].from, terms.starts_at);
        assert_eq!((terms.tax_ppm, terms.share), (Some(130_000), Share::WHOLE));
        assert_eq!((terms.product.as_str(), terms.kind), ("H100", LeaseKind::Reserved));
        assert_eq!(terms.faults(), []);
        assert!(read(r#"{"name": "a"}"#).is_err());
    }
}
