//! What a source file uses, read from its tokens: comments, texts and `#[cfg(test)]` items do not count.

use std::collections::{BTreeMap, BTreeSet};

/// A path as segments: `["std", "fs", "read"]`.
pub(super) type Path = Vec<String>;

/// A source file, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// What it uses of this crate, from its root: `["domain", "id", "RunId"]`.
    pub(super) own: BTreeSet<Path>,
    /// What it uses of others. Names that a `use` brought in are written out: after `use std::fs;`,
    /// `fs::read` is `["std", "fs", "read"]`.
    pub(super) foreign: BTreeSet<Path>,
    /// Modules that exist in tests only.
    pub(super) test_modules: Vec<String>,
    /// How many lines it has, without what exists in tests only.
    pub(super) lines: usize,
}

/// A word or a sign of code.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

impl Source {
    /// Reads a file that is this module (`["store", "url"]`).
    pub(super) fn read(module: &[&str], text: &str) -> Self {
        let (tokens, test_modules, test_lines) = without_tests(&tokens(text));
        let mut reader = Reader {
            tokens: &tokens,
            at: 0,
            module: module.iter().map(ToString::to_string).collect(),
            inline: Vec::new(),
            depth: 0,
            names: BTreeMap::new(),
            source: Self { test_modules, lines: text.lines().count() - test_lines, ..Self::default() },
        };
        // Names first: a `use` at the end of a file counts for all of it.
        reader.uses();
        reader.paths();
        reader.source
    }
}

/// Cuts a text into words and signs; `::` is one sign.
fn tokens(text: &str) -> Vec<Token> {
    let letters: Vec<char> = text.chars().collect();
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    let peek = |at: usize| letters.get(at).copied().unwrap_or('\0');
    while at < letters.len() {
        let begin = at;
        match letters[at] {
            '/' if peek(at + 1) == '/' => at = end_of_line(&letters, at),
            '/' if peek(at + 1) == '*' => at = end_of_comment(&letters, at),
            '"' => at = end_of_text(&letters, at),
            '\'' => at = end_of_letter(&letters, at),
            letter if is_word(letter) => {
                while is_word(peek(at)) {
                    at += 1;
                }
                let word: String = letters[begin..at].iter().collect();
                // `r"…"`, `b"…"`, `r#"…"#` and their like are texts; `r#type` is a word.
                if matches!(word.as_str(), "r" | "b" | "c" | "br" | "cr")
                    && let Some(end) = end_of_prefixed_text(&letters, at, word.contains('r'))
                {
                    at = end;
                } else {
                    found.push(Token { text: word, line });
                }
            }
            letter if letter.is_whitespace() => at += 1,
            ':' if peek(at + 1) == ':' => {
                at += 2;
                found.push(Token { text: "::".to_owned(), line });
            }
            letter => {
                at += 1;
                found.push(Token { text: letter.to_string(), line });
            }
        }
        line += letters[begin..at].iter().filter(|letter| **letter == '\n').count();
    }
    found
}

fn end_of_line(letters: &[char], at: usize) -> usize {
    letters[at..].iter().position(|letter| *letter == '\n').map_or(letters.len(), |end| at + end)
}

