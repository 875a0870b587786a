//! Many commands at once on one state.

use std::fmt::Write as _;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::database::Database;
use crate::harness::kl::Running;
use crate::harness::site::Site;
use crate::harness::terraform::Plain;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates, assert_tidy, runs, wait_for_runs};

on_both_databases!(
    disjoint_applies_all_commit_and_readers_are_never_in_the_way,
    of_overlapping_applies_one_commits_and_the_others_say_who_holds_what,
    readers_of_the_same_row_go_beside_each_other,
    waiters_get_their_turn_in_order_of_arrival_and_a_dead_one_holds_up_nobody,
    of_two_jobs_of_one_spec_the_one_that_waits_finds_it_applied,
    what_was_refused_is_told_by_what_is_in_the_way_today,
    disjoint_first_writers_of_an_empty_state_share_one_lineage,
    of_overlapping_first_writers_the_second_creates_nothing,
    of_two_imports_at_once_one_wins,
    a_dry_run_changes_nothing,
);

const PART: &str = r#"
variable "value" {}
resource "terraform_data" "r" { input = var.value }
output "value" { value = terraform_data.r.output }
"#;

/// A configuration of eight modules, each with a variable of its own.
fn eight(site: &Site) {
    let mut main = String::new();
    for part in 1..=8 {
        writeln!(
            main,
            "variable \"v{part}\" {{ default = 0 }}\nmodule \"m{part}\" {{\n  source = \"./part\"\n  value  = var.v{part}\n}}"
        )
        .unwrap();
    }
    site.write("live/main.tf", &main);
    site.write("live/part/main.tf", PART);
}

