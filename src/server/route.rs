//! From method and path to what is asked for.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::answer::Answer;
use crate::domain::coordination::lock::LockId;
use crate::domain::id::StateName;
use crate::domain::token::Role;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Whether the server lives.
    Health,
    /// Whether it can answer: whether the database can.
    Ready,
    /// Something about a state.
    State {
        /// What.
        verb: Verb,
        /// Which state.
        name: StateName,
        /// The lock that the client holds (`?ID=`).
        lock: Option<LockId>,
    },
}

/// What is to be done with a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Read it.
    Read,
    /// Write it.
    Write,
    /// Remove all of its rows.
    Remove,
    /// Lock it.
    Lock,
    /// Unlock it.
    Unlock,
}

impl Verb {
    /// What a token has to allow for it. To take a lock away needs more than to give one back: that shows in the body only.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Read => Role::Read,
            Self::Write | Self::Lock | Self::Unlock => Role::Write,
            Self::Remove => Role::Admin,
        }
    }
}

/// The path below which all states are.
pub const STATES: &str = "/states";

/// The path of a state.
#[must_use]
pub fn path(name: &StateName) -> String {
    format!("{STATES}/{}", utf8_percent_encode(name.as_str(), NON_ALPHANUMERIC))
}

/// The environment by which a Terraform whose configuration says `backend "http" {}` finds a state at this address.
#[must_use]
pub fn environment<'a>(address: &'a str, token: &'a str) -> [(&'static str, &'a str); 8] {
    [
        ("TF_HTTP_ADDRESS", address),
        ("TF_HTTP_LOCK_ADDRESS", address),
        ("TF_HTTP_UNLOCK_ADDRESS", address),
        ("TF_HTTP_UPDATE_METHOD", "POST"),
        ("TF_HTTP_LOCK_METHOD", "LOCK"),
        ("TF_HTTP_UNLOCK_METHOD", "UNLOCK"),
        ("TF_HTTP_USERNAME", "kl"),
        ("TF_HTTP_PASSWORD", token),
    ]
}

/// Finds out what is asked for.
///
/// # Errors
/// 404 for another path, 405 for a method that it does not have, 400 for a name that is none.
pub fn route(method: &str, path: &str, query: Option<&str>) -> Result<Route, Answer> {
    let reads = matches!(method, "GET" | "HEAD");
    let fixed = |route: Route| if reads { Ok(route) } else { Err(not_allowed(method, "GET")) };
    match path {
        "/healthz" => return fixed(Route::Health),
        "/readyz" => return fixed(Route::Ready),
        _ => {}
    }
    let (verb, name) = if let Some(name) = path.strip_prefix("/states/") {
        let verb = match method {
            "GET" | "HEAD" => Verb::Read,
            "POST" | "PUT" => Verb::Write,
            "DELETE" => Verb::Remove,
            "LOCK" => Verb::Lock,
            "UNLOCK" => Verb::Unlock,
            other => return Err(not_allowed(other, "GET, POST, DELETE, LOCK, UNLOCK")),
        };
        (verb, name)
    } else if let Some(name) = path.strip_prefix("/locks/") {
        // For proxies that let only the usual methods pass.
        let verb = match method {
            "POST" | "PUT" | "LOCK" => Verb::Lock,
            "DELETE" | "UNLOCK" => Verb::Unlock,
            other => return Err(not_allowed(other, "POST, DELETE")),
        };
        (verb, name)
    } else if let Some(name) = path.strip_prefix("/unlocks/") {
        match method {
            "POST" | "PUT" | "UNLOCK" => (Verb::Unlock, name),
            other => return Err(not_allowed(other, "POST")),
        }
    } else {
        return Err(Answer::text(404, "there is nothing here: states are below /states/"));
    };
    let name = decoded(name)
        .and_then(|name| StateName::new(name).ok())
        .ok_or_else(|| Answer::text(400, "the path does not name a state"))?;
    Ok(Route::State { verb, name, lock: lock(query)? })
}

fn not_allowed(method: &str, allowed: &str) -> Answer {
    Answer::text(405, format!("{method:?} cannot be done here; allowed is {allowed}"))
}

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// The lock's id in a query.
fn lock(query: Option<&str>) -> Result<Option<LockId>, Answer> {
    let given = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("ID="));
    let Some(given) = given.filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let id = decoded(&given.replace('+', " ")).and_then(|id| LockId::new(id).ok());
    id.map(Some).ok_or_else(|| Answer::text(400, "the ID in the address is not the id of a lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str, query: Option<&str>) -> Result<(Verb, String, Option<String>), u16> {
        match route(method, path, query) {
            Ok(Route::State { verb, name, lock }) => Ok((verb, name.as_str().to_owned(), lock.map(|id| id.0))),
            Ok(other) => panic!("{other:?}"),
            Err(refused) => Err(refused.status),
        }
    }

    #[test]
    fn methods_and_their_aliases_are_told_apart() {
        for (method, path, verb) in [
            ("GET", "/states/prod", Verb::Read),
            ("HEAD", "/states/prod", Verb::Read),
            ("POST", "/states/prod", Verb::Write),
            ("PUT", "/states/prod", Verb::Write),
            ("DELETE", "/states/prod", Verb::Remove),
            ("LOCK", "/states/prod", Verb::Lock),
            ("UNLOCK", "/states/prod", Verb::Unlock),
            ("POST", "/locks/prod", Verb::Lock),
            ("DELETE", "/locks/prod", Verb::Unlock),
            ("POST", "/unlocks/prod", Verb::Unlock),
        ] {
            assert_eq!(asked(method, path, None), Ok((verb, "prod".to_owned(), None)), "{method} {path}");
        }
        assert_eq!(route("GET", "/healthz", None), Ok(Route::Health));
        assert_eq!(route("GET", "/readyz", None), Ok(Route::Ready));
    }

    #[test]
    fn every_name_of_a_state_has_a_path() {
        for name in ["live", "live/web:dev", "a b", "ü/%2f?#&+", ".."] {
            let name = StateName::new(name).unwrap();
            let found = asked("GET", &path(&name), None).unwrap();
            assert_eq!(found.1, name.as_str());
        }
        assert_eq!(asked("POST", "/states/a", Some("x=1&ID=0c%2D7")).unwrap().2, Some("0c-7".to_owned()));
        assert_eq!(asked("POST", "/states/a", Some("ID=")).unwrap().2, None);
    }

    #[test]
    fn what_is_nothing_is_refused() {
        assert_eq!(asked("GET", "/", None), Err(404));
        assert_eq!(asked("GET", "/states", None), Err(404));
        assert_eq!(asked("GET", "/states/", None), Err(400));
        assert_eq!(asked("GET", "/states/%00", None), Err(400));
        assert_eq!(asked("GET", "/states/%ff", None), Err(400));
        assert_eq!(asked("PATCH", "/states/a", None), Err(405));
        assert_eq!(asked("GET", "/locks/a", None), Err(405));
        assert_eq!(asked("GET", "/unlocks/a", None), Err(405));
        assert_eq!(asked("POST", "/states/a", Some("ID=%0a")), Err(400));
        assert_eq!(route("POST", "/healthz", None).unwrap_err().status, 405);
    }
}