fn end_of_comment(letters: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < letters.len() {
        match (letters[at], letters.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Behind the quote that ends the text whose first quote is at `at`.
fn end_of_text(letters: &[char], mut at: usize) -> usize {
    at += 1;
    while at < letters.len() && letters[at] != '"' {
        at += if letters[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(letters.len())
}

fn end_of_prefixed_text(letters: &[char], at: usize, raw: bool) -> Option<usize> {
    if !raw {
        return (letters.get(at) == Some(&'"')).then(|| end_of_text(letters, at));
    }
    let hashes = letters[at..].iter().take_while(|letter| **letter == '#').count();
    if letters.get(at + hashes) != Some(&'"') {
        return None;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = at + hashes + 1;
    let length = letters[body..].windows(end.len()).position(|window| window == end)?;
    Some(body + length + end.len())
}

/// A letter (`'a'`, `'\n'`) ends behind its second quote; a lifetime (`'a`) is its quote alone.
fn end_of_letter(letters: &[char], at: usize) -> usize {
    match (letters.get(at + 1), letters.get(at + 2)) {
        (Some('\\'), _) => {
            let body = at + 3;
            letters[body..].iter().position(|letter| *letter == '\'').map_or(letters.len(), |end| body + end + 1)
        }
        (_, Some('\'')) => at + 3,
        _ => at + 1,
    }
}

/// Takes out the items under `#[cfg(test)]`: gives the rest, the modules among them that are files, and their lines.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>, usize) {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut rest, mut modules, mut lines, mut at) = (Vec::new(), Vec::new(), 0, 0);
    while at < tokens.len() {
        let marked =
            MARK.iter().enumerate().all(|(ahead, text)| tokens.get(at + ahead).is_some_and(|t| t.text == *text));
        if !marked {
            rest.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = end_of_item(tokens, at + MARK.len());
        let words: Vec<&str> = tokens[at..end].iter().map(|token| token.text.as_str()).collect();
        if let Some(["mod", name, ";"]) = words.windows(3).last() {
            modules.push((*name).to_owned());
        }
        lines += tokens[end - 1].line - tokens[at].line + 1;
        at = end;
    }
    (rest, modules, lines)
}

/// Behind the item that begins at `at`: its `;`, or the brace that closes its body.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                // `use a::{b, c};` goes on after its braces.
                if depth == 0 && tokens.get(at + 1).is_none_or(|next| next.text != ";") {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    /// The module of the file.
    module: Path,
    /// Modules with a body that are open here, each with the depth of braces around it.
    inline: Vec<(String, usize)>,
    depth: usize,
    /// Names that a `use` brought in.
    names: BTreeMap<String, Path>,
    source: Source,
}

impl Reader<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    /// Reads every `use`.
    fn uses(&mut self) {
        self.rewind();
        while self.at < self.tokens.len() {
            self.track();
            // `+ use<'a>` is a bound, not an import.
            if self.text(self.at) == "use" && self.text(self.at + 1) != "<" {
                self.at += 1;
                self.tree(&[]);
            } else {
                self.at += 1;
            }
        }
    }

    /// Reads every path in code; `use` has been read.
    fn paths(&mut self) {
        self.rewind();
        while self.at < self.tokens.len() {
            self.track();
            if self.text(self.at) == "use" && self.text(self.at + 1) != "<" {
                while !matches!(self.text(self.at), ";" | "") {
                    self.at += 1;
                }
            }
            let begins = self.at == 0 || !matches!(self.text(self.at - 1), "::" | ".");
            if begins && self.text(self.at + 1) == "::" && is_name(self.text(self.at)) {
                let mut path = vec![self.text(self.at).to_owned()];
                while self.text(self.at + 1) == "::" && is_name(self.text(self.at + 2)) {
                    path.push(self.text(self.at + 2).to_owned());
                    self.at += 2;
                }
                self.add(&path);
            }
            self.at += 1;
        }
    }

    fn rewind(&mut self) {
        (self.at, self.depth) = (0, 0);
        self.inline.clear();
    }

    /// Keeps account of the modules with a body.
    fn track(&mut self) {
        match self.text(self.at) {
            "mod" if self.text(self.at + 2) == "{" => self.inline.push((self.text(self.at + 1).to_owned(), self.depth)),
            "{" => self.depth += 1,
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                if self.inline.last().is_some_and(|(_, depth)| *depth == self.depth) {
                    self.inline.pop();
                }
            }
            _ => {}
        }
    }

    /// A tree of `use`, with what stands before it: `a::{b, c::d as e, *}`.
    fn tree(&mut self, before: &[String]) {
        let mut path = before.to_vec();
        if self.text(self.at) == "::" {
            self.at += 1;
        }
        loop {
            match self.text(self.at) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(self.at), "}" | "") {
                        self.tree(&path);
                        if self.text(self.at) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    self.add(&path);
                    return;
                }
                name if is_name(name) => {
                    path.push(name.to_owned());
                    self.at += 1;
                }
                // Not a tree; the compiler will say so.
                _ => return self.at += 1,
            }
            if self.text(self.at) == "::" {
                self.at += 1;
                continue;
            }
            // `a::{self, b}` brings in `a`.
            if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
                path.pop();
            }
            let mut name = path.last().cloned().unwrap_or_default();
            if self.text(self.at) == "as" {
                self.text(self.at + 1).clone_into(&mut name);
                self.at += 2;
            }
            self.add(&path);
            if !matches!(path[0].as_str(), "crate" | "self" | "super") {
                self.names.insert(name, path);
            }
            return;
        }
    }

    /// Remembers a path as one of this crate, or as one of another.
    fn add(&mut self, path: &[String]) {
        let here = || self.module.iter().cloned().chain(self.inline.iter().map(|(name, _)| name.clone()));
        let (mut full, rest): (Path, &[String]) = match path[0].as_str() {
            "crate" | "kl_runner" => (Vec::new(), &path[1..]),
            "self" => (here().collect(), &path[1..]),
            "super" => {
                let up = path.iter().take_while(|name| *name == "super").count();
                let here: Path = here().collect();
                (here[..here.len().saturating_sub(up)].to_vec(), &path[up..])
            }
            first => {
                let mut full = self.names.get(first).cloned().unwrap_or_else(|| vec![first.to_owned()]);
                full.extend_from_slice(&path[1..]);
                self.source.foreign.insert(full);
                return;
            }
        };
        full.extend_from_slice(rest);
        self.source.own.insert(full);
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') && text != "as"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(module: &[&str], text: &str) -> (Vec<String>, Vec<String>) {
        let source = Source::read(module, text);
        let join = |paths: BTreeSet<Path>| paths.into_iter().map(|path| path.join("::")).collect();
        (join(source.own), join(source.foreign))
    }

    #[test]
    fn every_way_to_name_a_room_is_seen() {
        let text = "
            use crate::{domain::{id::RunId, run}, store};
            use super::super::report::event as told;
            use self::inner::Thing;
            fn f() -> crate::config::File { kl_runner::cli::run() }
            mod inner { use super::super::sibling; }
        ";
        let (own, foreign) = read(&["pipeline", "apply"], text);
        let wanted = [
            "cli::run",
            "config::File",
            "domain::id::RunId",
            "domain::run",
            "pipeline::apply::inner::Thing",
            "pipeline::sibling",
            "report::event",
            "store",
        ];
        assert_eq!(own, wanted);
        assert_eq!(foreign, Vec::<String>::new());
    }

    #[test]
    fn names_that_were_brought_in_are_written_out() {
        let text = "
            use std::{env, fs::{self, File}, io::Read as _};
            use chrono::Utc;
            fn f() { env::var(\"X\"); fs::read(\"y\"); Utc::now(); let n = n.collect::<Vec<_>>(); }
        ";
        let (_, foreign) = read(&["domain"], text);
        let wanted = [
            "chrono::Utc",
            "chrono::Utc::now",
            "std::env",
            "std::env::var",
            "std::fs",
            "std::fs::File",
            "std::fs::read",
            "std::io::Read",
        ];
        assert_eq!(foreign, wanted);
    }

    #[test]
    fn comments_texts_and_letters_are_not_code() {
        let text = r##"
            //! crate::a::b
            /* crate::a /* nested */ crate::b */
            const A: &str = "crate::c \" crate::d";
            const B: &str = r#"crate::e " crate::f"#;
            const C: [char; 2] = ['"', '\''];
            fn f<'a>(x: &'a str) { crate::seen::x(); }
        "##;
        assert_eq!(read(&[], text).0, ["seen::x"]);
    }

    #[test]
    fn what_is_only_for_tests_does_not_count_and_what_follows_does() {
        let text = "\
#[cfg(test)]
mod cases;
#[cfg(test)]
use crate::{forbidden::x, forbidden::y};
#[cfg(test)]
#[expect(dead_code, reason = \"[x\")]
fn helper(a: [u8; 3]) -> u8 { crate::forbidden::z(); { 1 } }
use crate::seen::x;
#[cfg(test)]
mod tests {
    use crate::forbidden::x;
}
fn f() { crate::seen::y() }
";
        let source = Source::read(&["store"], text);
        assert_eq!(source.own, [["seen", "x"], ["seen", "y"]].map(|path| path.map(str::to_owned).to_vec()).into());
        assert_eq!(source.test_modules, ["cases"]);
        assert_eq!(source.lines, 2);
    }
}
