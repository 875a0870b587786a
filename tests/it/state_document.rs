//! State documents: what the real Terraform writes comes back as it was, what kl writes the real Terraform accepts,
//! and the fixtures of documents that no Terraform at hand would write.

use std::collections::BTreeMap;
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use kl_runner::domain::state::document::{DocumentError, StateDocument, read};
use kl_runner::domain::state::projection::write;
use serde_json::Value;

use crate::harness::site::Site;
use crate::harness::terraform::Plain;

/// A configuration with every construct that leaves its own mark in a state.
const CONFIGURATION: &str = r#"
variable "secret" {
  type      = string
  default   = "s3cret <&>"
  sensitive = true
}

resource "terraform_data" "counted" {
  count = 12
  input = count.index
}

resource "terraform_data" "keyed" {
  for_each = toset([
    "svc.example.test", "q\"uote", "back\\slash", "br[0]acket", "new\nline", "tab\tTAB", "dollar$${x}", "per%%{y}",
    "zero\u200bwidth", "emoji😀", "naïve-日本", "<&>", "*", "%", "_", "", "0", "10", "2", "]",
  ])
  input = each.key
}

resource "terraform_data" "values" {
  input = {
    long  = 123456789012345678901234567890
    huge  = 1e100
    small = 1e-30
    third = 1 / 3
    one   = 1.0
    html  = "< > & \u2028"
    nul   = jsondecode("\"a\\u0000b\"")
    empty = {}
    none  = []
    null  = null
  }
}

resource "terraform_data" "secret" {
  input = { a = var.secret, b = [var.secret, "x"] }
  lifecycle { create_before_destroy = true }
}

resource "terraform_data" "dependent" {
  input      = terraform_data.counted[*].output
  depends_on = [module.each, terraform_data.secret]
  lifecycle {
    precondition {
      condition     = length(terraform_data.counted) > 1
      error_message = "too few"
    }
  }
}

resource "terraform_data" "tainted" {}

module "each" {
  source   = "./m"
  for_each = toset(["a.b", "x[0]", "plain"])
}

module "count" {
  source = "./m"
  count  = 11
}

data "terraform_remote_state" "one" {
  backend = "local"
  config  = { path = "${path.module}/other.tfstate" }
}

data "terraform_remote_state" "many" {
  for_each = toset(["one", "two"])
  backend  = "local"
  config   = { path = "${path.module}/other.tfstate" }
}

check "health" {
  assert {
    condition     = terraform_data.values.output.one == 2
    error_message = "one is not <two>"
  }
}

output "plain" { value = data.terraform_remote_state.one.outputs.o }

output "secret" {
  value     = var.secret
  sensitive = true
}

output "complex" {
  value = { list = [1, "two", { three = 3.5 }], big = 12345678901234567890123, m = module.each["a.b"].o }
  precondition {
    condition     = length(module.count) > 0
    error_message = "none"
  }
}
"#;

const MODULE: &str = r#"
resource "terraform_data" "x" {
  for_each = toset(["c.d", "k"])
  input    = each.key
}

module "inner" {
  source = "./inner"
  count  = 2
}

output "o" { value = [for x in terraform_data.x : x.output] }
"#;

/// What the data sources read.
const OTHER: &str = r#"{"version":4,"terraform_version":"1.0.0","serial":1,"lineage":"other",
  "outputs":{"o":{"value":"remote","type":"string"}},"resources":[]}"#;

/// The deposed object of a replacement that failed, which the built-in provider cannot be brought to leave.
const DEPOSED: &str = r#"{"deposed":"0000beef","schema_version":0,
  "attributes":{"id":"old","input":null,"output":null,"triggers_replace":null},"create_before_destroy":true},"#;

/// An applied root module, and the state that Terraform wrote.
fn applied(configuration: &str) -> (Plain, String) {
    let site = Site::new();
    site.write("live/main.tf", configuration);
    site.write("live/m/main.tf", MODULE);
    site.write("live/m/inner/main.tf", "resource \"terraform_data\" \"deep\" { input = 1 }\n");
    site.write("live/other.tfstate", OTHER);
    let plain = Plain::new(&site, "live");
    let text = plain.apply(&[]);
    (plain, text)
}

