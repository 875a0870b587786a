//! Pull requests and merges on GitHub.

mod away;
mod orders;

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use super::{assert_committed, matrix, one, prepared, secrets};
use crate::harness::database::Database;
use crate::harness::forge::github::{GithubStandIn, JOB_TOKEN, Permission, REPOSITORY};
use crate::harness::forge::{Merge, OpenRequest};
use crate::harness::kl::Kl;
use crate::harness::site::{Checkout, Site};
use crate::stage::assert_tidy;
use kl_runner::forge::Push;

on_both_databases!(
    two_requests_see_each_other_and_are_applied_at_the_same_time,
    of_two_requests_that_overlap_the_second_has_to_plan_again,
    a_reservation_conflict_is_a_failed_check_that_names_the_holder,
    a_merge_without_a_plan_fails_and_says_the_way_out,
    a_squash_merge_finds_its_request_and_running_the_job_again_changes_nothing,
    a_request_that_was_closed_is_in_nobodys_way_any_more,
    a_merge_queue_is_checked_with_every_request_in_it,
    jobs_of_a_matrix_at_the_same_time_write_one_comment,
    no_sensitive_value_reaches_the_forge_or_the_job,
    what_a_colleague_aborted_before_the_last_step_is_put_on_record_all_the_same,
    what_a_colleague_recovered_elsewhere_is_put_on_record_all_the_same,
    what_was_salvaged_is_no_green_check,
);

/// A repository on the stand-in, with its checkouts.
pub(super) struct Desk {
    pub(super) site: Site,
    pub(super) forge: GithubStandIn,
}

/// What is left of a job whose apply was killed.
struct Killed {
    checkout: Checkout,
    number: u64,
    push: Push,
    /// Terraform ends when this file exists.
    go: Utf8PathBuf,
}

impl Desk {
    fn new(database: &Database) -> Self {
        Self { site: prepared(database), forge: GithubStandIn::start() }
    }

    /// A job of a workflow in a checkout, on this event.
    fn job(&self, dir: &Utf8Path, actor: &str, event: &str, payload: &Value) -> Kl {
        let files = self.site.path(format!("jobs/{}", dir.as_str().replace('/', "_")));
        fs::create_dir_all(&files).unwrap();
        let path = files.join(format!("{event}.json"));
        fs::write(&path, payload.to_string()).unwrap();
        for name in ["output", "summary"] {
            fs::write(files.join(name), "").unwrap();
        }
        self.site
            .kl()
            .dir(dir)
            .env("CI", "true")
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_API_URL", self.forge.url())
            .env("GITHUB_SERVER_URL", "https://github.example")
            .env("GITHUB_REPOSITORY", REPOSITORY)
            .env("GITHUB_EVENT_NAME", event)
            .env("GITHUB_EVENT_PATH", path.as_str())
            .env("GITHUB_RUN_ID", "77")
            .env("GITHUB_TRIGGERING_ACTOR", actor)
            .env("GITHUB_TOKEN", JOB_TOKEN)
            .env("GITHUB_OUTPUT", files.join("output").as_str())
            .env("GITHUB_STEP_SUMMARY", files.join("summary").as_str())
            .env("RUNNER_TEMP", files.as_str())
    }

    fn file(&self, dir: &Utf8Path, name: &str) -> String {
        fs::read_to_string(self.site.path(format!("jobs/{}/{name}", dir.as_str().replace('/', "_")))).unwrap()
    }

    /// A job on a pull request.
    pub(super) fn on_request(&self, dir: &Utf8Path, actor: &str, number: u64, action: &str) -> Kl {
        let head = self.forge.head(number);
        let payload = json!({
            "action": action,
            "number": number,
            "pull_request": {
                "number": number,
                "head": { "sha": head, "ref": format!("change-{number}"), "repo": { "full_name": REPOSITORY } },
                "base": { "sha": self.forge.tip("main"), "ref": "main", "repo": { "full_name": REPOSITORY } },
            },
        });
        self.job(dir, actor, "pull_request", &payload)
    }

