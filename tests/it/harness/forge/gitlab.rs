//! A stand-in for GitLab: one project with merge requests, notes and commit statuses.

use std::collections::{BTreeMap, BTreeSet};

use kl_runner::forge::{GitlabSettings, Push};
use serde_json::{Value, json};

use super::contract::Contract;
use super::history::{Commit, FileChange, History, Merge, Merged, OpenRequest};
use super::server::{Behaviour, Fault, Reply, Request, Server, decoded};

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
    unread: bool,
}

/// A commit status as it stands.
#[derive(Debug, Clone)]
pub(crate) struct CommitStatus {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) description: String,
    pub(crate) pipeline: Option<u64>,
    sha: String,
    unread: bool,
}

#[derive(Debug)]
struct MergeRequest {
    title: String,
    target: String,
    branch: String,
    head: String,
    start: String,
    fork: bool,
    state: &'static str,
    merge_commit: Option<String>,
    squash_commit: Option<String>,
    landed: Vec<String>,
}

struct Gitlab {
    base: String,
    history: History,
    requests: BTreeMap<u64, MergeRequest>,
    notes: Vec<Note>,
    statuses: Vec<CommitStatus>,
    quick_actions: Vec<String>,
    denied_statuses: bool,
    unconnected: bool,
    /// How many files of a request or a comparison are listed.
    most_files: usize,
    replaced: BTreeSet<String>,
    last: u64,
}

/// GitLab on loopback.
pub(crate) struct GitlabStandIn {
    server: Server<Gitlab>,
}

impl GitlabStandIn {
    /// As gitlab.com.
    pub(crate) fn start() -> Self {
        Self::start_at("")
    }

    /// As a server that shares its host with others: everything is below a path, as `/gitlab`.
    pub(crate) fn start_at(base: &str) -> Self {
        let server = Server::start(Gitlab {
            base: base.into(),
            history: History::new(),
            requests: BTreeMap::new(),
            notes: Vec::new(),
            statuses: Vec::new(),
            quick_actions: Vec::new(),
            denied_statuses: false,
            unconnected: false,
            most_files: 1_000,
            replaced: BTreeSet::new(),
            last: 0,
        });
        Self { server }
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

    /// Opens a merge request, and gives its number.
    pub(crate) fn open_request(&self, request: &OpenRequest) -> u64 {
        let mut state = self.server.state();
        let number = state.requests.len() as u64 + 1;
        let branch = format!("change-{number}");
        let start = state.history.resolve(request.from.as_deref().unwrap_or(&request.base)).unwrap();
        let head = state.history.open(request, &branch);
        let opened = MergeRequest {
            title: request.title.clone(),
            target: request.base.clone(),
            branch,
            head,
            start,
            fork: request.fork,
            state: "opened",
            merge_commit: None,
            squash_commit: None,
            landed: Vec::new(),
        };
        state.requests.insert(number, opened);
        number
    }

    /// The commit at a request's head.
    pub(crate) fn head(&self, number: u64) -> String {
        self.server.state().requests[&number].head.clone()
    }

    /// Where a branch is.
    pub(crate) fn tip(&self, branch: &str) -> String {
        self.server.state().history.branches[branch].clone()
    }

    /// Merges a request, and gives the push that it is.
    pub(crate) fn merge(&self, number: u64, how: Merge) -> Push {
        self.server.state().merge(number, how)
    }

    /// Closes a request without a merge.
    pub(crate) fn close(&self, number: u64) {
        self.server.state().requests.get_mut(&number).unwrap().state = "closed";
    }

    /// Pushes a commit to a branch, which is new if there was none, and gives the push.
    pub(crate) fn push(&self, branch: &str, message: &str, files: &[&str]) -> Push {
        let mut state = self.server.state();
        let before = state.history.branches.get(branch).cloned();
        let parent = before.clone().unwrap_or_else(|| state.history.branches["main"].clone());
        let files = files.iter().map(|path| FileChange::of(path)).collect();
        let after = state.history.commit(&[&parent], message, files);
        state.history.branches.insert(branch.into(), after.clone());
        Push { branch: branch.into(), before, after }
    }

    /// Sets a branch to another commit by force, and gives the push.
    pub(crate) fn force(&self, branch: &str, to: &str) -> Push {
        let before = self.server.state().history.branches.insert(branch.into(), to.into());
        Push { branch: branch.into(), before, after: to.into() }
    }

    /// The next commits get these names.
    pub(crate) fn name_next_commits(&self, names: &[&str]) {
        self.server.state().history.name_next(names);
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
        self.server.state().notes.retain(|note| note.id != id);
    }

    /// The notes on a request, oldest first; they count as looked at.
    pub(crate) fn comments(&self, number: u64) -> Vec<Note> {
        let mut state = self.server.state();
        let own = state.notes.iter_mut().filter(|note| note.number == number);
        own.map(|note| {
            note.unread = false;
            note.clone()
        })
        .collect()
    }

    /// The statuses of a commit; they count as looked at.
    pub(crate) fn statuses(&self, sha: &str) -> Vec<CommitStatus> {
        let mut state = self.server.state();
        let own = state.statuses.iter_mut().filter(|status| status.sha == sha);
        own.map(|status| {
            status.unread = false;
            status.clone()
        })
        .collect()
    }

    /// The access token's role may not set statuses.
    pub(crate) fn deny_statuses(&self) {
        self.server.state().denied_statuses = true;
    }

    /// As in the first moments after a merge: no commit is connected with its requests.
    pub(crate) fn forget_connections(&self) {
        self.server.state().unconnected = true;
    }

    /// A newer commit takes this one's place on its branch.
    pub(crate) fn replace_commit(&self, sha: &str) {
        self.server.state().replaced.insert(sha.into());
    }

    /// The next requests of this method whose path holds `part` go wrong, so many times.
    pub(crate) fn arm(&self, method: &'static str, part: &str, fault: Fault, times: usize) {
        self.server.arm(method, part, fault, times);
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.server.requests()
    }

    /// Fails over anything that was asked against the description, or written and not looked at.
    pub(crate) fn finish(mut self) {
        self.server.finish();
    }
}

impl Behaviour for Gitlab {
    fn contract(&self) -> &'static Contract {
        Contract::gitlab()
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
        let notes = self.notes.iter().filter(|it| it.unread).map(|it| format!("a note on !{}: {}", it.number, it.body));
        let statuses =
            self.statuses.iter().filter(|it| it.unread).map(|it| format!("a status `{}`: {}", it.name, it.description));
        let actions = self.quick_actions.iter().map(|line| format!("a quick action: {line}"));
        notes.chain(statuses).chain(actions).collect()
    }
}

