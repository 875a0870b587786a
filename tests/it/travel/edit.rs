//! `kl state rm` and `kl state mv`, beside the real Terraform on the same state.

use std::fs;

use serde_json::{Value, json};

use super::{block, document, import, instance, pull, state};
use crate::harness::database::{Backend, Database};
use crate::harness::site::Site;
use crate::harness::terraform::Plain;
use crate::stage::{CHAIN, Gates, assert_tidy, wait_for_runs};

on_both_databases!(
    rm_and_mv_do_what_terraform_does,
    rm_and_mv_are_runs_with_their_actor,
    the_life_of_a_resource_goes_on_after_a_move,
    a_rollback_onto_an_address_in_use_is_a_move_back,
    rm_and_mv_wait_for_nobody_who_holds_the_rows,
    what_a_failed_run_left_is_recovered_before_it_is_taken_back_removed_or_moved,
    what_comes_while_rm_waits_is_reserved_before_it_goes,
    the_same_command_again_finds_it_done,
    dependencies_follow_a_move,
);

const WORLD: &str = r#"
resource "terraform_data" "a" { input = 1 }
resource "terraform_data" "b" { input = terraform_data.a.output }
resource "terraform_data" "c" {
  count = 3
  input = count.index
}
resource "terraform_data" "e" {
  for_each = toset(["x", "y.z"])
  input    = each.key
}
module "w" {
  source   = "./m"
  for_each = toset(["p", "q"])
}
module "s" { source = "./m" }
resource "terraform_data" "d" { input = module.s.o }
output "o" { value = terraform_data.a.output }
check "k" {
  assert {
    condition     = terraform_data.a.output == 1
    error_message = "x"
  }
}
"#;

const MODULE: &str = r#"
resource "terraform_data" "r" { input = 1 }
module "n" { source = "./n" }
output "o" { value = terraform_data.r.output }
"#;

fn world(database: &Database) -> Site {
    let site = Site::on(database);
    site.write("live/main.tf", WORLD);
    site.write("live/m/main.tf", MODULE);
    site.write("live/m/n/main.tf", "resource \"terraform_data\" \"r\" { input = 1 }\n");
    site
}

/// Commands of `terraform state`, of which some are refused.
const COMMANDS: [&str; 44] = [
    "rm terraform_data.a",
    "rm terraform_data.c",
    "rm terraform_data.c[1] terraform_data.nope",
    "rm terraform_data.e[\"y.z\"] module.s",
    "rm terraform_data.nope",
    "rm module.w",
    "rm module.w[\"p\"]",
    "rm module.s.terraform_data.r",
    "rm module.s.module.n",
    "rm module.w.terraform_data.r",
    "rm module.w.module.n",
    "rm module.nope",
    "rm output.o",
    "rm not-an-address",
    "mv terraform_data.a terraform_data.z",
    "mv terraform_data.a terraform_data.b",
    "mv terraform_data.a terraform_data.a",
    "mv terraform_data.a terraform_data.z[2]",
    "mv terraform_data.a terraform_data.c[7]",
    "mv terraform_data.a terraform_data.c",
    "mv terraform_data.c[0] terraform_data.c[1]",
    "mv terraform_data.c[0] terraform_data.c",
    "mv terraform_data.c[0] terraform_data.z",
    "mv terraform_data.c terraform_data.z",
    "mv terraform_data.c terraform_data.z[0]",
    "mv terraform_data.c terraform_data.e",
    "mv terraform_data.c null_resource.z",
    "mv terraform_data.a null_resource.z",
    "mv terraform_data.a data.terraform_data.z",
    "mv terraform_data.a module.new.terraform_data.z",
    "mv terraform_data.a module.new",
    "mv module.s module.t",
    "mv module.s module.w[\"p\"]",
    "mv module.w module.v",
    "mv module.w[\"p\"] module.w[\"z\"]",
    // Into a module below itself that exists: Terraform leaves it to chance whether that is refused.
    "mv module.s.module.n module.s",
    "mv module.s module.s.module.k",
    "mv module.s terraform_data.q",
    "mv module.nope module.x",
    "mv terraform_data.nope terraform_data.a",
    "mv terraform_data.c[9] terraform_data.c[10]",
    "mv module.s.module.n module.n",
    "mv module.s.terraform_data.r terraform_data.r[\"k\"]",
    "mv output.o output.p",
];

