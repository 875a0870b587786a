//! What a provider calls sensitive stays in the state: through drift, an import, a replacement that fails half-way and
//! leaves a deposed object, a conflict, a recovery, and plain Terraform beside kl. So does what a provider is told in its
//! settings and in write-only attributes, and what it keeps in the private data of an instance.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::harness::database::Database;
use crate::harness::providers::{KLT, Object, needs};
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::secrets::{CANARY, assert_no_canary, texts};

on_both_databases!(
    what_a_provider_calls_secret_stays_in_the_state,
    what_a_provider_is_told_and_keeps_for_itself_stays_there
);

/// The secret stands in the configuration as plain text: only the provider's schema says that it is one.
fn config(site: &Site, path: &str, secret: &str) -> String {
    format!(
        r#"
terraform {{
  required_providers {{
    klt = {{ source = "example/klt" }}
  }}
  backend "http" {{}}
}}
resource "klt_file" "a" {{
  path    = "{path}"
  content = "plain"
  secret  = "{CANARY}-{secret}"
  lifecycle {{
    create_before_destroy = true
  }}
}}
import {{
  to = klt_file.imported
  id = "{imported}"
}}
resource "klt_file" "imported" {{
  path    = "{imported}"
  content = "plain"
  secret  = "{CANARY}-imported-too"
}}
"#,
        imported = site.path("imported.json")
    )
}

