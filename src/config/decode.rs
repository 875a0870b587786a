//! From the tree of a file to its types.

mod wrong;

use std::collections::HashSet;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::yaml::{Node, Part, Step};
use wrong::What;
pub(super) use wrong::Wrong;

/// Reads the tree as a type.
pub(super) fn decode<T: DeserializeOwned>(node: &Node) -> Result<T, Wrong> {
    T::deserialize(Reader { node })
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
