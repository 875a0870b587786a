//! Merge requests and merges on GitLab.

use std::cell::RefCell;

use camino::Utf8Path;

use super::{assert_committed, matrix, one, prepared, secrets};
use crate::harness::database::Database;
use crate::harness::forge::gitlab::{ACCESS_TOKEN, GitlabStandIn, JOB_TOKEN, PIPELINE, PROJECT};
use crate::harness::forge::{Merge, OpenRequest};
use crate::harness::kl::Kl;
use crate::harness::site::{Checkout, Site};
use crate::stage::assert_tidy;
use kl_runner::forge::Push;

on_both_databases!(
    a_merge_request_is_planned_merged_and_applied,
    with_the_jobs_own_token_alone_everything_but_the_note_works,
    a_merge_train_is_checked_and_nothing_is_applied,
    jobs_of_a_matrix_at_the_same_time_write_one_note,
    no_sensitive_value_reaches_the_forge_or_the_job,
    what_was_salvaged_is_no_green_check,
);

struct Desk {
    site: Site,
    forge: GitlabStandIn,
}

impl Desk {
    fn new(database: &Database) -> Self {
        Self { site: prepared(database), forge: GitlabStandIn::start() }
    }

    fn job(&self, dir: &Utf8Path, actor: &str) -> Kl {
        self.site
            .kl()
            .dir(dir)
            .env("CI", "true")
            .env("GITLAB_CI", "true")
            .env("CI_API_V4_URL", self.forge.url())
            .env("CI_SERVER_URL", "https://gitlab.example")
            .env("CI_PROJECT_PATH", PROJECT)
            .env("CI_PROJECT_URL", format!("https://gitlab.example/{PROJECT}"))
            .env("CI_PIPELINE_ID", PIPELINE.to_string())
            .env("CI_JOB_URL", format!("https://gitlab.example/{PROJECT}/-/jobs/5"))
            .env("CI_DEFAULT_BRANCH", "main")
            .env("CI_JOB_TOKEN", JOB_TOKEN)
            .env("GITLAB_USER_LOGIN", actor)
    }

