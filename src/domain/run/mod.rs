//! Runs: what kl did to a state, by whom, for whom, and how it went.

pub mod aftermath;
pub mod again;
mod changed_row;
pub mod event;
pub mod fidelity;
pub mod half_made;
pub mod in_flight;
pub mod unshown;
pub mod workplace;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::coordination::reservation::{Blocker, Claim};
use crate::domain::id::{Actor, RunId, Serial, SpecId, StateId};

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// `kl apply`.
    Apply,
    /// `kl refresh`.
    Refresh,
    /// `kl state import`.
    Import,
    /// `kl recover`.
    Recover,
    /// A plain `terraform`, by way of the HTTP backend.
    Plain,
    /// `kl state rollback`.
    Rollback,
    /// `kl state rm`.
    Remove,
    /// `kl state mv`.
    Move,
}

/// Where a run stands. `Committed` and those after it are ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Recorded, nothing reserved yet.
    Started,
    /// In the queue for its reservations.
    Waiting,
    /// Holds its reservations; Terraform has not begun to change anything.
    Reserved,
    /// Terraform is changing real objects.
    Applying,
    /// Its changes are in the trunk.
    Committed,
    /// There was nothing to do.
    Noop,
    /// It only looked: `--dry-run`.
    DryRun,
    /// It went wrong; the trunk is as it was.
    Failed,
    /// Another run's reservation stood in the way.
    Conflict,
    /// The reviewed plan no longer held.
    Stale,
    /// Its lease ran out and somebody took its reservations.
    Lost,
    /// Somebody ended it with `kl abort`.
    Aborted,
}

impl RunStatus {
    /// Whether the run has ended.
    #[must_use]
    pub fn ended(self) -> bool {
        !matches!(self, Self::Started | Self::Waiting | Self::Reserved | Self::Applying)
    }

    /// The word that the database stores and `--format json` prints.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Waiting => "waiting",
            Self::Reserved => "reserved",
            Self::Applying => "applying",
            Self::Committed => "committed",
            Self::Noop => "noop",
            Self::DryRun => "dry_run",
            Self::Failed => "failed",
            Self::Conflict => "conflict",
            Self::Stale => "stale",
            Self::Lost => "lost",
            Self::Aborted => "aborted",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Started,
            Self::Waiting,
            Self::Reserved,
            Self::Applying,
            Self::Committed,
            Self::Noop,
            Self::DryRun,
            Self::Failed,
            Self::Conflict,
            Self::Stale,
            Self::Lost,
            Self::Aborted,
        ]
        .into_iter()
        .find(|status| status.word() == word)
    }
}

impl RunKind {
    /// The word that the database stores.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Refresh => "refresh",
            Self::Import => "import",
            Self::Recover => "recover",
            Self::Plain => "plain",
            Self::Rollback => "rollback",
            Self::Remove => "remove",
            Self::Move => "move",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Apply, Self::Refresh, Self::Import, Self::Recover, Self::Plain, Self::Rollback, Self::Remove, Self::Move]
            .into_iter()
            .find(|kind| kind.word() == word)
    }
}

/// Where in the world a run came from. Empty outside CI.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Origin {
    /// `github` or `gitlab`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forge: Option<String>,
    /// `owner/name` on the forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The number of the pull or merge request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// The commit that the configuration was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The job's page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_url: Option<String>,
    /// What tells the job from every other one, also within the same pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

impl Origin {
    /// The origin of a run that carries out what was planned for a request, or brings in what such a run has left: from
    /// wherever it is run, that request is what it is about.
    #[must_use]
    pub fn on_behalf_of(&self, planned: &Self) -> Self {
        let elsewhere = |own: &Option<String>, theirs: &Option<String>| own.is_some() && own != theirs;
        if self.request.is_some()
            || planned.request.is_none()
            || elsewhere(&self.forge, &planned.forge)
            || elsewhere(&self.repository, &planned.repository)
        {
            return self.clone();
        }
        let Self { forge, repository, request, .. } = planned.clone();
        Self { forge, repository, request, ..self.clone() }
    }

    /// Whether both came from the same CI job. What tells jobs apart does so within one forge, and several forges may
    /// share a database: the job's page says on which server it is.
    #[must_use]
    pub fn same_job(&self, other: &Self) -> bool {
        self.job.is_some()
            && self.job == other.job
            && self.job_url == other.job_url
            && self.forge == other.forge
            && self.repository == other.repository
    }
}

