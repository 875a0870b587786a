//! A stand-in for GitHub: one repository with pull requests, comments, check runs and commit statuses.

use std::collections::{BTreeMap, BTreeSet};

use kl_runner::forge::{GithubSettings, Push};
use serde_json::{Value, json};

use super::contract::Contract;
use super::history::{Commit, FileChange, History, Merge, Merged, OpenRequest};
use super::server::{Behaviour, Fault, Reply, Request, Server, decoded};

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
    unread: bool,
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
    unread: bool,
}

/// A commit status as it stands.
#[derive(Debug, Clone)]
pub(crate) struct CommitStatus {
    pub(crate) context: String,
    pub(crate) state: String,
    pub(crate) description: String,
    sha: String,
    unread: bool,
}

#[derive(Debug)]
struct Pull {
    title: String,
    base: String,
    branch: String,
    head: String,
    /// Where the request's branch left its base.
    start: String,
    fork: bool,
    open: bool,
    merged_at: Option<String>,
    merge_commit: Option<String>,
    landed: Vec<String>,
}

struct Github {
    base: String,
    history: History,
    pulls: BTreeMap<u64, Pull>,
    locked: BTreeSet<u64>,
    denied: BTreeSet<Permission>,
    comments: Vec<Comment>,
    checks: Vec<CheckRun>,
    statuses: Vec<CommitStatus>,
    unconnected: bool,
    merges: u32,
    last: u64,
}

/// GitHub on loopback.
pub(crate) struct GithubStandIn {
    server: Server<Github>,
}

impl GithubStandIn {
    /// As github.com: the API is at the root of its host.
    pub(crate) fn start() -> Self {
        Self::start_at("")
    }

