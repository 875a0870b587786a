//! `-lock-timeout`: Terraform waits, and gets the lock in the end or hears who has it.

use nix::sys::signal::Signal;

use crate::backend::{exec, site};
use crate::harness::database::{Backend, Database};
use crate::stage::{CHAIN, Gates, assert_tidy, runs, wait_for_runs};

on_both_databases!(
    who_waits_long_enough_gets_the_lock_after_a_run_and_after_another_terraform,
    who_waits_too_short_hears_who_holds_what,
    who_waits_has_a_turn_before_runs_that_came_later,
    who_is_not_heard_of_any_more_is_shown_so,
);

fn who_waits_long_enough_gets_the_lock_after_a_run_and_after_another_terraform(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    let waiting = ["apply", "-auto-approve", "-input=false", "-lock-timeout=90s", &var, "-var=value=2"];
    // What was asked for is in kl's log.
    let patient = || exec(&site, &waiting).env("KL_LOG", "kl_runner::server=info").env("NO_COLOR", "1");

    gates.close("apply");
    let plain = exec(&site, &["apply", "-auto-approve", "-input=false", &var]).spawn();
    gates.reached("apply");
    let mut second = patient().spawn();
    second.wait_for("status=423");
    gates.open("apply");
    drop(plain.exits(0));
    drop(second.exits(0));
    assert_eq!(runs(database, "committed").len(), 2);

    gates.close("apply");
    let kl = site.kl().args(["apply", "live", &format!("-{var}"), "--auto-approve", "--var=value=3"]).spawn();
    gates.reached("apply");
    let mut second = patient().spawn();
    second.wait_for("status=423");
    gates.open("apply");
    drop(kl.exits(0));
    drop(second.exits(0));
    let said = exec(&site, &["plan", "-detailed-exitcode", "-input=false", &var, "-var=value=2"]).exits(0).stdout;
    assert!(said.contains("No changes"), "{said}");
    assert_tidy(database, database.value("SELECT max(serial) FROM state_versions").unwrap().parse().unwrap());
}

