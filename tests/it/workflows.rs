//! The workflows in examples/github and README.md, run by act with real jobs: the action installs kl, kl runs the real
//! Terraform on a real database, and GitHub is a stand-in on loopback.

use std::time::Duration;

use camino::Utf8PathBuf;
use kl_runner::forge::Push;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::database::{Backend, Database, on};
use crate::harness::forge::github::{GithubStandIn, JOB_TOKEN, Permission, REPOSITORY};
use crate::harness::forge::{Merge, OpenRequest};
use crate::harness::kl::Kl;
use crate::harness::providers::needs;
use crate::harness::runners::{Workflow, act, commit, example, git, of_the_readme};
use crate::harness::site::Site;
use crate::harness::wait_until;
use crate::template::{assert_refreshed, assert_versions, two_modules};

on_both_databases!(
    a_request_is_planned_and_its_merge_applied,
    the_workflow_of_the_readme_does_both_in_one_job,
    the_queue_is_told_whether_the_plan_still_holds,
    a_matrix_has_a_job_for_each_project_that_the_change_concerns,
    what_a_killed_apply_left_is_ended_by_the_last_step,
    a_fork_gets_a_plan_and_nothing_fails,
    a_members_comment_plans_a_request_and_after_its_merge_applies_it,
    the_nightly_refresh_takes_what_differs_into_the_state,
);

/// A file with one resource.
fn one(name: &str, value: u32) -> String {
    format!("resource \"terraform_data\" \"{name}\" {{\n  input = {value}\n}}\n")
}

/// A repository on the stand-in, and its workflow.
struct Desk {
    forge: GithubStandIn,
    workflow: Workflow,
}

impl Desk {
    /// Two projects, `db` and `web`, each applied once.
    fn new(database: &Database, act: Utf8PathBuf, text: &str) -> Self {
        let site = Site::on(database);
        site.write("kl.yaml", "projects:\n  - { name: db, dir: db }\n  - { name: web, dir: web }\n");
        for name in ["db", "web"] {
            site.write(&format!("{name}/main.tf"), &one(name, 1));
        }
        for name in ["db", "web"] {
            drop(site.kl().args(["apply", name, "--auto-approve", "--actor", "setup"]).exits(0));
        }
        let forge = GithubStandIn::start();
        let mut workflow = Workflow::saying(site, act, text);
        workflow.env("GITHUB_API_URL", &forge.url());
        workflow.env("GITHUB_GRAPHQL_URL", &format!("{}/graphql", forge.url()));
        workflow.secret("GITHUB_TOKEN", JOB_TOKEN);
        for name in ["KL_DATABASE_URL", "KL_PLAN_DATABASE_URL"] {
            workflow.secret(name, database.url());
        }
        Self { forge, workflow }
    }

    /// A request that sets both values, with its changes in the checkout.
    fn request(&self, value: u32) -> u64 {
        for name in ["db", "web"] {
            self.workflow.site().write(&format!("{name}/main.tf"), &one(name, value));
        }
        commit(&self.workflow.site().repo());
        self.forge.open_request(&OpenRequest::new("Change both", &["db/main.tf", "web/main.tf"]))
    }

    fn payload(&self, number: u64, from: &str) -> Value {
        json!({
            "action": "opened",
            "number": number,
            "pull_request": {
                "number": number,
                "head": { "sha": self.forge.head(number), "ref": "change", "repo": { "full_name": from } },
                "base": { "sha": self.forge.tip("main"), "ref": "main", "repo": { "full_name": REPOSITORY } },
            },
        })
    }

    fn on_request(&self, number: u64) -> Kl {
        self.workflow.on("pull_request", &self.payload(number, REPOSITORY))
    }

    fn on_push(&self, push: &Push) -> Kl {
        let payload = json!({
            "ref": format!("refs/heads/{}", push.branch),
            "before": push.before.clone().unwrap_or_else(|| "0".repeat(40)),
            "after": push.after,
            "repository": { "default_branch": "main" },
        });
        self.workflow.on("push", &payload)
    }

