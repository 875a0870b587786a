//! Who changed what since a plan: every version in between with its own actor, request and attributes, wherever it is told.

use serde_json::{Value, json};

use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;

on_both_databases!(
    every_version_since_a_plan_is_told,
    a_row_that_is_back_as_it_was_is_told_so,
    a_move_that_makes_a_plan_stale_is_told_as_one,
);

/// `tag` has two attributes that different people change; `reader` reads it; `late` comes later.
const CONFIG: &str = r#"
variable "input" {
  type    = number
  default = 1
}
variable "trigger" {
  type    = number
  default = 1
}
variable "late" {
  type    = number
  default = 0
}
resource "terraform_data" "tag" {
  input            = var.input
  triggers_replace = [var.trigger]
}
resource "terraform_data" "reader" { input = terraform_data.tag.output }
resource "terraform_data" "late" {
  count = var.late == 0 ? 0 : 1
  input = var.late
}
output "tag" { value = terraform_data.tag.output }
"#;

/// A job of somebody for a request.
fn job(site: &Site, who: &str, request: u32) -> Kl {
    site.kl()
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_ACTOR", who)
        .env("GITHUB_REPOSITORY", "org/infra")
        .env("GITHUB_REF", format!("refs/pull/{request}/merge"))
}

fn world(database: &Database) -> Site {
    let site = Site::on(database);
    site.write("live/main.tf", CONFIG);
    drop(job(&site, "zoe", 10).args(["apply", "live", "--auto-approve", "--state", "prod"]).exits(0));
    for (who, request, target) in [("mia", 19, "reader"), ("lea", 20, "late")] {
        let out = site.path(format!("{who}.json")).into_string();
        let target = format!("--target=terraform_data.{target}");
        let plan = ["plan", "live", "--state", "prod", "--out", &out, &target, "--var=late=9", "--var=input=1"];
        let replace = if who == "mia" { &["--replace=terraform_data.reader"][..] } else { &[] };
        drop(job(&site, who, request).args(plan).args(replace.iter().copied()).exits(0));
    }
    site
}

fn applies(site: &Site, who: &str, request: u32, target: &str, vars: &[&str]) {
    let target = format!("--target=terraform_data.{target}");
    let apply = ["apply", "live", "--auto-approve", "--state", "prod", &target];
    drop(job(site, who, request).args(apply).args(vars.iter().map(|var| format!("--var={var}"))).exits(0));
}

fn asks(site: &Site, args: &[&str]) -> Value {
    site.kl().args(args.iter().copied()).args(["--format", "json"]).exits(0).json()
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[track_caller]
fn row<'v>(class: &'v Value, name: &str) -> &'v Value {
    class.as_array().unwrap().iter().find(|row| row["row"] == name).unwrap_or_else(|| panic!("no {name} in {class:#}"))
}

/// `serial actor request touched attributes` of each version of a row.
fn versions(row: &Value, of: impl Fn(&Value) -> &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |version: &Value| {
        let cause = of(version);
        let names: Vec<String> =
            version["attributes"].as_array().map(|names| names.iter().map(text).collect()).unwrap_or_default();
        let (serial, request) = (&cause["serial"], &cause["origin"]["request"]);
        format!("{serial} {} #{request} {} {}", text(&cause["actor"]), text(&version["touched"]), names.join(","))
    };
    row["versions"].as_array().unwrap().iter().map(one).collect()
}

const OF_TAG: [&str; 2] = ["2 ann #17 changed input,output", "3 ben #18 changed id,triggers_replace"];

