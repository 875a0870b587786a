//! Values on the command line that are more than words.

use std::time::Duration;

use crate::config::duration::duration;
use crate::domain::id::Serial;

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

/// A time in which something can be done.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing can be applied in no time".to_owned()),
        limit => Ok(limit),
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
