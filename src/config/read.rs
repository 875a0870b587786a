//! The text of a `kl.yaml` to a configuration that makes sense, or an error with its line and column.

use camino::{Utf8Path, Utf8PathBuf};

use super::check;
use super::decode::{Wrong, decode};
use super::file::ConfigFile;
use super::yaml::{self, MAX_BYTES, Part, Spot};

/// Why a `kl.yaml` cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is not what kl expects.
    #[error("{file}{}: {message}", .spot.map(|spot| spot.to_string()).unwrap_or_default())]
    Invalid {
        /// The file.
        file: Utf8PathBuf,
        /// Where in it.
        spot: Option<Spot>,
        /// What is wrong.
        message: String,
    },
    /// The file is too large to be a configuration.
    #[error("{file} has {size} bytes; a kl.yaml has at most {MAX_BYTES}")]
    TooLarge {
        /// The file.
        file: Utf8PathBuf,
        /// Its size.
        size: usize,
    },
}

impl ConfigFile {
    /// Reads the text of a `kl.yaml`.
    ///
    /// # Errors
    /// When it is not YAML, has unknown keys or wrong values, or does not make sense as a whole; with the place.
    pub fn read(file: &Utf8Path, text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_BYTES {
            return Err(ConfigError::TooLarge { file: file.to_owned(), size: text.len() });
        }
        let invalid = |spot, message| ConfigError::Invalid { file: file.to_owned(), spot, message };
        let tree = yaml::read(text).map_err(|fault| invalid(fault.spot, fault.message))?;
        let read = decode(&tree).and_then(|config: Self| check::whole(&config).map(|()| config));
        read.map_err(|wrong| located(file, text, &wrong))
    }

    /// Checks the directories of the projects with `exists`, which is asked for each of them, relative to the file.
    ///
    /// # Errors
    /// Names the first that does not exist.
    pub fn check_dirs(
        &self,
        file: &Utf8Path,
        text: &str,
        exists: impl Fn(&Utf8Path) -> bool,
    ) -> Result<(), ConfigError> {
        check::dirs(self, exists).map_err(|wrong| located(file, text, &wrong))
    }
}

