//! What a check says, of a plan and of an apply: title, summary, text, remarks at lines, and how it ended.

use std::collections::BTreeSet;

use super::annotation::{Annotation, AnnotationLevel};
use super::budget::{Budget, Node, Rank, fit};
use super::comment::place::{Place, split_place};
use super::comment::status::{Loudness, Status, in_flight, quarantined};
use super::comment::{elsewhere, project, result};
use super::markdown::{Block, Inline, Language};
use super::plan::Counts;
use super::view::{ApplyView, PlanView, PlannedView, ProjectView};
use super::{conflict, forecast, style};
use crate::domain::address::Pattern;
use crate::domain::coordination::forecast::ForecastRelation;
use crate::domain::plan::action::Action;
use crate::domain::plan::spec::{PlanSpec, WriteEntry};
use crate::domain::redact::credentials::scrubbed;
use crate::domain::request::RequestPhase;

/// A longer title is cut.
const TITLE: usize = 250;
/// So many remarks at lines: the worst ones.
const REMARKS: usize = 100;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// All is well.
    Success,
    /// Something has to be done.
    Failure,
    /// There was nothing to say.
    Neutral,
}

/// What a check says. The Markdown is within GitHub's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckText {
    /// One line of plain text.
    pub title: String,
    /// A short Markdown text.
    pub summary: String,
    /// A long Markdown text.
    pub text: String,
    /// Remarks at lines, the worst first.
    pub annotations: Vec<Annotation>,
    /// How it ended; none while it goes on.
    pub conclusion: Option<Conclusion>,
}

/// The check of a plan.
#[must_use]
pub fn plan(of: &ProjectView, place: &Place) -> CheckText {
    let (title, conclusion) = match &of.plan {
        PlanView::Planned(planned) => plan_title(planned),
        PlanView::Failed { .. } => ("Planning failed".to_owned(), Conclusion::Failure),
        PlanView::Dropped => ("No longer touched by this request".to_owned(), Conclusion::Neutral),
        PlanView::Missing => ("Not planned".to_owned(), Conclusion::Failure),
    };
    let before = ProjectView { apply: None, ..of.clone() };
    let nodes = project::nodes(&before, RequestPhase::Open, None, place);
    let summary = match &of.plan {
        PlanView::Planned(planned) => plan_summary(planned),
        PlanView::Failed { error, .. } => vec![error_block(error)],
        // The text says it in a sentence, which is short enough.
        PlanView::Dropped | PlanView::Missing => nodes.clone(),
    };
    let annotations = match &of.plan {
        PlanView::Planned(planned) => plan_remarks(planned),
        PlanView::Failed { .. } | PlanView::Dropped | PlanView::Missing => Vec::new(),
    };
    finish(&title, &summary, &nodes, annotations, Some(conclusion), &before)
}

/// The title of a plan's check. Reservations and other requests do not fail it: they may be gone at the merge.
fn plan_title(planned: &PlannedView) -> (String, Conclusion) {
    let counts = Counts::of(&planned.spec).sentence();
    match Status::of_plan(planned) {
        Status::Stale => (format!("Stale, plan again: {counts}"), Conclusion::Failure),
        Status::NoChanges => ("No changes".to_owned(), Conclusion::Success),
        Status::Blocked(title) => (format!("{counts}; {title}"), Conclusion::Success),
        _ => (counts, Conclusion::Success),
    }
}

fn plan_summary(planned: &PlannedView) -> Vec<Node> {
    let mut nodes = vec![project::sentence(&planned.spec)];
    nodes.extend(project::cautioned(&planned.spec));
    let worst = planned.forecast.iter().filter(|other| other.relation != ForecastRelation::Independent);
    let lines: Vec<Inline> = worst
        .map(|other| {
            Inline::own(forecast::sign(other.relation))
                .own_and(" ")
                .and(&Inline::text(&other.request.short()).bold())
                .own_and(" by ")
                .and(&Inline::text(&other.actor.0))
                .own_and(": ")
                .own_and(forecast::title(other.relation))
                .own_and("; ")
                .own_and(forecast::advice(other.relation))
        })
        .collect();
    if !lines.is_empty() {
        nodes.push(Node::block(Rank::Near, "other request", Block::list(&lines)));
    }
    nodes
}

/// The check of an apply.
#[must_use]
pub fn apply(of: &ProjectView, outcome: &ApplyView, place: &Place) -> CheckText {
    let status = Status::of_apply(outcome);
    let spec = match &of.plan {
        PlanView::Planned(planned) => Some(&planned.spec),
        PlanView::Failed { .. } | PlanView::Dropped | PlanView::Missing => None,
    };
    let title = match &status {
        // The title of a conflict is the pattern and the holder, whatever else it might say.
        Status::Conflict(title) => title.clone(),
        other => capital(&other.words()),
    };
    let conclusion = match status {
        Status::Applying => None,
        _ if status.loudness() == Loudness::Loud => Some(Conclusion::Failure),
        _ => Some(Conclusion::Success),
    };
    let summary = [Node::block(Rank::Vital, "result", Block::paragraph(&result::sentence(outcome, &status, spec)))];
    let nodes = result::nodes(outcome, spec, place);
    let remarks = spec.map(|spec| apply_remarks(outcome, spec)).unwrap_or_default();
    let whole = ProjectView { apply: Some(outcome.clone()), ..of.clone() };
    finish(&title, &summary, &nodes, remarks, conclusion, &whole)
}