/// What `terraform show -json` says of a state, without what kl and Terraform do differently on purpose: Terraform forgets
/// all dependencies of a row that names what moved, kl lets it name the new address.
fn shown(plain: &Plain, document: &str) -> Value {
    fs::write(plain.module().join("shown.tfstate"), document).unwrap();
    let mut shown: Value = serde_json::from_str(&plain.output(&["show", "-json", "shown.tfstate"])).unwrap();
    strip(&mut shown);
    shown
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("depends_on");
            members.values_mut().for_each(strip);
            // Terraform leaves the order of checks to chance.
            if let Some(Value::Array(checks)) = members.get_mut("checks") {
                checks.sort_by_key(ToString::to_string);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn rm_and_mv_do_what_terraform_does(database: &Database) {
    let site = world(database);
    let plain = Plain::new(&site, "live");
    let base = plain.apply(&[]);
    let commands = COMMANDS.iter().enumerate();
    // Each database has its half; what is decided is the same.
    let half = usize::from(database.backend() == Backend::Postgres);
    let (mut done, mut refused) = (0, 0);
    for (number, command) in commands.filter(|(number, _)| number % 2 == half) {
        let words: Vec<&str> = command.split(' ').collect();
        let (file, name) = (plain.module().join("terraform.tfstate"), format!("s{number}"));
        fs::write(&file, &base).unwrap();
        let (ok, said) = plain.tries(&[&["state"], words.as_slice()].concat());
        drop(state(&site, &["import", "-", "--state", &name]).stdin(&*base).exits(0));
        let ours = state(&site, &[words.as_slice(), &["--state", &name]].concat()).exits(if ok { 0 } else { 3 });
        let pulled = site.kl().args(["state", "pull", "live", "--state", &name]).exits(0).stdout;
        let theirs = fs::read_to_string(&file).unwrap();
        assert_eq!(shown(&plain, &pulled), shown(&plain, &theirs), "{command}: {said} {ours:?}");
        *if ok { &mut done } else { &mut refused } += 1;
        if !ok {
            let before: Value = serde_json::from_str(&base).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&pulled).unwrap()["serial"], before["serial"], "{command}");
        }
    }
    assert!(done > 8 && refused > 8, "{done} {refused}");
}

fn apply(site: &Site) {
    drop(site.kl().args(["apply", "live", "--actor", "alice"]).exits(0));
}

