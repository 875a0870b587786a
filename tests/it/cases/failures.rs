//! An apply that fails half-way: nothing that Terraform has really done may get lost.

use super::bed::{Bed, Change};
use crate::harness::providers::{KLT, Object, needs};

/// `first` succeeds, `broken` is created and fails in its provisioner until the file `fixed` exists, `last` waits for it.
const CONFIG: &str = r#"
    variable "fixed" {}
    resource "terraform_data" "first" { input = "1" }
    resource "terraform_data" "broken" {
      input = terraform_data.first.output
      provisioner "local-exec" { command = "test -e ${var.fixed}" }
    }
    resource "terraform_data" "last" { input = terraform_data.broken.output }
    output "o" { value = terraform_data.last.output }
"#;

/// A checkout with a failed apply, and the id of its run.
fn failed() -> (Bed, String, String) {
    let bed = Bed::new(CONFIG);
    let var = format!("fixed={}", bed.path("fixed"));
    bed.plan(&["--var", &var]);
    let said = bed.apply(1, &["--var", &var, "--format", "json"]);
    said.says(&["local-exec", "kl recover"]);
    let run = said.json()["run"].as_str().expect("the run is named").to_owned();
    (bed, var, run)
}

fn names(bed: &Bed) -> Vec<String> {
    let list = bed.exits(0, &["state", "list", "live"]).stdout;
    list.lines().map(str::to_owned).collect()
}

/// The newest version finished a plan of which a recovery had brought in a part: together they are exactly that plan.
#[track_caller]
fn exactly_as_planned(bed: &Bed, recovered: usize) {
    let history = bed.exits(0, &["history", "live", "--limit", "1", "--format", "json"]).json();
    let version = &history["versions"][0];
    assert_eq!((&version["source"], &version["as_planned"]), (&"apply".into(), &true.into()), "{history:#}");
    let run = version["run"].as_str().expect("a run");
    let story = bed.exits(0, &["explain", run, "--format", "json"]).json();
    assert_eq!(story["exactly_as_planned"], true, "{story:#}");
    assert_eq!(story["fidelity"]["recovered"], recovered, "{story:#}");
}

#[test]
fn a_failed_apply_keeps_its_objects_in_quarantine_until_they_are_recovered() {
    let (bed, var, run) = failed();
    assert_eq!(bed.leftovers(), Vec::<String>::new());
    assert_eq!(names(&bed), Vec::<String>::new(), "the trunk is as it was");
    let status = bed.exits(0, &["status"]).stdout;
    for part in ["quarantined by alice", "terraform_data.first", "terraform_data.broken", &format!("kl recover {run}")]
    {
        assert!(status.contains(part), "{part:?} is not in:\n{status}");
    }
    assert!(!status.contains("terraform_data.last"), "it was never touched:\n{status}");

    // Somebody else meets the quarantine.
    let bob = bed.kl(&["apply", "live", "--auto-approve", "--actor", "bob", "--var", &var]);
    assert_eq!(bob.code, 2, "{bob}");
    bob.says(&["terraform_data.first", "alice", &format!("kl recover {run}")]);

    bed.exits(0, &["recover", &run]);
    assert_eq!(names(&bed), ["terraform_data.broken", "terraform_data.first"]);
    assert!(bed.pull().contains("\"tainted\""));
    assert!(!bed.exits(0, &["status"]).stdout.contains("quarantined"));
    for again in [vec!["recover", &run], vec!["recover", &run, "--discard"]] {
        bed.exits(3, &again).says(&["recovered or discarded before"]);
    }

    std::fs::write(bed.path("fixed"), "").expect("the directory is ours");
    let spec = bed.plan(&["--var", &var]);
    assert_eq!(spec.writes(), ["delete+create terraform_data.broken", "create terraform_data.last", "create output.o"]);
    bed.apply(0, &["--var", &var]);
    bed.settled(&[&format!("-var={var}")]);
}

#[test]
fn applying_the_same_spec_again_recovers_first_and_finishes() {
    let (bed, var, _) = failed();
    std::fs::write(bed.path("fixed"), "").expect("the directory is ours");
    bed.apply(0, &["--var", &var]);
    assert_eq!(names(&bed).len(), 3);
    assert!(!bed.pull().contains("tainted"));
    exactly_as_planned(&bed, 2);
    bed.settled(&[&format!("-var={var}")]);
    // And a third time it is done.
    assert!(bed.apply(0, &["--var", &var]).stdout.contains("already applied"));
}

