//! Random documents: whatever a state may hold, read and written and read again, is the same.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::super::*;
use crate::domain::state::layout::indented;
use crate::domain::state::projection::write;
use crate::domain::state::row::ContentHash;

/// Any JSON text without space, with the numbers and strings that a detour through a value would change.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
        any_string(),
        Just(r#""\u003c\u0000\/\ud83d\ude00""#.to_owned()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            any_members(inner).prop_map(|members| object(&members)),
        ]
    })
}

fn any_string() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), r#"[a-z${}%\\"\[\]., ]{0,6}"#].prop_map(|text| quoted(&text))
}

/// Members that mean nothing to kl, in any order.
fn any_members(value: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<(String, String)>> {
    let name = "[x-z_<\u{e9}\"\n]{1,3}".prop_map(|name| quoted(&name));
    btree_map(name, value, 0..3).prop_map(|members| members.into_iter().collect::<Vec<_>>()).prop_shuffle()
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_string(&mut out, text);
    out
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn member(name: &str, value: impl Into<String>) -> (String, String) {
    (quoted(name), value.into())
}

/// An `index_key` and a `deposed`, as JSON.
type InstanceKey = (Option<String>, Option<String>);

/// The instances of a block by what tells them apart, each with members of its own.
fn any_instances() -> impl Strategy<Value = BTreeMap<InstanceKey, Vec<(String, String)>>> {
    let index = prop_oneof![
        (0_u64..3).prop_map(|index| index.to_string()),
        (0_u64..3).prop_map(|index| format!("\"{index}\"")),
        Just(u64::MAX.to_string()),
        any_string(),
    ];
    let deposed = prop_oneof![Just("\"0000beef\"".to_owned()), Just("\"cafe0000\"".to_owned())];
    let members = (any_json(), any_members(any_json())).prop_map(|(attributes, mut members)| {
        members.push(member("attributes", attributes));
        members
    });
    btree_map((option::of(index), option::of(deposed)), members.prop_shuffle(), 0..5)
}

/// A resource block: what stands beside its instances, and these.
type Block = (Vec<(String, String)>, BTreeMap<InstanceKey, Vec<(String, String)>>);

fn any_block() -> impl Strategy<Value = Block> {
    let module =
        proptest::sample::select(vec!["", "module.a", "module.a[10]", "module.a[2]", "module.a[\"b.c\"].module.d"]);
    let mode = proptest::sample::select(vec!["managed", "data"]);
    let provider = proptest::sample::select(vec!["provider[\"a/b/c\"]", "provider[\"a/b/c\"].alias"]);
    (module, mode, provider, any_instances(), any_members(any_json())).prop_map(
        |(module, mode, provider, instances, mut members)| {
            if !module.is_empty() {
                members.push(member("module", quoted(module)));
            }
            members.push(member("mode", quoted(mode)));
            members.push(member("provider", quoted(provider)));
            (members, instances)
        },
    )
}

/// Resource blocks, each a resource of its own, but for the last one when it is to be a second block of the first.
fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    (vec(any_block(), 0..4), any::<bool>(), any_members(any_json()), any_instances()).prop_map(
        |(mut blocks, again, unknown, mut instances)| {
            for (position, (members, _)) in blocks.iter_mut().enumerate() {
                members.push(member("type", "\"t\""));
                members.push(member("name", format!("\"n{position}\"")));
            }
            if let (true, Some((members, others))) = (again, blocks.first()) {
                instances.retain(|key, _| !others.contains_key(key));
                let named = |name: &str| ["module", "mode", "type", "name"].iter().any(|known| quoted(known) == name);
                let mut members: Vec<_> = members.iter().filter(|(name, _)| named(name)).cloned().collect();
                members.extend(unknown);
                if !instances.is_empty() {
                    blocks.push((members, instances));
                }
            }
            blocks
        },
    )
}

fn block_text((members, instances): Block) -> impl Strategy<Value = String> {
    let instances: Vec<String> = instances
        .into_iter()
        .map(|((index, deposed), mut members)| {
            members.extend(index.map(|index| member("index_key", index)));
            members.extend(deposed.map(|deposed| member("deposed", deposed)));
            object(&members)
        })
        .collect();
    let mut members = members;
    members.push(member("instances", format!("[{}]", instances.join(","))));
    Just(members).prop_shuffle().prop_map(|members| object(&members))
}

/// A string without control characters.
fn any_line() -> impl Strategy<Value = String> {
    "[ -~é]{0,6}".prop_map(|text| quoted(&text))
}

/// A document's text without space, and how many rows it is.
fn any_document() -> impl Strategy<Value = (String, usize)> {
    let rows = |blocks: &[Block]| blocks.iter().map(|(_, instances)| instances.len().max(1)).sum::<usize>();
    let blocks = any_blocks().prop_flat_map(move |blocks| {
        let rows = rows(&blocks);
        (blocks.into_iter().map(block_text).collect::<Vec<_>>(), Just(rows))
    });
    let outputs = btree_map("[a-z_é]{1,3}", any_members(any_json()), 0..3);
    let checks = btree_map("[a-z.]{1,4}", any_members(any_json()), 0..3);
    let head =
        (0..=Serial::HIGHEST.0, option::of(any_line()), option::of(any_line()), any_members(any_json()), any::<bool>());
    (blocks, outputs, checks, head).prop_flat_map(
        |((blocks, mut rows), outputs, checks, (serial, lineage, version, unknown, null_checks))| {
            rows += outputs.len() + checks.len();
            let mut members = unknown;
            members.push(member("version", "4"));
            members.push(member("serial", serial.to_string()));
            members.extend(lineage.map(|lineage| member("lineage", lineage)));
            members.extend(version.map(|version| member("terraform_version", version)));
            let outputs: Vec<_> = outputs.iter().map(|(name, value)| member(name, object(value))).collect();
            members.push(member("outputs", object(&outputs)));
            members.push(member("resources", format!("[{}]", blocks.join(","))));
            let checks: Vec<String> = checks
                .into_iter()
                .map(|(address, mut members)| {
                    members.push(member("object_kind", "\"check\""));
                    members.push(member("config_addr", quoted(&address)));
                    object(&members)
                })
                .collect();
            let no_checks = null_checks && checks.is_empty();
            let checks = if no_checks { "null".to_owned() } else { format!("[{}]", checks.join(",")) };
            members.push(member("check_results", checks));
            (Just(members).prop_shuffle().prop_map(|members| object(&members)), Just(rows))
        },
    )
}

/// What a document says, without the order of members.
fn contents(document: &StateDocument) -> Vec<(&RowKey, ContentHash)> {
    document.rows.iter().map(|row| (&row.key, row.body.hash())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn reading_what_was_written_gives_what_was_read((text, rows) in any_document()) {
        let document = read(&text).unwrap();
        prop_assert_eq!(document.rows.len(), rows);
        let written = write(&document);
        let again = read(&written).unwrap();
        prop_assert_eq!(&again.head, &document.head);
        prop_assert_eq!(contents(&again), contents(&document));
        // Blocks of one resource that say the same in another order become one.
        let blocks = |text: &str| text.matches(r#""instances":"#).count();
        if blocks(&written.replace(": ", ":")) == blocks(&text) {
            prop_assert_eq!(&again, &document);
        }
        // Space is nothing: the same text in another layout is the same document.
        prop_assert_eq!(&read(&indented(&text)).unwrap(), &document);
        // What kl wrote once it writes again, letter by letter.
        prop_assert_eq!(write(&read(&written).unwrap()), written);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>(), value in any_json(), at in any::<prop::sample::Index>()) {
        for text in [text.clone(), value.clone(), format!("{{\"version\":4,\"resources\":{value}}}")] {
            drop(read(&text));
        }
        let whole = format!("{{\"version\":4,\"outputs\":{{\"a\":{{\"value\":{value}}}}}}}");
        let cut: String = whole.chars().take(at.index(whole.chars().count())).collect();
        let refused = read(&cut);
        // Half a number is no number, and the parser does not say that it was the end.
        let half_a_number = cut.ends_with(['-', '+', '.', 'e', 'E']) && matches!(refused, Err(DocumentError::NotJson { .. }));
        let truncated = matches!(refused, Err(DocumentError::Truncated { .. }));
        prop_assert!(cut.is_empty() || truncated || half_a_number, "{:?} {:?}", cut, refused);
    }
}
