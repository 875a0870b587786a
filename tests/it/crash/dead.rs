//! kl is killed, and one command brings everything in step at once, long before the lease is over: `kl recover`, or the same
//! apply again.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};

use super::Scene;
use crate::harness::database::Database;
use crate::harness::wait_until;

on_both_databases!(
    a_run_whose_kl_is_dead_is_ended_by_its_recovery,
    a_run_whose_kl_is_dead_is_ended_by_the_same_apply,
    a_dead_run_that_had_changed_nothing_is_ended_by_its_recovery,
    a_dead_run_that_had_changed_nothing_is_ended_by_the_same_apply,
    a_run_whose_death_nobody_sees_is_aborted,
    a_run_that_died_elsewhere_is_ended_by_its_recovery_when_its_lease_is_over,
);

fn a_run_whose_kl_is_dead_is_ended_by_its_recovery(database: &Database) {
    let scene = Scene::counting(database);
    let running = scene.apply_up_to_the_gate(1);
    scene.wait_for_the_record();
    let run = scene.live_run();
    for args in [vec!["recover", &run], vec!["recover", &run, "--discard"]] {
        let said = scene.site.kl().args(args).exits(3).stderr;
        assert!(said.contains(&format!("run {run} is still applying, and its lease is good")), "{said}");
        assert!(said.contains(&format!("kl abort {run}")), "{said}");
    }
    assert_eq!(scene.status_of(&run), Some("applying".into()));
    scene.kill(running);
    // Its Terraform goes on alone, and is no longer kl's.
    let said = scene.site.kl().args(["recover", &run]).exits(2).stderr;
    assert!(said.contains("the run was still applying, and its kl is dead"), "{said}");
    assert!(said.contains("is still working"), "{said}");
    assert_eq!(scene.status_of(&run), Some("aborted".into()));
    scene.gates.open("apply");
    scene.wait_for_terraform();
    drop(scene.site.kl().args(["recover", &run]).exits(0));
    drop(scene.apply(1).exits(0));
    assert_eq!(scene.made(), 1);
    scene.assert_done(1, 1);

    // Killed with it, and its record dropped in one go.
    let running = scene.apply_up_to_the_gate(2);
    let group = scene.group();
    let run = scene.kill(running);
    let _ = killpg(group, Signal::SIGKILL);
    wait_until("what it had made is dropped", Duration::from_mins(1), || {
        scene.site.kl().args(["recover", &run, "--discard"]).spawn().ends().0.success().then_some(())
    });
    assert_eq!(scene.status_of(&run), Some("aborted".into()));
    let told = scene.site.kl().args(["show", &run]).exits(0).stdout;
    assert!(told.contains("its kl is dead"), "{told}");
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
    scene.gates.open("apply");
}

fn a_run_whose_kl_is_dead_is_ended_by_the_same_apply(database: &Database) {
    let scene = Scene::counting(database);
    let running = scene.apply_up_to_the_gate(1);
    let run = scene.kill(running);
    let said = scene.apply(1).exits(2).stderr;
    assert!(said.contains("is still working"), "{said}");
    scene.gates.open("apply");
    drop(scene.apply(1).args(["--wait", "1m"]).exits(0));
    assert_eq!(scene.made(), 1);
    assert_eq!(scene.status_of(&run), Some("aborted".into()));
    scene.assert_done(1, 1);

    // One that waits in turn does not wait for the lease of a dead one first.
    let running = scene.apply_up_to_the_gate(2);
    scene.kill(running);
    scene.gates.open("apply");
    drop(scene.apply(2).args(["--wait", "1m"]).exits(0));
    assert_eq!(scene.made(), 2);
    scene.assert_done(2, 2);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

/// An apply of the first spec that is killed at this step before Terraform applies. Its lease is a long one.
fn killed_at(gate: &str, scene: &Scene<'_>) -> String {
    scene.plan(1);
    scene.gates.close(gate);
    let running = scene.gates.on(scene.apply(1)).spawn();
    scene.gates.reached(gate);
    let run = scene.live_run();
    let said = scene.site.kl().args(["recover", &run]).exits(3).stderr;
    assert!(said.contains("it has not begun to change anything") && said.contains("kl abort"), "{said}");
    scene.kill(running);
    scene.gates.open(gate);
    run
}

fn a_dead_run_that_had_changed_nothing_is_ended_by_its_recovery(database: &Database) {
    let scene = Scene::new(database);
    let run = killed_at("plan", &scene);
    // Who comes by leaves the sign of its death where it is.
    scene.plan(2);
    drop(scene.site.kl().args(["recover", &run]).exits(0));
    assert_eq!(scene.status_of(&run), Some("aborted".into()));
    drop(scene.apply(1).exits(0));
    scene.assert_done(1, 1);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn a_dead_run_that_had_changed_nothing_is_ended_by_the_same_apply(database: &Database) {
    let scene = Scene::new(database);
    let run = killed_at("init", &scene);
    drop(scene.apply(1).exits(0));
    assert_eq!(scene.status_of(&run), Some("aborted".into()));
    scene.assert_done(1, 1);
    scene.plan(2);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

/// Nothing on this machine tells of a run that died before it planned.
fn a_run_whose_death_nobody_sees_is_aborted(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    let apply = scene.apply(1).env("KL_MISHAP", "store/record the run's tools/begin#1=kill");
    assert_eq!(apply.spawn().ends().0.signal(), Some(9));
    let run = scene.live_run();
    std::fs::remove_dir_all(scene.site.path("tmp")).unwrap();
    std::fs::create_dir(scene.site.path("tmp")).unwrap();
    let said = scene.site.kl().args(["recover", &run]).exits(3).stderr;
    assert!(said.contains(&format!("`kl abort {run}` ends it at once")), "{said}");
    drop(scene.site.kl().args(["abort", &run]).exits(0));
    drop(scene.apply(1).exits(0));
    scene.assert_done(1, 1);
}

fn a_run_that_died_elsewhere_is_ended_by_its_recovery_when_its_lease_is_over(database: &Database) {
    let scene = Scene::counting(database);
    scene.plan(1);
    let running = scene.at_work(1, ["--lease", "2s"]);
    scene.wait_for_the_record();
    drop(scene.seen_from_elsewhere());
    let run = scene.live_run();
    drop(scene.site.kl().args(["recover", &run]).exits(3));
    let group = scene.group();
    scene.kill(running);
    let _ = killpg(group, Signal::SIGKILL);
    let said = wait_until("its lease is over", Duration::from_mins(1), || {
        let (status, output) = scene.site.kl().args(["recover", &run]).spawn().ends();
        status.success().then_some(output)
    });
    assert!(said.stderr.contains("its lease is over"), "{said:?}");
    assert_eq!(scene.status_of(&run), Some("aborted".into()));
    scene.gates.open("apply");
}
