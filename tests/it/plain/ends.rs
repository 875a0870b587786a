//! However a plain Terraform ends, or the kl beside it: its lock is free, or everybody sees it and can free it; and what
//! it has made is taken over.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::backend::{exec, listed, site};
use crate::harness::database::Database;
use crate::harness::kl::Running;
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates, runs, status};

on_both_databases!(
    a_terraform_that_was_killed_leaves_no_lock,
    the_lock_of_a_killed_kl_is_seen_and_aborted,
    the_lock_of_a_killed_kl_is_freed_by_terraform,
    an_abort_takes_the_lock_of_a_terraform_that_works,
    what_others_have_done_since_an_abort_is_not_pushed_away,
    a_terraform_that_failed_is_told_so,
    a_signal_is_heard_once,
    a_signal_to_the_group_loses_nothing,
    two_signals_end_terraform_at_once_and_leave_no_lock,
);

const LIMIT: Duration = Duration::from_mins(2);

/// What Terraform could not write.
fn errored(site: &Site) -> camino::Utf8PathBuf {
    site.repo().join("live/errored.tfstate")
}

/// The processes that a process has started.
fn children(of: Pid) -> Vec<Pid> {
    let text = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().map(|id| Pid::from_raw(id.parse().unwrap())).collect()
}

fn a_terraform_that_was_killed_leaves_no_lock(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    let apply = ["apply", "-auto-approve", "-input=false", &var];
    gates.close("apply");
    let running = exec(&site, &apply).spawn();
    gates.reached("apply");
    let terraform = children(running.pid());
    assert_eq!(terraform.len(), 1, "{terraform:?}");
    kill(terraform[0], Signal::SIGKILL).unwrap();
    let said = running.exits(137).stderr;
    assert!(said.contains("without giving its lock back"), "{said}");
    let failed = runs(database, "failed");
    assert_eq!(failed.len(), 1);
    let told = site.kl().args(["explain", &failed[0]]).exits(0).stdout;
    assert!(told.contains("! The command was ended by signal 9"), "{told}");
    assert!(status(&site)["reservations"].as_array().is_none_or(Vec::is_empty), "{}", status(&site));
    gates.open("apply");
    drop(exec(&site, &apply).exits(0));
}

fn a_terraform_that_failed_is_told_so(database: &Database) {
    let broken = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" { command = \"exit 1\" }\n}\n";
    let site = site(database, broken);
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false"]).exits(1));
    let committed = runs(database, "committed").remove(0);
    let told = |view: &str, run: &str| site.kl().args([view, run]).exits(0).stdout;
    for view in ["explain", "show"] {
        let told = told(view, &committed);
        assert!(told.contains("! The command failed: it ended with exit code 1"), "{told}");
    }
    site.write("live/main.tf", "resource \"terraform_data\" \"a\" {}\n");
    drop(exec(&site, &["apply", "-auto-approve", "-input=false"]).exits(0));
    let committed = runs(database, "committed").remove(1);
    assert!(told("show", &committed).contains("The command ended well"));
}

/// An apply whose kl is killed while it works: Terraform goes on, and cannot write its state. Gives the run of the lock.
fn orphaned(site: &Site, database: &Database) -> String {
    let gates = Gates::new(site);
    let var = format!("-var={}", gates.var());
    drop(exec(site, &["init", "-input=false"]).exits(0));
    gates.close("apply");
    // It does not take long to give up.
    let apply = exec(site, &["apply", "-auto-approve", "-input=false", &var]).env("TF_HTTP_RETRY_MAX", "0");
    let running = apply.spawn();
    gates.reached("apply");
    running.signal(Signal::SIGKILL);
    drop(running.ends());
    gates.open("apply");
    wait_until("Terraform leaves its state in a file", LIMIT, || {
        let text = fs::read_to_string(errored(site)).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok().map(drop)
    });
    // Everybody sees it.
    let run = runs(database, "reserved").remove(0);
    let shown = status(site).to_string();
    assert!(shown.contains(&run) && shown.contains("alice"), "{shown}");
    let said = exec(site, &["plan", "-input=false", "-no-color", &var]).exits(1).stderr;
    assert!(said.contains("is locked by alice") && said.contains(&run), "{said}");
    // What is to be copied is not wrapped.
    let lock = database.value("SELECT lock_id FROM runs WHERE lock_id IS NOT NULL AND ended_at IS NULL").unwrap();
    for command in [format!("kl abort {run}"), format!("kl exec -- terraform force-unlock -force {lock}")] {
        assert!(said.lines().any(|line| line.ends_with(&format!("  {command}"))), "{command}: {said}");
    }
    let said = site.kl().args(["apply", "live", &format!("-{var}"), "--auto-approve"]).exits(2).stderr;
    assert!(said.contains("is locked by alice") && said.contains(&format!("kl abort {run}")), "{said}");
    run
}

