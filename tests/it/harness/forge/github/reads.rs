//! What the stand-in for GitHub lets be read, page by page.

use serde_json::{Value, json};

use super::super::contract::{Contract, over};
use super::super::history::History;
use super::super::server::{Reply, Request};
use super::{Github, documents};

impl Github {
    pub(super) fn read(&self, path: &[&str], request: &Request) -> Reply {
        match path {
            ["pulls"] => {
                let all: Vec<u64> = self.repository.requests.keys().copied().collect();
                list(request, &all, |number| self.pull(*number, true))
            }
            ["pulls", number] => self.of(number, |number| Reply::new(200, self.pull(number, false))),
            ["pulls", number, "files"] => self.of(number, |number| {
                let mut files = self.repository.own_files(number);
                files.truncate(3_000);
                list(request, &files, documents::file)
            }),
            ["pulls", number, "commits"] => self.of(number, |number| {
                list(request, &self.repository.own_commits(number), |it| documents::commit(it, &[]))
            }),
            ["commits", sha, "pulls"] if self.repository.history.commits.contains_key(*sha) => {
                list(request, &self.repository.with_commit(sha), |number| self.pull(*number, true))
            }
            ["commits", sha, "pulls"] => no_commit(sha),
            ["commits", sha, "check-runs"] => {
                let runs: Vec<Value> = self
                    .checks
                    .all()
                    .filter(|check| check.sha == *sha)
                    .filter(|check| request.parameter("check_name").is_none_or(|name| name == check.name))
                    .map(documents::run)
                    .collect();
                Reply::new(200, json!({ "total_count": runs.len(), "check_runs": runs }))
            }
            ["commits", name] => match self.repository.history.resolve(name) {
                Some(sha) => {
                    let commit = &self.repository.history.commits[&sha];
                    let (files, more) = request.page(&commit.files, 300);
                    paged(request, more, documents::commit(commit, &files))
                }
                None => no_commit(name),
            },
            ["compare", range] => self.compare(range, request),
            ["issues", number, "comments"] => self.of(number, |number| {
                let own: Vec<_> = self.comments.all().filter(|comment| comment.number == number).collect();
                list(request, &own, |comment| documents::remark(comment))
            }),
            ["check-runs", id] => match self.checks.find(|check| check.id.to_string() == *id) {
                Some(check) => Reply::new(200, documents::run(check)),
                None => Reply::refusal(404, "Not Found"),
            },
            _ => Reply::refusal(404, "Not Found"),
        }
    }

    /// An answer about a request, if there is such a one.
    fn of(&self, number: &str, then: impl FnOnce(u64) -> Reply) -> Reply {
        self.repository.numbered(number).map_or_else(|| Reply::refusal(404, "Not Found"), then)
    }

    fn compare(&self, range: &str, request: &Request) -> Reply {
        let history = &self.repository.history;
        let Some((from, to)) = range.split_once("...") else { return Reply::refusal(404, "Not Found") };
        let (Some(from), Some(to)) = (history.resolve(from), history.resolve(to)) else {
            return Reply::refusal(404, "Not Found");
        };
        let (ahead, behind) = (history.between(&from, &to), history.between(&to, &from));
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
            Contract::github().example("commit-comparison"),
            json!({
                "status": status,
                "ahead_by": ahead.len(),
                "behind_by": behind.len(),
                "total_commits": ahead.len(),
                "commits": commits.iter().map(|commit| documents::commit(commit, &[])).collect::<Vec<_>>(),
                "files": files.iter().map(documents::file).collect::<Vec<_>>(),
            }),
        );
        paged(request, more, body)
    }
}

pub(super) fn no_commit(name: &str) -> Reply {
    Reply::refusal(422, &format!("No commit found for SHA: {name}"))
}

fn list<T: Clone>(request: &Request, all: &[T], show: impl Fn(&T) -> Value) -> Reply {
    let (page, more) = request.page(all, 100);
    paged(request, more, page.iter().map(show).collect())
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
