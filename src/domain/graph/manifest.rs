//! Where the modules of a configuration lie: Terraform's `modules.json`, and which sources are local.

use serde::Deserialize;

use crate::domain::address::ConfigModule;

/// Why a text is not a module manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The text is not the JSON that Terraform writes.
    #[error("modules.json is not what Terraform writes")]
    Syntax(#[source] serde_json::Error),
    /// A key has an empty step.
    #[error("modules.json names a module {0:?}, which is no path of module calls")]
    Key(String),
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(rename = "Modules", default)]
    modules: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "Key")]
    key: String,
    #[serde(rename = "Dir")]
    dir: String,
}

/// Reads `.terraform/modules/modules.json`: each module call, and its directory relative to the root module,
/// with forward slashes on every machine. (Absolute where a module was installed from an absolute path.)
///
/// # Errors
/// When the text is not the manifest of a Terraform or OpenTofu that kl knows.
pub fn read(text: &str) -> Result<Vec<(ConfigModule, String)>, ManifestError> {
    let manifest: Manifest = serde_json::from_str(text).map_err(ManifestError::Syntax)?;
    manifest
        .modules
        .into_iter()
        .map(|record| {
            let steps: Vec<String> = match record.key.as_str() {
                "" => Vec::new(),
                key => key.split('.').map(str::to_owned).collect(),
            };
            if steps.iter().any(String::is_empty) {
                return Err(ManifestError::Key(record.key));
            }
            Ok((ConfigModule(steps), record.dir))
        })
        .collect()
}

/// Whether a module's source is a directory beside it, and so a part of the same checkout.
///
/// Terraform goes by the first letters alone: `modules/x` is a registry address, `.` an error, and an absolute path
/// a package to be installed.
#[must_use]
pub fn source_is_local(source: &str) -> bool {
    ["./", "../", ".\\", "..\\"].iter().any(|start| source.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_its_directory() {
        let text = r#"{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"net","Source":"./net","Dir":"net"},
            {"Key":"net.inner","Source":"registry.terraform.io/a/b/c","Version":"1.0.0","Dir":".terraform/modules/net.inner"}]}"#;
        let modules = read(text).unwrap();
        let modules: Vec<_> = modules.iter().map(|(module, dir)| (module.to_string(), dir.as_str())).collect();
        assert_eq!(
            modules,
            [
                (String::new(), "."),
                ("module.net".to_owned(), "net"),
                ("module.net.module.inner".to_owned(), ".terraform/modules/net.inner")
            ]
        );
    }

    #[test]
    fn a_manifest_may_be_empty_but_not_anything() {
        assert_eq!(read("{}").unwrap(), []);
        assert_eq!(read(r#"{"Modules":[]}"#).unwrap(), []);
        assert!(read("").is_err());
        assert!(read("3").is_err());
        assert!(read(r#"{"Modules":[{"Key":"a..b","Dir":"x"}]}"#).is_err());
    }

    #[test]
    fn a_local_source_begins_with_a_dot() {
        for source in ["./net", "../net", "./", ".\\net", "..\\net"] {
            assert!(source_is_local(source), "{source}");
        }
        for source in
            ["net", "modules/net", "hashicorp/consul/aws", "git::https://x/y.git", "/abs", ".net", ".", "..", "..."]
        {
            assert!(!source_is_local(source), "{source}");
        }
    }
}
