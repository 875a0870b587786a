//! The story of a run in sentences, each with the facts behind it: why it was allowed beside others, why it waited or was
//! refused, how it was planned again, whether it committed exactly what was planned.

mod facts;
mod later;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::comment::result::advice;
use super::comment::status::Status;
use super::page::Page;
use super::phrase::Phrase;
use super::story::{self, Told, Tone};
use super::style::{between, count, duration};
use super::view::{ApplyView, NearbyRun};
use super::{cells, conflict};
use crate::domain::id::{RunId, Serial, StateName};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::{RecordedEvent, RunEvent};
use crate::domain::run::fidelity::Fidelity;
use crate::domain::run::{Run, RunKind, RunStatus};

pub(in crate::report) use facts::{blockers, changed};
pub(in crate::report) use later::taken_by;
pub use later::{Later, Met};

/// Everything that is known of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFacts {
    /// The run.
    pub run: Run,
    /// Its state's name.
    pub state: StateName,
    /// Its timeline, and who else was at work.
    pub apply: ApplyView,
    /// The spec that it applies.
    pub spec: Option<PlanSpec>,
    /// Runs that its timeline names, or that came later, as far as the store still knows them.
    pub others: BTreeMap<RunId, NearbyRun>,
    /// Runs that began to ask while it held something, and met it: by what is on their own record, the first one first.
    pub later: Vec<Later>,
    /// Whether there were more such runs than were looked at.
    pub later_cut: bool,
    /// The versions that it made, as far as they are still there, the first one first: a plain Terraform may make several.
    pub committed: Vec<Committed>,
}

impl RunFacts {
    /// How its version compares with the spec, where it applied one.
    #[must_use]
    pub fn fidelity(&self) -> Option<&Fidelity> {
        self.committed.last().and_then(|newest| newest.fidelity.as_ref())
    }

    /// The serial of its newest version, where `kl gc` has removed that.
    #[must_use]
    pub fn removed(&self) -> Option<Serial> {
        self.run.result_serial.filter(|serial| self.committed.last().is_none_or(|newest| newest.serial < *serial))
    }

    /// Whether it made a version, as far as anything says so.
    #[must_use]
    pub fn has_committed(&self) -> bool {
        let told = |recorded: &RecordedEvent| matches!(recorded.event, RunEvent::Committed { .. });
        !self.committed.is_empty() || self.run.result_serial.is_some() || self.apply.events.iter().any(told)
    }

    /// How many rows it changed, each of them once.
    #[must_use]
    pub fn touched(&self) -> usize {
        let rows = self.committed.iter().flat_map(|version| &version.rows);
        let names: BTreeSet<&str> =
            rows.map(|row| row.split_once(' ').map_or(row.as_str(), |(_, name)| name)).collect();
        names.len() + self.committed.iter().map(|version| version.removed).sum::<usize>()
    }
}

/// A version that a run made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its serial.
    pub serial: Serial,
    /// How it was written, in a word: `row-delta`, `snapshot`, `refresh`, `recover` or `rollback`.
    pub mode: &'static str,
    /// What it changed, each row with a sign in front.
    pub rows: Vec<String>,
    /// Of how many more rows that is not known any more: `kl gc` has removed it.
    pub removed: usize,
    /// How that compares with the spec, where the run applied one.
    pub fidelity: Option<Fidelity>,
}

/// The questions that the sentences answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// What it set out to do.
    Plan,
    /// Whether the plan still held.
    Since,
    /// Why it was allowed, waited, or was refused.
    Others,
    /// How planning again came out.
    Replan,
    /// What happened while it worked.
    Work,
    /// What came of it.
    Outcome,
    /// What to do now.
    Next,
}

/// One sentence with what stands behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// The question that it answers.
    pub topic: Topic,
    /// The sentence.
    pub told: Told,
    /// The facts behind it.
    pub facts: Vec<Phrase>,
    /// The place in the run's timeline, for a sentence about an event.
    pub seq: Option<i64>,
}

