//! Every environment variable that kl reads, in one place. docs/configuration.md lists the same.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The database, when `--database` does not say.
pub const DATABASE_URL: &str = "KL_DATABASE_URL";
/// The Terraform or OpenTofu binary, when `--terraform` does not say.
pub const TERRAFORM: &str = "KL_TERRAFORM";
/// Who acts, when `--actor` does not say.
pub const ACTOR: &str = "KL_ACTOR";
/// What is logged, in the syntax of `tracing`'s filters.
pub const LOG: &str = "KL_LOG";

/// The environment as it was when kl started. Nothing reads the real one after that.
#[derive(Clone)]
pub struct EnvSnapshot(BTreeMap<OsString, OsString>);

impl EnvSnapshot {
    /// Takes the snapshot.
    #[must_use]
    pub fn take() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
        Self(std::env::vars_os().collect())
    }

    /// A variable that is Unicode and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        self.0
            .get(OsStr::new(name))
            .and_then(|value| value.to_str())
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
    }

    /// Everything, for the processes that kl starts.
    pub fn all(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}