fn located(file: &Utf8Path, text: &str, wrong: &Wrong) -> ConfigError {
    let mut path = wrong.path.as_slice();
    // What stands nowhere (a default) is told with the place of what it belongs to.
    let mut spot = yaml::find(text, path, wrong.part);
    while let (None, [front @ .., _]) = (spot, path) {
        path = front;
        spot = yaml::find(text, path, Part::Value);
    }
    ConfigError::Invalid { file: file.to_owned(), spot, message: wrong.to_string() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::policy::{ClosureRule, DestroyGuard, MissingSpec, OnFailure, OnStale};

    fn read(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::read(Utf8Path::new("kl.yaml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_is_read() {
        let config = read(
            "defaults:\n  workspace: prod\n  var_files: [a.tfvars]\n  vars: {region: REGION}\n  terraform: tofu\n  \
             when_changed: ['shared/**']\n  environment: production\npolicies:\n  on_stale: revalidate\n  \
             on_failure: salvage\n  max_plan_age: 24h\n  closure: connected\n  show_values: true\n  \
             missing_spec: plan\n  fail_on_check: true\n  destroy: 3\nprojects:\n  - name: net\n    dir: infra/net\n  \
             - name: web\n    dir: infra/web\n    workspace: dev\n    state: web\n    var_files: []\n    vars: {a: B}\n    \
             terraform: ./tf\n    when_changed: ['*.json']\n    depends_on: [net]\n    environment: dev\n    \
             policies: {destroy: refuse}\n",
        )
        .unwrap();
        let [net, web] = <[_; 2]>::try_from(config.all_projects()).unwrap();
        assert_eq!((net.workspace.as_deref(), net.var_files.len()), (Some("prod"), 1));
        assert_eq!(net.policies.on_stale, OnStale::Revalidate);
        assert_eq!(net.policies.on_failure, OnFailure::Salvage);
        assert_eq!(net.policies.max_plan_age, Some(Duration::from_hours(24)));
        assert_eq!(net.policies.closure, ClosureRule::Connected);
        assert_eq!(net.policies.missing_spec, MissingSpec::Plan);
        assert!(net.policies.show_values && net.policies.fail_on_check);
        assert_eq!(net.policies.destroy, DestroyGuard::AtMost(3));
        assert_eq!(web.policies, crate::config::policy::Policies { destroy: DestroyGuard::AtMost(0), ..net.policies });
        assert_eq!((web.workspace.as_deref(), web.var_files.len()), (Some("dev"), 0));
        assert_eq!(web.vars.len(), 2);
        assert_eq!((web.terraform.as_deref(), web.environment.as_deref()), (Some("./tf"), Some("dev")));
        assert_eq!((web.when_changed, web.depends_on), (vec!["*.json".to_owned()], vec!["net".to_owned()]));
    }

    #[test]
    fn an_error_has_its_place_and_speaks_of_keys() {
        for (text, message) in [
            ("policies:\n  on_stael: refuse\n", "kl.yaml:2:3: unknown key `on_stael`, did you mean `on_stale`?"),
            ("polices: {}\n", "kl.yaml:1:1: unknown key `polices`, did you mean `policies`?"),
            (
                "policies: {max_plan_age: soon}\n",
                "kl.yaml:1:26: `max_plan_age`: \"soon\" is not a duration; write 90s, 15m, 2h, 7d or 1h30m",
            ),
            (
                "policies: {max_plan_age: 7}\n",
                "kl.yaml:1:26: `max_plan_age` must be text (put it in quotes), and this is a number",
            ),
            (
                "policies: {on_stale: maybe}\n",
                "kl.yaml:1:22: `on_stale` cannot be `maybe`; it is `refuse` or `revalidate`",
            ),
            (
                "policies: {destroy: never}\n",
                "kl.yaml:1:21: `destroy` cannot be `never`; it is `allow`, `refuse`, or the greatest number of objects \
                 that a plan may destroy",
            ),
            ("projects: 3\n", "kl.yaml:1:11: `projects` must be a list, and this is a number"),
            ("projects:\n  - dir: x\n", "kl.yaml:2:5: an entry of `projects` must have the key `name`"),
            (
                "projects:\n  - {name: a, dir: x, state: ''}\n",
                "kl.yaml:2:30: `state`: a state's name has 1 to 200 characters, no control characters, and no space at \
                 its ends: \"\"",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), message, "{text}");
        }
    }

    #[test]
    fn what_is_nested_or_long_beyond_reason_is_refused_at_once() {
        let message = read(&format!("# deep\nprojects: {}", "[".repeat(1_000_000))).unwrap_err();
        assert_eq!(message, "kl.yaml:2:75: more than 64 brackets within each other");
        let message = read(&format!("projects: {}", "x".repeat(100_000))).unwrap_err();
        assert_eq!(message, "kl.yaml:1:11: `projects` must be a list, and this is text");
        let message = read(&format!("{}: 1", "x".repeat(900))).unwrap_err();
        assert!(message.len() < 200 && message.contains("unknown key"), "{message}");
    }

    #[test]
    fn empty_files_and_comments_are_an_empty_configuration() {
        for text in ["", "\n", "# nothing yet\n", "---\n", "projects:\npolicies:\ndefaults:\n"] {
            assert_eq!(read(text).unwrap(), ConfigFile::default());
        }
    }

    #[test]
    fn a_directory_that_does_not_exist_is_named_with_its_place() {
        let text = "projects:\n- {name: a, dir: infra/a}\n- {name: b, dir: infra/b}\n";
        let file = Utf8Path::new("kl.yaml");
        let config = ConfigFile::read(file, text).unwrap();
        assert_eq!(config.check_dirs(file, text, |_| true), Ok(()));
        let error = config.check_dirs(file, text, |dir| dir == "infra/a").unwrap_err();
        assert_eq!(error.to_string(), "kl.yaml:3:18: `dir`: there is no directory `infra/b` (counted from kl.yaml)");
    }
}
