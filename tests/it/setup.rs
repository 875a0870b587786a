//! Setting kl up in a repository: `kl init` writes what is needed, `kl doctor` says what is missing.

use std::fs;

use serde_json::Value;

use crate::harness::database::{Backend, Database, on};
use crate::harness::site::Site;

on_both_databases!(a_repository_that_is_set_up_is_well);

fn site() -> Site {
    let site = Site::new();
    site.write("infra/web/main.tf", "resource \"terraform_data\" \"a\" {}\n");
    site.write("infra/db/main.tf", "module \"net\" {\n  source = \"../../modules/net\"\n}\n");
    site.write("modules/net/main.tf", "");
    site
}

/// The verdicts of one subject.
fn verdicts<'a>(document: &'a Value, subject: &str) -> Vec<(&'a str, &'a str)> {
    let checks = document["checks"].as_array().unwrap().iter().filter(|check| check["subject"] == subject);
    checks.map(|check| (check["verdict"].as_str().unwrap(), check["what"].as_str().unwrap())).collect()
}

#[test]
fn init_writes_what_was_found_and_kl_reads_it() {
    let site = site();
    site.write(".git/config", "[remote \"origin\"]\n\turl = git@github.com:example/shop.git\n");
    site.write(".git/HEAD", "ref: refs/heads/trunk\n");
    fs::create_dir_all(site.repo().join(".git/objects")).unwrap();
    fs::create_dir_all(site.repo().join(".git/refs")).unwrap();
    let dry = site.kl().args(["init", "--dry-run"]).exits(0).stdout;
    assert!(dry.contains("kl.yaml would be written") && dry.contains("dir: infra/web"), "{dry}");
    assert!(!site.repo().join("kl.yaml").exists());
    let said = site.kl().args(["init", "infra", "--source", "acme/kl@v1"]).exits(0).stdout;
    assert!(said.contains("kl.yaml written") && said.contains(".github/workflows/kl.yml written"), "{said}");
    let workflow = fs::read_to_string(site.repo().join(".github/workflows/kl.yml")).unwrap();
    assert!(workflow.contains("uses: acme/kl@v1") && workflow.contains("branches: [trunk]"), "{workflow}");
    let listed = site.kl().args(["ci", "projects", "--format", "json"]).exits(0).json();
    let names: Vec<&str> =
        listed["projects"].as_array().unwrap().iter().map(|project| project["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["db", "web"]);
    drop(site.kl().args(["plan", "infra/web"]).exits(0));
}

#[test]
fn init_leaves_everything_that_exists_as_it_is() {
    let site = site();
    site.write("kl.yml", "# ours\n");
    site.write(".gitlab-ci.yml", "stages: [test]\n");
    let document = site.kl().args(["init", "--format", "json"]).exits(0).json();
    assert_eq!(document["forge"], "gitlab");
    assert_eq!(
        (&document["files"][0]["result"], &document["files"][1]["path"]),
        (&"exists".into(), &".gitlab/kl.yml".into())
    );
    assert!(!site.repo().join("kl.yaml").exists());
    assert_eq!(fs::read_to_string(site.repo().join(".gitlab-ci.yml")).unwrap(), "stages: [test]\n");
    let included = fs::read_to_string(site.repo().join(".gitlab/kl.yml")).unwrap();
    let again = site.kl().args(["init"]).exits(0).stdout;
    assert!(again.contains("kl.yml exists") && again.contains(".gitlab/kl.yml exists"), "{again}");
    assert_eq!(fs::read_to_string(site.repo().join(".gitlab/kl.yml")).unwrap(), included);
    let none = site.kl().args(["init", "--forge", "none", "--format", "json"]).exits(0).json();
    assert_eq!(none["files"].as_array().unwrap().len(), 1);
    drop(site.kl().args(["init", "--source", "a/b@$(id)"]).exits(3));
}

fn a_repository_that_is_set_up_is_well(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", "resource \"terraform_data\" \"a\" {}\n");
    site.write("kl.yaml", "projects:\n- {name: live, dir: live}\n");
    drop(site.kl().args(["apply", "live"]).exits(0));
    let document = site.kl().args(["doctor", "--format", "json"]).exits(0).json();
    assert_eq!(document["result"], "ok", "{document:#}");
    assert_eq!(verdicts(&document, "database")[1], ("ok", "state live is at serial 1"));
    assert!(verdicts(&document, "terraform")[0].1.contains(" at /"), "{document:#}");
    let text = site.kl().args(["doctor"]).exits(0).stdout;
    assert!(text.contains("✓ All is well"), "{text}");
    // A schema of the future is nothing that kl may touch.
    database.execute("UPDATE kl_migrations SET version = version + 9000");
    let document = site.kl().args(["doctor", "--format", "json"]).exits(3).json();
    assert!(verdicts(&document, "database")[0].1.contains("this kl knows only up to"), "{document:#}");
    database.execute("UPDATE kl_migrations SET version = version - 9000");
    site.write("kl.yaml", "projects:\n- {name: live, dir: nowhere}\n");
    let document = site.kl().args(["doctor", "--format", "json"]).exits(3).json();
    assert!(
        verdicts(&document, "configuration")[0].1.contains("kl.yaml:2:21: `dir`: there is no directory"),
        "{document:#}"
    );
    assert!(!verdicts(&document, "terraform").is_empty(), "the rest is looked at all the same");
}

#[test]
fn doctor_names_everything_that_is_missing_and_makes_nothing() {
    let site = Site::new();
    site.write("live/main.tf", "resource \"null_resource\" \"a\" {}\n");
    site.write("broken/main.tf", "resource {\n");
    site.write(
        "kl.yaml",
        "projects:\n- {name: live, dir: live, var_files: [prod.tfvars], vars: {token: DEPLOY_TOKEN}, terraform: /no/tf}\n\
         - {name: broken, dir: broken}\n- {name: empty, dir: empty}\n",
    );
    fs::create_dir(site.repo().join("empty")).unwrap();
    let said = site.kl().without("KL_TERRAFORM").args(["doctor", "--format", "json"]).exits(3);
    let document = said.json();
    let found: Vec<String> =
        verdicts(&document, "configuration").iter().map(|(verdict, what)| format!("{verdict}: {what}")).collect();
    for part in [
        "warning: project live: there is no .terraform.lock.hcl",
        "problem: project live: there is no variable file prod.tfvars in live",
        "warning: project live: DEPLOY_TOKEN, which the variable token comes from, is not set or is empty",
        "problem: project broken: broken/main.tf:1:",
        "problem: project empty: empty has no .tf file",
    ] {
        assert!(found.iter().any(|line| line.contains(part)), "{part}\n{found:#?}");
    }
    assert_eq!(verdicts(&document, "database")[0].0, "ok");
    assert!(
        verdicts(&document, "terraform").iter().any(|(verdict, what)| *verdict == "problem" && what.contains("/no/tf"))
    );
    assert!(!site.repo().join(".kl").exists());
    // In a CI job, the embedded database would be gone with it.
    let document = site.kl().env("CI", "true").args(["doctor", "--format", "json"]).exits(3).json();
    assert!(
        verdicts(&document, "database")[0].1.contains("the embedded one is gone when the job ends"),
        "{document:#}"
    );
}

#[test]
fn doctor_says_that_a_database_cannot_be_reached_without_its_password() {
    let site = site();
    let nobody = "postgres://kl:hunter2@127.0.0.1:1/kl?sslmode=disable";
    let said = site.kl().env("KL_DATABASE_URL", nobody).args(["doctor"]).exits(3);
    assert!(said.stdout.contains("cannot open the database postgres://127.0.0.1:1/kl"), "{}", said.stdout);
    assert!(!said.stdout.contains("hunter2") && !said.stderr.contains("hunter2"));
    on(Backend::Postgres, |database| {
        let said = site.kl().env("KL_DATABASE_URL", database.url()).args(["doctor"]).exits(3).stdout;
        assert!(said.contains("schema is at version 0") && said.contains("kl db migrate"), "{said}");
    });
}
