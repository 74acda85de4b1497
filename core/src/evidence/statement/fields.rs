//! Reading a statement's fields: each one typed, each error with the field's name, and none left.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::StatementKind;
use crate::evidence::canonical::{CanonicalError, INT_MAX, Value};
use crate::id::clean_text;
use crate::time::Timestamp;

/// Why bytes are not a statement of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// Not the canonical form of any value.
    #[error("not canonical: {0}")]
    NotCanonical(#[from] CanonicalError),
    /// Not an object, or an object of another kind.
    #[error("not a statement of kind {expected}")]
    Kind {
        /// The kind that was expected.
        expected: &'static str,
    },
    /// A field is not there.
    #[error("field {field} is missing")]
    Missing {
        /// Its name.
        field: &'static str,
    },
    /// A field has another type than it has for ever.
    #[error("field {field} is not {expected}")]
    Type {
        /// Its name.
        field: &'static str,
        /// The type, in words.
        expected: &'static str,
    },
    /// A field's value is not allowed.
    #[error("field {field} is out of its range or has a form that is not allowed")]
    Invalid {
        /// Its name.
        field: &'static str,
    },
    /// A field that this kind does not have.
    #[error("unknown field {field}")]
    Unknown {
        /// Its name, as sent (it is of `[a-z0-9_]`), cut to 40 characters.
        field: String,
    },
}

impl StatementError {
    /// A stable code: `not_canonical` for another spelling, `bad_statement` for other content.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotCanonical(_) => "not_canonical",
            _ => "bad_statement",
        }
    }
}

/// The fields of an object that are not read yet. Each method takes its field out;
/// [`Fields::finish`] refuses what is left.
#[derive(Debug)]
#[must_use]
pub struct Fields {
    fields: BTreeMap<String, Value>,
}

impl Fields {
    /// Reads a statement of `kind` from at most `max_bytes` bytes.
    ///
    /// # Errors
    /// [`StatementError::NotCanonical`] or [`StatementError::Kind`].
    pub fn of_statement(
        kind: StatementKind,
        bytes: &[u8],
        max_bytes: usize,
    ) -> Result<Self, StatementError> {
        let wrong_kind = StatementError::Kind { expected: kind.name() };
        let Value::Object(fields) = Value::parse(bytes, max_bytes)? else {
            return Err(wrong_kind);
        };
        let mut fields = Self { fields };
        match fields.fields.remove("kind") {
            Some(Value::Str(found)) if found == kind.name() => Ok(fields),
            _ => Err(wrong_kind),
        }
    }

    /// The fields of an object that stands in another value under the name `field`.
    ///
    /// # Errors
    /// [`StatementError::Type`] when the value is not an object.
    pub fn of_value(field: &'static str, value: Value) -> Result<Self, StatementError> {
        match value {
            Value::Object(fields) => Ok(Self { fields }),
            _ => Err(StatementError::Type { field, expected: "an object" }),
        }
    }

    /// Refuses fields that nobody asked for.
    ///
    /// # Errors
    /// [`StatementError::Unknown`] with the first of them.
    pub fn finish(self) -> Result<(), StatementError> {
        match self.fields.into_keys().next() {
            Some(field) => Err(StatementError::Unknown { field: clean_text(&field, 40) }),
            None => Ok(()),
        }
    }

    /// A text of at most `max_chars` characters without active ones ([`clean_text`]).
    ///
    /// # Errors
    /// [`StatementError`], as for every method below: missing, of another type, or not allowed.
    pub fn text(
        &mut self,
        field: &'static str,
        max_chars: usize,
    ) -> Result<String, StatementError> {
        require(field, self.opt_text(field, max_chars)?)
    }