fn rm_and_mv_are_runs_with_their_actor(database: &Database) {
    let site = world(database);
    apply(&site);
    let said = state(&site, &["rm", "terraform_data.c[1]", "module.w", "--dry-run"]).exits(0).stdout;
    assert!(said.contains("Would remove terraform_data.c[1]") && said.contains("Dry run"), "{said}");
    let said = state(&site, &["mv", "module.s", "module.t", "--dry-run"]).exits(0).stdout;
    assert!(said.contains("Would move module.s.module.n.terraform_data.r to module.t.module.n"), "{said}");
    assert_tidy(database, 1);
    let removed = state(&site, &["rm", "terraform_data.c[1]", "module.w", "--actor", "bob"]).exits(0).stdout;
    assert!(removed.contains("Removed 5 rows as serial 2") && removed.contains("Real objects are not touched"));
    let moved = state(&site, &["mv", "module.s", "module.t", "--actor", "carol", "--format", "json"]).exits(0).json();
    assert_eq!((&moved["serial"], moved["moves"].as_array().unwrap().len()), (&json!(3), 2));
    assert_tidy(database, 3);
    let history = site.kl().args(["history", "live", "--rows", "--format", "json"]).exits(0).json();
    let of = |place: usize, member: &str| history["versions"][place][member].as_str().unwrap().to_owned();
    assert_eq!([of(0, "source"), of(0, "mode"), of(0, "actor")], ["move", "row-delta", "carol"]);
    assert_eq!([of(1, "source"), of(1, "mode"), of(1, "actor")], ["remove", "row-delta", "bob"]);
    let shown = site.kl().args(["explain", &of(0, "run")]).exits(0).stdout;
    assert!(shown.contains("Moving module.s to module.t") && shown.contains("Reserved 2 patterns"), "{shown}");
    let shown = site.kl().args(["show", &of(1, "run")]).exits(0).stdout;
    assert!(shown.contains("Removing from the state terraform_data.c[1], module.w"), "{shown}");
    let blamed = site.kl().args(["blame", "module.t.*", "--dir", "live"]).exits(0).stdout;
    assert!(blamed.contains("carol"), "{blamed}");
    // A rollback takes both back.
    drop(state(&site, &["rollback", "--to", "1", "--yes"]).exits(0));
    let (mut first, mut last) = (pull(&site, "1"), pull(&site, "4"));
    first["serial"] = Value::Null;
    last["serial"] = Value::Null;
    assert_eq!(first, last);
    // Which is a move on record, too.
    let (here, there) = ("module.s.module.n.terraform_data.r", "module.t.module.n.terraform_data.r");
    for address in [here, there] {
        let life = site.kl().args(["history", "live", "--address", address, "--format", "json"]).exits(0).json();
        let moments = life["moments"].as_array().unwrap().iter();
        let told: Vec<_> =
            moments.map(|one| (one["cause"]["serial"].as_i64().unwrap(), &one["row"], &one["moved_from"])).collect();
        let [here, there] = [json!(here), json!(there)];
        assert_eq!(told, [(4, &here, &there), (3, &there, &here), (1, &here, &Value::Null)], "{address}");
    }
}

fn the_life_of_a_resource_goes_on_after_a_move(database: &Database) {
    let site = world(database);
    apply(&site);
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", "--replace", "terraform_data.c[1]", "--out", &spec]).exits(0));
    drop(state(&site, &["mv", "terraform_data.c", "module.x.terraform_data.z", "--actor", "bob"]).exits(0));
    drop(state(&site, &["mv", "module.x", "module.y[0]", "--actor", "carol"]).exits(0));
    drop(state(&site, &["mv", "module.y[0].terraform_data.z[1]", "terraform_data.last"]).exits(0));
    moves_are_told_as_moves_since_a_plan(&site, &spec);
    let ends = ["moved_from", "moved_to"];
    for address in ["terraform_data.last", "terraform_data.c[1]", "module.x.terraform_data.z[1]"] {
        let life = site.kl().args(["history", "live", "--address", address, "--format", "json"]).exits(0).json();
        let moments = life["moments"].as_array().unwrap();
        let rows: Vec<&str> = moments
            .iter()
            .filter(|moment| moment["touched"] == "created")
            .map(|moment| moment["row"].as_str().unwrap())
            .collect();
        let names = [
            "terraform_data.last",
            "module.y[0].terraform_data.z[1]",
            "module.x.terraform_data.z[1]",
            "terraform_data.c[1]",
        ];
        assert_eq!(rows, names, "{address}: {life:#}");
        assert!(moments.iter().any(|moment| ends.iter().any(|end| !moment[*end].is_null())), "{life:#}");
    }
    let table = site.kl().args(["history", "live", "--address", "terraform_data.last"]).exits(0).stdout;
    assert!(table.contains("moved from module.y[0].terraform_data.z[1]") && table.contains("bob"), "{table}");
    let told = super::diff(&site, &["1"]);
    assert!(told.contains(&"moved terraform_data.last from terraform_data.c[1]".to_owned()), "{told:?}");
    assert!(told.contains(&"moved module.y[0].terraform_data.z[0] from terraform_data.c[0]".to_owned()), "{told:?}");
    assert!(told.contains(&"created terraform_data.moved".to_owned()), "{told:?}");
    assert_eq!(told.len(), 4, "{told:?}");
}

