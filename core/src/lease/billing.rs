//! Prices over time, fees, and how time is counted for the bill.

use crate::money::Money;
use crate::time::Timestamp;

/// What a price is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PriceUnit {
    /// One GPU for one hour.
    GpuHour,
    /// The whole lease for one billing month.
    Month,
}

/// A price and the moment from which it holds. The latest one that has begun counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// From when.
    pub from: Timestamp,
    /// How much, without tax.
    pub amount: Money,
    /// For what.
    pub unit: PriceUnit,
}

/// How often a fee is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FeeCycle {
    /// Once, at the lease's start.
    Once,
    /// Each billing month.
    Month,
    /// Each hour in which the instance runs.
    RunningHour,
    /// Each hour in which the instance is stopped and kept.
    StoppedHour,
}

/// A fee that is not for a GPU: disk, traffic, an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fee {
    /// What for, in the words of whoever entered it.
    pub name: String,
    /// How much, without tax.
    pub amount: Money,
    /// How often.
    pub cycle: FeeCycle,
}

/// In which pieces time is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BillingUnit {
    /// Each second.
    Second,
    /// Each started minute.
    Minute,
    /// Each started hour.
    StartedHour,
    /// Hours paid in advance; what is not used is not given back.
    PrepaidHour,
    /// The lease's whole term, used or not.
    Term,
}

/// How time becomes an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Billing {
    /// The pieces.
    pub unit: BillingUnit,
    /// Whether stopping the instance ends billing; if not, it is billed until it is released.
    pub stop_ends_billing: bool,
    /// Day of the month, 1 to 28, on which a billing month begins.
    pub month_day: u8,
}

impl Default for Billing {
    fn default() -> Self {
        Self { unit: BillingUnit::Second, stop_ends_billing: false, month_day: 1 }
    }
}

macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal,)+ }) => {
        impl $type {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in files, forms and the database.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The value with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}
pub(super) use names;

names!(PriceUnit { GpuHour = "gpu_hour", Month = "month", });
names!(FeeCycle {
    Once = "once",
    Month = "month",
    RunningHour = "running_hour",
    StoppedHour = "stopped_hour",
});
names!(BillingUnit {
    Second = "second",
    Minute = "minute",
    StartedHour = "started_hour",
    PrepaidHour = "prepaid_hour",
    Term = "term",
});
