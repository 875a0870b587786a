//! What differs between two contents of a state, by example.

use super::*;
use crate::domain::state::document;

fn rows(resources: &str) -> Vec<Row> {
    let text = format!(
        r#"{{"version":4,"serial":1,"lineage":"l","outputs":{{"o":{{"value":{{"a":1}},"type":"x"}}}},"resources":[{resources}]}}"#
    );
    document::read(&text).unwrap().rows
}

fn block(name: &str, attributes: &str) -> String {
    format!(
        r#"{{"mode":"managed","type":"t","name":"{name}","provider":"p","instances":[{{"attributes":{attributes}}}]}}"#
    )
}

fn told(before: &[Row], after: &[Row], moves: &[(&str, &str)]) -> Vec<String> {
    let moves = moves.iter().map(|(from, to)| (Address::parse(from).unwrap(), Address::parse(to).unwrap())).collect();
    let one = |difference: &Difference| {
        let from = difference.moved_from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
        let paths: Vec<&str> = difference.attributes.iter().map(|one| one.path.as_str()).collect();
        format!("{} {}{from} {}", difference.touched.sign(), difference.key, paths.join(",")).trim_end().to_owned()
    };
    compare(before, after, &moves).iter().map(one).collect()
}

#[test]
fn created_changed_and_removed() {
    let before = rows(&[block("a", r#"{"x":1,"t":{"n":1,"m":2}}"#), block("b", "{}")].join(","));
    let after = rows(&[block("a", r#"{"x":1,"t":{"n":3,"m":2},"l":[1]}"#), block("c", "{}")].join(","));
    assert_eq!(told(&before, &after, &[]), ["~ t.a l,t.n", "- t.b", "+ t.c"]);
    assert_eq!(told(&before, &before, &[]), [] as [&str; 0]);
}

#[test]
fn a_move_on_record_is_no_end_and_no_beginning() {
    let before = rows(&block("a", r#"{"x":1}"#));
    let after = rows(&[block("a", r#"{"x":5}"#), block("b", r#"{"x":2}"#)].join(","));
    assert_eq!(told(&before, &after, &[("t.a", "t.b")]), ["+ t.a", "~ t.b from t.a x"]);
}

#[test]
fn an_object_is_recognised_at_another_address_when_there_is_no_other_like_it() {
    let before = rows(&block("a", r#"{"id":"i","x":1}"#));
    assert_eq!(told(&before, &rows(&block("b", r#"{"x":1,"id":"i"}"#)), &[]), ["~ t.b from t.a"]);
    let twins = [block("b", r#"{"id":"i","x":1}"#), block("c", r#"{"id":"i","x":1}"#)].join(",");
    assert_eq!(told(&before, &rows(&twins), &[]), ["- t.a", "+ t.b", "+ t.c"]);
    // Without an identity nothing is recognised.
    assert_eq!(told(&rows(&block("a", "{}")), &rows(&block("b", "{}")), &[]), ["- t.a", "+ t.b"]);
}

#[test]
fn an_object_that_moved_and_changed_is_recognised_by_its_id() {
    let before = rows(&[block("a", r#"{"id":"i","x":1}"#), block("b", r#"{"id":"j","x":1}"#)].join(","));
    let after = rows(&[block("c", r#"{"id":"j","x":2}"#), block("d", r#"{"id":"i","x":1}"#)].join(","));
    assert_eq!(told(&before, &after, &[]), ["~ t.c from t.b x", "~ t.d from t.a"]);
    let before = rows(&block("a", r#"{"id":"i","x":1}"#));
    // What is the same in everything comes first, and of two like it nobody knows which it was.
    let rivals = [block("c", r#"{"id":"i","x":2}"#), block("d", r#"{"id":"i","x":1}"#)].join(",");
    assert_eq!(told(&before, &rows(&rivals), &[]), ["+ t.c", "~ t.d from t.a"]);
    let rivals = rivals.replace("\"x\":1", "\"x\":3");
    assert_eq!(told(&before, &rows(&rivals), &[]), ["- t.a", "+ t.c", "+ t.d"]);
    // Not by an id that is none, nor across types or providers.
    for other in [
        block("c", r#"{"id":"","x":2}"#),
        block("c", r#"{"id":"i","x":2}"#).replace(r#""type":"t""#, r#""type":"u""#),
        block("c", r#"{"id":"i","x":2}"#).replace(r#""provider":"p""#, r#""provider":"p.west""#),
    ] {
        let told = told(&before, &rows(&other), &[]);
        assert_eq!(told.len(), 2, "{other}: {told:?}");
    }
}

#[test]
fn a_version_has_moved_what_is_gone_here_and_new_there() {
    let removed = rows(&[block("a", r#"{"id":"i","x":1}"#), block("b", r#"{"id":"j","x":1}"#)].join(","));
    let created = rows(&[block("c", r#"{"id":"j","x":1}"#), block("d", r#"{"id":"k","x":1}"#)].join(","));
    let found: Vec<String> = moved(&removed, &created).iter().map(|(from, to)| format!("{from}>{to}")).collect();
    assert_eq!(found, ["t.b>t.c"]);
}

#[test]
fn values_are_masked_when_either_side_is_sensitive() {
    let body = |attributes: &str, sensitive: &str| {
        Body::new(format!(r#"{{"instances":[{{"attributes":{attributes},"sensitive_attributes":[{sensitive}]}}]}}"#))
            .unwrap()
    };
    let path = r#"[{"type":"get_attr","value":"a"}]"#;
    let plain = body(r#"{"a":"first secret","b":{"value":1,"type":"number"}}"#, "");
    let secret = body(r#"{"a":"other secret","b":{"value":"first","type":"string"},"c":"other secret"}"#, path);
    for (before, after) in [(&plain, &secret), (&secret, &plain)] {
        let found = differing(before, after);
        let shown = format!("{found:?}");
        assert!(!shown.contains("first secret") && !shown.contains("other secret"), "{shown}");
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["a", "b", "c"]);
        assert_eq!(found[0].before, Some(format!("\"{MASK}\"")));
    }
    let number = &differing(&plain, &secret)[1];
    assert_eq!((number.before.as_deref(), number.after.as_deref()), (Some("1"), Some("\"first\"")));
}

#[test]
fn what_is_no_attribute_is_told_beside_those_that_differ() {
    let body = |x: u32, provider: &str, more: &str| {
        Body::new(format!(r#"{{"provider":"{provider}","instances":[{{"attributes":{{"x":{x}}}{more}}}]}}"#)).unwrap()
    };
    let told = |before: &Body, after: &Body| {
        differing(before, after).into_iter().map(|one| one.path).collect::<Vec<_>>().join(" ")
    };
    let plain = body(1, "p", "");
    let tainted = r#","status":"tainted""#;
    for (after, expected) in [
        (body(1, "p", r#","dependencies":["t.a"]"#), "(dependencies)"),
        (body(2, "p", r#","dependencies":["t.a"]"#), "x (dependencies)"),
        (body(1, "p", tainted), "(tainted)"),
        (body(2, "p", tainted), "x (tainted)"),
        (body(2, "q", tainted), "x (tainted) (provider)"),
        (body(2, "p", r#","schema_version":1,"private":"bnVsbA==""#), "x (metadata)"),
        (body(1, "p", r#","sensitive_attributes":[],"new":1"#), "(metadata)"),
        (body(2, "p", r#","sensitive_attributes":[],"new":1"#), "x"),
        (body(1, "p", r#","private":null"#), "(metadata)"),
    ] {
        assert_eq!(told(&plain, &after), expected, "{after:?}");
    }
    assert_eq!(told(&body(1, "p", tainted), &body(2, "p", "")), "x (no longer tainted)");
}
