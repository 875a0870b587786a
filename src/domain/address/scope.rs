//! Configuration-level names: what a block declares, before `count` and `for_each` make instances of it.

use std::fmt;

use super::{Mode, ParseAddressError, parse};

/// A module as the configuration declares it: the names of the calls from the root, without instance keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ConfigModule(pub Vec<String>);

/// A resource as the configuration declares it, without instance keys anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfigAddress {
    /// The module that declares it.
    pub module: ConfigModule,
    /// Managed, data or ephemeral.
    pub mode: Mode,
    /// The resource type.
    pub type_name: String,
    /// The name of the block.
    pub name: String,
}

impl ConfigModule {
    /// The root module.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The module that a call of this name in this module leads to.
    #[must_use]
    pub fn child(&self, call: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(call.to_owned());
        Self(steps)
    }

    /// The module that holds the call, and the call's name; none for the root.
    #[must_use]
    pub fn parent(&self) -> Option<(Self, &str)> {
        let (last, rest) = self.0.split_last()?;
        Some((Self(rest.to_vec()), last))
    }

    /// Whether `other` is this module or one below it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl ConfigAddress {
    /// Parses an address that has no instance keys, as in a state's `dependencies`.
    ///
    /// # Errors
    /// Says at which byte the text stops being one.
    pub fn parse(text: &str) -> Result<Self, ParseAddressError> {
        parse::config_address(text)
    }
}

impl fmt::Display for ConfigModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.0.iter().enumerate() {
            let dot = if position > 0 { "." } else { "" };
            write!(f, "{dot}module.{name}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.module.0.is_empty() {
            write!(f, "{}.", self.module)?;
        }
        write!(f, "{}{}.{}", self.mode.prefix(), self.type_name, self.name)
    }
}
