//! GitLab's events, from the variables of a job: there is no payload.

use super::{CiEvent, EventError, PushEvent, RequestAction, RequestEvent, commit, is_commit};

/// Reads the event through `get`, which gives the value of a variable that is not empty.
///
/// # Errors
/// When variables that belong together are not all there, or are not what GitLab sets.
pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<CiEvent, EventError> {
    let source = get("CI_PIPELINE_SOURCE").unwrap_or_default();
    // Also in pipelines below one of a merge request, whose source is another.
    if get("CI_MERGE_REQUEST_IID").is_some() {
        return request(&source, &get);
    }
    match source.as_str() {
        "push" => push(&source, &get),
        // A pipeline below that of a push is told the commit before; below any other it is not.
        "parent_pipeline" if get("CI_COMMIT_BEFORE_SHA").as_deref().and_then(commit).is_some() => push(&source, &get),
        "schedule" => Ok(CiEvent::Schedule),
        "web" | "webide" | "api" | "trigger" | "chat" | "pipeline" | "parent_pipeline" => Ok(CiEvent::Manual),
        "" => Ok(CiEvent::Unknown { name: "pipeline without a source".to_owned() }),
        other => Ok(CiEvent::Unknown { name: other.to_owned() }),
    }
}

fn malformed(source: &str, name: &str) -> EventError {
    EventError::Malformed { event: source.to_owned(), reason: format!("{name} is missing, or not what GitLab sets") }
}

fn request(source: &str, get: &impl Fn(&str) -> Option<String>) -> Result<CiEvent, EventError> {
    let want = |name: &str| get(name).ok_or_else(|| malformed(source, name));
    let iid = want("CI_MERGE_REQUEST_IID")?;
    let number = iid.parse().map_err(|_| malformed(source, "CI_MERGE_REQUEST_IID"))?;
    // In a pipeline for merged results CI_COMMIT_SHA is a commit that only tries the merge; then, and only then, the
    // source branch's own commit is told.
    let head = match get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") {
        Some(head) => head,
        None => want("CI_COMMIT_SHA")?,
    };
    if !is_commit(&head) {
        return Err(malformed(source, "CI_COMMIT_SHA"));
    }
    let from_fork = match (get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID"), get("CI_MERGE_REQUEST_PROJECT_ID")) {
        (Some(source), Some(target)) => source != target,
        _ => true,
    };
    let request = RequestEvent {
        number,
        action: RequestAction::Synchronized,
        head,
        base_branch: want("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")?,
        base: get("CI_MERGE_REQUEST_DIFF_BASE_SHA").as_deref().and_then(commit),
        from_fork,
        merge_commit: None,
        privileged: false,
    };
    Ok(match get("CI_MERGE_REQUEST_EVENT_TYPE").as_deref() {
        Some("merge_train") => CiEvent::MergeTrain(request),
        _ => CiEvent::Request(request),
    })
}

