//! The clocks of runners do not matter: they may be wrong, disagree, and jump in the midst of an apply. On PostgreSQL each
//! runner has a clock of its own, and the server another; on SQLite all processes share the machine's, which jumps.

use std::fs;
use std::time::Duration;

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::harness::database::{Backend, Database};
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates, assert_tidy, runs};

on_both_databases!(
    a_clock_that_jumps_costs_nobody_a_lease,
    runners_whose_clocks_disagree_keep_each_other_out,
    what_happened_is_told_in_the_order_of_the_database,
);

const HOUR: i64 = 3600;

/// Wall clocks that tests set.
struct Clocks<'a> {
    site: &'a Site,
    database: &'a Database,
    shim: Utf8PathBuf,
}

impl<'a> Clocks<'a> {
    fn new(site: &'a Site, database: &'a Database) -> Self {
        let shim = site.path("shift.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/clock/shift.c");
        // Whoever links Rust programs has a C compiler.
        drop(site.kl().instead("cc").args(["-shared", "-fPIC", "-o", shim.as_str(), source]).exits(0));
        let clocks = Self { site, database, shim };
        // It does what it is for.
        clocks.set("test", HOUR);
        let seconds = |kl: Kl| kl.instead("date").arg("+%s").exits(0).stdout.trim().parse::<i64>().unwrap();
        assert!(seconds(clocks.kl("test")) > seconds(site.kl()) + HOUR - 60);
        clocks.set("test", 0);
        clocks
    }

    /// The clock of one runner; on SQLite everybody's.
    fn of(&self, runner: &str) -> Utf8PathBuf {
        let machine = if self.database.backend() == Backend::Sqlite { "machine" } else { runner };
        self.site.path(format!("clock-{machine}"))
    }

    fn set(&self, runner: &str, seconds: i64) {
        let path = self.of(runner);
        let new = format!("{path}.new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(&new, &path).unwrap();
    }

    /// kl on the machine of a runner.
    fn kl(&self, runner: &str) -> Kl {
        let kl = self.site.kl().env("LD_PRELOAD", self.shim.as_str()).env("SHIFT_CLOCK", self.of(runner).as_str());
        kl.env("KL_ACTOR", runner)
    }
}

/// A site with a chain of resources, and its gates.
fn scene(database: &Database) -> (Site, Gates) {
    let site = Site::on(database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    (site, gates)
}

/// When the lease of the only run that holds something ends, in the database's own reckoning.
fn lease(database: &Database) -> Option<String> {
    let sql = "SELECT CAST(MAX(expires_at) AS text) FROM resource_reservations WHERE released_at IS NULL";
    database.value(sql)
}

/// Waits until the lease was renewed, and once more, so that what was under way at a jump is over.
fn renewed(database: &Database) {
    for _ in 0..2 {
        let before = lease(database);
        wait_until("the lease is renewed", Duration::from_mins(1), || (lease(database) != before).then_some(()));
    }
}

fn a_clock_that_jumps_costs_nobody_a_lease(database: &Database) {
    let (site, gates) = scene(database);
    let clocks = Clocks::new(&site, database);
    let var = format!("--var={}", gates.var());
    for (serial, jump) in [(1, HOUR), (2, -HOUR)] {
        clocks.set("alice", 0);
        gates.close("apply");
        let value = format!("--var=value={serial}");
        let apply = ["apply", "live", "--auto-approve", "--lease", "3s", &var, &value];
        let running = clocks.kl("alice").args(apply).spawn();
        gates.reached("apply");
        renewed(database);
        clocks.set("alice", jump);
        renewed(database);
        // It is still there for everybody else, whose clock is right or has jumped with it.
        let said = clocks.kl("bob").args(["apply", "live", "--auto-approve", &var, "--var=value=9"]).exits(2).stderr;
        assert!(said.contains("is held by alice") && said.contains("expires in"), "{said}");
        gates.open("apply");
        drop(running.exits(0));
        assert_eq!(database.value("SELECT max(serial) FROM state_versions"), Some(serial.to_string()));
    }
    assert!(runs(database, "lost").is_empty());
    assert_tidy(database, 2);
}

fn runners_whose_clocks_disagree_keep_each_other_out(database: &Database) {
    let (site, gates) = scene(database);
    let clocks = Clocks::new(&site, database);
    let var = format!("--var={}", gates.var());
    for (value, (ahead, behind)) in [("1", ("alice", "bob")), ("2", ("bob", "alice"))] {
        clocks.set(ahead, HOUR);
        clocks.set(behind, -HOUR);
        gates.close("apply");
        let value = format!("--var=value={value}");
        let holder = clocks.kl("alice").args(["apply", "live", "--auto-approve", &var, &value]).spawn();
        gates.reached("apply");
        let refused = ["apply", "live", "--auto-approve", &var, "--var=value=9"];
        let said = clocks.kl("bob").args(refused).exits(2).stderr;
        assert!(said.contains("is held by alice") && said.contains("expires in 14m"), "{said}");
        let waiting = clocks.kl("bob").args(refused).args(["--wait", "1m", "--on-stale", "revalidate"]).spawn();
        crate::stage::wait_for_runs(database, "waiting", 1);
        gates.open("apply");
        drop(holder.exits(0));
        // It waited for its turn, and found that its plan was overtaken.
        drop(waiting.exits(4));
    }
    assert!(runs(database, "lost").is_empty());
    assert_tidy(database, 2);
}

fn what_happened_is_told_in_the_order_of_the_database(database: &Database) {
    let (site, gates) = scene(database);
    let clocks = Clocks::new(&site, database);
    let var = format!("--var={}", gates.var());
    // The later a run is, the earlier it believes to be; on SQLite time cannot go back for one alone.
    let shift = if database.backend() == Backend::Sqlite { 0 } else { HOUR };
    let actors = ["alice", "bob", "carol"];
    for (actor, number) in actors.iter().zip(1..) {
        clocks.set(actor, -shift * number);
        let value = format!("--var=value={number}");
        drop(clocks.kl(actor).args(["apply", "live", "--auto-approve", &var, &value]).exits(0));
    }
    let runs = site.kl().args(["runs", "--format", "json"]).exits(0).json();
    let told: Vec<&str> = runs["runs"].as_array().unwrap().iter().filter_map(|run| run["actor"].as_str()).collect();
    assert_eq!(told, ["carol", "bob", "alice"], "{runs}");
    let history: Value = site.kl().args(["history", "live", "--format", "json"]).exits(0).json();
    let told: Vec<&str> =
        history["versions"].as_array().unwrap().iter().filter_map(|it| it["actor"].as_str()).collect();
    assert_eq!(told, ["carol", "bob", "alice"], "{history}");
    // Every moment on record is the database's, in every run in the order of its events.
    let events = database.rows("SELECT run_id, at FROM run_events ORDER BY run_id, seq");
    assert!(events.len() > 20);
    for pair in events.windows(2).filter(|pair| pair[0][0] == pair[1][0]) {
        assert!(pair[0][1] <= pair[1][1], "{pair:?}");
    }
    if database.backend() == Backend::Postgres {
        let off = "SELECT count(*) FROM run_events WHERE at NOT BETWEEN now() - interval '10 minutes' AND now()";
        assert_eq!(database.value(off), Some("0".into()));
        // While ids are made by the runners' clocks, which have run backwards.
        let by_id = "SELECT actor FROM runs ORDER BY id";
        assert_eq!(database.rows(by_id), [["carol"], ["bob"], ["alice"]].map(|row| row.map(|it| Some(it.to_owned()))));
    }
}
