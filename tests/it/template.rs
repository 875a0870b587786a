//! .gitlab-ci-template.yml: which jobs which pipeline has, how kl is installed, and the pipelines in examples/gitlab, run
//! by gitlab-ci-local.

use camino::Utf8PathBuf;
use kl_runner::forge::Push;
use serde_json::Value;

use crate::harness::database::{Backend, Database, on};
use crate::harness::forge::gitlab::{ACCESS_TOKEN, GitlabStandIn, JOB_TOKEN, PIPELINE, PROJECT};
use crate::harness::forge::{Merge, OpenRequest};
use crate::harness::kl::Kl;
use crate::harness::providers::{KLT, Object, needs};
use crate::harness::runners::{Pipeline, VERSION, archive, commit, example, gitlab_ci_local, of_the_readme, source};
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

on_both_databases!(
    a_merge_request_is_planned_and_its_merge_applied,
    the_pipeline_of_the_readme_does_the_same,
    a_train_is_told_whether_the_plan_still_holds,
    the_scheduled_refresh_takes_what_differs_into_the_state,
);

/// A file with one resource.
fn one(name: &str, value: u32) -> String {
    format!("resource \"terraform_data\" \"{name}\" {{\n  input = {value}\n}}\n")
}

/// A project on the stand-in, and its pipeline.
struct Desk {
    forge: GitlabStandIn,
    pipeline: Pipeline,
}

impl Desk {
    /// Two projects of kl's, `network` and `web`, each applied once.
    fn new(database: &Database, runner: Utf8PathBuf, text: &str) -> Self {
        let site = Site::on(database);
        site.write("kl.yaml", "projects:\n  - { name: network, dir: network }\n  - { name: web, dir: web }\n");
        for name in ["network", "web"] {
            site.write(&format!("{name}/main.tf"), &one(name, 1));
        }
        for name in ["network", "web"] {
            drop(site.kl().args(["apply", name, "--auto-approve", "--actor", "setup"]).exits(0));
        }
        let forge = GitlabStandIn::start();
        let mut pipeline = Pipeline::saying(site, runner, text);
        let pipeline_id = PIPELINE.to_string();
        for (name, value) in [
            ("KL_DATABASE_URL", database.url()),
            ("KL_FORGE_TOKEN", ACCESS_TOKEN),
            ("CI_API_V4_URL", &forge.url()),
            ("CI_SERVER_URL", "https://gitlab.example"),
            ("CI_PROJECT_PATH", PROJECT),
            ("CI_PROJECT_ID", PROJECT),
            ("CI_PROJECT_URL", &format!("https://gitlab.example/{PROJECT}")),
            ("CI_PIPELINE_ID", &pipeline_id),
            ("CI_JOB_TOKEN", JOB_TOKEN),
            ("GITLAB_USER_LOGIN", "alice"),
        ] {
            pipeline.variable(name, value);
        }
        Self { forge, pipeline }
    }

    /// A request that sets both values, with its changes in the checkout.
    fn request(&self, value: u32) -> u64 {
        for name in ["network", "web"] {
            self.pipeline.site().write(&format!("{name}/main.tf"), &one(name, value));
        }
        commit(&self.pipeline.site().repo());
        self.forge.open_request(&OpenRequest::new("Change both", &["network/main.tf", "web/main.tf"]))
    }

