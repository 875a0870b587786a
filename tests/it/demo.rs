//! The scripts in examples/ keep their promises, on both databases. The demo of README.md takes half a minute because its
//! resources take their time: without that the runs would not overlap.

use camino::Utf8Path;

use crate::harness::database::Database;
use crate::harness::kl::Said;
use crate::harness::site::Site;

on_both_databases!(
    two_changes_of_one_state_commit_at_the_same_time,
    changes_that_meet_are_told,
    plain_terraform_keeps_its_state_behind_a_server,
);

fn demo(site: &Site, database: &Database, name: &str) -> Said {
    let script = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).join("run.sh");
    let demo = site.kl().instead(script.as_str()).env("KL", env!("CARGO_BIN_EXE_kl"));
    demo.env("KL_DATABASE_URL", database.url()).exits(0)
}

/// The script compares every line itself.
fn changes_that_meet_are_told(database: &Database) {
    let site = Site::on(database);
    let said = demo(&site, database, "conflict-visibility-demo");
    assert_eq!(said.stdout.matches("calm: ").count() + said.stdout.matches("loud: ").count(), 4, "{}", said.stdout);
    assert!(said.stdout.contains("Proved: independence is calm"), "{}", said.stdout);
    let ends = database.rows("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status");
    let ends: Vec<String> =
        ends.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(ends, ["committed 8", "conflict 1", "stale 3"]);
}

fn two_changes_of_one_state_commit_at_the_same_time(database: &Database) {
    let site = Site::on(database);
    let said = demo(&site, database, "parallel-apply-demo");
    for claim in ["the two run windows overlap in time", "both write sets landed", "terraform plan: no changes"] {
        assert!(said.stdout.contains(claim), "{}", said.stdout);
    }
    // The claims once more, from the database itself.
    let overlap = "SELECT count(*) FROM runs a JOIN runs b ON a.actor = 'alice' AND b.actor = 'bob'
         AND a.result_serial = 2 OR a.result_serial = 3 AND b.result_serial <> a.result_serial
         WHERE a.started_at < b.ended_at AND b.started_at < a.ended_at AND a.state_id = b.state_id";
    assert_ne!(database.value(overlap), Some("0".into()));
    assert_eq!(
        database.value("SELECT count(*) FROM runs WHERE actor = 'carol' AND status = 'conflict'"),
        Some("1".into())
    );
    assert_eq!(database.value("SELECT max(serial) - count(*) FROM state_versions"), Some("0".into()));
    assert_eq!(
        database.value("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"),
        Some("0".into())
    );
}

fn plain_terraform_keeps_its_state_behind_a_server(database: &Database) {
    let site = Site::on(database);
    let said = demo(&site, database, "backend");
    for claim in ["no changes", "refused-by-kl", "a revoked token opens nothing", "ended with 0"] {
        assert!(said.stdout.contains(claim), "{claim}: {}", said.stdout);
    }
    // The claims once more, from the database itself.
    let one = |sql: &str| database.value(sql);
    assert_eq!(one("SELECT count(*) FROM state_versions WHERE source = 'http'"), Some("2".into()));
    assert_eq!(one("SELECT count(*) FROM access_tokens WHERE revoked_at IS NULL"), Some("0".into()));
    assert_eq!(one("SELECT count(*) FROM runs WHERE ended_at IS NULL"), Some("0".into()));
}

/// The unit is one that systemd understands, where systemd is there to say so.
#[test]
fn the_unit_of_the_server_can_be_loaded() {
    let site = Site::new();
    let unit = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/backend/kl-serve.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    for part in [
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "DynamicUser=yes",
        "LoadCredential=database-url:",
        "StandardInput=socket",
    ] {
        assert!(text.contains(part), "{part}");
    }
    // Its command line is one that kl takes.
    let line = text.lines().find_map(|line| line.split_once("exec /usr/local/bin/")).unwrap().1.trim_end_matches('\'');
    let words = line.replace("$$CREDENTIALS_DIRECTORY", "/none").replace('"', "");
    let parsed = <kl_runner::cli::args::Cli as clap::Parser>::try_parse_from(words.split(' '));
    assert!(parsed.is_ok(), "{words}: {parsed:?}");
    if !Utf8Path::new("/usr/bin/systemd-analyze").exists() {
        return;
    }
    // Verifying wants the program to be there.
    let copy = site.path("kl-serve.service");
    std::fs::write(&copy, text.replace("/usr/local/bin/kl", env!("CARGO_BIN_EXE_kl"))).unwrap();
    let socket = site.path("kl-serve.socket");
    std::fs::copy(unit.with_extension("socket"), &socket).unwrap();
    let verify = site.kl().instead("/usr/bin/systemd-analyze").args(["verify", copy.as_str(), socket.as_str()]);
    let said = verify.exits(0);
    assert!(!said.stderr.contains("kl-serve"), "{}", said.stderr);
}
