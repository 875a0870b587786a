//! Moving in from other backends and out to them, with the real Terraform on both sides.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{content, state};
use crate::harness::database::{Backend, Database};
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates};

on_both_databases!(
    a_local_state_is_adopted_with_lineage_and_serial,
    a_workspace_of_a_local_state_is_adopted,
    what_stands_in_a_pg_backend_is_adopted,
    what_stands_in_an_http_backend_is_adopted,
    adopting_again_takes_over_what_is_new,
    adopting_again_takes_nothing_back_that_kl_applied,
    what_cannot_be_adopted_is_refused_and_touches_nothing,
    a_backend_out_of_reach_is_told_with_what_helps,
    somebody_who_applies_meanwhile_is_noticed,
    somebody_who_is_applying_is_noticed,
    checks_stand_in_any_order,
    what_is_pulled_is_taken_by_every_backend,
);

const WORLD: &str = r#"
variable "value" { default = 1 }
resource "terraform_data" "a" { input = var.value }
resource "terraform_data" "b" {
  for_each = toset(["x", "y.z"])
  input    = "${terraform_data.a.id}-${each.key}"
}
output "o" { value = "${terraform.workspace}-${var.value}" }
"#;

/// Plain Terraform in a directory of the checkout.
fn terraform(site: &Site, dir: &str, args: &[&str]) -> Kl {
    site.kl().instead(program().as_str()).dir(site.repo().join(dir)).args(args.iter().copied())
}

fn backend(site: &Site, dir: &str, block: &str) {
    site.write(&format!("{dir}/main.tf"), WORLD);
    site.write(&format!("{dir}/backend.tf"), &format!("terraform {{\n  {block}\n}}\n"));
}

/// The database of a test on PostgreSQL in the words that Terraform's `pg` backend understands: it takes a socket's
/// directory only where no host stands in front.
fn conn_str(database: &Database) -> String {
    let (server, rest) = database.url().split_once("://").unwrap().1.split_once('/').unwrap();
    let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
    if query.contains("host=") {
        let user = server.split_once('@').map_or("", |(user, _)| user);
        format!("postgres:///{name}?{query}&user={user}&sslmode=disable")
    } else {
        format!("postgres://{server}/{name}?sslmode=disable&{query}")
    }
}

/// A state in the backend of `live`: applied with 1, while the configuration says 2 from now on.
fn applied(site: &Site, dir: &str) -> Value {
    drop(terraform(site, dir, &["init", "-input=false"]).exits(0));
    drop(terraform(site, dir, &["apply", "-auto-approve", "-input=false"]).exits(0));
    site.write(&format!("{dir}/main.tf"), &WORLD.replace("default = 1", "default = 2"));
    terraform(site, dir, &["state", "pull"]).exits(0).json()
}

fn adopt(site: &Site, args: &[&str]) -> Kl {
    site.kl().args(["state", "adopt", "live"]).args(args.iter().copied())
}

fn pulled(site: &Site, name: &str) -> Value {
    site.kl().args(["state", "pull", "live", "--state", name]).exits(0).json()
}

