//! Notes on a merge request, whose they are, and what GitLab must not take for a command in them.

use async_trait::async_trait;

use super::Gitlab;
use super::api::TokenKind;
use super::wire::{Job, Note, NoteBody, User};
use crate::forge::CommentRef;
use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Answer, Trouble};
use crate::forge::marker::{headed, leads};
use crate::forge::patience::Budget;
use crate::forge::sticky::{self, Comments};
use crate::forge::talk::{Talk as _, Verb};

/// The note on one merge request.
struct OnRequest<'a> {
    gitlab: &'a Gitlab,
    number: u64,
    marker: &'a str,
    /// With the marker on its first line, and no line that is a command.
    body: &'a str,
}

impl OnRequest<'_> {
    fn path(&self, rest: &str) -> String {
        self.gitlab.api.path(&format!("/merge_requests/{}/notes{rest}", self.number))
    }
}

#[async_trait]
impl Comments for OnRequest<'_> {
    fn what(&self) -> String {
        format!("write the note on !{}", self.number)
    }

    async fn find(&self, budget: &mut Budget) -> Result<Option<u64>, ForgeError> {
        let api = &self.gitlab.api;
        if api.token == TokenKind::None {
            return Ok(None);
        }
        let us = *self.gitlab.user.get_or_try_init(|| self.gitlab.whoami()).await?;
        let ours = |note: &Note| {
            !note.system && note.author.as_ref().is_some_and(|author| author.id == us) && leads(&note.body, self.marker)
        };
        let path = self.path("?order_by=created_at&sort=asc");
        let notes = api.pages(&self.what(), budget, &path, |notes: &[Note]| notes.iter().any(&ours)).await?;
        Ok(notes.iter().find(|note| ours(note)).map(|note| note.id))
    }

    async fn change(&self, budget: &mut Budget, id: u64) -> Result<Answer, Trouble> {
        let (path, body) = (self.path(&format!("/{id}")), NoteBody { body: self.body });
        self.gitlab.api.write(budget, Again::Harmless, Verb::Put, &path, &body).await
    }

    async fn make(&self, budget: &mut Budget) -> Result<Answer, Trouble> {
        let (path, body) = (self.path(""), NoteBody { body: self.body });
        self.gitlab.api.write(budget, Again::Twice, Verb::Post, &path, &body).await
    }

    fn lost(&self, status: u16) -> bool {
        // A job's own token may change no note: there is nothing to look for.
        matches!(status, 403 | 404) && self.gitlab.api.token == TokenKind::Access
    }

    fn written(&self, answer: &Answer) -> Result<CommentRef, ForgeError> {
        if !answer.done() {
            let mut error = answer.refusal(&self.what(), &self.gitlab.api.secrets);
            if let ForgeError::Denied { message, .. } = &mut error
                && self.gitlab.api.token != TokenKind::Access
            {
                message
                    .push_str("; a job's own token may not write notes: give kl a project access token with scope api");
            }
            return Err(error);
        }
        let note: Note = answer.content(&self.what())?;
        let page = self.gitlab.project_url.as_ref();
        let url = page.map(|url| format!("{url}/-/merge_requests/{}#note_{}", self.number, note.id));
        Ok(CommentRef { id: note.id.to_string(), url })
    }
}

impl Gitlab {
    pub(super) async fn put_note(
        &self,
        number: u64,
        known: Option<&str>,
        marker: &str,
        body: &str,
    ) -> Result<CommentRef, ForgeError> {
        let comments = OnRequest { gitlab: self, number, marker, body: &inert(&headed(body, marker)) };
        sticky::put(&comments, self.api.patience.begin(), known).await
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
