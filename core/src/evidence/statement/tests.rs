use super::*;
use crate::id::{NodeId, Slug};
use crate::time::Timestamp;

const MAX: usize = 1_000;

fn fields(json: &str) -> Fields {
    Fields::of_statement(StatementKind::Hour, json.as_bytes(), MAX).unwrap()
}

#[test]
fn kinds_have_names_of_their_own() {
    let names: std::collections::BTreeSet<_> =
        StatementKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), StatementKind::ALL.len());
}

#[test]
fn what_is_built_reads_back() {
    let gap = |cause, ms| StatementBuilder::object_of().text("cause", cause).int("ms", ms);
    let bytes = StatementBuilder::new(StatementKind::Hour)
        .id("node", NodeId([7; 16]))
        .time("start", Timestamp::MIN)
        .decimal("energy_mj", i64::MAX)
        .flag("complete", true)
        .ints("histogram", [3, 0, 5])
        .objects("gaps", [gap("lost", 5), gap("stalled", 9)])
        .object("clock", StatementBuilder::object_of().opt_int("offset_ms", None))
        .opt_text("note", Some("a"))
        .opt_id("lease", None::<Slug>)
        .to_bytes();
    let mut fields = Fields::of_statement(StatementKind::Hour, &bytes, MAX).unwrap();
    assert_eq!(fields.id("node"), Ok(NodeId([7; 16])));
    assert_eq!(fields.time("start"), Ok(Timestamp::MIN));
    assert_eq!(fields.decimal("energy_mj"), Ok(i64::MAX.into()));
    assert_eq!(fields.flag("complete"), Ok(true));
    assert_eq!(fields.array("histogram", 3).unwrap().len(), 3);
    let gaps = fields.array("gaps", 2).unwrap();
    let mut last = Fields::of_value("gaps", gaps[1].clone()).unwrap();
    assert_eq!(last.text("cause", 10), Ok("stalled".into()));
    assert_eq!(last.count("ms"), Ok(9));
    assert_eq!(last.finish(), Ok(()));
    assert_eq!(fields.object("clock").unwrap().finish(), Ok(()));
    assert_eq!(fields.opt_text("note", 1), Ok(Some("a".into())));
    assert_eq!(fields.opt_id::<Slug>("lease"), Ok(None));
    assert_eq!(fields.finish(), Ok(()));
}

#[test]
fn errors_name_the_field() {
    let statement =
        r#"{"kind":"hour","list":[1],"ms":-5,"name":"a\u0007","node":"AB","other":"01"}"#;
    let mut fields = fields(statement);
    assert_eq!(fields.int("absent", 0..=1), Err(StatementError::Missing { field: "absent" }));
    let not_a_text = StatementError::Type { field: "ms", expected: "a text" };
    assert_eq!(fields.text("ms", 9), Err(not_a_text));
    let mut fields = self::fields(statement);
    assert_eq!(fields.count("ms"), Err(StatementError::Invalid { field: "ms" }));
    assert_eq!(fields.text("name", 9), Err(StatementError::Invalid { field: "name" }));
    assert_eq!(fields.id::<NodeId>("node"), Err(StatementError::Invalid { field: "node" }));
    assert_eq!(fields.array("list", 0), Err(StatementError::Invalid { field: "list" }));
    assert_eq!(fields.decimal("other"), Err(StatementError::Invalid { field: "other" }));
    assert_eq!(fields.finish(), Ok(()));
    let left = self::fields(r#"{"a":1,"kind":"hour"}"#).finish();
    assert_eq!(left, Err(StatementError::Unknown { field: "a".into() }));
}

#[test]
fn only_the_expected_kind_is_read() {
    let kind = |json: &str| {
        Fields::of_statement(StatementKind::Hour, json.as_bytes(), MAX).map(|_| ()).unwrap_err()
    };
    for json in ["[]", "{}", r#"{"kind":"head"}"#, r#"{"kind":1}"#] {
        assert_eq!(kind(json), StatementError::Kind { expected: "hour" });
        assert_eq!(kind(json).code(), "bad_statement");
    }
    assert_eq!(kind(r#"{ "kind":"hour"}"#).code(), "not_canonical");
    let long = format!(r#"{{"kind":"hour","text":"{}"}}"#, "a".repeat(MAX));
    assert_eq!(kind(&long).code(), "not_canonical");
}
