//! The environment of the child process as a value: what the caller's process had, and what kl pins.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

/// A snapshot of environment variables. Reading the real ones is the caller's business.
///
/// Values never show in `Debug`: they hold credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

/// Variables that would change what Terraform does, where it writes, or what it asks. [`Environment::pin`] takes them
/// out, and kl sets its own where it needs one.
const TAKEN_OUT: [&str; 4] = ["TF_DATA_DIR", "TF_WORKSPACE", "TF_INPUT", "TF_CLI_ARGS"];

/// Those of them that kl obeys itself, or would set to the same: no news to anybody.
const TAKEN_OVER: [&str; 2] = ["TF_WORKSPACE", "TF_INPUT"];

/// `TF_CLI_ARGS_plan` and the like: extra arguments would make the plan another one than kl asked for.
const TAKEN_OUT_PREFIX: &str = "TF_CLI_ARGS_";

/// kl's own secrets, in variables. Providers have no business with them, and may write their environment into a log.
pub const OWN_SECRETS: [&str; 2] = ["KL_DATABASE_URL", "KL_FORGE_TOKEN"];

impl Environment {
    /// The value of a variable; an empty one counts as not set, as it does for Terraform.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// The variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Takes out what would steer Terraform behind kl's back, and kl's own secrets; sets what every call needs. Gives the
    /// names of what would have steered, for a warning.
    ///
    /// What stays: credentials, `TF_VAR_*`, `TF_CLI_CONFIG_FILE`, `TF_TOKEN_*`, `TF_LOG*`, `TF_REATTACH_PROVIDERS`
    /// (whoever debugs a provider wants exactly that), the locale (scripts in `local-exec` may need it).
    pub fn pin(&mut self) -> Vec<String> {
        let taken = |name: &OsStr| {
            let name = name.to_string_lossy();
            TAKEN_OUT.contains(&name.as_ref()) || name.starts_with(TAKEN_OUT_PREFIX)
        };
        let dropped: Vec<OsString> = self.0.keys().filter(|name| taken(name)).cloned().collect();
        for name in &dropped {
            self.0.remove(name);
        }
        for name in OWN_SECRETS {
            self.0.remove(OsStr::new(name));
        }
        self.set("TF_INPUT", "0");
        // Leaves out advice on which command to type next; nobody is going to type it in the work directory.
        self.set("TF_IN_AUTOMATION", "1");
        // No call home to ask for newer versions or security bulletins.
        self.set("CHECKPOINT_DISABLE", "1");
        let names = dropped.iter().map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| !TAKEN_OVER.contains(&name.as_str())).collect()
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    #[test]
    fn pinning_takes_out_what_steers_terraform_and_says_so() {
        let mut environment = environment(&[
            ("AWS_SECRET_ACCESS_KEY", "s3cret"),
            ("TF_CLI_ARGS", "-lock=false"),
            ("TF_CLI_ARGS_plan", "-destroy"),
            ("TF_DATA_DIR", ".elsewhere"),
            ("TF_INPUT", "1"),
            ("TF_REATTACH_PROVIDERS", "{}"),
            ("TF_VAR_region", "eu"),
            ("TF_WORKSPACE", "dev"),
        ]);
        let dropped = environment.pin();
        assert_eq!(dropped, ["TF_CLI_ARGS", "TF_CLI_ARGS_plan", "TF_DATA_DIR"]);
        assert_eq!(environment.get("TF_INPUT"), Some(OsStr::new("0")));
        assert_eq!(environment.get("TF_WORKSPACE"), None);
        assert_eq!(environment.get("TF_VAR_region"), Some(OsStr::new("eu")));
        assert_eq!(environment.get("TF_REATTACH_PROVIDERS"), Some(OsStr::new("{}")));
    }

    #[test]
    fn terraform_does_not_learn_how_to_reach_the_database_or_the_forge_in_kls_name() {
        let mut environment = environment(&[
            ("KL_DATABASE_URL", "postgres://kl:s3cret@db/kl"),
            ("KL_FORGE_TOKEN", "s3cret"),
            ("GITHUB_TOKEN", "the provider of GitHub needs it"),
        ]);
        assert_eq!(environment.pin(), Vec::<String>::new());
        assert_eq!(environment.get("KL_DATABASE_URL"), None);
        assert_eq!(environment.get("KL_FORGE_TOKEN"), None);
        assert!(environment.get("GITHUB_TOKEN").is_some());
    }

    #[test]
    fn values_do_not_show_in_debug() {
        let text = format!("{:?}", environment(&[("AWS_SECRET_ACCESS_KEY", "s3cret")]));
        assert!(text.contains("AWS_SECRET_ACCESS_KEY"));
        assert!(!text.contains("s3cret"));
    }
}