    /// The only comment on a request.
    #[track_caller]
    fn comment(&self, number: u64) -> String {
        let comments = self.forge.comments(number);
        let [comment] = comments.as_slice() else { panic!("{} comments on #{number}", comments.len()) };
        comment.body.clone()
    }

    /// The names and conclusions of a commit's checks.
    fn checks(&self, commit: &str) -> Vec<(String, String)> {
        let checks = self.forge.checks(commit).into_iter();
        let mut found: Vec<_> = checks.map(|check| (check.name, check.conclusion.unwrap_or_default())).collect();
        found.sort();
        found
    }

    /// Both projects have this value in their state.
    #[track_caller]
    fn assert_applied(&self, value: u32) {
        for name in ["db", "web"] {
            let shown =
                self.workflow.site().kl().args(["state", "show", &format!("terraform_data.{name}"), "--dir", name]);
            let shown = shown.exits(0).stdout;
            assert!(shown.contains(&format!("\"value\": {value}")), "{shown}");
        }
    }
}

fn pair(verb: &str, conclusion: &str) -> [(String, String); 2] {
    ["db", "web"].map(|name| (format!("kl {verb}: {name}"), conclusion.to_owned()))
}

/// Plans a request, merges it, applies it, and looks at what everybody was told.
fn plan_and_apply(desk: Desk, database: &Database) {
    let number = desk.request(2);
    let said = desk.on_request(number).exits(0).stdout;
    assert!(
        said.contains("::set-output:: result=planned") && said.contains("::set-output:: has-changes=true"),
        "{said}"
    );
    let comment = desk.comment(number);
    assert!(comment.contains("terraform_data.db") && comment.contains("terraform_data.web"), "{comment}");
    assert_eq!(desk.checks(&desk.forge.head(number)), pair("plan", "success"));
    assert_versions(database, 2);

    let push = desk.forge.merge(number, Merge::Squash);
    let said = desk.on_push(&push).exits(0).stdout;
    assert!(said.contains("::set-output:: result=committed"), "{said}");
    assert_versions(database, 4);
    desk.assert_applied(2);
    let comment = desk.comment(number);
    assert!(comment.contains("Committed serial"), "{comment}");
    assert_eq!(desk.checks(&push.after), pair("apply", "success"));
    assert_eq!(desk.workflow.site().leftovers(), Vec::<String>::new());
    desk.forge.finish();
}

fn a_request_is_planned_and_its_merge_applied(database: &Database) {
    let Some(act) = act() else { return };
    let text = example("examples/github/plan-and-apply/kl.yml");
    plan_and_apply(Desk::new(database, act, &text), database);
}

#[test]
fn with_roles_of_a_cloud_it_is_the_same() {
    let Some(act) = act() else { return };
    on(Backend::Sqlite, |database| {
        plan_and_apply(Desk::new(&database, act, &example("examples/github/oidc/kl.yml")), &database);
    });
}

fn the_workflow_of_the_readme_does_both_in_one_job(database: &Database) {
    let Some(act) = act() else { return };
    plan_and_apply(Desk::new(database, act, &of_the_readme("# .github/workflows/kl.yml")), database);
}

