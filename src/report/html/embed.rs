//! Text on its way into a page: into markup, and into the data that the page's script reads. Whatever is in it, it stays text.

use serde_json::{Value, json};

use crate::report::markdown::visible;
use crate::report::phrase::{Kind, Phrase};
use crate::report::story::{Told, Tone};

/// Text within markup or a quoted attribute.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in visible(text).chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

/// JSON within a script element: nothing in it ends the element or begins a comment.
pub(super) fn json(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for letter in text.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => out.push(letter),
        }
    }
    out
}

/// One word for a tone, which is also a class of the style sheet.
pub(super) fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Careful => "careful",
        Tone::Alarm => "alarm",
        Tone::Waits => "waits",
        Tone::Quiet => "quiet",
        Tone::Step => "step",
    }
}

/// A sentence from outside in its parts: every other one is a command between backticks, if they come in pairs.
fn pieces(prose: &str) -> Vec<&str> {
    let parts: Vec<&str> = prose.split('`').collect();
    if parts.len().is_multiple_of(2) { vec![prose] } else { parts }
}

/// A phrase for the script: texts are our own words, `["n", …]` are names, `["b", …]` matter, `["t", tone, …]` have a tone.
pub(super) fn phrase(phrase: &Phrase) -> Value {
    let mut out = Vec::new();
    for (kind, part) in phrase.parts().filter(|(_, part)| !part.is_empty()) {
        match kind {
            Kind::Own => out.push(json!(visible(part))),
            Kind::Name => out.push(json!(["n", visible(part)])),
            Kind::Strong => out.push(json!(["b", visible(part)])),
            Kind::Toned(of) => out.push(json!(["t", tone(of), visible(part)])),
            Kind::Prose => {
                for (position, piece) in pieces(part).into_iter().enumerate().filter(|(_, piece)| !piece.is_empty()) {
                    out.push(if position % 2 == 0 { json!(visible(piece)) } else { json!(["n", visible(piece)]) });
                }
            }
        }
    }
    Value::Array(out)
}

/// A sentence for the script.
pub(super) fn told(told: &Told) -> Value {
    json!([tone(told.tone), told.tone.sign(), phrase(&told.phrase)])
}

/// A phrase as markup.
pub(super) fn markup(phrase: &Phrase) -> String {
    let mut out = String::new();
    for (kind, part) in phrase.parts() {
        match kind {
            Kind::Own => out.push_str(&text(part)),
            Kind::Name => out.push_str(&format!("<code>{}</code>", text(part))),
            Kind::Strong => out.push_str(&format!("<strong>{}</strong>", text(part))),
            Kind::Toned(of) => out.push_str(&format!("<span class=\"tone {}\">{}</span>", tone(of), text(part))),
            Kind::Prose => {
                for (position, piece) in pieces(part).into_iter().enumerate().filter(|(_, piece)| !piece.is_empty()) {
                    let piece = text(piece);
                    out.push_str(&if position % 2 == 0 { piece } else { format!("<code>{piece}</code>") });
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</script><!--<img src=x onerror=alert(1)>\"'&\u{2028}\u{202E}\u{0}é😀א";

    #[test]
    fn markup_stays_text() {
        assert_eq!(
            text(HOSTILE),
            "&lt;/script&gt;&lt;!--&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;⟨U+2028⟩⟨U+202E⟩␀é😀א"
        );
    }

    #[test]
    fn json_cannot_leave_its_element_and_reads_back_the_same() {
        let value = json!([HOSTILE, { HOSTILE: "]]>" }]);
        let out = json(&value);
        assert!(!out.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\n']), "{out}");
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), value);
    }

    #[test]
    fn phrases_keep_what_each_part_is() {
        let line = Phrase::own("Held by ")
            .strong("<b>")
            .and(": ")
            .name("a.x[\"`\"]")
            .prose("; run `kl recover <x>` & go")
            .then(Phrase::toned(Tone::Alarm, "failed"));
        assert_eq!(
            phrase(&line),
            json!([
                "Held by ",
                ["b", "<b>"],
                ": ",
                ["n", "a.x[\"`\"]"],
                "; run ",
                ["n", "kl recover <x>"],
                " & go",
                ["t", "alarm", "! failed"]
            ])
        );
        assert_eq!(
            markup(&line),
            "Held by <strong>&lt;b&gt;</strong>: <code>a.x[&quot;`&quot;]</code>; run <code>kl recover &lt;x&gt;</code> \
             &amp; go<span class=\"tone alarm\">! failed</span>"
        );
        assert_eq!(phrase(&Phrase::default().prose("one ` alone")), json!(["one ` alone"]));
    }
}
