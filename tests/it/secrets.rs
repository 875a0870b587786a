//! A canary is planted wherever Terraform can hold a secret, everything is run as loudly as it can be, and the canary is
//! found nowhere but in the state's own bodies.

use std::fs;

use crate::harness::database::{Backend, Database};
use crate::harness::site::Site;

/// The part that all canaries have in common. It has no letter that any escape would change.
pub(crate) const CANARY: &str = "canary-5f3a9e";

/// Where the database may hold values: the rows of the state, and what Terraform has made of them so far.
const MAY_HOLD_VALUES: [(&str, &str); 2] = [("resource_bodies", "body"), ("run_checkpoints", "state")];

on_both_databases!(
    no_sensitive_value_leaves_the_state,
    a_sensitive_value_in_a_message_of_terraform_is_masked,
    what_a_message_makes_of_a_sensitive_value_is_masked_too,
    what_a_provisioner_said_is_shown_to_its_caller_alone
);

const CONFIG: &str = r#"
variable "given" {
  type      = string
  sensitive = true
}
variable "from_env" {
  type      = string
  sensitive = true
}
variable "from_file" {
  type      = object({ inner = string })
  sensitive = true
}
resource "terraform_data" "secret" {
  input = [var.given, var.from_env, var.from_file.inner]
}
resource "terraform_data" "uses" {
  input            = { plain = "p", hidden = sensitive("canary-5f3a9e-literal") }
  triggers_replace = var.given
}
# A data source whose values are a secret: the state of somebody else, with a sensitive output.
data "terraform_remote_state" "other" {
  backend = "local"
  config  = { path = "${path.module}/other.tfstate" }
}
resource "terraform_data" "reads" {
  input = data.terraform_remote_state.other.outputs.secret
}
# The key of a map is a secret, and so is what a condition that fails would say.
resource "terraform_data" "map" {
  input = { (var.given) = "x" }
  lifecycle {
    precondition {
      condition     = length(var.given) < 100
      error_message = "this is not allowed: ${var.given}"
    }
  }
}
check "loud" {
  assert {
    condition     = var.given == "nothing"
    error_message = "and neither is this: ${var.given}"
  }
}
resource "terraform_data" "keyed" {
  input = nonsensitive(sha256(var.given))
}
output "secret" {
  value     = terraform_data.secret.output
  sensitive = true
}
"#;

/// Fails when the canary is in a text: as it is, in Base64 or in hexadecimal digits.
#[track_caller]
pub(crate) fn assert_no_canary(place: &str, text: &str) {
    let mut forms =
        vec![CANARY.to_owned(), CANARY.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()];
    // What stands before it shifts the groups of three; the letters at its ends mix with its neighbours.
    forms.extend((0..3).map(|skipped| base64(&CANARY.as_bytes()[skipped..skipped + 9])));
    for form in forms {
        let found = text.find(&form).map(|at| {
            let (from, to) = (at.saturating_sub(200), (at + 200).min(text.len()));
            text[text.floor_char_boundary(from)..text.ceil_char_boundary(to)].to_owned()
        });
        assert!(found.is_none(), "{place} holds the canary as {form}: …{}…", found.unwrap_or_default());
    }
}

/// Whole groups of three bytes in Base64.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(LETTERS[bits >> shift & 63]))
    };
    bytes.chunks_exact(3).flat_map(group).collect()
}

#[test]
fn the_search_finds_every_form() {
    assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    for text in [
        "x canary-5f3a9e",
        "Y2FuYXJ5LTVmM2E5ZQ==",
        "eGNhbmFyeS01ZjNhOWU=",
        "eHhjYW5hcnktNWYzYTll",
        "63616e6172792d356633613965",
    ] {
        assert!(std::panic::catch_unwind(|| assert_no_canary("here", text)).is_err(), "{text}");
    }
    assert_no_canary("here", "canary-5f3a");
}

/// Every text in the database, outside the columns that may hold values.
pub(crate) fn texts(database: &Database) -> Vec<(String, String)> {
    let columns = match database.backend() {
        Backend::Sqlite => {
            "SELECT m.name, p.name FROM sqlite_schema m JOIN pragma_table_info(m.name) p \
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND p.type <> 'BLOB'"
        }
        Backend::Postgres => {
            "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public' AND data_type <> 'bytea' \
             AND table_name IN (SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE')"
        }
    };
    let mut found = Vec::new();
    for column in database.rows(columns) {
        let [Some(table), Some(column)] = column.as_slice() else { panic!("a column has a name") };
        if MAY_HOLD_VALUES.contains(&(table, column)) {
            continue;
        }
        let query = format!("SELECT DISTINCT CAST({column} AS TEXT) FROM {table} WHERE {column} IS NOT NULL");
        let values = database.rows(&query).into_iter().filter_map(|row| row.into_iter().next().flatten());
        found.extend(values.map(|value| (format!("{table}.{column}"), value)));
    }
    assert!(found.iter().any(|(place, _)| place == "run_events.event"), "the search looks where it should");
    found
}

