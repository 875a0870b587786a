//! Spans of time as people write them: `90s`, `15m`, `2h`, `7d`, `1h30m`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Reads `90s`, `15m`, `2h`, `7d`, or several together as `1h30m`.
///
/// # Errors
/// A sentence on what a duration looks like.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write 90s, 15m, 2h, 7d or 1h30m");
    let mut rest = text.trim();
    let mut total = 0_u64;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = rest[..end].parse().map_err(|_| wrong())?;
        let unit = match rest.as_bytes()[end] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            _ => return Err(wrong()),
        };
        total = count.checked_mul(unit).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = &rest[end + 1..];
    }
    Ok(Duration::from_secs(total))
}

/// A duration in kl.yaml.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        duration(&text).map(Self)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration, as `90s`, `15m`, `2h`, `7d` or `1h30m`.",
            "type": "string",
            "pattern": "^([0-9]+[smhd])+$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_nonsense_is_refused() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("7d"), Ok(Duration::from_hours(7 * 24)));
        for wrong in ["", "10", "m", "5 m", "-1s", "99999999999999999999d", "1w"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
