//! The tokens of a JSON text that a parser has already accepted: one pass, nothing copied.

use std::ops::Range;

/// An iterator over the tokens of a text: a bracket, a comma, a colon, a string with its quotes, a number or a word.
pub(in crate::domain) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(in crate::domain) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn range(&mut self) -> Option<Range<usize>> {
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
                self.at = length.map_or(bytes.len(), |length| start + length);
            }
        }
        Some(start..self.at)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.range().map(|range| &self.text[range])
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