fn no_sensitive_value_leaves_the_state(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CONFIG);
    site.write("live/terraform.tfvars", &format!("from_file = {{ inner = \"{CANARY}-file\" }}\n"));
    let other = format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"o","outputs":{{"secret":{{"value":"{CANARY}-other","type":"string","sensitive":true}}}},"resources":[]}}"#
    );
    site.write("live/other.tfstate", &other);
    let mut said = String::new();
    let mut run = |code: i32, value: &str, args: &[&str]| {
        let given = format!("--var=given={CANARY}-{value}");
        let mut kl = site.kl().env("TF_VAR_from_env", format!("{CANARY}-env")).args(args).arg("-vvv");
        if ["plan", "apply", "refresh"].contains(&args[0]) {
            kl = kl.arg(given);
        }
        let output = kl.exits(code);
        said.push_str(&output.stdout);
        said.push_str(&output.stderr);
    };
    run(0, "one", &["plan", "live", "--format", "json"]);
    run(0, "one", &["apply", "kl-plan.json", "--format", "json"]);
    run(0, "two", &["plan", "live"]);
    // The reviewed values are not these.
    run(4, "three", &["apply", "kl-plan.json"]);
    run(0, "two", &["apply", "kl-plan.json"]);
    run(0, "two", &["refresh", "live"]);
    // A condition refuses it, in a message that holds the value.
    run(1, &"long".repeat(30), &["plan", "live"]);
    for args in [
        &["status"][..],
        &["history", "live"],
        &["history", "--since-plan", "kl-plan.json"],
        &["history", "live", "--address", "terraform_data.secret"],
        &["runs", "--format", "json"],
        &["blame", "--dir", "live"],
        &["forecast", "kl-plan.json", "--format", "json"],
        &["report", "--out", "-"],
        &["state", "list", "live"],
        &["state", "show", "terraform_data.secret", "--dir", "live"],
        &["state", "show", "output.secret", "--dir", "live"],
        &["state", "show", "terraform_data.uses", "--dir", "live", "--format", "json"],
    ] {
        run(0, "", args);
    }
    assert_no_canary("what was said", &said);
    assert_no_canary("the spec", &fs::read_to_string(site.repo().join("kl-plan.json")).unwrap());
    for (place, text) in texts(database) {
        assert_no_canary(&place, &text);
    }
    // The search would have found it.
    let bodies = format!("SELECT count(*) FROM resource_bodies WHERE body LIKE '%{CANARY}%'");
    assert_ne!(database.value(&bodies), Some("0".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// A text whose line break is cut off with what stands last, one in lines, one that `jsonencode` escapes, and a number.
fn what_a_message_makes_of_a_sensitive_value_is_masked_too(database: &Database) {
    let site = Site::on(database);
    let config = r#"
variable "ended" {
  type      = string
  sensitive = true
}
variable "lines" {
  type      = string
  sensitive = true
}
variable "signs" {
  type      = string
  sensitive = true
}
variable "number" {
  type      = number
  sensitive = true
}
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "printf 'is open: %s %s\\n%s\\n%s' \"$NUMBER\" \"$SIGNS\" \"$LINES_\" \"$ENDED\"; exit 3"
    environment = {
      NUMBER = var.number
      SIGNS  = jsonencode({ x = var.signs })
      LINES_ = var.lines
      ENDED  = var.ended
    }
  }
}
"#;
    site.write("live/main.tf", config);
    let given = format!(
        "ended = \"{CANARY}-ended\\n\"\nlines = \"{CANARY}-1\\n  {CANARY}-2\\n\"\nsigns = \"<{CANARY}>&\"\nnumber = 5392817\n"
    );
    site.write("live/terraform.tfvars", &given);
    let said = site.kl().args(["apply", "live", "--auto-approve", "-vvv"]).exits(1).stderr;
    assert!(said.contains("is open: (sensitive value) {\"x\":\"(sensitive value)\"}"), "{said}");
    assert!(!said.contains("5392817"), "{said}");
    assert_no_canary("what was said", &said);
    for (place, text) in texts(database) {
        assert_no_canary(&place, &text);
    }
}

/// Nobody can know whether it is a secret: the person who ran it sees it, and it is kept nowhere.
fn what_a_provisioner_said_is_shown_to_its_caller_alone(database: &Database) {
    let site = Site::on(database);
    site.write(
        "live/main.tf",
        &format!(
            "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"echo {CANARY}; exit 3\"\n  }}\n}}\n"
        ),
    );
    let said = site.kl().args(["apply", "live", "--auto-approve"]).exits(1).stderr;
    assert!(said.contains(CANARY), "{said}");
    for (place, text) in texts(database) {
        assert!(!text.contains(CANARY), "{place} holds {text}");
    }
    let error = database.value("SELECT error FROM runs").unwrap();
    assert!(error.contains("local-exec provisioner error (terraform_data.a)"), "{error}");
}

/// Terraform itself puts it there: into the command that failed, and what that said.
fn a_sensitive_value_in_a_message_of_terraform_is_masked(database: &Database) {
    let site = Site::on(database);
    let config = r#"
variable "given" {
  type      = string
  sensitive = true
}
variable "listed" {
  type      = list(string)
  sensitive = true
}
variable "number" {
  type      = number
  sensitive = true
  default   = 1
}
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "echo ${var.given} $LISTED open; exit 3"
    environment = { LISTED = var.listed[0] }
  }
}
"#;
    site.write("live/main.tf", config);
    site.write("live/terraform.tfvars", &format!("listed = [\"{CANARY}-listed\"]\n"));
    let kl = || site.kl().env("TF_VAR_given", format!("{CANARY}-given"));
    let said = kl().args(["apply", "live", "--auto-approve", "-vvv"]).exits(1).stderr;
    assert!(said.contains("echo (sensitive value) $LISTED open") && said.contains("(sensitive value) open"), "{said}");
    assert_no_canary("what was said", &said);
    // Refused while planning, before there is a plan that says what is sensitive.
    let said = kl().args(["plan", "live", "-vvv", "--var", &format!("number={CANARY}-number")]).exits(3).stderr;
    assert!(said.contains("a number is required"), "{said}");
    assert_no_canary("what was said", &said);
    for (place, text) in texts(database) {
        assert_no_canary(&place, &text);
    }
}
