//! Which changes an apply may commit, by example.

use super::*;
use crate::domain::address::Address;

fn row(address: &str, instance: &str) -> Row {
    let text = format!(r#"{{"mode":"managed","type":"x","name":"a","provider":"p","instances":[{instance}]}}"#);
    Row { key: RowKey::object(Address::parse(address).unwrap()), body: Body::new(text).unwrap() }
}

fn body(instance: &str) -> Body {
    row("x.a", instance).body
}

#[test]
fn a_row_that_is_written_differently_is_the_same() {
    let a = body(r#"{"attributes":{"n":1,"s":"x"},"dependencies":["x.b","x.c"],"sensitive_attributes":[1,2]}"#);
    let b = body(r#"{"sensitive_attributes":[2,1],"dependencies":["x.c","x.b"],"attributes":{"s":"x","n":1.0}}"#);
    assert_eq!(distance(&a, &b).unwrap(), Distance::Same);
}

#[test]
fn metadata_is_soft_and_attributes_are_not() {
    let base = body(r#"{"schema_version":0,"attributes":{"n":1},"dependencies":["x.b"]}"#);
    let soft = [
        r#"{"schema_version":0,"attributes":{"n":1},"dependencies":["x.c"]}"#,
        r#"{"schema_version":1,"attributes":{"n":1},"dependencies":["x.b"],"private":"eA=="}"#,
        r#"{"schema_version":0,"attributes":{"n":1},"create_before_destroy":true}"#,
    ];
    for instance in soft {
        assert_eq!(distance(&base, &body(instance)).unwrap(), Distance::Soft, "{instance}");
    }
    for instance in [r#"{"attributes":{"n":2},"dependencies":["x.b"]}"#, r#"{"status":"tainted","attributes":{"n":1}}"#]
    {
        assert_eq!(distance(&base, &body(instance)).unwrap(), Distance::Hard, "{instance}");
    }
}

#[test]
fn changes_are_sorted_by_who_may_make_them() {
    let before = [
        row("x.w", r#"{"attributes":{"n":1}}"#),
        row("x.soft", r#"{"attributes":{"n":1}}"#),
        row("x.drift", r#"{"attributes":{"n":1}}"#),
        row("data.x.d", r#"{"attributes":{"n":1}}"#),
        row("x.gone", r#"{"attributes":{"n":1}}"#),
    ];
    let after = [
        row("x.w", r#"{"attributes":{"n":2}}"#),
        row("x.soft", r#"{"attributes":{"n":1},"dependencies":["x.w"]}"#),
        row("x.drift", r#"{"attributes":{"n":7}}"#),
        row("data.x.d", r#"{"attributes":{"n":2}}"#),
        row("x.surprise", r#"{"attributes":{"n":1}}"#),
    ];
    let write = [Pattern::parse("x.w").unwrap()];
    let found = delta(&before, &after, &write, &BTreeSet::from(["x.drift".to_owned()])).unwrap();
    let names = |changes: &[Change]| changes.iter().map(|change| change.key.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&found.writes), ["x.w"]);
    assert_eq!(names(&found.soft), ["x.soft", "data.x.d"].map(str::to_owned).to_vec());
    assert_eq!(names(&found.drift), ["x.drift"]);
    assert_eq!(names(&found.violations), ["x.gone", "x.surprise"]);
}

#[test]
fn an_instance_key_is_part_of_the_write_set() {
    let before = [row("x.w[\"a\"]", r#"{"attributes":{"n":1}}"#), row("x.w[\"b\"]", r#"{"attributes":{"n":1}}"#)];
    let after = [row("x.w[\"a\"]", r#"{"attributes":{"n":2}}"#), row("x.w[\"b\"]", r#"{"attributes":{"n":2}}"#)];
    let found = delta(&before, &after, &[Pattern::parse("x.w[\"a\"]").unwrap()], &BTreeSet::new()).unwrap();
    assert_eq!((found.writes.len(), found.violations.len()), (1, 1));
}

#[test]
fn checks_that_were_not_evaluated_say_nothing() {
    let check = |status: &str| Row {
        key: RowKey::Check { object_kind: "check".into(), config_address: "check.c".into() },
        body: Body::new(format!(r#"{{"object_kind":"check","status":"{status}"}}"#)).unwrap(),
    };
    let none = BTreeSet::new();
    assert!(delta(&[check("pass")], &[check("unknown")], &[], &none).unwrap().soft.is_empty());
    assert_eq!(delta(&[check("pass")], &[check("fail")], &[], &none).unwrap().soft.len(), 1);
}

#[test]
fn a_check_that_is_gone_is_no_longer_declared() {
    let key = RowKey::Check { object_kind: "check".into(), config_address: "check.c".into() };
    let check = Row { key: key.clone(), body: Body::new(r#"{"object_kind":"check","status":"pass"}"#).unwrap() };
    let found = delta(&[check], &[], &[], &BTreeSet::new()).unwrap();
    assert_eq!(found.soft.len(), 1);
    assert_eq!((&found.soft[0].key, &found.soft[0].after), (&key, &None));
}
