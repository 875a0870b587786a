//! HTTP as both forges need it: one client, attempts until patience ends, and errors in which no token appears.

use std::future::Future;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;

use super::error::ForgeError;
use super::patience::{Budget, Patience};

/// The longest answer that is read, in bytes. A page of changed files with their patches can have some megabytes.
pub(super) const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// How long GitHub wants to be left alone, in seconds, when it says that a limit is hit but not for how long.
const UNTOLD_WAIT: u64 = 60;

/// Whether a request may be sent again when nobody knows what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Once more makes no difference.
    Harmless,
    /// Once more might make a second one: whoever asked has to look first.
    Twice,
}

/// A forge's answer, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// An attempt that ended without an answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// The request never left: it can be sent again.
    Unsent(String),
    /// Nobody knows whether the forge did it.
    Unknown(String),
    /// It may have done it, and says more about it than anybody can read: asking again makes no difference.
    TooLong,
}

impl From<&reqwest::Error> for Lost {
    fn from(error: &reqwest::Error) -> Self {
        let message = chain(error);
        if error.is_connect() || error.is_builder() { Self::Unsent(message) } else { Self::Unknown(message) }
    }
}

/// Why there is no answer to go on with.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It may have been done: look, before it is sent again.
    Unknown(String),
    /// Patience ended.
    Spent(String),
}

/// What an answer that is no success asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    /// It is as it is.
    None,
    /// To be asked later; nothing was done. Seconds to wait, if the forge says so.
    Later(Option<u64>),
    /// The forge failed; it may have done it.
    Failed(Option<u64>),
}

/// Tokens, to be kept out of every text.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<SecretString>);

impl Secrets {
    pub(super) fn new(tokens: impl IntoIterator<Item = SecretString>) -> Self {
        Self(tokens.into_iter().filter(|token| !token.expose_secret().trim().is_empty()).collect())
    }

    /// A foreign text made fit for an error: one line, without control characters and tokens, not long.
    pub(super) fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for token in &self.0 {
            text = text.replace(token.expose_secret().trim(), "***");
        }
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
        line.trim().to_owned()
    }
}

/// Makes ring the process's TLS provider, unless there is one. Before the first client; as often as one likes.
pub fn install_tls_provider() {
    // An error means that somebody was faster, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// A client that sends `token` as `header` with every request. `certificates` is PEM text with authorities to trust
/// besides the system's. Proxies come from the usual environment variables.
pub(super) fn client(
    token: Option<(HeaderName, String)>,
    certificates: Option<&[u8]>,
    patience: Patience,
) -> Result<reqwest::Client, ForgeError> {
    install_tls_provider();
    let unusable = |message: String| ForgeError::Unusable { message };
    let mut headers = HeaderMap::new();
    if let Some((name, value)) = token {
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| unusable("the token holds characters that no token has, as a line end".into()))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("kl/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(patience.answer)
        .redirect(Policy::custom(same_host));
    if let Some(pem) = certificates {
        let certificates = reqwest::Certificate::from_pem_bundle(pem)
            .map_err(|error| unusable(format!("the file of trusted certificates is not PEM: {error}")))?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|error| unusable(format!("no HTTP client can be made: {}", chain(&error))))
}

/// Follows a redirect only on the same host: every request bears the token.
fn same_host(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let from = attempt.previous().last();
    let stays = from.is_some_and(|from| {
        from.host_str() == attempt.url().host_str()
            && (from.port_or_known_default() == attempt.url().port_or_known_default()
                || from.scheme() != attempt.url().scheme())
            && (from.scheme() == attempt.url().scheme() || attempt.url().scheme() == "https")
    });
    if stays && attempt.previous().len() < 5 { attempt.follow() } else { attempt.stop() }
}

/// An error with its causes, in one line. Addresses are left out: they are long, and `what` says what was tried.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut parts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        source = cause.source();
    }
    parts.join(": ")
}

