//! A stand-in for GitLab: one project with merge requests, notes and commit statuses.

mod documents;
mod reads;
mod writes;

use std::collections::BTreeSet;

use kl_runner::forge::{GitlabSettings, Push};
use serde_json::json;

use super::contract::Contract;
use super::history::Merge;
use super::repository::Repository;
use super::server::{Behaviour, Reply, Request, decoded};
use super::stand_in::StandIn;
use super::written::Written;

/// The project that it has.
pub(crate) const PROJECT: &str = "example/platform/infra";

/// A project access token with the scope `api`.
pub(crate) const ACCESS_TOKEN: &str = "glpat-accesstoken0123456789";

/// A job's own token: it reads.
pub(crate) const JOB_TOKEN: &str = "glcbt-jobtoken0123456789";

/// The number of the access token's user.
pub(crate) const BOT: u64 = 50;

/// The pipeline of the job.
pub(crate) const PIPELINE: u64 = 900;

/// A note as it stands.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    pub(crate) id: u64,
    pub(crate) author: u64,
    pub(crate) body: String,
    system: bool,
    number: u64,
}

/// A commit status as it stands.
#[derive(Debug, Clone)]
pub(crate) struct CommitStatus {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) description: String,
    pub(crate) pipeline: Option<u64>,
    sha: String,
}

/// What GitLab knows.
pub(crate) struct Gitlab {
    base: String,
    repository: Repository,
    notes: Written<Note>,
    statuses: Written<CommitStatus>,
    quick_actions: Vec<String>,
    denied_statuses: bool,
    /// How many files of a request or a comparison are listed.
    most_files: usize,
    replaced: BTreeSet<String>,
}

/// GitLab on loopback.
pub(crate) type GitlabStandIn = StandIn<Gitlab>;

impl GitlabStandIn {
    /// As gitlab.com.
    pub(crate) fn start() -> Self {
        Self::start_at("")
    }

    /// As a server that shares its host with others: everything is below a path, as `/gitlab`.
    pub(crate) fn start_at(base: &str) -> Self {
        Self::of(Gitlab {
            base: base.into(),
            repository: Repository::new(),
            notes: Written::default(),
            statuses: Written::default(),
            quick_actions: Vec::new(),
            denied_statuses: false,
            most_files: 1_000,
            replaced: BTreeSet::new(),
        })
    }

    /// What `CI_API_V4_URL` would be.
    pub(crate) fn url(&self) -> String {
        format!("{}{}/api/v4", self.server.origin(), self.server.state().base)
    }

    /// What kl has to know to speak with it, with an access token.
    pub(crate) fn settings(&self) -> GitlabSettings {
        GitlabSettings {
            api_url: self.url(),
            project: PROJECT.into(),
            project_url: Some(format!("https://gitlab.example/{PROJECT}")),
            token: Some(ACCESS_TOKEN.into()),
            job_token: Some(JOB_TOKEN.into()),
            pipeline: Some(PIPELINE),
            certificates: None,
        }
    }

    /// Somebody writes a note; gives its id.
    pub(crate) fn note_by(&self, number: u64, author: u64, body: &str) -> u64 {
        self.server.state().add_note(number, author, body, false)
    }

    /// GitLab itself writes a note, in somebody's name.
    pub(crate) fn system_note_by(&self, number: u64, author: u64, body: &str) -> u64 {
        self.server.state().add_note(number, author, body, true)
    }

    /// Somebody deletes a note.
    pub(crate) fn delete_note(&self, id: u64) {
        self.server.state().notes.remove(|note| note.id == id);
    }

    /// The notes on a request, oldest first; they count as looked at.
    pub(crate) fn comments(&self, number: u64) -> Vec<Note> {
        self.server.state().notes.look(|note| note.number == number)
    }

    /// The statuses of a commit; they count as looked at.
    pub(crate) fn statuses(&self, sha: &str) -> Vec<CommitStatus> {
        self.server.state().statuses.look(|status| status.sha == sha)
    }

    /// The access token's role may not set statuses.
    pub(crate) fn deny_statuses(&self) {
        self.server.state().denied_statuses = true;
    }

    /// A newer commit takes this one's place on its branch.
    pub(crate) fn replace_commit(&self, sha: &str) {
        self.server.state().replaced.insert(sha.into());
    }
}

impl Behaviour for Gitlab {
    fn contract(&self) -> &'static Contract {
        Contract::gitlab()
    }

    fn repository(&mut self) -> &mut Repository {
        &mut self.repository
    }

    fn merge(&mut self, number: u64, how: Merge) -> Push {
        let request = &self.repository.requests[&number];
        let (branch, target, title) = (&request.branch, &request.base, &request.title);
        let message = match how {
            Merge::Commit => {
                format!("Merge branch '{branch}' into '{target}'\n\n{title}\n\nSee merge request {PROJECT}!{number}")
            }
            _ => title.clone(),
        };
        let push = self.repository.merge(number, how, &message);
        // A fast-forward of a branch that is behind is a rebase of the branch, before it is merged.
        let request = self.repository.requests.get_mut(&number).unwrap();
        if let Some(top) = request.merged.as_ref().and_then(|merged| merged.copies.last()) {
            request.head.clone_from(top);
            request.start.clone_from(push.before.as_ref().unwrap());
        }
        push
    }

    fn base(&self) -> &str {
        &self.base
    }

    fn beside(&mut self, _request: &Request) -> Option<Reply> {
        None
    }

    fn answer(&mut self, request: &Request) -> Reply {
        let header = |name: &str| request.headers.get(name).map(String::as_str);
        let job = match (header("private-token"), header("job-token")) {
            (Some(ACCESS_TOKEN), None) => false,
            (None, Some(JOB_TOKEN)) => true,
            _ => return Reply::refusal(401, "401 Unauthorized"),
        };
        let segments: Vec<String> = request.path.split('/').skip(1).map(decoded).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let rest = match segments.as_slice() {
            ["api", "v4", "user"] if !job => {
                return Reply::new(200, json!({ "id": BOT, "username": "project_7_bot", "bot": true }));
            }
            ["api", "v4", "job"] if job => {
                let body =
                    json!({ "id": 1, "name": "plan", "status": "running", "user": { "id": 12, "username": "alice" } });
                return Reply::new(200, body);
            }
            ["api", "v4", "user" | "job"] => return Reply::refusal(401, "401 Unauthorized"),
            ["api", "v4", "projects", PROJECT | "7", rest @ ..] => rest,
            _ => return Reply::refusal(404, "404 Project Not Found"),
        };
        match (request.method.as_str(), rest) {
            ("POST" | "PUT", ["merge_requests" | "statuses", ..]) if job => Reply::refusal(401, "401 Unauthorized"),
            ("POST", ["merge_requests", number, "notes"]) => self.write_note(number, request),
            ("PUT", ["merge_requests", _, "notes", id]) => self.edit_note(id, request),
            ("POST", ["statuses", sha]) => self.set_status(sha, request),
            ("GET", path) => self.read(path, request),
            _ => Reply::refusal(404, "404 Not Found"),
        }
    }

    fn unread(&self) -> Vec<String> {
        let notes = self.notes.unread().map(|it| format!("a note on !{}: {}", it.number, it.body));
        let statuses = self.statuses.unread().map(|it| format!("a status `{}`: {}", it.name, it.description));
        let actions = self.quick_actions.iter().map(|line| format!("a quick action: {line}"));
        notes.chain(statuses).chain(actions).collect()
    }
}
