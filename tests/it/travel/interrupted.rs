//! At every step of a rollback, a removal, a move and an adoption, in turn, kl is killed, the step fails, or the database
//! goes away: the same command again finishes it, once, and nothing is lost.

use std::fs;

use serde_json::Value;

use super::{block, content, document, instance, state};
use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::mishaps::{interruptions, points, try_each};

on_both_databases!(
    a_rollback_is_finished_whatever_interrupts_it,
    a_removal_is_finished_whatever_interrupts_it,
    a_move_is_finished_whatever_interrupts_it,
    an_adoption_is_finished_whatever_interrupts_it,
);

fn documents() -> [String; 2] {
    let of = |serial, input| {
        let more = |key: &str| format!("\"index_key\":\"{key}\",\"dependencies\":[\"terraform_data.z\"],");
        let blocks = [
            block("", "a", &instance("", input)),
            block("module.m", "r", &[instance(&more("k"), input), instance(&more("l"), 1)].join(",")),
        ];
        let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
        document(serial, &blocks, &format!(r#""o":{{"value":{input},"type":"number"}}"#), "")
    };
    [of(1, 1), of(2, 2)]
}

fn world(site: &Site, name: &str) {
    for document in documents() {
        drop(state(site, &["import", "-", "--state", name]).stdin(document).exits(0));
    }
}

fn newest(database: &Database, name: &str) -> String {
    let sql = format!("SELECT serial FROM states WHERE name = '{name}'");
    database.value(&sql).unwrap_or_default()
}

/// Interrupts a command at every step in every way, and runs it again.
fn interrupted(database: &Database, args: &[&str], is_done: impl Fn(&Value) + Sync) {
    let site = Site::on(database);
    site.write("live/main.tf", "");
    let brief = ["--lease", "1s", "--wait", "1m"];
    let command = |name: &str| state(&site, args).args(["--state", name]).args(brief);
    world(&site, "trace");
    let points = points(command("trace"), 0);
    try_each(&interruptions(database, &points), |number, mishap| {
        let name = format!("world-{number}");
        world(&site, &name);
        let (status, said) = command(&name).env("KL_MISHAP", mishap).spawn().ends();
        assert!(!said.stderr.contains("panicked") && status.code().is_none_or(|code| code <= 1), "{mishap}: {said:?}");
        drop(command(&name).exits(0));
        // Done, and done once.
        assert_eq!(newest(database, &name), "3", "{mishap}");
        is_done(&site.kl().args(["state", "pull", "live", "--state", &name]).exits(0).json());
    });
    tidy(database);
}

fn tidy(database: &Database) {
    let one = |sql: &str| database.value(sql).unwrap_or_default();
    assert_eq!(one("SELECT count(*) FROM runs WHERE ended_at IS NULL AND status <> 'started'"), "0", "live runs");
    assert_eq!(one("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), "0", "reservations");
}

fn a_rollback_is_finished_whatever_interrupts_it(database: &Database) {
    let first: Value = serde_json::from_str(&documents()[0]).unwrap();
    interrupted(database, &["rollback", "--to", "1", "--yes"], |pulled| {
        assert_eq!(content(pulled.clone())["resources"], first["resources"]);
        assert_eq!(pulled["outputs"], first["outputs"]);
    });
}

fn names(pulled: &Value) -> Vec<String> {
    let blocks = pulled["resources"].as_array().unwrap();
    let name =
        |block: &Value| format!("{}{}", block["module"].as_str().unwrap_or_default(), block["name"].as_str().unwrap());
    blocks.iter().map(name).collect()
}

fn a_removal_is_finished_whatever_interrupts_it(database: &Database) {
    interrupted(database, &["rm", "module.m"], |pulled| assert_eq!(names(pulled), ["a"]));
}

fn a_move_is_finished_whatever_interrupts_it(database: &Database) {
    interrupted(database, &["mv", "module.m", "module.n"], |pulled| {
        assert_eq!(names(pulled), ["a", "module.nr"]);
        assert_eq!(pulled["resources"][1]["instances"].as_array().unwrap().len(), 2);
    });
}

const WORLD: &str = r#"
resource "terraform_data" "a" { input = 1 }
output "o" { value = terraform_data.a.output }
"#;

fn an_adoption_is_finished_whatever_interrupts_it(database: &Database) {
    let site = Site::on(database);
    let block = block("", "a", &instance("", 1));
    let old = document(7, &[&block], r#""o":{"value":1,"type":"number"}"#, "");
    // Each has a backend of its own: whoever asks it takes its lock for a moment.
    let prepared = |name: &str| {
        site.write(&format!("{name}/main.tf"), WORLD);
        site.write(&format!("{name}/terraform.tfstate"), &old);
    };
    let command = |name: &str| -> Kl {
        site.kl().args(["state", "adopt", name, "--state", name, "--lease", "1s", "--wait", "1m"])
    };
    let is_untouched = |name: &str, mishap: &str| {
        let dir = site.repo().join(name);
        assert_eq!(fs::read_to_string(dir.join("terraform.tfstate")).unwrap(), old, "{mishap}");
        let mut files: Vec<String> =
            dir.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
        files.sort();
        assert_eq!(files, ["main.tf", "terraform.tfstate"], "{mishap}");
    };
    prepared("trace");
    let points = points(command("trace"), 0);
    try_each(&interruptions(database, &points), |number, mishap| {
        let name = format!("world-{number}");
        prepared(&name);
        let (status, said) = command(&name).env("KL_MISHAP", mishap).spawn().ends();
        assert!(!said.stderr.contains("panicked") && status.code().is_none_or(|code| code <= 1), "{mishap}: {said:?}");
        drop(command(&name).exits(0));
        assert_eq!(newest(database, &name), "7", "{mishap}");
        is_untouched(&name, mishap);
    });
    // What the killed ones left holds states: the next one has cleared it away.
    prepared("last");
    drop(command("last").exits(0));
    assert_eq!(site.leftovers(), Vec::<String>::new());
    tidy(database);
}
