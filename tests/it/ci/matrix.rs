//! Jobs of a matrix that run at the same time, on both forges: one comment, with what each of them has to say.

use std::time::Duration;

use camino::Utf8Path;

use super::one;
use crate::harness::database::Database;
use crate::harness::forge::{Behaviour, Fault, Gate, OpenRequest, StandIn};
use crate::harness::kl::{Kl, Running};
use crate::harness::site::Site;
use crate::harness::wait_until;

const PROJECTS: [&str; 3] = ["a", "b", "c"];

/// A repository with three projects, each applied once.
pub(super) fn prepared(database: &Database) -> Site {
    let site = Site::on(database);
    let listed = PROJECTS.map(|name| format!("  - {{ name: {name}, dir: live/{name} }}\n"));
    site.write("kl.yaml", &format!("projects:\n{}", listed.concat()));
    for name in PROJECTS {
        site.write(&format!("live/{name}/main.tf"), &one(name, 1));
    }
    for name in PROJECTS {
        drop(site.kl().args(["apply", &format!("live/{name}"), "--auto-approve", "--actor", "setup"]).exits(0));
    }
    site
}

/// Plans a request that changes all three projects, in a job for each, all at the same time; `job` is one in a checkout.
/// `list` is where the forge has the request's comments, `comments` what they say.
pub(super) fn planned_side_by_side<B: Behaviour>(
    database: &Database,
    site: &Site,
    forge: &StandIn<B>,
    list: impl Fn(u64) -> String,
    job: impl Fn(&Utf8Path, u64) -> Kl,
    comments: impl Fn(u64) -> Vec<String>,
) {
    let files = PROJECTS.map(|name| format!("live/{name}/main.tf"));
    let number = forge.open_request(&OpenRequest::new("Change all three", &files.each_ref().map(String::as_str)));
    // Whoever comes first has seen that there is no comment, and makes it only when all the others want to say something.
    let gate = Gate::closed();
    forge.arm("POST", &list(number), Fault::Held(gate.clone()), 1);
    let mut jobs = PROJECTS.map(|name| {
        let checkout = site.checkout(&format!("job-{name}"));
        for project in PROJECTS {
            checkout.write(&format!("live/{project}/main.tf"), &one(project, 2));
        }
        job(checkout.dir(), number).args(["ci", "plan", "--project", name]).spawn()
    });
    wait_until("all three have planned", Duration::from_mins(1), || {
        let planned = database.value("SELECT count(*) FROM request_projects WHERE plan_status = 'planned'");
        (planned.as_deref() == Some("3")).then_some(())
    });
    assert!(jobs.iter_mut().all(Running::runs), "each waits for its turn");
    gate.open();
    for job in jobs {
        let said = job.exits(0).stderr;
        assert!(!said.contains("was not updated"), "{said}");
    }

    assert!(forge.requests().iter().all(|request| request.method != "DELETE"), "what was made still stands there");
    let comments = comments(number);
    let [comment] = comments.as_slice() else { panic!("{} comments on {number}", comments.len()) };
    for name in PROJECTS {
        assert!(comment.contains(&format!("terraform_data.{name}")), "{name} is missing: {comment}");
    }
    assert!(comment.contains("3 projects") && !comment.contains("not planned"), "{comment}");
}
