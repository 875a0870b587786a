//! Input variables: Terraform gets from kl exactly what it would read after `-var`, and nobody else gets to see it.

use std::fs;
use std::process::Command;

use kl_runner::domain::graph::configuration;
use kl_runner::domain::json::Json;
use kl_runner::terraform::{Input, PlanRequest, Stop, Terraform, Variable};
use kl_runner::workspace::Workspace;

use crate::harness::database::Database;
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::lab::{Lab, dirs, init};

on_both_databases!(
    no_argument_of_terraform_holds_a_value,
    a_variable_that_is_not_declared_is_refused_before_anything_is_touched,
    values_go_before_variable_files_in_the_order_of_terraform,
);

/// A type as it is declared (none: no type), and values for it.
const TABLE: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "plain",
            "",
            " spaced ",
            "a=b",
            "\"quoted\"",
            "${var.x}",
            "$${",
            "$$${x}",
            "%{ if true }x%{ endif }",
            "%%{",
            "$",
            "%",
            "two\nlines",
            "\r\n\t",
            "back\\slash\\n",
            "[1, 2]",
            "null",
            "true",
            "007",
            "\u{e9} e\u{301} \u{1f600} \u{200b}\u{feff}",
            "<<EOT\nx\nEOT",
            "# no comment",
            "\u{1}\u{7f}",
            "{\"a\":1}",
            "</script>&",
        ],
    ),
    ("string", &["x", "", "5", "true", "null", "\"q\"", "${1 + 1}", "~", "e\u{301}", "a\\u0041"]),
    (
        "number",
        &[
            "5",
            "05",
            "-1.50",
            "1e3",
            "0x10",
            " 5",
            "",
            "five",
            "1_000",
            "123456789012345678901234567890.5",
            "1e400",
            "inf",
        ],
    ),
    ("bool", &["true", "false", "1", "0", "yes", "True", "", "\"true\""]),
    (
        "any",
        &[
            "5",
            "text",
            "\"text\"",
            "[]",
            "{ a = 1, \"b\" : [true, null] }",
            "null",
            "1 +\n 1",
            "\"${1 + 1}\"",
            "upper(\"a\")",
            "<<EOT\nx ${1}\nEOT",
            "<<-EOT\n    x\n  EOT\n",
            "[for x in [1, 2] : x * 2]",
            "{\n  a = 1\n  b = 2\n}",
            "[1] # )",
            "1)\ny = (2",
            "1, 2",
            "",
            " ",
            "true ? 1 : 2",
            "[1,\n2,\n]",
            "var.x",
            "\"$${x}\"",
            "-5",
            "!true",
            "(1)",
            "{a=1}.a",
            "[1, 2][0]",
            "\"\\u00e9\"",
            "/* c */ 1",
            "// c\n1",
            "1 //",
        ],
    ),
    ("list(string)", &["[\"a\", \"b\"]", "[1, true]", "a,b", "\"a\"", "{}", "[[]]", "null", "[\"a\" \"b\"]"]),
    (
        "object({ a = string, b = optional(number, 3) })",
        &["{ a = 1 }", "{ a = \"x\", b = \"4\", c = 5 }", "{}", "{a:\"x\"}", "{\"a\"=\"x\"}"],
    ),
    ("map(list(number))", &["{ \"a.b\" = [1] }", "{ (1 + 1) = [2] }", "{a=[\"1\"]}", "{a=1}"]),
    ("tuple([string, bool])", &["[1, \"true\"]", "[1]"]),
    ("set(string)", &["[\"b\", \"a\", \"b\"]"]),
];

/// The value that a plan has for the output, or that there is no plan.
type Planned = Option<Json>;

/// With its numbers as they stand: Terraform knows larger ones than most programs.
fn planned(show: &str) -> Json {
    let plan = Json::parse(show).expect("a plan is JSON");
    let part = ["planned_values", "outputs"].iter().try_fold(&plan, |part, name| part.get(name));
    part.and_then(|outputs| outputs.get("x")).cloned().unwrap_or(Json::Null)
}

/// What Terraform makes of `-var`.
fn by_argument(lab: &Lab, value: &str) -> Planned {
    let dir = lab.path("repo");
    let run = |args: &[&str]| {
        let mut command = Command::new(program());
        command.arg(format!("-chdir={dir}")).args(args).env("TF_DATA_DIR", lab.path("by-argument").as_str());
        command.output().expect("Terraform can be run")
    };
    let out = format!("-out={}", lab.path("by-argument.bin"));
    let made = run(&["plan", "-input=false", "-no-color", &out, &format!("-var=x={value}")]);
    made.status.success().then(|| {
        let shown = run(&["show", "-json", lab.path("by-argument.bin").as_str()]);
        planned(&String::from_utf8(shown.stdout).expect("JSON is Unicode"))
    })
}

