//! Inputs and surroundings that are wrong: one clear message, the right exit code, nothing changed, nothing left behind.

use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::harness::database::{Backend, Database, on, with_database};
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::terraform::{Plain, program};
use crate::stage::assert_tidy;

const ONE: &str = "resource \"terraform_data\" \"a\" { input = 1 }\n";

on_both_databases!(
    a_spec_that_cannot_be_used_is_refused_and_changes_nothing,
    a_spec_of_another_state_lineage_or_database_is_refused,
    a_schema_that_is_too_new_is_refused,
    a_full_disk_is_one_clear_message_and_leaves_nothing,
    names_of_states_are_taken_as_they_are,
);

/// Runs it, and checks the exit code and that all of these stand in one error message.
#[track_caller]
fn refused(kl: Kl, code: i32, parts: &[&str]) -> String {
    let said = kl.exits(code).stderr;
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    said
}

#[test]
fn commands_that_only_look_make_no_database() {
    let site = Site::new();
    let commands: [&[&str]; 18] = [
        &["status"],
        &["status", "--watch"],
        &["runs"],
        &["explain", "0123abcd"],
        &["blame"],
        &["forecast"],
        &["history", "--address", "terraform_data.a"],
        &["history", "--since-plan", "kl-plan.json"],
        &["history"],
        &["show", "0123abcd"],
        &["state", "pull"],
        &["state", "list"],
        &["state", "list", "--all"],
        &["state", "show", "terraform_data.a"],
        &["abort", "0123abcd"],
        &["apply", "abort", "0123abcd"],
        &["recover", "0123abcd"],
        &["recover", "0123abcd", "--discard"],
    ];
    for command in commands {
        refused(site.kl().args(command), 3, &["there is no database sqlite:", "kl.db yet"]);
        assert!(!site.repo().join(".kl").exists(), "{command:?}");
    }
    // Neither is a file that somebody has left empty: whoever looks is told, and whoever begins in it is warned.
    let file = site.path("empty.db");
    std::fs::write(&file, "").unwrap();
    let empty = |args: &[&str]| site.kl().args(args.iter().copied()).args(["--database", file.as_str()]);
    refused(empty(&["status"]), 3, &["there is no database sqlite:", "empty.db yet: the file is empty"]);
    refused(empty(&["plan", "nowhere"]), 3, &["nowhere"]);
    assert_eq!(file.metadata().unwrap().len(), 0);
    let document = r#"{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[]}"#;
    let import = || empty(&["state", "import", "-", "--state", "s"]).stdin(document).exits(0).stderr;
    let said = import();
    assert!(said.contains("empty.db is empty: a new one begins in it"), "{said}");
    assert_eq!(import(), "");
}

