//! At every step of an apply, in turn, kl is killed, the step fails, the database goes away, or the step takes longer than
//! the lease: one command brings everything back in step, and no object is lost or made twice.
//!
//! These tests take minutes together: each of some hundred moments is tried with the real Terraform, and most of the time
//! is spent waiting for leases to end, so several are tried at once. Of other commands than an apply each point has one
//! kind of mishap; `KL_MISHAPS=all cargo nextest run -E 'test(/mishaps::/)'` tries every kind at every point.

mod ends;
mod refresh;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::time::Duration;

use camino::Utf8PathBuf;
use nix::sys::signal::Signal;

use crate::harness::database::{Backend, Database};
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::wait_until;

on_both_databases!(
    killed_at_any_step_of_an_apply,
    killed_at_any_step_of_an_apply_that_fails,
    killed_at_any_step_of_a_recovery,
    killed_at_any_step_of_a_plan,
    killed_at_any_step_of_an_import,
    any_step_of_an_apply_fails_once,
    any_step_of_an_apply_that_fails_fails_once,
    the_database_goes_away_at_any_step_of_an_apply,
    the_database_goes_away_at_any_step_of_an_apply_that_fails,
    any_step_of_an_apply_takes_longer_than_its_lease,
    one_that_was_paused_and_lost_its_lease_does_not_begin,
);

/// Every object leaves a line behind for each time that it is made: the line is its reality. `second` fails while the
/// file `broken` exists.
const WORLD: &str = r#"
variable "reality" {}
resource "terraform_data" "first" {
  input = 1
  provisioner "local-exec" {
    command = "echo made >> ${var.reality}/first"
  }
}
resource "terraform_data" "second" {
  input = terraform_data.first.output
  provisioner "local-exec" {
    command = "test ! -e ${var.reality}/broken && echo made >> ${var.reality}/second"
  }
}
"#;

/// So many worlds are tried at once.
const AT_ONCE: usize = 4;

/// A place where worlds are made, each with a state of its own.
struct Lab<'a> {
    database: &'a Database,
    site: Site,
}

impl<'a> Lab<'a> {
    fn new(database: &'a Database) -> Self {
        let site = Site::on(database);
        site.write("live/main.tf", WORLD);
        Self { database, site }
    }

    /// A planned world.
    fn world(&self, name: &str) -> World<'_> {
        let world = World { lab: self, name: name.to_owned() };
        fs::create_dir_all(world.reality()).unwrap();
        drop(world.kl("plan").args(["live", "--out", world.spec().as_str()]).exits(0));
        world
    }

    fn points(&self, command: Kl, code: i32) -> Vec<String> {
        points(&self.site, command, code)
    }

    /// Tries something at every point, several at once, each in a world of its own.
    fn try_all(&self, points: &[String], attempt: impl Fn(&World<'_>, &str) + Sync) {
        try_each(points, |number, point| attempt(&self.world(&format!("world-{number}")), point));
        self.everything_ended();
        // What the dead have left, the next apply clears away.
        drop(self.world("last").apply().exits(0));
        assert_eq!(self.site.leftovers(), Vec::<String>::new());
    }

    fn everything_ended(&self) {
        let one = |sql: &str| self.database.value(sql).unwrap_or_default();
        // One that was killed before it had reserved anything is in nobody's way; `kl gc` ends it.
        let live = "SELECT count(*) FROM runs WHERE ended_at IS NULL AND status <> 'started'";
        assert_eq!(one(live), "0", "live runs");
        assert_eq!(one("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), "0", "reservations");
    }
}

/// The points that a command passes: of each the first time and the last.
pub(crate) fn points(site: &Site, command: Kl, code: i32) -> Vec<String> {
    let log = site.path("points");
    drop(fs::remove_file(&log));
    drop(command.env("KL_MISHAP_LOG", log.as_str()).exits(code));
    let mut passed: BTreeMap<String, u32> = BTreeMap::new();
    for point in fs::read_to_string(&log).unwrap().lines() {
        *passed.entry(point.to_owned()).or_default() += 1;
    }
    let ends = passed
        .into_iter()
        .flat_map(|(point, count)| BTreeSet::from([1, count]).into_iter().map(move |nth| format!("{point}#{nth}")));
    ends.collect()
}

/// What goes wrong where: in the suite one mishap at each point, of all kinds in turn and not the same ones on both
/// databases. `KL_MISHAPS=all` has every kind at every point.
pub(crate) fn mishaps(database: &Database, points: &[String]) -> Vec<String> {
    const KINDS: [&str; 4] = ["kill", "fail", "down", "stall:1300"];
    let all = std::env::var_os("KL_MISHAPS").is_some_and(|value| value == "all");
    let shift = usize::from(database.backend() == Backend::Postgres);
    let of = |(number, point): (usize, &String)| {
        let chosen = move |kind: &usize| all || *kind == (number + shift) % KINDS.len();
        (0..KINDS.len()).filter(chosen).map(|kind| format!("{point}={}", KINDS[kind])).collect::<Vec<_>>()
    };
    points.iter().enumerate().flat_map(of).collect()
}

/// Tries something at every point, several at once; each attempt gets the number of its point.
pub(crate) fn try_each(points: &[String], attempt: impl Fn(usize, &str) + Sync) {
    assert!(points.len() >= 6, "{points:?}");
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((number, point)) = points.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attempt(number, point)));
                    if tried.is_err() {
                        failed.lock().unwrap().push(point.clone());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "what went wrong is above; at these points: {failed:?}");
}

