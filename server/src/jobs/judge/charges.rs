//! What a unit and its lease cost in a window, as far as the lease's price history says. For
//! credits alone, which are estimates; costs have their own rule.

use leasewatch_core::availability::StateStretch;
use leasewatch_core::lease::{LeaseTerms, Price, PriceUnit};
use leasewatch_core::money::{Money, MoneyError};
use leasewatch_core::sla::window::Window;
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};

/// Amounts of one window.
pub(super) struct Amounts {
    /// What the unit cost.
    pub(super) unit: Option<Money>,
    /// What the lease cost.
    pub(super) lease: Option<Money>,
    /// The unit's price of an hour.
    pub(super) hourly: Option<Money>,
}

/// `unit` and `all` are the states of the unit's slots and of every slot of the lease. An amount
/// that the terms do not say, or that does not fit, is not known.
pub(super) fn amounts(
    terms: &LeaseTerms,
    window: Window,
    unit: &[&[StateStretch]],
    all: &[&[StateStretch]],
) -> Amounts {
    let at = window.period.start.max(terms.starts_at);
    let hourly = in_force(&terms.prices, at).and_then(|price| hourly(terms, price, window));
    let slots = i64::try_from(unit.len()).unwrap_or(i64::MAX);
    Amounts {
        unit: charge(terms, window, unit, all).ok().flatten(),
        lease: charge(terms, window, all, all).ok().flatten(),
        hourly: hourly.and_then(|money| money.times(slots, 1).ok()),
    }
}

/// The price that holds at `at`.
fn in_force(prices: &[Price], at: Timestamp) -> Option<&Price> {
    prices.iter().rev().find(|price| price.from <= at)
}

/// The price of one slot for one hour.
fn hourly(terms: &LeaseTerms, price: &Price, window: Window) -> Option<Money> {
    match price.unit {
        PriceUnit::GpuHour => Some(price.amount),
        PriceUnit::Month => {
            let slots = i64::from(terms.gpu_count.max(1));
            price.amount.times(HOUR_MS, window.whole.ms().max(1).checked_mul(slots)?).ok()
        }
    }
}

/// What these slots cost: GPU-hours by the price that held then; of a monthly price, their share of
/// the contracted time.
fn charge(
    terms: &LeaseTerms,
    window: Window,
    slots: &[&[StateStretch]],
    all: &[&[StateStretch]],
) -> Result<Option<Money>, MoneyError> {
    let mut sum = None;
    for (index, price) in terms.prices.iter().enumerate() {
        let until = terms.prices.get(index + 1).map_or(Timestamp::MAX, |next| next.from);
        let part = Period::new(price.from, until).intersect(window.period);
        let ms = contracted_ms(slots, part);
        if ms == 0 {
            continue;
        }
        let amount = match price.unit {
            PriceUnit::GpuHour => price.amount.times(ms, HOUR_MS)?,
            PriceUnit::Month => {
                let time = price.amount.times(part.ms(), window.whole.ms().max(1))?;
                time.times(ms, contracted_ms(all, part).max(1))?
            }
        };
        sum = Some(match sum {
            Some(sum) => amount.plus(sum)?,
            None => amount,
        });
    }
    Ok(sum)
}

fn contracted_ms(slots: &[&[StateStretch]], period: Period) -> i64 {
    slots.iter().flat_map(|slot| slot.iter()).map(|s| s.period.intersect(period).ms()).sum()
}