#[test]
fn applying_the_same_spec_again_may_fail_again_and_lose_nothing() {
    let (bed, var, first) = failed();
    bed.apply(1, &["--var", &var]).says(&["local-exec"]);
    bed.exits(3, &["recover", &first]);
    assert!(bed.exits(0, &["status"]).stdout.contains("quarantined by alice"));
    std::fs::write(bed.path("fixed"), "").expect("the directory is ours");
    bed.apply(0, &["--var", &var]);
    assert_eq!(names(&bed).len(), 3);
    bed.settled(&[&format!("-var={var}")]);
}

#[test]
fn a_recovered_run_is_finished_by_its_spec() {
    let (bed, var, run) = failed();
    bed.exits(0, &["recover", &run]);
    // Nobody else has touched anything, and part of it is done all the same.
    let since = bed.exits(0, &["history", "--since-plan", "kl-plan.json"]).stdout;
    assert!(since.contains("Part of it is done: recovered as serial 1 (2 rows by now as that left them)"), "{since}");
    assert!(since.contains("✓ The plan still holds: nobody else has changed anything"), "{since}");
    std::fs::write(bed.path("fixed"), "").expect("the directory is ours");
    bed.apply(0, &["--var", &var]);
    bed.settled(&[&format!("-var={var}")]);
}

#[test]
fn what_is_discarded_is_nobodys() {
    let (bed, var, run) = failed();
    bed.exits(0, &["recover", &run, "--discard"]);
    bed.exits(3, &["recover", &run, "--discard"]).says(&["recovered or discarded before"]);
    assert!(!bed.exits(0, &["status"]).stdout.contains("quarantined"));
    assert_eq!(names(&bed), Vec::<String>::new());
    std::fs::write(bed.path("fixed"), "").expect("the directory is ours");
    bed.apply(0, &["--var", &var]);
    bed.settled(&[&format!("-var={var}")]);
}

#[test]
fn what_a_recovery_has_taken_over_is_no_longer_the_failed_runs_to_discard() {
    let (bed, _, run) = failed();
    let killed = bed.kl_with(&[("KL_MISHAP", "store/commit the run/begin#1=kill")], &["recover", &run]);
    assert_eq!(killed.code, -1, "{killed}");
    let list = bed.exits(0, &["runs", "--format", "json"]);
    let recovery = list.json()["runs"][0]["run"].as_str().expect("a run").to_owned();
    bed.exits(2, &["recover", &run, "--discard"]).says(&["is recovering what run", &format!("kl abort {recovery}")]);
    let aborted = bed.exits(0, &["abort", &recovery]).stdout;
    assert!(aborted.contains("It had changed real objects, or perhaps"), "{aborted}");
    bed.exits(3, &["recover", &run, "--discard"]).says(&[&format!("kl recover {recovery}")]);
    bed.exits(0, &["recover", &recovery, "--discard"]);
    assert!(!bed.exits(0, &["status"]).stdout.contains("quarantined"));
}

#[test]
fn an_update_that_is_followed_by_a_failure_is_recovered() {
    let config = |value: &str, command: &str| {
        format!(
            "resource \"terraform_data\" \"a\" {{ input = \"{value}\" }}\n\
             resource \"terraform_data\" \"b\" {{\n input = terraform_data.a.output\n triggers_replace = \"{value}\"\n provisioner \"local-exec\" {{ command = \"{command}\" }}\n}}\n\
             resource \"terraform_data\" \"gone{value}\" {{}}"
        )
    };
    let bed = Bed::new(&config("1", "true"));
    bed.begin(&[]);
    bed.write(&config("2", "false"));
    bed.plan(&[]);
    let run = bed.apply(1, &["--format", "json"]).json()["run"].as_str().expect("a run").to_owned();
    assert!(bed.pull().contains("gone1"), "the trunk is as it was");
    bed.exits(0, &["recover", &run]);
    bed.write(&config("2", "true"));
    bed.exits(0, &["apply", "live", "--auto-approve"]);
    bed.settled(&[]);
}

#[test]
fn a_failed_destroy_keeps_what_is_left() {
    let config = "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" {\n input = terraform_data.a.id\n}\n\
                  resource \"terraform_data\" \"c\" {\n provisioner \"local-exec\" {\n when = destroy\n command = \"test ! -e ../stuck\"\n }\n}";
    let bed = Bed::new(config);
    bed.begin(&[]);
    std::fs::write(bed.path("repo/stuck"), "").expect("the directory is ours");
    bed.plan(&["--destroy"]);
    bed.apply(1, &[]);
    assert_eq!(names(&bed).len(), 3);
    std::fs::remove_file(bed.path("repo/stuck")).expect("the directory is ours");
    bed.apply(0, &[]);
    assert_eq!(names(&bed), Vec::<String>::new());
}

