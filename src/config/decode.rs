//! From the tree of a file to its types, with errors in the words of the file: keys, lists, text.

use std::collections::HashSet;
use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::yaml::{Node, Part, Step};

/// What is wrong, and at which part of the file.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The way to it.
    pub(super) path: Vec<Step>,
    /// Whether the last key of the way is meant, or its value.
    pub(super) part: Part,
    what: What,
}

#[derive(Debug)]
enum What {
    UnknownKey { key: String, known: &'static [&'static str] },
    KeyTwice(String),
    KeyMissing(&'static str),
    Kind { wanted: &'static str, found: &'static str },
    Word { word: String, known: &'static [&'static str] },
    Value { value: String, wanted: String },
    Other(String),
}

/// Reads the tree as a type.
pub(super) fn decode<T: DeserializeOwned>(node: &Node) -> Result<T, Wrong> {
    T::deserialize(Reader { node })
}

impl Wrong {
    fn new(what: What) -> Self {
        Self { path: Vec::new(), part: Part::Value, what }
    }

    /// Something else that is wrong, found by looking at the whole.
    pub(super) fn at(path: Vec<Step>, message: impl Into<String>) -> Self {
        Self { path, part: Part::Value, what: What::Other(message.into()) }
    }

    fn under(mut self, step: Step) -> Self {
        self.path.insert(0, step);
        self
    }

