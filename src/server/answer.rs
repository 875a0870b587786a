//! What a request is answered: a status, a body, and the words for errors of the store, without its internals.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};

use crate::store::StoreError;

/// Refusals whose text Terraform does not show, while it asks nobody again: of a write it prints the number alone.
const UNSHOWN: [u16; 5] = [400, 403, 405, 409, 413];

/// The scheme of an address that nobody can go to.
const NOWHERE: &str = "refused-by-kl";

/// So much of a reason stands in an address.
const LONGEST_ADDRESS: usize = 1_000;

/// Whom an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// A client that does as it likes with the body.
    Any,
    /// A Terraform or OpenTofu, in whose terminal the refusal has to be understood.
    Terraform,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
    /// Whether the body is JSON; else it is text for people.
    pub json: bool,
    /// After how long the client may ask again, where it had better wait.
    pub after: Option<Duration>,
    /// Why it is a refusal, where the body does not say that in so many words.
    told: Option<String>,
}

impl Answer {
    /// A sentence for people.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, body: text.into() + "\n", json: false, after: None, told: None }
    }

    /// A document.
    pub fn json(status: u16, text: String) -> Self {
        Self { status, body: text, json: true, after: None, told: None }
    }

    /// Done, and there is nothing to say.
    pub fn done() -> Self {
        Self { status: 200, body: String::new(), json: false, after: None, told: None }
    }

    /// The same, and the client had better wait for so long.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self { after: Some(wait), ..self }
    }

    /// The same, and this is what it says.
    #[must_use]
    pub(super) fn because(self, story: &str) -> Self {
        Self { told: Some(story.to_owned()), ..self }
    }

    /// Why something was refused, for the log: Terraform shows the text of few refusals.
    pub(super) fn reason(&self) -> Option<&str> {
        let told = self.told.as_deref().unwrap_or(if self.json { "" } else { self.body.trim_end() });
        Some(told).filter(|told| self.status >= 400 && !told.is_empty())
    }

    /// The answer as it is sent. Of an answer to a write Terraform prints the number alone, but of an address that it is
    /// sent on to and cannot go to it prints all: so a refusal becomes one.
    pub(super) fn for_reader(self, reader: Reader) -> Response<Body> {
        let told =
            self.reason().filter(|_| reader == Reader::Terraform && !self.json && UNSHOWN.contains(&self.status));
        let location = told.and_then(nowhere);
        let mut response = Response::from(self);
        if let Some(location) = location {
            *response.status_mut() = StatusCode::SEE_OTHER;
            response.headers_mut().insert(LOCATION, location);
        }
        response
    }

    /// The answer for an error of the store. Clients try again on 503.
    pub fn of(error: &StoreError) -> Self {
        match error {
            StoreError::NotFound { .. } => Self::text(404, error.to_string()),
            StoreError::Stale(_) | StoreError::LeaseLost { .. } | StoreError::HistoryRemoved { .. } => {
                Self::text(409, error.to_string())
            }
            StoreError::Corrupt(_) => {
                tracing::error!(error = error as &dyn std::error::Error, "the database holds what cannot be read");
                Self::text(500, "what the database holds cannot be read; kl's log says what")
            }
            other => {
                tracing::error!(error = other as &dyn std::error::Error, "the database failed");
                Self::text(503, "the database cannot be asked now; kl's log says why")
            }
        }
    }
}

/// An address that says why something was refused. Go keeps what follows the scheme as it is, up to a fragment.
fn nowhere(told: &str) -> Option<HeaderValue> {
    let plain = |letter: char| match letter {
        '#' => '/',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    let told: String = told.chars().take(LONGEST_ADDRESS).map(plain).collect();
    HeaderValue::from_bytes(format!("{NOWHERE}: {told}").as_bytes()).ok()
}

impl From<StoreError> for Answer {
    fn from(error: StoreError) -> Self {
        Self::of(&error)
    }
}

/// The MD5 digest of a text as HTTP has it: Terraform sends one with each state, and looks at the one that it gets.
pub(super) fn md5(bytes: &[u8]) -> String {
    STANDARD.encode(Md5::digest(bytes))
}

impl From<Answer> for Response<Body> {
    fn from(answer: Answer) -> Self {
        let kind = if answer.json { "application/json" } else { "text/plain; charset=utf-8" };
        let digest = answer.json.then(|| md5(answer.body.as_bytes()));
        let mut response = Self::new(Body::from(answer.body));
        *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(digest) = digest.and_then(|digest| HeaderValue::try_from(digest).ok()) {
            headers.insert(HeaderName::from_static("content-md5"), digest);
        }
        if let Some(after) = answer.after {
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if answer.status == 401 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"kl\""));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_terraform_would_not_show_is_an_address_for_it() {
        let refused = |answer: &Answer, reader| {
            let response = answer.clone().for_reader(reader);
            let location =
                response.headers().get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into());
            (response.status().as_u16(), location)
        };
        let told = Answer::text(409, "another lock is held: ü\n#1");
        let location: Option<String> = Some("refused-by-kl: another lock is held: ü /1".to_owned());
        assert_eq!(refused(&told, Reader::Terraform), (303, location));
        assert_eq!(refused(&told, Reader::Any), (409, None));
        // A lock document is shown, a login is asked for, a state is not there, and who waits asks again.
        for shown in [Answer::json(423, "{}".to_owned()).because("x"), Answer::json(409, "{}".to_owned()).because("x")]
        {
            assert_eq!(refused(&shown, Reader::Terraform), (shown.status, None));
        }
        for status in [200, 401, 404, 429, 499, 500, 503] {
            assert_eq!(refused(&Answer::text(status, "x"), Reader::Terraform), (status, None));
        }
    }
}
