//! Plain Terraform on a state that kl keeps: `kl exec`, and the HTTP backend behind it.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates, assert_tidy, runs};

on_both_databases!(
    plain_terraform_works_on_a_state_of_kl,
    what_is_no_request_is_refused_and_changes_nothing,
    a_plain_apply_and_a_kl_apply_keep_each_other_out,
    a_lock_is_free_however_the_command_ends,
    the_command_keeps_its_streams_and_its_exit_code,
    a_workspace_is_a_state_of_its_own,
    a_configuration_whose_state_is_elsewhere_is_refused,
    a_forced_unlock_frees_the_lock_of_a_plain_terraform_only,
);

pub(crate) const BACKEND: &str = "terraform {\n  backend \"http\" {}\n}\n";

pub(crate) const RESOURCES: &str = r#"
variable "value" { default = 1 }
resource "terraform_data" "a" { input = var.value }
resource "terraform_data" "b" {
  for_each = toset(["x", "y"])
  input    = "${terraform_data.a.id}-${each.key}"
}
output "value" { value = var.value }
"#;

/// `kl exec -- terraform ARGS` in `live`.
pub(crate) fn exec(site: &Site, args: &[&str]) -> Kl {
    let kl = site.kl().args(["exec", "--dir", "live", "--actor", "alice", "--", program().as_str()]);
    kl.args(args.iter().copied())
}

/// Any other program in the place of Terraform.
pub(crate) fn shell(site: &Site, script: &str) -> Kl {
    site.kl().args(["exec", "--dir", "live", "--", "sh", "-c", script])
}

pub(crate) fn site(database: &Database, resources: &str) -> Site {
    let site = Site::on(database);
    site.write("live/backend.tf", BACKEND);
    site.write("live/main.tf", resources);
    site
}

pub(crate) fn pulled(site: &Site) -> Value {
    site.kl().args(["state", "pull", "live"]).exits(0).json()
}

pub(crate) fn listed(site: &Site) -> Vec<String> {
    let said = site.kl().args(["state", "list", "live"]).exits(0).stdout;
    said.lines().map(str::to_owned).collect()
}