/// The text up to the check results, and the entries of these in a fixed order: Terraform writes them in any.
fn with_checks_sorted(text: &str) -> (&str, Vec<String>) {
    let Some((before, _)) = text.split_once("\n  \"check_results\": [") else {
        return (text, Vec::new());
    };
    let document: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
    let sorted = |check: &Value| {
        let mut objects = check["objects"].as_array().cloned().unwrap_or_default();
        objects.sort_by_key(Value::to_string);
        let mut check = check.clone();
        if check["objects"].is_array() {
            check["objects"] = objects.into();
        }
        check.to_string()
    };
    let mut checks: Vec<String> = document["check_results"].as_array().unwrap().iter().map(sorted).collect();
    checks.sort();
    (before, checks)
}

fn keys(document: &StateDocument) -> Vec<String> {
    document.rows.iter().map(|row| row.key.to_string()).collect()
}

#[test]
fn every_construct_that_terraform_writes_comes_back_as_it_was() {
    let (plain, text) = applied(CONFIGURATION);
    let document = read(&text).unwrap();
    assert_eq!(with_checks_sorted(&write(&document)), with_checks_sorted(&text));
    assert_eq!(read(&write(&document)).unwrap(), document);

    // A state that kl wrote is Terraform's own: the same instances, the same values, nothing to do.
    let (listed, shown) = (plain.output(&["state", "list"]), plain.output(&["show", "-json"]));
    fs::write(plain.module().join("terraform.tfstate"), write(&document)).unwrap();
    assert_eq!(plain.output(&["state", "list"]), listed);
    let values = |shown: &str| serde_json::from_str::<Value>(shown).unwrap()["values"].clone();
    assert_eq!(values(&plain.output(&["show", "-json"])), values(&shown));
    assert_eq!(plain.changes(&write(&document), &[]), None);

    // What takes an accident: a deposed object, and a tainted one. `taint` makes Terraform write the document anew.
    let with_deposed = {
        let (before, after) = text.split_once("\"name\": \"secret\"").unwrap();
        let after = after.replacen("\"instances\": [", &format!("\"instances\": [{DEPOSED}"), 1);
        format!("{before}\"name\": \"secret\"{after}")
    };
    fs::write(plain.module().join("terraform.tfstate"), &with_deposed).unwrap();
    drop(plain.output(&["taint", "terraform_data.tainted"]));
    let text = fs::read_to_string(plain.module().join("terraform.tfstate")).unwrap();
    let document = read(&text).unwrap();
    assert_eq!(with_checks_sorted(&write(&document)), with_checks_sorted(&text));

    let keys = keys(&document);
    for key in [
        "terraform_data.counted[11]",
        r#"terraform_data.keyed["dollar$${x}"]"#,
        r#"terraform_data.keyed["zero\u200bwidth"]"#,
        r#"terraform_data.keyed[""]"#,
        "terraform_data.secret",
        "terraform_data.secret (deposed 0000beef)",
        r#"module.each["x[0]"].terraform_data.x["c.d"]"#,
        "module.count[10].module.inner[1].terraform_data.deep",
        r#"data.terraform_remote_state.many["two"]"#,
        "output.complex",
        "check.health (check check)",
        "output.complex (output check)",
        "terraform_data.dependent (resource check)",
    ] {
        assert!(keys.iter().any(|found| found == key), "{key} is not in {keys:#?}");
    }
    let body = |key: &str| document.rows.iter().find(|row| row.key.to_string() == key).unwrap().body.text();
    assert!(body("terraform_data.tainted").contains(r#""status":"tainted""#));
    for token in [
        r#""long":123456789012345678901234567890,"#,
        r#""huge":10000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000,"#,
        r#""small":0.000000000000000000000000000001,"#,
        r#""one":1,"#,
        r#""html":"\u003c \u003e \u0026 \u2028","#,
        r#""nul":"a\u0000b","#,
    ] {
        assert!(body("terraform_data.values").contains(token), "{token}");
    }

    // Terraform plans the same from both: one replacement, and the end of the deposed object.
    let planned = || {
        drop(plain.output(&["plan", "-input=false", "-no-color", "-out=p"]));
        let plan: Value = serde_json::from_str(&plain.output(&["show", "-json", "p"])).unwrap();
        let changes = plan["resource_changes"].as_array().unwrap().iter();
        changes.filter(|change| change["change"]["actions"][0] != "no-op").cloned().collect::<Vec<_>>()
    };
    let from_terraforms = planned();
    assert_eq!(from_terraforms.len(), 2, "{from_terraforms:#?}");
    fs::write(plain.module().join("terraform.tfstate"), write(&document)).unwrap();
    assert_eq!(planned(), from_terraforms);
}

#[test]
fn an_empty_state_and_rows_with_unequal_heads_are_accepted_by_terraform() {
    let (plain, _) = applied("resource \"terraform_data\" \"x\" {\n  count = 2\n}\n");
    let changes = plain.changes(&write(&StateDocument::default()), &[]).unwrap();
    assert!(changes.contains("2 to add"), "{changes}");

    // One instance was committed since the resource's provider was written in another way.
    let block = |each: &str, index: u32| {
        format!(
            r#"{{"mode":"managed","type":"terraform_data","name":"x",{each}
            "provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{{"index_key":{index},"schema_version":0,
            "attributes":{{"id":"i","input":null,"output":null,"triggers_replace":null}}}}]}}"#
        )
    };
    let text = format!(
        r#"{{"version":4,"serial":1,"lineage":"l","resources":[{},{}]}}"#,
        block("", 1),
        block("\"each\":\"list\",", 0)
    );
    let document = read(&text).unwrap();
    let written = write(&document);
    assert_eq!(written.matches("\"mode\"").count(), 2, "{written}");
    assert_eq!(read(&written).unwrap(), document);
    assert_eq!(plain.changes(&written, &[]), None);
    fs::write(plain.module().join("terraform.tfstate"), &written).unwrap();
    assert_eq!(plain.output(&["state", "list"]), "terraform_data.x[0]\nterraform_data.x[1]\n");
}

