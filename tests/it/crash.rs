//! kl is killed, stopped, paused or aborted in the midst of a run, and nothing is lost or done twice.

mod dead;
mod elsewhere;
mod foreign;
mod half;
mod orphans;
mod rest;
mod turn;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::json;

use crate::harness::database::Database;
use crate::harness::kl::{Kl, Running};
use crate::harness::site::Site;
use crate::harness::terraform::Plain;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates, assert_tidy, runs, status, wait_for_runs};

on_both_databases!(
    killed_before_terraform_changed_anything_leaves_the_rows_to_the_next_after_the_lease,
    killed_while_terraform_applies_is_recovered_by_the_same_spec,
    killed_while_terraform_applies_keeps_others_away_until_it_is_recovered,
    killed_between_apply_and_commit_loses_nothing,
    killed_with_the_first_object_of_a_state_in_flight_keeps_its_address,
    paused_for_longer_than_its_lease_commits_nothing,
    aborted_while_it_applies_stops_terraform_and_commits_nothing,
    one_signal_lets_terraform_finish_what_is_in_flight_and_keeps_a_record,
    a_second_signal_ends_at_once_and_keeps_a_record,
    a_waiting_run_that_is_interrupted_leaves_the_queue,
);

/// A site with the chain, its gates, and a spec for it.
struct Scene<'a> {
    database: &'a Database,
    site: Site,
    gates: Gates,
}

impl<'a> Scene<'a> {
    fn new(database: &'a Database) -> Self {
        let site = Site::on(database);
        site.write("live/main.tf", CHAIN);
        let gates = Gates::new(&site);
        Self { database, site, gates }
    }

    fn var(&self) -> String {
        format!("--var={}", self.gates.var())
    }

    /// Plans the chain with this value.
    fn plan(&self, value: usize) -> String {
        let spec = self.site.path(format!("spec-{value}.json")).into_string();
        let value = format!("--var=value={value}");
        drop(self.site.kl().args(["plan", "live", &self.var(), &value, "--out", &spec]).exits(0));
        spec
    }

    /// `kl apply` of that spec.
    fn apply(&self, value: usize) -> Kl {
        let spec = self.site.path(format!("spec-{value}.json")).into_string();
        self.site.kl().args(["apply", &spec, "--dir", "live", &self.var(), &format!("--var=value={value}")])
    }

    /// Ends kl as a lost machine would, and says the id of its run.
    fn kill(&self, running: Running) -> String {
        let run = self.live_run();
        running.signal(Signal::SIGKILL);
        assert_eq!(running.ends().0.signal(), Some(9));
        run
    }

    /// `kl apply` of that spec, held while its Terraform applies.
    fn at_work<const N: usize>(&self, value: usize, args: [&str; N]) -> Running {
        self.gates.close("apply");
        let running = self.apply(value).args(args).spawn();
        self.gates.reached("apply");
        running
    }

    /// The first spec's apply, killed there; its Terraform goes on alone. Says the id of its run.
    fn killed_at_work(&self) -> String {
        let run = self.kill(self.at_work(1, ["--lease", "1s"]));
        self.gates.open("apply");
        run
    }

    fn live_run(&self) -> String {
        let live = self.database.rows("SELECT CAST(id AS text) FROM runs WHERE ended_at IS NULL");
        live.into_iter().flatten().flatten().next().expect("a run is live")
    }

    /// The process group of the apply.
    fn group(&self) -> Pid {
        let group = wait_until("the process group is on record", Duration::from_mins(1), || {
            self.database.value("SELECT max(process_group) FROM run_workplaces")
        });
        Pid::from_raw(group.parse().unwrap())
    }

    /// Waits until a Terraform that goes on alone has come to its end.
    fn wait_for_terraform(&self) {
        let group = self.group();
        wait_until("Terraform has ended", Duration::from_mins(1), || killpg(group, None).is_err().then_some(()));
    }

    fn status_of(&self, run: &str) -> Option<String> {
        self.database.value(&format!("SELECT status FROM runs WHERE CAST(id AS text) = '{run}'"))
    }