/// Runs a command with a mishap. Gives the exit code; none when it was killed.
pub(crate) fn meets(command: Kl, mishap: &str) -> Option<i32> {
    let (status, said) = command.env("KL_MISHAP", mishap).spawn().ends();
    assert!(!said.stderr.contains("panicked"), "{mishap}: {said:?}");
    assert!(status.code().is_none_or(|code| code <= 2), "{mishap}: {status} {said:?}");
    assert!(status.signal().is_none_or(|signal| signal == 9), "{mishap}: {status} {said:?}");
    status.code()
}

/// One state with its objects.
struct World<'a> {
    lab: &'a Lab<'a>,
    name: String,
}

impl World<'_> {
    fn reality(&self) -> Utf8PathBuf {
        self.lab.site.path(&self.name)
    }

    /// How often an object was made, a line for each time.
    fn made(&self, object: &str) -> String {
        fs::read_to_string(self.reality().join(object)).unwrap_or_default()
    }

    fn spec(&self) -> Utf8PathBuf {
        self.lab.site.path(format!("{}.json", self.name))
    }

    fn kl(&self, command: &str) -> Kl {
        let reality = format!("--var=reality={}", self.reality());
        self.lab.site.kl().args([command, "--state", &self.name, &reality])
    }

    fn apply(&self) -> Kl {
        self.kl("apply").args([self.spec().as_str(), "--dir", "live"])
    }

    fn breaks(&self) {
        fs::write(self.reality().join("broken"), "").unwrap();
    }

    fn is_mended(&self) {
        drop(fs::remove_file(self.reality().join("broken")));
    }

    /// Applies with a mishap. Gives the exit code; none when it was killed.
    fn meets(&self, mishap: &str) -> Option<i32> {
        meets(self.apply().args(["--lease", "1s"]), mishap)
    }

    /// The one command that brings everything back in step, and that it did.
    fn comes_back(&self, mishap: &str) {
        let said = self.apply().args(["--wait", "1m"]).exits(0);
        let listed = self.lab.site.kl().args(["state", "list", "live", "--state", &self.name]).exits(0).stdout;
        for object in ["first", "second"] {
            assert!(listed.contains(&format!("terraform_data.{object}")), "{mishap}: {listed} {said:?}");
            assert_eq!(self.made(object), "made\n", "{mishap}: {object} {said:?}");
        }
    }
}

fn of_an_apply(lab: &Lab<'_>) -> Vec<String> {
    lab.points(lab.world("trace").apply(), 0)
}

/// The object that was begun is tainted, and the apply fails.
fn of_an_apply_that_fails(lab: &Lab<'_>) -> Vec<String> {
    let world = lab.world("trace");
    world.breaks();
    let points = lab.points(world.apply(), 1);
    world.is_mended();
    world.comes_back("trace");
    points
}

/// An apply of a spec that has failed before.
fn of_a_recovery(lab: &Lab<'_>) -> Vec<String> {
    let world = lab.world("trace");
    world.breaks();
    drop(world.apply().exits(1));
    world.is_mended();
    lab.points(world.apply(), 0)
}

fn killed_at_any_step_of_an_apply(database: &Database) {
    let lab = Lab::new(database);
    lab.try_all(&of_an_apply(&lab), |world, point| {
        world.meets(&format!("{point}=kill"));
        world.comes_back(point);
    });
}

fn killed_at_any_step_of_an_apply_that_fails(database: &Database) {
    let lab = Lab::new(database);
    lab.try_all(&of_an_apply_that_fails(&lab), |world, point| {
        world.breaks();
        world.meets(&format!("{point}=kill"));
        world.is_mended();
        world.comes_back(point);
    });
}

fn killed_at_any_step_of_a_recovery(database: &Database) {
    let lab = Lab::new(database);
    lab.try_all(&of_a_recovery(&lab), |world, point| {
        world.breaks();
        drop(world.apply().exits(1));
        world.is_mended();
        world.meets(&format!("{point}=kill"));
        world.comes_back(point);
    });
}

