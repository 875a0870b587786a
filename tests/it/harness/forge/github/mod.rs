//! A stand-in for GitHub: one repository with pull requests, comments, check runs and commit statuses.

mod documents;
mod reads;
mod writes;

use std::collections::BTreeSet;

use kl_runner::forge::{GithubSettings, Push};
use serde_json::{Value, json};

use super::contract::Contract;
use super::history::Merge;
use super::repository::Repository;
use super::server::{Behaviour, Reply, Request, decoded};
use super::stand_in::StandIn;
use super::written::Written;

/// The repository that it has.
pub(crate) const REPOSITORY: &str = "example/infra";

/// The token of a job: everything that is not denied, in the name of `github-actions[bot]`.
pub(crate) const JOB_TOKEN: &str = "ghs_jobtoken0123456789";

/// Alice's own token, with the scope `repo`: it can never make check runs.
pub(crate) const ALICES_TOKEN: &str = "ghp_alicestoken0123456789";

const DENIED: &str = "Resource not accessible by integration";

/// What can be denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Permission {
    Comments,
    Checks,
    Statuses,
    PullRequests,
    /// GraphQL, which some tokens and servers do not have.
    Graphql,
}

/// A comment as it stands.
#[derive(Debug, Clone)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) author: String,
    pub(crate) body: String,
    number: u64,
}

/// A check run as it stands.
#[derive(Debug, Clone)]
pub(crate) struct CheckRun {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) conclusion: Option<String>,
    pub(crate) title: String,
    pub(crate) annotations: Vec<Value>,
    /// Everything that was said of it, later things over earlier ones.
    pub(crate) told: Value,
    sha: String,
}

/// A commit status as it stands.
#[derive(Debug, Clone)]
pub(crate) struct CommitStatus {
    pub(crate) context: String,
    pub(crate) state: String,
    pub(crate) description: String,
    sha: String,
}

/// What GitHub knows.
pub(crate) struct Github {
    base: String,
    repository: Repository,
    locked: BTreeSet<u64>,
    denied: BTreeSet<Permission>,
    comments: Written<Comment>,
    checks: Written<CheckRun>,
    statuses: Written<CommitStatus>,
}

/// GitHub on loopback.
pub(crate) type GithubStandIn = StandIn<Github>;

impl GithubStandIn {
    /// As github.com: the API is at the root of its host.
    pub(crate) fn start() -> Self {
        Self::start_at("")
    }

    /// As a server of one's own, with the API below a path: `/api/v3`.
    pub(crate) fn start_at(base: &str) -> Self {
        Self::of(Github {
            base: base.into(),
            repository: Repository::new(),
            locked: BTreeSet::new(),
            denied: BTreeSet::new(),
            comments: Written::default(),
            checks: Written::default(),
            statuses: Written::default(),
        })
    }

    /// What `GITHUB_API_URL` would be.
    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.server.origin(), self.server.state().base)
    }

    /// What kl has to know to speak with it, in the job's name.
    pub(crate) fn settings(&self) -> GithubSettings {
        GithubSettings {
            api_url: self.url(),
            graphql_url: None,
            repository: REPOSITORY.into(),
            token: Some(JOB_TOKEN.into()),
            certificates: None,
        }
    }

    /// Somebody comments; gives the comment's id.
    pub(crate) fn comment_by(&self, number: u64, author: &str, body: &str) -> u64 {
        let mut state = self.server.state();
        let id = state.repository.next();
        state.comments.place(Comment { id, author: author.into(), body: body.into(), number });
        id
    }

    /// Somebody deletes a comment.
    pub(crate) fn delete_comment(&self, id: u64) {
        self.server.state().comments.remove(|comment| comment.id == id);
    }

    /// The comments on a request, oldest first; they count as looked at.
    pub(crate) fn comments(&self, number: u64) -> Vec<Comment> {
        self.server.state().comments.look(|comment| comment.number == number)
    }

    /// The check runs on a commit; they count as looked at.
    pub(crate) fn checks(&self, sha: &str) -> Vec<CheckRun> {
        self.server.state().checks.look(|check| check.sha == sha)
    }

    /// The statuses of a commit; they count as looked at.
    pub(crate) fn statuses(&self, sha: &str) -> Vec<CommitStatus> {
        self.server.state().statuses.look(|status| status.sha == sha)
    }

    /// Counts everything that was posted as looked at: for tests that are about something else.
    pub(crate) fn look_at_everything(&self) {
        let mut state = self.server.state();
        drop((state.comments.look(|_| true), state.checks.look(|_| true), state.statuses.look(|_| true)));
    }

    /// Locks the conversation of a request.
    pub(crate) fn lock(&self, number: u64) {
        self.server.state().locked.insert(number);
    }

    /// Takes a permission from the token.
    pub(crate) fn deny(&self, permission: Permission) {
        self.server.state().denied.insert(permission);
    }
}