fn fixtures() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state")
}

fn fixture(name: &str) -> String {
    fs::read_to_string(fixtures().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn documents_that_other_versions_and_providers_write_come_back_as_they_were() {
    for (name, expected) in [
        (
            "aws_like.tfstate",
            &[
                "aws_db_instance.main",
                "aws_db_instance.main (deposed 6f8ae3c1)",
                "aws_security_group.db",
                "data.aws_caller_identity.current",
                "module.network.aws_subnet.private[0]",
                "module.network.aws_subnet.private[1]",
                "module.network.aws_subnet.private[10]",
                "module.network.data.aws_region.here",
                r#"module.service["svc.example.test"].aws_route53_record.a["0"]"#,
                r#"module.service["svc.example.test"].aws_route53_record.a["a.example.test"]"#,
                r#"module.service["svc.example.test"].aws_route53_record.a["b.example.test"]"#,
                "output.db_password",
                "output.endpoints",
                "aws_db_instance.main (resource check)",
            ] as &[&str],
        ),
        ("opentofu.tfstate", &[r#"module.a[0].null_resource.x["k"]"#, "output.id"]),
        ("legacy_provider.tfstate", &["null_resource.x[0]"]),
        ("husk.tfstate", &["null_resource.gone", "module.old.data.null_data_source.gone"]),
        (
            "unknown_members.tfstate",
            &["terraform_data.x[0]", r#"terraform_data.x["0"]"#, "output.o", "thing.of.tomorrow (new_kind check)"],
        ),
    ] {
        let text = fixture(name);
        let document = read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(keys(&document), expected, "{name}");
        assert_eq!(write(&document), text, "{name}");
        assert_eq!(read(&write(&document)).unwrap(), document, "{name}");
    }
}

#[test]
fn documents_that_kl_cannot_take_are_refused_with_what_to_do() {
    for (name, expected, advice) in [
        ("version_3.tfstate", DocumentError::OldVersion, "terraform state pull"),
        ("version_5.tfstate", DocumentError::NewVersion, "newer kl"),
        ("encrypted.tfstate", DocumentError::Encrypted, "tofu state pull"),
        ("truncated.tfstate", DocumentError::Truncated { line: 131, column: 69 }, "fetch it again"),
    ] {
        let error = read(&fixture(name)).unwrap_err();
        assert_eq!(error, expected, "{name}");
        assert!(error.to_string().contains(advice), "{error}");
    }
}

#[test]
fn an_old_document_is_upgraded_in_the_way_that_the_refusal_names() {
    let site = Site::new();
    site.write("live/main.tf", "");
    let plain = Plain::new(&site, "live");
    // After the initialization, which would look for the provider of the one resource.
    drop(plain.output(&["version"]));
    fs::write(plain.module().join("terraform.tfstate"), fixture("version_3.tfstate")).unwrap();
    let pulled = plain.output(&["state", "pull"]);
    assert_eq!(keys(&read(&pulled).unwrap()), ["null_resource.x"]);
}

#[test]
fn every_fixture_says_why_it_exists() {
    let reasons = fixture("README.md");
    for entry in fixtures().read_dir_utf8().unwrap() {
        let name = entry.unwrap().file_name().to_owned();
        assert!(name == "README.md" || reasons.contains(&format!("| `{name}` |")), "{name}");
    }
}