fn killed_at_any_step_of_a_plan(database: &Database) {
    let lab = Lab::new(database);
    let plan = |world: &World<'_>| world.kl("plan").args(["live", "--out", world.spec().as_str()]);
    let points = lab.points(plan(&lab.world("trace")), 0);
    lab.try_all(&points, |world, point| {
        drop(plan(world).env("KL_MISHAP", format!("{point}=kill")).spawn().ends());
        drop(plan(world).exits(0));
        drop(world.apply().exits(0));
    });
}

fn killed_at_any_step_of_an_import(database: &Database) {
    const DOCUMENT: &str = r#"{"version":4,"terraform_version":"1.11.4","serial":3,"lineage":"l","outputs":{"o":{"value":"v","type":"string"}},"resources":[]}"#;
    let lab = Lab::new(database);
    let import =
        |name: &str| lab.site.kl().args(["state", "import", "-", "--dir", "live", "--state", name]).stdin(DOCUMENT);
    let points = lab.points(import("trace"), 0);
    lab.try_all(&points, |world, point| {
        let name = format!("{}-imported", world.name);
        drop(import(&name).env("KL_MISHAP", format!("{point}=kill")).spawn().ends());
        // Until its lease ends the dead import stands in the way, and says so.
        let (status, said) = import(&name).spawn().ends();
        if status.code() == Some(2) {
            let run = said.stderr.lines().find_map(|line| line.trim().strip_prefix("run")).expect("the holder").trim();
            drop(lab.site.kl().args(["abort", run]).exits(0));
            drop(import(&name).exits(0));
        } else {
            assert_eq!(status.code(), Some(0), "{point}: {said:?}");
        }
        let pulled = lab.site.kl().args(["state", "pull", "live", "--state", &name]).exits(0).stdout;
        assert!(pulled.contains("\"serial\": 3") && pulled.contains("\"o\""), "{point}: {pulled}");
    });
}

fn any_step_of_an_apply_fails_once(database: &Database) {
    let lab = Lab::new(database);
    lab.try_all(&of_an_apply(&lab), |world, point| {
        world.meets(&format!("{point}=fail"));
        world.comes_back(point);
    });
}

fn any_step_of_an_apply_that_fails_fails_once(database: &Database) {
    let lab = Lab::new(database);
    lab.try_all(&of_an_apply_that_fails(&lab), |world, point| {
        world.breaks();
        assert_eq!(world.meets(&format!("{point}=fail")), Some(1), "{point}");
        world.is_mended();
        world.comes_back(point);
    });
}

fn the_database_goes_away_at_any_step_of_an_apply(database: &Database) {
    let lab = Lab::new(database);
    lab.try_all(&of_an_apply(&lab), |world, point| {
        world.meets(&format!("{point}=down"));
        world.comes_back(point);
    });
}

fn the_database_goes_away_at_any_step_of_an_apply_that_fails(database: &Database) {
    let lab = Lab::new(database);
    lab.try_all(&of_an_apply_that_fails(&lab), |world, point| {
        world.breaks();
        assert_eq!(world.meets(&format!("{point}=down")), Some(1), "{point}");
        world.is_mended();
        world.comes_back(point);
    });
}

fn any_step_of_an_apply_takes_longer_than_its_lease(database: &Database) {
    let lab = Lab::new(database);
    let points: Vec<String> = of_an_apply(&lab).into_iter().filter(|point| !point.contains("/done#")).collect();
    lab.try_all(&points, |world, point| {
        // As nobody else wants the rows it may go on, or find that it could not renew the lease in time.
        world.meets(&format!("{point}=stall:1300"));
        world.comes_back(point);
    });
}

fn one_that_was_paused_and_lost_its_lease_does_not_begin(database: &Database) {
    let lab = Lab::new(database);
    let world = lab.world("paused");
    let paused =
        world.apply().args(["--lease", "1s"]).env("KL_MISHAP", "store/record where the run works/begin#1=stall:2000");
    let paused = paused.spawn();
    wait_until("it is about to begin", Duration::from_mins(1), || {
        (database.value("SELECT count(*) FROM runs WHERE status = 'applying'").as_deref() == Some("1")).then_some(())
    });
    paused.signal(Signal::SIGSTOP);
    drop(world.apply().args(["--wait", "1m"]).exits(0));
    paused.signal(Signal::SIGCONT);
    let said = paused.exits(1).stderr;
    assert!(said.contains("the run is lost: its lease had ended, and run "), "{said}");
    assert_eq!((world.made("first").as_str(), world.made("second").as_str()), ("made\n", "made\n"));
    lab.everything_ended();
}
