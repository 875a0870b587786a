//! The comment of a pull or merge request: in five seconds a reader sees what will change, what could block it, and who
//! else is near; after the merge, what came of it.

pub mod changes;
pub mod near;
pub mod place;
pub mod project;
pub mod result;
pub mod status;

use super::budget::{Budget, Node, Rank, fit};
use super::markdown::{Block, Inline, Table};
use super::plan::Counts;
use super::style::count;
use super::view::{PlanView, ProjectView, RequestView};
use crate::domain::coordination::forecast::ForecastRelation;
use crate::domain::request::{ForgeKind, RequestPhase};
use place::Place;
use status::{Loudness, Status};

/// With more projects than this, each is folded away below the table.
const UNFOLDED: usize = 3;

/// The whole comment, without the marker line, within what the forge takes.
#[must_use]
pub fn comment(view: &RequestView, forge: ForgeKind) -> String {
    let place = Place {
        forge: Some(forge),
        server_url: view.server_url.clone(),
        repository: Some(view.request.repository.clone()),
        head: Some(view.head.clone()),
    };
    let mut nodes = Vec::new();
    let stands: Vec<(&ProjectView, Status)> =
        view.projects.iter().map(|project| (project, Status::of(project, view.phase))).collect();
    match stands.as_slice() {
        [] => nodes.push(Node::head(Block::paragraph(&Inline::own(
            "⚪ This request touches no project that kl knows: there is nothing to plan and nothing to apply.",
        )))),
        [(project, status)] => {
            nodes.push(Node::head(Block::heading(3, &project::heading(project, status))));
            nodes.extend(project::nodes(project, view.phase, Some(&view.head), &place));
        }
        many => {
            nodes.push(Node::head(Block::heading(3, &title(many))));
            nodes.push(overview(many));
            nodes.extend(many.iter().map(|(project, status)| section(project, status, many.len(), view, &place)));
        }
    }
    nodes.push(Node::head(footer(view)));
    fit(&nodes, Budget::comment(forge), &elsewhere(&view.projects))
}

/// Where everything stands that found no room.
#[must_use]
pub fn elsewhere(projects: &[ProjectView]) -> Inline {
    let run = projects.iter().filter_map(|project| project.apply.as_ref()?.run.as_ref()).next_back();
    let job = projects.iter().find_map(|project| match (&project.apply, &project.plan) {
        (Some(apply), _) => place::job(apply.job_url.as_deref()),
        (None, PlanView::Planned(planned)) => place::job(planned.job_url.as_deref()),
        (None, PlanView::Failed { job_url, .. }) => place::job(job_url.as_deref()),
        (None, PlanView::Dropped | PlanView::Missing) => None,
    });
    let job = job.map_or_else(
        || Inline::own("All of it is in the output of the job"),
        |job| Inline::own("All of it is on the page of the ").and(&job),
    );
    match run {
        Some(run) => {
            job.own_and(", and `kl show ").and(&Inline::text(&run.id.to_string())).own_and("` tells the whole run.")
        }
        None => job.own_and(" and in the job's `kl-plan.json`."),
    }
}

/// What many projects come to: how many, and how the loudest of them stand.
fn title(many: &[(&ProjectView, Status)]) -> Inline {
    let loud = many.iter().filter(|(_, status)| status.loudness() == Loudness::Loud).count();
    let careful = many.iter().filter(|(_, status)| status.loudness() == Loudness::Careful).count();
    let sign = match (loud, careful) {
        (0, 0) if many.iter().all(|(_, status)| matches!(status, Status::Applied(_))) => "✅",
        (0, 0) => "🟢",
        (0, _) => "🟡",
        _ => "🔴",
    };
    let mut parts = vec![count(many.len(), "project")];
    let total = many.iter().filter_map(|(project, _)| counts(project)).fold(Counts::default(), Counts::plus);
    if total != Counts::default() {
        parts.push(total.sentence());
    }
    if loud > 0 {
        parts.push(if loud == 1 { "1 needs attention".to_owned() } else { format!("{loud} need attention") });
    }
    Inline::own(sign).own_and(" ").and(&Inline::join(parts.iter().map(|part| Inline::text(part)), " · "))
}

fn counts(project: &ProjectView) -> Option<Counts> {
    match &project.plan {
        PlanView::Planned(planned) => Some(Counts::of(&planned.spec)),
        PlanView::Failed { .. } | PlanView::Dropped | PlanView::Missing => None,
    }
}

/// The table on top of many projects.
fn overview(many: &[(&ProjectView, Status)]) -> Node {
    let mut table = Table::new(&["", "Project", "Status", "Plan", "Other requests"]);
    for (project, status) in many {
        let words = Inline::text(&status.words());
        table.row([
            Inline::own(status.sign()),
            Inline::code(&project.name),
            if status.loudness() == Loudness::Loud { words.bold() } else { words },
            counts(project).map(|counts| Inline::text(&counts.sentence())).unwrap_or_default(),
            neighbours(project),
        ]);
    }
    Node::rows(Rank::Vital, "project", table, usize::MAX)
}

fn neighbours(project: &ProjectView) -> Inline {
    let PlanView::Planned(planned) = &project.plan else {
        return Inline::default();
    };
    if project.apply.is_some() || planned.forecast.is_empty() {
        return Inline::own("–");
    }
    let meets = planned.forecast.iter().filter(|other| other.relation != ForecastRelation::Independent);
    let names: Vec<Inline> = meets.map(|other| Inline::text(&other.request.short()).bold()).collect();
    let calm = planned.forecast.len() - names.len();
    let calm = (calm > 0).then(|| Inline::text(&format!("{calm} independent")));
    Inline::join(
        (!names.is_empty()).then(|| Inline::own("meets ").and(&Inline::join(names, ", "))).into_iter().chain(calm),
        ", ",
    )
}

fn section(project: &ProjectView, status: &Status, of: usize, view: &RequestView, place: &Place) -> Node {
    let mut nodes = project::nodes(project, view.phase, Some(&view.head), place);
    if of > UNFOLDED {
        let title = format!("{} {} · {}", status.sign(), project.name, status.words());
        return Node::details(title, nodes);
    }
    nodes.insert(0, Node::block(Rank::Vital, "heading", Block::heading(4, &project::heading(project, status))));
    Node::all(nodes)
}

fn footer(view: &RequestView) -> Block {
    let line = match view.phase {
        RequestPhase::Open => Inline::own("<sub>kl · as of "),
        RequestPhase::Merged => Inline::own("<sub>kl · merged · as of "),
        RequestPhase::Closed => Inline::own("<sub>kl · closed · as of "),
    };
    let line = line.and(&place::time(view.now)).own_and(" for ").and(&place::commit(&view.head));
    Block::paragraph(&line.own_and(" · kept up to date by every job of this request</sub>"))
}

#[cfg(test)]
mod tests;
