//! .gitlab-ci-template.yml: which jobs which pipeline has, how kl is installed, and the pipelines in examples/gitlab, run
//! by gitlab-ci-local.

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::harness::database::Database;
use crate::harness::providers::{KLT, Object, needs};
use crate::harness::runners::{Pipeline, VERSION, archive, gitlab_ci_local, source};
use crate::harness::site::Site;

const REQUEST: (&str, &str) = ("CI_PIPELINE_SOURCE", "merge_request_event");
const PUSH: (&str, &str) = ("CI_PIPELINE_SOURCE", "push");
const SCHEDULE: (&str, &str) = ("CI_PIPELINE_SOURCE", "schedule");

/// The jobs that a pipeline has, in these circumstances.
fn jobs(pipeline: &Pipeline, variables: &[(&str, &str)]) -> Vec<String> {
    let listed = pipeline.on(variables).args(["--list-json", "--no-json-schema-validation"]).exits(0).json();
    let runs = |job: &&Value| job["when"] != "never";
    listed.as_array().unwrap().iter().filter(runs).map(|job| job["name"].as_str().unwrap().to_owned()).collect()
}

fn pipeline(runner: &Utf8PathBuf, example: &str) -> Pipeline {
    Pipeline::of(Site::new(), runner.clone(), &format!("examples/gitlab/{example}/.gitlab-ci.yml"))
}

#[test]
fn each_kind_of_pipeline_has_the_jobs_that_are_its_own() {
    let Some(runner) = gitlab_ci_local() else { return };
    let simple = pipeline(&runner, "plan-and-apply");
    assert_eq!(jobs(&simple, &[REQUEST, ("CI_MERGE_REQUEST_EVENT_TYPE", "detached")]), ["kl-plan"]);
    assert_eq!(jobs(&simple, &[REQUEST, ("CI_MERGE_REQUEST_EVENT_TYPE", "merged_result")]), ["kl-plan"]);
    assert_eq!(jobs(&simple, &[REQUEST, ("CI_MERGE_REQUEST_EVENT_TYPE", "merge_train")]), ["kl-check"]);
    assert_eq!(jobs(&simple, &[PUSH, ("CI_COMMIT_BRANCH", "main")]), ["kl-apply"]);
    assert_eq!(jobs(&simple, &[SCHEDULE, ("CI_COMMIT_BRANCH", "main")]), ["kl-refresh"]);
    // A branch, a tag, and a pipeline that somebody starts by hand apply nothing.
    assert_eq!(jobs(&simple, &[PUSH, ("CI_COMMIT_BRANCH", "feature")]), Vec::<String>::new());
    assert_eq!(jobs(&simple, &[PUSH, ("CI_COMMIT_BRANCH", "")]), Vec::<String>::new());
    assert_eq!(jobs(&simple, &[("CI_PIPELINE_SOURCE", "web"), ("CI_COMMIT_BRANCH", "main")]), Vec::<String>::new());
}

#[test]
fn a_matrix_has_a_job_for_each_project() {
    let Some(runner) = gitlab_ci_local() else { return };
    let matrix = pipeline(&runner, "matrix");
    assert_eq!(jobs(&matrix, &[REQUEST]), ["kl-plan: [network]", "kl-plan: [web]"]);
    assert_eq!(jobs(&matrix, &[PUSH, ("CI_COMMIT_BRANCH", "main")]), ["kl-apply: [network]", "kl-apply: [web]"]);
}

#[test]
fn a_newer_pipeline_does_not_cancel_an_apply_and_applies_do_not_queue() {
    let Some(runner) = gitlab_ci_local() else { return };
    let simple = pipeline(&runner, "plan-and-apply");
    let expanded = simple.on(&[PUSH]).args(["--preview", "--no-json-schema-validation"]).exits(0).stdout;
    let expanded: Value = serde_yaml::from_str(&expanded).unwrap();
    for (job, interruptible) in [("kl-plan", true), ("kl-check", true), ("kl-apply", false), ("kl-refresh", false)] {
        assert_eq!(expanded[job]["interruptible"], interruptible, "{job}");
        assert_eq!(expanded[job]["resource_group"], Value::Null, "{job}");
        assert!(expanded[job]["after_script"][0].as_str().unwrap().contains("kl ci finish"), "{job}");
    }
    assert_eq!(expanded["kl-plan"]["artifacts"]["reports"]["terraform"], "kl-report.json");
    assert_eq!(expanded["kl-plan"]["environment"]["name"], "kl/plan");
    assert_eq!(expanded["kl-apply"]["environment"]["name"], "kl/apply");
}

#[test]
fn the_template_installs_the_version_that_it_belongs_to() {
    let template = std::fs::read_to_string(source(".gitlab-ci-template.yml")).unwrap();
    let header: Value = serde_yaml::from_str(template.split("\n---\n").next().unwrap()).unwrap();
    assert_eq!(header["spec"]["inputs"]["kl-version"]["default"], VERSION);
}

on_both_databases!(the_scheduled_refresh_takes_what_differs_into_the_state);

fn the_scheduled_refresh_takes_what_differs_into_the_state(database: &Database) {
    let Some(runner) = gitlab_ci_local() else { return };
    needs("example/klt");
    let site = Site::on(database);
    let objects = two_modules(&site);
    objects[1].edit("edited by hand");
    let mut nightly = Pipeline::of(site, runner, "examples/gitlab/nightly-refresh/.gitlab-ci.yml");
    nightly.variable("KL_DATABASE_URL", database.url());
    let scheduled = [SCHEDULE, ("CI_COMMIT_BRANCH", "main")];
    let said = nightly.on(&scheduled).exits(0);
    assert!(said.stdout.contains("PASS  kl-refresh"), "{said:?}");
    assert_refreshed(database);
    let files = [format!("/v{VERSION}/{}", archive()), format!("/v{VERSION}/SHA256SUMS")];
    assert_eq!(nightly.releases().asked(), files);
    assert_eq!(nightly.site().leftovers(), Vec::<String>::new());
}

/// Two applied modules with an object each: `infra/network` and `infra/web`.
pub(crate) fn two_modules(site: &Site) -> [Object; 2] {
    ["network", "web"].map(|name| {
        let object = site.path(format!("objects/{name}.json"));
        let required = format!("terraform {{\n  required_providers {{\n    {KLT}\n  }}\n}}\n");
        let resource = format!("resource \"klt_file\" \"a\" {{\n  path = \"{object}\"\n  content = \"one\"\n}}\n");
        site.write(&format!("infra/{name}/main.tf"), &(required + &resource));
        drop(site.kl().args(["apply", &format!("infra/{name}"), "--auto-approve"]).exits(0));
        Object::at(object)
    })
}

/// The object of the web module was edited, and that alone is in the state now.
pub(crate) fn assert_refreshed(database: &Database) {
    let versions = "SELECT s.name, v.serial, v.source FROM state_versions v JOIN states s ON s.id = v.state_id
         ORDER BY s.name, v.serial";
    let row =
        |name: &str, serial: &str, source: &str| [name, serial, source].map(|value| Some(value.to_owned())).to_vec();
    assert_eq!(
        database.rows(versions),
        [row("infra/network", "1", "apply"), row("infra/web", "1", "apply"), row("infra/web", "2", "refresh")]
    );
    let held = "SELECT count(*) FROM resource_reservations WHERE released_at IS NULL";
    assert_eq!(database.value(held), Some("0".into()));
}