fn moves_are_told_as_moves_since_a_plan(site: &Site, spec: &str) {
    let since = site.kl().args(["history", "--since-plan", spec, "--format", "json"]).exits(0).json();
    let told = |class: &str, row: &str| {
        let found = since[class].as_array().unwrap().iter().find(|change| change["row"] == row);
        let change = found.unwrap_or_else(|| panic!("no {row} among {since:#}"));
        (change["moved_from"].clone(), change["moved_to"].clone())
    };
    let (last, first) = (json!("terraform_data.last"), json!("terraform_data.c[1]"));
    assert_eq!(told("write", "terraform_data.c[1]"), (Value::Null, last));
    assert_eq!(told("outside", "terraform_data.last"), (first, Value::Null));
    // Version by version each move is told by its own ends.
    let ends_of = |row: &str| {
        let found = since["outside"].as_array().unwrap().iter().chain(since["write"].as_array().unwrap());
        let change = found.into_iter().find(|change| change["row"] == row).unwrap();
        let of = |version: &Value| {
            let address = |end: &str| version[end].as_str().unwrap_or("-").to_owned();
            format!("{}>{}", address("moved_from"), address("moved_to"))
        };
        change["versions"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(ends_of("terraform_data.c[1]"), ["->module.x.terraform_data.z[1]"]);
    let (x, y) = ("module.x.terraform_data.z[1]", "module.y[0].terraform_data.z[1]");
    assert_eq!(ends_of(x), ["terraform_data.c[1]>-".to_owned(), format!("->{y}")]);
    assert_eq!(ends_of(y), [format!("{x}>-"), "->terraform_data.last".to_owned()]);
    assert_eq!(ends_of("terraform_data.last"), [format!("{y}>-")]);
    let table = site.kl().args(["history", "--since-plan", spec]).exits(0).stdout;
    assert!(table.contains(&format!("moved from {y}")) && table.contains(&format!("moved to {x}")), "{table}");
    assert!(!table.contains("removed") && !table.contains("created"), "{table}");

    // What came after the plan did not stand where it moved from when the plan was made.
    site.write("live/fresh.tf", "resource \"terraform_data\" \"fresh\" {}\n");
    drop(site.kl().args(["apply", "live", "--auto-approve", "--target", "terraform_data.fresh"]).exits(0));
    drop(state(site, &["mv", "terraform_data.fresh", "terraform_data.moved"]).exits(0));
    let since = site.kl().args(["history", "--since-plan", spec, "--format", "json"]).exits(0).json();
    let moved = since["outside"].as_array().unwrap().iter().find(|one| one["row"] == "terraform_data.moved").unwrap();
    assert_eq!((&moved["touched"], &moved["moved_from"]), (&json!("created"), &Value::Null));
    assert_eq!(moved["versions"][0]["moved_from"], "terraform_data.fresh");
}

/// An object that goes back to where it stood, while something else stands there.
fn a_rollback_onto_an_address_in_use_is_a_move_back(database: &Database) {
    let site = world(database);
    apply(&site);
    drop(state(&site, &["mv", "terraform_data.c[1]", "terraform_data.last"]).exits(0));
    drop(site.kl().args(["apply", "live", "--auto-approve", "--target", "terraform_data.c[1]"]).exits(0));
    drop(state(&site, &["rollback", "--to", "1", "--yes"]).exits(0));
    for address in ["terraform_data.c[1]", "terraform_data.last"] {
        let life = site.kl().args(["history", "live", "--address", address, "--format", "json"]).exits(0).json();
        let newest = &life["moments"][0];
        assert_eq!((&newest["cause"]["serial"], &newest["source"]), (&json!(4), &json!("rollback")), "{life:#}");
        let moments = life["moments"].as_array().unwrap();
        let told = moments.iter().any(|moment| {
            moment["cause"]["serial"] == 4
                && (moment["moved_from"] == "terraform_data.last" || moment["moved_to"] == "terraform_data.c[1]")
        });
        assert!(told, "{address}: {life:#}");
    }
    let life =
        site.kl().args(["history", "live", "--address", "terraform_data.c[1]", "--format", "json"]).exits(0).json();
    let serials: Vec<&Value> = life["moments"].as_array().unwrap().iter().map(|one| &one["cause"]["serial"]).collect();
    // What stood there meanwhile was something else: serial 3 is no part of this life.
    assert_eq!(serials, [&json!(4), &json!(2), &json!(1)], "{life:#}");
}

/// What was not there yet when somebody asked for its removal is reserved like the rest, once it is there.
fn what_comes_while_rm_waits_is_reserved_before_it_goes(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    site.write("live/main.tf", &format!("{CHAIN}resource \"terraform_data\" \"fresh\" {{ input = 1 }}\n"));
    gates.close("apply");
    let running = site.kl().args(["apply", "live", &var, "--var", "value=3", "--actor", "alice"]).spawn();
    gates.reached("apply");
    let names = ["terraform_data.slow", "terraform_data.fresh"];
    let waits = state(&site, &["rm", names[0], names[1], "--wait", "1m"]).spawn();
    wait_for_runs(database, "waiting", 1);
    gates.open("apply");
    drop(running.exits(0));
    drop(waits.exits(0));
    let reserved = "SELECT DISTINCT pattern FROM resource_reservations v JOIN runs r ON r.id = v.run_id
                    WHERE r.kind = 'remove' AND v.acquired_at IS NOT NULL ORDER BY pattern";
    let reserved: Vec<String> = database.rows(reserved).into_iter().flatten().flatten().collect();
    assert_eq!(reserved, [names[1], names[0]]);
    let left = site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(left, "terraform_data.first\nterraform_data.later\n");
}

fn rm_and_mv_wait_for_nobody_who_holds_the_rows(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", &format!("{CHAIN}resource \"terraform_data\" \"alone\" {{ input = 1 }}\n"));
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    gates.close("apply");
    let value = ["--var", "value=3", "--target", "terraform_data.later", "--actor", "alice"];
    let running = site.kl().args(["apply", "live", &var]).args(value).spawn();
    gates.reached("apply");
    for args in [
        ["rm", "terraform_data.slow", ""].as_slice(),
        &["mv", "terraform_data.slow", "terraform_data.z"],
        &["mv", "terraform_data.alone", "terraform_data.slow[3]"],
    ] {
        let args: Vec<&str> = args.iter().copied().filter(|arg| !arg.is_empty()).collect();
        let said = state(&site, &args).exits(2).stderr;
        assert!(said.contains("alice") && said.contains("terraform_data.slow"), "{said}");
    }
    drop(state(&site, &["rm", "terraform_data.alone"]).exits(0));
    gates.open("apply");
    drop(running.exits(0));
    let listed = site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(listed, "terraform_data.first\nterraform_data.later\nterraform_data.slow\n");
}