impl Gitlab {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn add_note(&mut self, number: u64, author: u64, body: &str, system: bool) -> u64 {
        let id = self.next();
        self.notes.push(Note { id, author, body: body.into(), system, number, unread: false });
        id
    }

    fn merge(&mut self, number: u64, how: Merge) -> Push {
        let request = &self.requests[&number];
        let (target, head) = (request.target.clone(), request.head.clone());
        let (branch, title) = (&request.branch, &request.title);
        let subject = match how {
            Merge::Commit => {
                format!("Merge branch '{branch}' into '{target}'\n\n{title}\n\nSee merge request {PROJECT}!{number}")
            }
            _ => title.clone(),
        };
        let before = self.history.branches[&target].clone();
        let Merged { tip, copies, squash, merge } = self.history.merge(&target, &head, how, &subject);
        let request = self.requests.get_mut(&number).unwrap();
        request.state = "merged";
        // A fast-forward of a branch that is behind is a rebase of the branch, before it is merged.
        if let Some(top) = copies.last() {
            request.head.clone_from(top);
            request.start.clone_from(&before);
        }
        request.merge_commit = merge;
        request.squash_commit = squash;
        request.landed.push(tip.clone());
        Push { branch: target, before: Some(before), after: tip }
    }

    fn read(&self, path: &[&str], request: &Request) -> Reply {
        match path {
            ["merge_requests"] => {
                let all: Vec<Value> = self.requests.keys().map(|number| self.shown(*number, true)).collect();
                Self::list(request, &all)
            }
            ["merge_requests", number] => self.of(number, |number| Reply::new(200, self.shown(number, false))),
            ["merge_requests", number, "diffs"] => self.of(number, |number| {
                let mut files = History::files(&self.own_commits(number));
                files.truncate(self.most_files);
                Self::list(request, &files.iter().map(diff).collect::<Vec<_>>())
            }),
            ["merge_requests", number, "commits"] => self.of(number, |number| {
                let commits: Vec<Value> = self.own_commits(number).iter().rev().map(commit).collect();
                Self::list(request, &commits)
            }),
            ["merge_requests", number, "notes"] => self.of(number, |number| {
                let mut notes: Vec<&Note> = self.notes.iter().filter(|note| note.number == number).collect();
                if request.parameter("sort") != Some("asc") {
                    notes.reverse();
                }
                Self::list(request, &notes.into_iter().map(shown_note).collect::<Vec<_>>())
            }),
            ["repository", "commits"] => {
                let range = request.parameter("ref_name").and_then(|name| name.split_once(".."));
                let Some((from, to)) = range else { return Reply::refusal(400, "ref_name is not a range") };
                match (self.history.resolve(from), self.history.resolve(to)) {
                    (Some(from), Some(to)) => {
                        let commits = self.history.between(&from, &to);
                        Self::list(request, &commits.iter().rev().map(commit).collect::<Vec<_>>())
                    }
                    _ => Reply::refusal(404, "404 Commit Not Found"),
                }
            }
            ["repository", "commits", name] => match self.history.resolve(name) {
                Some(sha) => Reply::new(200, commit(&self.history.commits[&sha])),
                None => Reply::refusal(404, "404 Commit Not Found"),
            },
            ["repository", "commits", sha, "merge_requests"] => {
                let mut found = Vec::new();
                for (number, it) in self.requests.iter().filter(|_| !self.unconnected) {
                    let known = it.landed.iter().chain(&it.squash_commit).any(|landed| landed == sha)
                        || self.own_commits(*number).iter().any(|commit| commit.sha == *sha);
                    if known && request.parameter("state").is_none_or(|state| state == it.state) {
                        found.push(self.shown(*number, true));
                    }
                }
                Self::list(request, &found)
            }
            ["repository", "compare"] => self.compare(request),
            _ => Reply::refusal(404, "404 Not Found"),
        }
    }

