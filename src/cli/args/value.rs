//! Values on the command line that are more than words.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};

use crate::config::duration::duration;
use crate::domain::id::Serial;
use crate::domain::run::RunStatus;

/// Ten years.
const LONGEST_LIFETIME: Duration = Duration::from_hours(24 * 3650);

/// An input variable.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        // The text may hold a secret: it is not repeated.
        _ => Err("a variable is written NAME=VALUE".to_owned()),
    }
}

/// A serial of a state.
pub(super) fn serial(text: &str) -> Result<Serial, String> {
    text.parse().map(Serial).map_err(|_| format!("{text:?} is not a serial"))
}

/// Since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// So long before now.
    Ago(Duration),
    /// A moment.
    At(DateTime<Utc>),
}

impl Since {
    /// The moment that is meant, when it is `now`.
    #[must_use]
    pub fn moment(self, now: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => {
                let ago = TimeDelta::from_std(ago).ok();
                ago.and_then(|ago| now.checked_sub_signed(ago)).unwrap_or(DateTime::UNIX_EPOCH)
            }
        }
    }
}

/// `7d`, `2026-11-30` (UTC) or `2026-11-30T12:00:00Z`.
pub(super) fn since(text: &str) -> Result<Since, String> {
    if let Ok(ago) = duration(text) {
        return Ok(Since::Ago(ago));
    }
    if let Ok(day) = text.parse::<NaiveDate>() {
        return Ok(Since::At(day.and_time(NaiveTime::MIN).and_utc()));
    }
    let at = DateTime::parse_from_rfc3339(text);
    at.map(|at| Since::At(at.to_utc()))
        .map_err(|_| format!("{text:?} is no time; write 12h, 7d, 2026-11-30 or 2026-11-30T12:00:00Z"))
}

/// Where a run stands, in one word.
pub(super) fn status(text: &str) -> Result<RunStatus, String> {
    RunStatus::from_word(&text.replace([' ', '-'], "_")).ok_or_else(|| {
        format!("{text:?} is no status of a run; one is committed, failed, conflict, stale, applying, …")
    })
}

/// A pause between two looks.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("there has to be a pause, as 2s".to_owned()),
        pause => Ok(pause),
    }
}

/// A time in which something can be done.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing can be applied in no time".to_owned()),
        limit => Ok(limit),
    }
}

/// How long a token lasts.
pub(super) fn lifetime(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a token that has ended already opens nothing".to_owned()),
        lifetime if lifetime > LONGEST_LIFETIME => {
            Err("a token lasts for ten years at most, or until it is revoked".to_owned())
        }
        lifetime => Ok(lifetime),
    }
}

/// A lease must be long enough for a heartbeat to come through.
pub(super) fn lease(text: &str) -> Result<Duration, String> {
    let lease = duration(text)?;
    if lease < Duration::from_secs(1) || lease > Duration::from_hours(24) {
        return Err("a lease lasts from 1s to 24h".to_owned());
    }
    Ok(lease)
}

/// Where to listen. Of names only the one that means the same everywhere is known.
pub(super) fn socket(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().map_err(|_| {
        "an IP address and a port are wanted, as 127.0.0.1:8443, [::1]:8443, or 0.0.0.0:8443 for all addresses"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen_is_an_address_or_this_machine() {
        for (text, address) in
            [("127.0.0.1:80", "127.0.0.1:80"), ("[::1]:0", "[::1]:0"), ("localhost:7814", "127.0.0.1:7814")]
        {
            assert_eq!(socket(text), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", "8443", ":8443", "localhost", "localhost:", "localhost:99999", "kl.example.com:8443"] {
            assert!(socket(text).unwrap_err().contains("as 127.0.0.1:8443"), "{text}");
        }
    }
}