fn push(source: &str, get: &impl Fn(&str) -> Option<String>) -> Result<CiEvent, EventError> {
    let Some(branch) = get("CI_COMMIT_BRANCH") else {
        return Ok(CiEvent::Unknown { name: "push of a tag".to_owned() });
    };
    let after = get("CI_COMMIT_SHA").as_deref().and_then(commit);
    Ok(CiEvent::Push(PushEvent {
        branch,
        before: get("CI_COMMIT_BEFORE_SHA").as_deref().and_then(commit),
        after: Some(after.ok_or_else(|| malformed(source, "CI_COMMIT_SHA"))?),
        default_branch: get("CI_DEFAULT_BRANCH"),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "1111111111111111111111111111111111111111";
    const BASE: &str = "2222222222222222222222222222222222222222";
    const TRIAL: &str = "3333333333333333333333333333333333333333";
    const ZEROS: &str = "0000000000000000000000000000000000000000";

    fn with(pairs: &[(&str, &str)]) -> Result<CiEvent, EventError> {
        read(|name| {
            let found = pairs.iter().rev().find(|(found, _)| *found == name);
            found.map(|(_, value)| (*value).to_owned()).filter(|value| !value.is_empty())
        })
    }

    const REQUEST: [(&str, &str); 8] = [
        ("CI_PIPELINE_SOURCE", "merge_request_event"),
        ("CI_MERGE_REQUEST_IID", "9"),
        ("CI_MERGE_REQUEST_PROJECT_ID", "1"),
        ("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "1"),
        ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
        ("CI_MERGE_REQUEST_DIFF_BASE_SHA", BASE),
        ("CI_COMMIT_SHA", HEAD),
        ("CI_COMMIT_BEFORE_SHA", ZEROS),
    ];

    fn request(more: &[(&str, &str)]) -> CiEvent {
        with(&[&REQUEST[..], more].concat()).unwrap()
    }

    #[test]
    fn a_merge_request_is_known_by_its_head() {
        let CiEvent::Request(found) = request(&[("CI_MERGE_REQUEST_EVENT_TYPE", "detached")]) else { panic!() };
        assert_eq!((found.number, found.head.as_str(), found.base_branch.as_str()), (9, HEAD, "main"));
        assert_eq!((found.base.as_deref(), found.from_fork), (Some(BASE), false));
        // Merged results: the job's own commit is on no branch.
        let CiEvent::Request(found) = request(&[
            ("CI_COMMIT_SHA", TRIAL),
            ("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", HEAD),
            ("CI_MERGE_REQUEST_EVENT_TYPE", "merged_result"),
        ]) else {
            panic!()
        };
        assert_eq!(found.head, HEAD);
        let CiEvent::Request(found) = request(&[("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "2")]) else { panic!() };
        assert!(found.from_fork);
        let CiEvent::Request(_) = request(&[("CI_PIPELINE_SOURCE", "parent_pipeline")]) else { panic!() };
    }

    #[test]
    fn a_merge_train_is_none_of_the_requests_pipelines() {
        let event = request(&[("CI_MERGE_REQUEST_EVENT_TYPE", "merge_train")]);
        assert!(matches!(&event, CiEvent::MergeTrain(request) if request.number == 9));
    }

    #[test]
    fn a_push_has_a_branch_and_its_commits() {
        let base = [
            ("CI_PIPELINE_SOURCE", "push"),
            ("CI_COMMIT_BRANCH", "main"),
            ("CI_COMMIT_SHA", HEAD),
            ("CI_COMMIT_BEFORE_SHA", BASE),
            ("CI_DEFAULT_BRANCH", "main"),
        ];
        let CiEvent::Push(push) = with(&base).unwrap() else { panic!() };
        assert_eq!(
            (push.branch.as_str(), push.before.as_deref(), push.after.as_deref()),
            ("main", Some(BASE), Some(HEAD))
        );
        let first = with(&[&base[..], &[("CI_COMMIT_BEFORE_SHA", ZEROS)]].concat()).unwrap();
        assert!(matches!(first, CiEvent::Push(PushEvent { before: None, .. })));
        let tag = with(&[&base[..], &[("CI_COMMIT_BRANCH", "")]].concat()).unwrap();
        assert_eq!(tag, CiEvent::Unknown { name: "push of a tag".into() });
        let below = with(&[&base[..], &[("CI_PIPELINE_SOURCE", "parent_pipeline")]].concat()).unwrap();
        assert!(matches!(below, CiEvent::Push(_)));
        let below =
            with(&[&base[..], &[("CI_PIPELINE_SOURCE", "parent_pipeline"), ("CI_COMMIT_BEFORE_SHA", ZEROS)]].concat());
        assert_eq!(below, Ok(CiEvent::Manual));
        assert!(with(&[&base[..], &[("CI_COMMIT_SHA", "x")]].concat()).is_err());
    }

    #[test]
    fn other_pipelines_are_known_by_their_source() {
        for (source, event) in [
            ("schedule", CiEvent::Schedule),
            ("web", CiEvent::Manual),
            ("api", CiEvent::Manual),
            ("trigger", CiEvent::Manual),
            ("external_pull_request_event", CiEvent::Unknown { name: "external_pull_request_event".into() }),
            ("", CiEvent::Unknown { name: "pipeline without a source".into() }),
        ] {
            assert_eq!(with(&[("CI_PIPELINE_SOURCE", source)]), Ok(event));
        }
    }

    #[test]
    fn a_request_that_lacks_something_is_refused_by_the_name_of_what_lacks() {
        for name in ["CI_COMMIT_SHA", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"] {
            let error = with(&[&REQUEST[..], &[(name, "")]].concat()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(with(&[&REQUEST[..], &[("CI_MERGE_REQUEST_IID", "9; id")]].concat()).is_err());
        assert!(with(&[&REQUEST[..], &[("CI_COMMIT_SHA", "HEAD")]].concat()).is_err());
    }

    proptest! {
        #[test]
        fn whatever_the_variables_hold_reading_them_ends_with_an_answer(values in proptest::collection::vec(".*", 8)) {
            let pairs: Vec<(&str, &str)> =
                REQUEST.iter().map(|(name, _)| *name).zip(values.iter().map(String::as_str)).collect();
            drop(with(&pairs));
        }
    }
}