    /// A job on a push.
    pub(super) fn on_push(&self, dir: &Utf8Path, actor: &str, push: &Push) -> Kl {
        let payload = json!({
            "ref": format!("refs/heads/{}", push.branch),
            "before": push.before.clone().unwrap_or_else(|| "0".repeat(40)),
            "after": push.after,
            "repository": { "default_branch": "main" },
        });
        self.job(dir, actor, "push", &payload).env("GITHUB_SHA", push.after.clone())
    }

    /// Opens a request that changes one file, and plans it.
    fn request(&self, name: &str, actor: &str, file: &str, text: &str) -> (Checkout, u64) {
        let checkout = self.site.checkout(name);
        checkout.write(file, text);
        let number = self.forge.open_request(&OpenRequest::new(&format!("Change {name}"), &[file]));
        drop(self.on_request(checkout.dir(), actor, number, "opened").args(["ci", "plan"]).exits(0));
        (checkout, number)
    }

    /// A merge whose apply was killed, as when the runner kills the step's whole tree; its Terraform goes on alone.
    fn killed_at_work(&self) -> Killed {
        let go = self.site.path("go");
        let slow = format!(
            "resource \"terraform_data\" \"a\" {{\n  input = 2\n  triggers_replace = [\"x\"]\n  provisioner \"local-exec\" {{\n    command = \"touch {go}.begun; while [ ! -e {go} ]; do sleep 0.05; done\"\n  }}\n}}\n"
        );
        let (checkout, number) = self.request("one", "alice", "live/a.tf", &slow);
        let push = self.forge.merge(number, Merge::Commit);
        let applying = self.on_push(checkout.dir(), "alice", &push).args(["ci", "apply"]).spawn();
        let begun = self.site.path("go.begun");
        crate::harness::wait_until("terraform is at work", std::time::Duration::from_mins(1), || {
            begun.exists().then_some(())
        });
        applying.signal(nix::sys::signal::Signal::SIGKILL);
        drop(applying.ends());
        Killed { checkout, number, push, go }
    }

    /// kl's comment on a request; there is exactly one.
    #[track_caller]
    pub(super) fn comment(&self, number: u64) -> String {
        let comments = self.forge.comments(number);
        let [comment] = comments.as_slice() else { panic!("{} comments on #{number}", comments.len()) };
        comment.body.clone()
    }
}

impl Drop for Desk {
    /// Each test looks at what it is about.
    fn drop(&mut self) {
        self.forge.look_at_everything();
    }
}

fn two_requests_see_each_other_and_are_applied_at_the_same_time(database: &Database) {
    let desk = Desk::new(database);
    let (_, first) = desk.request("one", "alice", "live/a.tf", &one("a", 2));
    let (_, second) = desk.request("two", "bob", "live/b.tf", &one("b", 2));
    // Each sees the other one, also the one that was there first.
    for (number, address) in [(first, "terraform_data.a"), (second, "terraform_data.b")] {
        let comment = desk.comment(number);
        assert!(comment.contains(address) && comment.contains("Independent of 1 other open request"), "{comment}");
    }

    // What each push leaves on the branch: the second one has both changes.
    let merged = desk.site.checkout("merged-one");
    merged.write("live/a.tf", &one("a", 2));
    let both = desk.site.checkout("merged-two");
    both.write("live/a.tf", &one("a", 2));
    both.write("live/b.tf", &one("b", 2));
    let push_one = desk.forge.merge(first, Merge::Commit);
    let push_two = desk.forge.merge(second, Merge::Commit);
    let applying = desk.on_push(merged.dir(), "alice", &push_one).args(["ci", "apply"]).spawn();
    let beside = desk.on_push(both.dir(), "bob", &push_two).args(["ci", "apply"]).spawn();
    drop(applying.exits(0));
    drop(beside.exits(0));
    assert_tidy(database, 3);
    assert_committed(&desk.site, "a", 2);
    assert_committed(&desk.site, "b", 2);
    for number in [first, second] {
        let comment = desk.comment(number);
        assert!(comment.contains("Committed serial"), "{comment}");
    }
    let requests = database.rows("SELECT origin FROM runs WHERE status = 'committed' ORDER BY started_at");
    let origins: Vec<Value> =
        requests[1..].iter().map(|row| serde_json::from_str(row[0].as_ref().unwrap()).unwrap()).collect();
    assert!([first, second].iter().all(|number| origins.iter().any(|it| it["request"] == *number)), "{origins:?}");
}

