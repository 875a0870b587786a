//! The address of a provider's configuration, as the resources of a state name it.

use super::parse::{Cursor, ParseAddressError};
use super::{Address, Key};

/// Whether a text is the address of a provider's configuration: `provider["registry.terraform.io/hashicorp/aws"]` below a
/// module's path, with an alias (OpenTofu: and a key of it), or `provider.aws`, as Terraform 0.12 wrote it.
#[must_use]
pub fn is_provider(text: &str) -> bool {
    provider(text).is_ok()
}

/// Whether a text names a resource, as the `dependencies` in a state do. Terraform takes keys of modules there, too.
#[must_use]
pub fn is_dependency(text: &str) -> bool {
    Address::parse(text).is_ok_and(|address| address.key.is_none())
}

fn provider(text: &str) -> Result<(), ParseAddressError> {
    let mut cursor = Cursor::new(text);
    while cursor.eat("module.") {
        cursor.name()?;
        if !cursor.eat(".") {
            return cursor.fail("\".\"");
        }
    }
    if !cursor.eat("provider") {
        return cursor.fail("\"provider\"");
    }
    match cursor.key()? {
        Some(Key::Str(source)) if is_source(&source) => {}
        None if cursor.eat(".") => drop(cursor.name()?),
        _ => return cursor.fail("a provider's source"),
    }
    if cursor.eat(".") {
        cursor.name()?;
        cursor.key()?;
    }
    cursor.end()
}

/// `HOST/NAMESPACE/TYPE`, or the end of it.
fn is_source(text: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || "-_.:".contains(letter);
    text.split('/').count() <= 3 && text.split('/').all(|part| !part.is_empty() && part.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each as Terraform 1.11.4 takes it or not.
    #[test]
    fn what_a_state_names_as_a_provider() {
        for good in [
            r#"provider["terraform.io/builtin/terraform"]"#,
            r#"provider["registry.terraform.io/-/aws"].west"#,
            r#"module.a.module.provider.provider["registry.terraform.io/hashicorp/aws"]"#,
            r#"provider["localhost:8080/my_own/x"]"#,
            r#"provider["terraform"]"#,
            "provider.aws",
            "provider.aws.west",
            "module.a.provider.aws",
            // OpenTofu.
            r#"provider["registry.opentofu.org/hashicorp/aws"].by_region["eu"]"#,
        ] {
            assert!(is_provider(good), "{good}");
        }
        for bad in [
            "",
            "p",
            "provider",
            "provider.",
            "providers.aws",
            "provider[0]",
            r#"provider[""]"#,
            r#"provider["a/b/c/d"]"#,
            r#"provider["a//c"]"#,
            r#"provider."aws""#,
            r#"provider["a/b/c"].west.east"#,
            r#"module.a[0].provider["a/b/c"]"#,
            "module.a",
        ] {
            assert!(!is_provider(bad), "{bad}");
        }
    }

    #[test]
    fn what_a_state_names_as_a_dependency() {
        for good in ["t.n", "data.t.n", "module.x.data.t.n", "module.a[0].module.b[\"k\"].t.n"] {
            assert!(is_dependency(good), "{good}");
        }
        for bad in ["", "a b c", "module.a", "t.n[0]", "t.n.id", "t"] {
            assert!(!is_dependency(bad), "{bad}");
        }
    }
}
