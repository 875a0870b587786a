//! Time travel: two serials side by side, and back to an earlier one as a new version.

mod edit;
mod interrupted;
mod lives;
mod moving;

use std::fs;

use serde_json::{Value, json};

use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::stage::{CHAIN, Gates, assert_tidy, wait_for_runs};

on_both_databases!(
    a_diff_tells_what_was_created_changed_moved_and_removed,
    a_diff_masks_what_is_sensitive_on_either_side,
    deposed_objects_outputs_and_checks_are_rows_of_a_diff,
    serials_that_cannot_be_read_are_refused,
    a_rollback_gives_the_rows_of_the_serial_as_a_new_version,
    a_rollback_of_some_addresses_leaves_the_others,
    a_rollback_is_agreed_to_or_changes_nothing,
    a_rollback_beside_a_live_run_needs_rows_that_nobody_holds,
    a_rollback_takes_back_only_what_was_shown,
    an_object_that_moved_goes_back_as_a_whole,
    what_was_taken_back_can_be_planned_and_applied_again,
);

const WORLD: &str = r#"
variable "secret" {
  default   = "hunter2-and-more"
  sensitive = true
}
resource "terraform_data" "stays" { input = 1 }
resource "terraform_data" "changes" { input = { a = 1, b = var.secret } }
resource "terraform_data" "moves" { input = 1 }
resource "terraform_data" "goes" { input = 1 }
output "o" { value = terraform_data.changes.output.a }
"#;

const LATER: &str = r#"
variable "secret" {
  default   = "hunter3-and-more"
  sensitive = true
}
resource "terraform_data" "stays" { input = 1 }
resource "terraform_data" "changes" { input = { a = 2, b = var.secret } }
moved {
  from = terraform_data.moves
  to   = terraform_data.moved["k"]
}
resource "terraform_data" "moved" {
  for_each = toset(["k"])
  input    = 2
}
resource "terraform_data" "comes" { input = 1 }
output "o" { value = terraform_data.changes.output.a }
output "p" { value = 1 }
"#;

fn apply(site: &Site, text: &str) {
    site.write("live/main.tf", text);
    drop(site.kl().args(["apply", "live", "--actor", "alice"]).exits(0));
}

fn state(site: &Site, args: &[&str]) -> Kl {
    site.kl().arg("state").args(args.iter().copied()).args(["--dir", "live"])
}

fn pull(site: &Site, serial: &str) -> Value {
    let text = site.kl().args(["state", "pull", "live", "--serial", serial]).exits(0).stdout;
    serde_json::from_str(&text).unwrap()
}

/// A document without what tells versions apart.
fn content(mut document: Value) -> Value {
    document.as_object_mut().unwrap().remove("serial").unwrap();
    document
}

/// The rows of a diff or a rollback, each in a word.
fn told(document: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let paths = row["attributes"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap());
        let from = row["moved_from"].as_str().map(|from| format!(" from {from}")).unwrap_or_default();
        let text = format!(
            "{} {}{from} {}",
            row["what"].as_str().unwrap(),
            row["row"].as_str().unwrap(),
            paths.collect::<Vec<_>>().join(",")
        );
        text.trim_end().to_owned()
    };
    document["rows"].as_array().unwrap().iter().map(row).collect()
}

fn diff(site: &Site, args: &[&str]) -> Vec<String> {
    told(&state(site, &[&["diff"], args].concat()).args(["--format", "json"]).exits(0).json())
}

