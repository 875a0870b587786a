//! What the stand-in for GitHub lets be written: comments, check runs, commit statuses.

use serde_json::{Value, json};

use super::super::contract::{Contract, over};
use super::super::server::{Reply, Request};
use super::reads::no_commit;
use super::{CheckRun, Comment, CommitStatus, Github, documents};

const LOCKED: &str = "Unable to create comment because issue is locked.";

impl Github {
    pub(super) fn comment(&mut self, number: &str, login: &str, request: &Request) -> Reply {
        let Some(number) = self.repository.numbered(number) else { return Reply::refusal(404, "Not Found") };
        if self.locked.contains(&number) {
            return Reply::refusal(403, LOCKED);
        }
        let body = request.text("body");
        if body.len() > 262_144 {
            return Reply::refusal(422, "Body is too long (maximum is 65536 characters)");
        }
        let comment = Comment { id: self.repository.next(), author: login.into(), body, number };
        let shown = documents::remark(&comment);
        self.comments.write(comment);
        Reply::new(201, shown)
    }

    pub(super) fn edit(&mut self, id: &str, request: &Request) -> Reply {
        let meant = |comment: &Comment| comment.id.to_string() == id;
        match self.comments.find(meant) {
            Some(comment) if self.locked.contains(&comment.number) => return Reply::refusal(403, LOCKED),
            _ => {}
        }
        let Some(comment) = self.comments.change(meant) else { return Reply::refusal(404, "Not Found") };
        comment.body = request.text("body");
        Reply::new(200, documents::remark(comment))
    }

    pub(super) fn check(&mut self, request: &Request) -> Reply {
        let (name, sha) = (request.text("name"), request.text("head_sha"));
        if !self.repository.history.commits.contains_key(&sha) {
            return no_commit(&sha);
        }
        if let Some(refusal) = incomplete(request) {
            return refusal;
        }
        let mut check = CheckRun {
            id: self.repository.next(),
            name,
            sha,
            conclusion: None,
            title: String::new(),
            annotations: Vec::new(),
            told: json!({}),
        };
        tell(&mut check, request);
        let shown = documents::run(&check);
        self.checks.write(check);
        Reply::new(201, shown)
    }

    pub(super) fn recheck(&mut self, id: &str, request: &Request) -> Reply {
        if let Some(refusal) = incomplete(request) {
            return refusal;
        }
        match self.checks.change(|check| check.id.to_string() == id) {
            Some(check) => {
                tell(check, request);
                Reply::new(200, documents::run(check))
            }
            None => Reply::refusal(404, "Not Found"),
        }
    }

    pub(super) fn status(&mut self, sha: &str, request: &Request) -> Reply {
        let (context, state) = (request.text("context"), request.text("state"));
        let description = request.text("description");
        if description.chars().count() > 140 {
            return Reply::refusal(422, "Validation Failed: description is too long (maximum is 140 characters)");
        }
        let body = over(
            Contract::github().example("status"),
            json!({ "state": state, "context": context, "description": description }),
        );
        self.statuses.remove(|status| status.sha == sha && status.context == context);
        self.statuses.write(CommitStatus { context, state, description, sha: sha.into() });
        Reply::new(201, body)
    }
}

/// GitHub takes no end without saying how it ended.
fn incomplete(request: &Request) -> Option<Reply> {
    let told = request.body.as_ref().unwrap();
    (told["status"] == "completed" && told["conclusion"].is_null())
        .then(|| Reply::refusal(422, "Invalid request. conclusion is required when status is completed."))
}

/// Lays what is said of a check run over what was said before.
fn tell(check: &mut CheckRun, request: &Request) {
    let told: Value = request.body.clone().unwrap();
    if let Some(conclusion) = told["conclusion"].as_str() {
        check.conclusion = Some(conclusion.to_owned());
    }
    if let Some(title) = told["output"]["title"].as_str() {
        title.clone_into(&mut check.title);
    }
    check.annotations.extend(told["output"]["annotations"].as_array().cloned().unwrap_or_default());
    check.told = over(check.told.take(), told);
}
