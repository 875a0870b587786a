//! A PostgreSQL server of a test's own, which is restarted and stopped while kl works with it.
//!
//! That takes longer than other tests: a server is made, three times started and stopped, and once a lease is waited out. It
//! cannot be had for less, as the server that the other tests share must not go away under them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::fuzz::say;
use crate::harness::database::Database;
use crate::harness::in_ci;
use crate::harness::site::Site;
use crate::harness::terraform::Plain;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates, assert_tidy};

/// The server; it is stopped and removed on drop.
pub(crate) struct Server {
    programs: PathBuf,
    dir: TempDir,
}

impl Server {
    /// Starts one; none where the programs are not installed, which is said.
    pub(crate) fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(!in_ci(), "no PostgreSQL server programs, and CI leaves nothing out");
            say("NOT RUN: there are no PostgreSQL server programs (initdb, pg_ctl) in /usr/lib/postgresql or on PATH");
            return None;
        };
        // A short path: a socket's name must not be longer than about 100 bytes.
        let dir = tempfile::Builder::new().prefix("kl-pg-").tempdir_in("/tmp").unwrap();
        let server = Self { programs, dir };
        if let Some(user) = user() {
            assert!(Command::new("chown").arg(user).arg(server.dir.path()).status().unwrap().success());
        }
        let data = server.data();
        let how = ["--username", "kl", "--auth", "trust", "--encoding", "UTF8", "--no-sync"];
        server.run("initdb", &[&["--pgdata", &data], &how[..]].concat());
        server.starts();
        Some(server)
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://kl@localhost/postgres?host={}", self.dir.path().display())
    }

    /// Runs one of its programs as its user: PostgreSQL refuses to run as root.
    fn run(&self, program: &str, args: &[&str]) {
        let program = self.programs.join(program);
        let mut command = match user() {
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--"]).arg(&program);
                command
            }
            None => Command::new(&program),
        };
        let log = self.dir.path().join("programs.log");
        let out = fs::File::options().append(true).create(true).open(&log).unwrap();
        let status = command
            .args(args)
            .current_dir(self.dir.path())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .status()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        assert!(status.success(), "{}: {}", program.display(), fs::read_to_string(&log).unwrap_or_default());
    }

    pub(crate) fn starts(&self) {
        let options = format!("-k {} -c listen_addresses='' -c fsync=off", self.dir.path().display());
        let log = self.dir.path().join("data/server.log").display().to_string();
        self.run("pg_ctl", &["--pgdata", &self.data(), "--log", &log, "-w", "-s", "-o", &options, "start"]);
    }

    /// Stops it: `fast` cuts every connection, `immediate` is a crash.
    pub(crate) fn stops(&self, mode: &str) {
        self.run("pg_ctl", &["--pgdata", &self.data(), "-m", mode, "-w", "-s", "stop"]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.dir.path().join("data/postmaster.pid").exists() {
            self.stops("immediate");
        }
    }
}

/// Who the server runs as, where we are root.
fn user() -> Option<&'static str> {
    let known = |name: &str| Command::new("id").arg(name).output().is_ok_and(|output| output.status.success());
    geteuid().is_root().then(|| if known("postgres") { "postgres" } else { "nobody" })
}

/// The directory of the newest server's programs.
fn programs() -> Option<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut dirs: Vec<PathBuf> = installed.map(|dir| dir.join("bin")).collect();
    dirs.sort_by_key(|dir| {
        let version = dir.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse::<u32>().ok());
        std::cmp::Reverse(version)
    });
    dirs.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    dirs.into_iter().find(|dir| dir.join("initdb").is_file() && dir.join("pg_ctl").is_file())
}

#[test]
fn a_server_that_goes_away_in_the_midst_of_an_apply_loses_nothing() {
    let Some(server) = Server::start() else { return };
    let database = Database::postgres(&server.url());
    let site = Site::on(&database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let gate = format!("--var={}", gates.var());
    let plan = |value: usize| {
        let spec = site.path(format!("spec-{value}.json")).into_string();
        let value = format!("--var=value={value}");
        drop(site.kl().args(["plan", "live", "--out", &spec, &gate, &value]).exits(0));
        site.kl().args(["apply", &spec, "--dir", "live", &gate, &value])
    };

    // For a moment: kl waits, and Terraform goes on meanwhile.
    for (value, mode) in [(1, "fast"), (2, "immediate")] {
        let apply = plan(value);
        gates.close("apply");
        let running = apply.spawn();
        gates.reached("apply");
        server.stops(mode);
        gates.open("apply");
        server.starts();
        drop(running.exits(0));
    }
    assert_tidy(&database, 2);

    // For longer than the lease: Terraform is stopped, and the record waits on disk.
    let apply = plan(3);
    gates.close("apply");
    let running = apply.clone().args(["--lease", "3s"]).spawn();
    gates.reached("apply");
    server.stops("fast");
    let said = running.exits(1).stderr;
    assert!(said.contains("the lease ran out while the database gave no answer"), "{said}");
    assert!(said.contains("the database failed to") || said.contains("cannot open the database"), "{said}");
    // Where the only record is, and what to type: the run is still open, as nobody could close it.
    let record = said.lines().filter(|line| line.contains("what terraform did is in "));
    let path = record.clone().next_back().and_then(|line| line.split(" is in ").nth(1)?.split(" only").next());
    assert!(path.is_some_and(|path| Path::new(path).is_file()), "{said}");
    assert!(record.count() >= 2, "a warning at once, and a hint at the end: {said}");
    assert!(said.contains("the run could not be closed") && said.contains("after that, `kl recover "), "{said}");
    gates.open("apply");
    server.starts();
    wait_until("the same spec brings everything in step", Duration::from_mins(1), || {
        apply.clone().args(["--wait", "30s"]).spawn().ends().0.success().then_some(())
    });
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    let vars = [format!("-var={}", gates.var()), "-var=value=3".to_owned()];
    assert_eq!(Plain::new(&site, "live").changes(&state, &[&vars[0], &vars[1]]), None);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
