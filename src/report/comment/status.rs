//! Where a project of a request stands, in one sign and a few words: what a reader sees first.

use std::collections::BTreeSet;

use crate::domain::coordination::forecast::ForecastRelation;
use crate::domain::coordination::reservation::Blocker;
use crate::domain::request::RequestPhase;
use crate::domain::run::RunStatus;
use crate::domain::run::aftermath::Became;
use crate::domain::run::event::RunEvent;
use crate::report::conflict;
use crate::report::view::{ApplyView, PlanView, PlannedView, ProjectView};

/// Where a project stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// The request no longer touches it.
    Dropped,
    /// No plan job has finished.
    Missing,
    /// Planning failed.
    PlanFailed,
    /// The plan changes nothing.
    NoChanges,
    /// Nothing is in the way.
    Ready,
    /// Nothing is in the way now, but another open request meets it.
    Near,
    /// A reservation is in the way at the moment; its title.
    Blocked(String),
    /// What the plan reads or writes has changed since.
    Stale,
    /// The request was closed.
    Closed,
    /// Merged, not applied yet.
    Waiting,
    /// An apply is under way.
    Applying,
    /// Applied: the serial, when there is a new one.
    Applied(Option<i64>),
    /// A reservation stood in the way of the apply; its title.
    Conflict(String),
    /// The apply was refused, because the plan no longer held.
    Refused,
    /// The apply was refused before it had begun.
    NotStarted,
    /// The apply failed; nothing is left behind.
    Failed,
    /// The apply failed after it had changed real objects; they are kept reserved.
    Quarantined,
    /// The apply ended half-way, and somebody has put that in order since.
    Settled(Settled),
    /// The run lost its lease.
    Lost,
    /// Somebody ended the run.
    Aborted,
}

/// How what an apply had left was put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// A recovery has taken it over.
    TakenOver,
    /// A recovery has taken it over, but for rows that somebody else had changed since.
    InPart,
    /// It was dropped.
    Discarded,
}

/// How loud a status is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loudness {
    /// All is well.
    Calm,
    /// Worth a look.
    Careful,
    /// Somebody has to do something.
    Loud,
}

impl Status {
    /// Where a project stands.
    #[must_use]
    pub fn of(project: &ProjectView, phase: RequestPhase) -> Self {
        if let Some(apply) = &project.apply {
            return Self::of_apply(apply);
        }
        match (&project.plan, phase) {
            (PlanView::Dropped, _) => Self::Dropped,
            (_, RequestPhase::Closed) => Self::Closed,
            (PlanView::Missing, _) => Self::Missing,
            (PlanView::Failed { .. }, _) => Self::PlanFailed,
            (PlanView::Planned(planned), RequestPhase::Open) => Self::of_plan(planned),
            (PlanView::Planned(planned), RequestPhase::Merged) => {
                if planned.spec.has_changes() {
                    Self::Waiting
                } else {
                    Self::NoChanges
                }
            }
        }
    }

    /// Where a plan stands.
    #[must_use]
    pub fn of_plan(planned: &PlannedView) -> Self {
        let meets = |found: &ForecastRelation| *found != ForecastRelation::Independent;
        if !planned.since.fresh() {
            Self::Stale
        } else if !planned.in_the_way.is_empty() {
            Self::Blocked(conflict::title(&planned.in_the_way))
        } else if !planned.spec.has_changes() {
            Self::NoChanges
        } else if planned.forecast.iter().any(|forecast| meets(&forecast.relation)) {
            Self::Near
        } else {
            Self::Ready
        }
    }

    /// What an apply came to.
    #[must_use]
    pub fn of_apply(apply: &ApplyView) -> Self {
        let Some(run) = &apply.run else {
            return Self::NotStarted;
        };
        match run.status {
            RunStatus::Started | RunStatus::Waiting | RunStatus::Reserved | RunStatus::Applying => Self::Applying,
            RunStatus::Committed => Self::Applied(run.result_serial.map(|serial| serial.0)),
            RunStatus::Noop | RunStatus::DryRun => Self::Applied(None),
            RunStatus::Conflict => Self::Conflict(title(&run.conflict, run.error.as_deref())),
            RunStatus::Stale => Self::Refused,
            RunStatus::Lost | RunStatus::Aborted | RunStatus::Failed if settled(apply).is_some() => {
                settled(apply).map_or(Self::Failed, Self::Settled)
            }
            RunStatus::Lost => Self::Lost,
            RunStatus::Aborted | RunStatus::Failed if !quarantined(apply).is_empty() => Self::Quarantined,
            RunStatus::Aborted => Self::Aborted,
            RunStatus::Failed => Self::Failed,
        }
    }

