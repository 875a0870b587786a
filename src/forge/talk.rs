//! Asking a forge and telling it, whatever its API is like: one thing, page after page of things, changes.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ForgeError;
use super::http::{Again, Answer, Lost, Secrets, Trouble, persist};
use super::patience::Budget;

/// What a page holds at most, on either forge.
const PAGE: usize = 100;

/// So many pages are read at most: a forge that never ends is not read for ever.
const MAX_PAGES: usize = 200;

/// What is done to what a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// Reads it.
    Get,
    /// Makes something in it.
    Post,
    /// Changes it, as GitLab wants to be told.
    Put,
    /// Changes it, as GitHub wants to be told.
    Patch,
}

/// A forge's API.
pub(super) trait Talk: Sync {
    /// One attempt. A body that breaks off is no answer.
    fn send(&self, verb: Verb, path: &str, body: Option<&Value>) -> impl Future<Output = Result<Answer, Lost>> + Send;

    /// What no text may hold.
    fn secrets(&self) -> &Secrets;

    /// The number of the page after this one, if there is one.
    fn next_page(answer: &Answer, page: u64) -> Option<u64>;

    /// Reads one thing.
    async fn get<T: DeserializeOwned>(&self, what: &str, budget: &mut Budget, path: &str) -> Result<T, ForgeError> {
        self.answer(what, budget, path).await?.content(what)
    }

    /// Reads an answer, and makes an error of a refusal.
    async fn answer(&self, what: &str, budget: &mut Budget, path: &str) -> Result<Answer, ForgeError> {
        let answer = persist(budget, Again::Harmless, self.secrets(), || self.send(Verb::Get, path, None))
            .await
            .map_err(|trouble| trouble.error(what))?;
        if answer.done() { Ok(answer) } else { Err(answer.refusal(what, self.secrets())) }
    }

    /// Reads a list, page after page, until `enough` says that what has been read will do.
    async fn pages<T: DeserializeOwned>(
        &self,
        what: &str,
        budget: &mut Budget,
        path: &str,
        mut enough: impl FnMut(&[T]) -> bool + Send,
    ) -> Result<Vec<T>, ForgeError> {
        let mut all = Vec::new();
        let mut page = 1;
        let join = if path.contains('?') { '&' } else { '?' };
        for _ in 0..MAX_PAGES {
            let answer = self.answer(what, budget, &format!("{path}{join}per_page={PAGE}&page={page}")).await?;
            all.extend(answer.content::<Vec<T>>(what)?);
            match Self::next_page(&answer, page) {
                Some(next) if !enough(&all) => page = next,
                _ => return Ok(all),
            }
        }
        Err(ForgeError::Incomplete {
            what: what.to_owned(),
            message: format!("the forge has more than {} of them", MAX_PAGES * PAGE),
        })
    }

    /// Makes or changes something. With [`Again::Twice`], [`Trouble::Unknown`] means that it may have been done.
    async fn write<B: Serialize + Sync>(
        &self,
        budget: &mut Budget,
        again: Again,
        verb: Verb,
        path: &str,
        body: &B,
    ) -> Result<Answer, Trouble> {
        let body = serde_json::to_value(body).map_err(|error| Trouble::Spent(error.to_string()))?;
        persist(budget, again, self.secrets(), || self.send(verb, path, Some(&body))).await
    }
}