impl Topic {
    /// The question in words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Plan => "What it set out to do",
            Self::Since => "Did the plan still hold?",
            Self::Others => "Who else was there?",
            Self::Replan => "What did planning again say?",
            Self::Work => "What happened while it worked?",
            Self::Outcome => "What came of it?",
            Self::Next => "What to do now",
        }
    }

    /// One word for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Since => "since_plan",
            Self::Others => "others",
            Self::Replan => "replan",
            Self::Work => "work",
            Self::Outcome => "outcome",
            Self::Next => "next",
        }
    }
}

fn point(topic: Topic, tone: Tone, phrase: Phrase, facts: Vec<Phrase>) -> Point {
    Point { topic, told: Told { tone, phrase }, facts, seq: None }
}

/// The sentences, in the order of their questions and of time.
#[must_use]
pub fn points(story: &RunFacts) -> Vec<Point> {
    let plan = facts::plan(story);
    let events = said_once(&story.apply.events).filter_map(|recorded| of_event(story, recorded));
    // A recovery set out to take over what another run left: that comes first, and then what that one had planned.
    let mut points: Vec<Point> = if story.run.kind == RunKind::Recover {
        events.chain(plan).collect()
    } else {
        plan.into_iter().chain(events).collect()
    };
    let refused = |recorded: &RecordedEvent| matches!(recorded.event, RunEvent::Refused { .. });
    if !story.run.conflict.is_empty() && !story.apply.events.iter().any(refused) {
        let phrase = Phrase::own("Refused: ").strong(conflict::title(&story.run.conflict));
        points.push(point(Topic::Others, Tone::Alarm, phrase, facts::blockers(&story.run.conflict)));
    }
    points.extend(later::points(story));
    points.extend(facts::resources(&story.apply.events));
    points.extend(facts::outcome(story));
    let next = advice(&story.apply, &Status::of_apply(&story.apply));
    points.extend(next.into_iter().map(|step| point(Topic::Next, Tone::Quiet, Phrase::default().prose(step), vec![])));
    points.sort_by_key(|point| point.topic);
    points
}

/// The events without those that a later one repeats: what a plan is checked for before it waits is checked again after.
fn said_once(events: &[RecordedEvent]) -> impl Iterator<Item = &RecordedEvent> {
    let repeated = |place: usize, event: &RunEvent| {
        matches!(event, RunEvent::StaleCheckFailed { .. })
            && events.iter().skip(place + 1).any(|later| later.event == *event)
    };
    let once = events.iter().enumerate().filter(move |(place, recorded)| !repeated(*place, &recorded.event));
    once.map(|(_, recorded)| recorded)
}

/// The sentence for an event: as the timeline has it, and where that says nothing, what it means for the questions here.
fn of_event(story: &RunFacts, recorded: &RecordedEvent) -> Option<Point> {
    let event = &recorded.event;
    let topic = match event {
        RunEvent::SpecLoaded { .. }
        | RunEvent::Recovers { .. }
        | RunEvent::RollingBack { .. }
        | RunEvent::Removing { .. }
        | RunEvent::Moving { .. } => Topic::Plan,
        RunEvent::StaleCheckPassed { .. } | RunEvent::StaleCheckFailed { .. } | RunEvent::Revalidated { .. } => {
            Topic::Since
        }
        RunEvent::Waiting { .. }
        | RunEvent::Refused { .. }
        | RunEvent::Reserved { .. }
        | RunEvent::Reclaimed { .. } => Topic::Others,
        RunEvent::LaneChosen { .. }
        | RunEvent::FellBack { .. }
        | RunEvent::VersionsDiffer { .. }
        | RunEvent::ValuesAccepted { .. }
        | RunEvent::Replanned { .. } => Topic::Replan,
        RunEvent::Committed { .. }
        | RunEvent::Quarantined { .. }
        | RunEvent::InFlight { .. }
        | RunEvent::NotRecovered { .. }
        | RunEvent::CheckpointKept { .. }
        | RunEvent::TakenOver { .. }
        | RunEvent::Discarded { .. }
        | RunEvent::Aborted { .. }
        | RunEvent::CommandEnded { .. }
        | RunEvent::LeaseLost { .. } => Topic::Outcome,
        _ => Topic::Work,
    };
    let told = match event {
        RunEvent::StaleCheckPassed { outside, .. } if outside.is_empty() => Told {
            tone: Tone::Good,
            phrase: Phrase::own("Nothing had changed in the state since the plan that could matter to it"),
        },
        RunEvent::ApplyFinished { success } => story::finished(*success),
        RunEvent::ApplyStarted => {
            let after = duration(between(story.run.started_at, recorded.at));
            Told { tone: Tone::Quiet, phrase: Phrase::own(format!("Terraform began to apply {after} after the start")) }
        }
        event => story::told_since(event, story.apply.aftermath.as_ref())?,
    };
    Some(Point { topic, told, facts: facts::behind(story, event), seq: Some(recorded.seq) })
}

