//! A canary in every value of a request that is sensitive: neither the forge nor the job gets to see it, whatever happens.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use crate::harness::database::Database;
use crate::harness::forge::{Behaviour, Merge, OpenRequest, StandIn};
use crate::harness::kl::Kl;
use crate::harness::site::{Checkout, Site};
use crate::secrets::{CANARY, assert_no_canary, texts};
use kl_runner::forge::Push;

/// Sensitive values wherever a configuration can have them, and a provisioner that fails with one in its command.
const SECRETIVE: &str = r#"
variable "given" {
  type      = string
  sensitive = true
}
variable "token" {
  type      = string
  ephemeral = true
}
variable "tags" {
  type      = map(string)
  sensitive = true
}
locals {
  deep = { list = [{ inner = var.given, open = "open" }], (var.given) = "as a key" }
}
resource "terraform_data" "value" {
  input            = local.deep
  triggers_replace = [var.given, var.tags]
  lifecycle {
    create_before_destroy = true
    precondition {
      condition     = length(var.token) > 3
      error_message = "the token is ${var.token}"
    }
    postcondition {
      condition     = var.given != ""
      error_message = "given ${var.given}"
    }
  }
}
resource "terraform_data" "fails" {
  input = nonsensitive(length(var.given))
  provisioner "local-exec" {
    command = "echo '${var.given}'; exit 3"
  }
}
moved {
  from = terraform_data.a
  to   = terraform_data.moved
}
resource "terraform_data" "moved" {
  input = var.given
}
check "health" {
  assert {
    condition     = var.given == "something else"
    error_message = "the value is ${var.given}"
  }
}
output "secret" {
  value     = { "${var.given}" = terraform_data.value.output }
  sensitive = true
}
"#;

/// What was said, and where.
#[derive(Default)]
struct Said(Vec<(String, String)>);

/// Two requests: the apply of the first fails, that of the second is refused. `on_request` and `on_push` are jobs in a
/// checkout, `more` what a job there leaves besides.
pub(super) fn no_value_is_told<B: Behaviour>(
    database: &Database,
    site: &Site,
    forge: &StandIn<B>,
    on_request: impl Fn(&Utf8Path, &str, u64) -> Kl,
    on_push: impl Fn(&Utf8Path, &str, &Push) -> Kl,
    more: impl Fn(&Utf8Path) -> Vec<(String, String)>,
) {
    let yaml = "projects:\n  - name: live\n    dir: live\n    vars: {given: CI_GIVEN, token: CI_TOKEN, tags: CI_TAGS}\n\
                policies: {show_values: true}\n";
    site.write("kl.yaml", yaml);
    let mut said = Said::default();
    let mut run = |kl: Kl, code: i32, args: &[&str]| {
        let kl = kl
            .env("CI_GIVEN", format!("{CANARY} \"quoted\" given"))
            .env("CI_TOKEN", format!("{CANARY}-token"))
            .env("CI_TAGS", format!("{{ \"k\" = \"{CANARY}-tag\" }}"))
            .args(args)
            .arg("-vvv");
        let output = kl.exits(code);
        said.0.push((args.join(" "), output.stdout + &output.stderr));
    };
    let checkout = |name: &str, text: &str| -> Checkout {
        let checkout = site.checkout(name);
        fs::remove_file(checkout.dir().join("live/a.tf")).unwrap();
        checkout.write("live/a.tf", "");
        checkout.write("live/secret.tf", text);
        checkout
    };
    let report = site.path("report.json").into_string();
    let branch = checkout("branch", SECRETIVE);
    let number = forge.open_request(&OpenRequest::new("Add", &["live/secret.tf", "live/a.tf"]));
    run(on_request(branch.dir(), "alice", number), 0, &["ci", "plan", "--report", &report]);
    let merged = checkout("merged", SECRETIVE);
    let push = forge.merge(number, Merge::Commit);
    run(on_push(merged.dir(), "alice", &push), 1, &["ci", "apply"]);
    // What it had done is quarantined, and in the next one's way.
    let second = checkout("second", &SECRETIVE.replace("exit 3", "true"));
    let next = forge.open_request(&OpenRequest::new("Mend", &["live/secret.tf"]));
    run(on_request(second.dir(), "bob", next), 0, &["ci", "plan"]);
    let push = forge.merge(next, Merge::Squash);
    run(on_push(second.dir(), "bob", &push), 2, &["ci", "apply"]);
    let failed = database.value("SELECT id FROM runs WHERE status = 'failed' ORDER BY id DESC LIMIT 1").unwrap();
    run(site.kl().dir(second.dir()), 0, &["recover", &failed]);
    run(site.kl().dir(second.dir()), 0, &["show", &failed, "--format", "json"]);
    run(site.kl().dir(second.dir()), 0, &["apply", "live", "--auto-approve", "--format", "json"]);
    run(site.kl().dir(second.dir()), 0, &["status", "--format", "json"]);

    for sent in forge.requests() {
        said.0.push((format!("{} {}", sent.method, sent.path), format!("{sent:?}")));
    }
    for dir in [branch.dir(), merged.dir(), second.dir()] {
        said.0.extend(more(dir));
    }
    said.0.push(("the report".to_owned(), fs::read_to_string(Utf8PathBuf::from(report)).unwrap()));
    said.0.extend(texts(database));
    assert!(said.0.iter().any(|(place, text)| place.starts_with("POST") && text.contains("terraform_data.value")));
    for (place, text) in &said.0 {
        assert_no_canary(place, text);
    }
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
