//! The harness itself, tested.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::database::{Absent, Backend, Database, block_on, server, with_database};
use super::kl::Scrub;
use super::providers::{KLT, NULL, Object, needs};
use super::site::Site;
use super::terraform::Plain;
use super::wait_until;

/// The message of the panic that this must end in.
fn complaint(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("this must panic");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("panics carry text")).to_owned(),
    }
}

/// A shell script in the surroundings of kl.
fn script(site: &Site, text: &str) -> super::kl::Kl {
    site.kl().instead("/bin/sh").args(["-c", text])
}

#[test]
fn the_real_kl_runs_and_its_streams_are_kept_apart() {
    let site = Site::new();
    let help = site.kl().arg("--help").exits(0);
    assert!(help.stdout.contains("Usage: kl"), "{help:?}");
    assert_eq!(help.stderr, "");
    let wrong = site.kl().arg("--no-such-flag").exits(3);
    assert_eq!(wrong.stdout, "");
    assert!(wrong.stderr.contains("--no-such-flag"), "{wrong:?}");
}

#[test]
fn another_exit_code_fails_the_test_with_everything_that_was_said() {
    let site = Site::new();
    let said = complaint(|| drop(script(&site, "echo result; echo talk >&2; exit 7").exits(0)));
    for part in ["exit status: 7, not with 0", "--- stdout\nresult\n", "--- stderr\ntalk\n"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn the_environment_is_what_the_test_says_and_nothing_else() {
    let site = Site::new();
    let said = site.kl().instead("/usr/bin/env").env("KL_TEST_OWN", "1").without("LANG").exits(0);
    let mut names: Vec<&str> = said.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.retain(|name| *name != "KL_TERRAFORM");
    names.sort_unstable();
    let expected = ["GOGC", "GOMEMLIMIT", "HOME", "KL_TEST_OWN", "PATH", "TF_CLI_CONFIG_FILE", "TMPDIR"];
    assert_eq!(names, expected);
    assert!(said.stdout.contains(&format!("HOME={}", site.path("home"))));
}

#[test]
fn standard_input_is_what_the_test_gives_or_nothing() {
    let site = Site::new();
    assert_eq!(site.kl().instead("/bin/cat").stdin("through\n").exits(0).stdout, "through\n");
    assert_eq!(site.kl().instead("/bin/cat").exits(0).stdout, "");
}

#[test]
fn a_command_runs_in_the_checkout_or_in_a_directory_below() {
    let site = Site::new();
    site.write("live/web/main.tf", "");
    assert_eq!(script(&site, "pwd").exits(0).stdout.trim_end(), site.repo());
    assert_eq!(script(&site, "pwd").dir("live/web").exits(0).stdout.trim_end(), site.repo().join("live/web"));
    let bob = site.checkout("bob");
    bob.write("live/web/main.tf", "# bob\n");
    assert_eq!(script(&site, "cat live/web/main.tf").dir(bob.dir()).exits(0).stdout, "# bob\n");
    assert_eq!(script(&site, "cat live/web/main.tf").exits(0).stdout, "");
}

#[test]
fn what_stays_in_the_temporary_directory_is_seen() {
    let site = Site::new();
    assert_eq!(site.leftovers(), Vec::<String>::new());
    drop(script(&site, "touch $TMPDIR/forgotten").exits(0));
    assert_eq!(site.leftovers(), ["forgotten"]);
}

#[test]
fn a_running_command_is_waited_for_signalled_and_ended() {
    let site = Site::new();
    let trap = "trap 'echo caught; exit 5' TERM; echo ready >&2; while :; do sleep 0.02; done";
    let mut running = script(&site, trap).spawn();
    running.wait_for("ready");
    assert!(running.runs());
    running.signal(Signal::SIGTERM);
    assert_eq!(running.exits(5).stdout, "caught\n");

    let running = script(&site, "exec sleep 60").spawn();
    running.signal(Signal::SIGKILL);
    let (status, _) = running.ends();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));

    let mut running = script(&site, "echo something else >&2; exit 1").spawn();
    let said = complaint(|| running.wait_for("ready"));
    assert!(said.contains("never said \"ready\"") && said.contains("something else"), "{said}");
}