fn plain_terraform_works_on_a_state_of_kl(database: &Database) {
    let site = site(database, RESOURCES);
    let one = |sql: &str| database.value(sql).unwrap_or_default();
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false"]).exits(0));
    let whole = ["terraform_data.a", "terraform_data.b[\"x\"]", "terraform_data.b[\"y\"]"];
    assert_eq!(listed(&site), whole);
    assert_eq!(one("SELECT count(*) FROM state_versions WHERE source <> 'http' OR mode <> 'snapshot'"), "0");
    assert_eq!(one("SELECT kind FROM runs WHERE status = 'committed'"), "plain");
    assert_eq!(one("SELECT actor FROM runs WHERE status = 'committed'"), "alice");

    // What Terraform reads is what it wrote; nothing to do means that no version is made.
    let before = pulled(&site);
    assert_eq!(exec(&site, &["state", "pull"]).exits(0).json(), before);
    drop(exec(&site, &["plan", "-detailed-exitcode", "-input=false"]).exits(0));
    assert_eq!(pulled(&site)["serial"], before["serial"]);
    // kl plans and applies on the same state, and plain Terraform goes on after it.
    drop(site.kl().args(["apply", "live", "--auto-approve", "--var", "value=2"]).exits(0));
    let said = exec(&site, &["plan", "-detailed-exitcode", "-input=false", "-var=value=2"]).exits(0).stdout;
    assert!(said.contains("No changes"), "{said}");

    // A single changed row is all that a version closes and opens.
    drop(exec(&site, &["apply", "-auto-approve", "-var=value=2", "-replace=terraform_data.b[\"x\"]"]).exits(0));
    let newest = "(SELECT max(serial) FROM state_versions)";
    assert_eq!(one(&format!("SELECT rows_closed FROM state_versions WHERE serial = {newest}")), "1");

    // A saved plan is applied by a later command, whose backend listens on another port.
    drop(exec(&site, &["plan", "-out=saved", "-input=false", "-var=value=3"]).exits(0));
    drop(exec(&site, &["apply", "-input=false", "saved"]).exits(0));
    assert_eq!(exec(&site, &["output", "-raw", "value"]).exits(0).stdout, "3");

    drop(exec(&site, &["state", "mv", "terraform_data.b[\"y\"]", "terraform_data.c"]).exits(0));
    assert_eq!(listed(&site), ["terraform_data.a", "terraform_data.b[\"x\"]", "terraform_data.c"]);
    drop(exec(&site, &["state", "rm", "terraform_data.c"]).exits(0));
    drop(exec(&site, &["taint", "terraform_data.a"]).exits(0));
    drop(exec(&site, &["untaint", "terraform_data.a"]).exits(0));
    drop(exec(&site, &["import", "terraform_data.b[\"y\"]", "an-id"]).exits(0));
    assert_eq!(listed(&site), whole);

    // A document goes out and in again, forward only.
    let mut document = pulled(&site);
    fs::write(site.repo().join("live/old.tfstate"), document.to_string()).unwrap();
    document["serial"] = (document["serial"].as_i64().unwrap() + 5).into();
    fs::write(site.repo().join("live/new.tfstate"), document.to_string()).unwrap();
    drop(exec(&site, &["state", "push", "new.tfstate"]).exits(0));
    let after = pulled(&site);
    assert!(after["serial"].as_i64() >= document["serial"].as_i64(), "{after}");
    let said = exec(&site, &["state", "push", "-force", "old.tfstate"]).exits(1).stderr;
    assert!(said.contains("409"), "{said}");
    assert_eq!(pulled(&site), after);

    drop(exec(&site, &["destroy", "-auto-approve", "-input=false"]).exits(0));
    assert!(listed(&site).is_empty());
    assert_eq!(pulled(&site)["lineage"], before["lineage"]);
    assert_eq!(one("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), "0");
    assert_eq!(one("SELECT count(*) FROM runs WHERE ended_at IS NULL"), "0");
    drop(site.kl().args(["db", "check"]).exits(0));
    let said = site.kl().args(["history", "live"]).exits(0).stdout;
    assert!(said.contains("http"), "{said}");
}

/// Requests as no Terraform would make them.
fn what_is_no_request_is_refused_and_changes_nothing(database: &Database) {
    let site = site(database, RESOURCES);
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false"]).exits(0));
    let before = pulled(&site);
    let (serial, lineage) = (before["serial"].as_i64().unwrap(), before["lineage"].as_str().unwrap());
    let empty = |serial: i64, lineage: &str| {
        format!(r#"{{"version":4,"serial":{serial},"lineage":"{lineage}","outputs":{{}},"resources":[]}}"#)
    };
    let next = empty(serial + 1, lineage);
    let lock = r#"{"ID":"one","Operation":"OperationTypeApply","Who":"bob@laptop"}"#;
    let path = |name: &str, text: &str| {
        let path = site.path(name);
        fs::write(&path, text).unwrap();
        path.into_string()
    };
    let (lock, other) = (path("lock", lock), path("other", &lock.replace("one", "two")));
    let next_file = path("next", &next);
    let lower = path("lower", &empty(serial - 1, lineage));
    let foreign = path("foreign", &empty(serial + 1, "another"));
    let same = path("same", &empty(serial, lineage));
    let cut = path("cut", &next[..next.len() - 9]);
    let huge = path("huge", &empty(i64::MAX, lineage));
    let nothing = path("nothing", "");
    let broken = path("broken", "{\"Operation\":7");
    let requests = [
        ("-X POST --data-binary @NEXT $A?ID=one", 409, "nobody holds a lock"),
        ("-X POST --data-binary @NEXT $A", 409, "under its lock only"),
        ("-X UNLOCK --data-binary @LOCK $A", 409, "no plain terraform holds a lock"),
        ("-X UNLOCK $A", 409, "no plain terraform holds a lock"),
        ("-X LOCK --data-binary @BROKEN $A", 400, "not a lock document"),
        ("-X LOCK --data-binary @LOCK $A", 200, ""),
        ("-X LOCK --data-binary @LOCK $A", 200, ""),
        ("-X LOCK --data-binary @OTHER $A", 423, "with lock one, is locked by"),
        ("-X POST --data-binary @OTHER ${A/states/locks}", 423, "-lock-timeout"),
        ("-X POST --data-binary @NEXT $A?ID=two", 409, "another lock is held: one"),
        ("-X POST --data-binary @NEXT $A", 409, "under its lock only"),
        ("-X POST --data-binary @LOWER $A?ID=one", 409, "serials only grow"),
        ("-X POST --data-binary @FOREIGN $A?ID=one", 409, "has lineage"),
        ("-X POST --data-binary @SAME $A?ID=one", 409, "another content"),
        ("-X POST --data-binary @CUT $A?ID=one", 400, "not a state"),
        ("-X POST --data-binary @HUGE $A?ID=one", 400, "leaves too little room"),
        ("-X POST --data-binary @NOTHING $A?ID=one", 400, "it is empty"),
        ("-X POST -H Content-MD5:AAAA --data-binary @NEXT $A?ID=one", 400, "Content-MD5"),
        ("-X DELETE $A", 400, "no state is removed under `kl exec`"),
        ("-X DELETE $A?ID=one", 400, "no state is removed under `kl exec`"),
        ("-X DELETE -A Go-http-client/1.1 $A", 400, "Terraform never removes a state"),
        ("-X DELETE --data-binary @LOCK $A", 400, "this is an unlock"),
        ("-X UNLOCK --data-binary @OTHER $A", 409, "another lock is held"),
        ("-X PATCH $A", 405, "allowed"),
        ("-X GET ${A}x", 403, "alone"),
        ("-X GET -u kl:wrong $A", 401, "not right"),
        ("-X GET ${A%/states*}/healthz", 200, "ok"),
        ("-X GET ${A%/states*}/readyz", 200, "ok"),
        ("-X GET ${A%/states*}/other", 404, "nothing here"),
        ("-X POST --data-binary @OTHER ${A/states/unlocks}", 409, "another lock is held"),
        ("-X POST --data-binary @LOCK ${A/states/unlocks}", 200, ""),
        ("-X UNLOCK --data-binary @LOCK $A", 200, ""),
        // Once more, because the answer was lost: also when somebody else has the lock by now, and keeps it.
        ("-X LOCK --data-binary @OTHER $A", 200, ""),
        ("-X UNLOCK --data-binary @LOCK $A", 200, ""),
        ("-X POST --data-binary @NEXT $A?ID=one", 409, "another lock is held: two"),
        ("-X UNLOCK --data-binary @OTHER $A", 200, ""),
    ];
    let mut script = "set -e; A=$TF_HTTP_ADDRESS; ask() { curl -s -u kl:$TF_HTTP_PASSWORD -w '\\n%{http_code}\\n' \"$@\"; echo ---; }\n".to_owned();
    for (request, ..) in &requests {
        script += &format!("ask {request}\n");
    }
    for (name, path) in [
        ("@NEXT", &next_file),
        ("@LOCK", &lock),
        ("@OTHER", &other),
        ("@LOWER", &lower),
        ("@FOREIGN", &foreign),
        ("@SAME", &same),
        ("@CUT", &cut),
        ("@HUGE", &huge),
        ("@NOTHING", &nothing),
        ("@BROKEN", &broken),
    ] {
        script = script.replace(name, &format!("@{path}"));
    }
    let said = site.kl().args(["exec", "--dir", "live", "--", "bash", "-c", &script]).exits(0).stdout;
    let answers: Vec<&str> = said.split("---\n").collect();
    for ((request, status, part), answer) in requests.iter().zip(&answers) {
        let (body, code) = answer.trim_end().rsplit_once('\n').unwrap();
        assert!(code == status.to_string() && body.contains(part), "{request}: {answer}");
        assert!(*status != 423 || serde_json::from_str::<Value>(body).unwrap()["Created"].is_string(), "{body}");
    }
    assert_eq!(answers.len(), requests.len() + 1);
    assert_eq!(pulled(&site), before);
}

fn a_plain_apply_and_a_kl_apply_keep_each_other_out(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    let kl_var = format!("-{var}");
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    let plain = ["apply", "-auto-approve", "-input=false", &var];

    gates.close("apply");
    let running = site.kl().args(["apply", "live", &kl_var, "--auto-approve", "--actor", "bob"]).spawn();
    gates.reached("apply");
    let said = exec(&site, &plain).exits(1).stderr;
    let run = runs(database, "applying").remove(0);
    for part in ["already locked", "bob", &run, "expires in", "-lock-timeout"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let waiting = exec(&site, &["apply", "-auto-approve", "-input=false", "-lock-timeout=60s", &var]).spawn();
    gates.open("apply");
    drop(running.exits(0));
    drop(waiting.exits(0));
    assert_tidy(database, 1);

    gates.close("apply");
    let running = exec(&site, &["apply", "-auto-approve", "-input=false", &var, "-var=value=2"]).spawn();
    gates.reached("apply");
    let said = site.kl().args(["apply", "live", &kl_var, "--auto-approve", "--var=value=3"]).exits(2).stderr;
    assert!(said.contains("is locked by") && said.contains("alice") && said.contains("does not expire"), "{said}");
    let said = exec(&site, &plain).exits(1).stderr;
    assert!(said.contains("already locked") && said.contains("is locked by alice"), "{said}");
    let said = site.kl().args(["status"]).exits(0).stdout;
    assert!(said.contains("locked by") && said.contains("alice"), "{said}");
    gates.open("apply");
    drop(running.exits(0));
    drop(site.kl().args(["apply", "live", &kl_var, "--auto-approve", "--var=value=3"]).exits(0));
    assert!(runs(database, "conflict").len() == 1 && runs(database, "reserved").is_empty());
}

fn a_lock_is_free_however_the_command_ends(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    let apply = ["apply", "-auto-approve", "-input=false", &var];

    // kl hands a signal on, and Terraform stops in good order.
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        gates.close("apply");
        let running = exec(&site, &apply).spawn();
        gates.reached("apply");
        running.signal(signal);
        // Terraform ends the command that stands at the gate.
        let said = running.exits(1);
        assert!(said.stdout.contains("Interrupt received"), "{said:?}");
        assert_eq!(database.value("SELECT count(*) FROM runs WHERE ended_at IS NULL"), Some("0".into()));
    }
    gates.open("apply");
    drop(exec(&site, &apply).exits(0));

    // Killed: it gives nothing back, and kl does.
    let pid = site.path("pid");
    let script = format!(
        "curl -s -u kl:$TF_HTTP_PASSWORD -X LOCK -d '{{\"ID\":\"one\"}}' $TF_HTTP_ADDRESS; echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60"
    );
    let running = shell(&site, &script).spawn();
    let pid = wait_until("the command runs", Duration::from_mins(1), || fs::read_to_string(&pid).ok());
    assert_eq!(runs(database, "reserved").len(), 1);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    let said = running.exits(137).stderr;
    assert!(said.contains("without giving its lock back"), "{said}");
    assert!(runs(database, "reserved").is_empty() && runs(database, "failed").len() == 1);
}

fn the_command_keeps_its_streams_and_its_exit_code(database: &Database) {
    let site = site(database, RESOURCES);
    let said = shell(&site, "cat; echo talk >&2; exit 7").stdin("a line\n").exits(7);
    assert_eq!((said.stdout.as_str(), said.stderr.contains("talk")), ("a line\n", true));
    drop(shell(&site, "kill -TERM $$").exits(143));
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["plan", "-detailed-exitcode", "-input=false"]).exits(2));
    // A question is answered by whoever is there.
    let said = exec(&site, &["apply"]).stdin("yes\n").exits(0).stdout;
    assert!(said.contains("Apply complete"), "{said}");
    let said = site.kl().args(["exec", "--", "/none/terraform", "version"]).exits(3).stderr;
    assert!(said.contains("cannot be started"), "{said}");
    // The token opens nothing after the command, and stands nowhere.
    let token = shell(&site, "printf %s $TF_HTTP_PASSWORD").exits(0).stdout;
    assert!(token.len() >= 64, "{token}");
    assert_ne!(token, shell(&site, "printf %s $TF_HTTP_PASSWORD").exits(0).stdout);
}

fn a_workspace_is_a_state_of_its_own(database: &Database) {
    let site = site(database, RESOURCES);
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false"]).exits(0));
    let apply = exec(&site, &["apply", "-auto-approve", "-input=false", "-var=value=7"]).env("TF_WORKSPACE", "dev");
    let said = apply.exits(0).stderr;
    assert!(said.contains("has no workspaces"), "{said}");
    let named = exec(&site, &["output", "-raw", "value"]);
    assert_eq!(named.clone().exits(0).stdout, "1");
    assert_eq!(named.env("TF_WORKSPACE", "dev").exits(0).stdout, "7");
    let states = site.kl().args(["state", "list", "--all"]).exits(0).stdout;
    assert!(states.contains("live ") && states.contains("live:dev"), "{states}");
    // From elsewhere, by the directory that Terraform is told.
    let said = site.kl().args(["exec", "--", program().as_str(), "-chdir=live", "output", "-raw", "value"]);
    assert_eq!(said.exits(0).stdout, "1");
}

fn a_configuration_whose_state_is_elsewhere_is_refused(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", RESOURCES);
    let said = exec(&site, &["apply", "-auto-approve"]).exits(3).stderr;
    assert!(said.contains("no backend") && said.contains("backend \"http\""), "{said}");
    site.write("live/backend.tf", "terraform {\n  backend \"local\" {}\n}\n");
    assert!(exec(&site, &["init"]).exits(3).stderr.contains("\"local\""));
    drop(exec(&site, &["version"]).exits(0));
    assert!(!site.repo().join("live/terraform.tfstate").exists());
    assert_eq!(database.value("SELECT count(*) FROM runs").unwrap_or_else(|| "0".into()), "0");
}

fn a_forced_unlock_frees_the_lock_of_a_plain_terraform_only(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    let unlock = ["force-unlock", "-force", "whatever"];
    let said = exec(&site, &unlock).exits(1).stderr;
    assert!(said.contains("409"), "{said}");

    gates.close("apply");
    let running = site.kl().args(["apply", "live", &format!("-{var}"), "--auto-approve"]).spawn();
    gates.reached("apply");
    drop(exec(&site, &unlock).exits(1));
    gates.open("apply");
    drop(running.exits(0));

    gates.close("apply");
    let running = exec(&site, &["apply", "-auto-approve", "-input=false", &var, "-var=value=2"]).spawn();
    gates.reached("apply");
    drop(exec(&site, &unlock).exits(0));
    assert_eq!(runs(database, "aborted").len(), 1);
    gates.open("apply");
    // It cannot write any more, and what it did is in a file.
    let said = running.exits(1).stderr;
    assert!(said.contains("409") && site.repo().join("live/errored.tfstate").exists(), "{said}");
    assert_eq!(database.value("SELECT max(serial) FROM state_versions"), Some("1".into()));
    // From there it is taken over.
    drop(exec(&site, &["state", "push", "errored.tfstate"]).exits(0));
    let said = exec(&site, &["plan", "-detailed-exitcode", "-input=false", &var, "-var=value=2"]).exits(0).stdout;
    assert!(said.contains("No changes"), "{said}");
}
