//! The sticky comment on GitHub.

use kl_runner::forge::{ForgeError, comment_marker};

use super::{forge, with, with_request};
use crate::forges::{body, marker};
use crate::harness::forge::Fault;
use crate::harness::forge::github::{ALICES_TOKEN, Permission};

const US: &str = "github-actions[bot]";

#[tokio::test]
async fn a_comment_is_made_once_and_then_changed_in_place() {
    let (stand_in, number) = with_request();
    let forge = forge(&stand_in);
    let first = forge.comment_put(number, None, &marker(), &body("one")).await.unwrap();
    assert!(first.url.as_deref().unwrap().ends_with(&format!("issuecomment-{}", first.id)));
    let second = forge.comment_put(number, None, &marker(), &body("two")).await.unwrap();
    let third = forge.comment_put(number, Some(&first.id), &marker(), &body("three")).await.unwrap();
    assert_eq!((&second.id, &third.id), (&first.id, &first.id));
    let comments = stand_in.comments(number);
    assert_eq!(comments.len(), 1);
    assert_eq!((comments[0].author.as_str(), comments[0].body.as_str()), (US, body("three").as_str()));
    stand_in.finish();
}

#[tokio::test]
async fn our_comment_is_found_on_the_second_page_of_137() {
    let (stand_in, number) = with_request();
    let mut ours = 0;
    for index in 0..137 {
        let id = if index == 120 {
            stand_in.comment_by(number, US, &body("old"))
        } else {
            stand_in.comment_by(number, "bob", &format!("remark {index}"))
        };
        ours = if index == 120 { id } else { ours };
    }
    let written = forge(&stand_in).comment_put(number, None, &marker(), &body("new")).await.unwrap();
    assert_eq!(written.id, ours.to_string());
    let comments = stand_in.comments(number);
    assert_eq!(comments.len(), 137);
    assert_eq!(comments[120].body, body("new"));
    stand_in.finish();
}

#[tokio::test]
async fn forged_markers_are_nobodys() {
    let (stand_in, number) = with_request();
    let other = comment_marker("staging");
    for (author, text) in [
        ("mallory", body("forged: everything is fine")),
        ("github-actions", body("a name that looks like ours")),
        (US, format!("A job of another tool quotes:\n{}", body("x"))),
        (US, format!("> {}", body("x"))),
        (US, format!("{other}\nthe comment of another database")),
    ] {
        stand_in.comment_by(number, author, &text);
    }
    forge(&stand_in).comment_put(number, None, &marker(), &body("ours")).await.unwrap();
    let comments = stand_in.comments(number);
    assert_eq!(comments.len(), 6);
    assert_eq!(comments[5].body, body("ours"));
    assert_eq!(comments[0].body, body("forged: everything is fine"));
    stand_in.finish();
}

#[tokio::test]
async fn a_deleted_comment_is_written_anew() {
    let (stand_in, number) = with_request();
    let forge = forge(&stand_in);
    let first = forge.comment_put(number, None, &marker(), &body("one")).await.unwrap();
    stand_in.delete_comment(first.id.parse().unwrap());
    let second = forge.comment_put(number, Some(&first.id), &marker(), &body("two")).await.unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(stand_in.comments(number).len(), 1);
    stand_in.finish();
}

#[tokio::test]
async fn a_locked_request_is_told_from_a_failure() {
    let (stand_in, number) = with_request();
    stand_in.lock(number);
    let error = forge(&stand_in).comment_put(number, None, &marker(), &body("x")).await.unwrap_err();
    assert!(matches!(error, ForgeError::Denied { status: 403, .. }), "{error:?}");
    assert!(error.to_string().contains("write the comment on #1"), "{error}");
    assert!(error.to_string().contains("issue is locked"), "{error}");
    stand_in.finish();
}

#[tokio::test]
async fn a_token_that_may_not_write_is_told_what_to_do() {
    let (stand_in, number) = with_request();
    stand_in.deny(Permission::Comments);
    let error = forge(&stand_in).comment_put(number, None, &marker(), &body("x")).await.unwrap_err();
    assert!(error.to_string().contains("Resource not accessible by integration"), "{error}");
    assert!(error.to_string().contains("kl doctor"), "{error}");
    stand_in.finish();
}

#[tokio::test]
async fn a_persons_token_finds_the_comments_of_that_person() {
    let (stand_in, number) = with_request();
    stand_in.comment_by(number, US, &body("by a job"));
    let hers = stand_in.comment_by(number, "alice", &body("by alice"));
    let mut settings = stand_in.settings();
    settings.token = Some(ALICES_TOKEN.into());
    let written = with(settings).comment_put(number, None, &marker(), &body("new")).await.unwrap();
    assert_eq!(written.id, hers.to_string());
    assert_eq!(stand_in.comments(number)[0].body, body("by a job"));
    stand_in.finish();
}

#[tokio::test]
async fn without_graphql_the_author_is_found_in_other_ways() {
    for (token, author) in [(None, US), (Some(ALICES_TOKEN), "alice")] {
        let (stand_in, number) = with_request();
        stand_in.deny(Permission::Graphql);
        let ours = stand_in.comment_by(number, author, &body("old"));
        let mut settings = stand_in.settings();
        settings.token = token.map(Into::into).or(settings.token);
        let written = with(settings).comment_put(number, None, &marker(), &body("new")).await.unwrap();
        assert_eq!(written.id, ours.to_string());
        assert_eq!(stand_in.comments(number).len(), 1);
        stand_in.finish();
    }
}

#[tokio::test]
async fn a_comment_whose_answer_was_lost_is_not_written_twice() {
    for fault in [Fault::DoneThenCut, Fault::DoneThen(502)] {
        let (stand_in, number) = with_request();
        stand_in.arm("POST", "/comments", fault, 1);
        forge(&stand_in).comment_put(number, None, &marker(), &body("x")).await.unwrap();
        assert_eq!(stand_in.comments(number).len(), 1);
        stand_in.finish();
    }
}

#[tokio::test]
async fn a_comment_that_is_too_long_is_refused_by_name() {
    let (stand_in, number) = with_request();
    let error = forge(&stand_in).comment_put(number, None, &marker(), &body(&"x".repeat(262_145))).await.unwrap_err();
    assert!(matches!(error, ForgeError::Refused { status: 422, .. }), "{error:?}");
    assert!(error.to_string().contains("too long"), "{error}");
    stand_in.finish();
}

#[tokio::test]
async fn a_body_that_lost_its_marker_gets_it_back() {
    let (stand_in, number) = with_request();
    forge(&stand_in).comment_put(number, None, &marker(), "no marker").await.unwrap();
    assert_eq!(stand_in.comments(number)[0].body, body("no marker"));
    stand_in.finish();
}