/// What it makes of the file that kl writes; no file is no plan.
async fn by_file(terraform: &Terraform, workspace: &Workspace, declaration: &str, value: &str) -> Planned {
    let files = [("main.tf".to_owned(), declaration.to_owned())];
    let config = configuration::read(&files).expect("the declaration is well-formed");
    let variable = Variable { name: "x".to_owned(), value: value.into() };
    let input = Input::new(&variable, config.variables[0].form).ok()?;
    let request = PlanRequest { inputs: vec![input], ..PlanRequest::new(workspace.plan_path()) };
    terraform.plan(&dirs(workspace), &request, &Stop::never(), &mut |_| {}).await.ok()?;
    let shown = terraform.show_json(&dirs(workspace), &workspace.plan_path(), &Stop::never()).await;
    Some(planned(&shown.expect("a plan can be shown")))
}

#[tokio::test]
async fn without_a_type_terraform_reads_what_it_would_read_after_var() {
    compare(str::is_empty).await;
}

#[tokio::test]
async fn of_simple_types_terraform_reads_what_it_would_read_after_var() {
    compare(|kind| ["string", "number", "bool"].contains(&kind)).await;
}

#[tokio::test]
async fn of_any_type_terraform_reads_what_it_would_read_after_var() {
    compare(|kind| kind == "any").await;
}

#[tokio::test]
async fn of_compound_types_terraform_reads_what_it_would_read_after_var() {
    compare(|kind| kind.contains('(')).await;
}

/// Compares all values of the table for these types.
async fn compare(chosen: impl Fn(&str) -> bool) {
    for (kind, values) in TABLE.iter().filter(|(kind, _)| chosen(kind)) {
        let kind = if kind.is_empty() { String::new() } else { format!("  type = {kind}\n") };
        let declaration = format!("variable \"x\" {{\n{kind}}}\noutput \"x\" {{\n  value = var.x\n}}\n");
        let lab = Lab::new(&[("main.tf", &declaration)]);
        let terraform = lab.terraform().await;
        let workspace = lab.workspace("", "default");
        init(&terraform, &workspace).await;
        for value in *values {
            let (expected, got) =
                (by_argument(&lab, value), by_file(&terraform, &workspace, &declaration, value).await);
            assert_eq!(got, expected, "{value:?} for {declaration}");
        }
    }
}

/// Configuration with a variable of each kind, one of which is wanted again at the apply. Its provisioner looks at the
/// arguments of everything that runs.
const WATCHED: &str = r#"
variable "plain" { type = string }
variable "list" { type = list(string) }
variable "token" {
  type      = string
  ephemeral = true
}
resource "terraform_data" "x" {
  input = [var.plain, var.list]
  provisioner "local-exec" {
    command = "cat /proc/[0-9]*/cmdline > $SEEN; echo \"$TOKEN\" > $SEEN.token"
    environment = {
      SEEN  = "SEEN_FILE"
      TOKEN = var.token
    }
  }
}
"#;

const YAML: &str =
    "projects:\n  - name: live\n    dir: live\n    vars: {plain: CI_PLAIN, list: CI_LIST, token: CI_TOKEN}\n";

