//! From columns to core's types and back, with errors that name table and column.

use std::str::FromStr;

use leasewatch_core::segment::Origin;
use leasewatch_core::time::Hour;

use super::StoreError;

/// A column of a table, as errors name it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column(pub(super) &'static str, pub(super) &'static str);

impl Column {
    pub(super) fn wrong(self, problem: impl ToString) -> StoreError {
        StoreError::Inconsistent { table: self.0, column: self.1, problem: problem.to_string() }
    }

    pub(super) fn array<const N: usize>(self, bytes: &[u8]) -> Result<[u8; N], StoreError> {
        bytes.try_into().map_err(|_| self.wrong(format!("{} bytes instead of {N}", bytes.len())))
    }

    pub(super) fn parsed<T: FromStr<Err: ToString>>(self, text: &str) -> Result<T, StoreError> {
        text.parse().map_err(|error: T::Err| self.wrong(error.to_string()))
    }

    /// A number that is narrower or unsigned in core.
    pub(super) fn number<T, U: TryFrom<T>>(self, value: T) -> Result<U, StoreError> {
        U::try_from(value).map_err(|_| self.wrong("out of range"))
    }

    pub(super) fn origin(self, name: &str) -> Result<Origin, StoreError> {
        self.named(name, Origin::from_name)
    }

    pub(super) fn named<T>(self, name: &str, find: fn(&str) -> Option<T>) -> Result<T, StoreError> {
        find(name).ok_or_else(|| self.wrong(format!("{name:?} is not a known name")))
    }
}

/// A number of core as the narrower one of a column.
pub(super) fn fitted<T, U: TryFrom<T>>(value: T, what: &'static str) -> Result<U, StoreError> {
    U::try_from(value).map_err(|_| StoreError::OutOfRange { what })
}

/// An hour as its column holds it.
pub(super) fn hour_column(hour: Hour) -> Result<i32, StoreError> {
    fitted(hour.0, "hour")
}