fn what_a_provider_calls_secret_stays_in_the_state(database: &Database) {
    needs("example/klt");
    let site = Site::on(database);
    let (first, second) = (site.path("first.json"), site.path("second.json"));
    let document = |secret: &str| format!(r#"{{"content": "plain", "id": "i", "secret": "{CANARY}-{secret}"}}"#);
    fs::write(site.path("imported.json"), document("imported")).unwrap();
    let mut said = String::new();
    let mut run = |code: i32, args: &[&str]| {
        let output = site.kl().args(args).arg("-vvv").exits(code);
        said.push_str(&output.stdout);
        said.push_str(&output.stderr);
    };
    site.write("live/main.tf", &config(&site, first.as_str(), "one"));
    run(0, &["plan", "live", "--format", "json"]);
    run(0, &["apply", "kl-plan.json"]);
    // Somebody edits the object, and the drift is taken over.
    fs::write(&first, document("drifted")).unwrap();
    run(0, &["refresh", "live", "--dry-run", "--format", "json"]);
    run(0, &["refresh", "live"]);
    // The new object is made, and the old one refuses to go: it is deposed, and the rows are kept for a recovery.
    site.write("live/main.tf", &config(&site, second.as_str(), "two"));
    run(0, &["plan", "live"]);
    fs::write(site.path("first.json.fail"), "delete").unwrap();
    run(1, &["apply", "kl-plan.json"]);
    let failed = database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'failed'").expect("the failed run");
    run(0, &["status"]);
    run(0, &["show", &failed]);
    run(0, &["explain", &failed, "--format", "json"]);
    // Another plan meets the quarantine.
    let other = site.checkout("other");
    other.write("live/main.tf", &config(&site, second.as_str(), "three"));
    let other_dir = other.dir().join("live").into_string();
    run(2, &["apply", &other_dir, "--state", "live", "--auto-approve"]);
    run(0, &["recover", &failed]);
    fs::remove_file(site.path("first.json.fail")).unwrap();
    run(0, &["apply", "live", "--auto-approve"]);
    // Plain Terraform on the same state.
    let mut plain = |args: &[&str]| {
        let output = site.kl().dir("live").args(["exec", "-vvv", "--", program().as_str()]).args(args).exits(0);
        said.push_str(&output.stdout);
        said.push_str(&output.stderr);
    };
    plain(&["init", "-input=false", "-no-color"]);
    plain(&["plan", "-input=false", "-no-color"]);
    plain(&["apply", "-auto-approve", "-input=false", "-no-color"]);

    assert_no_canary("what was said", &said);
    assert_no_canary("the spec", &fs::read_to_string(site.repo().join("kl-plan.json")).unwrap());
    for (place, text) in texts(database) {
        assert_no_canary(&place, &text);
    }
    // The search would have found it: the object's own file and the state hold it.
    assert!(fs::read_to_string(&second).unwrap().contains(CANARY));
    let bodies = format!("SELECT count(*) FROM resource_bodies WHERE body LIKE '%{CANARY}%'");
    assert_ne!(database.value(&bodies), Some("0".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Only the provider knows what it was told; a digest of it may not stand anywhere either, as it is in no plan.
fn vault(path: &str) -> String {
    format!(
        r#"
terraform {{
  required_providers {{
    {KLT}
  }}
  backend "http" {{}}
}}
variable "token" {{
  type      = string
  sensitive = true
}}
variable "told" {{
  type      = string
  ephemeral = true
}}
variable "version_told" {{ type = number }}
provider "klt" {{
  token = var.token
}}
resource "klt_vault" "v" {{
  path             = "{path}"
  token_wo         = var.told
  token_wo_version = var.version_told
}}
resource "terraform_data" "after" {{
  input = klt_vault.v.token_wo_version
}}
"#
    )
}

fn what_a_provider_is_told_and_keeps_for_itself_stays_there(database: &Database) {
    needs("example/klt");
    let site = Site::on(database);
    let path = site.path("vault.json");
    site.write("live/main.tf", &vault(path.as_str()));
    let mut said = String::new();
    let mut run = |code: i32, version: u32, args: &[&str]| {
        let mut kl = site.kl().env("TF_VAR_token", format!("{CANARY}-setting"));
        kl = kl.env("TF_VAR_told", format!("{CANARY}-told-{version}")).args(args).arg("-vvv");
        if ["plan", "apply", "refresh"].contains(&args[0]) {
            kl = kl.arg(format!("--var=version_told={version}"));
        }
        let output = kl.exits(code);
        said.push_str(&output.stdout);
        said.push_str(&output.stderr);
    };
    // What the state holds of it, as the private data that it is.
    let kept = |version: u32| {
        let pulled = site.kl().args(["state", "pull", "live"]).exits(0).json();
        let instance = &pulled["resources"].as_array().unwrap().iter().find(|it| it["type"] == "klt_vault").unwrap();
        let instance = &instance["instances"][0];
        assert!(instance["attributes"]["token_wo"].is_null(), "{instance}");
        let private = STANDARD.decode(instance["private"].as_str().unwrap()).unwrap();
        assert_eq!(String::from_utf8(private).unwrap(), format!("kept: {CANARY}-told-{version}"));
    };
    run(0, 1, &["plan", "live", "--format", "json"]);
    run(0, 1, &["apply", "kl-plan.json", "--format", "json"]);
    kept(1);
    run(0, 1, &["refresh", "live"]);
    kept(1);
    // It fails half-way, is met by somebody else, and recovered.
    run(0, 2, &["plan", "live"]);
    let object = Object::at(path);
    object.fail("update");
    run(1, 2, &["apply", "kl-plan.json"]);
    object.heal();
    let failed = database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'failed'").expect("the failed run");
    for args in [
        &["show", &failed][..],
        &["show", &failed, "--format", "json"],
        &["explain", &failed],
        &["status", "--format", "json"],
        &["state", "show", "klt_vault.v", "--dir", "live"],
        &["state", "show", "klt_vault.v", "--dir", "live", "--format", "json"],
        &["history", "live", "--address", "klt_vault.v"],
        &["blame", "--dir", "live"],
    ] {
        run(0, 2, args);
    }
    run(0, 3, &["apply", "live", "--auto-approve"]);
    kept(3);
    let mut plain = |args: &[&str]| {
        let kl = site.kl().dir("live").env("TF_VAR_token", format!("{CANARY}-setting"));
        let kl = kl.env("TF_VAR_told", format!("{CANARY}-told-4")).env("TF_VAR_version_told", "4");
        let output = kl.args(["exec", "-vvv", "--", program().as_str()]).args(args).exits(0);
        said.push_str(&output.stdout);
        said.push_str(&output.stderr);
    };
    plain(&["init", "-input=false", "-no-color"]);
    plain(&["apply", "-auto-approve", "-input=false", "-no-color"]);
    kept(4);

    assert_no_canary("what was said", &said);
    assert_no_canary("the spec", &fs::read_to_string(site.repo().join("kl-plan.json")).unwrap());
    for (place, text) in texts(database) {
        assert_no_canary(&place, &text);
    }
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
