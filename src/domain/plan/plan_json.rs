//! The part of `terraform show -json PLAN` that kl trusts. Values stay as exact text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::action::{Action, UnknownAction};

/// A plan as Terraform prints it.
#[derive(Debug, Deserialize)]
pub struct PlanJson {
    /// `1.2` and the like; checked by [`PlanJson::read`].
    #[serde(default)]
    pub format_version: String,
    /// The Terraform that made it.
    #[serde(default)]
    pub terraform_version: String,
    /// Every resource instance that Terraform looked at.
    #[serde(default)]
    pub resource_changes: Vec<ResourceChange>,
    /// Objects that differ from the state in reality.
    #[serde(default)]
    pub resource_drift: Vec<ResourceChange>,
    /// Values of root variables, the sensitive ones in clear; without ephemeral ones.
    #[serde(default)]
    pub variables: BTreeMap<String, GivenVariable>,
    /// Root outputs.
    #[serde(default)]
    pub output_changes: BTreeMap<String, Change>,
    /// Changes that Terraform put off to a later plan.
    #[serde(default)]
    pub deferred_changes: Vec<Box<RawValue>>,
    /// The configuration, for its references.
    #[serde(default)]
    pub configuration: Option<Box<RawValue>>,
    /// Whether applying it would do something; absent in older formats.
    #[serde(default)]
    pub applyable: Option<bool>,
    /// False when targets or deferrals left something out.
    #[serde(default)]
    pub complete: Option<bool>,
    /// Whether planning failed half-way.
    #[serde(default)]
    pub errored: Option<bool>,
    /// Results of conditions and checks.
    #[serde(default)]
    pub checks: Option<Vec<Check>>,
}

/// The value of a root variable.
#[derive(Debug, Deserialize)]
pub struct GivenVariable {
    /// The value; none for null.
    #[serde(default)]
    pub value: Option<Box<RawValue>>,
}

/// The planned change of one resource instance object.
#[derive(Debug, Deserialize)]
pub struct ResourceChange {
    /// Terraform's text for the instance.
    pub address: String,
    /// Where the object is now, when it moves.
    #[serde(default)]
    pub previous_address: Option<String>,
    /// The deposed object, when it is not the current one.
    #[serde(default)]
    pub deposed: Option<String>,
    /// `managed` or `data`.
    #[serde(default)]
    pub mode: String,
    /// What happens.
    pub change: Change,
    /// Why, in Terraform's own word.
    #[serde(default)]
    pub action_reason: Option<String>,
}

/// What changes in one object or output.
#[derive(Debug, Deserialize)]
pub struct Change {
    /// The action vector.
    pub actions: Vec<String>,
    /// The value before.
    #[serde(default)]
    pub before: Option<Box<RawValue>>,
    /// The value after, as far as it is known.
    #[serde(default)]
    pub after: Option<Box<RawValue>>,
    /// Where the value after is not known yet.
    #[serde(default)]
    pub after_unknown: Option<Box<RawValue>>,
    /// Where the value before is sensitive.
    #[serde(default)]
    pub before_sensitive: Option<Box<RawValue>>,
    /// Where the value after is sensitive.
    #[serde(default)]
    pub after_sensitive: Option<Box<RawValue>>,
    /// Attributes that force the replacement.
    #[serde(default)]
    pub replace_paths: Option<Box<RawValue>>,
    /// Set when the object is imported.
    #[serde(default)]
    pub importing: Option<Importing>,
}

/// The import of an object.
#[derive(Debug, Deserialize)]
pub struct Importing {
    /// The provider's id; absent while unknown, or when the import goes by identity.
    #[serde(default)]
    pub id: Option<String>,
}

/// The result of a condition or check.
#[derive(Debug, Deserialize)]
pub struct Check {
    /// What it belongs to.
    pub address: CheckAddress,
    /// `pass`, `fail`, `error` or `unknown`.
    #[serde(default)]
    pub status: String,
}

/// What a check belongs to.
#[derive(Debug, Deserialize)]
pub struct CheckAddress {
    /// Its text.
    #[serde(default)]
    pub to_display: String,
}

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not plan JSON.
    #[error("terraform printed a plan that is not the JSON kl knows")]
    Json(#[source] serde_json::Error),
    /// A format from the future or none at all (cases B32).
    #[error("the plan has format version {0:?}; kl reads 0.1 up to, not including, 2.0")]
    Format(String),
    /// Planning failed; such a plan holds only part of the changes.
    #[error("planning failed, and the plan that terraform left holds only a part of the changes")]
    Errored,
    /// Something was left out without anybody having asked for it.
    #[error("the plan is incomplete although no target limited it: terraform put off {0} changes")]
    Incomplete(usize),
    /// An unknown action.
    #[error("{address}: {source}")]
    Action {
        /// Where.
        address: String,
        /// What.
        source: UnknownAction,
    },
    /// An address that is none.
    #[error("the plan names something that is no resource address")]
    Address(#[from] crate::domain::address::ParseAddressError),
    /// A value that cannot be read.
    #[error("the plan's values of {address} cannot be read")]
    Value {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: crate::domain::json::JsonError,
    },
}

impl PlanJson {
    /// Reads plan JSON and refuses a format that kl does not know.
    ///
    /// # Errors
    /// [`PlanError::Json`] and [`PlanError::Format`].
    pub fn read(text: &str) -> Result<Self, PlanError> {
        let plan: Self = serde_json::from_str(text).map_err(PlanError::Json)?;
        let known = plan.format_version.split_once('.').is_some_and(|(major, minor)| {
            matches!(major, "0" | "1")
                && minor.split('.').all(|part| part.parse::<u32>().is_ok())
                && plan.format_version != "0.0"
        });
        if known { Ok(plan) } else { Err(PlanError::Format(plan.format_version)) }
    }
}

impl PlanJson {
    /// The checks and conditions that the plan found broken, as Terraform writes their addresses.
    #[must_use]
    pub fn failed_checks(&self) -> Vec<String> {
        let failed = self.checks.iter().flatten().filter(|check| matches!(check.status.as_str(), "fail" | "error"));
        failed.map(|check| check.address.to_display.clone()).collect()
    }
}

impl ResourceChange {
    /// The action.
    ///
    /// # Errors
    /// When kl does not know the vector.
    pub fn action(&self) -> Result<Action, PlanError> {
        Action::from_vector(&self.change.actions)
            .map_err(|source| PlanError::Action { address: self.address.clone(), source })
    }
}