    fn of(&self, number: &str, then: impl FnOnce(u64) -> Reply) -> Reply {
        match number.parse().ok().filter(|number| self.requests.contains_key(number)) {
            Some(number) => then(number),
            None => Reply::refusal(404, "404 Not found"),
        }
    }

    /// GitLab says in a header what the next page is.
    fn list(request: &Request, all: &[Value]) -> Reply {
        let (page, more) = request.page(all, 100);
        let next = if more { (request.page_number() + 1).to_string() } else { String::new() };
        Reply::new(200, json!(page)).header("x-next-page", next)
    }

    fn compare(&self, request: &Request) -> Reply {
        let side = |name: &str| request.parameter(name).and_then(|name| self.history.resolve(name));
        let (Some(from), Some(to)) = (side("from"), side("to")) else {
            return Reply::refusal(404, "404 Commit Not Found");
        };
        let commits = self.history.between(&from, &to);
        let mut changes = commits.clone();
        if request.parameter("straight") == Some("true") {
            changes.extend(self.history.between(&to, &from));
        }
        let mut files = History::files(&changes);
        files.truncate(self.most_files);
        let body = json!({
            "commit": commits.last().map(commit),
            "commits": commits.iter().map(commit).collect::<Vec<_>>(),
            "diffs": files.iter().map(diff).collect::<Vec<_>>(),
            "compare_timeout": false,
            "compare_same_ref": from == to,
            "web_url": "https://gitlab.example/compare",
        });
        Reply::new(200, body)
    }

    fn own_commits(&self, number: u64) -> Vec<Commit> {
        let request = &self.requests[&number];
        self.history.between(&request.start, &request.head)
    }