/// The run in one sentence.
#[must_use]
pub fn headline(story: &RunFacts) -> Phrase {
    let run = &story.run;
    let request = conflict::request(&run.origin).map(|request| format!(" for {request}")).unwrap_or_default();
    let line = Phrase::own("Run ")
        .name(run.id.to_string())
        .and(format!(": {} of ", run.kind.word()))
        .strong(story.state.as_str())
        .and(" by ")
        .strong(run.actor.0.clone())
        .and(request)
        .and(", ");
    let line = line.then(cells::status(run.status));
    match (run.result_serial, run.status, run.ended_at) {
        (Some(serial), RunStatus::Committed, _) => line.and(format!(" as serial {serial}")),
        (serial, status, Some(end)) if status != RunStatus::Committed => {
            let made = serial.map(|serial| format!(", with serial {serial} committed before")).unwrap_or_default();
            line.and(format!(" after {}{made}", duration(between(run.started_at, end))))
        }
        _ => line,
    }
}

/// The story for people, with at most so many facts behind each sentence.
#[must_use]
pub fn page(story: &RunFacts, most: usize) -> Page {
    let mut page = Page::default();
    page.title(headline(story));
    let mut topic = None;
    for point in points(story) {
        if topic != Some(point.topic) {
            page.title(Phrase::own(point.topic.title()));
            topic = Some(point.topic);
        }
        let all = point.facts.len();
        let mut facts: Vec<Phrase> = point.facts.into_iter().take(most).collect();
        if all > most {
            let line = format!("and {} more: the same with ", count(all - most, "fact"));
            facts.push(Phrase::own(line).name(format!("--limit {all}")));
        }
        page.point(point.told, facts);
    }
    page
}

/// The story for programs.
#[must_use]
pub fn document(story: &RunFacts) -> Value {
    let points: Vec<Value> = points(story)
        .iter()
        .map(|point| {
            json!({
                "topic": point.topic.word(),
                "tone": format!("{:?}", point.told.tone).to_lowercase(),
                "sentence": point.told.phrase.bare(),
                "facts": point.facts.iter().map(Phrase::bare).collect::<Vec<_>>(),
                "event": point.seq,
            })
        })
        .collect();
    json!({
        "run": story.run.id,
        "state": story.state,
        "kind": story.run.kind,
        "status": story.run.status,
        "actor": story.run.actor,
        "origin": story.run.origin,
        "spec": story.run.spec,
        "source_serial": story.run.source_serial,
        "result_serial": story.run.result_serial,
        "headline": headline(story).bare(),
        "points": points,
        "later": story.later,
        "later_cut": story.later_cut,
        "aftermath": story.apply.aftermath,
        "exactly_as_planned": story.fidelity().map(Fidelity::exact),
        "fidelity": story.fidelity(),
    })
}
