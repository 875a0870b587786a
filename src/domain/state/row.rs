//! One row of a state: a resource instance object, a root output, or a check result.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::domain::address::{Address, ConfigAddress, Pattern};
use crate::domain::json::{Json, JsonError};

/// The key of an object that a failed replacement left behind, as Terraform spells it (eight hex digits).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeposedKey(pub String);

/// What identifies a row within a state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowKey {
    /// A resource instance's current object, or one of its deposed ones.
    Object {
        /// The instance.
        address: Address,
        /// The deposed object, when it is not the current one.
        deposed: Option<DeposedKey>,
    },
    /// A root output.
    Output(String),
    /// The results of one check, by the kind and configuration address that the state gives it.
    Check {
        /// `resource`, `output`, `check` or `var`.
        object_kind: String,
        /// As `module.web.terraform_data.x` or `output.url`.
        config_address: String,
    },
    /// A resource that the state lists without any instance, as older Terraform versions left them.
    Husk(Address),
}

/// A fixed-length name of a row key, for database indexes: keys of instances can be longer than an index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKeyDigest(pub [u8; 32]);

/// The hash of a row's canonical content: equal for bodies that differ only in space and member order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash(pub [u8; 32]);

/// A row's content as exact JSON text.
///
/// For an object it is the resource block of the state document with this one instance in it, so that every member,
/// known or not, is kept; for an output or a check, the document's own value.
#[derive(Clone, PartialEq, Eq)]
pub struct Body {
    text: String,
    hash: ContentHash,
}

/// What a version did to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touched {
    /// The row is new.
    Created,
    /// The row has another content.
    Changed,
    /// The row ended.
    Removed,
}

impl Touched {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }

    /// The sign that Terraform puts before such a change.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Created => "+",
            Self::Changed => "~",
            Self::Removed => "-",
        }
    }
}

/// A row of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which row.
    pub key: RowKey,
    /// Its content.
    pub body: Body,
}

impl RowKey {
    /// The current object of an instance.
    #[must_use]
    pub fn object(address: Address) -> Self {
        Self::Object { address, deposed: None }
    }

    /// One word for the kind, as the database stores it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Object { .. } => "object",
            Self::Output(_) => "output",
            Self::Check { .. } => "check",
            Self::Husk(_) => "husk",
        }
    }

    /// The text that names the row to people: the address, `output.NAME`, or the check's address.
    #[must_use]
    pub fn address_text(&self) -> String {
        match self {
            Self::Object { address, .. } | Self::Husk(address) => address.to_string(),
            Self::Output(name) => format!("output.{name}"),
            Self::Check { config_address, .. } => config_address.clone(),
        }
    }

    /// The instance, when the row is one.
    #[must_use]
    pub fn address(&self) -> Option<&Address> {
        match self {
            Self::Object { address, .. } => Some(address),
            _ => None,
        }
    }

    /// What tells rows of one address apart: the deposed key, or the kind of a check's object; else empty.
    #[must_use]
    pub fn qualifier(&self) -> &str {
        match self {
            Self::Object { deposed: Some(DeposedKey(key)), .. } => key,
            Self::Check { object_kind, .. } => object_kind,
            _ => "",
        }
    }

    /// The pattern that covers exactly this row; none for check results, which nobody reserves alone.
    #[must_use]
    pub fn pattern(&self) -> Option<Pattern> {
        match self {
            Self::Object { address, .. } | Self::Husk(address) => Some(Pattern::Resource(address.clone())),
            Self::Output(name) => Some(Pattern::Output(name.clone())),
            Self::Check { .. } => None,
        }
    }

    /// The fixed-length name for indexes.
    #[must_use]
    pub fn digest(&self) -> RowKeyDigest {
        let mut hash = Sha256::new();
        for part in [self.kind(), &self.address_text(), self.qualifier()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        RowKeyDigest(hash.finalize().into())
    }

    /// Builds the key back from its stored columns.
    ///
    /// # Errors
    /// When the columns do not describe a row: the database was written by something else.
    pub fn from_parts(kind: &str, address: &str, qualifier: &str) -> Result<Self, String> {
        let parse = || Address::parse(address).map_err(|error| error.to_string());
        match kind {
            "object" => Ok(Self::Object {
                address: parse()?,
                deposed: (!qualifier.is_empty()).then(|| DeposedKey(qualifier.to_owned())),
            }),
            "output" => {
                let name = address.strip_prefix("output.").ok_or_else(|| format!("{address:?} is not an output"))?;
                Ok(Self::Output(name.to_owned()))
            }
            "check" => Ok(Self::Check { object_kind: qualifier.to_owned(), config_address: address.to_owned() }),
            "husk" => Ok(Self::Husk(parse()?)),
            other => Err(format!("{other:?} is not a kind of row")),
        }
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address_text())?;
        match self {
            Self::Object { deposed: Some(DeposedKey(key)), .. } => write!(f, " (deposed {key})"),
            Self::Check { object_kind, .. } => write!(f, " ({object_kind} check)"),
            _ => Ok(()),
        }
    }
}

impl Body {
    /// Takes a JSON text as a body and hashes its canonical form.
    ///
    /// # Errors
    /// When the text is not JSON.
    pub fn new(text: impl Into<String>) -> Result<Self, JsonError> {
        let text = text.into();
        let canonical = Json::parse(&text)?.canonical();
        Ok(Self { text, hash: ContentHash(Sha256::digest(canonical.as_bytes()).into()) })
    }

    /// A body as the database gave it back, with the hash that stands beside it.
    #[must_use]
    pub fn stored(text: String, hash: ContentHash) -> Self {
        Self { text, hash }
    }

    /// The exact text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The hash of the canonical content.
    #[must_use]
    pub fn hash(&self) -> ContentHash {
        self.hash
    }
}

impl fmt::Debug for Body {
    /// Bodies hold secrets: only the hash is ever shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({})", self.hash)
    }
}

/// The `dependencies` that the state records for an instance: transitive, and the only source for objects that the
/// configuration no longer declares (facts C6).
#[must_use]
pub fn dependencies_of(body: &Body) -> Vec<ConfigAddress> {
    let Ok(block) = Json::parse(body.text()) else {
        return Vec::new();
    };
    let Some(Json::Array(instances)) = block.get("instances") else {
        return Vec::new();
    };
    instances
        .iter()
        .filter_map(|instance| match instance.get("dependencies") {
            Some(Json::Array(items)) => Some(items),
            _ => None,
        })
        .flatten()
        .filter_map(|item| ConfigAddress::parse(item.as_str()?).ok())
        .collect()
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for RowKeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}
