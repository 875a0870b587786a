//! What the stand-in for GitLab lets be read, page by page.

use serde_json::{Value, json};

use super::super::history::History;
use super::super::server::{Reply, Request};
use super::Gitlab;
use super::documents::{commit, diff, note};

impl Gitlab {
    pub(super) fn read(&self, path: &[&str], request: &Request) -> Reply {
        let history = &self.repository.history;
        match path {
            ["merge_requests"] => {
                let all: Vec<Value> =
                    self.repository.requests.keys().map(|number| self.merge_request(*number, true)).collect();
                list(request, &all)
            }
            ["merge_requests", number] => self.of(number, |number| Reply::new(200, self.merge_request(number, false))),
            ["merge_requests", number, "diffs"] => self.of(number, |number| {
                let files = self.repository.own_files(number);
                list(request, &files.iter().take(self.most_files).map(diff).collect::<Vec<_>>())
            }),
            ["merge_requests", number, "commits"] => self.of(number, |number| {
                let commits: Vec<Value> = self.repository.own_commits(number).iter().rev().map(commit).collect();
                list(request, &commits)
            }),
            ["merge_requests", number, "notes"] => self.of(number, |number| {
                let own = self.notes.all().filter(|note| note.number == number).map(note);
                let ascending = request.parameter("sort") == Some("asc");
                list(request, &if ascending { own.collect::<Vec<_>>() } else { own.rev().collect() })
            }),
            ["repository", "commits"] => {
                let range = request.parameter("ref_name").and_then(|name| name.split_once(".."));
                let Some((from, to)) = range else { return Reply::refusal(400, "ref_name is not a range") };
                match (history.resolve(from), history.resolve(to)) {
                    (Some(from), Some(to)) => {
                        list(request, &history.between(&from, &to).iter().rev().map(commit).collect::<Vec<_>>())
                    }
                    _ => Reply::refusal(404, "404 Commit Not Found"),
                }
            }
            ["repository", "commits", name] => match history.resolve(name) {
                Some(sha) => Reply::new(200, commit(&history.commits[&sha])),
                None => Reply::refusal(404, "404 Commit Not Found"),
            },
            ["repository", "commits", sha, "merge_requests"] => {
                let found = self.repository.with_commit(sha).into_iter().map(|number| self.merge_request(number, true));
                let state = request.parameter("state");
                list(request, &found.filter(|it| state.is_none_or(|state| it["state"] == state)).collect::<Vec<_>>())
            }
            ["repository", "compare"] => self.compare(request),
            _ => Reply::refusal(404, "404 Not Found"),
        }
    }

    /// An answer about a request, if there is such a one.
    fn of(&self, number: &str, then: impl FnOnce(u64) -> Reply) -> Reply {
        self.repository.numbered(number).map_or_else(|| Reply::refusal(404, "404 Not found"), then)
    }

    fn compare(&self, request: &Request) -> Reply {
        let history = &self.repository.history;
        let side = |name: &str| request.parameter(name).and_then(|name| history.resolve(name));
        let (Some(from), Some(to)) = (side("from"), side("to")) else {
            return Reply::refusal(404, "404 Commit Not Found");
        };
        let commits = history.between(&from, &to);
        let mut changes = commits.clone();
        if request.parameter("straight") == Some("true") {
            changes.extend(history.between(&to, &from));
        }
        let body = json!({
            "commit": commits.last().map(commit),
            "commits": commits.iter().map(commit).collect::<Vec<_>>(),
            "diffs": History::files(&changes).iter().take(self.most_files).map(diff).collect::<Vec<_>>(),
            "compare_timeout": false,
            "compare_same_ref": from == to,
            "web_url": "https://gitlab.example/compare",
        });
        Reply::new(200, body)
    }
}

/// GitLab says in a header what the next page is.
fn list(request: &Request, all: &[Value]) -> Reply {
    let (page, more) = request.page(all, 100);
    let next = if more { (request.page_number() + 1).to_string() } else { String::new() };
    Reply::new(200, json!(page)).header("x-next-page", next)
}