fn what_a_failed_run_left_is_recovered_before_it_is_taken_back_removed_or_moved(database: &Database) {
    let site = Site::on(database);
    let now = |serial, input| {
        let blocks = [block("", "r", &instance("", input)), block("", "alone", &instance("", 1))];
        document(serial, &blocks.each_ref().map(String::as_str), "", "")
    };
    site.write(
        "live/main.tf",
        r#"
resource "terraform_data" "r" { input = 3 }
resource "terraform_data" "alone" { input = 1 }
resource "terraform_data" "broken" {
  input = terraform_data.r.output
  provisioner "local-exec" { command = "exit 1" }
}
"#,
    );
    import(&site, &now(1, 1));
    import(&site, &now(2, 2));
    drop(site.kl().args(["apply", "live"]).exits(1));
    let failed = database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'failed'").unwrap();
    let before = pull(&site, "2");
    // Waiting would not help: a quarantine does not end by itself.
    for args in [
        ["rollback", "--to", "1", "--yes", "--wait", "1h"].as_slice(),
        &["rollback", "--to", "1", "--yes", "--address", "terraform_data.r"],
        &["rm", "terraform_data.r", "terraform_data.alone", "--wait", "1h"],
        &["mv", "terraform_data.r", "terraform_data.z", "--wait", "1h"],
        &["mv", "terraform_data.alone", "terraform_data.broken[3]"],
    ] {
        let said = state(&site, args).exits(2).stderr;
        for part in ["is quarantined by", &failed, &format!("`kl recover {failed}` brings the state back in step")] {
            assert!(said.contains(part), "{args:?}: {part}: {said}");
        }
    }
    assert_eq!(database.value("SELECT max(serial) FROM state_versions"), Some("2".into()));
    assert_eq!(pull(&site, "2"), before);
    // What the run did not touch is free.
    drop(state(&site, &["mv", "terraform_data.alone", "terraform_data.other"]).exits(0));
    drop(site.kl().args(["recover", &failed, "--lease", "90s"]).exits(0));
    let seconds = match database.backend() {
        Backend::Sqlite => "(expires_at - acquired_at) / 1000000",
        Backend::Postgres => "CAST(extract(epoch FROM expires_at - acquired_at) AS integer)",
    };
    let lease = format!(
        "SELECT DISTINCT {seconds} FROM resource_reservations v JOIN runs r ON r.id = v.run_id WHERE r.kind = 'recover'"
    );
    assert_eq!(database.value(&lease), Some("90".into()));
    drop(state(&site, &["rm", "terraform_data.r", "terraform_data.broken"]).exits(0));
    assert_tidy(database, 5);
}

