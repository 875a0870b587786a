//! The sticky note on a merge request: found by author and marker, changed in place, or made.

use reqwest::Method;

use super::Gitlab;
use super::api::TokenKind;
use super::wire::{Job, Note, NoteBody, User};
use crate::forge::CommentRef;
use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Answer, Trouble};
use crate::forge::marker::{headed, leads};
use crate::forge::patience::Budget;

impl Gitlab {
    pub(super) async fn put_note(
        &self,
        number: u64,
        known: Option<&str>,
        marker: &str,
        body: &str,
    ) -> Result<CommentRef, ForgeError> {
        let what = format!("write the note on !{number}");
        let body = inert(&headed(body, marker));
        let mut budget = self.api.patience.begin();
        if let Some(id) = known.and_then(|id| id.parse::<u64>().ok()) {
            let answer =
                self.change_note(&mut budget, number, id, &body).await.map_err(|trouble| trouble.error(&what))?;
            match answer.status {
                // Deleted by somebody, or written with another token: there may be another one, else it is made anew.
                403 | 404 if self.api.token == TokenKind::Access => {}
                _ => return self.written(&what, number, &answer),
            }
        }
        loop {
            if let Some(id) = self.own_note(&what, &mut budget, number, marker).await? {
                let answer =
                    self.change_note(&mut budget, number, id, &body).await.map_err(|trouble| trouble.error(&what))?;
                return self.written(&what, number, &answer);
            }
            let path = self.api.path(&format!("/merge_requests/{number}/notes"));
            match self.api.write(&mut budget, Again::Twice, Method::POST, &path, &NoteBody { body: &body }).await {
                Ok(answer) => return self.written(&what, number, &answer),
                // It may stand there: a second one would stay for ever.
                Err(Trouble::Unknown(message)) if budget.pause(None).await => {
                    tracing::debug!(%message, "looking whether the note was written");
                }
                Err(trouble) => return Err(trouble.error(&what)),
            }
        }
    }

    async fn change_note(&self, budget: &mut Budget, number: u64, id: u64, body: &str) -> Result<Answer, Trouble> {
        let path = self.api.path(&format!("/merge_requests/{number}/notes/{id}"));
        self.api.write(budget, Again::Harmless, Method::PUT, &path, &NoteBody { body }).await
    }

    fn written(&self, what: &str, number: u64, answer: &Answer) -> Result<CommentRef, ForgeError> {
        if !answer.done() {
            let mut error = answer.refusal(what, &self.api.secrets);
            if let ForgeError::Denied { message, .. } = &mut error
                && self.api.token != TokenKind::Access
            {
                message
                    .push_str("; a job's own token may not write notes: give kl a project access token with scope api");
            }
            return Err(error);
        }
        let note: Note = answer.content(what)?;
        let url = self.project_url.as_ref().map(|url| format!("{url}/-/merge_requests/{number}#note_{}", note.id));
        Ok(CommentRef { id: note.id.to_string(), url })
    }

    /// The first note that we wrote and that bears the marker.
    async fn own_note(
        &self,
        what: &str,
        budget: &mut Budget,
        number: u64,
        marker: &str,
    ) -> Result<Option<u64>, ForgeError> {
        if self.api.token == TokenKind::None {
            return Ok(None);
        }
        let us = *self.user.get_or_try_init(|| self.whoami()).await?;
        let ours = |note: &Note| {
            !note.system && note.author.as_ref().is_some_and(|author| author.id == us) && leads(&note.body, marker)
        };
        let path = self.api.path(&format!("/merge_requests/{number}/notes?order_by=created_at&sort=asc"));
        let notes = self.api.pages(what, budget, &path, |notes: &[Note]| notes.iter().any(&ours)).await?;
        Ok(notes.iter().find(|note| ours(note)).map(|note| note.id))
    }

    /// The number of the user that the token writes as: every access token has one.
    async fn whoami(&self) -> Result<u64, ForgeError> {
        let what = "find out whose token it is";
        let mut budget = self.api.patience.begin();
        if self.api.token == TokenKind::Job {
            // 0 is nobody's number: a job without a user has written nothing.
            return Ok(self.api.get::<Job>(what, &mut budget, "/job").await?.user.map_or(0, |user| user.id));
        }
        Ok(self.api.get::<User>(what, &mut budget, "/user").await?.id)
    }
}

/// The text with nothing in it that GitLab would execute: it takes any line that begins with `/word` for a command, and
/// its own idea of where code begins and ends is rough. Outside fences, the slash becomes an entity, which is shown as
/// a slash; inside, where it would be shown as it stands, the line moves to the right by a space.
fn inert(body: &str) -> String {
    // GitLab drops carriage returns before it looks for commands.
    let body = body.replace('\r', "");
    let mut fence: Option<(char, usize)> = None;
    let lines: Vec<String> = body
        .split('\n')
        .map(|line| {
            let outside = fence.is_none();
            fence = after_line(fence, line);
            match line.strip_prefix('/') {
                Some(rest) if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                    if outside {
                        format!("&#47;{rest}")
                    } else {
                        format!(" {line}")
                    }
                }
                _ => line.to_owned(),
            }
        })
        .collect();
    lines.join("\n")
}

/// The open fence after a line, given the one before it: its letter and its length.
fn after_line(fence: Option<(char, usize)>, line: &str) -> Option<(char, usize)> {
    let text = line.trim_start_matches(' ');
    let letter = text.chars().next().filter(|letter| matches!(letter, '`' | '~'));
    let Some(letter) = letter.filter(|_| line.len() - text.len() <= 3) else { return fence };
    let length = text.chars().take_while(|c| *c == letter).count();
    let rest = &text[length..];
    match fence {
        None if length >= 3 && !(letter == '`' && rest.contains('`')) => Some((letter, length)),
        Some((open, least)) if open == letter && length >= least && rest.trim().is_empty() => None,
        _ => fence,
    }
}

#[cfg(test)]
mod tests {
    use super::inert;

    #[test]
    fn no_line_is_a_command() {
        let text = "<!-- m -->\n/close\n\r/merge now\r\nuse /etc/hosts\n ```hcl\n/approve\n```\n/label ~x\n~~~~\n/tmp/a\n~~~\n/b\n~~~~\n/";
        let sent = inert(text);
        assert_eq!(
            sent,
            "<!-- m -->\n&#47;close\n&#47;merge now\nuse /etc/hosts\n ```hcl\n /approve\n```\n&#47;label ~x\n~~~~\n /tmp/a\n~~~\n /b\n~~~~\n/"
        );
        assert!(sent.lines().all(|line| !line.starts_with('/') || line == "/"));
        assert_eq!(inert(&sent), sent);
    }
}