    fn key(mut self, key: &str) -> Self {
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

/// A part of the tree, being read.
#[derive(Clone, Copy)]
struct Reader<'a> {
    node: &'a Node,
}

impl Reader<'_> {
    fn is_not(self, wanted: &'static str) -> Wrong {
        Wrong::new(What::Kind { wanted, found: self.node.kind() })
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.node {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Count(number) => visitor.visit_u64(*number),
            Node::Number(number) => visitor.visit_f64(*number),
            Node::Text(text) => visitor.visit_str(text),
            Node::List(entries) => visitor.visit_seq(Entries(entries.iter().enumerate())),
            Node::Map(keys) => visitor.visit_map(Keys::of(keys)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.node {
            Node::Bool(value) => visitor.visit_bool(*value),
            _ => Err(self.is_not("`true` or `false`")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.node {
            Node::Text(text) => visitor.visit_str(text),
            // `1.10` would come out as another text, and so would `yes` for some readers of YAML.
            Node::Count(_) | Node::Number(_) | Node::Bool(_) => Err(self.is_not("text (put it in quotes)")),
            _ => Err(self.is_not("text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.node {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.node {
            Node::List(_) => self.deserialize_any(visitor),
            // A key whose entries are all commented out.
            Node::Null => visitor.visit_seq(Entries([].iter().enumerate())),
            _ => Err(self.is_not("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.node {
            Node::Map(_) => self.deserialize_any(visitor),
            Node::Null => visitor.visit_map(Keys::of(&[])),
            _ => Err(self.is_not("a group of keys")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.node {
            Node::Text(word) => visitor.visit_enum(Word(word)),
            Node::Bool(value) => Err(Wrong::new(What::Word { word: value.to_string(), known })),
            _ => Err(self.is_not("a word")),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

/// One word of several.
struct Word<'a>(&'a str);

impl<'de> EnumAccess<'de> for Word<'_> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Wrong> {
        let text = Node::Text(self.0.to_owned());
        Ok((seed.deserialize(Reader { node: &text })?, self))
    }
}

impl<'de> VariantAccess<'de> for Word<'_> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Wrong> {
        Err(Wrong::new(What::Kind { wanted: "a group of keys", found: "text" }))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Wrong> {
        Err(Wrong::new(What::Kind { wanted: "a list", found: "text" }))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Wrong> {
        Err(Wrong::new(What::Kind { wanted: "a group of keys", found: "text" }))
    }
}

/// The entries of a list.
struct Entries<'a>(std::iter::Enumerate<std::slice::Iter<'a, Node>>);

impl<'de> SeqAccess<'de> for Entries<'_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        let Some((index, node)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Reader { node }).map(Some).map_err(|wrong| wrong.under(Step::Entry(index)))
    }
}

/// The keys of a group.
struct Keys<'a> {
    left: std::slice::Iter<'a, (String, Node)>,
    seen: HashSet<&'a str>,
    value: Option<&'a (String, Node)>,
}

impl<'a> Keys<'a> {
    fn of(keys: &'a [(String, Node)]) -> Self {
        Self { left: keys.iter(), seen: HashSet::new(), value: None }
    }
}

impl<'de> MapAccess<'de> for Keys<'_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        self.value = self.left.next();
        let Some((key, _)) = self.value else { return Ok(None) };
        if !self.seen.insert(key) {
            return Err(Wrong { part: Part::KeyAgain, ..Wrong::new(What::KeyTwice(key.clone())).key(key) });
        }
        let node = Node::Text(key.clone());
        seed.deserialize(Reader { node: &node }).map(Some).map_err(|wrong| wrong.key(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let Some((key, node)) = self.value else { return Err(Wrong::new(What::Other("no key".to_owned()))) };
        seed.deserialize(Reader { node }).map_err(|wrong| wrong.under(Step::Key(key.clone())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::config::yaml;

    #[derive(Debug, PartialEq, Deserialize, Default)]
    #[serde(deny_unknown_fields, default)]
    struct Shelf {
        name: String,
        open: Option<bool>,
        books: Vec<Book>,
        labels: BTreeMap<String, String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Book {
        title: String,
        #[serde(default)]
        cover: Cover,
    }

    #[derive(Debug, PartialEq, Deserialize, Default)]
    #[serde(rename_all = "lowercase")]
    enum Cover {
        #[default]
        Soft,
        Hard,
    }

    fn read(text: &str) -> Result<Shelf, String> {
        decode(&yaml::read(text).unwrap()).map_err(|wrong: Wrong| {
            let spot = yaml::find(text, &wrong.path, wrong.part).unwrap();
            format!("{wrong}{spot}")
        })
    }

    #[test]
    fn what_fits_is_read() {
        let shelf =
            read("name: x\nopen: true\nbooks:\n- title: a\n- {title: b, cover: hard}\nlabels: {k: v}\n").unwrap();
        assert_eq!((shelf.open, shelf.books.len(), shelf.labels["k"].as_str()), (Some(true), 2, "v"));
        assert_eq!(shelf.books[1].cover, Cover::Hard);
        assert_eq!(read("books:\nopen:\n").unwrap(), Shelf::default());
    }

    #[test]
    fn what_does_not_fit_is_told_in_the_words_of_the_file() {
        for (text, message) in [
            ("nmae: x\n", "unknown key `nmae`, did you mean `name`?:1:1"),
            ("a\\: x\n", "unknown key `a\\\\`, known are `name`, `open`, `books` and `labels`:1:1"),
            ("name: 1.10\n", "`name` must be text (put it in quotes), and this is a number:1:7"),
            ("name: [x]\n", "`name` must be text, and this is a list:1:7"),
            ("books: 3\n", "`books` must be a list, and this is a number:1:8"),
            ("books: [x]\n", "an entry of `books` must be a group of keys, and this is text:1:9"),
            ("books:\n  - cover: hard\n", "an entry of `books` must have the key `title`:2:5"),
            (
                "books:\n  - {title: a, cover: hrad}\n",
                "`cover` cannot be `hrad`; it is `soft` or `hard` (did you mean `hard`?):2:23",
            ),
            ("open: yes\n", "`open` must be `true` or `false`, and this is text:1:7"),
            ("open: true\nname: x\nopen: false\n", "the key `open` stands here a second time:3:1"),
            ("labels: {a: b, a: c}\n", "the key `a` stands here a second time:1:16"),
            ("labels: {a: []}\n", "`a` must be text, and this is a list:1:13"),
            ("3\n", "the file must be a group of keys, and this is a number:1:1"),
        ] {
            assert_eq!(read(text).unwrap_err(), message, "{text:?}");
        }
    }

    #[test]
    fn a_word_is_repeated_safely_and_in_short() {
        let message = read(&format!("\"\\e[31m{}\": 1\n", "x".repeat(500))).unwrap_err();
        assert!(message.len() < 200 && !message.contains('\u{1b}'), "{message}");
    }
}
