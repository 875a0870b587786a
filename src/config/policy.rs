//! Policies: what a repository allows, for all of its projects or for one.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::duration::Span;

/// What an apply does when rows that the plan reads or writes changed since the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnStale {
    /// Refuse (exit 4).
    #[default]
    Refuse,
    /// Plan again, and go on when the plan is the same or refined.
    Revalidate,
}

/// What becomes of the rows that a failed apply has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The state stays as it was; what was changed in reality is kept reserved until `kl recover`.
    #[default]
    Rollback,
    /// They are committed at once.
    Salvage,
}

/// How wide the read set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClosureRule {
    /// What the write set depends on.
    #[default]
    Upstream,
    /// Everything that is connected with the write set, in either direction.
    Connected,
}

/// What a merge does when a changed project has no approved spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MissingSpec {
    /// The job fails, and says how to get one.
    #[default]
    Fail,
    /// Plan and apply at once.
    Plan,
}

/// How many objects a plan may destroy. Counted are deleted objects and the old ones of replacements; what is only
/// forgotten goes on to exist, and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DestroyGuard {
    /// Any number.
    #[default]
    Allow,
    /// At most so many; none with 0, which is also written `refuse`.
    AtMost(u64),
}

impl DestroyGuard {
    /// Whether a plan that destroys so many objects may be applied.
    #[must_use]
    pub fn allows(self, count: u64) -> bool {
        match self {
            Self::Allow => true,
            Self::AtMost(limit) => count <= limit,
        }
    }
}

/// As kl.yaml spells it.
impl fmt::Display for DestroyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allow"),
            Self::AtMost(0) => f.write_str("refuse"),
            Self::AtMost(limit) => limit.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for DestroyGuard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = DestroyGuard;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`allow`, `refuse`, or the greatest number of objects that a plan may destroy")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<DestroyGuard, E> {
                match word {
                    "allow" => Ok(DestroyGuard::Allow),
                    "refuse" => Ok(DestroyGuard::AtMost(0)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_u64<E: de::Error>(self, limit: u64) -> Result<DestroyGuard, E> {
                Ok(DestroyGuard::AtMost(limit))
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for DestroyGuard {
    fn schema_name() -> Cow<'static, str> {
        "DestroyGuard".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "How many objects a plan may destroy: `allow` any number, `refuse` all, or the greatest number.",
            "oneOf": [
                { "type": "string", "enum": ["allow", "refuse"] },
                { "type": "integer", "minimum": 0 },
            ],
        })
    }
}

/// Policies as they stand in kl.yaml; what is left out is decided elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// What an apply does when rows that the plan reads or writes changed since the plan: `refuse` (the default), or
    /// `revalidate`, which plans again and goes on when the plan is the same.
    pub on_stale: Option<OnStale>,
    /// What becomes of the rows that a failed apply has finished: `rollback` (the default) leaves the state as it was
    /// and keeps them reserved until `kl recover`, `salvage` commits them at once.
    pub on_failure: Option<OnFailure>,
    /// The oldest plan that may be applied, as `7d`. By default plans do not grow old.
    pub max_plan_age: Option<Span>,
    /// What a plan reserves for reading: what its changes depend on (`upstream`, the default), or everything that is
    /// `connected` with them in either direction.
    pub closure: Option<ClosureRule>,
    /// Whether comments show the values of changed attributes, sensitive ones masked. By default they show names only.
    pub show_values: Option<bool>,
    /// What a merge does when a changed project has no approved plan: `fail` (the default), or `plan` and apply at once.
    pub missing_spec: Option<MissingSpec>,
    /// Whether a failed `check` block of the configuration stops a plan and an apply. By default it is a warning.
    pub fail_on_check: Option<bool>,
    /// How many objects a plan may destroy: `allow` any number (the default), `refuse` all, or a number.
    pub destroy: Option<DestroyGuard>,
}

/// The policies that hold for a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policies {
    /// See [`OnStale`].
    pub on_stale: OnStale,
    /// See [`OnFailure`].
    pub on_failure: OnFailure,
    /// Specs older than this are refused.
    pub max_plan_age: Option<Duration>,
    /// See [`ClosureRule`].
    pub closure: ClosureRule,
    /// Whether comments show values.
    pub show_values: bool,
    /// See [`MissingSpec`].
    pub missing_spec: MissingSpec,
    /// Whether a failed `check` block stops a plan and an apply.
    pub fail_on_check: bool,
    /// See [`DestroyGuard`].
    pub destroy: DestroyGuard,
}

impl Policies {
    /// These policies with what the settings say in front of them.
    #[must_use]
    pub fn with(self, settings: &PolicySettings) -> Self {
        Self {
            on_stale: settings.on_stale.unwrap_or(self.on_stale),
            on_failure: settings.on_failure.unwrap_or(self.on_failure),
            max_plan_age: settings.max_plan_age.map(|span| span.0).or(self.max_plan_age),
            closure: settings.closure.unwrap_or(self.closure),
            show_values: settings.show_values.unwrap_or(self.show_values),
            missing_spec: settings.missing_spec.unwrap_or(self.missing_spec),
            fail_on_check: settings.fail_on_check.unwrap_or(self.fail_on_check),
            destroy: settings.destroy.unwrap_or(self.destroy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_counts_what_is_destroyed() {
        assert!(DestroyGuard::Allow.allows(u64::MAX));
        assert!(DestroyGuard::AtMost(0).allows(0) && !DestroyGuard::AtMost(0).allows(1));
        assert!(DestroyGuard::AtMost(3).allows(3) && !DestroyGuard::AtMost(3).allows(4));
    }

    #[test]
    fn what_a_setting_leaves_out_stays_as_it_was() {
        let base = Policies { on_stale: OnStale::Revalidate, show_values: true, ..Policies::default() };
        let settings = PolicySettings { show_values: Some(false), ..PolicySettings::default() };
        assert_eq!(base.with(&settings), Policies { show_values: false, ..base });
    }
}
