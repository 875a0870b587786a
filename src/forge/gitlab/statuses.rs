//! Commit statuses in the job's own pipeline. The job's result is what counts on GitLab; a status adds a line to it.

use std::sync::atomic::Ordering;

use super::Gitlab;
use super::api::TokenKind;
use super::wire::StatusBody;
use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Secrets, segment, shortened};
use crate::forge::talk::{Talk as _, Verb};
use crate::forge::{Check, CheckRef, Conclusion};

/// So many characters the description of a status may have.
const DESCRIPTION: usize = 255;

impl Gitlab {
    pub(super) async fn put_status(&self, check: &Check) -> Result<CheckRef, ForgeError> {
        // A job's own token can set no status, ever. A status that is still running would hold up the merge of its
        // request, for ever if kl were killed.
        if self.api.token != TokenKind::Access || self.no_statuses.load(Ordering::Relaxed) {
            return Ok(CheckRef::Nowhere);
        }
        let Some(conclusion) = check.conclusion else { return Ok(CheckRef::Status) };
        let what = format!("set the commit status `{}`", check.name);
        let path = self.api.path(&format!("/statuses/{}", segment(&check.commit)));
        let body = StatusBody {
            state: match conclusion {
                Conclusion::Success | Conclusion::Neutral => "success",
                Conclusion::Failure => "failed",
            },
            name: &check.name,
            description: &shortened(&check.title, DESCRIPTION),
            target_url: check.details_url.as_deref(),
            pipeline_id: self.pipeline,
        };
        let mut budget = self.api.patience.begin();
        loop {
            let answer = self
                .api
                .write(&mut budget, Again::Harmless, Verb::Post, &path, &body)
                .await
                .map_err(|trouble| trouble.error(&what))?;
            match answer.status {
                // It says so already.
                400 if answer.complaint(&Secrets::default()).contains("Cannot transition status") => {
                    return Ok(CheckRef::Status);
                }
                401 | 403 => {
                    self.no_statuses.store(true, Ordering::Relaxed);
                    return Ok(CheckRef::Nowhere);
                }
                // A newer commit has taken the place of this one: nobody looks at its statuses any more.
                404 => return Ok(CheckRef::Nowhere),
                // Another job is writing to the same pipeline.
                409 if budget.pause(None).await => {}
                _ if answer.done() => return Ok(CheckRef::Status),
                _ => return Err(answer.refusal(&what, &self.api.secrets)),
            }
        }
    }
}
