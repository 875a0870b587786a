//! A row that changed since a plan, and what each version did to it, as timelines keep it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Origin;
use crate::domain::id::{Actor, RunId, Serial};
use crate::domain::state::Touched;

/// A row that changed since a plan, and by which versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedRow {
    /// The row, in words.
    pub row: String,
    /// The version that changed it last.
    pub serial: Serial,
    /// The run behind the version.
    pub run: Option<RunId>,
    /// Who.
    pub actor: Actor,
    /// The versions that changed it since, the oldest first: the newest ones when there are many. Empty on a timeline from
    /// before they were told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<RowVersion>,
    /// How many versions came before these.
    #[serde(default, skip_serializing_if = "is_none")]
    pub earlier: usize,
    /// Whether it is again as it was then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
}

/// What one version did to a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowVersion {
    /// The version.
    pub serial: Serial,
    /// The run behind it.
    pub run: Option<RunId>,
    /// Who.
    pub actor: Actor,
    /// The request that it came from, and no more of its origin.
    #[serde(default)]
    pub origin: Origin,
    /// What it did; none where that was not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
    /// Where what is new at the row came from, when the version moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// Where what is gone from the row went, when the version moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// The names of the attributes that it changed, where they were looked for: as many as are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
    /// How many more attributes.
    #[serde(default, skip_serializing_if = "is_none")]
    pub more: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_none(number: &usize) -> bool {
    *number == 0
}

impl ChangedRow {
    /// A row of which only the version is known that changed it last.
    #[must_use]
    pub fn by(row: String, serial: Serial, run: Option<RunId>, actor: Actor) -> Self {
        Self { row, serial, run, actor, versions: Vec::new(), earlier: 0, back: false }
    }

    /// The versions that are known to have changed it, the oldest first: never none.
    #[must_use]
    pub fn known(&self) -> Cow<'_, [RowVersion]> {
        if !self.versions.is_empty() {
            return Cow::Borrowed(&self.versions);
        }
        Cow::Owned(vec![RowVersion {
            serial: self.serial,
            run: self.run,
            actor: self.actor.clone(),
            origin: Origin::default(),
            touched: None,
            moved_from: None,
            moved_to: None,
            attributes: Vec::new(),
            more: 0,
        }])
    }
}
