//! Who may ask: whoever knows the token, about the state that it is for.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::answer::Answer;
use super::route::Verb;
use crate::domain::id::StateName;

/// The right to one state, for whoever knows a token.
pub struct Access {
    state: StateName,
    reads: Vec<StateName>,
    token: [u8; 32],
}

impl Access {
    /// Gives the right to a state to whoever knows the token. Only its hash is kept.
    #[must_use]
    pub fn to(state: StateName, token: &str) -> Self {
        Self { state, reads: Vec::new(), token: Sha256::digest(token.as_bytes()).into() }
    }

    /// Gives the right to read these states, too.
    #[must_use]
    pub fn reading(mut self, states: Vec<StateName>) -> Self {
        self.reads = states;
        self
    }

    /// Refuses a request that has no right to do this with a state.
    ///
    /// # Errors
    /// 401 without the token, 403 for another state.
    pub fn check(&self, headers: &HeaderMap, verb: Verb, state: &StateName) -> Result<(), Answer> {
        let given = password(headers).ok_or_else(|| Answer::text(401, "give the token as the password"))?;
        if !same(&Sha256::digest(given.as_bytes()).into(), &self.token) {
            return Err(Answer::text(401, "the token is not right"));
        }
        if *state == self.state || (verb == Verb::Read && self.reads.contains(state)) {
            return Ok(());
        }
        let what = if self.reads.contains(state) { "to write" } else { "for" };
        let (asked, own) = (state.as_str(), self.state.as_str());
        Err(Answer::text(403, format!("the token is not {what} the state {asked:?}, but for {own:?} alone")))
    }
}

/// Compares all of two digests, however early they differ.
fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
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

    fn status(header: Option<&str>, state: &str) -> u16 {
        asked(header, Verb::Write, state)
    }

    fn asked(header: Option<&str>, verb: Verb, state: &str) -> u16 {
        let name = |name| StateName::new(name).unwrap();
        let access = Access::to(name("prod"), "the:token").reading(vec![name("network")]);
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, header.parse().unwrap());
        }
        access.check(&headers, verb, &name(state)).err().map_or(200, |answer| answer.status)
    }

    #[test]
    fn only_the_token_opens_only_its_state() {
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(status(Some(&basic("kl:the:token")), "prod"), 200);
        assert_eq!(status(Some(&basic(":the:token").replace("Basic", "basic")), "prod"), 200);
        assert_eq!(status(Some(&basic("kl:the:token")), "Prod"), 403);
        for wrong in [basic("kl:the:toke"), basic("kl:"), basic("kl"), "Basic ?".into(), "Bearer the:token".into()] {
            assert_eq!(status(Some(&wrong), "prod"), 401, "{wrong}");
        }
        assert_eq!(status(None, "prod"), 401);
    }

    #[test]
    fn other_states_can_be_opened_to_read() {
        let header = format!("Basic {}", STANDARD.encode("kl:the:token"));
        for (verb, state, expected) in [
            (Verb::Read, "network", 200),
            (Verb::Read, "dns", 403),
            (Verb::Write, "network", 403),
            (Verb::Lock, "network", 403),
            (Verb::Read, "prod", 200),
        ] {
            assert_eq!(asked(Some(&header), verb, state), expected, "{verb:?} {state}");
        }
        assert_eq!(asked(None, Verb::Read, "network"), 401);
    }
}
