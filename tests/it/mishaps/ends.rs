//! Mishaps at every step of what ends a run from outside, and of what takes over what it did: the same command again
//! brings it to its end.

use serde_json::json;

use super::lab::{Lab, World};
use super::{meets, mishaps, points};
use crate::harness::database::Database;

on_both_databases!(
    a_mishap_at_any_step_of_an_abort,
    a_mishap_at_any_step_of_a_recovery_by_hand,
    a_recovery_that_died_is_told_as_one,
    a_mishap_at_any_step_of_a_discard,
);

impl World {
    /// The first run with this status.
    fn run(&self, status: &str) -> String {
        let sql = format!("SELECT CAST(id AS text) FROM runs WHERE status = '{status}' ORDER BY started_at LIMIT 1");
        self.database.value(&sql).unwrap()
    }

    /// A run that was killed when all was made and nothing was committed. It has a long lease: one of a second can end
    /// before it is killed, on a machine that has a lot to do, and its abort does not wait for any.
    fn cut_off(&self) -> String {
        assert_eq!(meets(self.apply(), "store/commit the run/begin#1=kill"), None);
        self.run("applying")
    }
}

fn a_mishap_at_any_step_of_an_abort(database: &Database) {
    let lab = Lab::planned(database);
    let trace = lab.world();
    let run = trace.cut_off();
    let points = points(trace.kl("abort").arg(&run), 0);
    let said = trace.apply().exits(0).stdout;
    assert!(said.contains("had done all of it, and was recovered as serial 1 by run "), "{said}");
    trace.comes_back("trace");
    lab.try_all(&mishaps(database, &points), |world, mishap| {
        let run = world.cut_off();
        meets(world.kl("abort").arg(&run), mishap);
        drop(world.kl("abort").arg(&run).exits(0));
        assert_eq!(world.run("aborted"), run, "{mishap}");
        world.comes_back(mishap);
    });
}

/// Recovers, as whoever reads what kl says would do it.
fn recovered(world: &World, run: &str, mishap: &str) {
    let mut run = run.to_owned();
    for _ in 0..4 {
        let (status, said) = world.kl("recover").arg(&run).spawn().ends();
        if status.success() || said.stderr.contains("recovered or discarded before") {
            return;
        }
        // The recovery that was cut off has it now, and kl says which one that is.
        let next = said.stderr.split("kl recover ").nth(1).unwrap_or_default();
        let next: String = next.chars().take_while(|letter| *letter != '`').collect();
        assert!(!next.is_empty(), "{mishap}: {status} {said:?}");
        if status.code() == Some(2) {
            drop(world.kl("abort").arg(&next).exits(0));
        }
        run = next;
    }
    panic!("{mishap}: never recovered");
}

fn a_mishap_at_any_step_of_a_recovery_by_hand(database: &Database) {
    let lab = Lab::failed(database);
    let trace = lab.world();
    let run = trace.run("failed");
    let points = points(trace.kl("recover").arg(&run), 0);
    trace.comes_back("trace");
    lab.try_all(&mishaps(database, &points), |world, mishap| {
        let run = world.run("failed");
        // A recovery is patient with a database that is away: it waits for minutes.
        let mishap = &mishap.replace("=down", "=kill");
        meets(world.kl("recover").arg(&run), mishap);
        recovered(world, &run, mishap);
        world.comes_back(mishap);
    });
}

/// Who left something, who took it over and died, and who brought it in: told the same way everywhere, by what became of it.
fn a_recovery_that_died_is_told_as_one(database: &Database) {
    let lab = Lab::failed(database);
    let world = lab.world();
    let failed = world.run("failed");
    let kl = |args: &[&str]| world.site.kl().args(args.iter().copied()).exits(0).stdout;
    let explained = || kl(&["explain", &failed]);
    assert_eq!(
        meets(world.kl("recover").arg(&failed).args(["--actor", "ann"]), "store/commit the run/begin#1=kill"),
        None
    );
    let died = world.run("reserved");
    let text = explained();
    assert!(text.contains(&format!("… What it left is being taken over by ann, run {died}\n")), "{text}");
    assert!(text.contains(&format!("`kl abort {died}` ends it")) && !text.contains("Recovered"), "{text}");

    drop(world.kl("abort").arg(&died).exits(0));
    let text = explained();
    let left =
        format!("! What it left was taken over by ann, run {died}; it is not in the state yet, and stays reserved");
    assert!(text.contains(&left) && !text.contains("Recovered"), "{text}");
    assert!(text.contains(&format!("`kl recover {died}` takes what was really changed")), "{text}");
    assert!(kl(&["status"]).contains("quarantined by ann"));
    let page = || kl(&["report", "--out", "-"]);
    let kept = format!("kl recover {died}");
    assert!(page().contains(&kept));

    drop(world.kl("recover").arg(&died).args(["--actor", "ben"]).exits(0));
    let text = explained();
    let (ann, ben) =
        (format!("taken over by ann, run {died}, and after that by ben, run "), "✓ Recovered: what it left was ");
    assert!(text.contains(&format!("{ben}{ann}")) && !text.contains("kl recover"), "{text}");
    let shown = world.site.kl().args(["show", &failed, "--format", "json"]).exits(0).json();
    let aftermath = &shown["aftermath"];
    assert_eq!((&aftermath["became"], &aftermath["actor"]), (&json!("recovered"), &json!("ben")), "{aftermath}");
    assert_eq!(aftermath["serial"], 1);
    let page = page();
    assert!(page.contains("as serial 1 by") && !page.contains(&kept));
}

fn a_mishap_at_any_step_of_a_discard(database: &Database) {
    let lab = Lab::failed(database);
    let trace = lab.world();
    let run = trace.run("failed");
    let discard = |world: &World, run: &str| world.kl("recover").arg(run).arg("--discard");
    let points = points(discard(&trace, &run), 0);
    lab.try_all(&mishaps(database, &points), |world, mishap| {
        let run = world.run("failed");
        meets(discard(world, &run), mishap);
        let (status, said) = discard(world, &run).spawn().ends();
        let before = said.stderr.contains("recovered or discarded before");
        assert!(status.success() || before, "{mishap}: {status} {said:?}");
        // Nothing of it is in the state, and nobody is in the way: `first` is made anew.
        drop(world.apply().exits(0));
        assert_eq!(world.made("first"), "made\nmade\n", "{mishap}");
    });
}