fn disjoint_applies_all_commit_and_readers_are_never_in_the_way(database: &Database) {
    let site = Site::on(database);
    eight(&site);
    drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    let spec = |part: usize| site.path(format!("spec-{part}.json")).into_string();
    let planning: Vec<_> = (1..=8)
        .map(|part| {
            let target = format!("--target=module.m{part}");
            let var = format!("--var=v{part}=1");
            site.kl().args(["plan", "live", "--out", &spec(part), &target, &var]).spawn()
        })
        .collect();
    for plan in planning {
        drop(plan.exits(0));
    }

    let mut applying: Vec<_> = (1..=8)
        .map(|part| site.kl().args(["apply", &spec(part), &format!("--var=v{part}=1"), "--dir", "live"]).spawn())
        .collect();
    let mut read = 0;
    while read < 8 || applying.iter_mut().any(Running::runs) {
        drop(site.kl().args(["state", "pull", "live"]).exits(0));
        drop(site.kl().args(["history", "live"]).exits(0));
        drop(site.kl().args(["status"]).exits(0));
        read += 1;
    }
    for apply in applying {
        let said = apply.exits(0);
        assert!(!said.stderr.contains("busy") && !said.stderr.contains("locked"), "{said:?}");
    }
    assert_tidy(database, 9);
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    let vars: Vec<String> = (1..=8).map(|part| format!("-var=v{part}=1")).collect();
    let vars: Vec<&str> = vars.iter().map(String::as_str).collect();
    assert_eq!(Plain::new(&site, "live").changes(&state, &vars), None);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn of_overlapping_applies_one_commits_and_the_others_say_who_holds_what(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    let spec = |number: usize| site.path(format!("spec-{number}.json")).into_string();
    for number in 1..=8 {
        drop(site.kl().args(["plan", "live", &var, "--out", &spec(number)]).exits(0));
    }
    gates.close("apply");
    let mut applying: Vec<_> = (1..=8)
        .map(|number| {
            let kl = site.kl().args(["apply", &spec(number), &var, "--dir", "live"]);
            kl.args(["--actor", if number % 2 == 0 { "alice" } else { "bob" }]).spawn()
        })
        .collect();
    wait_for_runs(database, "conflict", 7);
    // One whose run has ended may still have to say so.
    let winner = wait_until("one goes on alone", Duration::from_mins(1), || {
        let mut going: Vec<usize> = Vec::new();
        for (place, apply) in applying.iter_mut().enumerate() {
            if apply.runs() {
                going.push(place);
            }
        }
        <[usize; 1]>::try_from(going).ok()
    });
    let [winner] = winner;
    let winner = applying.swap_remove(winner);
    for loser in applying {
        let said = loser.exits(2).stderr;
        for part in ["terraform_data.first (write) is held by ", "expires in", "meets    our"] {
            assert!(said.contains(part), "{said}");
        }
    }
    gates.reached("apply");
    gates.open("apply");
    drop(winner.exits(0));
    assert_tidy(database, 1);
    assert_eq!(database.value("SELECT count(*) FROM resources"), Some("3".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn readers_of_the_same_row_go_beside_each_other(database: &Database) {
    let site = Site::on(database);
    let gates = Gates::new(&site);
    let user = |name: &str| {
        format!(
            r#"
resource "terraform_data" "{name}" {{
  input = [terraform_data.base.id, var.{name}]
  provisioner "local-exec" {{
    command = "while [ -e ${{var.gates}}/{name} ]; do touch ${{var.gates}}/{name}.reached; sleep 0.02; done"
  }}
  triggers_replace = var.{name}
}}
variable "{name}" {{ default = 0 }}
"#
        )
    };
    let base = "variable \"gates\" {}\nresource \"terraform_data\" \"base\" { input = 1 }\n";
    site.write("live/main.tf", &format!("{base}{}{}", user("left"), user("right")));
    let var = format!("--var={}", gates.var());
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    gates.close("left");
    gates.close("right");
    let apply = |name: &str| {
        let (target, value) = (format!("--target=terraform_data.{name}"), format!("--var={name}=1"));
        site.kl().args(["apply", "live", &var, &target, &value]).spawn()
    };
    let (left, right) = (apply("left"), apply("right"));
    // Both stand in the midst of their apply at the same time.
    gates.reached("left");
    gates.reached("right");
    // Whoever wants to write what they read has to wait for both.
    site.write("live/main.tf", &format!("{}{}{}", base.replace("input = 1", "input = 2"), user("left"), user("right")));
    let said = site.kl().args(["apply", "live", &var, "--target=terraform_data.base"]).exits(2).stderr;
    assert_eq!(said.matches("terraform_data.base (read) is held by").count(), 2, "{said}");
    gates.open("left");
    gates.open("right");
    drop(left.exits(0));
    drop(right.exits(0));
    assert_tidy(database, 3);
}

fn waiters_get_their_turn_in_order_of_arrival_and_a_dead_one_holds_up_nobody(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    gates.close("apply");
    let apply = |value: usize| {
        let kl = site.kl().args(["apply", "live", &var, &format!("--var=value={value}"), "--on-stale", "revalidate"]);
        // The values differ from the reviewed ones after another's apply, which is not what this is about.
        kl.args(["--wait", "60s", "--accept-values", "--actor", &format!("actor-{value}")]).spawn()
    };
    let first = apply(2);
    gates.reached("apply");
    let mut waiting = Vec::new();
    for (place, value) in [3, 4, 5].into_iter().enumerate() {
        waiting.push(apply(value));
        wait_for_runs(database, "waiting", place + 1);
    }
    let dead = waiting.remove(0);
    dead.signal(Signal::SIGKILL);
    drop(dead.ends());
    // A place in the queue lasts half a minute after its owner has last been seen: that time has passed.
    let run = &runs(database, "waiting")[0];
    database.execute(&format!(
        "UPDATE resource_reservations SET expires_at = asked_at WHERE CAST(run_id AS text) = '{run}'"
    ));
    // Nobody overtakes those who wait, although the lease of the one in front of them is still good.
    let said = site.kl().args(["apply", "live", &var, "--var=value=6"]).exits(2).stderr;
    assert!(said.contains("actor-2"), "{said}");
    gates.open("apply");
    drop(first.exits(0));
    for waiter in waiting {
        drop(waiter.exits(0));
    }
    let order = database.rows("SELECT actor FROM state_versions WHERE serial > 1 ORDER BY serial");
    let order: Vec<String> = order.into_iter().flatten().flatten().collect();
    assert_eq!(order, ["actor-2", "actor-4", "actor-5"]);
    let history = site.kl().args(["history", "live"]).exits(0).stdout;
    let whys: Vec<&str> = history.lines().filter(|line| line.contains("waited ")).collect();
    assert!(whys.len() == 2 && whys.iter().all(|line| line.contains(" behind actor-2")), "{history}");
    // The dead waiter's run has no reservation and no lease that could end; somebody has to say that it is dead.
    let run = runs(database, "waiting").remove(0);
    drop(site.kl().args(["abort", &run]).exits(0));
    assert_tidy(database, 4);
}

fn of_two_jobs_of_one_spec_the_one_that_waits_finds_it_applied(database: &Database) {
    let site = Site::on(database);
    // Planned again, this is always another replacement: whoever went on would make it twice.
    site.write("live/main.tf", &CHAIN.replace("[var.value]", "[var.value, timestamp()]"));
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", &var, "--var=value=2", "--out", &spec]).exits(0));
    gates.close("apply");
    let apply = || {
        let kl = site.kl().args(["apply", &spec, "--dir", "live", &var, "--var=value=2", "--accept-values"]);
        kl.args(["--wait", "1m"]).spawn()
    };
    let first = apply();
    gates.reached("apply");
    let second = apply();
    wait_for_runs(database, "waiting", 1);
    gates.open("apply");
    drop(first.exits(0));
    let said = second.exits(0).stdout;
    assert!(said.contains("the spec was already applied, and committed as serial 2"), "{said}");
    assert_tidy(database, 2);
}

fn what_was_refused_is_told_by_what_is_in_the_way_today(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    let spec = site.path("bob.json").into_string();
    drop(site.kl().args(["plan", "live", &var, "--var=value=3", "--out", &spec]).exits(0));
    gates.close("apply");
    let alice = site.kl().args(["apply", "live", &var, "--var=value=2", "--actor", "alice"]).spawn();
    gates.reached("apply");
    let bob = |more: &[&str]| {
        site.kl().args(["apply", &spec, "--dir", "live", &var, "--var=value=3", "--actor", "bob"]).args(more.to_vec())
    };
    let waited = bob(&["--wait", "1s"]).exits(2).stderr;
    assert!(waited.contains("is reserved by alice") && waited.contains(", also after 1"), "{waited}");
    assert!(waited.contains("Waiting in turn behind alice (run "), "{waited}");
    drop(bob(&["--dry-run"]).exits(2));
    let refused = runs(database, "conflict");
    let explain = |run: &str| site.kl().args(["explain", run]).exits(0).stdout;
    let told: Vec<String> = refused.iter().map(|run| explain(run)).collect();
    assert!(told.iter().all(|text| text.contains("Still in the way: ")), "{told:?}");
    assert_eq!(
        told.iter().filter(|text| text.contains("; it had waited in turn for 1s, and gave up")).count(),
        1,
        "{told:?}"
    );
    assert_eq!(told.iter().filter(|text| text.contains("! Refused, in a dry run: ")).count(), 1, "{told:?}");
    gates.open("apply");
    drop(alice.exits(0));
    for run in &refused {
        let text = explain(run);
        assert!(text.contains("What stood in the way is gone by now: apply again"), "{text}");
    }
    drop(bob(&["--on-stale", "revalidate", "--accept-values"]).exits(0));
    for run in &refused {
        let text = explain(run);
        assert!(text.contains("Nothing is left to do: the same spec was applied as serial 3 by bob, run "), "{text}");
        assert!(!text.contains("--wait"), "{text}");
    }
    assert_tidy(database, 3);
}

fn disjoint_first_writers_of_an_empty_state_share_one_lineage(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" {}\n");
    let spec = |name: &str| site.path(format!("{name}.json")).into_string();
    for name in ["a", "b"] {
        let target = format!("--target=terraform_data.{name}");
        drop(site.kl().args(["plan", "live", &target, "--out", &spec(name)]).exits(0));
    }
    let both = ["a", "b"].map(|name| site.kl().args(["apply", &spec(name), "--dir", "live"]).spawn());
    for apply in both {
        drop(apply.exits(0));
    }
    assert_tidy(database, 2);
    let state = site.kl().args(["state", "pull", "live"]).exits(0);
    assert_eq!(state.json()["resources"].as_array().map(Vec::len), Some(2));
    assert_eq!(state.json()["lineage"].as_str(), database.value("SELECT lineage FROM states").as_deref());
    assert_eq!(Plain::new(&site, "live").changes(&state.stdout, &[]), None);
}

fn of_overlapping_first_writers_the_second_creates_nothing(database: &Database) {
    let site = Site::on(database);
    let marks = site.path("marks");
    site.write(
        "live/main.tf",
        &format!("resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{ command = \"echo made >>{marks}\" }}\n}}\n"),
    );
    let spec = |name: &str| site.path(format!("{name}.json")).into_string();
    for name in ["a", "b"] {
        drop(site.kl().args(["plan", "live", "--out", &spec(name)]).exits(0));
    }
    drop(site.kl().args(["apply", &spec("a"), "--dir", "live"]).exits(0));
    let said = site.kl().args(["apply", &spec("b"), "--dir", "live"]).exits(4).stderr;
    assert!(said.contains("it writes terraform_data.a: created in serial 1"), "{said}");
    assert_eq!(std::fs::read_to_string(marks).unwrap(), "made\n");
    assert_tidy(database, 1);
}

fn of_two_imports_at_once_one_wins(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", "");
    let document = |lineage: &str| {
        format!(
            r#"{{"version":4,"terraform_version":"1.5.0","serial":3,"lineage":"{lineage}","outputs":{{}},"resources":[]}}"#
        )
    };
    let both = ["one", "two"]
        .map(|lineage| site.kl().args(["state", "import", "-", "--dir", "live"]).stdin(document(lineage)).spawn());
    let codes: Vec<Option<i32>> = both.into_iter().map(|import| import.ends().0.code()).collect();
    let done = codes.iter().filter(|code| **code == Some(0)).count();
    assert_eq!(done, 1, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, Some(0..=3))), "{codes:?}");
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("1".into()));
    assert_eq!(database.value("SELECT count(*) FROM runs WHERE ended_at IS NULL"), Some("0".into()));
    let lineage = site.kl().args(["state", "pull", "live"]).exits(0).json()["lineage"].clone();
    let winner = if codes[0] == Some(0) { "one" } else { "two" };
    assert_eq!(lineage, winner);
}

