//! What became of each project in a job, and what the job's exit code is.

use crate::domain::id::{RunId, Serial};
use crate::domain::plan::changed::ChangedValue;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::request::RequestRef;
use crate::error::KlError;
use crate::exit::Exit;

/// What became of a project. The words are the values of the job's output `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// There is a spec with changes.
    Planned,
    /// There is a spec without changes.
    NoChanges,
    /// Its changes are in the trunk.
    Committed,
    /// There was nothing left to apply.
    Noop,
    /// Its spec holds, and nothing stands in the way now.
    Ready,
    /// A reservation stood in the way.
    Conflict,
    /// The reviewed plan no longer holds.
    Stale,
    /// Nobody has planned it.
    Missing,
    /// A project that it depends on failed, or its root module is gone.
    Skipped,
    /// It failed.
    Failed,
}

impl Word {
    /// The word.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::NoChanges => "no-changes",
            Self::Committed => "committed",
            Self::Noop => "noop",
            Self::Ready => "ready",
            Self::Conflict => "conflict",
            Self::Stale => "stale",
            Self::Missing => "missing",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    /// The word for an error.
    pub(super) fn of(error: &KlError) -> Self {
        match error.exit() {
            Exit::Conflict => Self::Conflict,
            Exit::Stale => Self::Stale,
            _ => Self::Failed,
        }
    }
}

/// What became of a project.
pub(super) struct Outcome {
    /// Its name.
    pub(super) project: String,
    /// The request that it belongs to.
    pub(super) request: Option<RequestRef>,
    /// In a word.
    pub(super) word: Word,
    /// Its spec.
    pub(super) spec: Option<PlanSpec>,
    /// Values of changed attributes, masked; empty unless the project shows values.
    pub(super) values: Vec<ChangedValue>,
    /// Where the spec was written to.
    pub(super) plan_file: Option<String>,
    /// The run.
    pub(super) run: Option<RunId>,
    /// The version that it committed.
    pub(super) serial: Option<Serial>,
    /// Who stood in the way, in a line.
    pub(super) conflict: Option<String>,
    /// Why it failed.
    pub(super) error: Option<KlError>,
}

impl Outcome {
    /// An outcome without anything more to say.
    pub(super) fn new(project: &str, word: Word) -> Self {
        Self {
            project: project.to_owned(),
            request: None,
            word,
            spec: None,
            values: Vec::new(),
            plan_file: None,
            run: None,
            serial: None,
            conflict: None,
            error: None,
        }
    }

    /// A failure.
    pub(super) fn failed(project: &str, error: KlError) -> Self {
        let word = Word::of(&error);
        Self { error: Some(error), ..Self::new(project, word) }
    }

    /// The exit code of this one.
    pub(super) fn exit(&self) -> Exit {
        self.error.as_ref().map_or(Exit::Done, KlError::exit)
    }
}

/// How much a person is needed.
fn rank(exit: Exit) -> u8 {
    match exit {
        Exit::Done => 0,
        Exit::Conflict => 1,
        Exit::Stale => 2,
        Exit::Usage => 3,
        Exit::Failed | Exit::Command(_) => 4,
    }
}

/// What the whole job came to, in a word: of several failures the one that needs a person most.
pub(super) fn worst(outcomes: &[Outcome]) -> Option<Word> {
    outcomes.iter().rev().max_by_key(|outcome| rank(outcome.exit())).map(|outcome| outcome.word)
}

/// Whether this is the one of its project that needs a person most. Several requests in one job can concern the same
/// project, and a commit has one check of a name: the good news of one must not cover the bad news of another.
pub(super) fn speaks_for_its_project(outcome: &Outcome, outcomes: &[Outcome]) -> bool {
    let of_project = outcomes.iter().filter(|other| other.project == outcome.project);
    of_project.max_by_key(|other| rank(other.exit())).is_some_and(|worst| std::ptr::eq(worst, outcome))
}

/// The exit code of the whole job.
pub(super) fn exit(outcomes: &[Outcome]) -> Exit {
    outcomes.iter().map(Outcome::exit).max_by_key(|exit| rank(*exit)).unwrap_or(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_of_a_project_is_the_one_that_its_check_tells() {
        let outcomes = [
            Outcome::failed("web", KlError::new(Exit::Stale, "it no longer holds")),
            Outcome::new("web", Word::Committed),
            Outcome::new("db", Word::Committed),
            Outcome::new("db", Word::Noop),
        ];
        let speaking: Vec<bool> = outcomes.iter().map(|outcome| speaks_for_its_project(outcome, &outcomes)).collect();
        assert_eq!(speaking, [true, false, false, true]);
        assert_eq!(worst(&outcomes), Some(Word::Stale));
        assert_eq!(exit(&outcomes), Exit::Stale);
    }
}
