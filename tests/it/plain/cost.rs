//! A long apply saves its whole state again and again: each time kl writes what has changed since, and reads nothing back.

use std::fmt::Write as _;
use std::fs;

use serde_json::json;

use crate::backend::{shell, site};
use crate::harness::database::Database;

on_both_databases!(a_state_that_is_saved_again_and_again_costs_what_it_changes);

const ROWS: usize = 300;
const SAVES: usize = 10;

/// A state with so many rows, as an apply has it after so many steps: each step makes one more and changes one.
fn document(step: usize) -> String {
    let resources: Vec<_> = (0..ROWS + step)
        .map(|row| {
            let value = if row > 0 && row <= step { "changed" } else { "made" };
            json!({
                "mode": "managed", "type": "terraform_data", "name": format!("r{row:04}"),
                "provider": "provider[\"terraform.io/builtin/terraform\"]",
                "instances": [{"schema_version": 0, "attributes": {"id": format!("id-{row}"), "input": value}}]
            })
        })
        .collect();
    json!({"version": 4, "terraform_version": "1.11.4", "serial": step + 1, "lineage": "l", "outputs": {}, "resources": resources})
        .to_string()
}

fn a_state_that_is_saved_again_and_again_costs_what_it_changes(database: &Database) {
    let site = site(database, "");
    let mut script = "set -e; ask() { curl -sf -u kl:$TF_HTTP_PASSWORD \"$@\"; }\n".to_owned();
    script += "ask -X LOCK -d '{\"ID\":\"one\"}' $TF_HTTP_ADDRESS\n";
    for step in 0..=SAVES {
        let path = site.path(format!("state-{step}"));
        fs::write(&path, document(step)).unwrap();
        writeln!(script, "ask -X POST --data-binary @{path} \"$TF_HTTP_ADDRESS?ID=one\"").unwrap();
    }
    script += "ask -X UNLOCK -d '{\"ID\":\"one\"}' $TF_HTTP_ADDRESS\n";
    let points = site.path("points");
    drop(shell(&site, &script).env("KL_MISHAP_LOG", points.as_str()).exits(0));

    let one = |sql: &str| database.value(sql).unwrap_or_default();
    let versions = database.rows("SELECT serial, rows_opened, rows_closed FROM state_versions ORDER BY serial");
    let text = |numbers: [usize; 3]| numbers.map(|number| Some(number.to_string())).to_vec();
    let mut expected = vec![text([1, ROWS, 0])];
    expected.extend((1..=SAVES).map(|step| text([step + 1, 2, 1])));
    assert_eq!(versions, expected);
    // What stayed as it was has been written once.
    assert_eq!(one("SELECT count(*) FROM resources"), (ROWS + 2 * SAVES).to_string());
    assert_eq!(one("SELECT count(*) FROM resource_bodies"), (ROWS + 2 * SAVES).to_string());
    let points = fs::read_to_string(&points).unwrap();
    let count = |point: &str| points.lines().filter(|line| *line == point).count();
    assert_eq!(count("store/write the state/done"), SAVES + 1);
    assert!(count("store/read the state/begin") <= 1, "{points}");
}
