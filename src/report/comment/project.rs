//! One project on a page: its plan before the merge, the reviewed plan in small after it.

use super::place::{self, Place};
use super::status::{Loudness, Status};
use super::{changes, near, result};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::redact::credentials::scrubbed;
use crate::domain::request::RequestPhase;
use crate::report::budget::{Node, Rank};
use crate::report::markdown::{Block, Inline, Language};
use crate::report::plan::{Counts, NO_CHANGES, cautions};
use crate::report::view::{PlanView, PlannedView, ProjectView};
use crate::report::{mermaid, style};

/// The parts of a project, without its heading.
#[must_use]
pub fn nodes(project: &ProjectView, phase: RequestPhase, head: Option<&str>, place: &Place) -> Vec<Node> {
    let plan = match &project.plan {
        PlanView::Planned(planned) => Some(planned),
        PlanView::Failed { .. } | PlanView::Dropped | PlanView::Missing => None,
    };
    if let Some(apply) = &project.apply {
        let mut nodes = result::nodes(apply, plan.map(|planned| &planned.spec), place);
        if let Some(planned) = plan {
            let mut reviewed = vec![sentence(&planned.spec)];
            reviewed.extend(changes::nodes(&planned.spec, place));
            reviewed.push(facts(project, planned));
            nodes.push(Node::details("The reviewed plan", reviewed));
        }
        return nodes;
    }
    match &project.plan {
        PlanView::Planned(planned) => planned_nodes(project, planned, phase, head, place),
        PlanView::Failed { error, head, job_url, at } => failed(error, head, job_url.as_deref(), *at),
        PlanView::Dropped => {
            let line = "An earlier commit of this request touched this project. The newest one does not, and nothing will be applied.";
            vec![Node::block(Rank::Vital, "note", Block::paragraph(&Inline::own(line)))]
        }
        PlanView::Missing => {
            let line = "No plan job has finished for this project: there is nothing reviewed that could be applied.";
            vec![Node::block(Rank::Vital, "note", Block::paragraph(&Inline::own(line)))]
        }
    }
}

fn planned_nodes(
    project: &ProjectView,
    planned: &PlannedView,
    phase: RequestPhase,
    head: Option<&str>,
    place: &Place,
) -> Vec<Node> {
    let spec = &planned.spec;
    let mut nodes = vec![sentence(spec)];
    nodes.extend(cautioned(spec));
    if phase == RequestPhase::Open {
        if let Some(head) = head.filter(|head| *head != planned.head) {
            let line = Inline::own("**Not for the newest commit.** This is the plan of ")
                .and(&place::commit(&planned.head))
                .own_and("; the request is at ")
                .and(&place::commit(head))
                .own_and(" by now, and its plan job has not ended.");
            nodes.push(Node::block(Rank::Vital, "note", Block::quote(&[line])));
        }
        nodes.extend(near::since(&planned.since));
        nodes.extend(near::in_the_way(planned, place));
    }
    nodes.extend(changes::nodes(spec, place));
    nodes.extend(changes::values(&planned.values, spec));
    if phase == RequestPhase::Open {
        nodes.push(near::others(planned, place));
    }
    if spec.has_changes() {
        nodes.push(near::reservations(planned, place));
        nodes.extend(near::history(&planned.history, place));
        nodes.extend(picture(spec));
    }
    nodes.push(facts(project, planned));
    nodes
}

/// The plan in one sentence.
#[must_use]
pub fn sentence(spec: &PlanSpec) -> Node {
    let state = Inline::own(" State ")
        .and(&Inline::code(spec.state.name.as_str()))
        .own_and(" at serial ")
        .and(&Inline::text(&spec.state.serial.to_string()))
        .own_and(".");
    let plan = if spec.has_changes() {
        Inline::text(&format!("Plan: {}.", Counts::of(spec).sentence())).bold()
    } else {
        Inline::own(NO_CHANGES)
    };
    Node::block(Rank::Vital, "sentence", Block::paragraph(&plan.and(&state)))
}

/// What must not be missed.
#[must_use]
pub fn cautioned(spec: &PlanSpec) -> Option<Node> {
    let lines: Vec<Inline> = cautions(spec).iter().map(|caution| Inline::own("⚠️ ").and(&caution.markdown())).collect();
    (!lines.is_empty()).then(|| Node::block(Rank::Vital, "caution", Block::quote(&lines)))
}

