//! Making text harmless: for prose, for code, for HTML, for links.

/// An invisible letter that joins: it breaks a mention or a reference without breaking the line.
const JOINER: char = '\u{2060}';

/// Control characters, and those that change the direction of text or cannot be seen, made visible.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match u32::from(letter) {
            code @ 0..0x20 => out.push(char::from_u32(0x2400 + code).unwrap_or('\u{FFFD}')),
            0x7F => out.push('\u{2421}'),
            code if hidden(letter) => out.push_str(&format!("\u{27E8}U+{code:04X}\u{27E9}")),
            _ => out.push(letter),
        }
    }
    out
}

/// Letters that nobody sees, or that make others stand where they are not.
fn hidden(letter: char) -> bool {
    matches!(
        letter,
        '\u{80}'..='\u{9F}'
            | '\u{AD}'
            | '\u{61C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}'
    )
}

/// Prose: every letter that Markdown, HTML, a mention, a reference, an emoji or a link could begin with is disarmed.
pub(super) fn prose(text: &str) -> String {
    let text = visible(text.trim());
    let mut out = String::with_capacity(text.len() + 8);
    let letters: Vec<char> = text.chars().collect();
    for (position, &letter) in letters.iter().enumerate() {
        let next = letters.get(position + 1).copied();
        let glued = next.is_some_and(|next| !next.is_whitespace());
        let before = position.checked_sub(1).map(|before| letters[before]);
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A dollar sign may begin a formula, and no backslash helps against that.
            '$' => out.push_str("&#36;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '{' | '}' | '|' | '~' | '^' => {
                out.push('\\');
                out.push(letter);
            }
            '#' | '+' | '-' | '=' | '/' if before.is_none() => {
                out.push('\\');
                out.push(letter);
            }
            '.' if ends_with(&letters[..position], "www") => {
                out.push(JOINER);
                out.push(letter);
            }
            // A number with a dot or a bracket begins a list.
            '.' | ')' if letters[..position].iter().all(char::is_ascii_digit) => {
                out.push('\\');
                out.push(letter);
            }
            _ => out.push(letter),
        }
        let joins = match letter {
            '@' | '#' | '!' | '%' | '&' | '$' | '~' | '^' | '*' => glued,
            // A scheme or an emoji; times stay as they are.
            ':' => glued && !(before.is_some_and(|b| b.is_ascii_digit()) && next.is_some_and(|n| n.is_ascii_digit())),
            // `GH-12`.
            '-' => next.is_some_and(|next| next.is_ascii_digit()) && ends_with(&letters[..position], "gh"),
            _ => false,
        };
        if joins {
            out.push(JOINER);
        }
    }
    out
}

/// Whether the letters end with a word, in small or capital letters.
fn ends_with(letters: &[char], word: &str) -> bool {
    let tail = letters.iter().rev().zip(word.chars().rev());
    letters.len() >= word.len() && tail.into_iter().all(|(letter, wanted)| letter.eq_ignore_ascii_case(&wanted))
}

/// Code within a line. Where a code span could not hold the text, or a table would split it, HTML does the same.
pub(super) fn code(text: &str) -> String {
    let text = visible(text);
    let at_an_end = |letter: char| text.starts_with(letter) || text.ends_with(letter);
    if text.is_empty() || at_an_end(' ') || at_an_end('`') || text.contains('|') {
        return format!("<code>{}</code>", entities(&text));
    }
    let ticks = "`".repeat(longest_run(&text) + 1);
    format!("{ticks}{text}{ticks}")
}

/// Every letter that means something to Markdown or HTML as an entity.
fn entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for letter in text.chars() {
        if letter.is_ascii_punctuation() {
            out.push_str(&format!("&#{};", u32::from(letter)));
            // An address of e-mail becomes a link even here.
            if letter == '@' {
                out.push(JOINER);
            }
        } else if letter == ' ' {
            // Spaces at the ends, and more than one in a row, would vanish.
            out.push_str("&#32;");
        } else {
            out.push(letter);
        }
    }
    out
}

/// Text within HTML of our own, as in a `<summary>`.
#[must_use]
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let text = visible(text);
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '`' | '*' | '_' | '[' | ']' | '\\' | '$' | '|' | '~' => out.push_str(&format!("&#{};", u32::from(letter))),
            _ => out.push(letter),
        }
        let glued = rest.peek().is_some_and(|next| !next.is_whitespace());
        if glued && matches!(letter, '@' | '#' | '!' | ':') {
            out.push(JOINER);
        }
    }
    out
}

/// Lines for a fence: no stray line ends, nothing unseen, and no line that a forge could take for a command.
pub(super) fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let line = |line: &str| {
        let line = line.split('\t').map(visible).collect::<Vec<_>>().join("\t");
        // GitLab obeys lines that begin with a slash.
        if line.trim_start().starts_with('/') { format!("\u{A0}{}", line.trim_start()) } else { line }
    };
    text.trim_end_matches('\n').split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The length of the longest run of backticks.
pub(super) fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

/// The target of a link in Markdown.
pub(super) fn url(text: &str) -> Option<String> {
    // `&` in a link is an entity to Markdown.
    web(text).map(|url| url.replace('&', "&amp;"))
}

/// An address on the web, with nothing in it that could end a link; none for anything else, as `javascript:`.
#[must_use]
pub fn web(text: &str) -> Option<String> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme))?;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~:/?#@!$&+,;=%".contains(&byte);
        if plain { out.push(char::from(byte)) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    (out.len() > scheme.len()).then_some(out)
}
