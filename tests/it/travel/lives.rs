//! The lives of rows across their moves: of some that moved and some that did not, and of what a plain Terraform moved.

use serde_json::{Value, json};

use super::state;
use crate::backend;
use crate::harness::database::Database;
use crate::harness::site::Site;

on_both_databases!(
    a_life_that_ended_before_the_others_moved_away_is_told,
    what_a_plain_terraform_moved_goes_on_at_its_new_address,
    of_two_that_changed_places_each_has_its_own_life,
    a_life_has_the_words_of_its_plans,
);

/// The moments of a life, the newest first: what happened to which row, by whom.
fn lived(site: &Site, address: &str) -> Vec<String> {
    let life = site.kl().args(["history", "live", "--address", address, "--format", "json"]).exits(0).json();
    let told = |moment: &Value| {
        let word = |name: &str| moment[name].as_str().map(str::to_owned);
        let short = |text: String| text.replace("terraform_data.", "");
        let way = match (word("moved_from"), word("moved_to")) {
            (Some(from), _) => format!("from {}", short(from)),
            (_, Some(to)) => format!("to {}", short(to)),
            _ => word("touched").unwrap(),
        };
        format!("{} {way} by {}", short(word("row").unwrap()), moment["cause"]["actor"].as_str().unwrap())
    };
    life["moments"].as_array().unwrap().iter().map(told).collect()
}

fn a_life_that_ended_before_the_others_moved_away_is_told(database: &Database) {
    let site = Site::on(database);
    let apply = |text: &str, actor: &str| {
        site.write("live/main.tf", text);
        drop(site.kl().args(["apply", "live", "--auto-approve", "--actor", actor]).exits(0));
    };
    let counted = |name: &str, count: u32| format!("resource \"terraform_data\" \"{name}\" {{ count = {count} }}\n");
    apply(&counted("old", 3), "ann");
    apply(&counted("old", 2), "ben");
    drop(state(&site, &["mv", "terraform_data.old", "terraform_data.new", "--actor", "cora"]).exits(0));
    let before = ["old[2] removed by ben", "old[0] created by ann", "old[1] created by ann", "old[2] created by ann"];
    let moved = ["new[0] from old[0] by cora", "new[1] from old[1] by cora"];
    assert_eq!(lived(&site, "terraform_data.old"), [&moved[..], &before].concat());
    // One instance has the same life under either name.
    let first = ["new[0] from old[0] by cora", "old[0] created by ann"];
    assert_eq!(lived(&site, "terraform_data.old[0]"), first);
    assert_eq!(lived(&site, "terraform_data.new[0]"), first);

    // What comes to the address later belongs to the address, and not to the life of what has left it.
    apply(&format!("{}{}", counted("new", 2), counted("old", 1)), "dan");
    assert_eq!(lived(&site, "terraform_data.new[0]"), first);
    let told = lived(&site, "terraform_data.old");
    let away = ["old[0] created by dan", "old[0] to new[0] by cora", "old[1] to new[1] by cora"];
    assert_eq!(told, [&away[..], &before].concat());
}

fn of_two_that_changed_places_each_has_its_own_life(database: &Database) {
    let site = Site::on(database);
    let config = |input: u32| {
        format!("resource \"terraform_data\" \"a\" {{ input = {input} }}\nresource \"terraform_data\" \"b\" {{}}\n")
    };
    let apply = |input: u32| {
        site.write("live/main.tf", &config(input));
        drop(site.kl().args(["apply", "live", "--auto-approve", "--actor", "ann"]).exits(0));
    };
    apply(1);
    for (from, to) in [("a", "tmp"), ("b", "a"), ("tmp", "b")] {
        let [from, to] = [from, to].map(|name| format!("terraform_data.{name}"));
        drop(state(&site, &["mv", &from, &to, "--actor", "ben"]).exits(0));
    }
    let places = ["moved terraform_data.a from terraform_data.b", "moved terraform_data.b from terraform_data.a"];
    assert_eq!(super::diff(&site, &["1", "4"]), places);
    let back = || drop(state(&site, &["rollback", "--to", "1", "--yes", "--actor", "cora"]).exits(0));
    back();
    let first = ["a from b by cora", "b from tmp by ben", "tmp from a by ben", "a created by ann"];
    // What passed by an address is not mixed up with what stands now where that went first.
    assert_eq!(lived(&site, "terraform_data.tmp"), first);
    assert_eq!(lived(&site, "terraform_data.a"), first);
    // What stands where it stood does not move in a rollback.
    apply(2);
    back();
    assert_eq!(lived(&site, "terraform_data.a"), [&["a changed by cora", "a changed by ann"][..], &first].concat());
}

