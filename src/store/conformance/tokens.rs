//! Tokens of the HTTP backend: what is kept of them, and when they end.

use std::sync::Arc;
use std::time::Duration;

use super::fixture::Fixture;
use crate::domain::id::Actor;
use crate::domain::token::{Role, StatePattern, Token, TokenName};
use crate::store::StoreError;
use crate::store::model::{NewToken, StoredToken, TokenMade, TokenStanding};

fn alice() -> Actor {
    Actor("alice".to_owned())
}

/// A token with this name, out of this byte.
fn new(name: &str, byte: u8) -> (Token, NewToken) {
    let token = Token::of([byte; 8], [byte ^ 0xf0; 32]);
    let kept = NewToken {
        id: token.id().clone(),
        name: TokenName::new(name).unwrap(),
        role: Role::Write,
        states: StatePattern::new("live/**").unwrap(),
        hash: token.hash(),
        lifetime: None,
        by: alice(),
    };
    (token, kept)
}

#[track_caller]
fn made(made: Result<TokenMade, StoreError>) -> StoredToken {
    match made.unwrap() {
        TokenMade::Made(token) => token,
        TokenMade::NameTaken(by) => panic!("taken by {by}"),
    }
}

pub(super) async fn a_token_comes_back_as_it_was_made(f: &Fixture) {
    let (token, kept) = new("CI of \"live\" 🚀", 1);
    let before = made(f.store.token_insert(&kept).await);
    assert!(before.hash.is_of(&token) && before.standing() == TokenStanding::Valid);
    assert_eq!((before.role, before.states.as_str(), &before.created_by), (Role::Write, "live/**", &alice()));
    assert_eq!((before.expires_at, before.last_used_at, before.revoked_at), (None, None, None));
    let (_, other) = new("other", 2);
    f.tick().await;
    drop(made(f.store.token_insert(&other).await));
    let listed = f.another().await.token_list().await.unwrap();
    assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&kept.id, &other.id]);
    let found = f.store.token_find(&kept.id).await.unwrap().unwrap();
    assert_eq!(StoredToken { now: before.now, ..found }, before);
    assert_eq!(f.store.token_find(Token::of([3; 8], [1; 32]).id()).await.unwrap(), None);
    // The secret stands nowhere.
    let secret = token.expose();
    let columns = ["id", "name", "role", "states", "hash", "created_by"];
    for column in columns {
        let values = f.sql(&format!("SELECT {column} FROM access_tokens")).await.unwrap();
        assert!(
            !values.iter().any(|value| secret[21..].contains(value) || value.contains(&secret[21..])),
            "{values:?}"
        );
    }
}

pub(super) async fn of_tokens_that_are_not_revoked_no_two_have_the_same_name(f: &Fixture) {
    let (_, first) = new("ci", 1);
    drop(made(f.store.token_insert(&first).await));
    // An answer that got lost: the same one again is not a second one.
    let again = f.store.token_insert(&first).await.map(drop).unwrap_err();
    assert!(matches!(again, StoreError::Stale(_)), "{again:?}");
    let (_, second) = new("ci", 2);
    assert!(matches!(f.store.token_insert(&second).await, Ok(TokenMade::NameTaken(id)) if id == first.id));
    drop(f.store.token_revoke(&first.id, &alice()).await.unwrap());
    drop(made(f.store.token_insert(&second).await));

    let tasks: Vec<_> = (10..18)
        .map(|byte| {
            let store = Arc::clone(&f.store);
            tokio::spawn(async move { store.token_insert(&new("race", byte).1).await.unwrap() })
        })
        .collect();
    let mut winners = 0;
    for task in tasks {
        winners += usize::from(matches!(task.await.unwrap(), TokenMade::Made(_)));
    }
    assert_eq!(winners, 1);
}

pub(super) async fn a_token_ends_by_its_time_or_when_it_is_revoked(f: &Fixture) {
    let (_, brief) = new("brief", 1);
    let brief = NewToken { lifetime: Some(Duration::from_hours(1)), ..brief };
    let token = made(f.store.token_insert(&brief).await);
    assert_eq!(token.expires_at.unwrap() - token.created_at, chrono::TimeDelta::hours(1));
    assert_eq!(token.standing(), TokenStanding::Valid);
    f.sql("UPDATE access_tokens SET expires_at = created_at").await.unwrap();
    let token = f.store.token_find(&brief.id).await.unwrap().unwrap();
    assert_eq!(token.standing(), TokenStanding::Expired);

    let bob = Actor("bob".to_owned());
    let token = f.store.token_revoke(&brief.id, &bob).await.unwrap();
    assert_eq!((token.standing(), token.revoked_by.as_ref()), (TokenStanding::Revoked, Some(&bob)));
    f.tick().await;
    let again = f.store.token_revoke(&brief.id, &alice()).await.unwrap();
    assert_eq!((again.revoked_at, again.revoked_by), (token.revoked_at, Some(bob)));
    let none = f.store.token_revoke(Token::of([9; 8], [9; 32]).id(), &alice()).await.unwrap_err();
    assert!(matches!(none, StoreError::NotFound { what: "token", .. }), "{none:?}");
}

pub(super) async fn the_use_of_a_token_is_noted(f: &Fixture) {
    let (_, kept) = new("ci", 1);
    assert!(made(f.store.token_insert(&kept).await).unused_for_a_minute());
    f.store.token_used(&kept.id).await.unwrap();
    let token = f.store.token_find(&kept.id).await.unwrap().unwrap();
    assert!(token.last_used_at.unwrap() >= token.created_at && !token.unused_for_a_minute());
    let span = if f.is_sqlite() { "120000000" } else { "interval '2 minutes'" };
    f.sql(&format!("UPDATE access_tokens SET last_used_at = created_at - {span}")).await.unwrap();
    assert!(f.store.token_find(&kept.id).await.unwrap().unwrap().unused_for_a_minute());
    f.store.token_used(Token::of([9; 8], [9; 32]).id()).await.unwrap();
}
