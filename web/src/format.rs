//! Numbers with units, missing values and times, as people read them.
//!
//! A [`Quantity`] is the only way a number with a unit reaches a template, a [`Measure`] is a
//! quantity or the reason why there is none. Everything is integer arithmetic, rounded half to
//! even; nothing here knows about HTML.

mod measure;
mod money;
mod quantity;
mod time;

pub use measure::{Datum, Measure, Measured, Missing};
pub use money::money;
pub use quantity::{Quantity, div_half_even, group};
pub use time::{Detail, clock, clock_second, day, iso_date, iso_local, local_date, moment, offset};
