//! Configuration text to declared blocks: what each block is, where it stands, and what it refers to.

mod block;
mod declare;
mod files;
mod hcl;
mod input;
mod json;
mod merge;
mod references;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;

use crate::domain::address::{Key, Mode};

pub use files::{asks_for_workspace, is_configuration, is_opentofu};
pub use input::{Form, NotAnExpression};

/// Why the text of a module is not a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ConfigurationError {
    /// The file's name as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

/// One step after the root name of a reference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// `.name`.
    Attr(String),
    /// `[0]` or `["key"]` with a literal key.
    Index(Key),
    /// `[expression]`, `.*` or `[*]`: any instance.
    Any,
}

/// A reference as an expression spells it: `module.net["a"].vpc` is root `module` and three steps.
///
/// `resource.aws_vpc.a` is given as `aws_vpc.a`, which means the same. A call of a provider's function,
/// `provider::aws::west::f()`, is given as root `provider` and the steps `.aws.west`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traversal {
    /// The first name.
    pub root: String,
    /// What follows.
    pub steps: Vec<Step>,
}

/// Where a block stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's name as it was given.
    pub file: String,
    /// The line of the block's head, from 1; 0 where the syntax gives none (JSON).
    pub line: usize,
}

/// A `resource`, `data` or `ephemeral` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceBlock {
    /// Which kind of block.
    pub mode: Mode,
    /// The type label.
    pub type_name: String,
    /// The name label.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Everything that any expression in it refers to, with meta-arguments, lifecycle, provisioners and conditions;
    /// without names bound inside it (`for`, dynamic iterators), without `each`, `count`, `self`, `path`, `terraform`.
    pub references: Vec<Traversal>,
    /// The provider configuration that it names, as `aws.west`.
    pub provider: Option<String>,
    /// Whether it has pre- or postconditions.
    pub conditions: bool,
    /// Whether it says `create_before_destroy = true`.
    pub create_before_destroy: bool,
    /// Whether it has `count` or `for_each`.
    pub repeated: bool,
}

/// A `module` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallBlock {
    /// The name label.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// The literal source.
    pub source: Option<String>,
    /// Input name → what its expression refers to.
    pub inputs: BTreeMap<String, Vec<Traversal>>,
    /// Whether it has `count` or `for_each`: only then does an index after its name choose an instance.
    pub repeated: bool,
    /// What `count` and `for_each` refer to.
    pub repetition: Vec<Traversal>,
    /// What `depends_on` names.
    pub depends_on: Vec<Traversal>,
    /// `providers`: name inside → name outside, as `aws.west`.
    pub providers: BTreeMap<String, String>,
}

/// An `output` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputBlock {
    /// The name label.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// What its value, its `depends_on` and its preconditions refer to.
    pub references: Vec<Traversal>,
    /// Whether it has preconditions.
    pub conditions: bool,
}

/// A `check` block: what its assertions and its scoped data source refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckBlock {
    /// The name label.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// What it refers to.
    pub references: Vec<Traversal>,
}

/// An `import` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportBlock {
    /// The `to` address, as a reference.
    pub to: Traversal,
    /// What `id`, `identity` and `for_each` refer to.
    pub references: Vec<Traversal>,
}

/// A `variable` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableBlock {
    /// The name label.
    pub name: String,
    /// Whether it says `ephemeral = true`.
    pub ephemeral: bool,
    /// Whether it says `sensitive = true`.
    pub sensitive: bool,
    /// Whether it has a default.
    pub has_default: bool,
    /// How Terraform reads a value for it that is given on the command line.
    pub form: Form,
    /// What its validations refer to besides the variable itself: whoever uses the variable waits for them.
    pub references: Vec<Traversal>,
}

/// Everything that the files of one module declare.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleConfig {
    /// Resources, data sources, ephemeral resources (also data sources inside checks).
    pub resources: Vec<ResourceBlock>,
    /// Module calls.
    pub calls: Vec<CallBlock>,
    /// Outputs.
    pub outputs: Vec<OutputBlock>,
    /// Local values: name → what the expression refers to.
    pub locals: BTreeMap<String, Vec<Traversal>>,
    /// Input variables.
    pub variables: Vec<VariableBlock>,
    /// Provider configurations: `aws` or `aws.west` → what the block refers to.
    pub providers: BTreeMap<String, Vec<Traversal>>,
    /// Checks.
    pub checks: Vec<CheckBlock>,
    /// Imports.
    pub imports: Vec<ImportBlock>,
    /// `moved` blocks: from, to.
    pub moves: Vec<(Traversal, Traversal)>,
    /// `removed` blocks: from.
    pub removals: Vec<Traversal>,
    /// Whether a `backend` or `cloud` block stands in it.
    pub has_backend: bool,
    /// Where that says that the state is: the kind of the backend, or `cloud`. The last one counts.
    pub backend: Option<String>,
    /// The names of what that block sets itself.
    pub backend_sets: Vec<String>,
}

impl Step {
    /// Whether this step can lead to the instance with this key.
    ///
    /// Terraform converts between the two kinds of key: `x["0"]` finds `x[0]`, and `x[0]` finds `x["0"]`.
    #[must_use]
    pub fn may_select(&self, key: &Key) -> bool {
        match (self, key) {
            (Self::Index(Key::Int(ours)), Key::Int(theirs)) => ours == theirs,
            (Self::Index(Key::Str(ours)), Key::Str(theirs)) => ours == theirs,
            (Self::Index(Key::Int(number)), Key::Str(text)) | (Self::Index(Key::Str(text)), Key::Int(number)) => {
                *text == number.to_string()
            }
            (Self::Attr(_) | Self::Any, _) => true,
        }
    }
}

/// Reads the files of one module directory, given as name and text; names that Terraform would not read are
/// passed over.
///
/// Override files are laid over the rest: what they refer to is added, what they set wins. `x.tofu` replaces
/// `x.tf`; whoever runs Terraform leaves out the names that [`is_opentofu`] tells, for Terraform does not see them.
///
/// # Errors
/// Names the file and the place where the syntax ends.
pub fn read(files: &[(String, String)]) -> Result<ModuleConfig, ConfigurationError> {
    let mut plain = Vec::new();
    let mut overrides = Vec::new();
    for file in files::select(files) {
        let blocks = match file.syntax {
            files::Syntax::Native => hcl::read(file.name, file.text)?,
            files::Syntax::Json => json::read(file.name, file.text)?,
        };
        if file.is_override { &mut overrides } else { &mut plain }.extend(blocks);
    }
    declare::module(merge::overlay(plain, overrides)).map_err(|trouble| trouble.located(files))
}
