//! The dependency lock file: which provider versions are selected.

use std::collections::BTreeMap;
use std::io;

use camino::Utf8Path;
use hcl_edit::structure::Body;

use super::error::TerraformError;

/// The lock file's name in a root module.
pub const LOCK_FILE: &str = ".terraform.lock.hcl";

/// The providers that the lock file in a root module selects: source address → version. Empty without a lock file
/// (only built-in providers).
pub fn providers_locked(root_module_dir: &Utf8Path) -> Result<BTreeMap<String, String>, TerraformError> {
    let path = root_module_dir.join(LOCK_FILE);
    let failed = |reason: String| TerraformError::LockFile { path: path.clone(), reason };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(failed(error.to_string())),
    };
    parse(&text).map_err(failed)
}

fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let body: Body = text.parse().map_err(|error: hcl_edit::parser::Error| error.to_string())?;
    body.get_blocks("provider")
        .map(|block| {
            let source = block.labels.first().ok_or("a provider block has no source address")?.as_str();
            let version = block
                .body
                .get_attribute("version")
                .and_then(|version| version.value.as_str())
                .ok_or_else(|| format!("provider {source} has no version"))?;
            Ok((source.to_owned(), version.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_versions_are_read() {
        let text = r#"
# This file is maintained automatically by "terraform init".
provider "registry.terraform.io/hashicorp/aws" {
  version     = "5.100.0"
  constraints = "~> 5.0"
  hashes = [
    "h1:Ijt7pOlB7Tr7maGQIqtsLFbl7pSMIj06TVdkoSBcYOw=",
  ]
}
provider "registry.opentofu.org/hashicorp/null" {
  version = "3.2.4"
}
"#;
        let found: Vec<(String, String)> = parse(text).unwrap().into_iter().collect();
        assert_eq!(
            found,
            [
                ("registry.opentofu.org/hashicorp/null".to_owned(), "3.2.4".to_owned()),
                ("registry.terraform.io/hashicorp/aws".to_owned(), "5.100.0".to_owned()),
            ]
        );
    }

    #[test]
    fn a_broken_file_is_an_error() {
        assert!(parse("provider {").is_err());
        assert!(parse("provider \"x\" {\n}\n").unwrap_err().contains("no version"));
    }
}
