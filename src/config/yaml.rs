//! YAML text to a tree, within limits.
//!
//! The file comes from a pull request: it may be made to be slow, deep, or huge once its aliases are followed.

mod find;

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Visitor};

use find::Find;

/// The largest file that is read, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// Brackets within brackets: the YAML reader takes time by the square of their depth.
const MAX_DEPTH: usize = 64;

/// So many values a file may have after its aliases are followed.
const MAX_VALUES: usize = 50_000;

/// The longest message of the YAML reader that is passed on: it repeats what it does not like.
const MAX_MESSAGE: usize = 300;

/// A value of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    /// A whole number from 0.
    Count(u64),
    /// Any other number, as it would be printed.
    Number(f64),
    Text(String),
    List(Vec<Node>),
    /// Keys in their order, twice where they stand twice.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// What it is, in the words of the file.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Count(_) | Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a group of keys",
        }
    }
}

/// One step from a value to a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The value of a key.
    Key(String),
    /// An entry of a list, from 0.
    Entry(usize),
}

/// Which part of what a path leads to is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The last key itself.
    Key,
    /// The last key where it stands for the second time.
    KeyAgain,
    /// The value.
    Value,
}

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// The line.
    pub line: usize,
    /// The column in characters.
    pub column: usize,
}

/// `:LINE:COLUMN`, to stand after a file's name.
impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}:{}", self.line, self.column)
    }
}

/// Why a text is no tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) spot: Option<Spot>,
    pub(super) message: String,
}

impl From<serde_yaml::Error> for Fault {
    fn from(error: serde_yaml::Error) -> Self {
        Self { spot: spot(&error), message: without_place(&error.to_string()) }
    }
}

/// Reads a text within the limits.
pub(super) fn read(text: &str) -> Result<Node, Fault> {
    if let Some(spot) = too_deep(text) {
        let message = format!("more than {MAX_DEPTH} brackets within each other");
        return Err(Fault { spot: Some(spot), message });
    }
    // The YAML reader takes a file without any value for an error.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Node::Null);
    }
    let left = Cell::new(MAX_VALUES);
    Ok(Build { left: &left }.deserialize(serde_yaml::Deserializer::from_str(text))?)
}

/// Where a part of a text that was read stands.
pub(super) fn find(text: &str, path: &[Step], part: Part) -> Option<Spot> {
    let error = Find { path, part }.deserialize(serde_yaml::Deserializer::from_str(text)).err()?;
    spot(&error)
}

fn spot(error: &serde_yaml::Error) -> Option<Spot> {
    error.location().map(|at| Spot { line: at.line(), column: at.column() })
}

/// Where brackets are nested too deeply. Those in comments and quotes count as well, which does no harm: they would have
/// to be unbalanced.
fn too_deep(text: &str) -> Option<Spot> {
    let mut depth = 0_usize;
    for (number, line) in text.lines().enumerate() {
        for (column, letter) in line.chars().enumerate() {
            match letter {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_DEPTH {
                return Some(Spot { line: number + 1, column: column + 1 });
            }
        }
    }
    None
}

/// The YAML reader puts the place at the end of its message; ours stands in front, as editors want it.
fn without_place(message: &str) -> String {
    let message = message.rfind(" at line ").map_or(message, |at| &message[..at]);
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}

/// Builds the tree, and counts.
#[derive(Clone, Copy)]
struct Build<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Build<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Err(D::Error::custom(format!("more than {MAX_VALUES} values, with those that aliases repeat")));
        };
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Build<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Count(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        #[expect(clippy::cast_precision_loss, reason = "no key takes negative numbers: it is only named in an error")]
        Ok(Node::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element_seed(self)? {
            entries.push(entry);
        }
        Ok(Node::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key_seed(KeyText)? {
            entries.push((key, map.next_value_seed(self)?));
        }
        Ok(Node::Map(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Node, A::Error> {
        Err(A::Error::custom("tags (`!name`) mean nothing here"))
    }
}

/// A key, which is text.
struct KeyText;

impl<'de> DeserializeSeed<'de> for KeyText {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for KeyText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key, which is text (in quotes, if it looks like something else)")
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a: 1\nlist:\n  - x\n  - {name: web, dir: infra/web}\n'b': [true, -1, 1.5, null]\n";

    fn at(path: &[Step], part: Part) -> Option<(usize, usize)> {
        find(TEXT, path, part).map(|spot| (spot.line, spot.column))
    }

    #[test]
    fn a_text_becomes_a_tree_with_its_keys_in_order() {
        let Node::Map(entries) = read(TEXT).unwrap() else { panic!("a group of keys") };
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "list", "b"]);
        assert_eq!(entries[2].1, Node::List(vec![Node::Bool(true), Node::Number(-1.0), Node::Number(1.5), Node::Null]));
    }

    #[test]
    fn every_part_of_a_text_is_found_again() {
        let key = |name: &str| Step::Key(name.to_owned());
        assert_eq!(at(&[key("list")], Part::Key), Some((2, 1)));
        assert_eq!(at(&[key("list"), Step::Entry(0)], Part::Value), Some((3, 5)));
        assert_eq!(at(&[key("list"), Step::Entry(1), key("dir")], Part::Key), Some((4, 17)));
        assert_eq!(at(&[key("list"), Step::Entry(1), key("dir")], Part::Value), Some((4, 22)));
        assert_eq!(at(&[key("b"), Step::Entry(3)], Part::Value), Some((5, 22)));
        assert_eq!(at(&[key("nowhere")], Part::Key), None);
    }

    #[test]
    fn aliases_are_followed_until_they_are_too_many() {
        assert_eq!(
            read("a: &x [1]\nb: *x\n").unwrap(),
            Node::Map(vec![
                ("a".into(), Node::List(vec![Node::Count(1)])),
                ("b".into(), Node::List(vec![Node::Count(1)]))
            ])
        );
        let mut bomb = String::from("a0: &a0 [x, x]\n");
        for level in 1..40 {
            bomb += &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
        }
        let began = std::time::Instant::now();
        let fault = read(&bomb).unwrap_err();
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
        assert!(fault.message.contains("more than 50000 values") || fault.message.contains("repetition"), "{fault:?}");
    }

    #[test]
    fn tags_and_odd_keys_are_refused_where_they_stand() {
        let fault = read("a: !secret x\n").unwrap_err();
        assert_eq!(
            (fault.message.as_str(), fault.spot),
            ("a: tags (`!name`) mean nothing here", Some(Spot { line: 1, column: 4 }))
        );
        assert!(read("1: x\n").unwrap_err().message.contains("a key, which is text"));
    }

    #[test]
    fn nothing_but_comments_is_nothing() {
        for text in ["", "\n", "# nothing yet\n", "---\n", "  # x\n\n"] {
            assert_eq!(read(text), Ok(Node::Null), "{text:?}");
        }
    }
}
