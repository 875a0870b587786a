//! Sentences that are told in more than one place: one wording, written for the terminal and for Markdown.

use super::markdown::Inline;
use super::story::Tone;
use super::style::{bold, dim, good, loud, plain, warn};

/// A sentence of our own words and of names from outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Phrase(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Own(String),
    Name(String),
    Strong(String),
    Prose(String),
    Toned(Tone, String),
}

/// What a part of a phrase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words of our own.
    Own,
    /// An address, a pattern, a file.
    Name,
    /// A word that matters.
    Strong,
    /// A sentence from outside, perhaps with commands between backticks.
    Prose,
    /// Words of our own in the colours of a tone.
    Toned(Tone),
}

impl Phrase {
    /// Begins with a name, as a cell of a table does.
    #[must_use]
    pub fn name_of(name: impl Into<String>) -> Self {
        Self::default().name(name)
    }

    /// Words of our own with a sign in front, in the colours of a tone.
    #[must_use]
    pub fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self::signed(tone, tone.sign(), text)
    }

    /// The sign of a tone alone, in its colours.
    #[must_use]
    pub fn bare_sign(tone: Tone) -> Self {
        Self(vec![Part::Toned(tone, tone.sign().to_owned())])
    }

    /// The same with another sign.
    #[must_use]
    pub fn signed(tone: Tone, sign: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        let text = if sign.is_empty() { text } else { format!("{sign} {text}") };
        Self(vec![Part::Toned(tone, text)])
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|part| part.text().is_empty())
    }

    /// Goes on with another sentence.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Begins with words of our own.
    #[must_use]
    pub fn own(text: impl Into<String>) -> Self {
        Self::default().and(text)
    }

    /// Goes on with words of our own.
    #[must_use]
    pub fn and(mut self, text: impl Into<String>) -> Self {
        self.0.push(Part::Own(text.into()));
        self
    }

    /// An address, a pattern, a file: code where there is such a thing.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.push(Part::Name(name.into()));
        self
    }

    /// A word that matters, as a holder or a number.
    #[must_use]
    pub fn strong(mut self, word: impl Into<String>) -> Self {
        self.0.push(Part::Strong(word.into()));
        self
    }

    /// A sentence from outside.
    #[must_use]
    pub fn prose(mut self, text: impl Into<String>) -> Self {
        self.0.push(Part::Prose(text.into()));
        self
    }

    /// Some names with commas between them, and how many more there are.
    #[must_use]
    pub fn names(mut self, all: &[String], most: usize) -> Self {
        for (position, name) in all.iter().take(most).enumerate() {
            if position > 0 {
                self = self.and(", ");
            }
            self = self.name(name.clone());
        }
        let more = all.len().saturating_sub(most);
        if more > 0 { self.and(format!(" and {more} more")) } else { self }
    }

    /// Without colours or markup: for titles, annotations and logs.
    #[must_use]
    pub fn bare(&self) -> String {
        self.0.iter().map(|part| plain(part.text())).collect()
    }

    /// For a terminal.
    #[must_use]
    pub fn terminal(&self) -> String {
        let write = |part: &Part| match part {
            Part::Strong(text) => bold(plain(text)),
            Part::Toned(tone, text) => match tone {
                Tone::Good => good(plain(text)),
                Tone::Careful | Tone::Waits => warn(plain(text)),
                Tone::Alarm => loud(plain(text)),
                Tone::Quiet => dim(plain(text)),
                Tone::Step => bold(plain(text)),
            },
            other => plain(other.text()),
        };
        self.0.iter().map(write).collect()
    }

    /// For Markdown.
    #[must_use]
    pub fn markdown(&self) -> Inline {
        self.0.iter().fold(Inline::default(), |line, part| {
            line.and(&match part {
                Part::Own(text) => Inline::words(text),
                Part::Name(text) => Inline::code(text),
                Part::Strong(text) | Part::Toned(Tone::Alarm, text) => Inline::text(text).bold(),
                Part::Toned(_, text) => Inline::text(text),
                Part::Prose(text) => Inline::hint(text),
            })
        })
    }
}

impl Phrase {
    /// Its parts in their order, for a reader that has its own look for each kind.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Kind, &str)> {
        self.0.iter().map(|part| match part {
            Part::Own(text) => (Kind::Own, text.as_str()),
            Part::Name(text) => (Kind::Name, text.as_str()),
            Part::Strong(text) => (Kind::Strong, text.as_str()),
            Part::Prose(text) => (Kind::Prose, text.as_str()),
            Part::Toned(tone, text) => (Kind::Toned(*tone), text.as_str()),
        })
    }
}

impl Part {
    fn text(&self) -> &str {
        match self {
            Self::Own(text) | Self::Name(text) | Self::Strong(text) | Self::Prose(text) | Self::Toned(_, text) => text,
        }
    }
}