impl Behaviour for Github {
    fn contract(&self) -> &'static Contract {
        Contract::github()
    }

    fn repository(&mut self) -> &mut Repository {
        &mut self.repository
    }

    fn merge(&mut self, number: u64, how: Merge) -> Push {
        let pull = &self.repository.requests[&number];
        let message = match how {
            Merge::Commit => format!("Merge pull request #{number} from alice/{}\n\n{}", pull.branch, pull.title),
            _ => format!("{} (#{number})", pull.title),
        };
        self.repository.merge(number, how, &message)
    }

    fn base(&self) -> &str {
        &self.base
    }

    fn beside(&mut self, request: &Request) -> Option<Reply> {
        let graphql = if self.base.is_empty() { "/graphql" } else { "/api/graphql" };
        if request.method != "POST" || request.path != graphql {
            return None;
        }
        Some(match Self::login(request) {
            _ if self.denied.contains(&Permission::Graphql) => Reply::refusal(404, "Not Found"),
            None => Reply::refusal(401, "Bad credentials"),
            Some(login) => Reply::new(200, json!({ "data": { "viewer": { "login": login } } })),
        })
    }

    fn answer(&mut self, request: &Request) -> Reply {
        let Some(login) = Self::login(request) else { return Reply::refusal(401, "Bad credentials") };
        let segments: Vec<String> = request.path.split('/').skip(1).map(decoded).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let rest = match segments.as_slice() {
            ["user"] if login == "alice" => return Reply::new(200, documents::user()),
            ["user"] => return Reply::refusal(403, DENIED),
            ["repos", owner, name, rest @ ..] if format!("{owner}/{name}") == REPOSITORY => rest,
            _ => return Reply::refusal(404, "Not Found"),
        };
        if let Some(reply) = self.denial(&request.method, rest, login) {
            return reply;
        }
        let scopes = (login == "alice").then(|| ("x-oauth-scopes", "gist, repo".to_owned()));
        let mut reply = match (request.method.as_str(), rest) {
            ("GET", []) => Reply::new(200, documents::repository()),
            ("POST", ["issues", number, "comments"]) => self.comment(number, login, request),
            ("PATCH", ["issues", "comments", id]) => self.edit(id, request),
            ("POST", ["check-runs"]) => self.check(request),
            ("PATCH", ["check-runs", id]) => self.recheck(id, request),
            ("POST", ["statuses", sha]) => self.status(sha, request),
            ("GET", path) => self.read(path, request),
            _ => Reply::refusal(404, "Not Found"),
        };
        reply.headers.extend(scopes);
        reply
    }

    fn unread(&self) -> Vec<String> {
        let comments = self.comments.unread().map(|it| format!("a comment on #{}: {}", it.number, it.body));
        let checks = self.checks.unread().map(|it| format!("a check `{}`: {}", it.name, it.told));
        let statuses = self.statuses.unread().map(|it| format!("a status `{}`: {}", it.context, it.description));
        comments.chain(checks).chain(statuses).collect()
    }
}

impl Github {
    fn login(request: &Request) -> Option<&'static str> {
        match request.headers.get("authorization")?.strip_prefix("Bearer ")? {
            JOB_TOKEN => Some("github-actions[bot]"),
            ALICES_TOKEN => Some("alice"),
            _ => None,
        }
    }

    fn denial(&self, method: &str, path: &[&str], login: &str) -> Option<Reply> {
        let denied = |permission| self.denied.contains(&permission).then(|| Reply::refusal(403, DENIED));
        match (method, path) {
            ("POST" | "PATCH", ["issues", ..]) => denied(Permission::Comments),
            ("POST" | "PATCH", ["check-runs", ..]) if login == "alice" => {
                Some(Reply::refusal(403, "You must authenticate via a GitHub App."))
            }
            (_, ["check-runs", ..]) => denied(Permission::Checks),
            ("POST", ["statuses", ..]) => denied(Permission::Statuses),
            ("GET", ["pulls", ..]) => denied(Permission::PullRequests),
            _ => None,
        }
    }
}