fn finish(
    title: &str,
    summary: &[Node],
    text: &[Node],
    mut annotations: Vec<Annotation>,
    conclusion: Option<Conclusion>,
    of: &ProjectView,
) -> CheckText {
    let rest = elsewhere(std::slice::from_ref(of));
    annotations.sort_by_key(|annotation| std::cmp::Reverse(annotation.level));
    annotations.truncate(REMARKS);
    let title = style::plain(title);
    let short: String = title.chars().take(TITLE).collect();
    let summary = fit(summary, Budget::CHECK, &rest);
    CheckText {
        title: if short.len() < title.len() { format!("{short}…") } else { short },
        // GitHub refuses an empty one.
        summary: if summary.is_empty() { "All of it is below.".to_owned() } else { summary },
        text: fit(text, Budget::CHECK, &rest),
        annotations,
        conclusion,
    }
}

fn error_block(error: &str) -> Node {
    Node::block(Rank::Vital, "error", Block::fence(Language::Text, &scrubbed(error)))
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn remark(entry: &WriteEntry, level: AnnotationLevel, title: &str, message: String) -> Option<Annotation> {
    let (path, line) = split_place(entry.place.as_deref()?)?;
    Some(Annotation { path: path.to_owned(), line, level, title: style::plain(title), message })
}

/// What the plan does to each resource, at its block; what is reserved right now and what is gone are warnings.
fn plan_remarks(planned: &PlannedView) -> Vec<Annotation> {
    let blocked = |entry: &WriteEntry| {
        let own = Pattern::Resource(entry.address.clone());
        planned.in_the_way.iter().find(|blocker| blocker.met.iter().any(|claim| claim.pattern.intersects(&own)))
    };
    let of = |entry: &WriteEntry| {
        let title = format!("{}: {}", entry.actions.word(), entry.address);
        let changed = if entry.print.changed.is_empty() || entry.actions == Action::Create {
            String::new()
        } else {
            format!(" Changes {}.", entry.print.changed.join(", "))
        };
        let message = format!("kl plans to {} {}.{changed}", verb(entry.actions), entry.address);
        match blocked(entry) {
            Some(blocker) => {
                let message = format!("{message} Right now {}.", conflict::title(std::slice::from_ref(blocker)));
                remark(entry, AnnotationLevel::Warning, &title, message)
            }
            None if loud(entry.actions) => remark(entry, AnnotationLevel::Warning, &title, message),
            None => remark(entry, AnnotationLevel::Notice, &title, message),
        }
    };
    planned.spec.write.iter().filter_map(of).collect()
}

fn loud(action: Action) -> bool {
    matches!(action, Action::Delete | Action::Forget) || action.replaces()
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::NoOp => "move or import",
        Action::Create => "create",
        Action::Read => "read",
        Action::Update => "change",
        Action::Delete => "destroy",
        Action::Forget => "stop managing",
        _ => "replace",
    }
}

/// What stood in the way of each resource, or what became of it when the apply failed.
fn apply_remarks(outcome: &ApplyView, spec: &PlanSpec) -> Vec<Annotation> {
    let Some(run) = &outcome.run else {
        return Vec::new();
    };
    let aftermath = outcome.aftermath.as_ref();
    // What was recovered or dropped since is nothing that a line could be blamed for.
    let open = aftermath.is_none_or(|aftermath| !aftermath.became.settled());
    let kept: BTreeSet<String> = quarantined(outcome).into_iter().filter(|_| open).collect();
    let unknown: BTreeSet<String> = in_flight(outcome).into_iter().filter(|_| open).collect();
    let holder = aftermath.map_or(run.id, |aftermath| aftermath.run);
    let mut remarks = Vec::new();
    for entry in &spec.write {
        let address = entry.address.to_string();
        let own = Pattern::Resource(entry.address.clone());
        let blocker =
            run.conflict.iter().find(|blocker| blocker.met.iter().any(|claim| claim.pattern.intersects(&own)));
        let told = if let Some(blocker) = blocker {
            let title = conflict::title(std::slice::from_ref(blocker));
            let told = conflict::told(blocker);
            let message =
                format!("{address}: {title} (run {}), {}, {}.", blocker.reservation.run, told.since, told.until);
            Some((title, message))
        } else if unknown.contains(&address) {
            let message =
                format!("kl was cut off while working on {address}: look at the provider, then `kl recover {holder}`.");
            Some((format!("cut off: {address}"), message))
        } else if kept.contains(&address) {
            let message =
                format!("{address} has really changed, and the state does not know it: `kl recover {holder}`.");
            Some((format!("changed, not in the state: {address}"), message))
        } else {
            None
        };
        remarks.extend(told.and_then(|(title, message)| remark(entry, AnnotationLevel::Failure, &title, message)));
    }
    // What is only read has no line of its own in the spec: the blocks that use it do.
    if remarks.is_empty() {
        for blocker in &run.conflict {
            let readers = readers(spec, blocker.met.iter().map(|claim| &claim.pattern));
            let title = conflict::title(std::slice::from_ref(blocker));
            let told = conflict::told(blocker);
            let message =
                |entry: &WriteEntry| format!("{} uses {}, and {title}, {}.", entry.address, told.pattern, told.until);
            remarks.extend(
                readers.into_iter().filter_map(|entry| remark(entry, AnnotationLevel::Failure, &title, message(entry))),
            );
        }
    }
    remarks
}

/// The changes that use what these patterns cover, directly.
fn readers<'a>(spec: &'a PlanSpec, met: impl Iterator<Item = &'a Pattern>) -> Vec<&'a WriteEntry> {
    let met: Vec<&Pattern> = met.collect();
    let via = |entry: &WriteEntry| {
        spec.read.iter().any(|read| {
            met.iter().any(|pattern| pattern.intersects(&read.pattern))
                && Pattern::parse(&read.via.from)
                    .is_ok_and(|from| from.intersects(&Pattern::Resource(entry.address.clone())))
        })
    };
    spec.write.iter().filter(|entry| via(entry)).collect()
}

#[cfg(test)]
mod tests;
