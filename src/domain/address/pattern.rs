//! Patterns over rows, and whether two of them meet.
//!
//! A pattern is the whole state, everything in a module, all instances of a resource, one instance, or one root
//! output. It is decided on the parsed form: no glob library and no LIKE ever sees an address.

use std::fmt;

use super::parse::{Cursor, resource_after};
use super::{Address, ConfigAddress, Key, Mode, ModulePath, ModuleStep, ParseAddressError};

/// A module, all its instances where no key is given, and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleScope(pub ModulePath);

/// A set of rows that a reservation covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// `*`: the whole state, with outputs and check results.
    Everything,
    /// `module.web.*`: that module and everything below it; a step without a key means all its instances.
    Module(ModuleScope),
    /// A resource or one instance of it. A missing key, here or in the module path, means every instance.
    Resource(Address),
    /// `output.NAME`: one root output.
    Output(String),
}

impl Pattern {
    /// Parses the text of a pattern.
    ///
    /// # Errors
    /// Says at which byte the text stops being one.
    pub fn parse(text: &str) -> Result<Self, ParseAddressError> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        let mut cursor = Cursor::new(text);
        if cursor.eat("output.") {
            let name = cursor.name()?;
            cursor.end()?;
            return Ok(Self::Output(name));
        }
        let module = cursor.modules()?;
        if !module.is_root() && cursor.after_dot() && cursor.eat("*") {
            cursor.end()?;
            return Ok(Self::Module(ModuleScope(module)));
        }
        let (mode, type_name, name) = resource_after(&mut cursor, &module)?;
        let key = cursor.key()?;
        cursor.end()?;
        Ok(Self::Resource(Address { module, mode, type_name, name, key }))
    }

    /// Whether some row is covered by both patterns.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => true,
            (Self::Output(ours), Self::Output(theirs)) => ours == theirs,
            (Self::Output(_), _) | (_, Self::Output(_)) => false,
            (Self::Module(ours), Self::Module(theirs)) => steps_meet(&ours.0.0, &theirs.0.0),
            (Self::Module(scope), Self::Resource(address)) | (Self::Resource(address), Self::Module(scope)) => {
                scope.0.0.len() <= address.module.0.len() && steps_meet(&scope.0.0, &address.module.0)
            }
            (Self::Resource(ours), Self::Resource(theirs)) => {
                ours.mode == theirs.mode
                    && ours.type_name == theirs.type_name
                    && ours.name == theirs.name
                    && ours.module.0.len() == theirs.module.0.len()
                    && steps_meet(&ours.module.0, &theirs.module.0)
                    && keys_meet(ours.key.as_ref(), theirs.key.as_ref())
            }
        }
    }

    /// Whether every row of the other pattern is covered by this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let key_covers = |ours: &Option<Key>, theirs: &Option<Key>| ours.is_none() || ours == theirs;
        let steps_cover = |ours: &[ModuleStep], theirs: &[ModuleStep]| {
            ours.len() <= theirs.len()
                && ours.iter().zip(theirs).all(|(a, b)| a.name == b.name && key_covers(&a.key, &b.key))
        };
        match (self, other) {
            (Self::Everything, _) => true,
            (Self::Output(ours), Self::Output(theirs)) => ours == theirs,
            (Self::Module(ours), Self::Module(theirs)) => steps_cover(&ours.0.0, &theirs.0.0),
            (Self::Module(ours), Self::Resource(theirs)) => steps_cover(&ours.0.0, &theirs.module.0),
            (Self::Resource(ours), Self::Resource(theirs)) => {
                ours.config() == theirs.config()
                    && steps_cover(&ours.module.0, &theirs.module.0)
                    && key_covers(&ours.key, &theirs.key)
            }
            _ => false,
        }
    }

    /// The resource without instance keys that this pattern is about, when it is about one; patterns with
    /// different ones never meet, so this is what an index of patterns goes by.
    #[must_use]
    pub fn resource(&self) -> Option<ConfigAddress> {
        match self {
            Self::Resource(address) => Some(address.config()),
            _ => None,
        }
    }
}

/// Whether the common part of two module paths can be the same instances.
fn steps_meet(ours: &[ModuleStep], theirs: &[ModuleStep]) -> bool {
    ours.iter().zip(theirs).all(|(a, b)| a.name == b.name && keys_meet(a.key.as_ref(), b.key.as_ref()))
}

fn keys_meet(ours: Option<&Key>, theirs: Option<&Key>) -> bool {
    match (ours, theirs) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

impl From<&ConfigAddress> for Pattern {
    /// All instances of a resource, in all instances of its module.
    fn from(config: &ConfigAddress) -> Self {
        let steps = config.module.0.iter().map(|name| ModuleStep { name: name.clone(), key: None }).collect();
        Self::Resource(Address {
            module: ModulePath(steps),
            mode: config.mode,
            type_name: config.type_name.clone(),
            name: config.name.clone(),
            key: None,
        })
    }
}

impl Pattern {
    /// Whether the pattern is about a data source.
    #[must_use]
    pub fn is_data(&self) -> bool {
        matches!(self, Self::Resource(address) if address.mode == Mode::Data)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("*"),
            Self::Module(scope) => write!(f, "{}.*", scope.0),
            Self::Resource(address) => write!(f, "{address}"),
            Self::Output(name) => write!(f, "output.{name}"),
        }
    }
}
