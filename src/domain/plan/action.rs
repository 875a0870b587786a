//! What Terraform plans to do with an object: the action vectors that kl knows. Any other is refused.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A known action vector of plan JSON (facts C2–C4, cases B10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Nothing happens to the object; it may still be moved or imported.
    NoOp,
    /// A new object.
    Create,
    /// A data source is read while applying.
    Read,
    /// The object changes in place.
    Update,
    /// The object is destroyed.
    Delete,
    /// Replaced, the old one destroyed first.
    DeleteCreate,
    /// Replaced, the new one created first.
    CreateDelete,
    /// No longer managed; the object stays.
    Forget,
    /// Replaced by a new one while the old stays unmanaged (Terraform's order).
    CreateForget,
    /// The same in OpenTofu's order.
    ForgetCreate,
}

/// An action vector that kl does not know. Treating it as no change could lose an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan has an action that this version of kl does not know: {0:?}")]
pub struct UnknownAction(pub Vec<String>);

impl Action {
    const ALL: [(Self, &'static [&'static str]); 10] = [
        (Self::NoOp, &["no-op"]),
        (Self::Create, &["create"]),
        (Self::Read, &["read"]),
        (Self::Update, &["update"]),
        (Self::Delete, &["delete"]),
        (Self::DeleteCreate, &["delete", "create"]),
        (Self::CreateDelete, &["create", "delete"]),
        (Self::Forget, &["forget"]),
        (Self::CreateForget, &["create", "forget"]),
        (Self::ForgetCreate, &["forget", "create"]),
    ];

    /// Reads a vector.
    ///
    /// # Errors
    /// When kl does not know it.
    pub fn from_vector(vector: &[String]) -> Result<Self, UnknownAction> {
        let same = |known: &[&str]| known.len() == vector.len() && known.iter().zip(vector).all(|(a, b)| a == b);
        Self::ALL
            .iter()
            .find(|(_, known)| same(known))
            .map(|(action, _)| *action)
            .ok_or_else(|| UnknownAction(vector.to_vec()))
    }

    /// The vector as plan JSON has it.
    #[must_use]
    pub fn vector(self) -> &'static [&'static str] {
        Self::ALL.iter().find(|(action, _)| *action == self).map_or(&[], |(_, vector)| *vector)
    }

    /// Whether an object is replaced by another.
    #[must_use]
    pub fn replaces(self) -> bool {
        self.vector().len() == 2
    }

    /// One word or two for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoOp => "no change",
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "destroy",
            Self::DeleteCreate => "replace",
            Self::CreateDelete => "replace (create first)",
            Self::Forget => "forget (no longer managed)",
            Self::CreateForget | Self::ForgetCreate => "replace (old one no longer managed)",
        }
    }

    /// The sign that Terraform puts before such a change.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::NoOp => " ",
            Self::Create => "+",
            Self::Read => "<=",
            Self::Update => "~",
            Self::Delete => "-",
            Self::DeleteCreate => "-/+",
            Self::CreateDelete => "+/-",
            Self::Forget => ".",
            Self::CreateForget | Self::ForgetCreate => "+/.",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.vector().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let vector = Vec::<String>::deserialize(deserializer)?;
        Self::from_vector(&vector).map_err(serde::de::Error::custom)
    }
}