fn a_life_has_the_words_of_its_plans(database: &Database) {
    let site = Site::on(database);
    let apply = |text: &str| {
        site.write("live/main.tf", text);
        drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    };
    let again = |trigger: u32| format!("resource \"terraform_data\" \"again\" {{ triggers_replace = {trigger} }}\n");
    apply(&format!("{}resource \"terraform_data\" \"gone\" {{}}\n", again(1)));
    let removed = "removed {\n from = terraform_data.gone\n lifecycle { destroy = false }\n}\n";
    let import = "resource \"terraform_data\" \"came\" {}\nimport {\n to = terraform_data.came\n id = \"abc\"\n}\n";
    apply(&format!("{}{removed}{import}", again(2)));
    for (name, word) in [("gone", "no longer managed"), ("came", "imported"), ("again", "replaced")] {
        let life = |format: &str| {
            let address = format!("terraform_data.{name}");
            site.kl().args(["history", "live", "--address", &address, "--format", format]).exits(0)
        };
        assert_eq!(life("json").json()["moments"][0]["planned"], word, "{name}");
        assert!(life("table").stdout.contains(word), "{name}");
    }
}

fn what_a_plain_terraform_moved_goes_on_at_its_new_address(database: &Database) {
    let config = |name: &str, input: u32, more: &str| {
        format!("resource \"terraform_data\" \"{name}\" {{\n  count = 2\n  input = {input}\n}}\n{more}")
    };
    let site = backend::site(database, &config("new", 1, ""));
    drop(site.kl().args(["apply", "live", "--auto-approve", "--actor", "ann"]).exits(0));
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", "--replace", "terraform_data.new[0]", "--out", &spec]).exits(0));
    drop(backend::exec(&site, &["init", "-input=false"]).exits(0));
    let moved = "moved {\n  from = terraform_data.new\n  to   = terraform_data.newer\n}\nresource \"terraform_data\" \"other\" {}\n";
    let plain = |text: &str| {
        site.write("live/main.tf", text);
        drop(backend::exec(&site, &["apply", "-auto-approve", "-input=false"]).exits(0));
    };
    plain(&config("newer", 1, moved));
    let life = ["newer[0] from new[0] by alice", "new[0] created by ann"];
    for address in ["terraform_data.newer[0]", "terraform_data.new[0]"] {
        assert_eq!(lived(&site, address), life, "{address}");
    }
    let since = site.kl().args(["history", "--since-plan", &spec, "--format", "json"]).exits(0).json();
    let gone = since["write"].as_array().unwrap().iter().find(|row| row["row"] == "terraform_data.new[0]").unwrap();
    assert_eq!(gone["moved_to"], "terraform_data.newer[0]", "{since:#}");
    let came = since["outside"].as_array().unwrap();
    let of = |row: &str| came.iter().find(|one| one["row"] == row).unwrap()["moved_from"].clone();
    assert_eq!(of("terraform_data.newer[1]"), json!("terraform_data.new[1]"));
    assert_eq!(of("terraform_data.other"), Value::Null);

    // One that moved and changed in one step is known by its id.
    let again = moved.replace("terraform_data.newer", "terraform_data.newest").replace("data.new\n", "data.newer\n");
    plain(&config("newest", 2, &again));
    let life = [&["newest[1] from newer[1] by alice", "newer[1] from new[1] by alice"][..], &["new[1] created by ann"]];
    assert_eq!(lived(&site, "terraform_data.new[1]"), life.concat());
    let table = site.kl().args(["history", "live", "--address", "terraform_data.newest[1]"]).exits(0).stdout;
    assert!(table.contains("input"), "what changed on the way is told by its names: {table}");
}
