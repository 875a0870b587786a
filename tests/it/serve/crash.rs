//! A server that is killed at every step of an apply, and a database that goes away under it: Terraform goes on where it
//! was, or says that it could not, and the state is one that Terraform has sent.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::{Server, lock, token};
use crate::backend::BACKEND;
use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates, assert_tidy, runs};
use crate::trouble::server::Server as Postgres;

on_both_databases!(
    a_server_that_is_killed_at_any_step_is_not_missed_when_another_comes,
    without_a_server_terraform_keeps_what_it_could_not_write,
);

const RESOURCES: &str = r#"
resource "terraform_data" "a" { input = 1 }
resource "terraform_data" "b" { input = terraform_data.a.output }
"#;

const LIMIT: Duration = Duration::from_mins(1);

/// So many servers are killed at once.
const AT_ONCE: usize = 2;

/// A server that writes down, or dies at, the steps that it passes.
fn serve(site: &Site, listen: &str) -> Kl {
    site.kl().args(["serve", "--listen", listen])
}

/// Terraform, that asks for long enough to find another server.
fn terraform(server: &Server, site: &Site, state: &str, token: &str, args: &[&str]) -> Kl {
    let kl = server.terraform(site, state, token, args).env("TF_HTTP_RETRY_MAX", "40");
    kl.env("TF_HTTP_RETRY_WAIT_MIN", "1").env("TF_HTTP_RETRY_WAIT_MAX", "1")
}

const APPLY: [&str; 3] = ["apply", "-auto-approve", "-input=false"];

fn a_server_that_is_killed_at_any_step_is_not_missed_when_another_comes(database: &Database) {
    let site = Site::on(database);
    site.write("live/backend.tf", BACKEND);
    site.write("live/main.tf", RESOURCES);
    let secret = token(&site, "ci", "**", "write");

    // The steps of an apply, and which of them write something.
    let log = site.path("points");
    let server = Server::of(serve(&site, "127.0.0.1:0").env("KL_MISHAP_LOG", log.as_str()), None);
    drop(terraform(&server, &site, "first", &secret, &["init", "-input=false"]).exits(0));
    drop(fs::remove_file(&log));
    drop(terraform(&server, &site, "first", &secret, &APPLY).exits(0));
    drop(server.stops());
    let mut passed: BTreeMap<String, u32> = BTreeMap::new();
    for point in fs::read_to_string(&log).unwrap().lines() {
        *passed.entry(point.to_owned()).or_default() += 1;
    }
    let writes = |point: &String| {
        // Locking is a part of unlocking, by its name.
        ["create the state", "lock the state", "write the state", "read the state/begin"]
            .iter()
            .any(|step| point.contains(step))
    };
    let points: Vec<String> = passed.into_keys().filter(writes).collect();
    assert!(points.len() >= 10, "{points:?}");

    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        killed_at(&site, &secret, point);
                    }));
                    if tried.is_err() {
                        failed.lock().unwrap().push(point.clone());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "what went wrong is above; at these points: {failed:?}");
    let one = |sql: &str| database.value(sql).unwrap_or_default();
    assert_eq!(one("SELECT count(*) FROM runs WHERE ended_at IS NULL"), "0");
    assert_eq!(one("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), "0");
    assert_eq!(one("SELECT count(*) FROM state_versions"), (points.len() + 1).to_string(), "each was written once");
    drop(site.kl().args(["db", "check"]).exits(0));
}

fn killed_at(site: &Site, secret: &str, point: &str) {
    let state = point.replace(['/', ' '], "-");
    let dying = serve(site, "127.0.0.1:0").env("KL_MISHAP", format!("{point}#1=kill"));
    let mut server = Server::of(dying, None);
    let address = server.address().to_owned();
    let running = terraform(&server, site, &state, secret, &APPLY).spawn();
    wait_until(&format!("the server dies at {point}"), LIMIT, || (!server.running().runs()).then_some(()));
    let (status, _) = server.ends();
    assert_eq!(status.signal(), Some(9), "{point}");
    // What there is now is nothing, or all that Terraform has sent.
    let pulled = site.kl().args(["state", "list", "--state", &state, "live"]).spawn().ends().1.stdout;
    assert!([0, 2].contains(&pulled.lines().count()), "{point}: {pulled}");
    // Another one, at the same address.
    let server = Server::of(serve(site, &address), None);
    let said = running.exits(0);
    assert!(said.stdout.contains("Apply complete! Resources: 2 added"), "{point}: {said:?}");
    drop(terraform(&server, site, &state, secret, &["plan", "-detailed-exitcode", "-input=false"]).exits(0));
    drop(server.stops());
}

fn without_a_server_terraform_keeps_what_it_could_not_write(database: &Database) {
    let site = Site::on(database);
    site.write("live/backend.tf", BACKEND);
    site.write("live/main.tf", RESOURCES);
    let (secret, admin) = (token(&site, "ci", "live", "write"), token(&site, "chief", "live", "admin"));
    let dying = serve(&site, "127.0.0.1:0").env("KL_MISHAP", "store/write the state/begin#1=kill");
    let server = Server::of(dying, None);
    let address = server.address().to_owned();
    let run = |server: &Server, token: &str, args: &[&str]| {
        server.terraform(&site, "live", token, args).env("TF_HTTP_RETRY_MAX", "0")
    };
    drop(run(&server, &secret, &["init", "-input=false"]).exits(0));
    let said = run(&server, &secret, &APPLY).exits(1).stderr;
    assert!(said.contains("errored.tfstate"), "{said}");
    assert_eq!(server.ends().0.signal(), Some(9));
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("0".into()));

    let server = Server::of(serve(&site, &address), None);
    let said = run(&server, &secret, &["state", "push", "errored.tfstate"]).exits(1).stderr;
    assert!(said.contains("is locked by ci ("), "{said}");
    drop(run(&server, &admin, &["force-unlock", "-force", "x"]).exits(0));
    drop(run(&server, &secret, &["state", "push", "errored.tfstate"]).exits(0));
    drop(run(&server, &secret, &["plan", "-detailed-exitcode", "-input=false"]).exits(0));
    assert_eq!(runs(database, "aborted").len(), 1);
    drop(server.stops());

    // One that is killed while it reads is not missed either.
    for point in ["find the token/begin", "find the state/done", "read the state/done"] {
        let dying = serve(&site, &address).env("KL_MISHAP", format!("store/{point}#1=kill"));
        let mut server = Server::of(dying, None);
        let reading = terraform(&server, &site, "live", &secret, &["state", "list"]).spawn();
        wait_until(&format!("the server dies at {point}"), LIMIT, || (!server.running().runs()).then_some(()));
        let server = Server::of(serve(&site, &address), None);
        assert_eq!(reading.exits(0).stdout.lines().count(), 2, "{point}");
        drop(server.stops());
    }
}

