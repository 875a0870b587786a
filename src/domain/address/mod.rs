//! Addresses of resource instances: the structured form, its order, and Terraform's own text for it.
//!
//! An address is parsed by a tokenizer and compared by its parts, never split on dots or matched as text:
//! `x[0]` and `x["0"]` differ, and a `*`, `.` or `]` inside a key is a letter like any other.

mod parse;
mod pattern;
mod print;
mod provider;
mod scope;
mod target;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use parse::ParseAddressError;
pub use pattern::{ModuleScope, Pattern};
pub use print::quoted;
pub use provider::{is_dependency, is_provider};
pub use scope::{ConfigAddress, ConfigModule};
pub use target::Target;

/// The key of one instance of a resource or module that has `count` or `for_each`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A `count` index.
    Int(u64),
    /// A `for_each` key, letter by letter as Terraform gives it. Terraform brings the keys of a configuration into
    /// Unicode's normal form C; kl changes none.
    Str(String),
}

/// One step of a module path: the name of the call, and the instance when the call is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleStep {
    /// The name of the `module` block.
    pub name: String,
    /// The instance, when the address names one.
    pub key: Option<Key>,
}

/// The way from the root module down to a module instance; empty for the root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ModulePath(pub Vec<ModuleStep>);

/// What kind of object an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// A `resource` block.
    Managed,
    /// A `data` block.
    Data,
    /// An `ephemeral` block: never in a state, but part of the graph.
    Ephemeral,
}

/// The address of one resource instance.
///
/// Without a key it names the only instance of a resource that is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The module instance that holds it.
    pub module: ModulePath,
    /// Managed, data or ephemeral.
    pub mode: Mode,
    /// The resource type, as `terraform_data`.
    pub type_name: String,
    /// The name of the block.
    pub name: String,
    /// The instance of a repeated resource.
    pub key: Option<Key>,
}

impl ModulePath {
    /// The root module.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether this is the root module.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses the text of a module path, as it stands in a state's `module` member; empty text is the root.
    ///
    /// # Errors
    /// Says at which byte the text stops being a module path.
    pub fn parse(text: &str) -> Result<Self, ParseAddressError> {
        parse::module_path(text)
    }

    /// The module as the configuration declares it: names without instance keys.
    #[must_use]
    pub fn config(&self) -> ConfigModule {
        ConfigModule(self.0.iter().map(|step| step.name.clone()).collect())
    }
}

impl Address {
    /// Parses Terraform's text for a resource instance.
    ///
    /// # Errors
    /// Says at which byte the text stops being an address, and what was expected there.
    pub fn parse(text: &str) -> Result<Self, ParseAddressError> {
        parse::address(text)
    }

    /// The resource that the configuration declares for this instance: no instance keys anywhere.
    #[must_use]
    pub fn config(&self) -> ConfigAddress {
        ConfigAddress {
            module: self.module.config(),
            mode: self.mode,
            type_name: self.type_name.clone(),
            name: self.name.clone(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(index) => write!(f, "[{index}]"),
            Self::Str(text) => write!(f, "[{}]", quoted(text)),
        }
    }
}

impl fmt::Display for ModulePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(".")?;
            }
            write!(f, "module.{}", step.name)?;
            if let Some(key) = &step.key {
                write!(f, "{key}")?;
            }
        }
        Ok(())
    }
}

impl Mode {
    /// What stands before the type in an address.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Managed => "",
            Self::Data => "data.",
            Self::Ephemeral => "ephemeral.",
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.module.is_root() {
            write!(f, "{}.", self.module)?;
        }
        write!(f, "{}{}.{}", self.mode.prefix(), self.type_name, self.name)?;
        if let Some(key) = &self.key {
            write!(f, "{key}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Writes a type as its text and reads it back through its parser.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                <$type>::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

serde_as_text!(Address);
serde_as_text!(ModulePath);
serde_as_text!(Pattern);
serde_as_text!(ConfigAddress);

#[cfg(test)]
mod tests;