/// The versions that a plan or an apply ran with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tools {
    /// `terraform` or `tofu`.
    pub program: String,
    /// Its version, as `1.11.4`.
    pub version: String,
    /// Provider source address to version, as the lock file has them; built-in providers have none.
    pub providers: BTreeMap<String, String>,
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Its id, made by the caller.
    pub id: RunId,
    /// The state that it is about.
    pub state: StateId,
    /// What for.
    pub kind: RunKind,
    /// Who.
    pub actor: Actor,
    /// From where.
    pub origin: Origin,
    /// The spec that it applies, once there is one.
    pub spec: Option<SpecId>,
    /// The serial that its plan was made from.
    pub source_serial: Serial,
    /// The versions that it runs with.
    pub tools: Tools,
    /// What it means to reserve.
    pub claims: Vec<Claim>,
}

/// A run as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The state that it is about.
    pub state: StateId,
    /// What for.
    pub kind: RunKind,
    /// Where it stands.
    pub status: RunStatus,
    /// Who.
    pub actor: Actor,
    /// From where.
    pub origin: Origin,
    /// The spec that it applies.
    pub spec: Option<SpecId>,
    /// The serial that its plan was made from.
    pub source_serial: Serial,
    /// The versions that it runs with.
    pub tools: Tools,
    /// What it meant to reserve.
    pub claims: Vec<Claim>,
    /// When it began, by the database's clock.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// The serial that it committed.
    pub result_serial: Option<Serial>,
    /// Why it failed, in a sentence without secrets.
    pub error: Option<String>,
    /// What stood in its way, when that was the reason.
    pub conflict: Vec<Blocker>,
}

/// How a run ends without a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// The final status; one for which [`RunStatus::ended`] holds, other than `Committed`.
    pub status: RunStatus,
    /// Why, in a sentence without secrets.
    pub error: Option<String>,
    /// What stood in the way.
    pub conflict: Vec<Blocker>,
    /// Rows that Terraform did change: their write reservations stay as a quarantine, all others are released.
    pub quarantine: Vec<crate::domain::address::Pattern>,
}

impl RunEnd {
    /// An end that releases everything and says nothing more.
    #[must_use]
    pub fn plain(status: RunStatus) -> Self {
        Self { status, error: None, conflict: Vec::new(), quarantine: Vec::new() }
    }

    /// A failure with its reason.
    #[must_use]
    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::plain(RunStatus::Failed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_told_apart_also_across_forges() {
        let of = |forge: &str, server: &str, repository: &str, job: Option<&str>| Origin {
            forge: Some(forge.to_owned()),
            repository: Some(repository.to_owned()),
            job_url: Some(format!("{server}/{repository}/jobs/7")),
            job: job.map(str::to_owned),
            ..Origin::default()
        };
        let own = of("gitlab", "https://one.example", "infra/live", Some("7"));
        // A request and a commit may be known to one step and not to the next.
        assert!(own.same_job(&Origin { request: Some(3), commit: Some("abc".to_owned()), ..own.clone() }));
        for other in [
            of("gitlab", "https://one.example", "infra/live", Some("8")),
            of("gitlab", "https://two.example", "infra/live", Some("7")),
            of("gitlab", "https://one.example", "infra/test", Some("7")),
            of("github", "https://one.example", "infra/live", Some("7")),
            of("gitlab", "https://one.example", "infra/live", None),
        ] {
            assert!(!own.same_job(&other), "{other:?}");
        }
        let nowhere = Origin::default();
        // From a terminal, for a request.
        let planned = Origin { request: Some(7), ..own.clone() };
        let behalf = nowhere.on_behalf_of(&planned);
        assert_eq!((behalf.request, &behalf.repository, behalf.job), (Some(7), &own.repository, None));
        assert_eq!(own.on_behalf_of(&planned), planned);
        let elsewhere = Origin { repository: Some("other/live".to_owned()), ..own.clone() };
        assert_eq!(elsewhere.on_behalf_of(&planned), elsewhere);
        assert!(!nowhere.same_job(&nowhere), "two people at their terminals");
    }
}
