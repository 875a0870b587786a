//! Versions of Terraform and OpenTofu: what a program says of itself, and what kl needs.

use std::fmt;

use serde::Deserialize;

/// Which of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Terraform itself.
    Terraform,
    /// OpenTofu.
    OpenTofu,
}

/// A version, as `1.11.4` or `1.12.0-beta1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Major, minor, patch.
    pub numbers: (u64, u64, u64),
    /// What follows, without the hyphen; empty for a release.
    pub pre: String,
}

/// The oldest Terraform that will do.
pub(super) const MINIMUM_TERRAFORM: Release = Release(1, 2, 0);

/// Why: `previous_address` (moves) came with 1.1; `replace_triggered_by`, conditions and the action reasons that go
/// with them with 1.2. Older plans look complete and are not.
pub(super) const REASON_TERRAFORM: &str =
    "older plans do not tell all that changes (moved resources, replace_triggered_by, conditions)";

/// The oldest OpenTofu that will do.
pub(super) const MINIMUM_TOFU: Release = Release(1, 6, 0);

/// Why: there is no older release.
pub(super) const REASON_TOFU: &str = "1.6.0 is the first release of OpenTofu; older ones were previews";

/// Three numbers.
#[derive(Clone, Copy)]
pub(super) struct Release(pub(super) u64, pub(super) u64, pub(super) u64);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terraform => "Terraform",
            Self::OpenTofu => "OpenTofu",
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        Ok(())
    }
}

impl Version {
    /// Reads `1.11.4`, `v1.6.0-beta2`, `1.5.7+ent`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let text = text.split_once('+').map_or(text, |(version, _build)| version);
        let (numbers, pre) = text.split_once('-').unwrap_or((text, ""));
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        let version = (numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then(|| Self { numbers: version, pre: pre.to_owned() })
    }

    /// Whether it is this release or a newer one. A preview of a release counts as that release.
    pub(super) fn at_least(&self, minimum: Release) -> bool {
        self.numbers >= (minimum.0, minimum.1, minimum.2)
    }
}

/// The answer to `version -json`. OpenTofu has kept the name of the member.
#[derive(Deserialize)]
struct Answer {
    terraform_version: String,
}

/// The version in the answer to `version -json`. Lines around it are skipped: some wrappers add their own.
pub(super) fn from_json(output: &str) -> Option<Version> {
    let start = output.find('{')?;
    let answer = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Answer>().next()?.ok()?;
    Version::parse(&answer.terraform_version)
}

/// The product and its version in the answer to `version`, a line as `OpenTofu v1.8.2`; the JSON form does not tell the
/// two apart. Lines around it are skipped.
pub(super) fn from_text(output: &str) -> Option<(Product, Version)> {
    let named = |line: &str| {
        let (name, version) = line.trim_end().split_once(" v")?;
        let product =
            [Product::Terraform, Product::OpenTofu].into_iter().find(|product| product.to_string() == name)?;
        Some((product, Version::parse(version)?))
    };
    output.lines().find_map(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_printed() {
        for text in ["1.11.4", "1.6.0-beta2", "0.11.11"] {
            assert_eq!(Version::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Version::parse("v1.5.7+ent").unwrap().to_string(), "1.5.7");
        for text in ["", "1", "1.2", "1.2.3.4", "one.two.three", "1.2.x"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_minimum_is_compared_by_number() {
        assert!(Version::parse("1.11.4").unwrap().at_least(MINIMUM_TERRAFORM));
        assert!(Version::parse("1.2.0").unwrap().at_least(MINIMUM_TERRAFORM));
        assert!(!Version::parse("1.1.9").unwrap().at_least(MINIMUM_TERRAFORM));
        assert!(!Version::parse("0.15.5").unwrap().at_least(MINIMUM_TERRAFORM));
    }

    #[test]
    fn an_answer_may_have_lines_around_it() {
        let output = "[command]/x/terraform version -json\n{\n  \"terraform_version\": \"1.9.8\",\n  \"platform\": \"linux_amd64\"\n}\n::debug::done\n";
        assert_eq!(from_json(output), Version::parse("1.9.8"));
        assert_eq!(from_json("hello"), None);
        assert_eq!(from_json("{\"version\": 3}"), None);
    }

    #[test]
    fn the_text_tells_the_products_apart() {
        let parsed = |text: &str| from_text(text).map(|(product, version)| format!("{product} {version}"));
        let tofu = "OpenTofu v1.8.2\non linux_amd64\n";
        let old = "[command]/x/terraform version\nTerraform v1.12.0-beta1\r\non linux_amd64\n+ provider registry.terraform.io/hashicorp/null v3.2.4\n\nYour version of Terraform is out of date! The latest version\nis 1.14.0.\n";
        assert_eq!(parsed(tofu).as_deref(), Some("OpenTofu 1.8.2"));
        assert_eq!(parsed(old).as_deref(), Some("Terraform 1.12.0-beta1"));
        for other in ["", "hello", "Terraform", "Terraform vx", "Packer v1.11.4"] {
            assert_eq!(parsed(other), None, "{other}");
        }
    }
}