/// PostgreSQL is restarted under a server in the midst of an apply, and is away for a while.
#[test]
fn a_database_that_goes_away_and_comes_back_needs_no_other_server() {
    let Some(postgres) = Postgres::start() else { return };
    let database = Database::postgres(&postgres.url());
    let site = Site::on(&database);
    site.write("live/backend.tf", BACKEND);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    let secret = token(&site, "ci", "**", "write");
    let server = Server::start(&site);
    let run = |args: &[&str]| server.terraform(&site, "live", &secret, args);
    drop(run(&["init", "-input=false"]).exits(0));
    for (value, mode) in [(1, "fast"), (2, "immediate")] {
        let value = format!("-var=value={value}");
        gates.close("apply");
        let running = run(&APPLY).args([&var, &value]).spawn();
        gates.reached("apply");
        postgres.stops(mode);
        gates.open("apply");
        postgres.starts();
        drop(running.exits(0));
    }
    assert_tidy(&database, 2);

    assert_eq!(server.asks("GET", "/readyz", None, "").status, 200);
    postgres.stops("fast");
    wait_until("the server knows that it is away", LIMIT, || {
        (server.asks("GET", "/readyz", None, "").status == 503).then_some(())
    });
    assert_eq!(server.asks("GET", "/healthz", None, "").status, 200);
    // Who asks meanwhile waits for it.
    let answered = std::thread::scope(|scope| {
        let asking = scope.spawn(|| server.asks("LOCK", "/states/other", Some(&secret), &lock("one")));
        postgres.starts();
        asking.join().unwrap()
    });
    assert_eq!(answered.status, 200, "{answered:?}");
    wait_until("the server knows that it is back", LIMIT, || {
        (server.asks("GET", "/readyz", None, "").status == 200).then_some(())
    });
    let pulled: Value = run(&["state", "pull"]).exits(0).json();
    assert_eq!(pulled["serial"], 2);
    drop(server.stops());
}
