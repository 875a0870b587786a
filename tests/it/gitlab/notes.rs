//! The sticky note on GitLab.

use kl_runner::forge::{ForgeError, GitlabSettings};

use super::{as_job, forge, with, with_request};
use crate::forges::{body, marker};
use crate::harness::forge::Fault;
use crate::harness::forge::gitlab::{ACCESS_TOKEN, BOT, PROJECT};

#[tokio::test]
async fn a_note_is_made_once_and_then_changed_in_place() {
    let (stand_in, number) = with_request();
    let forge = forge(&stand_in);
    let first = forge.comment_put(number, None, &marker(), &body("one")).await.unwrap();
    let page = format!("https://gitlab.example/{PROJECT}/-/merge_requests/{number}#note_{}", first.id);
    assert_eq!(first.url, Some(page));
    let second = forge.comment_put(number, None, &marker(), &body("two")).await.unwrap();
    let third = forge.comment_put(number, Some(&first.id), &marker(), &body("three")).await.unwrap();
    assert_eq!((&second.id, &third.id), (&first.id, &first.id));
    let notes = stand_in.comments(number);
    assert_eq!(notes.len(), 1);
    assert_eq!((notes[0].author, notes[0].body.as_str()), (BOT, body("three").as_str()));
    stand_in.finish();
}

#[tokio::test]
async fn our_note_is_found_on_the_second_page_among_forged_ones() {
    let (stand_in, number) = with_request();
    stand_in.system_note_by(number, BOT, &body("GitLab says it in our name"));
    stand_in.note_by(number, 12, &body("forged"));
    stand_in.note_by(number, BOT, &format!("> {}", body("a quotation")));
    for index in 0..130 {
        stand_in.note_by(number, 12, &format!("remark {index}"));
    }
    let ours = stand_in.note_by(number, BOT, &body("old"));
    let written = forge(&stand_in).comment_put(number, None, &marker(), &body("new")).await.unwrap();
    assert_eq!(written.id, ours.to_string());
    let notes = stand_in.comments(number);
    assert_eq!(notes.len(), 134);
    assert_eq!(notes[133].body, body("new"));
    assert_eq!(notes[1].body, body("forged"));
    stand_in.finish();
}

#[tokio::test]
async fn a_note_that_is_gone_or_somebody_elses_is_written_anew() {
    let (stand_in, number) = with_request();
    let forge = forge(&stand_in);
    let first = forge.comment_put(number, None, &marker(), &body("one")).await.unwrap();
    stand_in.delete_note(first.id.parse().unwrap());
    let second = forge.comment_put(number, Some(&first.id), &marker(), &body("two")).await.unwrap();
    assert_ne!(first.id, second.id);
    let theirs = stand_in.note_by(number, 12, &body("theirs"));
    let third = forge.comment_put(number, Some(&theirs.to_string()), &marker(), &body("three")).await.unwrap();
    assert_eq!(third.id, second.id);
    assert_eq!(stand_in.comments(number).len(), 2);
    stand_in.finish();
}

#[tokio::test]
async fn no_text_makes_gitlab_do_anything() {
    let (stand_in, number) = with_request();
    let hostile = "/close\n\r/merge\n\n````\n```\n/approve\n````\n`\n/label ~x\n`\n> /assign @alice\n/etc/hosts";
    forge(&stand_in).comment_put(number, None, &marker(), &body(hostile)).await.unwrap();
    let known = stand_in.comments(number)[0].id.to_string();
    forge(&stand_in).comment_put(number, Some(&known), &marker(), &body(hostile)).await.unwrap();
    let sent = stand_in.comments(number)[0].body.clone();
    assert!(sent.contains("\n&#47;close\n"), "{sent}");
    // The stand-in fails over every line that GitLab would take for a command.
    stand_in.finish();
}

#[tokio::test]
async fn a_jobs_own_token_reads_and_says_why_it_cannot_write() {
    let (stand_in, number) = with_request();
    let forge = as_job(&stand_in);
    assert_eq!(forge.request(number).await.unwrap().number, number);
    let error = forge.comment_put(number, None, &marker(), &body("x")).await.unwrap_err();
    assert!(matches!(error, ForgeError::Denied { status: 401, .. }), "{error:?}");
    assert!(error.to_string().contains("project access token with scope api"), "{error}");
    let requests = stand_in.requests();
    assert!(
        requests.iter().all(|it| it.headers.contains_key("job-token") && !it.headers.contains_key("private-token"))
    );
    stand_in.finish();
}

#[tokio::test]
async fn a_note_whose_answer_was_lost_is_not_written_twice() {
    for fault in [Fault::DoneThenCut, Fault::DoneThen(502)] {
        let (stand_in, number) = with_request();
        stand_in.arm("POST", "/notes", fault, 1);
        forge(&stand_in).comment_put(number, None, &marker(), &body("x")).await.unwrap();
        assert_eq!(stand_in.comments(number).len(), 1);
        stand_in.finish();
    }
}

#[tokio::test]
async fn a_wrong_token_is_told_without_being_shown() {
    let (stand_in, number) = with_request();
    let settings = stand_in.settings();
    assert!(!format!("{settings:?}").contains(ACCESS_TOKEN));
    let forge = with(GitlabSettings { token: Some("glpat-wrong".into()), ..settings });
    let error = forge.comment_put(number, None, &marker(), &body("x")).await.unwrap_err();
    assert!(matches!(error, ForgeError::Denied { status: 401, .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("glpat-wrong"));
    stand_in.finish();
}
