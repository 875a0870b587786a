//! Terraform crashes, loses its state, fills the disk or hangs; its work directory vanishes; the database is restarted: each
//! ends soon, says what happened, keeps a record of what was made, and leaves nothing that one or two commands do not mend.

pub(crate) mod server;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8PathBuf;

use crate::harness::database::Database;
use crate::harness::kl::{Kl, Said};
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::stage::{assert_tidy, runs};

on_both_databases!(
    a_terraform_that_crashes_after_its_work_loses_nothing,
    a_terraform_that_crashes_at_its_work_leaves_its_objects_named,
    a_state_that_is_missing_or_torn_destroys_nothing_in_the_trunk,
    a_work_directory_that_vanishes_leaves_its_objects_named,
    a_disk_that_fills_leaves_its_objects_named_and_shows_no_value,
    a_disk_that_fills_before_the_first_write_leaves_its_objects_named,
    an_update_whose_state_was_never_written_takes_no_row_away,
    a_provider_that_hangs_is_stopped_in_time,
);

/// `kept` is in the trunk before. Each object leaves a line behind for each time that it is made. `second` runs whatever
/// the test says, then `third` comes.
const WORLD: &str = r#"
variable "reality" {}
variable "text" { default = "" }
resource "terraform_data" "kept" {}
resource "terraform_data" "first" {
  input = "${terraform_data.kept.id}${var.text}"
  provisioner "local-exec" { command = "echo made >> ${var.reality}/first" }
}
resource "terraform_data" "second" {
  input = terraform_data.first.output
  provisioner "local-exec" { command = "echo made >> ${var.reality}/second; . ${var.reality}/midst" }
}
resource "terraform_data" "third" {
  input = terraform_data.second.output
  provisioner "local-exec" { command = "echo made >> ${var.reality}/third" }
}
"#;

/// A site with that world, and a Terraform that does as it is told around an apply.
struct Scene<'a> {
    database: &'a Database,
    site: Site,
    script: Utf8PathBuf,
}

impl<'a> Scene<'a> {
    /// `kept` is made and committed; the rest is planned.
    fn new(database: &'a Database) -> Self {
        let site = Site::on(database);
        site.write("live/main.tf", WORLD);
        fs::create_dir(site.path("reality")).unwrap();
        let script = site.path("ill-terraform");
        let scene = Self { database, site, script };
        scene.in_the_midst("");
        drop(scene.kl("apply").args(["live", "--auto-approve", "--target", "terraform_data.kept"]).exits(0));
        drop(scene.kl("plan").args(["live", "--out", scene.spec().as_str()]).exits(0));
        scene
    }

    fn spec(&self) -> Utf8PathBuf {
        self.site.path("spec.json")
    }

    fn kl(&self, command: &str) -> Kl {
        self.site.kl().args([command, &format!("--var=reality={}", self.site.path("reality"))])
    }

    /// `kl apply` of the spec, with a Terraform that is well.
    fn apply(&self) -> Kl {
        self.kl("apply").args([self.spec().as_str(), "--dir", "live"])
    }

    /// What `second` does while it is made.
    fn in_the_midst(&self, text: &str) {
        fs::write(self.site.path("reality/midst"), text).unwrap();
    }