fn no_argument_of_terraform_holds_a_value(database: &Database) {
    let site = Site::on(database);
    let (seen, log) = (site.path("seen"), site.path("arguments"));
    site.write("kl.yaml", YAML);
    site.write("live/main.tf", &WATCHED.replace("SEEN_FILE", seen.as_str()));
    let wrapper = site.path("bin/terraform");
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> {log}\nexec {} \"$@\"\n", program());
    site.write("../bin/terraform", &script);
    make_executable(&wrapper);
    // Other tests run beside this one.
    let canary = format!("canary-{}", uuid_of(database, &site));
    let kl = |args: &[&str]| {
        site.kl()
            .env("KL_TERRAFORM", wrapper.as_str())
            .env("CI_PLAIN", format!("{canary}-plain"))
            .env("CI_LIST", format!("[\"{canary}-list\"]"))
            .env("CI_TOKEN", format!("{canary}-token"))
            .args(args)
    };
    drop(kl(&["plan", "live", "--keep-workspace"]).exits(0));
    drop(kl(&["apply", "kl-plan.json", "--keep-workspace"]).exits(0));
    drop(kl(&["refresh", "live"]).exits(0));
    let arguments = fs::read_to_string(&log).expect("the wrapper has run");
    assert!(arguments.contains("-var-file=") && arguments.contains("token.tfvars.json"), "{arguments}");
    assert!(!arguments.contains(&canary), "{arguments}");
    let seen_text = String::from_utf8_lossy(&fs::read(&seen).expect("the provisioner has looked")).into_owned();
    assert!(seen_text.contains("-json"), "it saw Terraform: {seen_text}");
    assert!(!seen_text.contains(&canary), "{seen_text}");
    let token = fs::read_to_string(format!("{seen}.token")).expect("the provisioner has written");
    assert_eq!(token.trim(), format!("{canary}-token"));
    // Kept for a look at it, without what was given: an ephemeral value is in no plan and no state.
    for kept in fs::read_dir(site.path("tmp")).expect("the site is ours") {
        let kept = kept.expect("readable").path();
        assert!(!kept.join("given").exists(), "{}", kept.display());
    }
}

/// Something that no other test has.
fn uuid_of(database: &Database, site: &Site) -> String {
    let name = site.path("").file_name().unwrap_or_default().to_owned();
    format!("{:?}-{name}", database.backend())
}

fn make_executable(path: &camino::Utf8Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
}

fn a_variable_that_is_not_declared_is_refused_before_anything_is_touched(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", "variable \"region\" {}\nvariable \"tags\" {\n  type = map(string)\n}\n");
    drop(site.kl().args(["plan", "live", "--var", "region=x", "--var", "tags={}"]).exits(0));
    for command in [&["plan", "live"][..], &["apply", "live", "--auto-approve"], &["refresh", "live"]] {
        let said = site.kl().args(command).args(["--var", "regoin=s3cret"]).exits(3).stderr;
        assert!(said.contains("live declares no variable regoin") && said.contains("it declares: region"), "{said}");
        let said =
            site.kl().args(command).args(["--var", "region=x", "--var", "tags=s3cret)\nregion=(1"]).exits(3).stderr;
        assert!(said.contains("the value given for variable tags cannot be read"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let said = site.kl().args(["plan", "live", "--var", "region=x", "--var", "tags=[\"s3cret\"]"]).exits(3).stderr;
    assert!(said.contains("on the value given for variable tags") && !said.contains("s3cret"), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM runs"), Some("0".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
    // Given at the plan, gone at the apply: refused before a run begins.
    site.write("live/main.tf", "variable \"tags\" {\n  type = map(string)\n}\n");
    let said = site.kl().args(["apply", "kl-plan.json", "--var", "region=x", "--var", "tags={}"]).exits(3).stderr;
    assert!(said.contains("live declares no variable region"), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM runs"), Some("0".into()));
}

fn values_go_before_variable_files_in_the_order_of_terraform(database: &Database) {
    let site = Site::on(database);
    site.write("kl.yaml", "projects:\n  - name: live\n    dir: live\n    var_files: [configured.tfvars]\n    vars: {d: FROM_ENV, e: FROM_ENV}\n");
    let variables: String = ["a", "b", "c", "d", "e"].map(|name| format!("variable \"{name}\" {{}}\n")).concat();
    let output = "output \"all\" {\n  value = join(\",\", [var.a, var.b, var.c, var.d, var.e])\n}\n";
    site.write("live/main.tf", &format!("{variables}{output}"));
    let file = |source: &str, names: &[&str]| -> String {
        names.iter().map(|name| format!("{name} = \"{source}\"\n")).collect::<Vec<_>>().concat()
    };
    site.write("live/terraform.tfvars", &file("terraform", &["a", "b", "c", "d", "e"]));
    site.write("live/x.auto.tfvars", &file("auto", &["a", "b", "c", "d", "e"]));
    site.write("live/configured.tfvars", &file("configured", &["b", "c", "d", "e"]));
    site.write("live/named.tfvars", &file("named", &["c", "d", "e"]));
    let given = ["--var-file", "named.tfvars", "--var", "e=first", "--var", "e=last"];
    let kl = site.kl().env("FROM_ENV", "env").env("TF_VAR_a", "lowest");
    drop(kl.args(["apply", "live", "--auto-approve"]).args(given).exits(0));
    let body =
        database.value("SELECT body FROM resource_bodies WHERE body LIKE '%auto%'").expect("the output is there");
    assert!(body.contains("\"auto,configured,named,env,last\""), "{body}");
}