    /// The same, or `None` when there is no such field.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn opt_text(
        &mut self,
        field: &'static str,
        max_chars: usize,
    ) -> Result<Option<String>, StatementError> {
        match self.opt_raw_text(field)? {
            Some(text) if clean_text(&text, max_chars) != text => {
                Err(StatementError::Invalid { field })
            }
            text => Ok(text),
        }
    }

    /// An id or another type with one textual form.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn id<T: FromStr>(&mut self, field: &'static str) -> Result<T, StatementError> {
        require(field, self.opt_id(field)?)
    }

    /// The same, or `None` when there is no such field.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn opt_id<T: FromStr>(&mut self, field: &'static str) -> Result<Option<T>, StatementError> {
        let Some(text) = self.opt_raw_text(field)? else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| StatementError::Invalid { field })
    }

    /// One of a closed set of names.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn name<T>(
        &mut self,
        field: &'static str,
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<T, StatementError> {
        require(field, self.opt_name(field, from_name)?)
    }

    /// One of a closed set of names, if the field is there.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn opt_name<T>(
        &mut self,
        field: &'static str,
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, StatementError> {
        let text = self.opt_raw_text(field)?;
        text.map(|text| from_name(&text).ok_or(StatementError::Invalid { field })).transpose()
    }

    /// An integer in a range.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn int(
        &mut self,
        field: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<i64, StatementError> {
        require(field, self.opt_int(field, range)?)
    }

    /// The same, or `None` when there is no such field.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn opt_int(
        &mut self,
        field: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, StatementError> {
        match self.fields.remove(field) {
            None => Ok(None),
            Some(Value::Int(number)) if range.contains(&number) => Ok(Some(number)),
            Some(Value::Int(_)) => Err(StatementError::Invalid { field }),
            Some(_) => Err(StatementError::Type { field, expected: "an integer" }),
        }
    }

    /// A count, size or duration: an integer from 0 up.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn count(&mut self, field: &'static str) -> Result<i64, StatementError> {
        self.int(field, 0..=INT_MAX)
    }

    /// The same, or `None` when there is no such field.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn opt_count(&mut self, field: &'static str) -> Result<Option<i64>, StatementError> {
        self.opt_int(field, 0..=INT_MAX)
    }

    /// An integer that fits an unsigned type.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn unsigned<T: TryFrom<i64>>(&mut self, field: &'static str) -> Result<T, StatementError> {
        let number = self.count(field)?;
        T::try_from(number).map_err(|_| StatementError::Invalid { field })
    }

    /// A number that can pass 2^53, written as decimal text in its only form.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn decimal(&mut self, field: &'static str) -> Result<i128, StatementError> {
        let text = require(field, self.opt_raw_text(field)?)?;
        match text.parse::<i128>() {
            Ok(number) if number.to_string() == text => Ok(number),
            _ => Err(StatementError::Invalid { field }),
        }
    }

    /// An instant between [`Timestamp::MIN`] and [`Timestamp::MAX`].
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn time(&mut self, field: &'static str) -> Result<Timestamp, StatementError> {
        self.int(field, Timestamp::MIN.0..=Timestamp::MAX.0).map(Timestamp)
    }

    /// True or false.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn flag(&mut self, field: &'static str) -> Result<bool, StatementError> {
        match require(field, self.fields.remove(field))? {
            Value::Bool(flag) => Ok(flag),
            _ => Err(StatementError::Type { field, expected: "true or false" }),
        }
    }

    /// An object; read it to its own [`Fields::finish`].
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn object(&mut self, field: &'static str) -> Result<Self, StatementError> {
        require(field, self.opt_object(field)?)
    }

    /// The same, or `None` when there is no such field.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn opt_object(&mut self, field: &'static str) -> Result<Option<Self>, StatementError> {
        self.fields.remove(field).map(|value| Self::of_value(field, value)).transpose()
    }

    /// A list of at most `max` values.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn array(&mut self, field: &'static str, max: usize) -> Result<Vec<Value>, StatementError> {
        match require(field, self.fields.remove(field))? {
            Value::Array(items) if items.len() <= max => Ok(items),
            Value::Array(_) => Err(StatementError::Invalid { field }),
            _ => Err(StatementError::Type { field, expected: "a list" }),
        }
    }

    fn opt_raw_text(&mut self, field: &'static str) -> Result<Option<String>, StatementError> {
        match self.fields.remove(field) {
            None => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(_) => Err(StatementError::Type { field, expected: "a text" }),
        }
    }
}

fn require<T>(field: &'static str, value: Option<T>) -> Result<T, StatementError> {
    value.ok_or(StatementError::Missing { field })
}
