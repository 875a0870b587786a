//! HCL quoting of instance keys, exactly as Terraform prints them.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Quotes a string key as Terraform does (facts C10): `\"`, `\\`, `\n`, `\r`, `\t`, `$${`, `%%{`, and `\uXXXX`
/// for what does not print; letters, marks and emoji stand as they are.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '$' | '%' => {
                out.push(letter);
                if rest.peek() == Some(&'{') {
                    out.push(letter);
                }
            }
            _ if prints(letter) => out.push(letter),
            _ if u32::from(letter) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    out.push('"');
    out
}

/// Whether Go's `unicode.IsPrint` holds: letters, marks, numbers, punctuation, symbols, and the ASCII space.
fn prints(letter: char) -> bool {
    use GeneralCategory as C;
    letter == ' '
        || !matches!(
            get_general_category(letter),
            C::Control
                | C::Format
                | C::Surrogate
                | C::PrivateUse
                | C::Unassigned
                | C::SpaceSeparator
                | C::LineSeparator
                | C::ParagraphSeparator
        )
}
