//! The outlook of a plan: whether it still holds, what would block an apply now, and how it relates to live runs and to the
//! plans of other open requests.

use serde_json::{Value, json};

use super::comment::near::meeting;
use super::explain::blockers;
use super::life::{self, Cause};
use super::page::Page;
use super::phrase::Phrase;
use super::plan::Counts;
use super::story::{self, Told, Tone};
use super::view::{NearbyRun, PlannedView};
use super::{conflict, forecast, json};
use crate::domain::coordination::forecast::{ForecastRelation, Meeting};
use crate::domain::id::StateName;
use crate::domain::run::RunKind;
use crate::domain::run::event::RunEvent;

/// So many patterns stand in a cell; the rest is counted.
const NAMED: usize = 4;

/// What is around a plan now.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// The plan, what changed since, what is reserved, and the plans of others.
    pub planned: PlannedView,
    /// The version that has applied it, while what it did is still so.
    pub applied: Option<Cause>,
    /// Live runs on its state, other than its own.
    pub runs: Vec<RunForecast>,
}

/// How a live run relates to a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunForecast {
    /// The run.
    pub run: NearbyRun,
    /// What it does.
    pub kind: RunKind,
    /// What the two amount to.
    pub relation: ForecastRelation,
    /// Where they meet, the worst first.
    pub meetings: Vec<Meeting>,
}

/// For people; the filters that there are, and whether each was given.
#[must_use]
pub fn page(state: &StateName, all: &[Outlook], filters: &[(&str, bool)]) -> Page {
    let mut page = Page::default();
    if all.is_empty() {
        let phrase = Phrase::own(format!("No open request has a plan on state {}: kl knows of those ", state.as_str()));
        page.nothing(phrase.and("that `kl ci plan` has made; for another plan, name its spec."), filters);
    }
    for outlook in all {
        one(&mut page, outlook);
    }
    page
}

fn one(page: &mut Page, outlook: &Outlook) {
    let planned = &outlook.planned;
    let spec = &planned.spec;
    let request = conflict::request(&spec.origin).map(|request| format!(" for {request}")).unwrap_or_default();
    page.title(
        Phrase::own("Plan ")
            .name(spec.id.to_string())
            .and(" of ")
            .strong(spec.state.name.as_str())
            .and(" by ")
            .strong(spec.actor.0.clone())
            .and(format!("{request}, made at serial {}: {}", spec.state.serial, Counts::of(spec).sentence())),
    );
    let good = |text: &str| Told { tone: Tone::Good, phrase: Phrase::own(text) };
    if !spec.has_changes() {
        page.point(good("It changes nothing, and meets nobody"), Vec::new());
        return;
    }
    if let Some(applied) = &outlook.applied {
        page.point(life::applied(applied), vec![Phrase::own("an apply of it would find nothing to do")]);
        return;
    }
    if planned.since.fresh() {
        page.point(good("It still holds: nothing that it reads or writes has changed"), Vec::new());
    } else {
        let (read, write) = (planned.since.read.clone(), planned.since.write.clone());
        let changed = RunEvent::StaleCheckFailed { read, write, revalidate: false };
        if let Some(told) = story::told(&changed) {
            page.point(told, Vec::new());
        }
    }
    if planned.in_the_way.is_empty() {
        page.point(good("Nothing is reserved that would stand in its way"), Vec::new());
    } else {
        let phrase = Phrase::own("An apply that started now would be refused: ");
        let phrase = phrase.strong(conflict::title(&planned.in_the_way));
        page.point(Told { tone: Tone::Alarm, phrase }, blockers(&planned.in_the_way));
    }
    let runs = outlook.runs.iter().map(|near| {
        let request = near.run.request.as_ref().map(|request| format!(" for {request}")).unwrap_or_default();
        let who = Phrase::own("run ").name(near.run.run.to_string()).and(request);
        let row = row(who, &near.run.actor.0, near.relation, &near.meetings, planned);
        if near.kind == RunKind::Plain && !near.meetings.is_empty() { behind_a_lock(row) } else { row }
    });
    let requests = planned.forecast.iter().map(|other| {
        let who = Phrase::own("request ").strong(other.request.to_string()).and(" ").and(other.title.clone());
        row(who, &other.actor.0, other.relation, &other.meetings, planned)
    });
    let rows: Vec<Vec<Phrase>> = runs.chain(requests).collect();
    if rows.is_empty() {
        page.point(
            good("No other run is live, and no other open request that `kl ci plan` has planned is on this state"),
            Vec::new(),
        );
    } else {
        page.grid(&["Relation", "Other", "By", "What follows", "Where"], &rows);
    }
}