fn the_queue_is_told_whether_the_plan_still_holds(database: &Database) {
    let Some(act) = act() else { return };
    let text = example("examples/github/merge-queue/kl.yml");
    let desk = Desk::new(database, act, &text);
    let number = desk.request(2);
    drop(desk.on_request(number).exits(0));
    let group = json!({
        "action": "checks_requested",
        "merge_group": {
            "head_sha": desk.forge.head(number),
            "head_ref": format!("refs/heads/gh-readonly-queue/main/pr-{number}-{}", desk.forge.tip("main")),
            "base_sha": desk.forge.tip("main"),
            "base_ref": "refs/heads/main",
        },
    });
    let said = desk.workflow.on("merge_group", &group).exits(0).stdout;
    assert!(said.contains("::set-output:: result=ready"), "{said}");
    // Somebody changes what the plan is about.
    desk.workflow.site().write("db/main.tf", &one("db", 9));
    drop(desk.workflow.site().kl().args(["apply", "db", "--auto-approve", "--actor", "bob"]).exits(0));
    let said = desk.workflow.on("merge_group", &group).exits(1).stdout;
    assert!(said.contains("::set-output:: result=stale") && said.contains("exit status 4"), "{said}");
    drop((desk.comment(number), desk.checks(&desk.forge.head(number))));
    assert_eq!(desk.workflow.site().leftovers(), Vec::<String>::new());
}

fn a_matrix_has_a_job_for_each_project_that_the_change_concerns(database: &Database) {
    let Some(act) = act() else { return };
    let text = example("examples/github/matrix/kl.yml");
    let desk = Desk::new(database, act, &text);
    desk.workflow.site().write("web/main.tf", &one("web", 2));
    commit(&desk.workflow.site().repo());
    let number = desk.forge.open_request(&OpenRequest::new("Change web", &["web/main.tf"]));
    let said = desk.on_request(number).exits(0).stdout;
    assert!(said.contains("[kl/plan web") && !said.contains("[kl/plan db"), "{said}");
    let comment = desk.comment(number);
    assert!(comment.contains("terraform_data.web") && !comment.contains("terraform_data.db"), "{comment}");
    let plan = [("kl plan: web".to_owned(), "success".to_owned())];
    assert_eq!(desk.checks(&desk.forge.head(number)), plan);
    desk.forge.finish();
}