fn of_two_requests_that_overlap_the_second_has_to_plan_again(database: &Database) {
    let desk = Desk::new(database);
    let (_, first) = desk.request("one", "alice", "live/a.tf", &one("a", 2));
    let (_, second) = desk.request("two", "bob", "live/a.tf", &one("a", 3));
    let forecast = desk.comment(second);
    assert!(forecast.contains("both write the same rows"), "{forecast}");
    let merged = desk.site.checkout("merged-one");
    merged.write("live/a.tf", &one("a", 2));
    let push = desk.forge.merge(first, Merge::Squash);
    drop(desk.on_push(merged.dir(), "alice", &push).args(["ci", "apply"]).exits(0));
    // The second one is told that its plan no longer holds, before anybody merges it.
    assert!(desk.comment(second).contains("has to be planned again"), "{}", desk.comment(second));
    let later = desk.site.checkout("merged-two");
    later.write("live/a.tf", &one("a", 3));
    let push = desk.forge.merge(second, Merge::Squash);
    let said = desk.on_push(later.dir(), "bob", &push).args(["ci", "apply"]).exits(4).stderr;
    assert!(said.contains("the reviewed plan no longer holds") && said.contains("alice"), "{said}");
    let checks = desk.forge.checks(&push.after);
    assert!(checks.iter().any(|check| check.conclusion.as_deref() == Some("failure")), "{checks:?}");
    let comment = desk.comment(second);
    assert!(comment.contains("no longer holds"), "{comment}");
    assert_tidy(database, 2);
}

fn a_reservation_conflict_is_a_failed_check_that_names_the_holder(database: &Database) {
    let desk = Desk::new(database);
    let (_, number) = desk.request("one", "bob", "live/a.tf", &one("a", 2));
    // Somebody holds the row: an apply that waits in a provisioner.
    let slow = desk.site.checkout("slow");
    let go = desk.site.path("go");
    slow.write(
        "live/a.tf",
        &format!(
            "resource \"terraform_data\" \"a\" {{\n  input = 9\n  triggers_replace = [\"x\"]\n  provisioner \"local-exec\" {{\n    command = \"while [ ! -e {go} ]; do sleep 0.05; done\"\n  }}\n}}\n"
        ),
    );
    let mut holder =
        desk.site.kl().dir(slow.dir()).args(["apply", "live", "--auto-approve", "--actor", "alice"]).spawn();
    holder.wait_for("terraform_data.a");
    let merged = desk.site.checkout("merged");
    merged.write("live/a.tf", &one("a", 2));
    let push = desk.forge.merge(number, Merge::Commit);
    crate::harness::wait_until("alice holds it", std::time::Duration::from_mins(1), || {
        let held = database.value("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL");
        (held != Some("0".into())).then_some(())
    });
    let said = desk.on_push(merged.dir(), "bob", &push).args(["ci", "apply"]).exits(2).stderr;
    assert!(said.contains("terraform_data.a is reserved by alice"), "{said}");
    let checks = desk.forge.checks(&push.after);
    let failed = checks.iter().find(|check| check.conclusion.as_deref() == Some("failure")).expect("a failed check");
    assert!(failed.title.contains("terraform_data.a") && failed.title.contains("alice"), "{failed:?}");
    assert!(!failed.annotations.is_empty(), "{failed:?}");
    let outputs = desk.file(merged.dir(), "output");
    assert!(
        outputs.contains("\nconflict\n") && outputs.contains("\nterraform_data.a is reserved by alice\n"),
        "{outputs}"
    );
    fs::write(&go, "").unwrap();
    drop(holder.exits(0));
}