    /// `kl apply` with a Terraform that runs `before` in front of an apply and `after` behind it; `$code` is how it ended,
    /// `$state` its state.
    fn ill(&self, before: &str, after: &str) -> Kl {
        let terraform = program();
        let text = format!(
            r#"#!/bin/sh
verb=
for arg; do case $arg in -*) ;; *) verb=$arg; break ;; esac; done
[ "$verb" = apply ] || exec "{terraform}" "$@"
state=$(dirname "$TF_DATA_DIR")/state/terraform.tfstate
{before}
"{terraform}" "$@"
code=$?
{after}
exit $code
"#
        );
        fs::write(&self.script, text).unwrap();
        fs::set_permissions(&self.script, fs::Permissions::from_mode(0o755)).unwrap();
        self.apply().env("KL_TERRAFORM", self.script.as_str())
    }

    fn made(&self, object: &str) -> usize {
        fs::read_to_string(self.site.path("reality").join(object)).unwrap_or_default().lines().count()
    }

    fn trunk(&self) -> String {
        self.site.kl().args(["state", "list", "live"]).exits(0).stdout
    }

    /// The run that failed last.
    fn failed(&self) -> String {
        runs(self.database, "failed").pop().expect("a run has failed")
    }

    /// That the run failed and said this; that one apply of the same spec mends it, or says which objects a person has to
    /// look for, before it makes them again; and that nothing else is made twice, but `broken`, which has to be.
    fn is_mended(&self, said: &Said, words: &[&str], broken: &[&str]) {
        for word in words {
            assert!(said.stderr.contains(word), "{word}: {said:?}");
        }
        let run = self.failed();
        assert!(said.stderr.contains(&format!("kl recover {run}")), "{said:?}");
        let mut unknown = Vec::new();
        let (again, told) = self.apply().spawn().ends();
        if again.code() != Some(0) {
            assert_eq!(again.code(), Some(2), "{told:?}");
            assert!(told.stderr.contains("may exist without being in the state"), "{told:?}");
            assert!(told.stderr.contains(&format!("kl recover {run}")), "{told:?}");
            let told = self.site.kl().args(["recover", &run]).exits(0).stdout;
            let trunk = self.trunk();
            assert!(trunk.contains("terraform_data.kept\n"), "{trunk}");
            for object in ["first", "second", "third"] {
                if self.made(object) > 0 && !trunk.contains(object) {
                    assert!(told.contains(&format!("terraform_data.{object} was being created")), "{object}: {told}");
                    unknown.push(object);
                }
            }
            assert!(!unknown.is_empty(), "{told}");
            drop(self.apply().exits(0));
        }
        let all = ["first", "kept", "second", "third"].map(|name| format!("terraform_data.{name}\n")).concat();
        assert_eq!(self.trunk(), all);
        for object in ["first", "second", "third"] {
            let made = self.made(object);
            let expected = 1 + usize::from(unknown.contains(&object) || broken.contains(&object));
            assert!(made == expected || (made == 1 && broken.contains(&object)), "{object}: {made}");
        }
        let serials: usize = self.database.value("SELECT max(serial) FROM state_versions").unwrap().parse().unwrap();
        assert_tidy(self.database, serials);
        assert_eq!(self.site.leftovers(), Vec::<String>::new());
    }

    /// Ends all objects, for the next scene on the same database.
    fn is_cleared(&self) {
        drop(self.kl("apply").args(["live", "--auto-approve", "--destroy"]).exits(0));
    }
}

fn a_terraform_that_crashes_after_its_work_loses_nothing(database: &Database) {
    for (how, word) in [("exit 2", "exit code 2"), ("exit 139", "exit code 139"), ("kill -SEGV $$", "signal 11")] {
        let scene = Scene::new(database);
        let said = scene.ill("", how).exits(1);
        assert_eq!(["first", "second", "third"].map(|object| scene.made(object)), [1; 3]);
        scene.is_mended(&said, &["terraform apply failed", word], &[]);
        assert_eq!(["first", "second", "third"].map(|object| scene.made(object)), [1; 3]);
        scene.is_cleared();
    }
}

fn a_terraform_that_crashes_at_its_work_leaves_its_objects_named(database: &Database) {
    for (how, word) in [("exit 2", "exit code 2"), ("exit 139", "exit code 139"), ("kill -SEGV $$", "signal 11")] {
        let scene = Scene::new(database);
        // It crashes as far as kl can tell: the wrapper says so in its place.
        scene.in_the_midst("kill -KILL $PPID");
        let said = scene.ill("", how).exits(1);
        scene.in_the_midst("");
        scene.is_mended(&said, &["terraform apply failed", word, "terraform_data.second"], &[]);
        assert_eq!(["first", "second", "third"].map(|object| scene.made(object)), [1, 2, 1]);
        scene.is_cleared();
    }
}

fn a_state_that_is_missing_or_torn_destroys_nothing_in_the_trunk(database: &Database) {
    let cases = [
        ("rm $state", "the state that terraform worked on is gone"),
        ("rm $state; exit 2", "exit code 2"),
        ("head -c 300 $state > $state.part; mv $state.part $state", "cut off while writing it"),
        ("head -c 300 $state > $state.part; mv $state.part $state; exit 2", "exit code 2"),
    ];
    for (how, word) in cases {
        let scene = Scene::new(database);
        let said = scene.ill("", how).exits(1);
        scene.is_mended(&said, &[word], &[]);
        scene.is_cleared();
    }
}

