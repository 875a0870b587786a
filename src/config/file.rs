//! The keys of `kl.yaml`: root modules and their states, what holds for all of them, and policies.
//!
//! `docs/kl.schema.json` is made from these types; their comments are what an editor shows.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::Deserialize;

use super::policy::PolicySettings;
use crate::domain::id::StateName;

/// The name of the file, at the root of a repository.
pub const FILE_NAME: &str = "kl.yaml";

/// What people write instead; an error says so.
pub const WRONG_FILE_NAME: &str = "kl.yml";

/// A `kl.yaml`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "kl.yaml")]
pub struct ConfigFile {
    /// What holds for every root module that does not say otherwise, whether it is listed below or not.
    pub defaults: Defaults,
    /// What the repository allows.
    pub policies: PolicySettings,
    /// Root modules with their workspaces and states. Without any, root modules are looked for.
    pub projects: Vec<ProjectEntry>,
}

/// What holds for every root module that does not say otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// The Terraform workspace.
    pub workspace: Option<String>,
    /// Variable files, relative to each root module.
    pub var_files: Vec<String>,
    /// Input variables whose values come from the environment: the variable's name, and the environment variable's.
    pub vars: BTreeMap<String, String>,
    /// The Terraform or OpenTofu program: a path, or a name on PATH. A path with a `/` that is not absolute counts from
    /// the root module.
    pub terraform: Option<String>,
    /// Globs, relative to kl.yaml: a change of a file that matches one of them counts as a change of the project. One
    /// that begins with `!` names files that never count.
    pub when_changed: Vec<String>,
    /// The deployment environment of the forge that jobs of the project run in; `kl ci projects` passes it on.
    pub environment: Option<String>,
}

/// A root module with a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectEntry {
    /// Its name, unique in the file.
    pub name: String,
    /// The root module, relative to kl.yaml.
    #[schemars(with = "String")]
    pub dir: Utf8PathBuf,
    /// The Terraform workspace. By default `default`.
    #[serde(default)]
    pub workspace: Option<String>,
    /// The name of its state. By default the path of the root module in the repository, with `:WORKSPACE` unless that
    /// is the default one.
    #[serde(default)]
    #[schemars(with = "Option<String>", length(min = 1, max = 200))]
    pub state: Option<StateName>,
    /// Variable files, relative to the root module; instead of those of `defaults`.
    #[serde(default)]
    pub var_files: Option<Vec<String>>,
    /// Input variables whose values come from the environment: the variable's name, and the environment variable's.
    /// They are added to those of `defaults`.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// The Terraform or OpenTofu program: a path, or a name on PATH. A path with a `/` that is not absolute counts from
    /// the root module.
    #[serde(default)]
    pub terraform: Option<String>,
    /// Globs, relative to kl.yaml: a change of a file that matches one of them counts as a change of the project, beside
    /// the files of its directory and of the local modules that it uses. One that begins with `!` names files that never
    /// count. Instead of those of `defaults`.
    #[serde(default)]
    pub when_changed: Option<Vec<String>>,
    /// Names of projects that are planned and applied before this one.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// The deployment environment of the forge that its jobs run in; `kl ci projects` passes it on.
    #[serde(default)]
    pub environment: Option<String>,
    /// Policies of this project, in front of those of the file.
    #[serde(default)]
    pub policies: PolicySettings,
}
