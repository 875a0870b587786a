//! Checks: a check run with annotations at lines, or a commit status when the token may not make check runs.

use std::sync::atomic::Ordering;

use super::Github;
use super::wire::{CheckBody, CheckRun, CheckRuns, StatusBody};
use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Answer, Trouble, segment, shortened};
use crate::forge::patience::Budget;
use crate::forge::talk::{Talk as _, Verb};
use crate::forge::{Annotation, Check, CheckRef, Conclusion};

/// So many annotations one request may bring.
const ANNOTATIONS: usize = 50;

/// So many characters the description of a status may have.
const DESCRIPTION: usize = 140;

/// So often a check that was made a moment ago is looked for again.
const NOT_YET_THERE: usize = 4;

impl Github {
    pub(super) async fn put_check(&self, check: &Check, existing: Option<&CheckRef>) -> Result<CheckRef, ForgeError> {
        let what = format!("write the check `{}`", check.name);
        let mut budget = self.api.patience.begin();
        if matches!(existing, Some(CheckRef::Status)) || self.no_checks.load(Ordering::Relaxed) {
            return self.put_status(&mut budget, check).await;
        }
        let changed = match existing {
            Some(CheckRef::Check(id)) => self.change_check(&what, &mut budget, id, check).await?,
            _ => None,
        };
        let (run, rest) = if let Some(run) = changed {
            (run, check.annotations.as_slice())
        } else {
            let (first, rest) = check.annotations.split_at(check.annotations.len().min(ANNOTATIONS));
            match self.make_check(&what, &mut budget, check, first).await {
                Ok(run) => (run, rest),
                // A personal token can never make checks, a job's token only with `checks: write`.
                Err(ForgeError::Denied { message, .. }) => {
                    tracing::debug!(%message, "checks are denied; a commit status has to do");
                    self.no_checks.store(true, Ordering::Relaxed);
                    return self.put_status(&mut budget, check).await;
                }
                Err(error) => return Err(error),
            }
        };
        let mut count = run.output.as_ref().map_or(0, |output| output.annotations_count);
        for page in rest.chunks(ANNOTATIONS) {
            count += page.len() as u64;
            self.append(&what, &mut budget, run.id, check, page, count).await?;
        }
        Ok(CheckRef::Check(run.id.to_string()))
    }

    /// Makes a check with its first annotations.
    async fn make_check(
        &self,
        what: &str,
        budget: &mut Budget,
        check: &Check,
        annotations: &[Annotation],
    ) -> Result<CheckRun, ForgeError> {
        let path = self.api.path("/check-runs");
        let body = CheckBody::of(check, annotations, true);
        loop {
            match self.api.write(budget, Again::Twice, Verb::Post, &path, &body).await {
                Ok(answer) => return self.accepted(what, &answer),
                // It may have been made. It is looked for by its name, on its commit, where an earlier job's may be as
                // well: whichever it is, it says afterwards what this one has to say.
                Err(Trouble::Unknown(_)) if budget.pause(None).await => {
                    if let Some(run) = self.find_check(what, budget, check).await?
                        && let Some(run) = self.change_check(what, budget, &run.id.to_string(), check).await?
                    {
                        return Ok(run);
                    }
                }
                Err(trouble) => return Err(trouble.error(what)),
            }
        }
    }

    async fn find_check(&self, what: &str, budget: &mut Budget, check: &Check) -> Result<Option<CheckRun>, ForgeError> {
        let query = format!("check_name={}&filter=latest", segment(&check.name));
        let path = self.api.path(&format!("/commits/{}/check-runs?{query}", segment(&check.commit)));
        let runs: CheckRuns = self.api.get(what, budget, &path).await?;
        Ok(runs.check_runs.into_iter().max_by_key(|run| run.id))
    }

    /// Changes a check that was made earlier; none when it is not there any more, or belongs to another app.
    async fn change_check(
        &self,
        what: &str,
        budget: &mut Budget,
        id: &str,
        check: &Check,
    ) -> Result<Option<CheckRun>, ForgeError> {
        let path = self.api.path(&format!("/check-runs/{}", segment(id)));
        let body = CheckBody::of(check, &[], false);
        let answer = self
            .api
            .write(budget, Again::Harmless, Verb::Patch, &path, &body)
            .await
            .map_err(|trouble| trouble.error(what))?;
        match answer.status {
            403 | 404 => Ok(None),
            _ => self.accepted(what, &answer).map(Some),
        }
    }

    /// Adds annotations, after which there are `count`.
    async fn append(
        &self,
        what: &str,
        budget: &mut Budget,
        id: u64,
        check: &Check,
        annotations: &[Annotation],
        count: u64,
    ) -> Result<(), ForgeError> {
        let path = self.api.path(&format!("/check-runs/{id}"));
        let body = CheckBody::of(check, annotations, false);
        let mut missing = 0;
        loop {
            match self.api.write(budget, Again::Twice, Verb::Patch, &path, &body).await {
                // GitHub may not know yet what it has just made.
                Ok(answer) if answer.status == 404 && missing < NOT_YET_THERE && budget.pause(None).await => {
                    missing += 1;
                }
                Ok(answer) => return self.accepted(what, &answer).map(drop),
                // They may have been added; added once more, they would be there twice.
                Err(Trouble::Unknown(_)) if budget.pause(None).await => {
                    let run: CheckRun = self.api.get(what, budget, &path).await?;
                    if run.output.is_some_and(|output| output.annotations_count >= count) {
                        return Ok(());
                    }
                }
                Err(trouble) => return Err(trouble.error(what)),
            }
        }
    }

    fn accepted(&self, what: &str, answer: &Answer) -> Result<CheckRun, ForgeError> {
        if answer.done() { answer.content(what) } else { Err(answer.refusal(what, &self.api.secrets)) }
    }

    /// Says the same as a commit status: less, but every token that may write to the repository can.
    async fn put_status(&self, budget: &mut Budget, check: &Check) -> Result<CheckRef, ForgeError> {
        let what = format!("set the commit status `{}`", check.name);
        let path = self.api.path(&format!("/statuses/{}", segment(&check.commit)));
        let body = StatusBody {
            state: match check.conclusion {
                None => "pending",
                Some(Conclusion::Success | Conclusion::Neutral) => "success",
                Some(Conclusion::Failure) => "failure",
            },
            context: &check.name,
            description: &shortened(&check.title, DESCRIPTION),
            target_url: check.details_url.as_deref(),
        };
        let answer = self
            .api
            .write(budget, Again::Harmless, Verb::Post, &path, &body)
            .await
            .map_err(|trouble| trouble.error(&what))?;
        match answer.status {
            // The job's own result has to do.
            401 | 403 | 404 => Ok(CheckRef::Nowhere),
            _ if answer.done() => Ok(CheckRef::Status),
            _ => Err(answer.refusal(&what, &self.api.secrets)),
        }
    }
}