fn a_merge_without_a_plan_fails_and_says_the_way_out(database: &Database) {
    let desk = Desk::new(database);
    let number = desk.forge.open_request(&OpenRequest::new("Unplanned", &["live/a.tf"]));
    let push = desk.forge.merge(number, Merge::Commit);
    let merged = desk.site.checkout("merged");
    merged.write("live/a.tf", &one("a", 2));
    let said = desk.on_push(merged.dir(), "bob", &push).args(["ci", "apply"]).exits(4).stderr;
    assert!(said.contains("no reviewed plan of project live") && said.contains("missing_spec: plan"), "{said}");
    assert_tidy(database, 1);
    merged.write("kl.yaml", "projects:\n  - name: live\n    dir: live\npolicies:\n  missing_spec: plan\n");
    drop(desk.on_push(merged.dir(), "bob", &push).args(["ci", "apply"]).exits(0));
    assert_tidy(database, 2);
    // A request that touches no project is nobody's business.
    let number = desk.forge.open_request(&OpenRequest::new("Docs", &["README.md"]));
    let push = desk.forge.merge(number, Merge::Squash);
    let said = desk.on_push(merged.dir(), "bob", &push).args(["ci", "apply"]).exits(0).stderr;
    assert!(said.contains("no project is concerned"), "{said}");
}

fn a_squash_merge_finds_its_request_and_running_the_job_again_changes_nothing(database: &Database) {
    let desk = Desk::new(database);
    let (_, number) = desk.request("one", "alice", "live/a.tf", &one("a", 2));
    let push = desk.forge.merge(number, Merge::Squash);
    let merged = desk.site.checkout("merged");
    merged.write("live/a.tf", &one("a", 2));
    for _ in 0..2 {
        drop(desk.on_push(merged.dir(), "alice", &push).args(["ci", "apply"]).exits(0));
    }
    assert_tidy(database, 2);
    // By number, on another event, too.
    let again = desk.job(merged.dir(), "alice", "workflow_dispatch", &json!({}));
    drop(again.args(["ci", "apply", "--request", &number.to_string()]).exits(0));
    assert_tidy(database, 2);
    let comment = desk.comment(number);
    assert!(comment.contains("applied, there was nothing to do"), "{comment}");
    let outputs = desk.file(merged.dir(), "output");
    assert!(outputs.contains("\nnoop\n"), "{outputs}");
}

#[test]
fn a_fork_without_secrets_gets_its_plan_in_the_summary_and_nothing_fails() {
    let site = Site::new();
    site.write("live/main.tf", &one("base", 1));
    let desk = Desk { site, forge: GithubStandIn::start() };
    let number = desk.forge.open_request(&OpenRequest::new("From outside", &["live/main.tf"]).out_of_fork());
    let payload = json!({
        "action": "opened",
        "pull_request": {
            "number": number,
            "head": { "sha": desk.forge.head(number), "ref": "x", "repo": { "full_name": "mallory/infra" } },
            "base": { "sha": desk.forge.tip("main"), "ref": "main", "repo": { "full_name": REPOSITORY } },
        },
    });
    desk.forge.deny(Permission::Comments);
    desk.forge.deny(Permission::Checks);
    let dir: Utf8PathBuf = desk.site.repo();
    let said = desk.job(&dir, "mallory", "pull_request", &payload).args(["ci", "plan"]).exits(0).stderr;
    assert!(said.contains("fork"), "{said}");
    let summary = desk.file(&dir, "summary");
    assert!(summary.contains("terraform_data.base"), "{summary}");
    assert!(!dir.join(".kl/kl.db").exists());
    let refused = desk.job(&dir, "mallory", "pull_request_target", &payload).args(["ci", "plan"]).exits(3).stderr;
    assert!(refused.contains("pull_request_target"), "{refused}");
}

