//! Markdown: the only place that knows its syntax, and what a hostile text may do in it.
//!
//! Pieces of text are [`Inline`], pieces of a page are [`Block`]. A text from outside becomes one of them only through a
//! function that makes it harmless, so it can never end its cell, its fence or its `<details>`.

mod escape;

use std::fmt;

pub use escape::{html, visible, web};

/// Markdown within a line: safe in a paragraph, a list, a table cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inline(String);

/// A whole block of Markdown, without blank lines around it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Block(String);

impl Inline {
    /// Words of our own: they may hold Markdown.
    #[must_use]
    pub fn own(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// A text from outside, as prose: no markup, no mention, no reference, no link.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self(escape::prose(text))
    }

    /// A text from outside that goes on within a line: as [`Inline::text`], with the spaces at its ends.
    #[must_use]
    pub fn words(text: &str) -> Self {
        let trimmed = text.trim_matches(' ');
        if trimmed.is_empty() {
            return Self(if text.is_empty() { String::new() } else { " ".to_owned() });
        }
        let space = |there: bool| if there { " " } else { "" };
        let (before, after) = (space(text.starts_with(' ')), space(text.ends_with(' ')));
        Self(format!("{before}{}{after}", escape::prose(trimmed)))
    }

    /// A text from outside, letter by letter.
    #[must_use]
    pub fn code(text: &str) -> Self {
        Self(escape::code(text))
    }

    /// Prose in which backticks mark code, as hints have it. Each part is made harmless on its own.
    #[must_use]
    pub fn hint(text: &str) -> Self {
        let parts: Vec<&str> = text.split('`').collect();
        if parts.len().is_multiple_of(2) {
            return Self::text(text);
        }
        parts.iter().enumerate().fold(Self::default(), |line, (position, part)| match (position % 2, part.is_empty()) {
            (_, true) => line,
            (0, _) => line.and(&Self::words(part)),
            _ => line.and(&Self::code(part)),
        })
    }

    /// In bold.
    #[must_use]
    pub fn bold(&self) -> Self {
        if self.0.is_empty() { self.clone() } else { Self(format!("**{}**", self.0)) }
    }

    /// As a link, when the address is one that a link may have.
    #[must_use]
    pub fn link(&self, url: &str) -> Self {
        match escape::url(url) {
            Some(url) if !self.0.is_empty() => Self(format!("[{}]({url})", self.0)),
            _ => self.clone(),
        }
    }

    /// Followed by another piece.
    #[must_use]
    pub fn and(mut self, next: &Self) -> Self {
        self.0.push_str(&next.0);
        self
    }

    /// Followed by words of our own.
    #[must_use]
    pub fn own_and(mut self, next: &'static str) -> Self {
        self.0.push_str(next);
        self
    }

    /// Pieces with words of our own between them.
    #[must_use]
    pub fn join(pieces: impl IntoIterator<Item = Self>, between: &'static str) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0).collect::<Vec<_>>().join(between))
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The Markdown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Block {
    /// A paragraph.
    #[must_use]
    pub fn paragraph(line: &Inline) -> Self {
        Self(line.0.clone())
    }

    /// A heading; 1 is the largest.
    #[must_use]
    pub fn heading(level: usize, line: &Inline) -> Self {
        Self(format!("{} {}", "#".repeat(level.clamp(1, 6)), line.0))
    }

    /// A list.
    #[must_use]
    pub fn list(lines: &[Inline]) -> Self {
        Self(lines.iter().map(|line| format!("- {}", line.0)).collect::<Vec<_>>().join("\n"))
    }

    /// A list in which each line may have lines of its own below it.
    #[must_use]
    pub fn outline(lines: &[(Inline, Vec<Inline>)]) -> Self {
        let one = |(line, below): &(Inline, Vec<Inline>)| {
            below.iter().fold(format!("- {}", line.0), |text, below| text + "\n  - " + &below.0)
        };
        Self(lines.iter().map(one).collect::<Vec<_>>().join("\n"))
    }

    /// Lines set apart by a bar, the first of them in bold.
    #[must_use]
    pub fn quote(lines: &[Inline]) -> Self {
        Self(lines.iter().map(|line| format!("> {}", line.0)).collect::<Vec<_>>().join("\n>\n"))
    }

    /// A text from outside with its line ends, letter by letter, in a fence that it cannot close.
    #[must_use]
    pub fn fence(language: Language, text: &str) -> Self {
        let text = escape::lines(text);
        let fence = "`".repeat(escape::longest_run(&text).max(2) + 1);
        Self(format!("{fence}{language}\n{text}\n{fence}"))
    }

    /// Several blocks as one.
    #[must_use]
    pub fn stack(blocks: &[Self]) -> Self {
        Self(blocks.iter().map(|block| block.0.as_str()).collect::<Vec<_>>().join("\n\n"))
    }

    /// The Markdown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a fence holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Plain text.
    Text,
    /// Removed and added lines.
    Diff,
    /// A Mermaid diagram.
    Mermaid,
    /// Commands for a shell.
    Shell,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Diff => "diff",
            Self::Mermaid => "mermaid",
            Self::Shell => "sh",
        })
    }
}

/// A table: rows can be counted and left out one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    head: String,
    width: usize,
    rows: Vec<String>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(head: &[&'static str]) -> Self {
        Self {
            head: format!("| {} |\n|{}", head.join(" | "), " :--- |".repeat(head.len())),
            width: head.len(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, those too many are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Inline>) {
        let mut cells: Vec<String> = cells.into_iter().map(|cell| cell.0).collect();
        cells.resize(self.width, String::new());
        self.rows.push(format!("| {} |", cells.join(" | ")));
    }

    /// The two lines above the rows.
    #[must_use]
    pub fn head(&self) -> &str {
        &self.head
    }

    /// The rows, each a line.
    #[must_use]
    pub fn rows(&self) -> &[String] {
        &self.rows
    }

    /// The whole table.
    #[must_use]
    pub fn block(&self) -> Block {
        let lines: Vec<&str> =
            std::iter::once(self.head.as_str()).chain(self.rows.iter().map(String::as_str)).collect();
        Block(lines.join("\n"))
    }
}

/// What opens a block that the reader folds out, and what closes it.
#[must_use]
pub fn details(summary: &str) -> (String, &'static str) {
    (format!("<details>\n<summary>{}</summary>", html(summary)), "</details>")
}

#[cfg(test)]
pub(in crate::report) mod tests;
