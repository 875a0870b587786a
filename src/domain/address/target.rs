//! What a person names in a command: a module, a resource, one instance, an output, or everything.

use std::fmt;

use super::{Address, ModulePath, ModuleScope, ParseAddressError, Pattern};

/// What a person names. A module is written as Terraform does (`module.web`) or as a pattern (`module.web.*`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A module instance with everything in it.
    Module(ModulePath),
    /// A resource instance. Without a key it may also be all instances of a resource: the state decides.
    Resource(Address),
    /// A root output.
    Output(String),
    /// `*`.
    Everything,
}

impl Target {
    /// Reads what a person wrote.
    ///
    /// # Errors
    /// Says at which byte the text stops being an address.
    pub fn parse(text: &str) -> Result<Self, ParseAddressError> {
        if let Ok(module) = ModulePath::parse(text)
            && !module.is_root()
        {
            return Ok(Self::Module(module));
        }
        Ok(match Pattern::parse(text)? {
            Pattern::Everything => Self::Everything,
            Pattern::Module(ModuleScope(module)) => Self::Module(module),
            Pattern::Resource(address) => Self::Resource(address),
            Pattern::Output(name) => Self::Output(name),
        })
    }

    /// The pattern that covers it, and with a missing key every instance.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        match self {
            Self::Module(module) => Pattern::Module(ModuleScope(module.clone())),
            Self::Resource(address) => Pattern::Resource(address.clone()),
            Self::Output(name) => Pattern::Output(name.clone()),
            Self::Everything => Pattern::Everything,
        }
    }

    /// Whether Terraform would take it to mean an instance: module keys have to be as they are, but for the last step of
    /// a module, and a missing key of the resource, which mean every instance.
    #[must_use]
    pub fn names(&self, instance: &Address) -> bool {
        match self {
            Self::Everything => true,
            Self::Output(_) => false,
            Self::Module(module) => {
                let Some((last, above)) = module.0.split_last() else { return true };
                let steps = &instance.module.0;
                steps.starts_with(above)
                    && steps
                        .get(above.len())
                        .is_some_and(|step| step.name == last.name && (last.key.is_none() || step.key == last.key))
            }
            Self::Resource(address) => {
                address.module == instance.module
                    && address.mode == instance.mode
                    && address.type_name == instance.type_name
                    && address.name == instance.name
                    && (address.key.is_none() || address.key == instance.key)
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(module) => write!(f, "{module}"),
            Self::Resource(address) => write!(f, "{address}"),
            Self::Output(name) => write!(f, "output.{name}"),
            Self::Everything => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        for text in ["module.a", "module.a[\"x\"].module.b", "module.a.x.y", "x.y[0]", "data.x.y", "output.o", "*"] {
            assert_eq!(Target::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Target::parse("module.a.*"), Target::parse("module.a"));
        for text in ["", "module", "x", "x.y.z", "module.a.x"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_missing_key_means_all_instances_at_the_end_and_nowhere_else() {
        let names =
            |target: &str, instance: &str| Target::parse(target).unwrap().names(&Address::parse(instance).unwrap());
        assert!(names("module.a", "module.a[0].x.y[1]") && names("module.a", "module.a.module.b.x.y"));
        assert!(!names("module.a", "module.ab.x.y") && !names("module.a.module.b", "module.a[0].module.b.x.y"));
        assert!(names("module.a[0]", "module.a[0].x.y") && !names("module.a[0]", "module.a[1].x.y"));
        assert!(names("x.y", "x.y[0]") && names("x.y", "x.y") && !names("x.y[0]", "x.y"));
        assert!(!names("module.a.x.y", "module.a[0].x.y") && !names("x.y", "data.x.y"));
    }
}