fn failed(error: &str, head: &str, job: Option<&str>, at: chrono::DateTime<chrono::Utc>) -> Vec<Node> {
    let line = Inline::own("Planning ")
        .and(&place::commit(head))
        .own_and(" failed at ")
        .and(&place::time(at))
        .own_and(". Until a plan succeeds, a merge has nothing to apply here and its job will fail.");
    let mut nodes = vec![
        Node::block(Rank::Vital, "note", Block::paragraph(&line)),
        Node::block(Rank::Vital, "error", Block::fence(Language::Text, &scrubbed(error))),
    ];
    if let Some(job) = place::job(job) {
        let line = Inline::own("The whole output is on the page of the ").and(&job).own_and(".");
        nodes.push(Node::block(Rank::Near, "link", Block::paragraph(&line)));
    }
    nodes
}

/// The graph of what is written and read.
#[must_use]
pub fn picture(spec: &PlanSpec) -> Option<Node> {
    let graph = mermaid::graph(spec)?;
    let block = Block::fence(Language::Mermaid, graph.trim_end());
    Some(Node::details("Graph of what it reads and writes", vec![Node::block(Rank::Picture, "graph", block)]))
}

fn facts(project: &ProjectView, planned: &PlannedView) -> Node {
    let mut nodes = vec![spec_facts(&planned.spec, Some(project))];
    let mut line = Inline::own("Planned at ").and(&place::time(planned.at)).own_and(" from ");
    line = line.and(&place::commit(&planned.head)).own_and("; the state is at serial ");
    line = line.and(&Inline::text(&planned.trunk_serial.to_string())).own_and(" now.");
    if let Some(job) = place::job(planned.job_url.as_deref()) {
        line = line.own_and(" The whole output is on the page of the ").and(&job).own_and(".");
    }
    nodes.push(Node::block(Rank::Background, "note", Block::paragraph(&line)));
    Node::details("Spec and versions", nodes)
}

/// Spec id, serial and versions.
#[must_use]
pub fn spec_facts(spec: &PlanSpec, project: Option<&ProjectView>) -> Node {
    let dir = project.map_or(spec.project.dir.as_str(), |project| project.dir.as_str());
    let dir = if dir.is_empty() { "." } else { dir };
    let workspace = project.map_or(spec.project.workspace.as_str(), |project| project.workspace.as_str());
    let providers = spec.tools.providers.iter().map(|(name, version)| Inline::code(&format!("{name} {version}")));
    let program = Inline::code(&format!("{} {}", spec.tools.program, spec.tools.version));
    let lane = match spec.lane.footprint_because.as_slice() {
        [] => Inline::own("narrow: the apply plans again on what changes and what that needs"),
        [reason, ..] => Inline::own("footprint: the apply plans again on all that the configuration describes (")
            .and(&Inline::text(reason))
            .own_and(")"),
    };
    let facts = [
        Inline::own("Spec ")
            .and(&Inline::code(&spec.id.to_string()))
            .own_and(", by ")
            .and(&Inline::text(&spec.actor.0)),
        Inline::own("State ")
            .and(&Inline::code(spec.state.name.as_str()))
            .own_and(", planned at serial ")
            .and(&Inline::text(&spec.state.serial.to_string())),
        Inline::own("Root module ").and(&Inline::code(dir)).own_and(", workspace ").and(&Inline::code(workspace)),
        Inline::own("Versions ").and(&Inline::join(std::iter::once(program).chain(providers.take(20)), ", ")),
        Inline::own("Lane ").and(&lane),
    ];
    Node::block(Rank::Background, "fact", Block::list(&facts))
}

/// The heading of a project: sign, name, and where it stands.
#[must_use]
pub fn heading(project: &ProjectView, status: &Status) -> Inline {
    let words = Inline::text(&style::plain(&status.words()));
    let words = if status.loudness() == Loudness::Loud { words.bold() } else { words };
    Inline::own(status.sign()).own_and(" ").and(&Inline::code(&project.name)).own_and(" · ").and(&words)
}