#[test]
fn what_is_too_long_or_too_deep_is_refused_with_the_limit() {
    let site = Site::new();
    site.write("live/main.tf", ONE);
    drop(site.kl().args(["plan", "live"]).exits(0));
    refused(
        site.kl().args(["apply", "/dev/zero"]),
        3,
        &["cannot read the spec /dev/zero", "more than 268435456 bytes"],
    );
    let said = refused(site.kl().args(["state", "show", &"a".repeat(100_000), "--dir", "live"]), 3, &["is not"]);
    assert!(said.len() < 2_000, "{} bytes", said.len());
    site.write("kl.yaml", &format!("defaults: {}{}\n", "[".repeat(1_000), "]".repeat(1_000)));
    refused(site.kl().args(["plan", "live"]), 3, &["more than 64 brackets within each other"]);
    site.write("kl.yaml", "");
    let deep = format!("locals {{\n  a = {}1{}\n}}\n", "[".repeat(10_000), "]".repeat(10_000));
    site.write("live/deep.tf", &deep);
    refused(site.kl().args(["plan", "live"]), 3, &["does not parse", "64 nested levels"]);
    fs::File::create(site.repo().join("live/deep.tf")).unwrap().set_len(17 << 20).unwrap();
    refused(site.kl().args(["plan", "live"]), 3, &["deep.tf has more than 16777216 bytes"]);
    let deep = format!(
        "{{\"version\":4,\"serial\":1,\"lineage\":\"x\",\"resources\":{}1{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    site.write("deep.tfstate", &deep);
    refused(
        site.kl().args(["state", "import", "deep.tfstate", "--dir", "live", "--state", "other"]),
        3,
        &["cannot be imported"],
    );
}

fn a_spec_that_cannot_be_used_is_refused_and_changes_nothing(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", ONE);
    drop(site.kl().args(["plan", "live"]).exits(0));
    let good = fs::read_to_string(site.repo().join("kl-plan.json")).unwrap();
    let cases: [(&str, Vec<u8>, &[&str]); 9] = [
        ("empty.json", Vec::new(), &["it is empty"]),
        ("blank.json", b"\n  \n".to_vec(), &["blank.json cannot be used"]),
        ("binary", vec![0, 159, 146, 150], &["binary is not a plan spec: it is not text"]),
        ("other.json", b"{\"version\": 4}".to_vec(), &["it is not a plan spec of kl"]),
        ("list.json", b"[1, 2]".to_vec(), &["it is not a plan spec of kl"]),
        (
            "terraform.json",
            b"{\"format_version\":\"1.2\",\"terraform_version\":\"1.11.4\",\"resource_changes\":[]}".to_vec(),
            &["it is not a plan spec of kl"],
        ),
        ("cut.json", good.as_bytes()[..good.len() / 2].to_vec(), &["it is not a whole JSON document"]),
        (
            "edited.json",
            good.replace("terraform_data.a", "terraform_data.b").into_bytes(),
            &["its digest does not fit"],
        ),
        (
            "newer.json",
            good.replacen("\"format_version\": 1", "\"format_version\": 99", 1).into_bytes(),
            &["newer.json cannot be used"],
        ),
    ];
    for (name, content, parts) in cases {
        fs::write(site.repo().join(name), content).unwrap();
        refused(site.kl().args(["apply", name, "--dir", "live"]), 3, parts);
    }
    refused(site.kl().args(["apply", "missing.json"]), 3, &["cannot read the spec missing.json", "kl plan"]);
    assert_tidy(database, 0);
    assert_eq!(database.value("SELECT count(*) FROM runs"), Some("0".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
    drop(site.kl().args(["apply", "kl-plan.json"]).exits(0));
    assert_tidy(database, 1);
}

fn a_spec_of_another_state_lineage_or_database_is_refused(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", ONE);
    site.write("other/main.tf", ONE);
    drop(site.kl().args(["apply", "live"]).exits(0));
    site.write("live/main.tf", &ONE.replace('1', "2"));
    drop(site.kl().args(["plan", "live"]).exits(0));
    refused(
        site.kl().args(["apply", "kl-plan.json", "--dir", "other"]),
        3,
        &["the spec is for state \"live\"", "has state \"other\""],
    );
    refused(site.kl().args(["apply", "kl-plan.json", "--state", "prod"]), 3, &["has state \"prod\""]);
    on(database.backend(), |foreign| {
        let second = Site::on(&foreign);
        second.write("live/main.tf", ONE);
        drop(second.kl().args(["plan", "live", "--out", "own.json"]).exits(0));
        fs::copy(site.repo().join("kl-plan.json"), second.repo().join("kl-plan.json")).unwrap();
        refused(second.kl().args(["apply", "kl-plan.json"]), 3, &["the database does not know the spec"]);
    });
    // The schema itself forbids this; a database that was restored by hand may still have it.
    database.execute(match database.backend() {
        Backend::Sqlite => "DROP TRIGGER states_lineage_never_changes",
        Backend::Postgres => "ALTER TABLE states DISABLE TRIGGER USER",
    });
    database.execute("UPDATE states SET lineage = 'bbbb'");
    refused(site.kl().args(["apply", "kl-plan.json"]), 3, &["was planned for lineage", "has lineage bbbb"]);
    assert_tidy(database, 1);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn a_schema_that_is_too_new_is_refused(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", ONE);
    drop(site.kl().args(["plan", "live"]).exits(0));
    database.corrupted_on_purpose();
    database.execute("UPDATE kl_migrations SET version = version + 9000");
    for command in [&["status"][..], &["plan", "live"], &["apply", "kl-plan.json"], &["db", "migrate"]] {
        refused(site.kl().args(command), 3, &["this kl knows only up to", "use a newer kl"]);
    }
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_postgres_schema_that_is_too_old_names_the_command() {
    on(Backend::Postgres, |database| {
        let site = Site::new();
        site.write("live/main.tf", ONE);
        for command in [&["status"][..], &["plan", "live"], &["state", "pull", "live"]] {
            let kl = site.kl().env("KL_DATABASE_URL", database.url()).args(command);
            refused(kl, 3, &["the database's schema is at version 0", "kl db migrate"]);
        }
    });
}

#[test]
fn a_database_that_cannot_be_reached_is_named_without_credentials() {
    let site = Site::new();
    site.write("live/main.tf", ONE);
    let nobody = "postgres://kl:hunter2@127.0.0.1:1/kl?sslmode=disable";
    for command in [&["status"][..], &["plan", "live"], &["db", "migrate"]] {
        let said = refused(
            site.kl().env("KL_DATABASE_URL", nobody).args(command),
            3,
            &["cannot open the database postgres://127.0.0.1:1/kl", "refused", "KL_DATABASE_URL"],
        );
        assert!(!said.contains("hunter2"), "{said}");
    }
    refused(site.kl().args(["status", "--database", "mysql://kl:hunter2@db/kl"]), 3, &["not in mysql:"]);
    on(Backend::Postgres, |database| {
        let unknown = with_database(database.url(), "kl_no_such_database");
        refused(site.kl().args(["status", "--database", &unknown]), 3, &["kl_no_such_database", "does not exist"]);
    });
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let site = Site::new();
    site.write("live/main.tf", ONE);
    fs::create_dir(site.path("dir")).unwrap();
    fs::write(site.path("text"), "not a database, but long enough to have a header of a hundred bytes. ".repeat(9))
        .unwrap();
    drop(site.kl().args(["apply", "live"]).exits(0));
    let whole = fs::read(site.repo().join(".kl/kl.db")).unwrap();
    let mut corrupt = whole.clone();
    corrupt[100..].fill(0xA5);
    fs::write(site.path("corrupt"), &corrupt).unwrap();
    let cases = [
        ("dir", "it is a directory"),
        ("text", "the file is not a SQLite database"),
        ("corrupt", "malformed"),
        ("none/kl.db", "does not exist"),
        ("text/kl.db", "cannot open the database"),
    ];
    for (path, part) in cases {
        let path = site.path(path).into_string();
        let before = fs::read(&path).ok();
        let said = refused(site.kl().args(["plan", "live", "--database", &path]), 3, &[part]);
        assert!(said.contains(&path), "{said}");
        assert_eq!(fs::read(&path).ok(), before);
    }
    refused(site.kl().args(["plan", "live", "--database", "/proc/kl.db"]), 3, &["cannot open the database"]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_program_that_is_not_terraform_is_refused() {
    let site = Site::new();
    site.write("live/main.tf", ONE);
    let script = |name: &str, text: &str| {
        let path = site.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.into_string()
    };
    let old = script("old", "#!/bin/sh\necho '{\"terraform_version\": \"0.13.7\"}'\n");
    let mute = script("mute", "#!/bin/sh\nexit 1\n");
    let garbage = script("garbage", "\u{1}\u{2}");
    let plan = |program: &str| site.kl().args(["plan", "live", "--terraform", program]);
    refused(plan(&old), 3, &["0.13.7", "or newer"]);
    refused(plan(&mute), 3, &["does not answer `version`"]);
    refused(plan(&garbage), 3, &["cannot start"]);
    refused(plan("/no/such/terraform"), 3, &["there is no /no/such/terraform"]);
    refused(plan("live/main.tf"), 3, &["live/main.tf"]);
    let nothing = site.kl().without("KL_TERRAFORM").env("PATH", site.path("home").as_str());
    refused(nothing.args(["plan", "live"]), 3, &["neither terraform nor tofu is on PATH"]);
    // The wrapper of setup-terraform would change exit codes and add lines: the binary behind it is used.
    let wrapper = script("terraform", "#!/bin/sh\necho '::debug::wrapped'\nexit 42\n");
    fs::copy(program(), site.path("terraform-bin")).unwrap();
    drop(plan(&wrapper).exits(0));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_directory_that_is_no_root_module_is_refused() {
    let site = Site::new();
    site.write("broken/main.tf", "resource \"terraform_data\" {\n");
    site.write("undeclared/main.tf", "resource \"terraform_data\" \"a\" { input = var.nowhere }\n");
    fs::create_dir(site.repo().join("empty")).unwrap();
    site.write("file.tf", "");
    let plan = |dir: &str| site.kl().args(["plan", dir]);
    refused(plan("empty"), 3, &["is not a root module: it has no .tf file"]);
    refused(plan("nowhere"), 3, &["there is no directory nowhere"]);
    refused(plan("file.tf"), 3, &["is not a directory"]);
    refused(plan("broken"), 3, &["does not parse", "main.tf:1:"]);
    refused(site.kl().args(["apply", "broken"]), 3, &["does not parse"]);
    refused(plan("undeclared"), 1, &["Reference to undeclared input variable", "nowhere"]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
    assert!(!site.repo().join(".kl").exists(), "a plan that fails makes no database");
}

#[test]
fn a_kl_yaml_that_is_wrong_says_where() {
    let site = Site::new();
    site.write("live/main.tf", ONE);
    let nested = format!("projects: {}", "[".repeat(900_000));
    let mut bomb = String::from("a0: &a0 [x, x]\n");
    for level in 1..40 {
        bomb += &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
    }
    let bomb_in_a_known_key = format!("projects: &a0 [x, x]\n{bomb}");
    let huge = "#".repeat(2_000_000);
    let cases: [(&str, &str); 10] = [
        ("polices: {}\n", "kl.yaml:1:1: unknown key `polices`, did you mean `policies`?"),
        ("projects: 3\n", "kl.yaml:1:11: `projects` must be a list, and this is a number"),
        ("policies:\n  max_plan_age: soon\n", "kl.yaml:2:17: `max_plan_age`: \"soon\" is not a duration"),
        ("policies:\n  on_stale: maybe\n", "kl.yaml:2:13: `on_stale` cannot be `maybe`"),
        (
            "projects:\n- name: web\n  dir: infra/wbe\n",
            "kl.yaml:3:8: `dir`: there is no directory `infra/wbe` (counted from kl.yaml)",
        ),
        ("projects: [", "kl.yaml:"),
        (&nested, "brackets within each other"),
        (&bomb, "kl.yaml:"),
        (&bomb_in_a_known_key, "kl.yaml:"),
        (&huge, "has at most"),
    ];
    for (text, part) in cases {
        site.write("kl.yaml", text);
        refused(site.kl().args(["plan", "live"]), 3, &[part]);
    }
    fs::write(site.repo().join("kl.yaml"), [0xff, 0xfe]).unwrap();
    refused(site.kl().args(["plan", "live"]), 3, &["kl.yaml"]);
    fs::remove_file(site.repo().join("kl.yaml")).unwrap();
    site.write("kl.yml", "projects: []\n");
    refused(site.kl().args(["plan", "live"]), 3, &["kl.yml is not read", "rename it to kl.yaml"]);
    assert!(!site.repo().join(".kl").exists());
}

/// A limit on the size of files stands for a full disk: it needs no rights and no mount.
fn a_full_disk_is_one_clear_message_and_leaves_nothing(database: &Database) {
    let site = Site::on(database);
    site.write(
        "live/main.tf",
        "variable \"v\" { default = \"\" }\nresource \"terraform_data\" \"a\" { input = var.v }\n",
    );
    let long = format!("--var=v={}", "x".repeat(100_000));
    drop(site.kl().args(["apply", "live", &long]).exits(0));
    let kl = env!("CARGO_BIN_EXE_kl");
    // 64 KiB, in blocks of 512 bytes; without the signal, writing more is an error like that of a full disk.
    let limited = format!("trap '' XFSZ; ulimit -f 128; exec {kl} plan live --out short.json");
    let said = refused(site.kl().instead("/bin/sh").args(["-c", &limited]), 3, &["because", "too large"]);
    assert!(said.contains("cannot write"), "{said}");
    assert!(!site.repo().join("short.json").exists());
    assert_eq!(site.leftovers(), Vec::<String>::new());
    assert_tidy(database, 1);
}

fn names_of_states_are_taken_as_they_are(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", ONE);
    let names = ["a/b", "../x", "%_*", "-x", "a\"b'c", "ä😀", "A", "a", "select;--"];
    for name in names {
        let state = format!("--state={name}");
        drop(site.kl().args(["apply", "live", &state]).exits(0));
        let shown = site.kl().args(["history", "live", &state, "--format", "json"]).exits(0).json();
        assert_eq!(shown["state"], name);
    }
    assert_eq!(database.value("SELECT count(*) FROM states"), Some(names.len().to_string()));
    for name in ["", " ", "a ", "a\nb", "\u{1b}[31m", &"x".repeat(201)] {
        refused(site.kl().args(["plan", "live", &format!("--state={name}")]), 3, &["a state's name has"]);
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let site = Site::new();
    site.write("live/main.tf", ONE);
    for args in [
        ["--lease", "0s"],
        ["--lease", "99999999999999d"],
        ["--lease", "soon"],
        ["--lease=-5s", "-q"],
        ["--wait", "soon"],
        ["--wait=-1s", "-q"],
        ["--timeout", "0s"],
        ["--lane", "fast"],
        ["--on-stale", "never"],
    ] {
        refused(site.kl().args(["apply", "live"]).args(args), 3, &["invalid value"]);
    }
    let invalid = std::ffi::OsString::from_vec(vec![b'x', 0xff]);
    refused(site.kl().arg("plan").arg(invalid.clone()), 3, &["invalid UTF-8"]);
    refused(site.kl().args(["apply", "live", "--actor"]).arg(invalid), 3, &["invalid UTF-8"]);
    assert!(!site.repo().join(".kl").exists());
}

#[test]
fn odd_surroundings_do_no_harm() {
    let site = Site::new();
    site.write("live/main.tf", ONE);
    drop(site.kl().without("HOME").args(["plan", "live"]).exits(0));
    // Nothing can be made there, whoever asks.
    drop(site.kl().env("HOME", "/proc/none").args(["plan", "live"]).exits(0));
    drop(site.kl().env("HOME", "/dev/null").args(["apply", "live"]).exits(0));
    refused(site.kl().env("TMPDIR", site.path("none").as_str()).args(["plan", "live"]), 3, &["TMPDIR"]);
    refused(site.kl().args(["plan", "live", "--out", "/none/spec.json"]), 3, &["/none/spec.json"]);
    refused(site.kl().args(["plan", "live", "--out", "live"]), 3, &["cannot be written to live"]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let site = Site::new();
    site.write(
        "live/main.tf",
        &format!("resource \"terraform_data\" \"a\" {{ input = \"{}\" }}\n", "x".repeat(300_000)),
    );
    drop(site.kl().args(["apply", "live"]).exits(0));
    let mut child = Command::new(env!("CARGO_BIN_EXE_kl"))
        .args(["state", "pull", "live"])
        .current_dir(site.repo())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // More than a pipe holds is still to come.
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(talk, "");
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    assert_eq!(Plain::new(&site, "live").changes(&state, &[]), None);
}
