//! What is read, what is refused, and what a refusal says.

mod random;

use super::*;
use crate::domain::state::projection::write;

/// A resource block with a name, a mode and instances.
fn block(name: &str, instances: &str) -> String {
    format!(
        r#"{{"mode":"managed","type":"terraform_data","name":"{name}",
            "provider":"provider[\"terraform.io/builtin/terraform\"]","instances":{instances}}}"#
    )
}

fn with_resources(blocks: &[String]) -> String {
    format!(r#"{{"version":4,"serial":1,"lineage":"l","resources":[{}]}}"#, blocks.join(","))
}

fn keys(text: &str) -> Vec<String> {
    read(text).unwrap().rows.iter().map(|row| row.key.to_string()).collect()
}

fn refusal(text: &str) -> String {
    let error = read(text).unwrap_err();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

#[test]
fn nothing_is_an_empty_state() {
    for text in ["", " \n\t\r\n"] {
        assert_eq!(read(text).unwrap(), StateDocument::default());
    }
    assert_eq!(read(r#"{"version":4}"#).unwrap(), StateDocument::default());
    let nulls =
        r#"{"version":4,"terraform_version":null,"serial":null,"lineage":null,"outputs":null,"resources":null}"#;
    assert_eq!(read(nulls).unwrap(), StateDocument::default());
    assert_eq!(read(&write(&StateDocument::default())).unwrap(), StateDocument::default());
}

#[test]
fn a_body_is_the_resource_block_with_one_instance_token_by_token() {
    let text = r#"{ "version": 4, "resources": [ { "z": 1.0, "mode": "managed", "type": "t", "name": "n",
        "instances": [
          { "index_key": 0, "attributes": { "b": 1e100, "a": 0.10, "s": "\u003c\u0000\/ \"x\"" }, "new": [ ] },
          { "index_key": "0", "attributes": { "b": 123456789012345678901234567890 } }
        ], "unknown": { "y": -0.0 } } ] }"#;
    let document = read(text).unwrap();
    let bodies: Vec<&str> = document.rows.iter().map(|row| row.body.text()).collect();
    let expected = [
        r#"{"z":1.0,"mode":"managed","type":"t","name":"n","instances":[{"index_key":0,"attributes":{"b":1e100,"a":0.10,"s":"\u003c\u0000\/ \"x\""},"new":[]}],"unknown":{"y":-0.0}}"#,
        r#"{"z":1.0,"mode":"managed","type":"t","name":"n","instances":[{"index_key":"0","attributes":{"b":123456789012345678901234567890}}],"unknown":{"y":-0.0}}"#,
    ];
    assert_eq!(bodies, expected);
    assert_eq!(keys(text), ["t.n[0]", r#"t.n["0"]"#]);
    assert_eq!(read(&write(&document)).unwrap(), document);
}

#[test]
fn deposed_objects_and_husks_are_rows_of_their_own() {
    let objects = r#"[{"deposed":"0000beef"},{},{"deposed":"","index_key":1},{"index_key":1,"deposed":"0000beef"}]"#;
    let text = with_resources(&[block("x", objects), block("old", "[]"), block("older", "null")]);
    assert_eq!(
        keys(&text),
        [
            "terraform_data.x",
            "terraform_data.x (deposed 0000beef)",
            "terraform_data.x[1]",
            "terraform_data.x[1] (deposed 0000beef)",
            "terraform_data.old",
            "terraform_data.older",
        ]
    );
    let document = read(&text).unwrap();
    assert_eq!(document.rows[4].key.kind(), "husk");
    assert_eq!(read(&write(&document)).unwrap(), document);
}

#[test]
fn several_blocks_of_one_resource_are_one_resource() {
    let text = with_resources(&[block("x", r#"[{"index_key":1}]"#), block("x", r#"[{"index_key":0}]"#)]);
    let document = read(&text).unwrap();
    assert_eq!(keys(&text), ["terraform_data.x[0]", "terraform_data.x[1]"]);
    assert_eq!(write(&document).matches("\"mode\"").count(), 1);
}

/// Terraform lists what a check has looked at as chance has it.
#[test]
fn the_objects_of_a_check_have_one_order() {
    let object = |key: u32, status: &str| format!(r#"{{"object_addr":"x.y[{key}]","status":"{status}"}}"#);
    let text = |objects: &[String]| {
        let objects = objects.join(", ");
        format!(
            r#"{{"version":4,"check_results":[{{"object_kind":"resource","config_addr":"x.y","status":"pass","objects":[{objects}],"new":1.0}}]}}"#
        )
    };
    let [a, b] = [object(0, "pass"), object(1, "pass")];
    let one = read(&text(&[a.clone(), b.clone()])).unwrap();
    assert_eq!(one.rows, read(&text(&[b, a.clone()])).unwrap().rows);
    assert_ne!(one.rows, read(&text(&[a, object(1, "fail")])).unwrap().rows);
    assert!(write(&one).contains("\"new\": 1.0"));
    // What only a foreign writer would have is kept.
    let odd = read(&text(&["7".to_owned(), "null".to_owned()])).unwrap();
    assert!(odd.rows[0].body.text().contains("[7,null]"), "{}", odd.rows[0].body.text());
}

#[test]
fn members_that_kl_does_not_know_are_kept_at_the_top() {
    let text = r#"{"version":4,"new":{"b":1.0,"a":[1e2]},"check_results":null,"lineage":"","alpha":"\u003c"}"#;
    let document = read(text).unwrap();
    let extra: Vec<_> = document.head.extra.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(extra, [("check_results", "null"), ("new", r#"{"b":1.0,"a":[1e2]}"#), ("alpha", r#""\u003c""#)]);
    assert_eq!(document.lineage, None);
}

#[test]
fn a_document_that_is_no_state_says_so() {
    for (text, expected) in [
        (r#"{"version":4,"serial":1,"#, DocumentError::Truncated { line: 1, column: 24 }),
        ("resource \"a\" {}", DocumentError::NotJson { line: 1, column: 1 }),
        (r#"{"version":4}{}"#, DocumentError::NotJson { line: 1, column: 14 }),
        ("[]", DocumentError::NotAnObject),
        ("\"s3cret\"", DocumentError::NotAnObject),
        ("{}", DocumentError::NoVersion),
        (r#"{"serial":1}"#, DocumentError::NoVersion),
        (r#"{"version":1}"#, DocumentError::OldVersion),
        (r#"{"version":3}"#, DocumentError::OldVersion),
        (r#"{"version":5}"#, DocumentError::NewVersion),
        (r#"{"version":40}"#, DocumentError::NewVersion),
        (r#"{"encrypted_data":"s3cret","serial":1,"lineage":"l"}"#, DocumentError::Encrypted),
        (r#"{"version":4,"serial":-1}"#, DocumentError::NegativeSerial),
        (r#"{"version":4,"serial":9223372036854775808}"#, DocumentError::HugeSerial),
        (r#"{"version":4,"serial":9223372036854775807}"#, DocumentError::HugeSerial),
        (r#"{"version":4,"serial":4611686018427387904}"#, DocumentError::HugeSerial),
    ] {
        assert_eq!(read(text).unwrap_err(), expected, "{text}");
    }
    assert_eq!(read(r#"{"version":4,"serial":4611686018427387903}"#).unwrap().serial, Serial::HIGHEST);
}

#[test]
fn a_refusal_names_the_place_and_no_value() {
    let resource = |block: &str| with_resources(&[block.to_owned()]);
    let check = |entry: &str| format!(r#"{{"version":4,"check_results":[{entry}]}}"#);
    for (text, place) in [
        (r#"{"version":"s3cret"}"#.to_owned(), "\"version\""),
        (r#"{"version":4.5}"#.to_owned(), "\"version\""),
        (r#"{"version":4,"serial":"s3cret"}"#.to_owned(), "\"serial\""),
        (r#"{"version":4,"serial":1.5}"#.to_owned(), "\"serial\""),
        (r#"{"version":4,"lineage":["s3cret"]}"#.to_owned(), "\"lineage\""),
        (r#"{"version":4,"lineage":"s3cret\u0000"}"#.to_owned(), "\"lineage\" of the state document has a control"),
        (r#"{"version":4,"terraform_version":"s3cret\u0007"}"#.to_owned(), "\"terraform_version\" of the state"),
        (r#"{"version":4,"outputs":["s3cret"]}"#.to_owned(), "\"outputs\""),
        (r#"{"version":4,"outputs":{"a":"s3cret"}}"#.to_owned(), "output.a"),
        (r#"{"version":4,"outputs":{"a":{"value":"\ud800 s3cret"}}}"#.to_owned(), "output.a"),
        (r#"{"version":4,"outputs":{"a":{"\udc00 s3cret":1}}}"#.to_owned(), "output.a"),
        (r#"{"version":4,"outputs":{"a.b":{"value":"s3cret"}}}"#.to_owned(), "member 0 of \"outputs\""),
        (r#"{"version":4,"resources":{"a":"s3cret"}}"#.to_owned(), "\"resources\""),
        (resource(r#""s3cret""#), "resources[0]"),
        (resource(r#"{"mode":"s3cret","type":"t","name":"n"}"#), "resources[0]"),
        (resource(r#"{"type":"t","name":"n"}"#), "resources[0] of the state document has no \"mode\""),
        (resource(r#"{"mode":"data","name":"n"}"#), "resources[0] of the state document has no \"type\""),
        (resource(r#"{"mode":"data","type":"t","name":""}"#), "resources[0] of the state document has no \"name\""),
        (resource(r#"{"mode":"data","type":["s3cret"],"name":"n"}"#), "\"type\" of resources[0]"),
        (resource(r#"{"mode":"managed","type":"data","name":"n"}"#), "resources[0]"),
        (resource(r#"{"mode":"managed","type":"t","name":"n[0]"}"#), "\"t.n[0]\""),
        (resource(r#"{"mode":"managed","type":"data.t","name":"n"}"#), "\"data.t.n\""),
        (resource(r#"{"module":"module.a[","mode":"data","type":"t","name":"n"}"#), "\"module\" of resources[0]"),
        (resource(&block("x", r#""s3cret""#)), "\"instances\" of terraform_data.x"),
        (resource(&block("x", r#"["s3cret"]"#)), "instance 0 of terraform_data.x"),
        (resource(&block("x", r#"[{"index_key":1.5}]"#)), "instance 0 of terraform_data.x"),
        (resource(&block("x", r#"[{},{"index_key":-1}]"#)), "instance 1 of terraform_data.x"),
        (resource(&block("x", r#"[{"index_key":{"a":"s3cret"}}]"#)), "instance 0 of terraform_data.x"),
        (resource(&block("x", r#"[{"deposed":"s3cret"}]"#)), "terraform_data.x"),
        (resource(&block("x", r#"[{"deposed":1}]"#)), "instance 0 of terraform_data.x"),
        (resource(&block("x", r#"[{"attributes":"s3cret"},{}]"#)), "terraform_data.x stands in"),
        (resource(&block("x", r#"[{"a":"\ud800s3cret"}]"#)), "terraform_data.x"),
        (resource(&block("x", &format!("[{{\"a\":{}1{}}}]", "[".repeat(300), "]".repeat(300)))), "terraform_data.x"),
        (with_resources(&[block("x", "[]"), block("x", "[]")]), "terraform_data.x stands in"),
        (r#"{"version":4,"zzz":["\ud800s3cret"]}"#.to_owned(), "member \"zzz\""),
        (
            format!("{{\"version\":4,\"zzz\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000)),
            "member \"zzz\" nests deeper than",
        ),
        (check(r#"{"object_kind":"check"}"#), "check_results[0] of the state document has no \"config_addr\""),
        (check(r#"{"config_addr":"check.a","object_kind":["s3cret"]}"#), "\"object_kind\" of check_results[0]"),
        (
            check(r#"{"config_addr":"check.a","object_kind":"check"},{"config_addr":"check.a","object_kind":"check"}"#),
            "check.a (check check) stands in",
        ),
    ] {
        let said = refusal(&text);
        assert!(said.contains(place), "{text}: {said}");
        assert!(!said.contains("s3cret"), "{text}: {said}");
    }
}
