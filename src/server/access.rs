//! Who may ask: whoever has a token, about the states that it opens, as far as its role goes.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::answer::Answer;
use super::request::Asked;
use super::throttle::Throttle;
use crate::domain::id::{Actor, StateName};
use crate::domain::token::{Role, StatePattern, Token, TokenHash, TokenId, TokenName};
use crate::store::Store;
use crate::store::model::TokenStanding;

/// Which tokens there are.
pub struct Access(Tokens);

enum Tokens {
    /// One, for one state.
    One { state: StateName, reads: Vec<StateName>, hash: TokenHash },
    /// Those that the store knows.
    Stored(Box<Stored>),
}

struct Stored {
    throttle: Throttle,
    /// The tokens whose use is being noted: once is enough for all that come with it at the same time.
    noting: Mutex<HashSet<TokenId>>,
}

/// What somebody who has a token may do.
#[derive(Debug)]
pub(super) struct Pass {
    /// The token, where there are several.
    token: Option<(TokenId, TokenName)>,
    role: Role,
    states: States,
}

#[derive(Debug)]
enum States {
    One { own: StateName, reads: Vec<StateName> },
    Like(StatePattern),
}

impl Access {
    /// Gives all rights to one state to whoever has this token. Only its hash is kept.
    #[must_use]
    pub fn to(state: StateName, token: &Token) -> Self {
        Self(Tokens::One { state, reads: Vec::new(), hash: token.hash() })
    }

    /// Gives the right to read these states, too, where there is one token alone.
    #[must_use]
    pub fn reading(mut self, states: Vec<StateName>) -> Self {
        if let Tokens::One { reads, .. } = &mut self.0 {
            *reads = states;
        }
        self
    }

    /// Gives the tokens in the store the rights that they have there.
    #[must_use]
    pub fn stored() -> Self {
        Self(Tokens::Stored(Box::new(Stored { throttle: Throttle::new(), noting: Mutex::default() })))
    }

    /// Whether there is one token alone, which ends with the server.
    pub(super) fn is_for_one(&self) -> bool {
        matches!(self.0, Tokens::One { .. })
    }

    /// Finds out who asks.
    ///
    /// # Errors
    /// 401 without a token, with a wrong one, or with one whose time is over; 429 after far too many of those.
    pub(super) async fn admit(&self, store: &dyn Store, request: &Asked) -> Result<Pass, Answer> {
        let given = password(&request.headers).ok_or_else(|| Answer::text(401, "give the token as the password"))?;
        let token = Token::parse(&given);
        match &self.0 {
            Tokens::One { state, reads, hash } => {
                token.filter(|token| hash.is_of(token)).ok_or_else(not_right)?;
                Ok(Pass {
                    token: None,
                    role: Role::Admin,
                    states: States::One { own: state.clone(), reads: reads.clone() },
                })
            }
            Tokens::Stored(stored) => {
                // Whether it is right or not: the log says who tries.
                request.log.token(TokenId::shown_in(&given).as_ref());
                stored.admit(store, token, request.peer).await
            }
        }
    }
}

fn not_right() -> Answer {
    Answer::text(401, "the token is not right")
}

impl Stored {
    async fn admit(&self, store: &dyn Store, token: Option<Token>, peer: IpAddr) -> Result<Pass, Answer> {
        let id = token.as_ref().map(Token::id);
        let Some(token) = &token else {
            return Err(self.throttle.failed(peer, None, not_right()).await);
        };
        let found = {
            let _turn = self.throttle.turn(peer, token.id()).await;
            store.token_find(token.id()).await?
        };
        let Some(found) = found.filter(|found| found.hash.is_of(token)) else {
            return Err(self.throttle.failed(peer, id, not_right()).await);
        };
        let over = match found.standing() {
            TokenStanding::Valid => None,
            TokenStanding::Expired => Some("the token has expired"),
            TokenStanding::Revoked => Some("the token was revoked"),
        };
        if let Some(over) = over {
            return Err(self.throttle.failed(peer, id, Answer::text(401, over)).await);
        }
        self.throttle.passed(peer, token.id());
        if found.unused_for_a_minute() {
            self.note(store, token.id()).await;
        }
        Ok(Pass { token: Some((found.id, found.name)), role: found.role, states: States::Like(found.states) })
    }

