//! The two layouts of JSON text: without space in a row, indented in a document.
//!
//! Both work on tokens and copy every one of them as it stands, so numbers, escapes and the order of members survive.
//! The text must be JSON that a parser has already accepted.

use crate::domain::json::{MAX_DEPTH, Tokens};

/// Appends the text without the space between its tokens.
pub(super) fn compact(out: &mut String, text: &str) {
    Tokens::new(text).for_each(|token| out.push_str(token));
}

/// The text as Go's `json.MarshalIndent` with two spaces lays it out, which is how Terraform writes a state.
pub(super) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3 / 2);
    let mut depth = 0;
    // An opening bracket waits for what follows: empty objects and arrays stay on one line.
    let mut opened = false;
    for token in Tokens::new(text) {
        match token {
            "}" | "]" => {
                depth -= 1;
                if !opened {
                    break_line(&mut out, depth);
                }
                opened = false;
                out.push_str(token);
            }
            _ => {
                if opened {
                    break_line(&mut out, depth);
                }
                opened = matches!(token, "{" | "[");
                depth += usize::from(opened);
                out.push_str(token);
                match token {
                    "," => break_line(&mut out, depth),
                    ":" => out.push(' '),
                    _ => {}
                }
            }
        }
    }
    out.push('\n');
    out
}

/// Breaks the line. What nests deeper than kl follows is not indented further, or the text would grow with its square.
fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth.min(MAX_DEPTH) {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPACT: &str = r#"{"a b":[1.0,-2e+3,true],"c":{},"d":[],"e":{"\"f\\":" { [ , : \u0000"},"g":[[],[{}]]}"#;

    #[test]
    fn layouts_are_inverse_and_keep_every_token() {
        let pretty = indented(COMPACT);
        assert_eq!(
            pretty,
            "{\n  \"a b\": [\n    1.0,\n    -2e+3,\n    true\n  ],\n  \"c\": {},\n  \"d\": [],\n  \"e\": {\n    \
             \"\\\"f\\\\\": \" { [ , : \\u0000\"\n  },\n  \"g\": [\n    [],\n    [\n      {}\n    ]\n  ]\n}\n"
        );
        let mut back = String::new();
        compact(&mut back, &pretty);
        assert_eq!(back, COMPACT);
    }

    #[test]
    fn deep_nesting_does_not_grow_with_its_square() {
        let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        let pretty = indented(&deep);
        assert!(pretty.len() < deep.len() * (2 * MAX_DEPTH + 2), "{}", pretty.len());
        let mut back = String::new();
        compact(&mut back, &pretty);
        assert_eq!(back, deep);
    }

    #[test]
    fn a_scalar_is_a_document() {
        assert_eq!(indented("12"), "12\n");
        let mut out = String::new();
        compact(&mut out, "\r\n\t null ");
        assert_eq!(out, "null");
    }
}
