//! What the stand-in for GitLab lets be written: notes and commit statuses; and what it would have done because of a text.

use serde_json::json;

use super::super::server::{Reply, Request};
use super::{BOT, CommitStatus, Gitlab, Note, documents};

impl Gitlab {
    pub(super) fn add_note(&mut self, number: u64, author: u64, body: &str, system: bool) -> u64 {
        let id = self.repository.next();
        self.notes.place(Note { id, author, body: body.into(), system, number });
        id
    }

    pub(super) fn write_note(&mut self, number: &str, request: &Request) -> Reply {
        let Some(number) = self.repository.numbered(number) else { return Reply::refusal(404, "404 Not found") };
        let body = request.text("body");
        if body.chars().count() > 1_000_000 {
            return Reply::refusal(400, "Note is too long (maximum is 1000000 characters)");
        }
        self.execute(&body);
        let note = Note { id: self.repository.next(), author: BOT, body, system: false, number };
        let shown = documents::note(&note);
        self.notes.write(note);
        Reply::new(201, shown)
    }

    pub(super) fn edit_note(&mut self, id: &str, request: &Request) -> Reply {
        let body = request.text("body");
        self.execute(&body);
        let meant = |note: &Note| note.id.to_string() == id;
        if self.notes.find(meant).is_some_and(|note| note.author != BOT) {
            return Reply::refusal(403, "403 Forbidden");
        }
        let Some(note) = self.notes.change(meant) else { return Reply::refusal(404, "404 Note Not Found") };
        note.body = body;
        Reply::new(200, documents::note(note))
    }

    /// What GitLab would do because of a text: any line that begins with a slash and a word is a command to it.
    fn execute(&mut self, body: &str) {
        let body = body.replace('\r', "");
        let commands = body.lines().filter(|line| {
            line.strip_prefix('/').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
        });
        self.quick_actions.extend(commands.map(str::to_owned));
    }

    pub(super) fn set_status(&mut self, sha: &str, request: &Request) -> Reply {
        if self.denied_statuses {
            return Reply::refusal(403, "403 Forbidden");
        }
        if self.replaced.contains(sha) || !self.repository.history.commits.contains_key(sha) {
            return Reply::refusal(404, "404 References for commit Not Found");
        }
        let (name, state) = (request.text("name"), request.text("state"));
        let description = request.text("description");
        if description.chars().count() > 255 {
            return Reply::refusal(400, "description is too long (maximum is 255 characters)");
        }
        if self.statuses.find(|it| it.sha == sha && it.name == name && it.state == state).is_some() {
            let message =
                format!("Cannot transition status via :{state} from :{state} (Reason(s): Status cannot transition)");
            return Reply::refusal(400, &message);
        }
        let pipeline = request.body.as_ref().unwrap()["pipeline_id"].as_u64();
        let body = json!({ "id": 1, "sha": sha, "name": name, "status": state, "description": description });
        self.statuses.remove(|it| it.sha == sha && it.name == name);
        self.statuses.write(CommitStatus { name, state, description, pipeline, sha: sha.into() });
        Reply::new(201, body)
    }
}
