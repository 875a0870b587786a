//! From a part of the tree back to its line and column, by reading the text once more.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Part, Step};

/// Walks to a part of the text, and fails there: the YAML reader tells only of errors where they stand.
pub(super) struct Find<'a> {
    pub(super) path: &'a [Step],
    pub(super) part: Part,
}

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Find<'_> {
    /// What every kind of value does at the end of the way.
    fn here<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.path.is_empty() { Err(E::custom("here")) } else { Ok(()) }
    }

    fn below(&self) -> Find<'_> {
        Find { path: self.path.get(1..).unwrap_or_default(), part: self.part }
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.here()
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.here()
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.here()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.here()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.here()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.here()
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.here()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.here()?;
        let mut index = 0;
        loop {
            let found = if self.path.first() == Some(&Step::Entry(index)) {
                list.next_element_seed(self.below())?
            } else {
                list.next_element::<IgnoredAny>()?.map(|_| ())
            };
            if found.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.here()?;
        let wanted = match self.path.first() {
            Some(Step::Key(key)) => Some(key.as_str()),
            _ => None,
        };
        let last = self.path.len() == 1;
        let mut passed = self.part != Part::KeyAgain;
        while let Some(is_wanted) =
            map.next_key_seed(FindKey { wanted, meant: last && passed && self.part != Part::Value })?
        {
            if is_wanted && !(last && self.part == Part::KeyAgain) {
                map.next_value_seed(self.below())?;
            } else {
                passed |= is_wanted;
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.here()
    }
}

/// Whether a key is the wanted one; fails there when the key itself is meant.
struct FindKey<'a> {
    wanted: Option<&'a str>,
    meant: bool,
}

impl<'de> DeserializeSeed<'de> for FindKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for FindKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<bool, E> {
        let found = self.wanted == Some(value);
        if found && self.meant { Err(E::custom("here")) } else { Ok(found) }
    }
}
