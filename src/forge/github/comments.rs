//! The sticky comment on a pull request: found by author and marker, changed in place, or made.

use std::time::Duration;

use super::Github;
use super::api::Verb;
use super::wire::{Comment, CommentBody, User, ViewerAnswer};
use crate::forge::CommentRef;
use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Answer, Trouble};
use crate::forge::marker::{headed, leads};
use crate::forge::patience::{Budget, Patience};

/// Who writes when a job uses its own token: neither of GitHub's two ways of asking answers that token everywhere.
const ACTIONS: &str = "github-actions[bot]";

/// How long the GraphQL API is given to say whose token it is.
const BRIEF: Duration = Duration::from_secs(10);

impl Github {
    pub(super) async fn put_comment(
        &self,
        number: u64,
        known: Option<&str>,
        marker: &str,
        body: &str,
    ) -> Result<CommentRef, ForgeError> {
        let what = format!("write the comment on #{number}");
        let body = headed(body, marker);
        let mut budget = self.api.patience.begin();
        if let Some(id) = known.and_then(|id| id.parse::<u64>().ok()) {
            let answer = self.change_comment(&mut budget, id, &body).await.map_err(|trouble| trouble.error(&what))?;
            match answer.status {
                // Deleted by somebody, or written with another token: there may be another one, else it is made anew.
                403 | 404 | 410 => {}
                _ => return self.written(&what, &answer),
            }
        }
        loop {
            if let Some(id) = self.own_comment(&what, &mut budget, number, marker).await? {
                let answer =
                    self.change_comment(&mut budget, id, &body).await.map_err(|trouble| trouble.error(&what))?;
                return self.written(&what, &answer);
            }
            let path = self.api.path(&format!("/issues/{number}/comments"));
            match self.api.write(&mut budget, Again::Twice, Verb::Post, &path, &CommentBody { body: &body }).await {
                Ok(answer) => return self.written(&what, &answer),
                // It may stand there: a second one would stay for ever.
                Err(Trouble::Unknown(message)) if budget.pause(None).await => {
                    tracing::debug!(%message, "looking whether the comment was written");
                }
                Err(trouble) => return Err(trouble.error(&what)),
            }
        }
    }

    async fn change_comment(&self, budget: &mut Budget, id: u64, body: &str) -> Result<Answer, Trouble> {
        let path = self.api.path(&format!("/issues/comments/{id}"));
        self.api.write(budget, Again::Harmless, Verb::Patch, &path, &CommentBody { body }).await
    }

    fn written(&self, what: &str, answer: &Answer) -> Result<CommentRef, ForgeError> {
        if !answer.done() {
            return Err(answer.refusal(what, &self.api.secrets));
        }
        let comment: Comment = answer.content(what)?;
        Ok(CommentRef { id: comment.id.to_string(), url: comment.html_url })
    }

    /// The first comment that we wrote and that bears the marker.
    async fn own_comment(
        &self,
        what: &str,
        budget: &mut Budget,
        number: u64,
        marker: &str,
    ) -> Result<Option<u64>, ForgeError> {
        let login = self.login.get_or_try_init(|| self.whoami()).await?;
        let ours = |comment: &Comment| {
            comment.user.as_ref().is_some_and(|user| same_author(login, &user.login))
                && comment.body.as_deref().is_some_and(|body| leads(body, marker))
        };
        let path = self.api.path(&format!("/issues/{number}/comments"));
        let comments = self.api.pages(what, budget, &path, |comments: &[Comment]| comments.iter().any(&ours)).await?;
        Ok(comments.iter().find(|comment| ours(comment)).map(|comment| comment.id))
    }

    /// The login that the token writes as.
    async fn whoami(&self) -> Result<String, ForgeError> {
        let what = "find out whose token it is";
        // Some servers and networks let nobody reach the GraphQL API: it is not waited for as long as for the other one.
        let patience = self.api.patience;
        let mut brief = Patience { total: patience.total.min(BRIEF), ..patience }.begin();
        if let Ok(answer) = self.api.graphql(&mut brief, "query{viewer{login}}").await {
            let viewer = answer.content::<ViewerAnswer>(what).ok().filter(|_| answer.done());
            if let Some(viewer) = viewer.and_then(|answer| answer.data?.viewer) {
                return Ok(viewer.login);
            }
        }
        let mut budget = patience.begin();
        match self.api.get::<User>(what, &mut budget, &self.api.user_path()).await {
            Ok(user) => Ok(user.login),
            Err(error @ ForgeError::Unavailable { .. }) => Err(error),
            Err(_) => Ok(ACTIONS.to_owned()),
        }
    }
}

/// An app's name goes with `[bot]` or without, depending on which API one asks. Nobody can register a name with it.
fn same_author(ours: &str, theirs: &str) -> bool {
    ours == theirs || theirs.strip_suffix("[bot]") == Some(ours)
}