fn every_version_since_a_plan_is_told(database: &Database) {
    let site = world(database);
    applies(&site, "ann", 17, "tag", &["input=2"]);
    applies(&site, "ben", 18, "tag", &["input=2", "trigger=2"]);
    applies(&site, "ann", 17, "late", &["input=2", "trigger=2", "late=1"]);
    applies(&site, "ben", 18, "late", &["input=2", "trigger=2", "late=2"]);
    let (mia, lea) = (site.path("mia.json").into_string(), site.path("lea.json").into_string());

    let since = asks(&site, &["history", "--since-plan", &mia]);
    let tag = row(&since["read"], "terraform_data.tag");
    assert_eq!(versions(tag, |version| &version["cause"]), OF_TAG);
    assert_eq!(tag["attributes"], json!(["id", "input", "output", "triggers_replace"]));
    let late = row(&since["outside"], "terraform_data.late[0]");
    assert_eq!(versions(late, |version| &version["cause"]), ["4 ann #17 created ", "5 ben #18 changed input,output"]);
    assert_eq!(late["touched"], "created");
    let table = site.kl().args(["history", "--since-plan", &mia]).exits(0).stdout;
    let line = |serial: &str, parts: &[&str]| {
        let found = table.lines().find(|line| line.split("  ").any(|cell| cell.trim() == serial));
        contains(found.unwrap_or_else(|| panic!("no {serial} in\n{table}")), parts);
    };
    line("2", &["it reads", "terraform_data.tag", "changed", "input, output", "ann", "org/infra#17"]);
    line("3", &["it reads", "terraform_data.tag", "changed", "id, triggers_replace", "ben", "org/infra#18"]);
    line("4", &["outside", "terraform_data.late[0]", "created", "ann"]);
    line("5", &["outside", "terraform_data.late[0]", "changed", "input, output", "ben"]);
    let markdown = site.kl().args(["history", "--since-plan", &mia, "--format", "markdown"]).exits(0).stdout;
    contains(&markdown, &["| `input`, `output` | 2 |", "| `id`, `triggers_replace` | 3 |"]);
    // Of many rows only so many are told; the verdict is about all.
    let one = asks(&site, &["history", "--since-plan", &mia, "--limit", "1"]);
    assert_eq!((&one["fresh"], one["read"].as_array().map(Vec::len)), (&json!(false), Some(1)));
    assert!(one["left_out"].as_u64().is_some_and(|rows| rows > 0), "{one:#}");

    // The outlook and the refusal, and what is on record of it.
    let line = "terraform_data.tag (serial 2 by ann for org/infra#17, serial 3 by ben for org/infra#18)";
    contains(&site.kl().args(["forecast", &mia]).exits(0).stdout, &[line]);
    let apply = ["apply", mia.as_str(), "--dir", "live", "--state", "prod", "--var=late=9", "--var=input=1"];
    let refused = job(&site, "mia", 19).args(apply).exits(4).stderr;
    let told = [
        "it reads terraform_data.tag: changed in serial 2 by ann for org/infra#17 (input, output), run ",
        "it reads terraform_data.tag: changed in serial 3 by ben for org/infra#18 (id, triggers_replace), run ",
    ];
    contains(&refused, &told);
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE actor = 'mia' AND status = 'stale'").unwrap();
    let shown = asks(&site, &["show", &run]);
    let events = shown["events"].as_array().unwrap();
    let failed = events.iter().find(|event| event["event"]["kind"] == "stale_check_failed").unwrap();
    let tag = row(&failed["event"]["read"], "terraform_data.tag");
    assert_eq!(versions(tag, |version| version), OF_TAG);
    assert_eq!((&tag["serial"], &tag["actor"]), (&json!(3), &json!("ben")));
    let facts = "SELECT CAST(run_id AS text) FROM resource_changes WHERE address = 'terraform_data.tag' AND serial > 1
                 ORDER BY serial";
    let runs: Vec<&Value> = tag["versions"].as_array().unwrap().iter().map(|version| &version["run"]).collect();
    assert_eq!(runs, database.rows(facts).iter().map(|row| row[0].as_deref().unwrap()).collect::<Vec<_>>());
    contains(&site.kl().args(["explain", &run]).exits(0).stdout, &[&[line], &told[..]].concat());
    contains(&site.kl().args(["show", &run]).exits(0).stdout, &[line]);
    let page = site.kl().args(["report", "--out", "-"]).exits(0).stdout;
    contains(&page, &["changed in serial 2 by ", "changed in serial 3 by "]);

    // Where it changed nothing of the plan, the same is on record.
    let apply = ["apply", lea.as_str(), "--dir", "live", "--state", "prod", "--var=late=9", "--var=input=1"];
    drop(job(&site, "lea", 20).args(apply).exits(4));
    the_life_of_a_row_names_what_each_version_changed(&site);
}