#[test]
fn a_comment_that_cannot_be_posted_does_not_lose_the_result_of_an_apply() {
    crate::harness::database::on(crate::harness::database::Backend::Sqlite, |database| {
        let desk = Desk::new(&database);
        let (_, number) = desk.request("one", "alice", "live/a.tf", &one("a", 2));
        let push = desk.forge.merge(number, Merge::Commit);
        let merged = desk.site.checkout("merged");
        merged.write("live/a.tf", &one("a", 2));
        desk.forge.deny(Permission::Comments);
        desk.forge.deny(Permission::Checks);
        let said = desk.on_push(merged.dir(), "alice", &push).args(["ci", "apply"]).exits(0).stderr;
        assert!(said.contains("was not updated"), "{said}");
        assert_tidy(&database, 2);
        // The run's timeline says what the forge did not take.
        let run =
            database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'committed' AND request IS NOT NULL");
        let told = desk.site.kl().args(["explain", &run.unwrap()]).exits(0).stdout;
        assert!(told.contains("The forge did not take the comment on #"), "{told}");
    });
}

/// As when the runner kills the step's whole tree and goes on with the steps that always run.
#[test]
fn what_a_killed_step_left_is_finished_by_the_next_one() {
    crate::harness::database::on(crate::harness::database::Backend::Sqlite, |database| {
        let desk = Desk::new(&database);
        let Killed { checkout, number, push, go } = desk.killed_at_work();
        // Terraform goes on alone, and is waited for.
        fs::write(&go, "").unwrap();
        let said = desk.on_push(checkout.dir(), "alice", &push).args(["ci", "finish"]).exits(0).stderr;
        assert!(said.contains("kl recover") && said.contains("terraform_data.a"), "{said}");
        let comment = desk.comment(number);
        assert!(comment.contains("kl recover"), "{comment}");
        let checks = desk.forge.checks(push.after.as_str());
        let check = checks.iter().find(|check| check.name == "kl apply: live").unwrap_or_else(|| panic!("{checks:?}"));
        assert_eq!(check.conclusion.as_deref(), Some("failure"), "{check:?}");
        assert!(check.told.to_string().contains("kl recover"), "{check:?}");
        let summary = desk.file(checkout.dir(), "summary");
        assert!(summary.contains("kl recover"), "{summary}");
        // The same job again continues where things stand.
        drop(desk.on_push(checkout.dir(), "alice", &push).args(["ci", "apply"]).exits(0));
        assert_committed(&desk.site, "a", 2);
        assert_eq!(desk.site.leftovers(), Vec::<String>::new());
        let said = desk.on_push(checkout.dir(), "alice", &push).args(["ci", "finish"]).exits(0).stderr;
        assert!(said.contains("Nothing was left"), "{said}");
    });
}

/// Only the runner knows what a Terraform does that goes on alone; with the runner goes the record of it.
fn what_a_colleague_aborted_before_the_last_step_is_put_on_record_all_the_same(database: &Database) {
    let desk = Desk::new(database);
    let Killed { checkout, number, push, go } = desk.killed_at_work();
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE ended_at IS NULL").unwrap();
    let finish = || desk.on_push(checkout.dir(), "alice", &push).args(["ci", "finish", "--wait"]);
    // A job of another forge may have the same id.
    let said = finish().arg("1s").env("GITHUB_SERVER_URL", "https://other.example").exits(0).stderr;
    assert!(said.contains("Nothing was left"), "{said}");

    drop(desk.site.kl().args(["abort", &run, "--actor", "carol"]).exits(0));
    let said = finish().arg("1s").exits(1).stderr;
    assert!(said.contains("is still working") && said.contains(&format!("kl recover {run}")), "{said}");
    fs::write(&go, "").unwrap();
    let said = finish().arg("1m").exits(0).stderr;
    assert!(said.contains(&format!("Run {run} had ended before (aborted)")), "{said}");
    assert!(
        said.contains("terraform_data.a") && said.contains(&format!("`kl recover {run}` takes them over")),
        "{said}"
    );
    assert!(desk.comment(number).contains(&format!("kl recover {run}")), "{}", desk.comment(number));
    assert_eq!(desk.site.leftovers(), Vec::<String>::new());
    let said = finish().arg("1s").exits(0).stderr;
    assert!(said.contains("Nothing was left"), "{said}");

    // The runner is gone; what its Terraform did is not.
    drop(desk.site.kl().args(["recover", &run]).exits(0));
    assert_committed(&desk.site, "a", 2);
    drop(desk.on_push(checkout.dir(), "alice", &push).args(["ci", "apply"]).exits(0));
}