/// Sends until there is an answer to go on with, or patience ends.
pub(super) async fn persist<F>(
    budget: &mut Budget,
    again: Again,
    secrets: &Secrets,
    mut attempt: impl FnMut() -> F,
) -> Result<Answer, Trouble>
where
    F: Future<Output = Result<Answer, Lost>>,
{
    loop {
        let (asked, message, may_be_done) = match tokio::time::timeout(budget.for_an_answer(), attempt()).await {
            Err(_) => (None, "no answer in time".to_owned(), true),
            Ok(Err(Lost::Unsent(message))) => (None, secrets.clean(&message), false),
            Ok(Err(Lost::Unknown(message))) => (None, secrets.clean(&message), true),
            Ok(Err(Lost::TooLong)) => {
                return Err(Trouble::Unknown(format!("the answer has more than {MAX_ANSWER} bytes")));
            }
            Ok(Ok(answer)) => match answer.wish() {
                Wish::None => return Ok(answer),
                Wish::Later(seconds) => (seconds.or(Some(UNTOLD_WAIT)), answer.complaint(secrets), false),
                Wish::Failed(seconds) => (seconds, answer.complaint(secrets), true),
            },
        };
        if may_be_done && again == Again::Twice {
            return Err(Trouble::Unknown(message));
        }
        tracing::debug!(%message, ?asked, "the forge has to be asked again");
        if !budget.pause(asked).await {
            let rest = asked.map(|seconds| format!("; it asks to wait for {seconds} s")).unwrap_or_default();
            return Err(Trouble::Spent(format!("{message}{rest}")));
        }
    }
}

impl Answer {
    /// Whether the forge did what was asked.
    pub(super) fn done(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// A header's text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.trim().parse().ok()
    }

    fn wish(&self) -> Wish {
        let text = || String::from_utf8_lossy(&self.body).to_lowercase();
        let used_up = || self.header("x-ratelimit-remaining") == Some("0");
        match self.status {
            429 => Wish::Later(self.wait()),
            // A 403 is a refusal, or a limit in disguise.
            403 if self.header("retry-after").is_some()
                || used_up()
                || text().contains("secondary rate limit")
                || text().contains("abuse detection") =>
            {
                Wish::Later(self.wait())
            }
            408 | 500 | 502..=504 | 520..=529 => Wish::Failed(self.wait()),
            _ => Wish::None,
        }
    }

    /// How many seconds the forge wants to be left alone. Its own clock says what time it is: ours may be wrong.
    fn wait(&self) -> Option<u64> {
        if let Some(seconds) = self.number("retry-after") {
            return Some(seconds);
        }
        let reset = self.number("x-ratelimit-reset").or_else(|| self.number("ratelimit-reset"))?;
        let now = chrono::DateTime::parse_from_rfc2822(self.header("date")?).ok()?;
        Some(reset.saturating_sub(u64::try_from(now.timestamp()).ok()?).max(1))
    }

    /// What the forge says for itself.
    pub(super) fn complaint(&self, secrets: &Secrets) -> String {
        let said = serde_json::from_slice::<serde_json::Value>(&self.body).ok().and_then(|body| {
            let member = |name: &str| match body.get(name)? {
                serde_json::Value::String(text) => Some(text.clone()),
                serde_json::Value::Null => None,
                // Validation messages: fields and what is wrong with them.
                other => Some(other.to_string()),
            };
            let parts: Vec<String> =
                ["message", "error", "error_description", "errors"].into_iter().filter_map(member).collect();
            (!parts.is_empty()).then(|| parts.join(": "))
        });
        match said {
            Some(said) => secrets.clean(&said),
            None => format!("HTTP {}", self.status),
        }
    }

    /// The content, if it is what was asked for.
    pub(super) fn content<T: DeserializeOwned>(&self, what: &str) -> Result<T, ForgeError> {
        serde_json::from_slice(&self.body).map_err(|error| ForgeError::Unavailable {
            what: what.to_owned(),
            message: format!("the answer is not what the forge's API promises: {error}"),
        })
    }