fn the_life_of_a_row_names_what_each_version_changed(site: &Site) {
    let life = |address: &str| -> Vec<String> {
        let life = asks(site, &["history", "live", "--state", "prod", "--address", address]);
        let one =
            |moment: &Value| format!("{} {} {}", moment["cause"]["serial"], moment["touched"], moment["attributes"]);
        life["moments"].as_array().unwrap().iter().map(one).collect()
    };
    drop(site.kl().args(["state", "rollback", "--state", "prod", "--to", "2", "--yes"]).exits(0));
    assert_eq!(
        life("terraform_data.tag"),
        [
            r#"6 "changed" ["id","triggers_replace"]"#,
            r#"3 "changed" ["id","triggers_replace"]"#,
            r#"2 "changed" ["input","output"]"#,
            r#"1 "created" []"#,
        ]
    );
    assert_eq!(life("output.tag")[0], r#"2 "changed" ["value"]"#);
}

fn a_row_that_is_back_as_it_was_is_told_so(database: &Database) {
    let site = world(database);
    applies(&site, "ann", 17, "tag", &["input=2"]);
    drop(job(&site, "ben", 18).args(["state", "rollback", "--state", "prod", "--to", "1", "--yes"]).exits(0));
    let mia = site.path("mia.json").into_string();
    let since = asks(&site, &["history", "--since-plan", &mia]);
    let tag = row(&since["read"], "terraform_data.tag");
    assert_eq!((&tag["back"], &tag["attributes"]), (&json!(true), &json!([])));
    assert_eq!(
        versions(tag, |version| &version["cause"]),
        ["2 ann #17 changed input,output", "3 ben #18 changed input,output"]
    );
    contains(
        &site.kl().args(["history", "--since-plan", &mia]).exits(0).stdout,
        &["changed, back as it was when planned"],
    );
    // Real objects may be others by now: planning again decides, not what the state says.
    let apply = ["apply", mia.as_str(), "--dir", "live", "--state", "prod", "--var=late=9", "--var=input=1"];
    let refused = job(&site, "mia", 19).args(apply).exits(4).stderr;
    contains(
        &refused,
        &["changed in serial 2 by ann", "changed in serial 3 by ben", "terraform_data.tag: back as it was"],
    );
    // Who plans something that it does not touch goes on, and does not count it.
    let lea = site.path("lea.json").into_string();
    let apply = ["apply", lea.as_str(), "--dir", "live", "--state", "prod", "--var=late=9", "--var=input=1"];
    drop(job(&site, "lea", 20).args(apply).exits(0));
    let versions = asks(&site, &["history", "live", "--state", "prod"]);
    let newest = &versions["versions"][0];
    assert_eq!(
        (&newest["actor"], &newest["changed_outside"], &newest["back_outside"]),
        (&json!("lea"), &json!(0), &json!(2))
    );
    let table = site.kl().args(["history", "live", "--state", "prod"]).exits(0).stdout;
    contains(&table, &["2 rows changed outside and back"]);
}

fn a_move_that_makes_a_plan_stale_is_told_as_one(database: &Database) {
    let site = world(database);
    for (from, to) in [("tag", "label"), ("label", "tag")] {
        let (from, to) = (format!("terraform_data.{from}"), format!("terraform_data.{to}"));
        drop(job(&site, "ann", 17).args(["state", "mv", &from, &to, "--state", "prod"]).exits(0));
    }
    let mia = site.path("mia.json").into_string();
    let apply = ["apply", mia.as_str(), "--dir", "live", "--state", "prod", "--var=late=9", "--var=input=1"];
    let told = [
        "it reads terraform_data.tag: moved to terraform_data.label in serial 2 by ann for org/infra#17, run ",
        "it reads terraform_data.tag: moved from terraform_data.label in serial 3 by ann for org/infra#17, run ",
        "it reads terraform_data.tag: back as it was when planned",
    ];
    contains(&job(&site, "mia", 19).args(apply).exits(4).stderr, &told);
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE actor = 'mia' AND status = 'stale'").unwrap();
    contains(&site.kl().args(["explain", &run]).exits(0).stdout, &told);
    contains(&site.kl().args(["report", "--out", "-"]).exits(0).stdout, &["moved to ", "terraform_data.label"]);
    let shown = asks(&site, &["show", &run]);
    let events = shown["events"].as_array().unwrap();
    let failed = events.iter().find(|event| event["event"]["kind"] == "stale_check_failed").unwrap();
    let versions = &row(&failed["event"]["read"], "terraform_data.tag")["versions"];
    assert_eq!(versions[0]["moved_to"], "terraform_data.label");
    assert_eq!(
        (&versions[1]["moved_from"], &versions[1]["attributes"]),
        (&json!("terraform_data.label"), &Value::Null)
    );
}
