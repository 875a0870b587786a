//! What made the CI job run, in the same words for every forge.
//!
//! Everything here comes from outside and may be hostile: texts are texts, to be quoted wherever they are shown, and never
//! part of a command line.

pub mod github;
pub mod gitlab;

/// What made the job run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CiEvent {
    /// Something happened to a pull or merge request.
    Request(RequestEvent),
    /// Commits came to a branch, or the branch went.
    Push(PushEvent),
    /// A merge queue wants to know whether a group of requests can be merged.
    MergeGroup(MergeGroupEvent),
    /// A merge train wants to know the same; only on GitLab.
    MergeTrain(RequestEvent),
    /// Somebody wrote a comment on a request.
    Comment(CommentEvent),
    /// Somebody started it: by hand, over the API, from another pipeline.
    Manual,
    /// It was time.
    Schedule,
    /// Anything else; kl has nothing to do on it.
    Unknown {
        /// The forge's name for it.
        name: String,
    },
}

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestAction {
    /// It was opened, or opened again.
    Opened,
    /// Its commits or its base changed. GitLab does not tell this from [`Self::Opened`].
    Synchronized,
    /// It was merged.
    Merged,
    /// It was closed without a merge.
    Closed,
    /// Something that changes no commit: a label, a review.
    Other,
}

/// A pull or merge request, as the event has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestEvent {
    /// Its number.
    pub number: u64,
    /// What happened.
    pub action: RequestAction,
    /// The commit at its head: what checks belong to.
    pub head: String,
    /// The branch that it is to be merged into.
    pub base_branch: String,
    /// The commit of that branch that it is compared with, where the forge says.
    pub base: Option<String>,
    /// Whether its head lives in another repository; also when that one is gone.
    pub from_fork: bool,
    /// The commit by which it was merged.
    pub merge_commit: Option<String>,
    /// Whether the job has the repository's secrets whatever the request holds (`pull_request_target`): the request's
    /// code must not run in it.
    pub privileged: bool,
}

/// A push to a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushEvent {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The commit before; none when the branch is new.
    pub before: Option<String>,
    /// The commit after; none when the branch was deleted.
    pub after: Option<String>,
    /// The repository's default branch, where the forge says.
    pub default_branch: Option<String>,
}

impl PushEvent {
    /// Whether the branch is gone.
    #[must_use]
    pub fn deleted(&self) -> bool {
        self.after.is_none()
    }
}

/// A group in a merge queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeGroupEvent {
    /// The commit that the group would become.
    pub head: String,
    /// The branch that it would be merged into.
    pub base_branch: String,
    /// The commit that it is on top of.
    pub base: Option<String>,
    /// The requests that the group's branch names: the last one, whatever else is in the group.
    pub requests: Vec<u64>,
}

/// A comment on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentEvent {
    /// The request's number.
    pub request: u64,
    /// The comment: hostile text.
    pub body: String,
    /// Who wrote it.
    pub author: String,
    /// Whether that is an owner, a member or a collaborator. Nobody else gives orders.
    pub trusted: bool,
}

impl CiEvent {
    /// The request that it is about, when there is exactly one.
    #[must_use]
    pub fn request(&self) -> Option<u64> {
        match self {
            Self::Request(request) | Self::MergeTrain(request) => Some(request.number),
            Self::Comment(comment) => Some(comment.request),
            // A group may hold more requests than its branch names.
            Self::MergeGroup(_) | Self::Push(_) | Self::Manual | Self::Schedule | Self::Unknown { .. } => None,
        }
    }

    /// The commit that it is about, when the event says.
    #[must_use]
    pub fn commit(&self) -> Option<&str> {
        match self {
            Self::Request(request) | Self::MergeTrain(request) => Some(&request.head),
            Self::MergeGroup(group) => Some(&group.head),
            Self::Push(push) => push.after.as_deref(),
            Self::Comment(_) | Self::Manual | Self::Schedule | Self::Unknown { .. } => None,
        }
    }

    /// A few words for people: `pull request 7`, `push to main`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Request(request) => {
                let what = match request.action {
                    RequestAction::Merged => " was merged",
                    RequestAction::Closed => " was closed",
                    RequestAction::Opened | RequestAction::Synchronized | RequestAction::Other => "",
                };
                format!("request {}{what}", request.number)
            }
            Self::Push(push) if push.deleted() => format!("the branch {} was deleted", push.branch),
            Self::Push(push) => format!("push to {}", push.branch),
            Self::MergeGroup(group) => format!("merge queue of {}", group.base_branch),
            Self::MergeTrain(request) => format!("merge train with request {}", request.number),
            Self::Comment(comment) => format!("comment on request {}", comment.request),
            Self::Manual => "started by hand or by another job".to_owned(),
            Self::Schedule => "schedule".to_owned(),
            Self::Unknown { name } => format!("{name}, which kl does not act on"),
        }
    }
}

/// Why an event cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// There is no file where the forge says.
    #[error("the event file {path} cannot be read: {reason}")]
    File {
        /// The path.
        path: String,
        /// Why.
        reason: String,
    },
    /// It is larger than any event.
    #[error("the event has {size} bytes; none has more than {}", github::MAX_BYTES)]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// It is not what the forge sends.
    #[error("the event {event} is not what the forge sends: {reason}")]
    Malformed {
        /// The event's name.
        event: String,
        /// What is missing or odd.
        reason: String,
    },
}

/// Whether a text is a commit's id.
#[must_use]
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|letter| letter.is_ascii_hexdigit())
}

/// A commit's id; none for the zeros that stand for no commit.
fn commit(text: &str) -> Option<String> {
    (is_commit(text) && text.bytes().any(|letter| letter != b'0')).then(|| text.to_owned())
}
