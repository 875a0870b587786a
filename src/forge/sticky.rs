//! The sticky comment: found by author and marker, changed in place, or made; never a second one.

use async_trait::async_trait;

use super::CommentRef;
use super::error::ForgeError;
use super::http::{Answer, Trouble};
use super::patience::Budget;

/// Comments on one request, as the forge has them.
#[async_trait]
pub(super) trait Comments: Sync {
    /// What is tried, for errors.
    fn what(&self) -> String;

    /// The first comment that we wrote and that bears the marker.
    async fn find(&self, budget: &mut Budget) -> Result<Option<u64>, ForgeError>;

    /// Changes the text of a comment.
    async fn change(&self, budget: &mut Budget, id: u64) -> Result<Answer, Trouble>;

    /// Makes a comment; once more would make a second one.
    async fn make(&self, budget: &mut Budget) -> Result<Answer, Trouble>;

    /// Whether an answer to a change means that the comment is gone, or was never ours to change.
    fn lost(&self, status: u16) -> bool;

    /// What an answer to a change or to a new comment says.
    fn written(&self, answer: &Answer) -> Result<CommentRef, ForgeError>;
}

/// Writes the comment: over `known`, which was ours when it was written last, else over the one that is found, else anew.
pub(super) async fn put(
    comments: &dyn Comments,
    mut budget: Budget,
    known: Option<&str>,
) -> Result<CommentRef, ForgeError> {
    let told = |trouble: Trouble| trouble.error(&comments.what());
    if let Some(id) = known.and_then(|id| id.parse::<u64>().ok()) {
        let answer = comments.change(&mut budget, id).await.map_err(told)?;
        // Deleted by somebody, or written with another token: there may be another one, else it is made anew.
        if !comments.lost(answer.status) {
            return comments.written(&answer);
        }
    }
    loop {
        if let Some(id) = comments.find(&mut budget).await? {
            return comments.written(&comments.change(&mut budget, id).await.map_err(told)?);
        }
        match comments.make(&mut budget).await {
            Ok(answer) => return comments.written(&answer),
            // It may stand there: a second one would stay for ever.
            Err(Trouble::Unknown(message)) if budget.pause(None).await => {
                tracing::debug!(%message, "looking whether the comment was written");
            }
            Err(trouble) => return Err(told(trouble)),
        }
    }
}