/// What Terraform left in the file is taken over, and nothing is left to do.
fn is_taken_over(site: &Site) {
    assert!(listed(site).is_empty());
    drop(exec(site, &["state", "push", "errored.tfstate"]).exits(0));
    let said = exec(site, &["plan", "-detailed-exitcode", "-input=false", "-var=gates=x"]).exits(0).stdout;
    assert!(said.contains("No changes"), "{said}");
    let said = site.kl().args(["plan", "live", "--var", "gates=x"]).exits(0).stdout;
    assert!(said.contains("No changes"), "{said}");
}

fn the_lock_of_a_killed_kl_is_seen_and_aborted(database: &Database) {
    let site = site(database, CHAIN);
    let run = orphaned(&site, database);
    let push = "terraform state push errored.tfstate";
    let said = site.kl().args(["abort", &run, "--actor", "bob"]).exits(0).stdout;
    assert!(said.contains(push), "{said}");
    assert_eq!(runs(database, "aborted"), std::slice::from_ref(&run));
    // Whoever goes on without it would make everything a second time.
    let said = exec(&site, &["plan", "-input=false", "-var=gates=x"]).exits(0).stderr;
    assert!(said.contains(push) && said.contains("could not write into its state"), "{said}");
    let shown = site.kl().args(["show", &run]).exits(0).stdout;
    assert!(shown.contains("bob") && shown.contains("alice"), "{shown}");
    is_taken_over(&site);
}