fn what_a_colleague_recovered_elsewhere_is_put_on_record_all_the_same(database: &Database) {
    let desk = Desk::new(database);
    let Killed { checkout, push, go, .. } = desk.killed_at_work();
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE ended_at IS NULL").unwrap();
    drop(desk.site.kl().args(["abort", &run, "--actor", "carol"]).exits(0));
    let host = database.value("SELECT CAST(host AS text) FROM run_workplaces").unwrap();
    let dir = database.value("SELECT dir FROM run_workplaces").unwrap();
    drop(database.rows("UPDATE run_workplaces SET host = '{\"name\":\"build-7\"}', dir = '/somewhere/kl-live'"));
    // Whether anything was on record by then or not.
    drop(desk.site.kl().args(["recover", &run, "--actor", "carol"]).spawn().ends());
    // As after a recovery by an earlier kl, which freed everything wherever it was.
    drop(database.rows("UPDATE resource_reservations SET released_at = asked_at WHERE released_at IS NULL"));
    drop(database.rows(&format!("UPDATE run_workplaces SET host = '{host}', dir = '{dir}'")));
    fs::write(&go, "").unwrap();
    let finish = || desk.on_push(checkout.dir(), "alice", &push).args(["ci", "finish", "--wait", "1m"]);
    let said = finish().exits(0).stderr;
    assert!(said.contains(&format!("Run {run} had ended before (aborted)")), "{said}");
    assert!(said.contains("terraform_data.a"), "{said}");
    drop(desk.site.kl().args(["recover", &run]).exits(0));
    assert_committed(&desk.site, "a", 2);
    let standing = database.value("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL");
    assert_eq!(standing.as_deref(), Some("0"));
    assert_eq!(desk.site.leftovers(), Vec::<String>::new());
}

/// `on_failure: salvage` puts the state in order at once; that is no success of the apply.
fn what_was_salvaged_is_no_green_check(database: &Database) {
    let desk = Desk::new(database);
    let half = "resource \"terraform_data\" \"a\" { input = 2 }\nresource \"terraform_data\" \"broken\" {\n  input = \
                terraform_data.a.output\n  provisioner \"local-exec\" { command = \"exit 1\" }\n}\n";
    let policy = "projects:\n  - name: live\n    dir: live\npolicies: { on_failure: salvage }\n";
    desk.site.write("kl.yaml", policy);
    let (checkout, number) = desk.request("one", "alice", "live/a.tf", half);
    let push = desk.forge.merge(number, Merge::Commit);
    let said = desk.on_push(checkout.dir(), "alice", &push).args(["ci", "apply"]).exits(1).stderr;
    assert!(said.contains("on_failure: salvage"), "{said}");
    let checks = desk.forge.checks(push.after.as_str());
    let check = checks.iter().find(|check| check.name == "kl apply: live").unwrap_or_else(|| panic!("{checks:?}"));
    assert_eq!(check.conclusion.as_deref(), Some("failure"), "{check:?}");
    assert_eq!(check.title, "The apply failed half-way, what it had done was recovered");
    // Nothing is left to be recovered.
    assert!(check.annotations.is_empty() && !check.told.to_string().contains("kl recover"), "{check:?}");
    assert!(!desk.comment(number).contains("kl recover"), "{}", desk.comment(number));
    assert_committed(&desk.site, "a", 2);
}

