//! Comments on a pull request, and whose they are.

use std::time::Duration;

use async_trait::async_trait;

use super::Github;
use super::wire::{Comment, CommentBody, User, ViewerAnswer};
use crate::forge::CommentRef;
use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Answer, Trouble};
use crate::forge::marker::{headed, leads};
use crate::forge::patience::{Budget, Patience};
use crate::forge::sticky::{self, Comments};
use crate::forge::talk::{Talk as _, Verb};

/// Who writes when a job uses its own token: neither of GitHub's two ways of asking answers that token everywhere.
const ACTIONS: &str = "github-actions[bot]";

/// How long the GraphQL API is given to say whose token it is.
const BRIEF: Duration = Duration::from_secs(10);

/// The comment on one pull request.
struct OnPull<'a> {
    github: &'a Github,
    number: u64,
    marker: &'a str,
    /// With the marker on its first line.
    body: &'a str,
}

impl OnPull<'_> {
    fn path(&self) -> String {
        self.github.api.path(&format!("/issues/{}/comments", self.number))
    }
}

#[async_trait]
impl Comments for OnPull<'_> {
    fn what(&self) -> String {
        format!("write the comment on #{}", self.number)
    }

    async fn find(&self, budget: &mut Budget) -> Result<Option<u64>, ForgeError> {
        let login = self.github.login.get_or_try_init(|| self.github.whoami()).await?;
        let ours = |comment: &Comment| {
            comment.user.as_ref().is_some_and(|user| same_author(login, &user.login))
                && comment.body.as_deref().is_some_and(|body| leads(body, self.marker))
        };
        let some = |comments: &[Comment]| comments.iter().any(&ours);
        let comments = self.github.api.pages(&self.what(), budget, &self.path(), some).await?;
        Ok(comments.iter().find(|comment| ours(comment)).map(|comment| comment.id))
    }

    async fn change(&self, budget: &mut Budget, id: u64) -> Result<Answer, Trouble> {
        let api = &self.github.api;
        let path = api.path(&format!("/issues/comments/{id}"));
        api.write(budget, Again::Harmless, Verb::Patch, &path, &CommentBody { body: self.body }).await
    }

    async fn make(&self, budget: &mut Budget) -> Result<Answer, Trouble> {
        let body = CommentBody { body: self.body };
        self.github.api.write(budget, Again::Twice, Verb::Post, &self.path(), &body).await
    }

    fn lost(&self, status: u16) -> bool {
        matches!(status, 403 | 404 | 410)
    }

    fn written(&self, answer: &Answer) -> Result<CommentRef, ForgeError> {
        if !answer.done() {
            return Err(answer.refusal(&self.what(), &self.github.api.secrets));
        }
        let comment: Comment = answer.content(&self.what())?;
        Ok(CommentRef { id: comment.id.to_string(), url: comment.html_url })
    }
}

impl Github {
    pub(super) async fn put_comment(
        &self,
        number: u64,
        known: Option<&str>,
        marker: &str,
        body: &str,
    ) -> Result<CommentRef, ForgeError> {
        let comments = OnPull { github: self, number, marker, body: &headed(body, marker) };
        sticky::put(&comments, self.api.patience.begin(), known).await
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