fn a_dry_run_changes_nothing(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", "resource \"terraform_data\" \"a\" {}\n");
    drop(site.kl().args(["plan", "live"]).exits(0));
    let said = site.kl().args(["apply", "kl-plan.json", "--dry-run"]).exits(0).stdout;
    assert!(said.contains("nothing was changed"), "{said}");
    assert_tidy(database, 0);
    assert_eq!(database.value("SELECT status FROM runs"), Some("dry_run".into()));
    assert_eq!(database.value("SELECT serial FROM states"), Some("0".into()));
    drop(site.kl().args(["apply", "kl-plan.json"]).exits(0));
    assert_tidy(database, 1);
}

/// A process that closes a file frees all its locks on it, whoever holds them (`SQLite`'s "how to corrupt", 2.2): an apply
/// whose mirror took the database in lost what it wrote from then on as soon as another kl had come and gone.
#[test]
fn a_database_in_the_checkout_is_shared_by_an_apply_and_other_commands() {
    let site = Site::new();
    let kl = env!("CARGO_BIN_EXE_kl");
    let look = format!("for i in 1 2 3; do {kl} runs --database kl.db >/dev/null; done");
    let part = |name: &str| {
        format!(
            "resource \"terraform_data\" \"{name}\" {{\n  provisioner \"local-exec\" {{\n    \
             working_dir = \"{}\"\n    command = \"{look}\"\n  }}\n}}\n",
            site.repo()
        )
    };
    site.write("main.tf", &format!("{}{}", part("a"), part("b")));
    let kl = |args: &[&str]| site.kl().args(args.iter().copied()).args(["--database", "kl.db"]);
    drop(kl(&["apply", ".", "--auto-approve"]).exits(0));
    assert_eq!(kl(&["state", "list", "."]).exits(0).stdout, "terraform_data.a\nterraform_data.b\n");
    site.write("main.tf", &part("a"));
    drop(kl(&["apply", ".", "--auto-approve"]).exits(0));
    assert_eq!(kl(&["state", "list", "."]).exits(0).stdout, "terraform_data.a\n");
    drop(kl(&["db", "check"]).exits(0));
}