    fn on_request(&self, dir: &Utf8Path, actor: &str, number: u64, kind: &str) -> Kl {
        self.job(dir, actor)
            .env("CI_PIPELINE_SOURCE", "merge_request_event")
            .env("CI_MERGE_REQUEST_IID", number.to_string())
            .env("CI_MERGE_REQUEST_EVENT_TYPE", kind)
            .env("CI_MERGE_REQUEST_PROJECT_ID", "1")
            .env("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "1")
            .env("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
            .env("CI_COMMIT_SHA", self.forge.head(number))
            .env("CI_COMMIT_BEFORE_SHA", "0".repeat(40))
    }

    fn on_push(&self, dir: &Utf8Path, actor: &str, push: &Push) -> Kl {
        self.job(dir, actor)
            .env("CI_PIPELINE_SOURCE", "push")
            .env("CI_COMMIT_BRANCH", push.branch.clone())
            .env("CI_COMMIT_SHA", push.after.clone())
            .env("CI_COMMIT_BEFORE_SHA", push.before.clone().unwrap_or_else(|| "0".repeat(40)))
    }

    fn request(&self, name: &str, text: &str) -> (Checkout, u64) {
        let checkout = self.site.checkout(name);
        checkout.write("live/a.tf", text);
        (checkout, self.forge.open_request(&OpenRequest::new(&format!("Change {name}"), &["live/a.tf"])))
    }
}

fn a_merge_request_is_planned_merged_and_applied(database: &Database) {
    let desk = Desk::new(database);
    let (checkout, number) = desk.request("one", &one("a", 2));
    let planned = desk.on_request(checkout.dir(), "alice", number, "detached").env("KL_FORGE_TOKEN", ACCESS_TOKEN);
    let report = desk.site.path("report.json");
    drop(planned.args(["ci", "plan", "--report", report.as_str()]).exits(0));
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "{\"create\":0,\"update\":1,\"delete\":0}\n");
    let notes = desk.forge.comments(number);
    assert!(notes.len() == 1 && notes[0].body.contains("terraform_data.a"), "{notes:?}");
    let push = desk.forge.merge(number, Merge::Commit);
    let merged = desk.site.checkout("merged");
    merged.write("live/a.tf", &one("a", 2));
    let apply = desk.on_push(merged.dir(), "alice", &push).env("KL_FORGE_TOKEN", ACCESS_TOKEN);
    drop(apply.args(["ci", "apply"]).exits(0));
    assert_committed(&desk.site, "a", 2);
    let notes = desk.forge.comments(number);
    assert!(notes.len() == 1 && notes[0].body.contains("Committed serial"), "{notes:?}");
    drop(desk.forge.statuses(&push.after));
    drop(desk.forge.statuses(&desk.forge.head(number)));
    desk.forge.finish();
}

fn with_the_jobs_own_token_alone_everything_but_the_note_works(database: &Database) {
    let desk = Desk::new(database);
    let (checkout, number) = desk.request("one", &one("a", 2));
    let said = desk.on_request(checkout.dir(), "alice", number, "detached").args(["ci", "plan"]).exits(0).stderr;
    assert!(said.contains("was not updated"), "{said}");
    let push = desk.forge.merge(number, Merge::Squash);
    let merged = desk.site.checkout("merged");
    merged.write("live/a.tf", &one("a", 2));
    drop(desk.on_push(merged.dir(), "alice", &push).args(["ci", "apply"]).exits(0));
    assert_committed(&desk.site, "a", 2);
    assert!(desk.forge.comments(number).is_empty());
    desk.forge.finish();
}

fn a_merge_train_is_checked_and_nothing_is_applied(database: &Database) {
    let desk = Desk::new(database);
    let (checkout, number) = desk.request("one", &one("a", 2));
    let train = || desk.on_request(checkout.dir(), "alice", number, "merge_train");
    let said = train().args(["ci", "check"]).exits(4).stderr;
    assert!(said.contains("no reviewed plan"), "{said}");
    drop(desk.on_request(checkout.dir(), "alice", number, "detached").args(["ci", "plan"]).exits(0));
    let said = train().args(["ci", "check"]).exits(0).stderr;
    assert!(said.contains("ready"), "{said}");
    let said = train().args(["ci", "apply"]).exits(3).stderr;
    assert!(said.contains("acts on merges"), "{said}");
    assert_tidy(database, 1);
}

fn jobs_of_a_matrix_at_the_same_time_write_one_note(database: &Database) {
    let desk = Desk { site: matrix::prepared(database), forge: GitlabStandIn::start() };
    matrix::planned_side_by_side(
        database,
        &desk.site,
        &desk.forge,
        |number| format!("/merge_requests/{number}/notes"),
        |dir, number| desk.on_request(dir, "alice", number, "detached").env("KL_FORGE_TOKEN", ACCESS_TOKEN),
        |number| desk.forge.comments(number).into_iter().map(|note| note.body).collect(),
    );
    drop(desk.forge.statuses(&desk.forge.head(1)));
}

fn no_sensitive_value_reaches_the_forge_or_the_job(database: &Database) {
    let desk = Desk::new(database);
    let pushed = RefCell::new(Vec::new());
    secrets::no_value_is_told(
        database,
        &desk.site,
        &desk.forge,
        |dir, actor, number| desk.on_request(dir, actor, number, "detached").env("KL_FORGE_TOKEN", ACCESS_TOKEN),
        |dir, actor, push| {
            pushed.borrow_mut().push(push.after.clone());
            desk.on_push(dir, actor, push).env("KL_FORGE_TOKEN", ACCESS_TOKEN)
        },
        |_| Vec::new(),
    );
    // What was said there has been searched.
    for number in [1, 2] {
        drop((desk.forge.comments(number), desk.forge.statuses(&desk.forge.head(number))));
    }
    for commit in pushed.into_inner() {
        drop(desk.forge.statuses(&commit));
    }
    desk.forge.finish();
}

/// `on_failure: salvage` puts the state in order at once; that is no success of the apply.
fn what_was_salvaged_is_no_green_check(database: &Database) {
    let desk = Desk::new(database);
    let half = "resource \"terraform_data\" \"a\" { input = 2 }\nresource \"terraform_data\" \"broken\" {\n  input = \
                terraform_data.a.output\n  provisioner \"local-exec\" { command = \"exit 1\" }\n}\n";
    let policy = "projects:\n  - name: live\n    dir: live\npolicies: { on_failure: salvage }\n";
    desk.site.write("kl.yaml", policy);
    let (checkout, number) = desk.request("one", half);
    let planned = desk.on_request(checkout.dir(), "alice", number, "detached").env("KL_FORGE_TOKEN", ACCESS_TOKEN);
    drop(planned.args(["ci", "plan"]).exits(0));
    let push = desk.forge.merge(number, Merge::Commit);
    let apply = desk.on_push(checkout.dir(), "alice", &push).env("KL_FORGE_TOKEN", ACCESS_TOKEN);
    drop(apply.args(["ci", "apply"]).exits(1));
    let statuses = desk.forge.statuses(&push.after);
    assert!(statuses.iter().any(|status| status.name == "kl apply: live" && status.state == "failed"), "{statuses:?}");
    let notes = desk.forge.comments(number);
    assert!(notes.len() == 1 && !notes[0].body.contains("kl recover"), "{notes:?}");
    assert_committed(&desk.site, "a", 2);
    drop(desk.forge.statuses(&desk.forge.head(number)));
    desk.forge.finish();
}
