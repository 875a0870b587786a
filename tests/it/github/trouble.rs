//! GitHub when it fails: limits, cut and slow connections, bad settings; and no token in any word about it.

use std::time::{Duration, Instant};

use kl_runner::forge::{ForgeError, ForgeSettings, Patience, connect};

use super::{forge, hasty, with, with_request};
use crate::harness::forge::Fault;
use crate::harness::forge::github::{GithubStandIn, JOB_TOKEN};

#[tokio::test]
async fn trouble_that_passes_is_outlasted() {
    for fault in [
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
        Fault::Status(429),
        Fault::SecondaryLimit { retry_after: 3 },
        Fault::UsedUp { reset: 4 },
        Fault::Cut,
    ] {
        let (stand_in, number) = with_request();
        stand_in.arm("GET", "/pulls/", fault, 2);
        assert_eq!(forge(&stand_in).request(number).await.unwrap().number, number);
        assert_eq!(stand_in.requests().len(), 3);
        stand_in.finish();
    }
}

#[tokio::test]
async fn a_limit_is_waited_for_as_long_as_it_asks() {
    let (stand_in, number) = with_request();
    stand_in.arm("POST", "/comments", Fault::SecondaryLimit { retry_after: 60 }, 1);
    let began = Instant::now();
    forge(&stand_in).comment_put(number, None, "<!-- m -->", "<!-- m -->\nx").await.unwrap();
    // Here, a second of the forge takes a millisecond.
    assert!(began.elapsed() >= Duration::from_millis(60));
    assert_eq!(stand_in.comments(number).len(), 1);
    stand_in.finish();
}

#[tokio::test]
async fn a_limit_that_lasts_too_long_is_not_waited_for() {
    let (stand_in, number) = with_request();
    stand_in.arm("GET", "/pulls/", Fault::UsedUp { reset: 3_000 }, 1);
    let patience = Patience { total: Duration::from_secs(2), ..hasty() };
    let forge = connect(&ForgeSettings::Github(stand_in.settings()), patience).unwrap();
    let began = Instant::now();
    let error = forge.request(number).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(matches!(error, ForgeError::Unavailable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("API rate limit exceeded") && text.contains("asks to wait for"), "{text}");
    stand_in.finish();
}

#[tokio::test]
async fn a_forge_that_is_down_is_given_up_in_time() {
    let (stand_in, number) = with_request();
    stand_in.arm("GET", "/pulls/", Fault::Status(502), 1_000_000);
    let patience = Patience { total: Duration::from_secs(1), ..hasty() };
    let forge = connect(&ForgeSettings::Github(stand_in.settings()), patience).unwrap();
    let error = forge.request(number).await.unwrap_err();
    assert!(matches!(error, ForgeError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("read #1"), "{error}");
    assert!(stand_in.requests().len() > 3);
    stand_in.disarm();
    stand_in.finish();
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_asked_for_again() {
    let (stand_in, number) = with_request();
    stand_in.arm("GET", "/pulls/", Fault::Slow(Duration::from_secs(30)), 1);
    let patience = Patience { answer: Duration::from_millis(100), ..hasty() };
    let forge = connect(&ForgeSettings::Github(stand_in.settings()), patience).unwrap();
    assert_eq!(forge.request(number).await.unwrap().number, number);
    stand_in.finish();
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address() {
    let stand_in = GithubStandIn::start();
    let mut settings = stand_in.settings();
    stand_in.finish();
    settings.api_url = "http://127.0.0.1:1".into();
    let patience = Patience { total: Duration::from_millis(50), ..hasty() };
    let error = connect(&ForgeSettings::Github(settings), patience).unwrap().request(1).await.unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn no_word_about_a_token_holds_it() {
    let (stand_in, number) = with_request();
    let settings = stand_in.settings();
    assert!(!format!("{settings:?}").contains(JOB_TOKEN));
    let mut wrong = settings.clone();
    wrong.token = Some("ghs_wrong".into());
    let error = with(wrong).request(number).await.unwrap_err();
    assert!(matches!(error, ForgeError::Denied { status: 401, .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("ghs_wrong"));
    let mut broken = settings;
    broken.token = Some("two\nlines".into());
    let error = connect(&ForgeSettings::Github(broken), hasty()).map(drop).unwrap_err();
    assert!(matches!(error, ForgeError::Unusable { .. }), "{error:?}");
    assert!(!error.to_string().contains("two"), "{error}");
    stand_in.finish();
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_at_once() {
    let stand_in = GithubStandIn::start();
    let refused = |change: fn(&mut kl_runner::forge::GithubSettings)| {
        let mut settings = stand_in.settings();
        change(&mut settings);
        connect(&ForgeSettings::Github(settings), hasty()).map(drop).unwrap_err().to_string()
    };
    assert!(refused(|it| it.api_url = "github".into()).contains("GITHUB_API_URL"));
    assert!(refused(|it| it.graphql_url = Some("x".into())).contains("GITHUB_GRAPHQL_URL"));
    for name in ["infra", "a/b/c", "/x", ""] {
        let mut settings = stand_in.settings();
        settings.repository = name.into();
        let error = connect(&ForgeSettings::Github(settings), hasty()).map(drop).unwrap_err().to_string();
        assert!(error.contains("owner/name"), "{error}");
    }
    assert!(refused(|it| it.certificates = Some(b"-----BEGIN CERTIFICATE-----\n!\n".to_vec())).contains("PEM"));
    stand_in.finish();
}