    fn on_request(&self, number: u64, kind: &str) -> Kl {
        self.pipeline.on(&[
            REQUEST,
            ("CI_MERGE_REQUEST_IID", &number.to_string()),
            ("CI_MERGE_REQUEST_EVENT_TYPE", kind),
            ("CI_MERGE_REQUEST_PROJECT_ID", "1"),
            ("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "1"),
            ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
            ("CI_COMMIT_SHA", &self.forge.head(number)),
            ("CI_COMMIT_BEFORE_SHA", &"0".repeat(40)),
        ])
    }

    fn on_push(&self, push: &Push) -> Kl {
        let before = push.before.clone().unwrap_or_else(|| "0".repeat(40));
        self.pipeline.on(&[
            PUSH,
            ("CI_COMMIT_BRANCH", &push.branch),
            ("CI_COMMIT_SHA", &push.after),
            ("CI_COMMIT_BEFORE_SHA", &before),
        ])
    }
}

/// Plans a request, merges it, applies it, and looks at what everybody was told.
fn plan_and_apply(desk: Desk, database: &Database) {
    let number = desk.request(2);
    let said = desk.on_request(number, "detached").exits(0).stdout;
    assert!(said.contains("PASS  kl-plan"), "{said}");
    let report = std::fs::read_to_string(desk.pipeline.site().repo().join("kl-report.json")).unwrap();
    assert_eq!(report, "{\"create\":0,\"update\":2,\"delete\":0}\n");
    let notes = desk.forge.comments(number);
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(note.body.contains("terraform_data.network") && note.body.contains("terraform_data.web"), "{}", note.body);
    assert_versions(database, 2);

    let push = desk.forge.merge(number, Merge::Squash);
    let said = desk.on_push(&push).exits(0).stdout;
    assert!(said.contains("PASS  kl-apply"), "{said}");
    assert_versions(database, 4);
    let notes = desk.forge.comments(number);
    assert!(notes.len() == 1 && notes[0].body.contains("serial"), "{notes:?}");
    drop(desk.forge.statuses(&push.after));
    drop(desk.forge.statuses(&desk.forge.head(number)));
    assert_eq!(desk.pipeline.site().leftovers(), Vec::<String>::new());
    desk.forge.finish();
}

fn a_merge_request_is_planned_and_its_merge_applied(database: &Database) {
    let Some(runner) = gitlab_ci_local() else { return };
    plan_and_apply(Desk::new(database, runner, &example("examples/gitlab/plan-and-apply/.gitlab-ci.yml")), database);
}

#[test]
fn with_roles_of_a_cloud_it_is_the_same() {
    let Some(runner) = gitlab_ci_local() else { return };
    on(Backend::Sqlite, |database| {
        plan_and_apply(Desk::new(&database, runner, &example("examples/gitlab/oidc/.gitlab-ci.yml")), &database);
    });
}

#[test]
fn the_jobs_of_a_matrix_write_one_note() {
    let Some(runner) = gitlab_ci_local() else { return };
    on(Backend::Sqlite, |database| {
        let desk = Desk::new(&database, runner, &example("examples/gitlab/matrix/.gitlab-ci.yml"));
        let number = desk.request(2);
        let said = desk.on_request(number, "detached").exits(0).stdout;
        assert!(said.contains("PASS  kl-plan: [network]") && said.contains("PASS  kl-plan: [web]"), "{said}");
        let notes = desk.forge.comments(number);
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(
            note.body.contains("terraform_data.network") && note.body.contains("terraform_data.web"),
            "{}",
            note.body
        );
        drop(desk.forge.statuses(&desk.forge.head(number)));
        desk.forge.finish();
    });
}

fn the_pipeline_of_the_readme_does_the_same(database: &Database) {
    let Some(runner) = gitlab_ci_local() else { return };
    plan_and_apply(Desk::new(database, runner, &of_the_readme("# .gitlab-ci.yml")), database);
}

fn a_train_is_told_whether_the_plan_still_holds(database: &Database) {
    let Some(runner) = gitlab_ci_local() else { return };
    let desk = Desk::new(database, runner, &example("examples/gitlab/merge-train/.gitlab-ci.yml"));
    let number = desk.request(2);
    drop(desk.on_request(number, "detached").exits(0));
    let said = desk.on_request(number, "merge_train").exits(0).stdout;
    assert!(said.contains("PASS  kl-check"), "{said}");
    // Somebody changes what the plan is about.
    desk.pipeline.site().write("web/main.tf", &one("web", 9));
    drop(desk.pipeline.site().kl().args(["apply", "web", "--auto-approve", "--actor", "bob"]).exits(0));
    let said = desk.on_request(number, "merge_train").exits(1);
    assert!(said.stderr.contains("FAIL 4") || said.stdout.contains("FAIL 4"), "{said:?}");
    drop((desk.forge.comments(number), desk.forge.statuses(&desk.forge.head(number))));
    desk.forge.finish();
}

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

/// So many versions are committed, of all states together, and nothing stays reserved.
#[track_caller]
pub(crate) fn assert_versions(database: &Database, count: usize) {
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some(count.to_string()));
    let held = "SELECT count(*) FROM resource_reservations WHERE released_at IS NULL";
    assert_eq!(database.value(held), Some("0".into()));
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
