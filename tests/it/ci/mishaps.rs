//! Mishaps at every step of a job: the same job again brings state, comment and database in step. Who comes after a job
//! that died while it wrote its comment waits for the lock on that comment, for 45 seconds, so that many are tried at once.

use std::fs;

use camino::Utf8PathBuf;

use super::github::Desk;
use super::prepared;
use crate::harness::database::Database;
use crate::harness::forge::github::GithubStandIn;
use crate::harness::forge::{Merge, OpenRequest};
use crate::harness::kl::Kl;
use crate::harness::site::Checkout;
use crate::mishaps::{
    IDLE, everything_ended, meets, mishaps, of_a_plan, of_an_apply, points, telling, try_at_once, untried,
};
use kl_runner::forge::Push;

on_both_databases!(
    a_mishap_at_any_step_of_a_plan_job,
    a_mishap_at_any_step_of_a_check_job,
    a_mishap_at_any_step_of_an_apply_job,
    a_mishap_at_any_step_of_the_last_step_of_a_job,
);

/// A request that makes one object in a state of its own, which leaves a line behind for each time that it is made.
struct Story<'a> {
    desk: &'a Desk,
    name: String,
    checkout: Checkout,
    number: u64,
}

impl<'a> Story<'a> {
    fn new(desk: &'a Desk, name: String) -> Self {
        let checkout = desk.site.checkout(&name);
        let made = desk.site.path(format!("{name}.made"));
        checkout.write("kl.yaml", &format!("projects:\n  - name: live\n    dir: live\n    state: {name}\n"));
        checkout.write(
            "live/c.tf",
            &format!(
                "resource \"terraform_data\" \"c\" {{\n  provisioner \"local-exec\" {{\n    command = \"echo made >> {made}\"\n  }}\n}}\n"
            ),
        );
        let number = desk.forge.open_request(&OpenRequest::new(&name, &["live/c.tf"]));
        Self { desk, name, checkout, number }
    }

    fn made(&self) -> Utf8PathBuf {
        self.desk.site.path(format!("{}.made", self.name))
    }

    /// In a job of its own: `kl ci finish` is about all runs of its job.
    fn in_its_job(&self, kl: Kl) -> Kl {
        kl.env("GITHUB_RUN_ID", self.number.to_string())
    }

    fn plan(&self) -> Kl {
        let job = self.desk.on_request(self.checkout.dir(), "alice", self.number, "opened");
        self.in_its_job(job).args(["ci", "plan"])
    }

    fn check(&self) -> Kl {
        let job = self.desk.on_request(self.checkout.dir(), "alice", self.number, "synchronize");
        self.in_its_job(job).args(["ci", "check"])
    }

    fn merged(&self) -> Push {
        self.desk.forge.merge(self.number, Merge::Squash)
    }

    fn apply(&self, push: &Push) -> Kl {
        let job = self.desk.on_push(self.checkout.dir(), "alice", push);
        self.in_its_job(job).args(["ci", "apply", "--wait", "1m"])
    }

    /// The step that always runs, after an apply that was killed when all was made and nothing was committed.
    fn finish(&self, push: &Push) -> Kl {
        let job = self.desk.on_push(self.checkout.dir(), "alice", push);
        self.in_its_job(job).args(["ci", "finish"])
    }

    fn is_planned(&self, mishap: &str) {
        drop(self.plan().exits(0));
        let comment = self.desk.comment(self.number);
        assert!(comment.contains("terraform_data.c"), "{mishap}: {comment}");
    }

    fn is_applied(&self, push: &Push, mishap: &str) {
        let said = self.apply(push).exits(0);
        let comment = self.desk.comment(self.number);
        // The mishap came after the commit, or what was made before it was recovered.
        let done = comment.contains("Committed serial") || comment.contains("applied, there was nothing to do");
        assert!(done && !comment.contains("❌"), "{mishap}: {comment} {said:?}");
        assert_eq!(fs::read_to_string(self.made()).unwrap_or_default(), "made\n", "{mishap}: {said:?}");
        let shown = self.desk.site.kl().args(["state", "list", "live", "--state", &self.name]).exits(0).stdout;
        assert!(shown.contains("terraform_data.c"), "{mishap}: {shown}");
    }
}