/// Every file of a directory with its content.
fn files(site: &Site, dir: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![site.repo().join(dir)];
    while let Some(dir) = open.pop() {
        for entry in dir.read_dir_utf8().unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path().to_owned());
            } else {
                found.push((entry.path().to_string(), fs::read(entry.path()).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn a_local_state_is_adopted_with_lineage_and_serial(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", WORLD);
    let old = applied(&site, "live");
    // Not initialised: as a fresh checkout of a configuration is.
    fs::remove_dir_all(site.repo().join("live/.terraform")).ok();
    let before = files(&site, "live");
    let said = adopt(&site, &["--actor", "alice"]).exits(0);
    assert_eq!(files(&site, "live"), before, "the checkout");
    let serial = old["serial"].to_string();
    for part in [
        format!("Adopted 4 rows into state live as serial {serial}."),
        "A plan shows the same as with the file that held the state: 2 changes.".to_owned(),
        "terraform {\n  backend \"http\" {}\n}".to_owned(),
        "`kl exec --dir live -- terraform init -reconfigure`".to_owned(),
        "move terraform.tfstate out of live: ".to_owned(),
    ] {
        assert!(said.stdout.contains(&part), "{part}: {said:?}");
    }
    let pulled = site.kl().args(["state", "pull", "live"]).exits(0).json();
    assert_eq!(pulled, old);
    assert_eq!(database.value("SELECT source FROM state_versions"), Some("import".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
    // The printed block is what plain Terraform needs to go on with kl.
    site.write("live/backend.tf", "terraform {\n  backend \"http\" {}\n}\n");
    let exec = |args: &[&str]| {
        let kl = site.kl().args(["exec", "--dir", "live", "--", program().as_str()]);
        kl.args(args.iter().copied())
    };
    drop(exec(&["init", "-input=false", "-reconfigure"]).exits(0));
    assert_eq!(exec(&["state", "pull"]).exits(0).json(), old);
    drop(exec(&["apply", "-auto-approve", "-input=false"]).exits(0));
    drop(exec(&["plan", "-detailed-exitcode", "-input=false"]).exits(0));
}

fn a_workspace_of_a_local_state_is_adopted(database: &Database) {
    let site = Site::on(database);
    backend(
        &site,
        "live",
        "backend \"local\" {\n    path = \"../elsewhere/x.tfstate\"\n    workspace_dir = \"spaces\"\n  }",
    );
    fs::create_dir(site.repo().join("elsewhere")).unwrap();
    drop(applied(&site, "live"));
    site.write("live/main.tf", WORLD);
    drop(terraform(&site, "live", &["workspace", "new", "dev"]).exits(0));
    let old = applied(&site, "live");
    // The checkout has one selected, and kl would take another.
    let said = adopt(&site, &[]).exits(3).stderr;
    assert!(said.contains("has the workspace \"dev\" selected") && said.contains("--workspace"), "{said}");
    let said = adopt(&site, &["--workspace", "dev", "--format", "json"]).exits(0).json();
    assert_eq!((&said["state"], &said["backend"]), (&json!("live:dev"), &json!("local")));
    assert_eq!(pulled(&site, "live:dev"), old);
    assert_eq!(old["outputs"]["o"]["value"], "dev-1");
    // Plain Terraform would see another workspace with kl's backend: nobody is sent there.
    assert_eq!(said["asks_for_workspace"], true);
    let said = adopt(&site, &["--workspace", "dev"]).exits(0).stdout;
    assert!(said.contains("The configuration uses terraform.workspace") && said.contains("see dev"), "{said}");
    assert!(!said.contains("plain Terraform by way of"), "{said}");
    // The other one is another state.
    let said = adopt(&site, &["--workspace", "default"]).exits(0).stdout;
    assert!(!said.contains("out of live"), "the state lies elsewhere: {said}");
    assert_ne!(pulled(&site, "live")["lineage"], old["lineage"]);
    let said = adopt(&site, &["--workspace", "none"]).exits(3).stderr;
    assert!(said.contains("has no workspace \"none\": there is nothing to adopt"), "{said}");
    assert!(said.contains("it has: default, dev"), "{said}");
    // Plain Terraform goes on with the first, although the checkout still has a workspace selected that the new backend has not.
    site.write("live/backend.tf", "terraform {\n  backend \"http\" {}\n}\n");
    let exec = |args: &[&str]| {
        let kl = site.kl().args(["exec", "--dir", "live", "--workspace", "dev", "--", program().as_str()]);
        kl.args(args.iter().copied()).exits(0)
    };
    drop(exec(&["init", "-input=false", "-reconfigure"]));
    assert_eq!(exec(&["state", "pull"]).json(), old);
}

fn what_stands_in_a_pg_backend_is_adopted(database: &Database) {
    // The server of the tests is there for one of the databases only.
    if database.backend() != Backend::Postgres {
        return;
    }
    let site = Site::on(database);
    let url = conn_str(database);
    backend(&site, "live", "backend \"pg\" {\n    schema_name = \"remote\"\n  }");
    let init = format!("-backend-config=conn_str={url}");
    drop(terraform(&site, "live", &["init", "-input=false", &init]).exits(0));
    drop(terraform(&site, "live", &["apply", "-auto-approve", "-input=false"]).exits(0));
    let old = terraform(&site, "live", &["state", "pull"]).exits(0).json();
    // What init was told in the checkout is known.
    let said = adopt(&site, &[]).exits(0).stdout;
    assert!(said.contains("A plan shows the same as with the backend \"pg\": no changes."), "{said}");
    assert!(said.contains("in place of the backend \"pg\""), "{said}");
    assert_eq!(pulled(&site, "live"), old);
    // A workspace that is not there is not made by looking for it.
    let said = adopt(&site, &["--workspace", "typo"]).exits(3).stderr;
    assert!(said.contains("has no workspace \"typo\"") && said.contains("it has: default"), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM remote.states"), Some("1".into()));
    // In a fresh checkout it has to be given.
    fs::remove_dir_all(site.repo().join("live/.terraform")).unwrap();
    let said = adopt(&site, &["--state", "again"]).exits(1).stderr;
    assert!(said.contains("--backend-config"), "{said}");
    let given = format!("conn_str={url}");
    drop(adopt(&site, &["--state", "again", "--backend-config", &given]).exits(0));
    site.write("live/pg.tfbackend", &format!("conn_str = {url:?}\n"));
    drop(adopt(&site, &["--state", "once-more", "--backend-config", "pg.tfbackend"]).exits(0));
    assert_eq!(pulled(&site, "again"), old);
    assert_eq!(pulled(&site, "once-more"), old);
    assert!(!site.repo().join("live/.terraform").exists());
    let said = adopt(&site, &["--state", "x", "--backend-config", "none.tfbackend"]).exits(3).stderr;
    assert!(said.contains("is no file, and not KEY=VALUE either"), "{said}");
}

/// A command with an HTTP backend beside it, which knows the state `old`.
fn beside(site: &Site, program: &str, args: &[&str]) -> Kl {
    let kl = site.kl().args(["exec", "--dir", "live", "--state", "old", "--", program]);
    kl.args(args.iter().copied())
}

fn what_stands_in_an_http_backend_is_adopted(database: &Database) {
    let site = Site::on(database);
    backend(&site, "live", "backend \"http\" {}");
    let program = program();
    drop(beside(&site, program.as_str(), &["init", "-input=false"]).exits(0));
    drop(beside(&site, program.as_str(), &["apply", "-auto-approve", "-input=false"]).exits(0));
    fs::remove_dir_all(site.repo().join("live/.terraform")).unwrap();
    let kl = env!("CARGO_BIN_EXE_kl");
    let adopt = ["state", "adopt", ".", "--state", "new", "--terraform", program.as_str()];
    let said = beside(&site, kl, &adopt).exits(0).stdout;
    assert!(said.contains("A plan shows the same as with the backend \"http\": no changes."), "{said}");
    assert_eq!(pulled(&site, "new"), pulled(&site, "old"));
    // A backend that is not there is an error, and nothing comes of it.
    let said = site.kl().args(["state", "adopt", "live", "--state", "none"]).exits(1).stderr;
    assert!(said.contains("terraform init failed"), "{said}");
    let listed = site.kl().args(["state", "list", "--all"]).exits(0).stdout;
    assert!(!listed.contains("none"), "{listed}");
}

fn adopting_again_takes_over_what_is_new(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", WORLD);
    let old = applied(&site, "live");
    drop(adopt(&site, &[]).exits(0));
    let said = adopt(&site, &[]).exits(0).stdout;
    assert!(said.contains(&format!("has all 4 rows already, at serial {}", old["serial"])), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("1".into()));
    // Somebody has applied with the old backend after all.
    drop(terraform(&site, "live", &["apply", "-auto-approve", "-input=false"]).exits(0));
    drop(adopt(&site, &[]).exits(0));
    assert_eq!(pulled(&site, "live"), terraform(&site, "live", &["state", "pull"]).exits(0).json());
    // From the first change that kl makes on, there is no way back.
    drop(state(&site, &["rm", "terraform_data.b"]).exits(0));
    let said = adopt(&site, &[]).exits(3).stderr;
    assert!(said.contains("importing it would go back") && said.contains("adopted before"), "{said}");
    // Another history is never mixed in.
    fs::remove_file(site.repo().join("live/terraform.tfstate")).unwrap();
    drop(terraform(&site, "live", &["apply", "-auto-approve", "-input=false"]).exits(0));
    let said = adopt(&site, &[]).exits(3).stderr;
    assert!(said.contains("has lineage"), "{said}");
}

fn adopting_again_takes_nothing_back_that_kl_applied(database: &Database) {
    let site = Site::on(database);
    let world = r#"
variable "n" { default = 1 }
variable "r" { default = 0 }
resource "terraform_data" "a" { count = var.n }
resource "terraform_data" "b" { triggers_replace = var.r }
"#;
    site.write("live/main.tf", world);
    drop(terraform(&site, "live", &["apply", "-auto-approve", "-input=false"]).exits(0));
    drop(adopt(&site, &[]).exits(0));
    let variable = ["apply", "live", "--auto-approve", "--var", "n=2", "--actor", "alice"];
    drop(site.kl().args(variable).exits(0));
    let ours = pulled(&site, "live");
    drop(terraform(&site, "live", &["apply", "-auto-approve", "-input=false", "-var=r=1"]).exits(0));
    let theirs = terraform(&site, "live", &["state", "pull"]).exits(0).stdout;
    let said = adopt(&site, &[]).exits(3).stderr;
    let over = ours["serial"].to_string();
    for part in [
        "does not have what was done",
        &format!("serial {over}"),
        "by alice",
        "terraform_data.a[1]",
        &format!("--over {over}"),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(pulled(&site, "live"), ours);
    // Whoever knows that the old backend is right says so.
    let import = ["state", "import", "-", "--dir", "live", "--over", &over];
    drop(site.kl().args(import).stdin(&theirs).exits(0));
    assert_eq!(pulled(&site, "live"), serde_json::from_str::<Value>(&theirs).unwrap());
    drop(adopt(&site, &[]).exits(0));
}

fn what_cannot_be_adopted_is_refused_and_touches_nothing(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", WORLD);
    let said = adopt(&site, &[]).exits(3).stderr;
    assert!(said.contains("there is nothing to adopt"), "{said}");
    drop(applied(&site, "live"));
    // A configuration that cannot be planned is not adopted, and the error says what to do.
    site.write("live/more.tf", "variable \"needed\" {}\nresource \"terraform_data\" \"c\" { input = var.needed }\n");
    let said = adopt(&site, &[]).exits(3).stderr;
    assert!(said.contains("needed") && said.contains("kl state import -"), "{said}");
    if database.backend() == Backend::Postgres {
        assert_eq!(database.value("SELECT count(*) FROM states"), Some("0".into()));
    }
    drop(adopt(&site, &["--var", "needed=1"]).exits(0));
    fs::create_dir(site.repo().join("empty")).unwrap();
    let said = site.kl().args(["state", "adopt", "empty"]).exits(3).stderr;
    assert!(said.contains("is not a root module"), "{said}");
    drop(site.kl().args(["state", "adopt", "nowhere"]).exits(3));
}

fn a_backend_out_of_reach_is_told_with_what_helps(database: &Database) {
    let site = Site::on(database);
    backend(&site, "live", "backend \"local\" {\n    path = \"../old.tfstate\"\n  }");
    drop(applied(&site, "live"));
    // The new block is there before the state is.
    backend(&site, "live", "backend \"http\" {}");
    let said = adopt(&site, &[]).exits(1).stderr;
    assert!(said.contains("put its block back") && !said.contains("--backend-config"), "{said}");
    // The same in a fresh checkout, where nothing shows what was there before.
    fs::remove_dir_all(site.repo().join("live/.terraform")).unwrap();
    let said = adopt(&site, &[]).exits(1).stderr;
    assert!(said.contains("put the old backend's block back") && said.contains("--backend-config"), "{said}");
    // Whoever stops it has nothing to add.
    let (script, begun) = (site.path("slow-terraform"), site.path("begun"));
    let slow = format!("case \"$*\" in *init*) touch \"{begun}\"; exec sleep 60;; esac");
    fs::write(&script, format!("#!/bin/sh\n{slow}\nexec \"{}\" \"$@\"\n", program())).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let adopting = adopt(&site, &["--terraform", script.as_str()]).spawn();
    wait_until("init has begun", Duration::from_mins(1), || begun.exists().then_some(()));
    adopting.signal(Signal::SIGINT);
    let said = adopting.exits(1).stderr;
    assert!(said.contains("terraform init was stopped") && !said.contains("--backend-config"), "{said}");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn somebody_who_applies_meanwhile_is_noticed(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", WORLD);
    drop(applied(&site, "live"));
    // In place of Terraform, a script that writes the old state after it was read once.
    let script = site.path("busy-terraform");
    let file = site.repo().join("live/terraform.tfstate");
    let text = format!(
        "#!/bin/sh\n\"{}\" \"$@\"\ncode=$?\ncase \"$*\" in *'state pull'*) sed -i 's/\"serial\": \\([0-9]*\\)/\"serial\": 9\\1/' \"{file}\";; esac\nexit $code\n",
        program()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = adopt(&site, &["--terraform", script.as_str()]).exits(1).stderr;
    assert!(said.contains("the old backend went on from serial") && said.contains("somebody applies there"), "{said}");
    // The same command again, in peace, takes over what is new.
    drop(adopt(&site, &[]).exits(0));
    assert_eq!(pulled(&site, "live"), terraform(&site, "live", &["state", "pull"]).exits(0).json());
}

/// A script in the place of Terraform that says this instead of taking the lock, from the given time on.
fn without_the_lock(site: &Site, from: u32, says: &str) -> String {
    let (script, count) = (site.path("locked-terraform"), site.path("asked"));
    drop(fs::remove_file(&count));
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *dry-run*)\n  echo >> \"{count}\"\n  if [ $(wc -l < \"{count}\") -ge {from} ]; then printf '{says}' >&2; exit 1; fi;;\nesac\nexec \"{}\" \"$@\"\n",
        program()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    script.into_string()
}

fn somebody_who_is_applying_is_noticed(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    let apply = ["apply", "-auto-approve", "-input=false", &var];
    drop(terraform(&site, "live", &apply).exits(0));
    gates.close("apply");
    let running = terraform(&site, "live", &apply).arg("-var=value=2").spawn();
    gates.reached("apply");
    let kl_var = format!("-{var}");
    let adopt = || adopt(&site, &["--var", "value=2", &kl_var]);
    let said = adopt().exits(1).stderr;
    for part in ["somebody works on the state of the old backend", "Lock Info:", "OperationTypeApply"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    if database.backend() == Backend::Postgres {
        assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("0".into()));
    }
    gates.open("apply");
    drop(running.exits(0));
    // One that begins while it is adopted.
    let held = "Error: Error acquiring the state lock\\n\\nError message: held\\nLock Info:\\n  ID: x\\n";
    let said = adopt().args(["--terraform", &without_the_lock(&site, 2, held)]).exits(1).stderr;
    assert!(said.contains("its lock is held") && said.contains("takes over what is new"), "{said}");
    // Who may not lock is told that nobody knows.
    let denied = "Error: Error acquiring the state lock\\n\\nError message: AccessDenied\\n";
    let said = adopt().args(["--terraform", &without_the_lock(&site, 1, denied)]).exits(0);
    assert_eq!(said.stderr.matches("nobody knows whether somebody applies there now").count(), 1, "{said:?}");
    assert!(said.stdout.contains("A plan shows the same"), "{said:?}");
    assert_eq!(pulled(&site, "live"), terraform(&site, "live", &["state", "pull"]).exits(0).json());
}

/// Terraform writes the results of checks, and their objects, as chance has it, each time anew.
fn checks_stand_in_any_order(database: &Database) {
    let site = Site::on(database);
    let checks: Vec<String> = (0..6)
        .map(|number| {
            format!(
                "check \"c{number}\" {{\n  assert {{\n    condition     = terraform_data.a[0].input == 0\n    error_message = \"no\"\n  }}\n}}\n"
            )
        })
        .collect();
    let counted = r#"
resource "terraform_data" "a" {
  count = 5
  input = count.index
  lifecycle {
    postcondition {
      condition     = self.input >= 0
      error_message = "no"
    }
  }
}
"#;
    site.write("live/main.tf", &(checks.concat() + counted));
    drop(terraform(&site, "live", &["apply", "-auto-approve", "-input=false"]).exits(0));
    drop(adopt(&site, &[]).exits(0));
    let serial = pulled(&site, "live")["serial"].to_string();
    for _ in 0..2 {
        let said = adopt(&site, &[]).exits(0).stdout;
        assert!(said.contains("rows already, at serial"), "{said}");
        let document = terraform(&site, "live", &["state", "pull"]).exits(0).stdout;
        let said = state(&site, &["import", "-"]).stdin(document).exits(0).stdout;
        assert!(said.contains("has this document already"), "{said}");
    }
    // What kl does not change is no change when a plain Terraform writes it.
    site.write("live/backend.tf", "terraform {\n  backend \"http\" {}\n}\n");
    let exec = |args: &[&str]| {
        let kl = site.kl().args(["exec", "--dir", "live", "--", program().as_str()]);
        drop(kl.args(args.iter().copied()).exits(0));
    };
    fs::remove_file(site.repo().join("live/terraform.tfstate")).unwrap();
    exec(&["init", "-input=false", "-reconfigure"]);
    site.write("live/more.tf", "resource \"terraform_data\" \"b\" {}\n");
    exec(&["apply", "-auto-approve", "-input=false"]);
    assert_eq!(super::diff(&site, &[&serial]), ["created terraform_data.b"]);
}

fn what_is_pulled_is_taken_by_every_backend(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", WORLD);
    drop(site.kl().args(["apply", "live"]).exits(0));
    drop(state(&site, &["mv", "terraform_data.b", "terraform_data.c"]).exits(0));
    drop(state(&site, &["rollback", "--to", "1", "--yes"]).exits(0));
    let document = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    let file = site.path("out.tfstate");
    fs::write(&file, &document).unwrap();
    let whole: Value = serde_json::from_str(&document).unwrap();
    // Terraform itself begins a new lineage where a remote backend had nothing.
    let without_lineage = |document: Value| {
        let mut content = content(document);
        content.as_object_mut().unwrap().remove("lineage").unwrap();
        content
    };
    let mut backends = vec![("local", "backend \"local\" {}".to_owned())];
    if database.backend() == Backend::Postgres {
        let url = conn_str(database);
        backends.push(("pg", format!("backend \"pg\" {{\n    conn_str = {url:?}\n  }}")));
    }
    for (dir, block) in backends {
        backend(&site, dir, &block);
        drop(terraform(&site, dir, &["init", "-input=false"]).exits(0));
        drop(terraform(&site, dir, &["state", "push", file.as_str()]).exits(0));
        drop(terraform(&site, dir, &["plan", "-detailed-exitcode", "-input=false"]).exits(0));
        let there = terraform(&site, dir, &["state", "pull"]).exits(0).json();
        assert_eq!(without_lineage(there), without_lineage(whole.clone()), "{dir}");
    }
    backend(&site, "live", "backend \"http\" {}");
    let program = program();
    for args in [
        ["init", "-input=false", ""].as_slice(),
        &["state", "push", file.as_str()],
        &["plan", "-detailed-exitcode", "-input=false"],
    ] {
        let args: Vec<&str> = args.iter().copied().filter(|arg| !arg.is_empty()).collect();
        drop(beside(&site, program.as_str(), &args).exits(0));
    }
    assert_eq!(without_lineage(pulled(&site, "old")), without_lineage(whole));
    assert_eq!(
        database.value("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"),
        Some("0".into())
    );
}
