//! Building a statement, field by field.

use std::collections::BTreeMap;
use std::fmt;

use super::StatementKind;
use crate::evidence::canonical::Value;
use crate::time::Timestamp;

/// The fields of a statement, or of an object inside one, before they are written.
///
/// ```
/// use leasewatch_core::evidence::statement::{StatementBuilder, StatementKind};
///
/// let bytes = StatementBuilder::new(StatementKind::Hour)
///     .text("tenant", "default")
///     .int("measured_ms", 3_600_000)
///     .opt_int("busy_max_pct", None)
///     .object("gaps", StatementBuilder::object_of().int("lost_ms", 0))
///     .to_bytes();
/// assert_eq!(
///     bytes,
///     br#"{"gaps":{"lost_ms":0},"kind":"hour","measured_ms":3600000,"tenant":"default"}"#
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct StatementBuilder {
    fields: BTreeMap<String, Value>,
}

impl StatementBuilder {
    /// A statement of a kind.
    pub fn new(kind: StatementKind) -> Self {
        Self::default().text("kind", kind.name())
    }

    /// An object without a kind, to be put into a statement.
    pub fn object_of() -> Self {
        Self::default()
    }

    /// A text. A field that is set twice keeps the later value.
    pub fn text(self, name: &'static str, text: &str) -> Self {
        self.value(name, Value::Str(text.to_owned()))
    }

    /// Something that has one textual form: ids, hashes, slugs.
    pub fn id(self, name: &'static str, id: impl fmt::Display) -> Self {
        self.value(name, Value::Str(id.to_string()))
    }

    /// An integer. Beyond 2^53 - 1 it makes a statement that no reader accepts: counters that can
    /// pass it are written with [`Self::decimal`].
    pub fn int(self, name: &'static str, number: impl Into<i64>) -> Self {
        self.value(name, Value::Int(number.into()))
    }

    /// A number that can pass 2^53, as decimal text.
    pub fn decimal(self, name: &'static str, number: impl Into<i128>) -> Self {
        self.value(name, Value::Str(number.into().to_string()))
    }

    /// An instant in milliseconds since 1970.
    pub fn time(self, name: &'static str, at: Timestamp) -> Self {
        self.value(name, Value::Int(at.0))
    }

    /// True or false.
    pub fn flag(self, name: &'static str, flag: bool) -> Self {
        self.value(name, Value::Bool(flag))
    }

    /// An object.
    pub fn object(self, name: &'static str, object: Self) -> Self {
        self.value(name, object.into_value())
    }

    /// A list of integers.
    pub fn ints(self, name: &'static str, numbers: impl IntoIterator<Item = i64>) -> Self {
        self.value(name, Value::Array(numbers.into_iter().map(Value::Int).collect()))
    }

    /// A list of objects.
    pub fn objects(self, name: &'static str, objects: impl IntoIterator<Item = Self>) -> Self {
        self.value(name, Value::Array(objects.into_iter().map(Self::into_value).collect()))
    }

    /// A text, or no such field.
    pub fn opt_text(self, name: &'static str, text: Option<&str>) -> Self {
        self.opt(text, |fields, text| fields.text(name, text))
    }

    /// An id, or no such field.
    pub fn opt_id(self, name: &'static str, id: Option<impl fmt::Display>) -> Self {
        self.opt(id, |fields, id| fields.id(name, id))
    }

    /// An integer, or no such field.
    pub fn opt_int(self, name: &'static str, number: Option<i64>) -> Self {
        self.opt(number, |fields, number| fields.int(name, number))
    }

    /// An object, or no such field.
    pub fn opt_object(self, name: &'static str, object: Option<Self>) -> Self {
        self.opt(object, |fields, object| fields.object(name, object))
    }

    /// Any value.
    pub fn value(mut self, name: &'static str, value: Value) -> Self {
        self.fields.insert(name.to_owned(), value);
        self
    }

    /// The fields as a value.
    #[must_use]
    pub fn into_value(self) -> Value {
        Value::Object(self.fields)
    }

    /// The canonical bytes.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        self.into_value().to_bytes()
    }

    fn opt<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }
}