    /// The error that a refusal is.
    pub(super) fn refusal(&self, what: &str, secrets: &Secrets) -> ForgeError {
        let (what, message) = (what.to_owned(), self.complaint(secrets));
        match self.status {
            401 | 403 => ForgeError::Denied { what, status: self.status, message },
            404 | 410 => ForgeError::NotFound { what },
            400..=499 => ForgeError::Refused { what, status: self.status, message },
            status => ForgeError::Unavailable { what, message: format!("unexpected answer ({status}: {message})") },
        }
    }
}

impl Trouble {
    /// The error that it is, for whoever does not look what became of it.
    pub(super) fn error(self, what: &str) -> ForgeError {
        let (Self::Unknown(message) | Self::Spent(message)) = self;
        ForgeError::Unavailable { what: what.to_owned(), message }
    }
}

/// A text as one segment of a path.
pub(super) fn segment(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(char::from(byte)),
            b'.' if !matches!(text, "." | "..") => out.push('.'),
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// A text of at most so many characters; what was left out leaves a mark.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

/// The address of an API, without a slash at its end; only http and https.
pub(super) fn base_address(name: &str, text: &str) -> Result<reqwest::Url, ForgeError> {
    let unusable = |why: &str| ForgeError::Unusable { message: format!("{name} is no address of an API: {why}") };
    let url = reqwest::Url::parse(text.trim().trim_end_matches('/')).map_err(|error| unusable(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(unusable("it begins with neither https:// nor http://"));
    }
    if url.query().is_some() || url.fragment().is_some() || url.password().is_some() || !url.username().is_empty() {
        return Err(unusable("it holds more than host and path"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Answer {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        Answer { status, headers, body: body.into() }
    }

    #[test]
    fn a_limit_is_told_from_a_refusal() {
        assert_eq!(answer(403, &[], r#"{"message":"Resource not accessible by integration"}"#).wish(), Wish::None);
        assert_eq!(answer(403, &[("retry-after", "7")], "{}").wish(), Wish::Later(Some(7)));
        let secondary = r#"{"message":"You have exceeded a secondary rate limit."}"#;
        assert_eq!(answer(403, &[], secondary).wish(), Wish::Later(None));
        assert_eq!(answer(429, &[], "").wish(), Wish::Later(None));
        assert_eq!(answer(502, &[], "").wish(), Wish::Failed(None));
        assert_eq!(answer(501, &[], "").wish(), Wish::None);
        assert_eq!(answer(404, &[], "").wish(), Wish::None);
    }

    #[test]
    fn the_end_of_a_limit_is_read_by_the_forges_own_clock() {
        let headers = [
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "784111787"),
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        assert_eq!(answer(403, &headers, "{}").wish(), Wish::Later(Some(10)));
        assert_eq!(answer(429, &[("ratelimit-reset", "784111787")], "").wish(), Wish::Later(None));
    }

    #[test]
    fn no_token_and_no_control_character_gets_into_a_message() {
        let secrets = Secrets::new([SecretString::from("tok-123\n"), SecretString::from("")]);
        let said = answer(422, &[], r#"{"message":"bad\u001b[31m tok-123\nx","errors":[{"code":"tok-123"}]}"#);
        assert_eq!(said.complaint(&secrets), r#"bad [31m *** x: [{"code":"***"}]"#);
        assert_eq!(answer(500, &[], "<html>").complaint(&secrets), "HTTP 500");
    }

    #[test]
    fn a_segment_stays_one() {
        assert_eq!(segment("group/sub project"), "group%2Fsub%20project");
        assert_eq!(segment(".."), "%2E%2E");
        assert_eq!(segment("v1.2"), "v1.2");
    }

    #[test]
    fn an_address_that_is_none_is_refused_by_its_name() {
        assert_eq!(base_address("X", "https://h/gitlab/api/v4/").unwrap().as_str(), "https://h/gitlab/api/v4");
        for text in ["", "h/api", "ftp://h", "https://u:p@h", "https://h?x=1"] {
            let error = base_address("CI_API_V4_URL", text).unwrap_err().to_string();
            assert!(error.contains("CI_API_V4_URL"), "{error}");
            assert!(!error.contains("u:p"), "{error}");
        }
    }
}