fn what_a_killed_apply_left_is_ended_by_the_last_step(database: &Database) {
    let Some(act) = act() else { return };
    let desk = Desk::new(database, act, &example("examples/github/plan-and-apply/kl.yml"));
    let site = desk.workflow.site();
    // A provisioner that says who kl is, and waits: it is Terraform's child, and Terraform is kl's.
    let (pid, go) = (site.path("pid"), site.path("go"));
    let wait = format!("ps -o ppid= -p $PPID >{pid}.new && mv {pid}.new {pid}; until [ -e {go} ]; do sleep 0.05; done");
    let slow =
        "resource \"terraform_data\" \"slow\" {\n  provisioner \"local-exec\" {\n    command = \"COMMAND\"\n  }\n}\n";
    site.write("db/slow.tf", &slow.replace("COMMAND", &wait));
    commit(&site.repo());
    let number = desk.forge.open_request(&OpenRequest::new("Slow", &["db/slow.tf"]));
    drop(desk.on_request(number).exits(0));
    let push = desk.forge.merge(number, Merge::Squash);
    let job = desk.on_push(&push).spawn();
    let kl = wait_until("the provisioner runs", Duration::from_mins(2), || std::fs::read_to_string(&pid).ok());
    kill(Pid::from_raw(kl.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    let ended = "SELECT count(*) FROM runs WHERE status = 'aborted'";
    std::fs::write(&go, "").unwrap();
    let said = job.exits(1).stdout;
    assert!(said.contains("is ended") && said.contains("terraform_data.slow"), "{said}");
    // The action did that itself; the job's own step found nothing left.
    let at = |words: &str| said.find(words).unwrap_or_else(|| panic!("{words:?} is not in {said}"));
    assert!(at("is ended") < at("Nothing was left"), "{said}");
    assert_eq!(database.value(ended), Some("1".into()), "{said}");
    let comment = desk.comment(number);
    assert!(comment.contains("kl recover"), "{comment}");
    drop((desk.checks(&desk.forge.head(number)), desk.checks(&push.after)));
    desk.forge.finish();
}

fn a_fork_gets_a_plan_and_nothing_fails(database: &Database) {
    let Some(act) = act() else { return };
    let text = example("examples/github/plan-and-apply/kl.yml");
    let mut desk = Desk::new(database, act, &text);
    desk.workflow.without_secret("KL_PLAN_DATABASE_URL");
    desk.forge.deny(Permission::Comments);
    desk.forge.deny(Permission::Checks);
    let number = desk.request(2);
    let payload = desk.payload(number, "mallory/infra");
    let said = desk.workflow.on("pull_request", &payload).exits(0).stdout;
    assert!(said.contains("a request of a fork has no database"), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM plan_specs"), Some("2".into()), "those of the set-up");
    desk.forge.finish();
}

fn a_members_comment_plans_a_request_and_after_its_merge_applies_it(database: &Database) {
    let Some(act) = act() else { return };
    let desk = Desk::new(database, act, &example("examples/github/comment/kl-comment.yml"));
    let repo = desk.workflow.site().repo();
    for name in ["db", "web"] {
        desk.workflow.site().write(&format!("{name}/main.tf"), &one(name, 2));
    }
    let head = commit(&repo);
    desk.forge.name_next_commits(&[&head]);
    let number = desk.forge.open_request(&OpenRequest::new("Change both", &["db/main.tf", "web/main.tf"]));
    git(&repo, &["update-ref", &format!("refs/pull/{number}/head"), &head]);
    let comment = |association: &str, text: &str| {
        let payload = json!({
            "action": "created",
            "issue": { "number": number, "pull_request": { "url": "https://github.example" } },
            "comment": { "body": text, "author_association": association, "user": { "login": "bob" } },
        });
        desk.workflow.on("issue_comment", &payload)
    };
    // No job runs for a stranger, and none for other words, whatever a shell would make of them.
    let evil = "/kl plan\n$(touch /tmp/evil)";
    for (association, text) in [("CONTRIBUTOR", "/kl plan"), ("NONE", "/kl apply"), ("OWNER", evil), ("OWNER", "hm")] {
        drop(comment(association, text).exits(0));
        assert_eq!(desk.forge.requests().len(), 0, "{association}: {text}");
    }
    let said = comment("COLLABORATOR", "/kl plan").exits(0).stdout;
    assert!(said.contains("::set-output:: result=planned"), "{said}");
    assert_eq!(desk.checks(&head), pair("plan", "success"));
    let planned = desk.comment(number);
    assert!(planned.contains("terraform_data.db") && planned.contains("terraform_data.web"), "{planned}");

    let said = comment("MEMBER", "/kl apply").exits(1).stdout;
    assert!(said.contains("is open, not merged"), "{said}");
    assert_versions(database, 2);
    desk.forge.merge(number, Merge::Squash);
    let said = comment("MEMBER", "/kl apply").exits(0).stdout;
    assert!(said.contains("::set-output:: result=committed"), "{said}");
    assert_versions(database, 4);
    desk.assert_applied(2);
    assert!(desk.comment(number).contains("Committed serial"), "{}", desk.comment(number));
    assert_eq!(desk.checks(&head), [pair("apply", "success"), pair("plan", "success")].concat());
    assert_eq!(desk.workflow.site().leftovers(), Vec::<String>::new());
    desk.forge.finish();
}

fn the_nightly_refresh_takes_what_differs_into_the_state(database: &Database) {
    let Some(act) = act() else { return };
    needs("example/klt");
    let site = Site::on(database);
    let objects = two_modules(&site);
    objects[1].edit("edited by hand");
    let mut workflow = Workflow::of(site, act, "examples/github/nightly-refresh/kl-refresh.yml");
    workflow.secret("KL_DATABASE_URL", database.url());
    drop(workflow.on("schedule", &json!({ "schedule": "23 3 * * *" })).exits(0));
    assert_refreshed(database);
    assert_eq!(workflow.site().leftovers(), Vec::<String>::new());
}