    /// As a server of one's own, with the API below a path: `/api/v3`.
    pub(crate) fn start_at(base: &str) -> Self {
        let server = Server::start(Github {
            base: base.into(),
            history: History::new(),
            pulls: BTreeMap::new(),
            locked: BTreeSet::new(),
            denied: BTreeSet::new(),
            comments: Vec::new(),
            checks: Vec::new(),
            statuses: Vec::new(),
            unconnected: false,
            merges: 0,
            last: 0,
        });
        Self { server }
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

    /// Opens a pull request, and gives its number.
    pub(crate) fn open_request(&self, request: &OpenRequest) -> u64 {
        let mut state = self.server.state();
        let number = state.pulls.len() as u64 + 1;
        let branch = format!("change-{number}");
        let start = state.history.resolve(request.from.as_deref().unwrap_or(&request.base)).unwrap();
        let head = state.history.open(request, &branch);
        let pull = Pull {
            title: request.title.clone(),
            base: request.base.clone(),
            branch,
            head,
            start,
            fork: request.fork,
            open: true,
            merged_at: None,
            merge_commit: None,
            landed: Vec::new(),
        };
        state.pulls.insert(number, pull);
        number
    }

    /// The commit at a request's head.
    pub(crate) fn head(&self, number: u64) -> String {
        self.server.state().pulls[&number].head.clone()
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
        self.server.state().pulls.get_mut(&number).unwrap().open = false;
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

    /// Merges a branch that has no request, by hand, and gives the push.
    pub(crate) fn merge_by_hand(&self, branch: &str, head: &str) -> Push {
        let mut state = self.server.state();
        let before = state.history.branches[branch].clone();
        let after = state.history.merge(branch, head, Merge::Commit, "Merge by hand").tip;
        Push { branch: branch.into(), before: Some(before), after }
    }

    /// The next commits get these names.
    pub(crate) fn name_next_commits(&self, names: &[&str]) {
        self.server.state().history.name_next(names);
    }

    /// Somebody comments; gives the comment's id.
    pub(crate) fn comment_by(&self, number: u64, author: &str, body: &str) -> u64 {
        let mut state = self.server.state();
        let id = state.next();
        state.comments.push(Comment { id, author: author.into(), body: body.into(), number, unread: false });
        id
    }

    /// Somebody deletes a comment.
    pub(crate) fn delete_comment(&self, id: u64) {
        self.server.state().comments.retain(|comment| comment.id != id);
    }

    /// The comments on a request, oldest first; they count as looked at.
    pub(crate) fn comments(&self, number: u64) -> Vec<Comment> {
        let mut state = self.server.state();
        let own = state.comments.iter_mut().filter(|comment| comment.number == number);
        own.map(|comment| {
            comment.unread = false;
            comment.clone()
        })
        .collect()
    }

    /// The check runs on a commit; they count as looked at.
    pub(crate) fn checks(&self, sha: &str) -> Vec<CheckRun> {
        let mut state = self.server.state();
        let own = state.checks.iter_mut().filter(|check| check.sha == sha);
        own.map(|check| {
            check.unread = false;
            check.clone()
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

    /// Counts everything that was posted as looked at: for tests that are about something else.
    pub(crate) fn look_at_everything(&self) {
        let mut state = self.server.state();
        let state = &mut *state;
        state.comments.iter_mut().for_each(|one| one.unread = false);
        state.checks.iter_mut().for_each(|one| one.unread = false);
        state.statuses.iter_mut().for_each(|one| one.unread = false);
    }

    /// As in the first moments after a merge: no commit is connected with its requests.
    pub(crate) fn forget_connections(&self) {
        self.server.state().unconnected = true;
    }

    /// Locks the conversation of a request.
    pub(crate) fn lock(&self, number: u64) {
        self.server.state().locked.insert(number);
    }

    /// Takes a permission from the token.
    pub(crate) fn deny(&self, permission: Permission) {
        self.server.state().denied.insert(permission);
    }

    /// The next requests of this method whose path holds `part` go wrong, so many times.
    pub(crate) fn arm(&self, method: &'static str, part: &str, fault: Fault, times: usize) {
        self.server.arm(method, part, fault, times);
    }

    /// Nothing goes wrong any more.
    pub(crate) fn disarm(&self) {
        self.server.disarm();
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

impl Behaviour for Github {
    fn contract(&self) -> &'static Contract {
        Contract::github()
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
            ["user"] if login == "alice" => return Reply::new(200, self.user()),
            ["user"] => return Reply::refusal(403, DENIED),
            ["repos", owner, name, rest @ ..] if format!("{owner}/{name}") == REPOSITORY => rest,
            _ => return Reply::refusal(404, "Not Found"),
        };
        if let Some(reply) = self.denial(&request.method, rest, login) {
            return reply;
        }
        let scopes = (login == "alice").then(|| ("x-oauth-scopes", "gist, repo".to_owned()));
        let mut reply = match (request.method.as_str(), rest) {
            ("GET", []) => Reply::new(200, self.repository()),
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
        let comments =
            self.comments.iter().filter(|it| it.unread).map(|it| format!("a comment on #{}: {}", it.number, it.body));
        let checks = self.checks.iter().filter(|it| it.unread).map(|it| format!("a check `{}`: {}", it.name, it.told));
        let statuses = self
            .statuses
            .iter()
            .filter(|it| it.unread)
            .map(|it| format!("a status `{}`: {}", it.context, it.description));
        comments.chain(checks).chain(statuses).collect()
    }
}

impl Github {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

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

    fn merge(&mut self, number: u64, how: Merge) -> Push {
        let pull = &self.pulls[&number];
        let (base, head) = (pull.base.clone(), pull.head.clone());
        let subject = match how {
            Merge::Commit => format!("Merge pull request #{number} from alice/{}\n\n{}", pull.branch, pull.title),
            _ => format!("{} (#{number})", pull.title),
        };
        let before = self.history.branches[&base].clone();
        let Merged { tip, copies, .. } = self.history.merge(&base, &head, how, &subject);
        self.merges += 1;
        let merged_at = format!("2026-01-01T00:{:02}:{:02}Z", self.merges / 60, self.merges % 60);
        let pull = self.pulls.get_mut(&number).unwrap();
        pull.open = false;
        pull.merged_at = Some(merged_at);
        pull.merge_commit = Some(tip.clone());
        pull.landed = copies;
        pull.landed.push(tip.clone());
        Push { branch: base, before: Some(before), after: tip }
    }

    /// Reads of the repository.
    fn read(&self, path: &[&str], request: &Request) -> Reply {
        match path {
            ["pulls"] => {
                let all: Vec<u64> = self.pulls.keys().copied().collect();
                Self::list(request, &all, |number| self.pull(*number, true))
            }
            ["pulls", number] => match self.numbered(number) {
                Some(number) => Reply::new(200, self.pull(number, false)),
                None => Reply::refusal(404, "Not Found"),
            },
            ["pulls", number, "files"] => match self.numbered(number) {
                Some(number) => {
                    let mut files = self.own_files(number);
                    files.truncate(3_000);
                    Self::list(request, &files, |file| self.file(file))
                }
                None => Reply::refusal(404, "Not Found"),
            },
            ["pulls", number, "commits"] => match self.numbered(number) {
                Some(number) => Self::list(request, &self.own_commits(number), |it| self.commit(it, &[])),
                None => Reply::refusal(404, "Not Found"),
            },
            ["commits", sha, "pulls"] => {
                let mut found: Vec<u64> = Vec::new();
                for (number, pull) in self.pulls.iter().filter(|_| !self.unconnected) {
                    let own = || self.own_commits(*number).iter().any(|commit| commit.sha == *sha);
                    if pull.landed.iter().any(|landed| landed == sha) || own() {
                        found.push(*number);
                    }
                }
                if self.history.commits.contains_key(*sha) {
                    Self::list(request, &found, |number| self.pull(*number, true))
                } else {
                    Reply::refusal(422, &format!("No commit found for SHA: {sha}"))
                }
            }
            ["commits", sha, "check-runs"] => {
                let named = |check: &&CheckRun| request.parameter("check_name").is_none_or(|name| name == check.name);
                let runs: Vec<Value> =
                    self.checks.iter().filter(|check| check.sha == *sha).filter(named).map(|it| self.run(it)).collect();
                Reply::new(200, json!({ "total_count": runs.len(), "check_runs": runs }))
            }
            ["commits", name] => match self.history.resolve(name) {
                Some(sha) => {
                    let commit = self.history.commits[&sha].clone();
                    let (files, more) = request.page(&commit.files, 300);
                    Self::paged(request, more, self.commit(&commit, &files))
                }
                None => Reply::refusal(422, &format!("No commit found for SHA: {name}")),
            },
            ["compare", range] => self.compare(range, request),
            ["issues", number, "comments"] => match self.numbered(number) {
                Some(number) => {
                    let own: Vec<&Comment> = self.comments.iter().filter(|comment| comment.number == number).collect();
                    Self::list(request, &own, |comment| self.remark(comment))
                }
                None => Reply::refusal(404, "Not Found"),
            },
            ["check-runs", id] => match self.checks.iter().find(|check| check.id.to_string() == *id) {
                Some(check) => Reply::new(200, self.run(check)),
                None => Reply::refusal(404, "Not Found"),
            },
            _ => Reply::refusal(404, "Not Found"),
        }
    }

    fn numbered(&self, text: &str) -> Option<u64> {
        text.parse().ok().filter(|number| self.pulls.contains_key(number))
    }

    fn list<T: Clone>(request: &Request, all: &[T], show: impl Fn(&T) -> Value) -> Reply {
        let (page, more) = request.page(all, 100);
        Self::paged(request, more, page.iter().map(show).collect())
    }

    /// GitHub says in a header whether there is more.
    fn paged(request: &Request, more: bool, body: Value) -> Reply {
        let page = request.page_number();
        let mut links = Vec::new();
        if page > 1 {
            links.push(format!("<https://elsewhere.example{}?page={}>; rel=\"prev\"", request.path, page - 1));
        }
        if more {
            // An address on another host: a client that follows it gives its token away.
            links.push(format!("<https://elsewhere.example{}?page={}>; rel=\"next\"", request.path, page + 1));
        }
        let reply = Reply::new(200, body);
        if links.is_empty() { reply } else { reply.header("link", links.join(", ")) }
    }

    fn compare(&self, range: &str, request: &Request) -> Reply {
        let Some((from, to)) = range.split_once("...") else { return Reply::refusal(404, "Not Found") };
        let (Some(from), Some(to)) = (self.history.resolve(from), self.history.resolve(to)) else {
            return Reply::refusal(404, "Not Found");
        };
        let (ahead, behind) = (self.history.between(&from, &to), self.history.between(&to, &from));
        let status = match (ahead.is_empty(), behind.is_empty()) {
            (true, true) => "identical",
            (false, true) => "ahead",
            (true, false) => "behind",
            (false, false) => "diverged",
        };
        let (commits, more) = request.page(&ahead, 100);
        let mut files = History::files(&ahead);
        files.truncate(if request.page_number() == 1 { 300 } else { 0 });
        let body = over(
            self.contract().example("commit-comparison"),
            json!({
                "status": status,
                "ahead_by": ahead.len(),
                "behind_by": behind.len(),
                "total_commits": ahead.len(),
                "commits": commits.iter().map(|commit| self.commit(commit, &[])).collect::<Vec<_>>(),
                "files": files.iter().map(|file| self.file(file)).collect::<Vec<_>>(),
            }),
        );
        Self::paged(request, more, body)
    }

    /// The commits of a request's own branch.
    fn own_commits(&self, number: u64) -> Vec<Commit> {
        let pull = &self.pulls[&number];
        self.history.between(&pull.start, &pull.head)
    }

    fn own_files(&self, number: u64) -> Vec<FileChange> {
        History::files(&self.own_commits(number))
    }

    fn pull(&self, number: u64, short: bool) -> Value {
        let pull = &self.pulls[&number];
        let example = if short {
            self.contract().example("pull-request-simple-items")[0].clone()
        } else {
            self.contract().example("pull-request")
        };
        let here = over(example["base"]["repo"].clone(), json!({ "id": 7, "full_name": REPOSITORY }));
        let theirs = over(here.clone(), json!({ "id": 8, "full_name": "mallory/infra", "fork": true }));
        let mut own = json!({
            "number": number,
            "title": pull.title,
            "requested_teams": [],
            "state": if pull.open { "open" } else { "closed" },
            "merged_at": pull.merged_at,
            // Before the merge, it is that of a trial merge.
            "merge_commit_sha": pull.merge_commit.clone().unwrap_or_else(|| "0123456789".repeat(4)),
            "head": { "ref": pull.branch, "sha": pull.head, "repo": if pull.fork { theirs } else { here.clone() } },
            "base": { "ref": pull.base, "sha": pull.start, "repo": here },
        });
        if !short {
            own["merged"] = json!(pull.merged_at.is_some());
            own["changed_files"] = json!(self.own_files(number).len());
        }
        over(example, own)
    }

    /// The examples of the description do not keep to all of it: `language` and `requested_teams` are set right.
    fn repository(&self) -> Value {
        over(
            self.contract().example("full-repository-default-response"),
            json!({
                "id": 7,
                "full_name": REPOSITORY,
                "default_branch": "main",
                "private": true,
                "language": "HCL",
                "source": { "language": "HCL" },
            }),
        )
    }

    fn file(&self, file: &FileChange) -> Value {
        let mut own = json!({ "filename": file.path });
        if let Some(previous) = &file.previous {
            own["previous_filename"] = json!(previous);
            own["status"] = json!("renamed");
        }
        over(self.contract().example("diff-entry-items")[0].clone(), own)
    }

    fn commit(&self, commit: &Commit, files: &[FileChange]) -> Value {
        let parent = |sha: &String| json!({ "sha": sha, "url": "https://api.example/commit", "html_url": "https://example/commit" });
        over(
            self.contract().example("commit"),
            json!({
                "sha": commit.sha,
                "commit": { "message": commit.message },
                "parents": commit.parents.iter().map(parent).collect::<Vec<_>>(),
                "files": files.iter().map(|file| self.file(file)).collect::<Vec<_>>(),
            }),
        )
    }

    fn user(&self) -> Value {
        over(
            self.contract().example("private-user-response-with-public-and-private-profile-information"),
            json!({ "login": "alice" }),
        )
    }

    fn remark(&self, comment: &Comment) -> Value {
        over(
            self.contract().example("issue-comment"),
            json!({
                "id": comment.id,
                "body": comment.body,
                "html_url": format!("https://github.example/{REPOSITORY}/pull/{}#issuecomment-{}", comment.number, comment.id),
                "user": { "login": comment.author },
            }),
        )
    }

    fn comment(&mut self, number: &str, login: &str, request: &Request) -> Reply {
        let Some(number) = self.numbered(number) else { return Reply::refusal(404, "Not Found") };
        if self.locked.contains(&number) {
            return Reply::refusal(403, "Unable to create comment because issue is locked.");
        }
        let body = request.body.as_ref().unwrap()["body"].as_str().unwrap().to_owned();
        if body.len() > 262_144 {
            return Reply::refusal(422, "Body is too long (maximum is 65536 characters)");
        }
        let comment = Comment { id: self.next(), author: login.into(), body, number, unread: true };
        self.comments.push(comment.clone());
        Reply::new(201, self.remark(&comment))
    }

    fn edit(&mut self, id: &str, request: &Request) -> Reply {
        let locked = self.locked.clone();
        let Some(comment) = self.comments.iter_mut().find(|comment| comment.id.to_string() == id) else {
            return Reply::refusal(404, "Not Found");
        };
        if locked.contains(&comment.number) {
            return Reply::refusal(403, "Unable to create comment because issue is locked.");
        }
        request.body.as_ref().unwrap()["body"].as_str().unwrap().clone_into(&mut comment.body);
        comment.unread = true;
        let comment = comment.clone();
        Reply::new(200, self.remark(&comment))
    }

    fn check(&mut self, request: &Request) -> Reply {
        let told = request.body.clone().unwrap();
        let check = CheckRun {
            id: self.next(),
            name: told["name"].as_str().unwrap().into(),
            sha: told["head_sha"].as_str().unwrap().into(),
            conclusion: None,
            title: String::new(),
            annotations: Vec::new(),
            told: json!({}),
            unread: true,
        };
        if !self.history.commits.contains_key(&check.sha) {
            return Reply::refusal(422, &format!("No commit found for SHA: {}", check.sha));
        }
        self.checks.push(check);
        let index = self.checks.len() - 1;
        match self.tell(index, told) {
            Ok(run) => Reply::new(201, run),
            Err(reply) => {
                self.checks.pop();
                reply
            }
        }
    }

    fn recheck(&mut self, id: &str, request: &Request) -> Reply {
        match self.checks.iter().position(|check| check.id.to_string() == id) {
            Some(index) => {
                self.tell(index, request.body.clone().unwrap()).map_or_else(|it| it, |run| Reply::new(200, run))
            }
            None => Reply::refusal(404, "Not Found"),
        }
    }

    fn tell(&mut self, index: usize, told: Value) -> Result<Value, Reply> {
        let conclusion = told["conclusion"].as_str().map(str::to_owned);
        if told["status"] == "completed" && conclusion.is_none() {
            return Err(Reply::refusal(422, "Invalid request. conclusion is required when status is completed."));
        }
        let check = &mut self.checks[index];
        check.conclusion = conclusion.or(check.conclusion.take());
        if let Some(title) = told["output"]["title"].as_str() {
            title.clone_into(&mut check.title);
        }
        check.annotations.extend(told["output"]["annotations"].as_array().cloned().unwrap_or_default());
        check.told = over(check.told.take(), told);
        check.unread = true;
        let check = self.checks[index].clone();
        Ok(self.run(&check))
    }

    fn run(&self, check: &CheckRun) -> Value {
        over(
            self.contract().example("check-run-example-of-completed-conclusion"),
            json!({
                "id": check.id,
                "name": check.name,
                "head_sha": check.sha,
                "status": if check.conclusion.is_some() { "completed" } else { "in_progress" },
                "conclusion": check.conclusion,
                "output": { "title": check.title, "annotations_count": check.annotations.len() },
            }),
        )
    }

    fn status(&mut self, sha: &str, request: &Request) -> Reply {
        let told = request.body.clone().unwrap();
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        let (context, state, description) = (text("context"), text("state"), text("description"));
        if description.chars().count() > 140 {
            return Reply::refusal(422, "Validation Failed: description is too long (maximum is 140 characters)");
        }
        let body = over(
            self.contract().example("status"),
            json!({ "state": state, "context": context, "description": description }),
        );
        self.statuses.retain(|status| status.sha != sha || status.context != context);
        self.statuses.push(CommitStatus { context, state, description, sha: sha.into(), unread: true });
        Reply::new(201, body)
    }
}

/// `top` laid over `base`, member by member; lists are replaced.
pub(super) fn over(base: Value, top: Value) -> Value {
    match (base, top) {
        (Value::Object(mut base), Value::Object(top)) => {
            for (name, value) in top {
                let below = base.remove(&name).unwrap_or(Value::Null);
                base.insert(name, over(below, value));
            }
            Value::Object(base)
        }
        (_, top) => top,
    }
}