#[test]
fn waiting_has_an_end() {
    let said = complaint(|| wait_until("pigs fly", Duration::from_millis(30), || None));
    assert_eq!(said, "waited 30ms in vain until pigs fly");
}

#[test]
fn what_differs_from_run_to_run_is_scrubbed() {
    let site = Site::new();
    let text = "run 0194f3b2-7c1d-7a52-9e11-0c5f4d1e2a3b at 2026-11-29T17:42:03.120Z took 1m 3s in";
    let said = script(&site, &format!("echo \"{text} $PWD; v12\" >&2; echo 3 rows")).scrub("v[0-9]+", "[V]").exits(0);
    assert_eq!(
        said.scrubbed(),
        "--- stdout\n3 rows\n--- stderr\nrun [ID] at [TIME] took [DURATION] in [SITE]/repo; [V]\n"
    );
    let scrub = Scrub::of(&site.repo());
    assert_eq!(scrub.apply("expires in 14m 59s, held for 250ms"), "expires in [DURATION], held for [DURATION]");
}

#[test]
fn results_are_read_as_json() {
    let site = Site::new();
    assert_eq!(script(&site, r#"echo '{"serial": 3}'"#).exits(0).json()["serial"], 3);
}

on_both_databases!(a_database_is_fresh_and_its_facts_can_be_read);

fn a_database_is_fresh_and_its_facts_can_be_read(database: &Database) {
    // Not a database of kl at all.
    database.corrupted_on_purpose();
    database.execute("CREATE TABLE facts (name text, number bigint)");
    database.execute("INSERT INTO facts VALUES ('serial', 3), ('nothing', NULL)");
    assert_eq!(
        database.rows("SELECT name, number FROM facts ORDER BY name"),
        [[Some("nothing".to_owned()), None], [Some("serial".to_owned()), Some("3".to_owned())]]
    );
    assert_eq!(database.value("SELECT count(*) FROM facts"), Some("2".to_owned()));
    super::database::on(database.backend(), |other| {
        assert_ne!(other.url(), database.url());
        other.corrupted_on_purpose();
        other.execute("CREATE TABLE facts (name text)");
    });
}

on_both_databases!(a_test_that_leaves_an_unsound_database_fails);

fn a_test_that_leaves_an_unsound_database_fails(database: &Database) {
    super::database::on(database.backend(), |other| {
        let site = Site::on(&other);
        site.write("live/main.tf", "");
        drop(site.kl().args(["plan", "live"]).exits(0));
        other.execute("UPDATE states SET serial = 9");
        let said = complaint(|| drop(other));
        assert!(said.contains("leaves an unsound database") && said.contains("NewestSerial"), "{said}");
    });
}

on_both_databases!(async an_async_test_has_a_database_too);

async fn an_async_test_has_a_database_too(database: Database) {
    tokio::task::yield_now().await;
    assert_eq!(database.value("SELECT 1"), Some("1".to_owned()));
}

#[test]
fn kl_uses_the_database_of_the_test() {
    super::database::on(Backend::Sqlite, |database| {
        let said = Site::on(&database).kl().instead("/usr/bin/env").exits(0);
        assert!(said.stdout.contains(&format!("KL_DATABASE_URL={}\n", database.url())), "{said:?}");
    });
}

#[test]
fn a_database_on_the_server_is_dropped_with_the_test() {
    super::database::on(Backend::Postgres, |database| {
        let url = database.url().to_owned();
        let name = url.rsplit('/').find(|part| part.starts_with("kl_test_")).expect("it has a name of its own");
        let name = name.split('?').next().expect("the part before the query").to_owned();
        let count = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
        super::database::on(Backend::Postgres, |observer| {
            assert_eq!(observer.value(&count), Some("1".to_owned()));
            drop(database);
            assert_eq!(observer.value(&count), Some("0".to_owned()));
        });
    });
}

#[test]
fn without_a_server_a_test_is_left_out_here_and_fails_in_ci() {
    assert_eq!(server(Some("postgres://x/y".into()), true), Ok("postgres://x/y".into()));
    let Err(Absent::Tolerated(why)) = server(None, false) else { panic!("left out") };
    assert!(why.starts_with("NOT RUN on PostgreSQL: KL_TEST_POSTGRES_URL is not set"), "{why}");
    let Err(Absent::Fatal(why)) = server(Some(String::new()), true) else { panic!("fails") };
    assert!(why.contains("CI leaves nothing out"), "{why}");
}

#[test]
fn the_address_of_another_database_keeps_the_server() {
    let cases = [
        ("postgres:///postgres?host=/tmp/x&user=kl", "postgres:///mine?host=/tmp/x&user=kl"),
        ("postgres://kl:secret@localhost:5432/postgres", "postgres://kl:secret@localhost:5432/mine"),
        ("postgres://kl@localhost", "postgres://kl@localhost/mine"),
        ("postgres://kl@localhost/a?sslmode=disable", "postgres://kl@localhost/mine?sslmode=disable"),
    ];
    for (server, mine) in cases {
        assert_eq!(with_database(server, "mine"), mine);
    }
}

#[test]
fn a_future_runs_from_inside_of_a_runtime_too() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    assert_eq!(runtime.block_on(async { block_on(async { 7 }) }), 7);
}

const TWO: &str = r#"
variable "size" { default = 1 }
resource "terraform_data" "a" { input = var.size }
output "a" { value = terraform_data.a.output }
"#;

#[test]
fn plain_terraform_applies_and_says_what_a_plan_would_change() {
    let site = Site::new();
    site.write("live/main.tf", TWO);
    let plain = Plain::new(&site, "live");
    let state = plain.apply(&[]);
    assert_eq!(plain.changes(&state, &[]), None);
    let changes = plain.changes(&state, &["-var=size=2"]).expect("there is a change");
    assert!(changes.contains("terraform_data.a will be updated in-place"), "{changes}");
}

#[test]
fn a_third_party_provider_runs_for_real() {
    needs("hashicorp/null");
    let site = Site::new();
    let required = format!("terraform {{\n  required_providers {{\n    {NULL}\n  }}\n}}\n");
    site.write("live/main.tf", &format!("{required}resource \"null_resource\" \"a\" {{}}\n"));
    let state = Plain::new(&site, "live").apply(&[]);
    assert!(state.contains(r#""private": "bnVsbA==""#), "{state}");
}

#[test]
fn a_missing_provider_fails_with_how_to_get_it() {
    let said = complaint(|| needs("example/no-such-provider"));
    assert!(said.contains("example/no-such-provider") && said.contains("fetch.sh"), "{said}");
}

#[test]
fn the_drifting_provider_waits_drifts_and_fails_on_request() {
    needs("example/klt");
    let site = Site::new();
    let object = Object::at(site.path("objects/a.json"));
    let required = format!("terraform {{\n  required_providers {{\n    {KLT}\n  }}\n}}\n");
    let resource = format!("resource \"klt_file\" \"a\" {{\n  path = \"{}\"\n", site.path("objects/a.json"));
    site.write("live/main.tf", &format!("{required}{resource}  content = \"one\"\n  secret = \"s3cret\"\n}}\n"));
    let plain = Plain::new(&site, "live");

    object.hold();
    let state = std::thread::scope(|scope| {
        let applying = scope.spawn(|| plain.apply(&[]));
        object.wait_for("create begin");
        assert_eq!(object.read(), None);
        object.release();
        applying.join().expect("the apply succeeds")
    });
    assert_eq!(object.log(), ["create begin", "create end"]);
    assert_eq!(plain.changes(&state, &[]), None);

    object.edit("edited by hand");
    let changes = plain.changes(&state, &[]).expect("a drift is seen");
    assert!(changes.contains("\"edited by hand\" -> \"one\"") && !changes.contains("s3cret"), "{changes}");
    object.delete();
    let changes = plain.changes(&state, &[]).expect("a drift is seen");
    assert!(changes.contains("klt_file.a will be created"), "{changes}");

    object.fail("create");
    let said = complaint(|| drop(plain.apply(&[])));
    assert!(said.contains("create failed on request"), "{said}");
    object.heal();
    drop(plain.apply(&[]));
    assert_eq!(object.read().expect("it exists")["content"], "one");
}