#[test]
fn a_provisioner_that_fails_and_is_told_to_go_on_does_not_fail_the_apply() {
    Change::new(
        "",
        "resource \"terraform_data\" \"a\" {\n provisioner \"local-exec\" {\n command = \"false\"\n on_failure = continue\n }\n}",
    )
    .run();
}

/// An object of a provider that fails on request: it is replaced, the new one first, when its path changes.
fn replaced(bed: &Bed, name: &str) -> String {
    let path = bed.path(&format!("objects/{name}.json"));
    format!(
        "terraform {{\n required_providers {{\n {KLT}\n }}\n}}\n\
         resource \"klt_file\" \"a\" {{\n path = \"{path}\"\n content = \"c\"\n lifecycle {{ create_before_destroy = true }}\n}}"
    )
}

/// A checkout in which the old object of a replacement could not be destroyed; its run, and the old object.
fn stuck() -> (Bed, String, Object) {
    needs("example/klt");
    let bed = Bed::new("");
    bed.write(&replaced(&bed, "old"));
    bed.exits(0, &["apply", "live", "--auto-approve"]);
    let old = Object::at(bed.path("objects/old.json"));
    old.fail("delete");
    bed.write(&replaced(&bed, "new"));
    assert_eq!(bed.plan(&[]).writes(), ["create+delete klt_file.a"]);
    let said = bed.apply(1, &["--format", "json"]);
    assert!(!said.stderr.contains("Cut off"), "terraform has ended by itself:\n{said}");
    let run = said.json()["run"].as_str().expect("a run").to_owned();
    (bed, run, old)
}

#[test]
fn an_old_object_that_could_not_be_destroyed_is_recovered_as_deposed() {
    let (bed, run, old) = stuck();
    let said = bed.exits(0, &["recover", &run]);
    assert!(!said.stderr.contains("Cut off"), "{said}");
    assert!(bed.pull().contains("\"deposed\""));
    old.heal();
    assert!(bed.plan(&[]).writes()[0].starts_with("delete klt_file.a (deposed"));
    bed.apply(0, &[]);
    assert!(!bed.pull().contains("\"deposed\""));
    assert_eq!(old.read(), None);
    bed.settled(&[]);
}

#[test]
fn the_same_spec_finishes_what_left_a_deposed_object() {
    let (bed, _, old) = stuck();
    old.heal();
    bed.apply(0, &[]);
    assert!(!bed.pull().contains("\"deposed\""));
    assert_eq!(old.read(), None);
    exactly_as_planned(&bed, 1);
    bed.settled(&[]);
}

#[test]
fn a_move_that_is_followed_by_a_failure_is_recovered_at_its_new_address() {
    let bed = Bed::new("resource \"terraform_data\" \"old\" { input = \"1\" }");
    bed.begin(&[]);
    bed.write(
        "resource \"terraform_data\" \"new\" { input = \"2\" }\nmoved {\n from = terraform_data.old\n to = terraform_data.new\n}\n\
         resource \"terraform_data\" \"broken\" {\n input = terraform_data.new.output\n provisioner \"local-exec\" { command = \"test -e ../fixed\" }\n}",
    );
    bed.plan(&[]);
    bed.apply(1, &[]);
    std::fs::write(bed.path("repo/fixed"), "").expect("the directory is ours");
    bed.apply(0, &[]);
    assert_eq!(names(&bed), ["terraform_data.broken", "terraform_data.new"]);
    exactly_as_planned(&bed, 3);
    bed.settled(&[]);
}

#[test]
fn with_salvage_what_was_finished_is_committed_at_once() {
    let bed = Bed::new(CONFIG);
    std::fs::write(bed.path("repo/kl.yaml"), "policies: { on_failure: salvage }\n").expect("the directory is ours");
    let var = format!("fixed={}", bed.path("fixed"));
    bed.plan(&["--var", &var]);
    let said = bed.apply(1, &["--var", &var]);
    said.says(&["local-exec", "on_failure: salvage"]);
    assert!(!said.stderr.contains("kl recover"), "{said}");
    assert_eq!(names(&bed), ["terraform_data.broken", "terraform_data.first"]);
    assert!(!bed.exits(0, &["status"]).stdout.contains("quarantined"));
    // The rest is a plan of its own.
    std::fs::write(bed.path("fixed"), "").expect("the directory is ours");
    bed.plan(&["--var", &var]);
    bed.apply(0, &["--var", &var]);
    assert_eq!(bed.leftovers(), Vec::<String>::new());
}
