//! Colours, and text made safe to print. The writer strips the colours where nobody would see them.

use std::fmt::Display;
use std::time::Duration;

use owo_colors::OwoColorize as _;

/// Something that went well.
pub fn good(text: impl Display) -> String {
    text.green().to_string()
}

/// Something that needs attention.
pub fn loud(text: impl Display) -> String {
    text.red().bold().to_string()
}

/// Something to keep in mind.
pub fn warn(text: impl Display) -> String {
    text.yellow().to_string()
}

/// Something that matters.
pub fn bold(text: impl Display) -> String {
    text.bold().to_string()
}

/// Something in the background.
pub fn dim(text: impl Display) -> String {
    text.dimmed().to_string()
}

/// A text from outside without control characters: a name must not move the cursor or forge a line.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{FFFD}' } else { letter }).collect()
}

/// A word for a shell.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A duration as people say it: `12s`, `4m 10s`, `2h 5m`, `3d 4h`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit} {small}{small_unit}") }
}

/// The time between two instants; zero when they are the wrong way round.
#[must_use]
pub fn between(from: chrono::DateTime<chrono::Utc>, to: chrono::DateTime<chrono::Utc>) -> Duration {
    (to - from).to_std().unwrap_or_default()
}

/// `1 row`, `2 rows`.
#[must_use]
pub fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (888, "14m 48s"), (7_500, "2h 5m"), (90_000, "1d 1h")]
        {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[31m\nb"), "a\u{FFFD}[31m\u{FFFD}b");
    }
}
