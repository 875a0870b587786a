//! The hidden marker on a comment's first line, by which kl finds its own comment again.

use std::fmt::Write as _;

/// What every marker begins with; the version changes when old comments are not to be taken over any more.
const HEAD: &str = "<!-- kl:comment v1";

/// The marker of the comment that belongs to `scope`: whatever keeps two comments of kl on one request apart, as the
/// name of a database. One line, invisible in Markdown, and whatever the scope holds, it cannot end the marker.
#[must_use]
pub fn comment_marker(scope: &str) -> String {
    if scope.is_empty() {
        return format!("{HEAD} -->");
    }
    let mut text = format!("{HEAD} ");
    for byte in scope.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'/' | b':' => text.push(char::from(byte)),
            // A `-` would do, but two of them, or one before a `>`, end an HTML comment.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text.push_str(" -->");
    text
}

/// Whether the first line of `body` is `marker`, and nothing else. A marker further down is somebody's quotation.
#[must_use]
pub(super) fn leads(body: &str, marker: &str) -> bool {
    // Forges give line ends as they like, and an editor may have left a byte order mark.
    let first = body.trim_start_matches('\u{feff}').split('\n').next().unwrap_or_default();
    !marker.is_empty() && first.trim_end() == marker
}

/// The body with its marker on the first line: a comment without one would never be found again.
pub(super) fn headed(body: &str, marker: &str) -> String {
    if leads(body, marker) { body.to_owned() } else { format!("{marker}\n{body}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_ours_on_the_first_line_only() {
        let marker = comment_marker("prod");
        assert_eq!(marker, "<!-- kl:comment v1 prod -->");
        for body in
            [format!("{marker}\ntext"), format!("{marker}\r\ntext"), marker.clone(), format!("\u{feff}{marker} \nx")]
        {
            assert!(leads(&body, &marker), "{body:?}");
        }
        for body in [
            format!("look:\n{marker}\n"),
            format!("\n{marker}\n"),
            format!(" {marker}\n"),
            format!("> {marker}\n"),
            format!("{marker} and more\n"),
            comment_marker("production"),
            String::new(),
        ] {
            assert!(!leads(&body, &marker), "{body:?}");
        }
    }

    #[test]
    fn no_scope_ends_the_marker_or_looks_like_another() {
        let hostile = comment_marker("a --> <h1>\nb");
        assert_eq!(hostile.lines().count(), 1);
        assert_eq!(hostile.find("-->"), Some(hostile.len() - 3));
        assert_ne!(comment_marker("a b"), comment_marker("a%20b"));
        assert_eq!(comment_marker(""), "<!-- kl:comment v1 -->");
    }

    #[test]
    fn a_body_gets_its_marker_once() {
        assert_eq!(headed("text", "<!-- m -->"), "<!-- m -->\ntext");
        assert_eq!(headed("<!-- m -->\ntext", "<!-- m -->"), "<!-- m -->\ntext");
    }
}