fn the_lock_of_a_killed_kl_is_freed_by_terraform(database: &Database) {
    let site = site(database, CHAIN);
    let run = orphaned(&site, database);
    drop(exec(&site, &["force-unlock", "-force", "whatever"]).exits(0));
    assert_eq!(runs(database, "aborted"), std::slice::from_ref(&run));
    // It may have been killed as well: then there is no file.
    let said = site.kl().args(["explain", &run]).exits(0).stdout;
    assert!(said.contains("Where its terraform was killed") && said.contains("is in no file"), "{said}");
    // Somebody else begins the state: what a first apply left has no lineage yet, and cannot follow.
    site.write("live/more.tf", "resource \"terraform_data\" \"more\" {}\n");
    let begin = ["apply", "live", "--var=gates=x", "--target", "terraform_data.more", "--auto-approve"];
    drop(site.kl().args(begin).exits(0));
    let said = exec(&site, &["plan", "-input=false", "-var=gates=x"]).exits(0).stderr;
    for part in ["It is of a first apply", "at serial 1", "do not push it", "`import` blocks", "terraform_data.slow"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    drop(exec(&site, &["state", "push", "errored.tfstate"]).exits(1));
    assert_eq!(listed(&site), ["terraform_data.more"]);
}

fn an_abort_takes_the_lock_of_a_terraform_that_works(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    gates.close("apply");
    let running = exec(&site, &["apply", "-auto-approve", "-input=false", &var]).spawn();
    gates.reached("apply");
    let run = runs(database, "reserved").remove(0);
    drop(site.kl().args(["abort", &run, "--actor", "bob"]).exits(0));
    gates.open("apply");
    let said = running.exits(1).stderr;
    assert!(said.contains("HTTP error: 409") && said.contains("it was taken away"), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("0".into()));
    is_taken_over(&site);
}

fn what_others_have_done_since_an_abort_is_not_pushed_away(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false", &var]).exits(0));
    let serial = || database.value("SELECT max(serial) FROM state_versions").unwrap().parse::<i64>().unwrap();
    let plan = || exec(&site, &["plan", "-input=false", &var, "-var=value=2"]).exits(0).stderr;
    gates.close("apply");
    let running = exec(&site, &["apply", "-auto-approve", "-input=false", &var, "-var=value=2"]).spawn();
    gates.reached("apply");
    let run = runs(database, "reserved").remove(0);
    let said = site.kl().args(["abort", &run]).exits(0).stdout;
    assert!(said.contains("as long as nobody has gone on since"), "{said}");
    // Somebody goes on.
    site.write("live/more.tf", "resource \"terraform_data\" \"more\" {}\n");
    let target = ["--target", "terraform_data.more", "--actor", "bob", "--auto-approve"];
    drop(site.kl().args(["apply", "live", &format!("-{var}")]).args(target).exits(0));
    gates.open("apply");
    drop(running.exits(1));
    let stands = serial();
    let (since, over) =
        (format!("serial {stands} (run "), format!("`kl state import errored.tfstate --over {stands}`"));
    let told = ["others have gone on since", &since, "by bob): terraform_data.more", "Do not push it", &over];
    let text = fs::read_to_string(errored(&site)).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document["serial"] = stands.into();
    fs::write(errored(&site), document.to_string()).unwrap();
    let push = exec(&site, &["state", "push", "errored.tfstate"]).exits(1).stderr;
    // So it is, too, when its own serial is a higher one: it tried more than once.
    document["serial"] = (stands + 5).into();
    fs::write(errored(&site), document.to_string()).unwrap();
    for said in [push, plan()] {
        for part in told {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    // Another history, and what is no state.
    document["lineage"] = "another".into();
    fs::write(errored(&site), document.to_string()).unwrap();
    assert!(plan().contains("it has lineage another"), "{}", plan());
    fs::write(errored(&site), &text[..text.len() / 2]).unwrap();
    assert!(plan().contains("cannot be read"), "{}", plan());
    // As a whole it is taken over on record.
    fs::write(errored(&site), &text).unwrap();
    let import = ["state", "import", "errored.tfstate", "--over", &stands.to_string()];
    drop(site.kl().args(import).dir(site.repo().join("live")).exits(0));
    assert!(!listed(&site).contains(&"terraform_data.more".to_owned()));
    assert!(plan().contains("holds nothing that the state does not have: remove the file"), "{}", plan());
}

/// A second signal would make Terraform drop everything. It may be sent to kl alone, or to its whole group, and by `timeout`
/// to both.
fn a_signal_is_heard_once(database: &Database) {
    let site = site(database, "");
    let script =
        "trap 'echo INT' INT; trap 'echo TERM; end=1' TERM; echo ready; until [ $end ]; do sleep 0.02; done; echo end";
    // In a session of its own kl leads a group, and has no terminal.
    let kl = env!("CARGO_BIN_EXE_kl");
    let in_a_group = |script: &str| {
        let args = [kl, "exec", "--dir", "live", "--", "sh", "-c", script];
        site.kl().instead("setsid").args(args)
    };
    let group = |running: &Running, signal| killpg(running.pid(), signal).unwrap();
    let alone = |running: &Running, signal| running.signal(signal);
    let both = |running: &Running, signal| {
        running.signal(signal);
        killpg(running.pid(), signal).unwrap();
    };
    for send in [&group as &dyn Fn(&Running, Signal), &alone, &both] {
        let mut running = in_a_group(script).spawn();
        running.wait_to_print("ready", 1);
        send(&running, Signal::SIGINT);
        running.wait_to_print("INT", 1);
        send(&running, Signal::SIGTERM);
        assert_eq!(running.exits(0).stdout, "ready\nINT\nTERM\nend\n");
    }
    // Whoever does not pass it on has all of its group hear it.
    let inner = script.replace('$', "\\$");
    let script = format!("sh -c \"{inner}\" & child=$!; trap 'wait $child; wait $child' TERM; wait $child");
    let mut running = in_a_group(&script).spawn();
    running.wait_to_print("ready", 1);
    group(&running, Signal::SIGTERM);
    let (_, said) = running.ends();
    assert_eq!(said.stdout, "ready\nTERM\nend\n");
}

/// The group's signal is an order to stop in good order, and what is under way is in the state afterwards.
fn a_signal_to_the_group_loses_nothing(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    // The command at the gate does not hear of an interruption.
    site.write("live/main.tf", &CHAIN.replace("command = \"while", "command = \"trap '' INT TERM; while"));
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    gates.close("apply");
    let terraform = program();
    let kl = [env!("CARGO_BIN_EXE_kl"), "exec", "--dir", "live", "--", terraform.as_str()];
    let apply = ["apply", "-auto-approve", "-input=false", &var];
    let mut running = site.kl().instead("setsid").args(kl).args(apply).spawn();
    gates.reached("apply");
    killpg(running.pid(), Signal::SIGINT).unwrap();
    running.wait_to_print("Interrupt received", 1);
    gates.open("apply");
    let (status, said) = running.ends();
    // It may have begun with the next object before the interruption had got round in it.
    assert!(
        matches!(status.code(), Some(0 | 1)) && !said.stderr.contains("Two interrupts received"),
        "{status} {said:?}"
    );
    assert!(listed(&site).contains(&"terraform_data.slow".to_owned()), "{:?}", listed(&site));
    assert!(runs(database, "reserved").is_empty());
}

fn two_signals_end_terraform_at_once_and_leave_no_lock(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    // The command at the gate does not hear of an interruption.
    let deaf = CHAIN.replace("command = \"while", "command = \"trap '' INT; while");
    site.write("live/main.tf", &deaf);
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    gates.close("apply");
    let mut running = exec(&site, &["apply", "-auto-approve", "-input=false", &var]).spawn();
    gates.reached("apply");
    running.signal(Signal::SIGINT);
    running.wait_to_print("Interrupt received", 1);
    // Another one than the first, which would be the same one for a second.
    running.signal(Signal::SIGTERM);
    let (status, said) = running.ends();
    assert!(status.code() == Some(1) && said.stderr.contains("Two interrupts received"), "{status} {said:?}");
    assert!(!said.stderr.contains("A second signal"), "{said:?}");
    gates.open("apply");
    assert_eq!(database.value("SELECT count(*) FROM runs WHERE ended_at IS NULL"), Some("0".into()));
    assert!(runs(database, "reserved").is_empty());
}