fn a_diff_tells_what_was_created_changed_moved_and_removed(database: &Database) {
    let site = Site::on(database);
    apply(&site, WORLD);
    apply(&site, LATER);
    let forth = [
        "changed terraform_data.changes input.a,input.b,output.a,output.b",
        "created terraform_data.comes",
        "removed terraform_data.goes",
        "moved terraform_data.moved[\"k\"] from terraform_data.moves input,output",
        "changed output.o value",
        "created output.p",
    ];
    assert_eq!(diff(&site, &["1", "2"]), forth);
    assert_eq!(diff(&site, &["1"]), forth);
    let back = [
        "changed terraform_data.changes input.a,input.b,output.a,output.b",
        "removed terraform_data.comes",
        "created terraform_data.goes",
        "moved terraform_data.moves from terraform_data.moved[\"k\"] input,output",
        "changed output.o value",
        "removed output.p",
    ];
    assert_eq!(diff(&site, &["2", "1"]), back);
    assert_eq!(diff(&site, &["1", "1"]), [] as [&str; 0]);
    assert_eq!(diff(&site, &["0", "1"]).len(), 5);
    let table = state(&site, &["diff", "1", "2"]).exits(0).stdout;
    for part in ["from serial 1 to serial 2", "6 rows: 2 created, 2 changed, 1 moved, 1 removed", "> moved"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let markdown = state(&site, &["diff", "1", "2", "--format", "markdown"]).exits(0).stdout;
    assert!(markdown.contains("| `terraform_data.goes` |"), "{markdown}");
    assert!(state(&site, &["diff", "2", "2"]).exits(0).stdout.contains("No row differs"));
}

fn a_diff_masks_what_is_sensitive_on_either_side(database: &Database) {
    let site = Site::on(database);
    apply(&site, WORLD);
    apply(&site, &LATER.replace("  sensitive = true\n", ""));
    for (format, shown) in [("table", "2"), ("json", "\"2\""), ("markdown", "2")] {
        for serials in [["1", "2"], ["2", "1"]] {
            let without = state(&site, &["diff", serials[0], serials[1], "--format", format]).exits(0);
            assert!(!without.stdout.contains("hunter") && !without.stdout.contains("before\""), "{without:?}");
            let said = state(&site, &["diff", serials[0], serials[1], "--format", format, "--show-values"]).exits(0);
            assert!(!format!("{said:?}").contains("hunter"), "{said:?}");
            assert!(said.stdout.contains("(sensitive value)") && said.stdout.contains(shown), "{said:?}");
        }
    }
}

fn document(serial: u64, resources: &[&str], outputs: &str, checks: &str) -> String {
    let resources = resources.join(",");
    format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"l","outputs":{{{outputs}}},"resources":[{resources}],"check_results":[{checks}]}}"#
    )
}