    /// That a dead run was ended by who came next: because its lease was over by then, or because its kl was seen to be dead.
    #[track_caller]
    fn assert_ended_by_another(&self, run: &str) {
        let status = self.status_of(run);
        assert!(matches!(status.as_deref(), Some("lost" | "aborted")), "{status:?}");
    }

    /// That the trunk is what plain Terraform would have made.
    #[track_caller]
    fn assert_done(&self, value: usize, serial: usize) {
        assert_tidy(self.database, serial);
        let state = self.site.kl().args(["state", "pull", "live"]).exits(0).stdout;
        let vars = [format!("-var={}", self.gates.var()), format!("-var=value={value}")];
        let changes = Plain::new(&self.site, "live").changes(&state, &[&vars[0], &vars[1]]);
        assert_eq!(changes, None);
    }
}

fn killed_before_terraform_changed_anything_leaves_the_rows_to_the_next_after_the_lease(database: &Database) {
    let scene = Scene::new(database);
    let mut lost = Vec::new();
    scene.plan(1);
    scene.plan(2);
    // Reserved and at init; at the re-plan; planned again, and not yet applied.
    for gate in ["init", "plan", "show.done"] {
        scene.gates.close(gate);
        let running = scene.gates.on(scene.apply(1)).args(["--lease", "1s"]).spawn();
        scene.gates.reached(gate);
        lost.push(scene.kill(running));
        scene.gates.open(gate);
        // One of another spec takes the rows when the lease is over.
        let said = scene.apply(2).args(["--wait", "30s", "--dry-run"]).exits(0);
        assert!(said.stderr.contains(lost.last().unwrap()), "{said:?}");
    }
    drop(scene.apply(1).exits(0));
    assert_eq!(runs(database, "lost"), lost);
    let told = scene.site.kl().args(["explain", &lost[0]]).exits(0).stdout;
    assert!(told.contains("! Took over its ended lease: 1 run"), "{told}");
    let told = scene.site.kl().args(["show", &lost[0]]).exits(0).stdout;
    assert!(told.contains("lease taken by"), "{told}");
    scene.assert_done(1, 1);
    // What they left, the later ones have cleared away.
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn killed_while_terraform_applies_is_recovered_by_the_same_spec(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    let lost = scene.killed_at_work();
    // Its Terraform goes on alone, and is waited for; then nothing is left to be done.
    drop(scene.apply(1).args(["--wait", "1m"]).exits(0));
    scene.assert_ended_by_another(&lost);
    let sources = database.rows("SELECT source FROM state_versions ORDER BY serial");
    assert_eq!(sources, [[Some("recover".to_owned())]]);
    scene.assert_done(1, 1);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn killed_while_terraform_applies_keeps_others_away_until_it_is_recovered(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    scene.plan(2);
    let lost = scene.killed_at_work();
    // Waits for the end of the lease, and not for a quarantine: that has none.
    let said = scene.apply(2).args(["--wait", "30s"]).exits(2).stderr;
    assert!(said.contains(&format!("kl recover {lost}")), "{said}");
    assert_eq!(scene.status_of(&lost), Some("lost".into()));
    scene.wait_for_terraform();
    drop(scene.site.kl().args(["recover", &lost]).exits(0));
    assert_tidy(database, 1);
    scene.plan(2);
    drop(scene.apply(2).exits(0));
    scene.assert_done(2, 2);
}

fn killed_between_apply_and_commit_loses_nothing(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    scene.gates.close("apply.done");
    let running = scene.gates.on(scene.apply(1)).args(["--lease", "1s"]).spawn();
    scene.gates.reached("apply.done");
    // All three are done, and the last checkpoint may be older than that.
    let run = scene.live_run();
    let done = format!(
        "SELECT count(*) FROM run_events WHERE CAST(run_id AS text) = '{run}' AND CAST(event AS text) LIKE '%finished%'"
    );
    wait_until("kl has heard of all three", Duration::from_mins(1), || {
        (database.value(&done).as_deref() == Some("3")).then_some(())
    });
    scene.kill(running);
    scene.gates.open("apply.done");
    drop(scene.apply(1).args(["--wait", "1m"]).exits(0));
    scene.assert_ended_by_another(&run);
    scene.assert_done(1, 1);
}

fn killed_with_the_first_object_of_a_state_in_flight_keeps_its_address(database: &Database) {
    let scene = Scene::new(database);
    // Nothing comes before it, so Terraform has written no state when it begins.
    let text = CHAIN.replace("depends_on       = [terraform_data.first]", "").replace(
        "resource \"terraform_data\" \"first\" { input = var.value }",
        "resource \"terraform_data\" \"first\" {\n  input      = var.value\n  depends_on = [terraform_data.slow]\n}",
    );
    scene.site.write("live/main.tf", &text);
    scene.plan(1);
    scene.plan(2);
    let lost = scene.killed_at_work();
    let said = scene.apply(2).args(["--wait", "30s"]).exits(2).stderr;
    assert!(said.contains("terraform_data.slow (write) is quarantined"), "{said}");
    assert!(said.contains(&format!("kl recover {lost}")), "{said}");
    drop(scene.apply(1).args(["--wait", "1m"]).exits(0));
    scene.assert_done(1, 1);
}

fn paused_for_longer_than_its_lease_commits_nothing(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    scene.gates.close("show.done");
    let paused = scene.gates.on(scene.apply(1)).args(["--lease", "1s"]).spawn();
    scene.gates.reached("show.done");
    let run = scene.live_run();
    paused.signal(Signal::SIGSTOP);
    drop(scene.apply(1).args(["--wait", "30s"]).exits(0));
    assert_eq!(scene.status_of(&run), Some("lost".into()));
    scene.gates.open("show.done");
    paused.signal(Signal::SIGCONT);
    let said = paused.exits(1).stderr;
    // One story: of the command itself, of the database, and of every view.
    let taker = "SELECT CAST(id AS text) FROM runs WHERE status = 'committed'";
    let taker = database.value(taker).unwrap();
    let who = database.value("SELECT actor FROM runs WHERE status = 'committed'").unwrap();
    let story = format!("its lease had ended, and run {taker} by {who} has taken its reservations");
    assert!(said.contains(&format!("the run is lost: {story}; nothing was committed")), "{said}");
    let stored = database.value(&format!("SELECT error FROM runs WHERE CAST(id AS text) = '{run}'"));
    assert_eq!(stored.as_deref(), Some(story.as_str()));
    let ended = database.rows(&format!(
        "SELECT CAST(event AS text) FROM run_events WHERE CAST(run_id AS text) = '{run}' AND kind = 'ended'"
    ));
    assert!(
        ended.iter().flatten().flatten().all(|event| event.contains("lost") && !event.contains("failed")),
        "{ended:?}"
    );
    let shown = scene.site.kl().args(["show", &run]).exits(0).stdout;
    assert!(shown.lines().any(|line| line.trim().starts_with("because") && line.ends_with(&story)), "{shown}");
    assert!(
        shown.contains(&format!("! The lease had ended, and {who} has taken the reservations, run {taker}")),
        "{shown}"
    );
    let explained = scene.site.kl().args(["explain", &run]).exits(0).stdout;
    assert!(explained.contains(&story), "{explained}");
    let advice = format!("Nothing is left to do: the same spec was applied as serial 1 by {who}, run {taker}");
    assert!(explained.contains(&advice), "{explained}");
    scene.assert_done(1, 1);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn aborted_while_it_applies_stops_terraform_and_commits_nothing(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    let running = scene.at_work(1, []);
    let run = scene.live_run();
    drop(scene.site.kl().args(["abort", &run, "--actor", "carol"]).exits(0));
    assert_eq!(scene.status_of(&run), Some("aborted".into()));
    // The gate stays closed: only a Terraform that is stopped lets kl come to its end.
    let said = running.exits(1).stderr;
    assert!(said.contains("the run was aborted from outside, so nothing was committed"), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("0".into()));
    scene.gates.open("apply");
    // What was made is on record, and the same spec goes on from there.
    drop(scene.apply(1).exits(0));
    let state = scene.site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(state, "terraform_data.first\nterraform_data.later\nterraform_data.slow\n");
    scene.assert_done(1, 2);
}

fn one_signal_lets_terraform_finish_what_is_in_flight_and_keeps_a_record(database: &Database) {
    for (value, signal) in [(1, Signal::SIGTERM), (2, Signal::SIGHUP)] {
        let scene = Scene::new(database);
        scene.plan(value);
        let before: usize =
            database.value("SELECT COALESCE(max(serial), 0) FROM state_versions").unwrap().parse().unwrap();
        let running = scene.at_work(value, []);
        let run = scene.live_run();
        let began = Instant::now();
        running.signal(signal);
        if signal == Signal::SIGHUP {
            // A closed terminal sends more than one.
            std::thread::sleep(Duration::from_millis(50));
            running.signal(signal);
        }
        let said = running.exits(1).stderr;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(said.contains(&format!("kl recover {run}")), "{said}");
        assert_eq!(scene.status_of(&run), Some("failed".into()));
        // Only what Terraform has really changed stays reserved.
        let kept: Vec<_> = status(&scene.site)["reservations"].as_array().unwrap().clone();
        assert!(kept.iter().all(|one| one["held_as"] == "quarantine"), "{kept:?}");
        let patterns: Vec<_> = kept.iter().map(|one| one["pattern"].clone()).collect();
        assert_eq!(patterns, [json!("terraform_data.first"), json!("terraform_data.slow")]);
        assert_eq!(scene.site.leftovers(), Vec::<String>::new());
        scene.gates.open("apply");
        drop(scene.apply(value).exits(0));
        scene.assert_done(value, before + 2);
    }
}

fn a_second_signal_ends_at_once_and_keeps_a_record(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    // A program that does not stop when it is asked.
    scene.site.write("live/main.tf", &CHAIN.replace("command = \"while", "command = \"trap '' INT TERM; while"));
    scene.plan(1);
    let mut running = scene.at_work(1, []);
    let run = scene.live_run();
    running.signal(Signal::SIGINT);
    assert!(running.runs());
    let began = Instant::now();
    // Two signals at the same instant would be one; kl says nothing of the first, so it is given until it is seen.
    wait_until("kl has ended", Duration::from_secs(9), || {
        if running.runs() {
            running.signal(Signal::SIGINT);
            return None;
        }
        Some(())
    });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(running.exits(1));
    scene.gates.open("apply");
    assert_eq!(scene.status_of(&run), Some("failed".into()));
    // Whether Terraform still got to say that it gave the object up is a matter of luck; its row is kept anyway.
    let kept = status(&scene.site)["reservations"].to_string();
    assert!(kept.contains("terraform_data.slow") && kept.contains("quarantine"), "{kept}");
    drop(scene.site.kl().args(["recover", &run]).exits(0));
    drop(scene.apply(1).exits(0));
    assert_eq!(
        database.value("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"),
        Some("0".into())
    );
}

fn a_waiting_run_that_is_interrupted_leaves_the_queue(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    scene.plan(2);
    let first = scene.at_work(1, []);
    let waiter = scene.apply(2).args(["--wait", "10m"]).spawn();
    wait_for_runs(database, "waiting", 1);
    waiter.signal(Signal::SIGTERM);
    let said = waiter.exits(1).stderr;
    assert!(said.contains("interrupted while waiting for its turn"), "{said}");
    scene.gates.open("apply");
    drop(first.exits(0));
    scene.assert_done(1, 1);
    assert!(fs::read_dir(scene.site.path("tmp")).unwrap().next().is_none());
}

#[test]
fn a_command_that_waits_for_standard_input_ends_with_the_first_signal() {
    let site = Site::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kl"))
        .args(["state", "import", "-"])
        .current_dir(site.repo())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    // Until it catches signals the signal would end it, too, but not with its own exit code.
    let caught = format!("/proc/{pid}/status");
    wait_until("kl catches SIGINT", Duration::from_secs(20), || {
        let text = fs::read_to_string(&caught).ok()?;
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        (u64::from_str_radix(mask.trim(), 16).ok()? & 0b10 != 0).then_some(())
    });
    kill(pid, Signal::SIGINT).unwrap();
    let code = wait_until("kl ends", Duration::from_secs(20), || child.try_wait().unwrap());
    assert_eq!(code.code(), Some(1));
    assert!(!site.repo().join(".kl").exists());
}
