//! The lock of a plain Terraform: the document that it sends, and the one that says who is in its way.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// The id that a plain Terraform gives its lock. Compared exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LockId(pub String);

/// The longest id, in bytes: Terraform's own are UUIDs.
const MAX_ID: usize = 256;

/// The longest of the other texts, in characters; the rest is cut.
const MAX_TEXT: usize = 512;

/// A lock document, as Terraform and OpenTofu send it and expect it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LockInfo {
    /// The id of the lock.
    #[serde(rename = "ID")]
    pub id: LockId,
    /// What for, as `OperationTypeApply`.
    #[serde(default)]
    pub operation: String,
    /// What the operation adds to that.
    #[serde(default)]
    pub info: String,
    /// Who: `user@host`.
    #[serde(default)]
    pub who: String,
    /// The version of the program.
    #[serde(default)]
    pub version: String,
    /// When, as the client's clock has it (RFC 3339).
    #[serde(default)]
    pub created: String,
    /// The path of the state, where the client knows one.
    #[serde(default)]
    pub path: String,
}

/// Why a text is no lock document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LockInfoError {
    /// It is not JSON of the right shape.
    #[error("the body is not a lock document: JSON with \"ID\", \"Operation\", \"Who\"")]
    NotALock,
    /// It does not name the lock.
    #[error("the lock document has no \"ID\"")]
    NoId,
    /// The name of the lock is no name.
    #[error("the \"ID\" of the lock document has more than {MAX_ID} bytes, or control characters in it")]
    BadId,
}

impl LockId {
    /// Takes a text as the id of a lock.
    ///
    /// # Errors
    /// When it is empty, too long, or holds control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, LockInfoError> {
        let text = text.into();
        if text.is_empty() {
            Err(LockInfoError::NoId)
        } else if text.len() > MAX_ID || text.chars().any(char::is_control) {
            Err(LockInfoError::BadId)
        } else {
            Ok(Self(text))
        }
    }
}

impl LockInfo {
    /// Reads a lock document. What Terraform does not need to say may be missing; texts are cut to a sensible length.
    ///
    /// # Errors
    /// When the text is no lock document, or does not name the lock.
    pub fn read(text: &[u8]) -> Result<Self, LockInfoError> {
        #[derive(Deserialize)]
        struct Named {
            #[serde(rename = "ID", default)]
            id: String,
        }
        // serde takes a list of values for a structure, too.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(LockInfoError::NotALock);
        }
        // The id first: a document without one is a different mistake from what is no document.
        let Named { id } = serde_json::from_slice(text).map_err(|_| LockInfoError::NotALock)?;
        let id = LockId::new(id)?;
        let read: Self = serde_json::from_slice(text).map_err(|_| LockInfoError::NotALock)?;
        let cut = |text: String| {
            let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
            text.chars().take(MAX_TEXT).map(plain).collect::<String>()
        };
        Ok(Self {
            id,
            operation: cut(read.operation),
            info: cut(read.info),
            who: cut(read.who),
            version: cut(read.version),
            created: cut(read.created),
            path: cut(read.path),
        })
    }

    /// The document that a refused client gets. Terraform prints only the id of it, several lines as they are (long facts
    /// 6), so `story` goes there; newer clients print the others, too.
    #[must_use]
    pub fn refusal(story: &str, holder: &str, state: &str, at: DateTime<Utc>) -> Self {
        Self {
            id: LockId(story.to_owned()),
            operation: "kl".to_owned(),
            info: story.to_owned(),
            who: holder.to_owned(),
            version: String::new(),
            // A text that is no time would hide the whole document from the client.
            created: at.to_rfc3339_opts(SecondsFormat::Micros, true),
            path: state.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: &str = r#"{"ID":"0c7e","Operation":"OperationTypeApply","Info":"","Who":"alice@host","Version":"1.11.4","Created":"2026-01-02T03:04:05.6Z","Path":""}"#;

    #[test]
    fn a_document_of_terraform_is_read_and_written_alike() {
        let read = LockInfo::read(REAL.as_bytes()).unwrap();
        assert_eq!((read.id.0.as_str(), read.who.as_str()), ("0c7e", "alice@host"));
        assert_eq!(serde_json::to_string(&read).unwrap(), REAL);
        assert_eq!(LockInfo::read(br#"{"ID":"x"}"#).unwrap().who, "");
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        for (text, error) in [
            ("", LockInfoError::NotALock),
            ("[]", LockInfoError::NotALock),
            ("{\"ID\":7}", LockInfoError::NotALock),
            (&REAL[..40], LockInfoError::NotALock),
            ("{\"ID\":\"x\",\"Who\":1}", LockInfoError::NotALock),
            ("{}", LockInfoError::NoId),
            ("{\"ID\":\"\"}", LockInfoError::NoId),
            ("{\"ID\":\"a\\nb\"}", LockInfoError::BadId),
        ] {
            assert_eq!(LockInfo::read(text.as_bytes()), Err(error), "{text}");
        }
        let long = format!("{{\"ID\":\"{}\"}}", "x".repeat(MAX_ID + 1));
        assert_eq!(LockInfo::read(long.as_bytes()), Err(LockInfoError::BadId));
    }

    #[test]
    fn long_and_hostile_texts_are_cut_and_kept_on_one_line() {
        let text = format!("{{\"ID\":\"x\",\"Who\":\"a\\nb{}\"}}", "c".repeat(9_999));
        let who = LockInfo::read(text.as_bytes()).unwrap().who;
        assert!(who.starts_with("a b") && who.chars().count() == MAX_TEXT);
    }
}