fn row(
    who: Phrase,
    actor: &str,
    relation: ForecastRelation,
    meetings: &[Meeting],
    planned: &PlannedView,
) -> Vec<Phrase> {
    let tone = if relation == ForecastRelation::Independent { Tone::Good } else { Tone::Alarm };
    let places: Vec<String> = meeting(meetings, planned.known.as_ref()).iter().map(ToString::to_string).collect();
    vec![
        Phrase::signed(tone, forecast::sign(relation), forecast::title(relation)),
        who,
        Phrase::own(actor),
        Phrase::own(forecast::advice(relation)),
        Phrase::default().names(&places, NAMED),
    ]
}

/// A plain terraform locks the whole state, whatever it changes.
fn behind_a_lock(mut row: Vec<Phrase>) -> Vec<Phrase> {
    row[0] = Phrase::signed(Tone::Careful, "…", "it has locked the whole state");
    row[3] = Phrase::own("this one has to wait; whether it holds then depends on what the other changes");
    row
}

/// For programs.
#[must_use]
pub fn document(outlook: &Outlook) -> Value {
    let planned = &outlook.planned;
    let spec = &planned.spec;
    json!({
        "spec": spec.id,
        "actor": spec.actor,
        "origin": spec.origin,
        "planned_at": spec.state.serial,
        "serial": planned.trunk_serial,
        "applied": outlook.applied,
        "since": {
            "write": planned.since.write,
            "read": planned.since.read,
            "outside": planned.since.outside,
        },
        "in_the_way": planned.in_the_way.iter().map(json::blocker).collect::<Vec<_>>(),
        "runs": outlook.runs.iter().map(|near| json!({
            "run": near.run.run,
            "kind": near.kind,
            "actor": near.run.actor,
            "request": near.run.request,
            "status": near.run.status,
            "relation": near.relation,
            "meetings": near.meetings,
        })).collect::<Vec<_>>(),
        "requests": planned.forecast.iter().map(|other| json!({
            "request": other.request,
            "title": other.title,
            "phase": other.phase,
            "actor": other.actor,
            "spec": other.spec,
            "relation": other.relation,
            "meetings": other.meetings,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::run::RunStatus;
    use crate::report::fixture::{apply, beginning, neighbours, run};
    use crate::report::view::PlanView;

    #[test]
    fn independence_is_calm_and_what_meets_is_loud() {
        let PlanView::Planned(planned) = neighbours().projects.remove(0).plan else { panic!("planned") };
        let meetings = planned.forecast.iter().find(|other| !other.meetings.is_empty()).unwrap().meetings.clone();
        let beside = apply(run(RunStatus::Committed), beginning()).beside.remove(0);
        let near = |relation, meetings| RunForecast { run: beside.clone(), kind: RunKind::Apply, relation, meetings };
        let lock = RunForecast { kind: RunKind::Plain, ..near(ForecastRelation::BothWrite, meetings.clone()) };
        let runs =
            vec![near(ForecastRelation::BothWrite, meetings), lock, near(ForecastRelation::Independent, Vec::new())];
        let outlook = Outlook { planned: *planned, applied: None, runs };
        let text = page(&outlook.planned.spec.state.name, std::slice::from_ref(&outlook), &[]).terminal();
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
        assert_eq!(document(&outlook)["runs"][0]["relation"], "both_write");
    }
}
