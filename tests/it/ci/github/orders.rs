//! Orders by comment: whose they are, and of which commit.

use serde_json::json;

use super::Desk;
use crate::ci::one;
use crate::harness::database::Database;
use crate::harness::forge::OpenRequest;
use crate::harness::kl::Kl;
use crate::harness::runners::{commit, git};
use crate::harness::site::Checkout;

on_both_databases!(
    a_member_has_the_newest_commit_planned_by_a_comment,
    nobody_else_gives_orders_and_no_other_commit_is_planned,
);

fn comment(desk: &Desk, checkout: &Checkout, number: u64, association: &str) -> Kl {
    let payload = json!({
        "action": "created",
        "issue": { "number": number, "pull_request": {} },
        "comment": { "body": "/kl plan", "author_association": association, "user": { "login": "carol" } },
    });
    desk.job(checkout.dir(), "carol", "issue_comment", &payload).args(["ci", "plan"])
}

/// A checkout with a commit, and the request that the commit is the head of.
fn request(desk: &Desk, request: &OpenRequest) -> (Checkout, u64) {
    let checkout = desk.site.checkout(&request.title);
    checkout.write("live/a.tf", &one("a", 2));
    git(checkout.dir(), &["init", "--quiet"]);
    let head = commit(checkout.dir());
    desk.forge.name_next_commits(&[&head]);
    let number = desk.forge.open_request(request);
    assert_eq!(desk.forge.head(number), head);
    (checkout, number)
}

fn a_member_has_the_newest_commit_planned_by_a_comment(database: &Database) {
    let desk = Desk::new(database);
    let (checkout, number) = request(&desk, &OpenRequest::new("inside", &["live/a.tf"]));
    drop(comment(&desk, &checkout, number, "MEMBER").exits(0));
    assert!(desk.comment(number).contains("terraform_data.a"), "{}", desk.comment(number));
    let checks = desk.forge.checks(&desk.forge.head(number));
    assert!(checks.iter().any(|it| it.name == "kl plan: live" && it.conclusion.as_deref() == Some("success")));
}

fn nobody_else_gives_orders_and_no_other_commit_is_planned(database: &Database) {
    let desk = Desk::new(database);
    let (checkout, number) = request(&desk, &OpenRequest::new("inside", &["live/a.tf"]));
    for association in ["CONTRIBUTOR", "NONE"] {
        let said = comment(&desk, &checkout, number, association).exits(0).stderr;
        assert!(said.contains("only owners, members and collaborators"), "{said}");
    }
    // A fork's code does not run, whoever asks and whatever is checked out.
    let (outside, theirs) = request(&desk, &OpenRequest::new("outside", &["live/a.tf"]).out_of_fork());
    let said = comment(&desk, &outside, theirs, "OWNER").exits(3).stderr;
    assert!(said.contains("comes from a fork"), "{said}");
    // The checkout is not the request's head.
    checkout.write("live/a.tf", &one("a", 3));
    let other = commit(checkout.dir());
    let said = comment(&desk, &checkout, number, "MEMBER").exits(3).stderr;
    assert!(said.contains("refs/pull/1/head") && said.contains(&other), "{said}");
    assert!(desk.forge.comments(number).is_empty() && desk.forge.comments(theirs).is_empty());
    assert_eq!(database.value("SELECT count(*) FROM request_projects"), Some("0".into()));
}