    /// Notes the use of a token. What cannot be noted opens all the same.
    async fn note(&self, store: &dyn Store, id: &TokenId) {
        if !self.noting().insert(id.clone()) {
            return;
        }
        // Also when the client goes away meanwhile, and all of this is dropped.
        let _end = Noting(self, id);
        if let Err(error) = store.token_used(id).await {
            tracing::warn!(token = %id, %error, "the use of a token could not be noted");
        }
    }

    fn noting(&self) -> MutexGuard<'_, HashSet<TokenId>> {
        self.noting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The use of a token is being noted, until this is dropped.
struct Noting<'s>(&'s Stored, &'s TokenId);

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        self.0.noting().remove(self.1);
    }
}

impl Pass {
    /// Who acts: the token's name, and who the client says it is.
    pub(super) fn actor(&self, named: &str) -> Actor {
        let named = if named.is_empty() { "a plain terraform" } else { named };
        Actor(match &self.token {
            Some((_, name)) => format!("{} ({named})", name.as_str()),
            None => named.to_owned(),
        })
    }

    /// Refuses what the token does not allow.
    ///
    /// # Errors
    /// A sentence that says what it does allow.
    pub(super) fn allows(&self, role: Role, state: &StateName) -> Result<(), String> {
        let token = self
            .token
            .as_ref()
            .map_or_else(|| "the token".to_owned(), |(id, name)| format!("the token {:?} ({id})", name.as_str()));
        match &self.states {
            States::One { own, .. } if own == state => {}
            States::One { reads, .. } if role == Role::Read && reads.contains(state) => {}
            States::One { own, reads } => {
                let what = if reads.contains(state) { "to write" } else { "for" };
                let (asked, own) = (state.as_str(), own.as_str());
                return Err(format!("{token} is not {what} the state {asked:?}, but for {own:?} alone"));
            }
            States::Like(pattern) if pattern.covers(state) => {}
            States::Like(pattern) => {
                return Err(format!("{token} is for states like {:?}, not for {:?}", pattern.as_str(), state.as_str()));
            }
        }
        if self.role >= role {
            return Ok(());
        }
        Err(match role {
            Role::Read | Role::Write => format!("{token} may only read; -lock=false lets terraform plan with it"),
            Role::Admin => format!("{token} may {}, and this needs the role admin", self.role),
        })
    }
}

/// The password of basic authentication; the user's name says nothing.
fn password(headers: &HeaderMap) -> Option<String> {
    let (scheme, encoded) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_basic_authentication_has_a_password() {
        let password = |header: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, header.parse().unwrap());
            super::password(&headers)
        };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(password(&basic("kl:the:token")).as_deref(), Some("the:token"));
        assert_eq!(password(&basic(":token").replace("Basic", "basic")).as_deref(), Some("token"));
        for none in [basic("token"), "Basic ?".into(), "Bearer the:token".into(), "Basic".into(), String::new()] {
            assert_eq!(password(&none), None, "{none}");
        }
        assert_eq!(super::password(&HeaderMap::new()), None);
    }

    #[test]
    fn a_pass_opens_its_states_as_far_as_its_role_goes() {
        let state = |name: &str| StateName::new(name).unwrap();
        let pass = |role| Pass {
            token: Some((Token::of([1; 8], [2; 32]).id().clone(), TokenName::new("ci").unwrap())),
            role,
            states: States::Like(StatePattern::new("live/*").unwrap()),
        };
        for (has, may) in [(Role::Read, 1), (Role::Write, 2), (Role::Admin, 3)] {
            let allowed = Role::ALL.into_iter().filter(|role| pass(has).allows(*role, &state("live/web")).is_ok());
            assert_eq!(allowed.count(), may, "{has}");
            assert!(pass(has).allows(Role::Read, &state("live")).unwrap_err().contains("like \"live/*\""));
        }
        let said = pass(Role::Read).allows(Role::Write, &state("live/web")).unwrap_err();
        assert!(said.contains("\"ci\" (0101010101010101) may only read"), "{said}");
        let one = States::One { own: state("live"), reads: vec![state("network")] };
        let one = Pass { token: None, role: Role::Admin, states: one };
        assert!(one.allows(Role::Admin, &state("live")).is_ok() && one.allows(Role::Read, &state("Live")).is_err());
        assert!(one.allows(Role::Read, &state("network")).is_ok());
        assert!(one.allows(Role::Write, &state("network")).unwrap_err().contains("not to write the state \"network\""));
        assert_eq!(pass(Role::Read).actor("alice@laptop").0, "ci (alice@laptop)");
        assert_eq!(one.actor("").0, "a plain terraform");
    }
}