fn who_waits_too_short_hears_who_holds_what(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    let short = ["apply", "-auto-approve", "-input=false", "-no-color", "-lock-timeout=1s", &var, "-var=value=2"];

    gates.close("apply");
    let running = site.kl().args(["apply", "live", &format!("-{var}"), "--auto-approve", "--actor", "bob"]).spawn();
    gates.reached("apply");
    let said = exec(&site, &short).exits(1).stderr;
    let run = runs(database, "applying").remove(0);
    for part in ["terraform_data.slow (write) is held by bob", &run, "expires in", "others work on the state"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Only what a plain Terraform can do about it.
    assert!(said.contains("`kl status` shows every reservation") && !said.contains("--on-stale"), "{said}");
    gates.open("apply");
    drop(running.exits(0));

    // A run that waits in the queue is in the way, too, and is named.
    gates.close("apply");
    let kl_var = format!("-{var}");
    let held =
        site.kl().args(["apply", "live", &kl_var, "--auto-approve", "--var=value=3", "--actor", "carol"]).spawn();
    gates.reached("apply");
    let args = ["apply", "live", &kl_var, "--auto-approve", "--var=value=3", "--wait", "1m", "--actor", "dave"];
    let queued = site.kl().args(args).spawn();
    wait_for_runs(database, "waiting", 1);
    let said = exec(&site, &short).exits(1).stderr;
    assert!(said.contains("carol") && said.contains("dave"), "{said}");
    gates.open("apply");
    drop(held.exits(0));
    // Its plan is overtaken by then.
    drop(queued.exits(4));

    // Nothing is left of those who gave up.
    assert!(runs(database, "waiting").is_empty() && runs(database, "reserved").is_empty());
    drop(exec(&site, &short).exits(0));
}

fn who_waits_has_a_turn_before_runs_that_came_later(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    let kl_var = format!("-{var}");
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    gates.close("apply");
    let holder = site.kl().args(["apply", "live", &kl_var, "--auto-approve", "--actor", "bob"]).spawn();
    gates.reached("apply");
    let waiting = ["apply", "-auto-approve", "-input=false", "-lock-timeout=90s", &var, "-var=value=2"];
    let plain = exec(&site, &waiting).spawn();
    // It asks a second time, and stands in the queue.
    wait_for_runs(database, "waiting", 1);
    let run = runs(database, "waiting").remove(0);
    let said = site.kl().args(["status"]).exits(0).stdout;
    let behind = format!("behind bob (run {})", runs(database, "applying")[0]);
    assert!(said.contains("waited for by alice") && said.contains(&behind), "{said}");
    let later = ["apply", "live", &kl_var, "--auto-approve", "--var=value=3", "--actor", "carol", "--on-stale"];
    let mut late = site.kl().args(later).args(["revalidate", "--wait", "90s"]).spawn();
    late.wait_for("Waiting in turn behind");
    gates.open("apply");
    drop(holder.exits(0));
    // The lock comes first, and its own run is the one that waited.
    drop(plain.exits(0));
    let (_, said) = late.ends();
    let versions = database.rows("SELECT actor FROM state_versions ORDER BY serial");
    assert_eq!(versions[..2].concat(), [Some("bob".to_owned()), Some("alice".to_owned())], "{said:?}");
    assert_eq!(runs(database, "committed")[1], run);
    // Afterwards both know of each other, and so does the history.
    let (first, told) =
        (runs(database, "committed").remove(0), |run: &str| site.kl().args(["explain", run]).exits(0).stdout);
    assert!(told(&run).contains(&format!("… Waiting in turn behind bob (run {first})")), "{}", told(&run));
    let behind = told(&first);
    assert!(behind.contains("… Came later and waited behind it: ") && behind.contains(&run), "{behind}");
    let history = site.kl().args(["history", "live", "--format", "json"]).exits(0).json();
    assert_eq!(history["versions"][0]["waited"]["behind"], serde_json::json!(["bob"]), "{history}");

    // One that gives up is out of everybody's way when its command has ended.
    gates.close("apply");
    let holder = site.kl().args(["apply", "live", &kl_var, "--auto-approve", "--var=value=5"]).spawn();
    gates.reached("apply");
    let short = ["apply", "-auto-approve", "-input=false", "-lock-timeout=2s", &var, "-var=value=6"];
    drop(exec(&site, &short).exits(1));
    assert!(runs(database, "waiting").is_empty());
    let gave_up = runs(database, "conflict").pop().unwrap();
    let said = told(&gave_up);
    let holder_run = runs(database, "applying").remove(0);
    assert!(said.contains("! Refused: ") && said.contains(&holder_run), "{said}");
    assert!(!said.contains("--wait"), "{said}");
    gates.open("apply");
    drop(holder.exits(0));
}

fn who_is_not_heard_of_any_more_is_shown_so(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    gates.close("apply");
    let holder = site.kl().args(["apply", "live", &format!("-{var}"), "--auto-approve", "--actor", "bob"]).spawn();
    gates.reached("apply");
    let waiting = ["apply", "-auto-approve", "-input=false", "-lock-timeout=90s", &var];
    let plain = exec(&site, &waiting).env("TF_HTTP_RETRY_MAX", "0").spawn();
    wait_for_runs(database, "waiting", 1);
    plain.signal(Signal::SIGKILL);
    drop(plain.ends());
    let run = runs(database, "waiting").remove(0);
    let status = || site.kl().args(["status"]).exits(0).stdout;
    assert!(status().contains("waited for by alice") && !status().contains("lapsed"), "{}", status());
    // A minute later.
    let ago = match database.backend() {
        Backend::Postgres => "now() - interval '1 minute'",
        Backend::Sqlite => "CAST((unixepoch('now', 'subsec') - 60) * 1000000 AS INTEGER)",
    };
    database.execute(&format!("UPDATE runs SET started_at = {ago} WHERE status = 'waiting'"));
    // A timeline cannot be made older, and goes only with a run that has ended.
    let becomes = |ended| format!("UPDATE runs SET {ended} WHERE CAST(id AS text) = '{run}'");
    database.execute(&becomes("status = 'failed', ended_at = started_at"));
    database.execute(&format!("DELETE FROM run_events WHERE CAST(run_id AS text) = '{run}'"));
    database.execute(&becomes("status = 'waiting', ended_at = NULL"));
    database.execute(&format!("UPDATE resource_reservations SET expires_at = {ago} WHERE acquired_at IS NULL"));
    let said = status();
    assert!(said.contains("waiting, its place has lapsed") && said.contains(&format!("kl abort {run}")), "{said}");
    // One that was killed before it had asked for anything.
    database.execute("UPDATE runs SET status = 'started' WHERE status = 'waiting'");
    let said = status();
    assert!(said.contains("started, not heard of for 1m"), "{said}");
    drop(site.kl().args(["abort", &run]).exits(0));
    assert!(!status().contains("not heard of"), "{}", status());
    gates.open("apply");
    drop(holder.exits(0));
}
