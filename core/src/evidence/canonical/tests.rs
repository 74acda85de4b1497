use super::*;
use proptest::prelude::*;

const MAX: usize = 100_000;

fn parse(text: &str) -> Result<Value, CanonicalError> {
    Value::parse(text.as_bytes(), MAX)
}

/// The same value for serde_json. For these values (no floats, ASCII keys) its compact form with
/// sorted keys is RFC 8785's form.
fn to_serde(value: &Value) -> serde_json::Value {
    match value {
        Value::Str(text) => text.as_str().into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Array(items) => items.iter().map(to_serde).collect(),
        Value::Object(fields) => serde_json::Value::Object(
            fields.iter().map(|(key, value)| (key.clone(), to_serde(value))).collect(),
        ),
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::Str),
        "[\\x00-\\x7f]{0,12}".prop_map(Value::Str),
        any::<bool>().prop_map(Value::Bool),
        (-INT_MAX..=INT_MAX).prop_map(Value::Int),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map("[a-z0-9_]{1,6}", inner, 0..6).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #[test]
    fn writing_agrees_with_an_independent_writer_and_reads_back(value in values()) {
        let bytes = value.to_bytes();
        prop_assert_eq!(&bytes, &serde_json::to_vec(&to_serde(&value)).unwrap());
        prop_assert_eq!(Value::parse(&bytes, MAX), Ok(value));
    }

    #[test]
    fn whatever_is_read_is_written_as_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(value) = Value::parse(&bytes, MAX) {
            prop_assert_eq!(value.to_bytes(), bytes);
        }
    }

    #[test]
    fn one_changed_byte_never_reads_as_another_spelling(value in values(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = value.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(other) = Value::parse(&bytes, MAX) {
            prop_assert_eq!(other.to_bytes(), bytes);
        }
    }

    /// JSON-like noise reaches deeper than random bytes do.
    #[test]
    fn noise_of_json_tokens_never_panics(text in "([\\[\\]{}:,\"\\\\u0019afbntr/ -]|true|false|null|é|\\PC){0,30}") {
        if let Ok(value) = parse(&text) {
            prop_assert_eq!(value.to_bytes(), text.into_bytes());
        }
    }
}

#[test]
fn other_spellings_are_refused() {
    let refused = [
        "",
        " 1",
        "1 ",
        "01",
        "-0",
        "-",
        "+1",
        "1.0",
        "1e3",
        "9007199254740992",
        "-9007199254740992",
        "99999999999999999999",
        "null",
        "True",
        "{\"a\": 1}",
        "{\"b\":1,\"a\":1}",
        "{\"a\":1,\"a\":1}",
        "{\"A\":1}",
        "{\"\":1}",
        "{\"a\":1,}",
        "[1,]",
        "[1",
        "\"\\/\"",
        "\"\\u0041\"",
        "\"\\u000A\"",
        "\"\\u000a\"",
        "\"\\u001F\"",
        "\"\\ud83d\\ude00\"",
        "\"\n\"",
        "\"a",
        "'a'",
        "truefalse",
        "\"\\u0020\"",
        "\"\\u00é\"",
    ];
    for text in refused {
        assert!(parse(text).is_err(), "{text}");
    }
    assert_eq!(Value::parse(b"\"\xff\"", MAX), Err(CanonicalError::Utf8));
}

#[test]
fn the_bounds_are_the_documented_ones() {
    assert_eq!(parse("9007199254740991"), Ok(Value::Int(INT_MAX)));
    assert_eq!(parse("-9007199254740991"), Ok(Value::Int(-INT_MAX)));
    assert_eq!(parse("\"\\u001f\\b\u{7f}\""), Ok(Value::Str("\u{1f}\u{8}\u{7f}".into())));
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(parse(&nested(DEPTH_MAX + 1)), Err(CanonicalError::Depth { at: DEPTH_MAX }));
    assert!(parse(&"[".repeat(MAX)).is_err());
    assert_eq!(Value::parse(b"true", 3), Err(CanonicalError::TooLong { got: 4, max: 3 }));
}
