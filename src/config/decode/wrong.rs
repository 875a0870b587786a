//! What is wrong with a file, in the words of the file: keys, lists, text.

use std::fmt;

use serde::de::{self, Unexpected};

use crate::config::yaml::{Node, Part, Step};

/// What is wrong, and at which part of the file.
#[derive(Debug)]
pub(in crate::config) struct Wrong {
    /// The way to it.
    pub(in crate::config) path: Vec<Step>,
    /// Whether the last key of the way is meant, or its value.
    pub(in crate::config) part: Part,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    UnknownKey { key: String, known: &'static [&'static str] },
    KeyTwice(String),
    KeyMissing(&'static str),
    Kind { wanted: &'static str, found: &'static str },
    Word { word: String, known: &'static [&'static str] },
    Value { value: String, wanted: String },
    Other(String),
}

impl Wrong {
    pub(super) fn new(what: What) -> Self {
        Self { path: Vec::new(), part: Part::Value, what }
    }

    /// Something else that is wrong, found by looking at the whole.
    pub(in crate::config) fn at(path: Vec<Step>, message: impl Into<String>) -> Self {
        Self { path, part: Part::Value, what: What::Other(message.into()) }
    }

    pub(super) fn under(mut self, step: Step) -> Self {
        self.path.insert(0, step);
        self
    }

    pub(super) fn key(mut self, key: &str) -> Self {
        self.path = vec![Step::Key(key.to_owned())];
        self.part = Part::Key;
        self
    }
}

/// The sentence, without the place.
impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Entry(_) => None,
        });
        let entry = matches!(self.path.last(), Some(Step::Entry(_)));
        let subject = match (name, entry) {
            (Some(key), true) => format!("an entry of `{}`", shown(key)),
            (Some(key), false) => format!("`{}`", shown(key)),
            (None, _) => "the file".to_owned(),
        };
        match &self.what {
            What::UnknownKey { key, known } => {
                write!(f, "unknown key `{}`, ", shown(key))?;
                match nearest(key, known) {
                    Some(near) => write!(f, "did you mean `{near}`?"),
                    None => write!(f, "known are {}", words(known, "and")),
                }
            }
            What::KeyTwice(key) => write!(f, "the key `{}` stands here a second time", shown(key)),
            What::KeyMissing(key) => write!(f, "{subject} must have the key `{key}`"),
            What::Kind { wanted, found } => write!(f, "{subject} must be {wanted}, and this is {found}"),
            What::Word { word, known } => {
                write!(f, "{subject} cannot be `{}`; it is {}", shown(word), words(known, "or"))?;
                nearest(word, known).map_or(Ok(()), |near| write!(f, " (did you mean `{near}`?)"))
            }
            What::Value { value, wanted } => write!(f, "{subject} cannot be {value}; it is {wanted}"),
            What::Other(message) if self.path.is_empty() => f.write_str(message),
            What::Other(message) => write!(f, "{subject}: {message}"),
        }
    }
}

/// A word of the file as it can be repeated: it may be anything.
fn shown(word: &str) -> String {
    let safe: String = word.chars().take(60).flat_map(char::escape_debug).collect();
    if word.chars().count() > 60 { format!("{safe}…") } else { safe }
}

/// `a`, `b` or `c`.
fn words(known: &[&str], last: &str) -> String {
    let quoted: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((only, [])) => only.clone(),
        Some((end, front)) => format!("{} {last} {end}", front.join(", ")),
        None => "none".to_owned(),
    }
}

/// The known word that was probably meant.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Long words are nobody's slip, and comparing them takes time.
    if word.chars().count() > 60 {
        return None;
    }
    let plain = word.to_lowercase().replace(['-', ' '], "_");
    let distance = |candidate: &str| strsim::damerau_levenshtein(&plain, candidate);
    let best = known.iter().min_by_key(|candidate| distance(candidate))?;
    (distance(best) <= 1 + best.chars().count() / 4).then_some(*best)
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(What::Other(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        Self::invalid_value(found, wanted)
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        let value = match found {
            Unexpected::Bool(value) => format!("`{value}`"),
            Unexpected::Unsigned(number) => format!("`{number}`"),
            Unexpected::Signed(number) => format!("`{number}`"),
            Unexpected::Float(number) => format!("`{number}`"),
            Unexpected::Str(text) => format!("`{}`", shown(text)),
            Unexpected::Seq => Node::List(Vec::new()).kind().to_owned(),
            Unexpected::Map => Node::Map(Vec::new()).kind().to_owned(),
            _ => Node::Null.kind().to_owned(),
        };
        Self::new(What::Value { value, wanted: wanted.to_string() })
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::new(What::Word { word: word.to_owned(), known })
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::new(What::UnknownKey { key: key.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(What::KeyMissing(key))
    }
}