fn block(module: &str, name: &str, instances: &str) -> String {
    let module = if module.is_empty() { String::new() } else { format!(r#""module":{},"#, json!(module)) };
    format!(
        r#"{{{module}"mode":"managed","type":"terraform_data","name":"{name}","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{instances}]}}"#
    )
}

fn instance(more: &str, input: u32) -> String {
    format!(
        r#"{{{more}"schema_version":0,"attributes":{{"id":"i","input":{{"value":{input},"type":"number"}},"output":{{"value":{input},"type":"number"}},"triggers_replace":null}},"sensitive_attributes":[]}}"#
    )
}

fn import(site: &Site, text: &str) {
    drop(state(site, &["import", "-"]).stdin(text).exits(0));
}

const PASS: &str = r#"{"object_kind":"check","config_addr":"check.c","status":"pass","objects":[]}"#;

/// Two serials, 1 and 2, of everything that a state can hold.
fn two_documents(site: &Site) {
    site.write("live/main.tf", "");
    let two = |module, first, second| {
        let keys = [r#""index_key":0,"#, r#""index_key":"x","#];
        block(module, "r", &[instance(keys[0], first), instance(keys[1], second)].join(","))
    };
    let old = [two("", 1, 1), two("module.m[0]", 1, 1), two("module.m[1].module.n", 1, 1)];
    let deposed = r#""deposed":"0a1b2c3d","#;
    let new = [
        two("", 2, 1),
        two("module.m[0]", 2, 2),
        two("module.m[1].module.n", 2, 2),
        block("", "d", &[instance("", 1), instance(deposed, 1)].join(",")),
    ];
    let strs = |blocks: &[String]| blocks.iter().map(|block| block.clone().leak() as &str).collect::<Vec<_>>();
    import(site, &document(1, &strs(&old), r#""o":{"value":1,"type":"number"}"#, PASS));
    let failed = PASS.replace("pass", "fail");
    import(site, &document(2, &strs(&new), r#""o":{"value":2,"type":"number"}"#, &failed));
}

fn deposed_objects_outputs_and_checks_are_rows_of_a_diff(database: &Database) {
    let site = Site::on(database);
    two_documents(&site);
    let told = diff(&site, &["1", "2"]);
    for row in [
        "created terraform_data.d",
        "created terraform_data.d (deposed 0a1b2c3d)",
        "changed terraform_data.r[0] input,output",
        "changed module.m[1].module.n.terraform_data.r[\"x\"] input,output",
        "changed output.o value",
        "changed check.c (check check) status",
    ] {
        assert!(told.contains(&row.to_owned()), "{row}: {told:?}");
    }
    assert_eq!(told.len(), 9, "{told:?}");
}

fn serials_that_cannot_be_read_are_refused(database: &Database) {
    let site = Site::on(database);
    two_documents(&site);
    for args in [["diff", "1", "7"], ["diff", "7", "1"], ["rollback", "--to", "7"]] {
        let said = state(&site, &args).exits(3).stderr;
        assert!(said.contains("has no serial 7; its newest is 2"), "{said}");
    }
    drop(state(&site, &["diff", "one"]).exits(3));
    let said = state(&site, &["diff", "1", "2", "--state", "none"]).exits(3).stderr;
    assert!(said.contains("has no state \"none\""), "{said}");
    drop(site.kl().args(["gc", "--older-than", "0s", "--keep-serials", "1", "--yes"]).exits(0));
    for args in [["diff", "1", "2"], ["rollback", "--to", "1"]] {
        let said = state(&site, &args).exits(3).stderr;
        assert!(said.contains("the history before serial 2 was removed by `kl gc`"), "{said}");
    }
}

fn a_rollback_gives_the_rows_of_the_serial_as_a_new_version(database: &Database) {
    let site = Site::on(database);
    apply(&site, WORLD);
    apply(&site, LATER);
    let said = state(&site, &["rollback", "--to", "1", "--yes", "--actor", "bob"]).exits(0);
    assert!(said.stdout.contains("Back to the rows of serial 1 as serial 3"), "{said:?}");
    assert!(said.stdout.contains("Real objects are not touched by this"), "{said:?}");
    assert_eq!(content(pull(&site, "3")), content(pull(&site, "1")));
    assert_eq!(diff(&site, &["1", "3"]), [] as [&str; 0]);
    assert_tidy(database, 3);
    // Once more is nothing to do, and makes no version and no run.
    let again = state(&site, &["rollback", "--to", "1", "--yes"]).exits(0).stdout;
    assert!(again.contains("Nothing to do: every row is as at serial 1"), "{again}");
    assert_tidy(database, 3);

    let history = site.kl().args(["history", "live", "--format", "json"]).exits(0).json();
    let version = &history["versions"][0];
    assert_eq!((&version["source"], &version["mode"]), (&json!("rollback"), &json!("rollback")));
    assert_eq!((&version["actor"], &version["source_serial"]), (&json!("bob"), &json!(2)));
    let run = version["run"].as_str().unwrap();
    let shown = site.kl().args(["show", run]).exits(0).stdout;
    assert!(shown.contains("rollback") && shown.contains("Taking back to serial 1: all rows"), "{shown}");
    let explained = site.kl().args(["explain", run]).exits(0).stdout;
    assert!(explained.contains("rollback of") && explained.contains("Committed serial 3"), "{explained}");
    assert_eq!(database.value("SELECT count(*) FROM runs WHERE kind = 'rollback'"), Some("1".into()));
    // A rollback can be taken back, too.
    drop(state(&site, &["rollback", "--to", "2", "--yes"]).exits(0));
    assert_eq!(content(pull(&site, "4")), content(pull(&site, "2")));
    // And to before everything.
    drop(state(&site, &["rollback", "--to", "0", "--yes"]).exits(0));
    assert_eq!(pull(&site, "5")["resources"], json!([]));
    assert_eq!(pull(&site, "5")["lineage"], pull(&site, "1")["lineage"]);
    assert!(!format!("{said:?}{shown}{explained}").contains("hunter"));
}

fn a_rollback_of_some_addresses_leaves_the_others(database: &Database) {
    let site = Site::on(database);
    two_documents(&site);
    let back = |address: &str| {
        let said = state(&site, &["rollback", "--to", "1", "--yes", "--format", "json", "--address", address]).exits(0);
        told(&said.json())
    };
    assert_eq!(back("terraform_data.r[0]"), ["changed terraform_data.r[0] input,output"]);
    assert_eq!(back("terraform_data.r"), [] as [&str; 0]);
    assert_eq!(
        back("module.m"),
        [
            "changed module.m[0].terraform_data.r[0] input,output",
            "changed module.m[0].terraform_data.r[\"x\"] input,output",
            "changed module.m[1].module.n.terraform_data.r[0] input,output",
            "changed module.m[1].module.n.terraform_data.r[\"x\"] input,output",
        ]
    );
    assert_eq!(back("output.o"), ["changed output.o value"]);
    assert_eq!(back("terraform_data.d"), ["removed terraform_data.d", "removed terraform_data.d (deposed 0a1b2c3d)"]);
    // What is left is the check, which belongs to the whole.
    assert_eq!(diff(&site, &["1"]), ["changed check.c (check check) status"]);
    let said = state(&site, &["rollback", "--to", "1", "--yes", "--address", "terraform_data.none"]).exits(3).stderr;
    assert!(said.contains("has no terraform_data.none, neither now nor at serial 1"), "{said}");
    drop(state(&site, &["rollback", "--to", "1", "--yes", "--address", "not an address"]).exits(3));
    drop(state(&site, &["rollback", "--to", "1", "--yes"]).exits(0));
    assert_eq!(diff(&site, &["1"]), [] as [&str; 0]);
    assert_tidy(database, 7);
}

fn a_rollback_is_agreed_to_or_changes_nothing(database: &Database) {
    let site = Site::on(database);
    two_documents(&site);
    let said = state(&site, &["rollback", "--to", "1"]).exits(3).stderr;
    assert!(said.contains("nobody has agreed") && said.contains("--yes"), "{said}");
    let said = state(&site, &["rollback", "--to", "1", "--dry-run"]).exits(0).stdout;
    for part in ["Dry run: nothing was changed", "Real objects are not touched", "terraform_data.r[0]"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let json = state(&site, &["rollback", "--to", "1", "--dry-run", "--format", "json"]).exits(0).json();
    assert_eq!((json["dry_run"].clone(), json["serial"].clone()), (json!(true), Value::Null));
    assert_eq!(told(&json).len(), 9);
    assert_tidy(database, 2);
}

fn a_rollback_beside_a_live_run_needs_rows_that_nobody_holds(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", &format!("{CHAIN}resource \"terraform_data\" \"alone\" {{ input = 1 }}\n"));
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    site.write("live/main.tf", &format!("{CHAIN}resource \"terraform_data\" \"alone\" {{ input = 2 }}\n"));
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    gates.close("apply");
    let value = ["--var", "value=3", "--target", "terraform_data.later", "--actor", "alice"];
    let running = site.kl().args(["apply", "live", &var]).args(value).spawn();
    gates.reached("apply");
    let said = state(&site, &["rollback", "--to", "0", "--yes"]).exits(2).stderr;
    for part in ["alice", "terraform_data.slow", "expires in"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(database.value("SELECT status FROM runs WHERE kind = 'rollback'"), Some("conflict".into()));
    // What nobody holds goes back beside it.
    drop(state(&site, &["rollback", "--to", "1", "--yes", "--address", "terraform_data.alone"]).exits(0));
    // One that wants rows that are held waits in its turn, and then they are others than it was agreed to.
    let waits = state(&site, &["rollback", "--to", "0", "--yes", "--wait", "1m"]).spawn();
    wait_for_runs(database, "waiting", 1);
    gates.open("apply");
    drop(running.exits(0));
    let said = waits.exits(4).stderr;
    assert!(said.contains("others have committed since you looked: serial 4") && said.contains("by alice"), "{said}");
    assert_tidy(database, 4);
    drop(state(&site, &["rollback", "--to", "0", "--yes"]).exits(0));
    assert_tidy(database, 5);
    assert_eq!(site.kl().args(["state", "list", "live"]).exits(0).stdout, "");
}

fn a_rollback_takes_back_only_what_was_shown(database: &Database) {
    let site = Site::on(database);
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    let world = |value: u32, more: &str| {
        let text = format!("variable \"gates\" {{}}\nresource \"terraform_data\" \"a\" {{ input = {value} }}\n{more}");
        site.write("live/main.tf", &text);
        site.kl().args(["apply", "live", "--actor", "alice", &var])
    };
    drop(world(1, "").exits(0));
    drop(world(2, "").exits(0));
    // Somebody makes what needs the row as it is.
    let extra = r#"resource "terraform_data" "extra" {
  input = terraform_data.a.output
  provisioner "local-exec" {
    command = "while [ -e ${var.gates}/apply ]; do touch ${var.gates}/apply.reached; sleep 0.02; done"
  }
}
"#;
    gates.close("apply");
    let running = world(2, extra).spawn();
    gates.reached("apply");
    let back = ["rollback", "--to", "1", "--yes", "--wait", "1m"];
    let all = state(&site, &back).spawn();
    wait_for_runs(database, "waiting", 1);
    let one = state(&site, &back).args(["--address", "terraform_data.a", "--format", "json"]).spawn();
    wait_for_runs(database, "waiting", 2);
    gates.open("apply");
    drop(running.exits(0));
    // All rows are one more than those that were shown: its object would belong to nobody.
    let said = all.exits(4).stderr;
    for part in
        ["others have committed since you looked: serial 3 (run ", "by alice): terraform_data.extra", "run it again"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    // What was named is as it was, and the page tells what was committed.
    let said = one.exits(0).json();
    assert_eq!((&said["from"], &said["serial"]), (&json!(3), &json!(4)), "{said}");
    assert_eq!(told(&said), ["changed terraform_data.a input,output"]);
    assert_eq!(diff(&site, &["3", "4"]), told(&said));
    assert_tidy(database, 4);
}

fn an_object_that_moved_goes_back_as_a_whole(database: &Database) {
    let site = Site::on(database);
    apply(&site, WORLD);
    apply(&site, LATER);
    for address in ["terraform_data.moves", "terraform_data.moved"] {
        let said = state(&site, &["rollback", "--to", "1", "--yes", "--address", address]).exits(3).stderr;
        assert!(said.contains("both have to go back together"), "{said}");
    }
    let both = ["--address", "terraform_data.moves", "--address", "terraform_data.moved"];
    drop(state(&site, &["rollback", "--to", "1", "--yes"]).args(both).exits(0));
    let listed = site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert!(listed.contains("terraform_data.moves") && !listed.contains("terraform_data.moved"), "{listed}");
    assert!(listed.contains("terraform_data.comes"), "{listed}");
}

fn what_was_taken_back_can_be_planned_and_applied_again(database: &Database) {
    let site = Site::on(database);
    apply(&site, WORLD);
    site.write("live/main.tf", LATER);
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", "--out", &spec]).exits(0));
    site.write("live/main.tf", WORLD);
    drop(site.kl().args(["apply", &spec, "--dir", "live"]).exits(4));
    let refused = crate::stage::runs(database, "stale").remove(0);
    let explained = || site.kl().args(["explain", &refused]).exits(0).stdout;
    site.write("live/main.tf", LATER);
    drop(site.kl().args(["apply", &spec, "--dir", "live"]).exits(0));
    assert!(explained().contains("Nothing is left to do: the same spec was applied as serial 2"), "{}", explained());
    assert!(site.kl().args(["apply", &spec, "--dir", "live"]).exits(0).stdout.contains("already applied"));
    drop(state(&site, &["rollback", "--to", "1", "--yes"]).exits(0));
    // The spec was applied, and is no longer: that is not "nothing to do".
    let said = site.kl().args(["apply", &spec, "--dir", "live"]).exits(4).stderr;
    assert!(said.contains("the reviewed plan no longer holds"), "{said}");
    let told = explained();
    assert!(told.contains("what it wrote was changed since without a plan: `kl history --since-plan"), "{told}");
    assert!(!told.contains("Nothing is left to do"), "{told}");
    let since = site.kl().args(["history", "--since-plan", &spec]).exits(0).stdout;
    assert!(since.contains("! The plan no longer holds"), "{since}");
    assert!(since.contains("! It was applied as serial 2, and some of what that wrote was changed"), "{since}");
    drop(fs::remove_file(&spec));
    drop(site.kl().args(["plan", "live", "--out", &spec]).exits(0));
    drop(site.kl().args(["apply", &spec, "--dir", "live"]).exits(0));
    assert_eq!(diff(&site, &["2"]).iter().filter(|row| row.starts_with("created output")).count(), 0);
    assert_tidy(database, 4);
    // No more so when a plain Terraform has taken a row away; one that the plan does not write is another's business.
    site.write("live/backend.tf", "terraform {\n  backend \"http\" {}\n}\n");
    let plain = |args: &[&str]| {
        let kl = site.kl().args(["exec", "--dir", "live", "--", program().as_str()]);
        drop(kl.args(args.iter().copied()).exits(0));
    };
    plain(&["init", "-input=false"]);
    plain(&["state", "rm", "terraform_data.stays"]);
    assert!(site.kl().args(["apply", &spec, "--dir", "live"]).exits(0).stdout.contains("already applied"));
    plain(&["state", "rm", "terraform_data.comes"]);
    let said = site.kl().args(["apply", &spec, "--dir", "live"]).exits(4).stderr;
    assert!(said.contains("it writes terraform_data.comes: removed in serial 6 by"), "{said}");
}