/// What is written into a file that nobody can find any more is lost without a word.
#[test]
fn a_database_that_is_removed_under_an_apply_is_no_place_to_commit() {
    let site = Site::new();
    let gates = Gates::new(&site);
    site.write(
        "main.tf",
        "variable \"gates\" {}\nresource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    \
         command = \"touch ${var.gates}/begun; while [ -e ${var.gates}/apply ]; do sleep 0.02; done\"\n  }\n}\n",
    );
    gates.close("apply");
    let var = gates.var();
    let kl = |args: &[&str]| site.kl().args(args.iter().copied()).args(["--database", "../kl.db"]);
    let running = kl(&["apply", ".", "--auto-approve", "--var", &var]).spawn();
    wait_until("it applies", Duration::from_mins(1), || site.path("gates/begun").exists().then_some(()));
    let away = site.path("away.db");
    for ending in ["", "-wal", "-shm"] {
        std::fs::rename(site.path(format!("kl.db{ending}")), format!("{away}{ending}")).unwrap();
    }
    gates.open("apply");
    let (status, said) = running.ends();
    assert_eq!(status.code(), Some(1), "{said:?}");
    assert!(said.stderr.contains("kl.db was removed or replaced while kl worked with it"), "{said:?}");
    assert!(!said.stdout.contains("committed as serial") && !said.stderr.contains("Committed"), "{said:?}");
    // The record is where the error says, and does its work when the database is back.
    for ending in ["", "-wal", "-shm"] {
        std::fs::rename(format!("{away}{ending}"), site.path(format!("kl.db{ending}"))).unwrap();
    }
    let rows = kl(&["runs", "--format", "json"]).exits(0).json();
    let run = rows["runs"][0]["run"].as_str().unwrap().to_owned();
    drop(kl(&["recover", &run]).exits(0));
    assert_eq!(kl(&["state", "list", "."]).exits(0).stdout, "terraform_data.a\n");
    drop(kl(&["db", "check"]).exits(0));
}