fn the_same_command_again_finds_it_done(database: &Database) {
    let site = world(database);
    apply(&site);
    for args in [["rm", "terraform_data.e", ""], ["mv", "terraform_data.a", "terraform_data.z"]] {
        let args: Vec<&str> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
        drop(state(&site, &args).exits(0));
        let newest = database.value("SELECT max(serial) FROM state_versions").unwrap();
        let again = state(&site, &args).exits(0).stdout;
        assert!(again.contains(&format!("serial {newest} has done this already")), "{again}");
        assert_eq!(database.value("SELECT max(serial) FROM state_versions").unwrap(), newest);
    }
    // Not by an apply, and not to another place.
    drop(state(&site, &["mv", "terraform_data.a", "terraform_data.other"]).exits(3));
    site.write("live/main.tf", "");
    apply(&site);
    let said = state(&site, &["rm", "terraform_data.b"]).exits(3).stderr;
    assert!(said.contains("has nothing at terraform_data.b"), "{said}");
    assert_tidy(database, 4);
}

fn dependencies_follow_a_move(database: &Database) {
    let site = world(database);
    apply(&site);
    let dependencies = |name: &str| {
        let pulled = pull(&site, &database.value("SELECT max(serial) FROM state_versions").unwrap());
        let blocks = pulled["resources"].as_array().unwrap();
        let block = blocks.iter().find(|block| block["name"] == name && block["module"].is_null()).unwrap();
        block["instances"][0]["dependencies"].clone()
    };
    assert_eq!(dependencies("b"), json!(["terraform_data.a"]));
    drop(state(&site, &["mv", "terraform_data.a", "terraform_data.z"]).exits(0));
    assert_eq!(dependencies("b"), json!(["terraform_data.z"]));
    drop(state(&site, &["mv", "module.s", "module.t"]).exits(0));
    assert_eq!(dependencies("d"), json!(["module.t.terraform_data.r"]));
    // With the configuration brought along there is nothing to change.
    let text = WORLD.replace("\"a\"", "\"z\"").replace("data.a", "data.z").replace("\"s\"", "\"t\"");
    site.write("live/main.tf", &text.replace("module.s", "module.t"));
    let planned = site.kl().args(["plan", "live", "--out", site.path("p.json").as_str()]).exits(0).stdout;
    assert!(planned.to_lowercase().contains("no changes"), "{planned}");
}