    /// How loud it is.
    #[must_use]
    pub fn loudness(&self) -> Loudness {
        match self {
            Self::Dropped
            | Self::NoChanges
            | Self::Ready
            | Self::Closed
            | Self::Waiting
            | Self::Applying
            | Self::Applied(_) => Loudness::Calm,
            Self::Near | Self::Blocked(_) | Self::Settled(Settled::TakenOver | Settled::Discarded) => Loudness::Careful,
            _ => Loudness::Loud,
        }
    }

    /// A sign of one letter.
    #[must_use]
    pub fn sign(&self) -> &'static str {
        match self {
            Self::Dropped | Self::NoChanges | Self::Closed => "⚪",
            Self::Ready => "🟢",
            Self::Near | Self::Settled(Settled::TakenOver | Settled::Discarded) => "🟡",
            Self::Blocked(_) | Self::Settled(Settled::InPart) => "🟠",
            Self::Stale | Self::Refused => "🔴",
            Self::Waiting | Self::Applying => "🔵",
            Self::Applied(_) => "✅",
            Self::Missing | Self::PlanFailed | Self::NotStarted | Self::Failed | Self::Lost | Self::Aborted => "❌",
            Self::Conflict(_) => "⛔",
            Self::Quarantined => "🚨",
        }
    }

    /// The same in words; names in it are text from outside.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Dropped => "no longer touched".to_owned(),
            Self::Missing => "not planned".to_owned(),
            Self::PlanFailed => "planning failed".to_owned(),
            Self::NoChanges => "no changes".to_owned(),
            Self::Ready => "ready to merge".to_owned(),
            Self::Near => "ready to merge, but another request meets it".to_owned(),
            Self::Blocked(title) => format!("blocked for now: {title}"),
            Self::Stale => "has to be planned again: the state has changed since the plan".to_owned(),
            Self::Closed => "closed, nothing will be applied".to_owned(),
            Self::Waiting => "merged, to be applied".to_owned(),
            Self::Applying => "being applied".to_owned(),
            Self::Applied(Some(serial)) => format!("applied as serial {serial}"),
            Self::Applied(None) => "applied, there was nothing to do".to_owned(),
            Self::Conflict(title) => format!("not applied: {title}"),
            Self::Refused => "not applied: the reviewed plan no longer held".to_owned(),
            Self::NotStarted => "not applied".to_owned(),
            Self::Failed => "the apply failed".to_owned(),
            Self::Quarantined => "the apply failed half-way, some objects have changed".to_owned(),
            Self::Settled(Settled::TakenOver) => "the apply failed half-way, what it had done was recovered".to_owned(),
            Self::Settled(Settled::InPart) => {
                "the apply failed half-way, what it had done was recovered in part".to_owned()
            }
            Self::Settled(Settled::Discarded) => "the apply failed half-way, its record was dropped".to_owned(),
            Self::Lost => "the run was lost: its lease ended while it was at work".to_owned(),
            Self::Aborted => "the run was ended from outside".to_owned(),
        }
    }
}

fn title(conflict: &[Blocker], error: Option<&str>) -> String {
    match (conflict, error) {
        ([], Some(error)) => error.to_owned(),
        _ => conflict::title(conflict),
    }
}

/// How what a run had left was put in order, if it was. What was quarantined after that is left again.
fn settled(apply: &ApplyView) -> Option<Settled> {
    match &apply.aftermath.as_ref()?.became {
        Became::Recovered { left, .. } if !left.is_empty() => Some(Settled::InPart),
        Became::Recovered { .. } | Became::Forgotten => Some(Settled::TakenOver),
        Became::Dropped => Some(Settled::Discarded),
        Became::Kept | Became::UnderWay => None,
    }
}

/// What a run changed for real without a commit: what was kept late, where others were told of the rest before.
#[must_use]
pub fn quarantined(apply: &ApplyView) -> Vec<String> {
    // Whoever ends a run says so, and the run itself may say so again: each row counts once.
    let (mut left, mut passed_on) = (BTreeSet::new(), false);
    for recorded in &apply.events {
        match &recorded.event {
            RunEvent::Quarantined { addresses } => {
                if std::mem::take(&mut passed_on) {
                    left.clear();
                }
                left.extend(addresses.iter().cloned());
            }
            RunEvent::TakenOver { .. } | RunEvent::Discarded { .. } => passed_on = true,
            _ => {}
        }
    }
    left.into_iter().collect()
}

/// What a run was at when it was cut off.
#[must_use]
pub fn in_flight(apply: &ApplyView) -> Vec<String> {
    let of = |event: &RunEvent| match event {
        RunEvent::InFlight { addresses } => addresses.clone(),
        _ => Vec::new(),
    };
    let all: BTreeSet<String> = apply.events.iter().flat_map(|recorded| of(&recorded.event)).collect();
    all.into_iter().collect()
}