fn desk(database: &Database) -> Desk {
    Desk { site: prepared(database), forge: GithubStandIn::start() }
}

/// What a job passes, of each point the first time (some of them it passes dozens of times), without the store calls of
/// the command that it runs, which are tried with that command.
fn of_a_job(job: Kl, command: &[String]) -> Vec<String> {
    let calls: Vec<String> = command.iter().filter(|point| point.starts_with("store/")).cloned().collect();
    untried(points(job, 0).into_iter().filter(|point| point.ends_with("#1")).collect(), &calls)
}

fn a_mishap_at_any_step_of_a_plan_job(database: &Database) {
    let desk = desk(database);
    let trace = Story::new(&desk, "trace".to_owned());
    let mishaps = mishaps(database, &of_a_job(trace.plan(), &of_a_plan(database)));
    try_at_once(IDLE, &mishaps, |number, mishap| {
        let story = Story::new(&desk, format!("plan-{number}"));
        meets(story.plan(), mishap);
        story.is_planned(mishap);
    });
    everything_ended(database);
    // One of them goes on to its end.
    let story = Story::new(&desk, "whole".to_owned());
    story.is_planned("none");
    let push = story.merged();
    story.is_applied(&push, "none");
}

fn a_mishap_at_any_step_of_a_check_job(database: &Database) {
    let desk = desk(database);
    let trace = Story::new(&desk, "trace".to_owned());
    trace.is_planned("none");
    let mishaps = mishaps(database, &telling(of_a_job(trace.check(), &[]), &of_an_apply(database)));
    try_at_once(IDLE, &mishaps, |number, mishap| {
        let story = Story::new(&desk, format!("check-{number}"));
        story.is_planned(mishap);
        meets(story.check(), mishap);
        let said = story.check().exits(0).stderr;
        assert!(said.contains("live"), "{mishap}: {said}");
    });
    // Asking has reserved nothing.
    everything_ended(database);
}

fn a_mishap_at_any_step_of_an_apply_job(database: &Database) {
    let desk = desk(database);
    let trace = Story::new(&desk, "trace".to_owned());
    trace.is_planned("none");
    let push = trace.merged();
    let mishaps = mishaps(database, &of_a_job(trace.apply(&push), &of_an_apply(database)));
    try_at_once(IDLE, &mishaps, |number, mishap| {
        let story = Story::new(&desk, format!("apply-{number}"));
        story.is_planned(mishap);
        let push = story.merged();
        meets(story.apply(&push).args(["--lease", "1s"]), mishap);
        story.is_applied(&push, mishap);
    });
    everything_ended(database);
}

/// Whatever becomes of `kl ci finish`: it can be run once more, and the job again.
fn a_mishap_at_any_step_of_the_last_step_of_a_job(database: &Database) {
    let desk = desk(database);
    let killed = |name: String| {
        let story = Story::new(&desk, name);
        story.is_planned("none");
        let push = story.merged();
        assert_eq!(meets(story.apply(&push), "store/commit the run/begin#1=kill"), None);
        (story, push)
    };
    let (trace, push) = killed("trace".to_owned());
    let mishaps = mishaps(database, &telling(of_a_job(trace.finish(&push), &[]), &of_an_apply(database)));
    trace.is_applied(&push, "none");
    try_at_once(IDLE, &mishaps, |number, mishap| {
        let (story, push) = killed(format!("finish-{number}"));
        meets(story.finish(&push).args(["--wait", "1s"]), mishap);
        drop(story.finish(&push).exits(0));
        let live = format!(
            "SELECT count(*) FROM runs JOIN states ON states.id = runs.state_id
             WHERE states.name = '{}' AND runs.ended_at IS NULL",
            story.name
        );
        assert_eq!(database.value(&live).as_deref(), Some("0"), "{mishap}");
        story.is_applied(&push, mishap);
    });
    everything_ended(database);
}