fn a_work_directory_that_vanishes_leaves_its_objects_named(database: &Database) {
    let scene = Scene::new(database);
    scene.in_the_midst(&format!("rm -rf {}/kl-*", scene.site.path("tmp")));
    let said = scene.ill("", "").exits(1);
    scene.in_the_midst("");
    scene.is_mended(&said, &["the state that terraform worked on is gone"], &[]);
}

fn a_disk_that_fills_leaves_its_objects_named_and_shows_no_value(database: &Database) {
    let scene = Scene::new(database);
    let text = format!("default = \"canary{}\"", "x".repeat(3_000));
    scene.site.write("live/main.tf", &WORLD.replace("default = \"\"", &text));
    drop(scene.kl("plan").args(["live", "--out", scene.spec().as_str()]).exits(0));
    // No file may get longer than 8 blocks of 512 bytes: the state with `first` does not fit.
    let said = scene.ill("ulimit -f 8", "").exits(1);
    assert!(!said.stderr.contains("canary"), "{said:?}");
    scene.is_mended(
        &said,
        &["terraform apply failed", "Terraform could not write its state", "terraform_data.first"],
        &[],
    );
}

/// The state before does not fit a second time, so Terraform cannot even copy it and leaves it as it was; with less room
/// still what Terraform says is lost, too.
fn a_disk_that_fills_before_the_first_write_leaves_its_objects_named(database: &Database) {
    for (blocks, word) in [(24, "Terraform could not write its state"), (3, "terraform apply failed: exit code 1")] {
        let scene = Scene::new(database);
        let text = format!("resource \"terraform_data\" \"kept\" {{\n  input = \"{}\"\n}}", "x".repeat(9_000));
        let world = WORLD.replace("resource \"terraform_data\" \"kept\" {}", &text);
        scene.site.write("live/main.tf", &world);
        drop(scene.kl("apply").args(["live", "--auto-approve", "--target", "terraform_data.kept"]).exits(0));
        drop(scene.kl("plan").args(["live", "--out", scene.spec().as_str()]).exits(0));
        let said = scene.ill(&format!("ulimit -f {blocks}"), "").exits(1);
        assert_eq!(scene.made("first"), 1, "{said:?}");
        scene.is_mended(&said, &[word, "terraform_data.first"], &[]);
        scene.is_cleared();
    }
}

/// No checkpoint was taken when the state was lost: what is in flight stays in the trunk as it was.
fn an_update_whose_state_was_never_written_takes_no_row_away(database: &Database) {
    for after in ["kill -KILL $$", "exit 2"] {
        let scene = Scene::new(database);
        drop(scene.apply().exits(0));
        let changed = "--var=text=changed";
        drop(scene.kl("plan").args(["live", "--out", scene.spec().as_str(), changed]).exits(0));
        // Terraform begins with `first`, and that is all that anybody has heard of it.
        let start = r#"{"@level":"info","@message":"terraform_data.first: Modifying...","hook":{"resource":{"addr":"terraform_data.first"},"action":"update"},"type":"apply_start"}"#;
        let said = scene.ill(&format!("rm $state; echo '{start}'; sleep 0.2; {after}"), "").arg(changed).exits(1);
        let run = scene.failed();
        assert!(said.stderr.contains(&format!("kl recover {run}")), "{said:?}");
        let told = scene.site.kl().args(["recover", &run]).exits(0).stdout;
        assert!(!told.contains("was being created"), "{told}");
        let all = ["first", "kept", "second", "third"].map(|name| format!("terraform_data.{name}\n")).concat();
        assert_eq!(scene.trunk(), all);
        drop(scene.apply().arg(changed).exits(0));
        assert_eq!(["first", "second", "third"].map(|object| scene.made(object)), [1; 3]);
        scene.is_cleared();
        fs::remove_dir_all(scene.site.path("reality")).unwrap();
    }
}

fn a_provider_that_hangs_is_stopped_in_time(database: &Database) {
    for stubborn in ["", "trap '' INT TERM; "] {
        let scene = Scene::new(database);
        scene.in_the_midst(&format!("{stubborn}sleep 100 & wait"));
        let said = scene.apply().args(["--timeout", "4s"]).exits(1);
        scene.in_the_midst("");
        let words = ["the apply has taken longer than --timeout 4s", "was stopped after", "terraform_data.second"];
        scene.is_mended(&said, &words, &["second"]);
        scene.is_cleared();
    }
}
