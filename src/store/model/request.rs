//! What the store remembers of pull and merge requests.

use chrono::{DateTime, Utc};

use super::StoredSpec;
use crate::domain::id::{Actor, RunId, SpecId, StateId, StateName};
use crate::domain::plan::changed::ChangedValue;
use crate::domain::request::{ForgeKind, RequestPhase, RequestRef};

/// What a forge says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFacts {
    /// The commit at its head.
    pub head: String,
    /// The branch that it is to be merged into.
    pub base_branch: String,
    /// Its title, as its author wrote it: hostile text.
    pub title: String,
    /// Where it stands.
    pub phase: RequestPhase,
    /// Whether its head is in another repository.
    pub from_fork: bool,
    /// The commit that the merge made, once it is known.
    pub merge_commit: Option<String>,
}

/// A request as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRequest {
    /// Which one.
    pub request: RequestRef,
    /// What the forge said of it last.
    pub facts: RequestFacts,
    /// When kl first heard of it, by the database's clock.
    pub created_at: DateTime<Utc>,
    /// When kl last heard of it.
    pub updated_at: DateTime<Utc>,
}

/// Which requests to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestQuery {
    /// On which forge.
    pub forge: ForgeKind,
    /// `owner/name` there.
    pub repository: String,
    /// Only those in this phase.
    pub phase: Option<RequestPhase>,
    /// At most so many.
    pub limit: u32,
}

/// A project as a request's configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPlace {
    /// Its name in kl.yaml.
    pub project: String,
    /// The root module, relative to the repository.
    pub dir: String,
    /// The Terraform workspace.
    pub workspace: String,
    /// The state that it is mapped to.
    pub state: StateId,
}

/// What a plan job of one project came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanOutcome {
    /// There is a spec, already stored.
    Planned {
        /// The spec.
        spec: SpecId,
        /// Values of changed attributes, masked; empty unless the project shows values.
        values: Vec<ChangedValue>,
    },
    /// Planning failed.
    Failed {
        /// Why, in a sentence without secrets.
        error: String,
    },
    /// The request touched the project once and no longer does.
    Dropped,
}

/// The result of a plan job, to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanResult {
    /// The project.
    pub place: ProjectPlace,
    /// The commit that was planned.
    pub head: String,
    /// What it came to.
    pub outcome: PlanOutcome,
    /// Who planned.
    pub actor: Actor,
    /// The job's page.
    pub job_url: Option<String>,
}

/// The newest plan job of a project, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRecord {
    /// What it came to.
    pub outcome: PlanOutcome,
    /// The commit.
    pub head: String,
    /// Who planned; none when a project was dropped before anybody had.
    pub actor: Option<Actor>,
    /// The job's page.
    pub job_url: Option<String>,
    /// When it ended, by the database's clock.
    pub at: DateTime<Utc>,
}

/// The result of an apply job, to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyResult {
    /// The project.
    pub place: ProjectPlace,
    /// The run; none when the apply was refused before there was one.
    pub run: Option<RunId>,
    /// Why it failed, when there is no run to say so.
    pub error: Option<String>,
    /// What to do next, as commands and sentences.
    pub next: Vec<String>,
    /// The job's page.
    pub job_url: Option<String>,
}

/// The newest apply job of a project, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyRecord {
    /// The run.
    pub run: Option<RunId>,
    /// Why it failed, when there is no run to say so.
    pub error: Option<String>,
    /// What to do next.
    pub next: Vec<String>,
    /// The job's page.
    pub job_url: Option<String>,
    /// When it ended, by the database's clock.
    pub at: DateTime<Utc>,
}

/// The newest spec of a project in a request, and the commit that it was planned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecAt {
    /// The spec.
    pub spec: SpecId,
    /// The commit.
    pub head: String,
}

/// A project of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRecord {
    /// The project.
    pub place: ProjectPlace,
    /// The name of its state.
    pub state_name: StateName,
    /// What the newest plan job came to; none before the first one ended.
    pub plan: Option<PlanRecord>,
    /// The newest spec, also when a later plan job failed or dropped the project.
    pub newest_spec: Option<SpecAt>,
    /// What the newest apply came to; none before.
    pub apply: Option<ApplyRecord>,
}

/// Whether a job's result was remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a superseded result was not stored"]
pub enum Noted {
    /// It was.
    Stored,
    /// It was not: the request has another head by now.
    Superseded {
        /// The request's head.
        head: String,
    },
}

/// A spec that may still be applied: of an open request, or of a merged one that no run has committed yet.
#[derive(Debug, Clone)]
pub struct OpenSpec {
    /// The request.
    pub request: RequestRef,
    /// Its title: hostile text.
    pub title: String,
    /// `Open` or `Merged`.
    pub phase: RequestPhase,
    /// The commit at its head now.
    pub head: String,
    /// The project.
    pub project: String,
    /// The commit that the spec was planned from.
    pub spec_head: String,
    /// The spec.
    pub spec: StoredSpec,
}

/// A comment as it was last posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedComment {
    /// The forge's id of it.
    pub id: String,
    /// Its page.
    pub url: Option<String>,
    /// The digest of its text.
    pub digest: String,
}

/// What became of a wish to render a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentLock {
    /// It is ours until then.
    Granted {
        /// The comment as it was last posted; none before.
        posted: Option<PostedComment>,
        /// When the lock ends by itself, by the database's clock.
        until: DateTime<Utc>,
    },
    /// Another job renders it.
    Busy {
        /// When that one's lock ends by itself.
        until: DateTime<Utc>,
        /// How long that is from now.
        remaining: std::time::Duration,
    },
}
