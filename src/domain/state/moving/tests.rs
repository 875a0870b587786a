//! What moves, what is refused, and what a moved row looks like, by example.

use super::*;
use crate::domain::state::document;

/// A state with these blocks of resources, each `module|type|name|key|dependencies`; an empty part is left out.
fn state(blocks: &[&str]) -> Vec<Row> {
    let blocks: Vec<String> = blocks
        .iter()
        .map(|block| {
            let parts: Vec<&str> = block.split('|').collect();
            let module = if parts[0].is_empty() { String::new() } else { format!("\"module\":{},", quoted(parts[0])) };
            let key = if parts[3].is_empty() { String::new() } else { format!("\"index_key\":{},", parts[3]) };
            let dependencies: Vec<String> =
                parts[4].split_whitespace().map(str::to_owned).collect();
            let provider = if parts[2] == "other" { "q" } else { "p" };
            format!(
                r#"{{{module}"mode":"managed","type":"{}","name":"{}","provider":"{provider}","instances":[{{{key}"schema_version":0,"attributes":{{"id":1.50}},"dependencies":{},"x":[1e3]}}]}}"#,
                parts[1], parts[2], array(&dependencies)
            )
        })
        .collect();
    let text = format!(r#"{{"version":4,"serial":1,"lineage":"l","resources":[{}]}}"#, blocks.join(","));
    document::read(&text).unwrap().rows
}

fn moved(rows: &[Row], from: &str, to: &str) -> Result<Moving, String> {
    move_rows(rows, &Target::parse(from).unwrap(), &Target::parse(to).unwrap()).map_err(|error| error.to_string())
}

fn names(moving: &Moving) -> Vec<String> {
    moving.moved.iter().map(|moved| format!("{} -> {}", moved.from, moved.row.key)).collect()
}

#[test]
fn a_moved_row_changes_its_address_and_nothing_else() {
    let rows = state(&["module.m[\"a.b\"]|t|x|0|t.y"]);
    let moved = moved(&rows, "module.m[\"a.b\"].t.x[0]", "t.z[\"k\\\"\"]").unwrap();
    assert_eq!(
        moved.moved[0].row.body.text(),
        r#"{"mode":"managed","type":"t","name":"z","provider":"p","instances":[{"index_key":"k\"","schema_version":0,"attributes":{"id":1.50},"dependencies":["t.y"],"x":[1e3]}]}"#
    );
    let back = move_rows(
        &[moved.moved[0].row.clone()],
        &Target::parse("t.z[\"k\\\"\"]").unwrap(),
        &Target::parse("module.m[\"a.b\"].t.x[0]").unwrap(),
    );
    assert_eq!(back.unwrap().moved[0].row, rows[0]);
}

#[test]
fn a_name_without_key_is_the_instance_where_there_is_one() {
    let rows = state(&["|t|one||", "|t|many|0|", "|t|many|1|"]);
    assert_eq!(names(&moved(&rows, "t.one", "t.many[7]").unwrap()), ["t.one -> t.many[7]"]);
    assert_eq!(names(&moved(&rows, "t.many", "t.all").unwrap()), ["t.many[0] -> t.all[0]", "t.many[1] -> t.all[1]"]);
    assert_eq!(names(&moved(&rows, "t.many[0]", "t.many").unwrap()), ["t.many[0] -> t.many"]);
}

#[test]
fn what_terraform_refuses_is_refused() {
    let rows =
        state(&["|t|a||", "|t|b||", "|t|c|0|", "module.m|t|a||", "module.m.module.n|t|a||", "module.k[0]|t|a||"]);
    for (from, to, part) in [
        ("t.none", "t.z", "nothing at t.none"),
        ("t.c[9]", "t.z", "nothing at t.c[9]"),
        ("module.none", "module.z", "nothing at module.none"),
        ("module.k", "module.z", "nothing at module.k"),
        ("t.a", "t.b", "has t.b already"),
        ("t.a", "t.a", "has t.a already"),
        ("t.c", "t.b", "has t.b already"),
        ("module.m", "module.m.module.n", "has a module module.m.module.n already"),
        ("module.m", "module.k[0]", "already"),
        ("t.a", "u.a", "types"),
        ("t.a", "data.t.a", "data source"),
        ("t.a", "module.z", "resource instance"),
        ("t.c", "t.z[0]", "whole resource"),
        ("module.m", "t.z", "must be a module"),
        ("output.o", "output.p", "only modules"),
    ] {
        let refused = moved(&rows, from, to).unwrap_err();
        assert!(refused.contains(part), "{from} {to}: {refused}");
    }
}

#[test]
fn a_module_goes_with_all_that_is_below_it() {
    let rows = state(&["module.m|t|a||", "module.m.module.n[0]|t|b||module.m.t.a", "|t|x||module.m.t.a t.y"]);
    let moving = moved(&rows, "module.m", "module.o[\"k\"]").unwrap();
    assert_eq!(
        names(&moving),
        ["module.m.t.a -> module.o[\"k\"].t.a", "module.m.module.n[0].t.b -> module.o[\"k\"].module.n[0].t.b"]
    );
    let text = moving.moved[1].row.body.text();
    assert!(
        text.contains(r#""module":"module.o[\"k\"].module.n[0]""#) && text.contains(r#"["module.o.t.a"]"#),
        "{text}"
    );
    assert_eq!(moving.followers.len(), 1);
    assert!(moving.followers[0].body.text().contains(r#"["module.o.t.a","t.y"]"#));
}

#[test]
fn who_depends_on_instances_that_stay_names_both() {
    let rows = state(&["|t|c|0|", "|t|c|1|", "|t|x||t.c"]);
    let moving = moved(&rows, "t.c[0]", "t.z").unwrap();
    assert!(moving.followers[0].body.text().contains(r#"["t.c","t.z"]"#));
    let moving = moved(&rows, "t.c", "t.z").unwrap();
    assert!(moving.followers[0].body.text().contains(r#"["t.z"]"#));
    // The key alone is no part of what dependencies name.
    assert!(moved(&rows, "t.c[0]", "t.c[5]").unwrap().followers.is_empty());
}

#[test]
fn an_instance_takes_over_the_provider_of_those_it_comes_to() {
    let rows = state(&["|t|a||", "|t|other|0|"]);
    assert!(moved(&rows, "t.a", "t.other[1]").unwrap().moved[0].row.body.text().contains(r#""provider":"q""#));
    assert!(moved(&rows, "t.a", "t.free").unwrap().moved[0].row.body.text().contains(r#""provider":"p""#));
}

#[test]
fn a_move_is_told_again_in_both_directions() {
    let told = |from: &str, to: &str, address: &str| {
        let [from, to] = [from, to].map(|text| Target::parse(text).unwrap());
        let address = Address::parse(address).unwrap();
        let there = renamed(&from, &to, &address)?;
        assert_eq!(renamed(&to, &from, &there), Some(address));
        Some(there.to_string())
    };
    assert_eq!(
        told("module.a", "module.b[0].module.c", "module.a.module.d.t.x[1]").unwrap(),
        "module.b[0].module.c.module.d.t.x[1]"
    );
    assert_eq!(told("t.c", "module.m.t.z", "t.c[\"k\"]").unwrap(), "module.m.t.z[\"k\"]");
    assert_eq!(told("t.c[0]", "t.z", "t.c[0]").unwrap(), "t.z");
    assert_eq!(told("t.a", "t.c[7]", "t.a").unwrap(), "t.c[7]");
    assert_eq!(told("t.a", "t.b", "t.c"), None);
    assert_eq!(told("module.a", "module.b", "module.ab.t.x"), None);
}
