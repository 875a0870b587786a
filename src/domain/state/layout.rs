//! The two layouts of JSON text: without space in a row, indented in a document.
//!
//! Both work on tokens and copy every one of them as it stands, so numbers, escapes and the order of members survive.
//! The text must be JSON that a parser has already accepted.

use std::ops::Range;

/// Where the next token outside of a string starts and ends; a string is one token, and so is a run of letters.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Tokens<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| is_space(*byte)) {
            self.at += 1;
        }
        let start = self.at;
        match bytes.get(start)? {
            b'"' => self.at = end_of_string(bytes, start),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => self.at += 1,
            _ => {
                let length = bytes[start..].iter().position(|byte| is_space(*byte) || b"{}[],:\"".contains(byte));
                self.at = length.map_or(bytes.len(), |length| start + length.max(1));
            }
        }
        Some(start..self.at)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// The position after the closing quote of the string that opens at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Appends the text without the space between its tokens.
pub(super) fn compact(out: &mut String, text: &str) {
    for token in (Tokens { text, at: 0 }) {
        out.push_str(&text[token]);
    }
}

/// The text as Go's `json.MarshalIndent` with two spaces lays it out, which is how Terraform writes a state.
pub(super) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3 / 2);
    let mut depth = 0;
    // An opening bracket waits for what follows: empty objects and arrays stay on one line.
    let mut opened = false;
    for token in (Tokens { text, at: 0 }) {
        let token = &text[token];
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

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
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
    fn a_scalar_is_a_document() {
        assert_eq!(indented("12"), "12\n");
        let mut out = String::new();
        compact(&mut out, "\r\n\t null ");
        assert_eq!(out, "null");
    }
}
