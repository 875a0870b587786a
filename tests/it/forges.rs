//! What the tests of both forges share: patience, comments, checks, and questions about merges.

use std::time::Duration;

use kl_runner::forge::{Annotation, AnnotationLevel, Check, Conclusion, Forge, Patience, Push, comment_marker};

use crate::harness::forge::{Behaviour, Merge, OpenRequest, StandIn};

/// Patience that is as quick as a test.
pub(crate) fn hasty() -> Patience {
    Patience {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(5),
        total: Duration::from_secs(20),
        answer: Duration::from_secs(10),
        second: Duration::from_millis(1),
    }
}

/// A stand-in with one open request, and its number.
pub(crate) fn with_request<B: Behaviour>(stand_in: StandIn<B>) -> (StandIn<B>, u64) {
    let number = stand_in.open_request(&OpenRequest::new("Add a network", &["live/main.tf"]));
    (stand_in, number)
}

/// The same, and the commit at the request's head.
pub(crate) fn with_head<B: Behaviour>(stand_in: StandIn<B>) -> (StandIn<B>, String) {
    let (stand_in, number) = with_request(stand_in);
    let head = stand_in.head(number);
    (stand_in, head)
}

/// The marker of the comment.
pub(crate) fn marker() -> String {
    comment_marker("prod")
}

/// A comment with this text.
pub(crate) fn body(text: &str) -> String {
    format!("{}\n{text}", marker())
}

/// A check of a commit, as another room would make it.
pub(crate) fn check(commit: &str, conclusion: Option<Conclusion>, annotations: u32) -> Check {
    Check {
        name: "kl plan: network".into(),
        commit: commit.into(),
        conclusion,
        title: "2 to add, held by alice".into(),
        summary: "**2** to add".into(),
        text: "| a | b |".into(),
        annotations: (1..=annotations)
            .map(|line| Annotation {
                path: "live/main.tf".into(),
                line,
                level: [AnnotationLevel::Notice, AnnotationLevel::Warning, AnnotationLevel::Failure][line as usize % 3],
                title: "reserved".into(),
                message: format!("`terraform_data.a[{line}]` is held by alice"),
            })
            .collect(),
        details_url: Some("https://ci.example/jobs/1".into()),
    }
}

/// The numbers of the requests that a push merged, in order.
pub(crate) async fn merged(forge: &dyn Forge, push: &Push) -> Vec<u64> {
    forge.merged_by(push).await.unwrap().into_iter().map(|request| request.number).collect()
}

/// A push that did what these two and all in between did.
pub(crate) fn both(first: &Push, last: &Push) -> Push {
    Push { before: first.before.clone(), ..last.clone() }
}

/// A push that merges a request of 150 commits, and the request's number.
pub(crate) fn a_long_merge<B: Behaviour>(stand_in: &StandIn<B>) -> (u64, Push) {
    let mut request = OpenRequest::new("Long", &["0.tf"]);
    for index in 1..150 {
        request = request.commit(&[&format!("{index}.tf")]);
    }
    let number = stand_in.open_request(&request);
    stand_in.push("main", "Fix", &["d.tf"]);
    (number, stand_in.merge(number, Merge::Commit))
}

/// A request that was built on one that was squashed before brings that one's commits in once more, and not the request.
pub(crate) async fn a_squashed_request_is_not_merged_again_by_what_was_built_on_it<B: Behaviour>(
    stand_in: StandIn<B>,
    forge: &dyn Forge,
) {
    let lower = stand_in.open_request(&OpenRequest::new("Lower", &["a.tf"]));
    let lower_head = stand_in.head(lower);
    stand_in.merge(lower, Merge::Squash);
    let upper = stand_in.open_request(&OpenRequest::new("Upper", &["b.tf"]).built_on(&lower_head));
    let push = stand_in.merge(upper, Merge::Commit);
    assert_eq!(merged(forge, &push).await, [upper]);
    stand_in.finish();
}