fn a_request_that_was_closed_is_in_nobodys_way_any_more(database: &Database) {
    let desk = Desk::new(database);
    let (_, first) = desk.request("one", "alice", "live/a.tf", &one("a", 2));
    let (own, second) = desk.request("two", "bob", "live/a.tf", &one("a", 3));
    assert!(desk.comment(second).contains("Change one"), "{}", desk.comment(second));
    // No job ran when it was closed.
    desk.forge.close(first);
    drop(desk.on_request(own.dir(), "bob", second, "synchronize").args(["ci", "plan"]).exits(0));
    let comment = desk.comment(second);
    assert!(!comment.contains("Change one") && comment.contains("ready to merge"), "{comment}");
}

fn a_merge_queue_is_checked_with_every_request_in_it(database: &Database) {
    let desk = Desk::new(database);
    let (_, first) = desk.request("one", "alice", "live/a.tf", &one("a", 2));
    let (_, second) = desk.request("two", "bob", "live/b.tf", &one("b", 2));
    let payload = |number: u64| {
        json!({
            "action": "checks_requested",
            "merge_group": {
                "head_sha": desk.forge.head(number),
                "head_ref": format!("refs/heads/gh-readonly-queue/main/pr-{number}-{}", desk.forge.tip("main")),
                "base_sha": desk.forge.tip("main"),
                "base_ref": "refs/heads/main",
            },
        })
    };
    let queue = desk.site.checkout("queue");
    for number in [first, second] {
        let said =
            desk.job(queue.dir(), "alice", "merge_group", &payload(number)).args(["ci", "check"]).exits(0).stderr;
        assert!(said.contains("ready"), "{said}");
    }
    let checks = desk.forge.checks(&desk.forge.head(second));
    assert!(checks.iter().any(|check| check.name == "kl check: live"), "{checks:?}");
    // The trunk moves on under the second one.
    let beside = desk.site.checkout("beside");
    beside.write("live/b.tf", &one("b", 7));
    drop(desk.site.kl().dir(beside.dir()).args(["apply", "live", "--auto-approve", "--actor", "carol"]).exits(0));
    let said = desk.job(queue.dir(), "alice", "merge_group", &payload(second)).args(["ci", "check"]).exits(4).stderr;
    assert!(said.contains("no longer holds") && said.contains("carol"), "{said}");
    let comment = desk.comment(second);
    assert!(comment.contains("carol") && comment.contains("has to be planned again"), "{comment}");
    // A request in the queue that has nothing to do with kl is left in peace.
    let docs = desk.forge.open_request(&OpenRequest::new("Docs", &["README.md"]));
    drop(desk.job(queue.dir(), "alice", "merge_group", &payload(docs)).args(["ci", "check"]).exits(0));
    assert_eq!(desk.forge.comments(docs).len(), 0);
    assert_tidy(database, 2);
}

fn jobs_of_a_matrix_at_the_same_time_write_one_comment(database: &Database) {
    let desk = Desk { site: matrix::prepared(database), forge: GithubStandIn::start() };
    matrix::planned_side_by_side(
        database,
        &desk.site,
        &desk.forge,
        |number| format!("/issues/{number}/comments"),
        |dir, number| desk.on_request(dir, "alice", number, "opened"),
        |number| desk.forge.comments(number).into_iter().map(|comment| comment.body).collect(),
    );
}

fn no_sensitive_value_reaches_the_forge_or_the_job(database: &Database) {
    let desk = Desk::new(database);
    let more =
        |dir: &Utf8Path| ["output", "summary"].map(|name| (format!("the job's {name}"), desk.file(dir, name))).to_vec();
    secrets::no_value_is_told(
        database,
        &desk.site,
        &desk.forge,
        |dir, actor, number| desk.on_request(dir, actor, number, "opened"),
        |dir, actor, push| desk.on_push(dir, actor, push),
        more,
    );
}
