//! Mishaps at every step of a job: the same job again brings state, comment and database in step.

use std::fs;

use camino::Utf8PathBuf;

use super::github::Desk;
use super::prepared;
use crate::harness::database::Database;
use crate::harness::forge::github::GithubStandIn;
use crate::harness::forge::{Merge, OpenRequest};
use crate::harness::kl::Kl;
use crate::harness::site::Checkout;
use crate::mishaps::{meets, mishaps, points, try_each};
use kl_runner::forge::Push;

on_both_databases!(a_mishap_at_any_step_of_a_plan_job, a_mishap_at_any_step_of_an_apply_job);

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

    fn plan(&self) -> Kl {
        self.desk.on_request(self.checkout.dir(), "alice", self.number, "opened").args(["ci", "plan"])
    }

    fn merged(&self) -> Push {
        self.desk.forge.merge(self.number, Merge::Squash)
    }

    fn apply(&self, push: &Push) -> Kl {
        self.desk.on_push(self.checkout.dir(), "alice", push).args(["ci", "apply", "--wait", "1m"])
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

/// The first time of each point: a job passes some of them dozens of times.
fn first(points: Vec<String>) -> Vec<String> {
    points.into_iter().filter(|point| point.ends_with("#1")).collect()
}

fn everything_ended(database: &Database) {
    let one = |sql: &str| database.value(sql).unwrap_or_default();
    assert_eq!(one("SELECT count(*) FROM runs WHERE ended_at IS NULL AND status <> 'started'"), "0", "live runs");
    assert_eq!(one("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), "0", "reservations");
}

fn a_mishap_at_any_step_of_a_plan_job(database: &Database) {
    let desk = desk(database);
    let trace = Story::new(&desk, "trace".to_owned());
    let mishaps = mishaps(database, &first(points(&desk.site, trace.plan(), 0)));
    try_each(&mishaps, |number, mishap| {
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

fn a_mishap_at_any_step_of_an_apply_job(database: &Database) {
    let desk = desk(database);
    let trace = Story::new(&desk, "trace".to_owned());
    trace.is_planned("none");
    let push = trace.merged();
    let mishaps = mishaps(database, &first(points(&desk.site, trace.apply(&push), 0)));
    try_each(&mishaps, |number, mishap| {
        let story = Story::new(&desk, format!("apply-{number}"));
        story.is_planned(mishap);
        let push = story.merged();
        meets(story.apply(&push).args(["--lease", "1s"]), mishap);
        story.is_applied(&push, mishap);
    });
    everything_ended(database);
}
