//! At every step of an apply, in turn, kl is killed, the step fails, the database goes away, or the step takes longer than
//! the lease: one command brings everything back in step, and no object is lost or made twice.
//!
//! These tests take minutes together: each of some hundred moments is tried with the real Terraform in a world of its own,
//! and several at once, as much of the time is spent waiting for leases to end. Of other commands than an apply each point
//! has one kind of mishap, and points that another test has tried are left to it; `KL_MISHAPS=all cargo nextest run -E
//! 'test(/mishaps::/)'` tries every kind at every point. A store call that only reads is one point, one that writes is
//! three: before, in and after its transaction.

mod ends;
mod lab;
mod points;
mod refresh;
mod salvage;

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;

pub(crate) use lab::everything_ended;
pub(crate) use points::{IDLE, interruptions, mishaps, points, telling, try_at_once, try_each, untried};

use lab::{Lab, World};
use points::{lost_answers, that_can_fail};

use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::wait_until;

on_both_databases!(
    killed_at_any_step_of_an_apply,
    killed_at_any_step_of_a_recovery,
    killed_at_any_step_of_a_plan,
    killed_at_any_step_of_an_import,
    any_step_of_an_apply_fails_once,
    the_database_goes_away_at_any_step_of_an_apply,
    any_step_of_an_apply_takes_longer_than_its_lease,
    a_mishap_at_any_step_of_an_apply_that_fails,
    one_that_was_paused_and_lost_its_lease_does_not_begin,
);

/// Runs a command with a mishap. Gives the exit code; none when it was killed.
pub(crate) fn meets(command: Kl, mishap: &str) -> Option<i32> {
    let (status, said) = command.env("KL_MISHAP", mishap).spawn().ends();
    assert!(!said.stderr.contains("panicked"), "{mishap}: {said:?}");
    assert!(status.code().is_none_or(|code| code <= 2), "{mishap}: {status} {said:?}");
    assert!(status.signal().is_none_or(|signal| signal == 9), "{mishap}: {status} {said:?}");
    status.code()
}

/// The points of a plan.
pub(crate) fn of_a_plan(database: &Database) -> Vec<String> {
    points(Lab::new(database).world().plan(), 0)
}

/// The points of an apply.
pub(crate) fn of_an_apply(database: &Database) -> Vec<String> {
    points(Lab::planned(database).world().apply(), 0)
}

/// The object that was begun is tainted, and the apply fails.
fn of_an_apply_that_fails(database: &Database) -> Vec<String> {
    let world = Lab::planned(database).world();
    world.breaks();
    let points = points(world.apply(), 1);
    world.is_mended();
    world.comes_back("trace");
    points
}

fn killed_at_any_step_of_an_apply(database: &Database) {
    let lab = Lab::planned(database);
    lab.try_all(&of_an_apply(database), |world, point| {
        world.meets(&format!("{point}=kill"));
        world.comes_back(point);
    });
}

/// A recovery is an apply of a spec that has failed before.
fn killed_at_any_step_of_a_recovery(database: &Database) {
    let lab = Lab::failed(database);
    let points = telling(points(lab.world().apply(), 0), &of_an_apply(database));
    lab.try_all(&points, |world, point| {
        world.meets(&format!("{point}=kill"));
        world.comes_back(point);
    });
}

fn killed_at_any_step_of_a_plan(database: &Database) {
    let lab = Lab::new(database);
    lab.try_all(&of_a_plan(database), |world, point| {
        meets(world.plan(), &format!("{point}=kill"));
        drop(world.plan().exits(0));
        drop(world.apply().exits(0));
    });
}

fn killed_at_any_step_of_an_import(database: &Database) {
    const DOCUMENT: &str = r#"{"version":4,"terraform_version":"1.11.4","serial":3,"lineage":"l","outputs":{"o":{"value":"v","type":"string"}},"resources":[]}"#;
    let lab = Lab::new(database);
    let import = |world: &World| world.kl("state").args(["import", "-", "--dir", "live"]).stdin(DOCUMENT);
    lab.try_all(&points(import(&lab.world()), 0), |world, point| {
        meets(import(world), &format!("{point}=kill"));
        // Until its lease ends the dead import stands in the way, and says so.
        let (status, said) = import(world).spawn().ends();
        if status.code() == Some(2) {
            let run = said.stderr.lines().find_map(|line| line.trim().strip_prefix("run")).expect("the holder").trim();
            drop(world.kl("abort").arg(run).exits(0));
            drop(import(world).exits(0));
        } else {
            assert_eq!(status.code(), Some(0), "{point}: {said:?}");
        }
        let pulled = world.kl("state").args(["pull", "live"]).exits(0).stdout;
        assert!(pulled.contains("\"serial\": 3") && pulled.contains("\"o\""), "{point}: {pulled}");
    });
}

fn any_step_of_an_apply_fails_once(database: &Database) {
    let lab = Lab::planned(database);
    lab.try_all(&that_can_fail(database, of_an_apply(database)), |world, point| {
        world.meets(&format!("{point}=fail"));
        world.comes_back(point);
    });
}

fn the_database_goes_away_at_any_step_of_an_apply(database: &Database) {
    let lab = Lab::planned(database);
    lab.try_all_at_once(IDLE, &of_an_apply(database), |world, point| {
        world.meets(&format!("{point}=down"));
        world.comes_back(point);
    });
}

fn any_step_of_an_apply_takes_longer_than_its_lease(database: &Database) {
    let lab = Lab::planned(database);
    let points: Vec<String> = of_an_apply(database).into_iter().filter(|point| !point.contains("/done#")).collect();
    lab.try_all_at_once(IDLE, &points, |world, point| {
        // As nobody else wants the rows it may go on, or find that it could not renew the lease in time.
        world.meets(&format!("{point}=stall:1300"));
        world.comes_back(point);
    });
}

fn a_mishap_at_any_step_of_an_apply_that_fails(database: &Database) {
    let lab = Lab::planned(database);
    let points = untried(of_an_apply_that_fails(database), &of_an_apply(database));
    let mishaps = [interruptions(database, &points), lost_answers(database, &points)].concat();
    lab.try_all_at_once(IDLE, &mishaps, |world, mishap| {
        world.breaks();
        let code = world.meets(mishap);
        // How many events and checkpoints there are is a matter of time: a later one need not come.
        assert!(
            if mishap.ends_with("=kill") { code.is_none_or(|code| code == 1) } else { code == Some(1) },
            "{mishap}: {code:?}"
        );
        world.is_mended();
        world.comes_back(mishap);
    });
}

fn one_that_was_paused_and_lost_its_lease_does_not_begin(database: &Database) {
    let lab = Lab::planned(database);
    let world = lab.world();
    let paused =
        world.apply().args(["--lease", "1s"]).env("KL_MISHAP", "store/record where the run works/begin#1=stall:2000");
    let paused = paused.spawn();
    wait_until("it is about to begin", Duration::from_mins(1), || {
        let applying = "SELECT count(*) FROM runs WHERE status = 'applying'";
        (world.database.value(applying).as_deref() == Some("1")).then_some(())
    });
    paused.signal(Signal::SIGSTOP);
    drop(world.apply().args(["--wait", "1m"]).exits(0));
    paused.signal(Signal::SIGCONT);
    let said = paused.exits(1).stderr;
    assert!(said.contains("the run is lost: its lease had ended, and run "), "{said}");
    assert_eq!((world.made("first").as_str(), world.made("second").as_str()), ("made\n", "made\n"));
    everything_ended(&world.database);
}