    fn shown(&self, number: u64, short: bool) -> Value {
        let request = &self.requests[&number];
        let mut shown = json!({
            "id": 10_000 + number,
            "iid": number,
            "project_id": 7,
            "title": request.title,
            "state": request.state,
            "sha": request.head,
            "source_branch": request.branch,
            "target_branch": request.target,
            "source_project_id": if request.fork { 8 } else { 7 },
            "target_project_id": 7,
            "merge_commit_sha": request.merge_commit,
            "squash_commit_sha": request.squash_commit,
            "web_url": format!("https://gitlab.example/{PROJECT}/-/merge_requests/{number}"),
        });
        if !short {
            let count = History::files(&self.own_commits(number)).len();
            let counted = if count > self.most_files { format!("{}+", self.most_files) } else { count.to_string() };
            shown["changes_count"] = json!(counted);
        }
        shown
    }

    fn write_note(&mut self, number: &str, request: &Request) -> Reply {
        let Some(number) = number.parse().ok().filter(|number| self.requests.contains_key(number)) else {
            return Reply::refusal(404, "404 Not found");
        };
        let body = text(request, "body");
        if body.chars().count() > 1_000_000 {
            return Reply::refusal(400, "Note is too long (maximum is 1000000 characters)");
        }
        self.execute(&body);
        let id = self.next();
        self.notes.push(Note { id, author: BOT, body, system: false, number, unread: true });
        Reply::new(201, shown_note(self.notes.last().unwrap()))
    }

    fn edit_note(&mut self, id: &str, request: &Request) -> Reply {
        let body = text(request, "body");
        self.execute(&body);
        match self.notes.iter_mut().find(|note| note.id.to_string() == id) {
            Some(note) if note.author != BOT => Reply::refusal(403, "403 Forbidden"),
            Some(note) => {
                note.body = body;
                note.unread = true;
                Reply::new(200, shown_note(note))
            }
            None => Reply::refusal(404, "404 Note Not Found"),
        }
    }

    /// What GitLab would do because of a text: any line that begins with a slash and a word is a command to it.
    fn execute(&mut self, body: &str) {
        let body = body.replace('\r', "");
        let commands = body.lines().filter(|line| {
            line.strip_prefix('/').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
        });
        self.quick_actions.extend(commands.map(str::to_owned));
    }

    fn set_status(&mut self, sha: &str, request: &Request) -> Reply {
        if self.denied_statuses {
            return Reply::refusal(403, "403 Forbidden");
        }
        if self.replaced.contains(sha) || !self.history.commits.contains_key(sha) {
            return Reply::refusal(404, "404 References for commit Not Found");
        }
        let (name, state, description) = (text(request, "name"), text(request, "state"), text(request, "description"));
        if description.chars().count() > 255 {
            return Reply::refusal(400, "description is too long (maximum is 255 characters)");
        }
        if self.statuses.iter().any(|it| it.sha == sha && it.name == name && it.state == state) {
            let message =
                format!("Cannot transition status via :{state} from :{state} (Reason(s): Status cannot transition)");
            return Reply::refusal(400, &message);
        }
        let pipeline = request.body.as_ref().unwrap()["pipeline_id"].as_u64();
        let body = json!({ "id": 1, "sha": sha, "name": name, "status": state, "description": description });
        self.statuses.retain(|it| it.sha != sha || it.name != name);
        self.statuses.push(CommitStatus { name, state, description, pipeline, sha: sha.into(), unread: true });
        Reply::new(201, body)
    }
}

fn text(request: &Request, name: &str) -> String {
    request.body.as_ref().unwrap()[name].as_str().unwrap_or_default().to_owned()
}

fn diff(file: &FileChange) -> Value {
    json!({
        "old_path": file.previous.as_ref().unwrap_or(&file.path),
        "new_path": file.path,
        "a_mode": "100644",
        "b_mode": "100644",
        "diff": "",
        "new_file": false,
        "renamed_file": file.previous.is_some(),
        "deleted_file": false,
    })
}

fn commit(commit: &Commit) -> Value {
    json!({
        "id": commit.sha,
        "short_id": commit.sha[..8],
        "parent_ids": commit.parents,
        "title": commit.message.lines().next(),
        "message": commit.message,
        "author_name": "alice",
    })
}

fn shown_note(note: &Note) -> Value {
    json!({
        "id": note.id,
        "body": note.body,
        "author": { "id": note.author, "username": format!("user{}", note.author) },
        "system": note.system,
        "noteable_iid": note.number,
    })
}
