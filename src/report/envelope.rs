//! The envelope of a run: who, for whom, from what, what it set out to touch, how it was limited, and what came of it.

use serde_json::{Value, json};

use super::explain::{Committed, RunFacts};
use super::page::Page;
use super::phrase::Phrase;
use super::style::{between, count, duration, quoted};
use super::{cells, conflict, json as documents, story};
use crate::domain::coordination::reservation::AccessMode;
use crate::domain::plan::spec::{PlanMode, PlanSpec};
use crate::domain::run::event::{RecordedEvent, ResourceStep, RunEvent};
use crate::domain::run::fidelity::Fidelity;

/// So many names stand in one line; the rest is counted.
const NAMED: usize = 12;

/// So many rows of a version are named; the rest can be asked for.
const ROWS: usize = 20;

/// The lane that the run took last, with the size of its slice.
struct Slice<'s> {
    lane: &'s str,
    reasons: &'s [String],
    rows: usize,
    trunk: usize,
    targets: usize,
}

fn slice(events: &[RecordedEvent]) -> Option<Slice<'_>> {
    events.iter().rev().find_map(|recorded| match &recorded.event {
        RunEvent::LaneChosen { lane, reasons, slice_rows, trunk_rows, targets } => {
            Some(Slice { lane, reasons, rows: *slice_rows, trunk: *trunk_rows, targets: *targets })
        }
        _ => None,
    })
}

/// The patterns that the run set out to reserve in a mode.
fn claimed(story: &RunFacts, mode: AccessMode) -> Vec<String> {
    let claims = story.run.claims.iter().filter(|claim| claim.mode == mode);
    claims.map(|claim| claim.pattern.to_string()).collect()
}

/// Which part of a timeline is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Only events behind this place.
    pub after: i64,
    /// At most so many.
    pub limit: usize,
}

/// For people.
#[must_use]
pub fn page(story: &RunFacts, shown: Shown) -> Page {
    let mut page = Page::default();
    page.title(Phrase::own("Run ").name(story.run.id.to_string()).and(": ").then(cells::status(story.run.status)));
    page.facts(facts(story));
    if !story.run.conflict.is_empty() {
        page.title(Phrase::own(conflict::title(&story.run.conflict)));
        page.items(super::explain::blockers(&story.run.conflict));
    }
    changed(&mut page, story);
    let events: Vec<&RecordedEvent> = story.apply.events.iter().filter(|recorded| recorded.seq > shown.after).collect();
    page.title(Phrase::own("Timeline"));
    page.items(events.iter().take(shown.limit).map(|recorded| moment(story, recorded)).collect());
    if let Some(last) = events.get(..shown.limit).filter(|told| told.len() < events.len()).and_then(<[_]>::last) {
        page.note(Phrase::own("Later ones: the same with ").name(format!("--after {}", last.seq)));
    }
    page
}

/// The rows of the versions that it made: a screenful, and how to see the rest.
fn changed(page: &mut Page, story: &RunFacts) {
    let Some(newest) = story.committed.last() else { return };
    let rows = super::explain::changed(story);
    if rows.is_empty() {
        return;
    }
    let more = rows.len().saturating_sub(ROWS);
    page.title(Phrase::own("What it changed"));
    page.items(rows.into_iter().take(ROWS).collect());
    if more > 0 {
        let (state, next, versions) = (quoted(story.state.as_str()), newest.serial.next(), story.committed.len());
        let command = format!("kl history --state {state} --rows --limit {versions} --before {next}");
        page.note(Phrase::own(format!("{} more: ", count(more, "row"))).name(command));
    }
}

fn facts(story: &RunFacts) -> Vec<(&'static str, Phrase)> {
    let run = &story.run;
    let origin = &run.origin;
    let text = |value: &Option<String>| value.clone().map(Phrase::name_of).unwrap_or_default();
    let names = |all: &[String]| {
        if all.is_empty() { Phrase::default() } else { Phrase::default().names(all, NAMED) }
    };
    let lasted = run.ended_at.map(|end| format!(" for {}", duration(between(run.started_at, end)))).unwrap_or_default();
    let result = match (story.committed.first(), run.result_serial) {
        (Some(first), Some(newest)) if first.serial < newest => format!(", made {} to {newest}", first.serial),
        (_, Some(newest)) => format!(", made {newest}"),
        _ => String::new(),
    };
    let mut facts = vec![
        ("state", Phrase::default().strong(story.state.as_str())),
        ("kind", Phrase::own(run.kind.word())),
        ("actor", Phrase::own(run.actor.0.clone())),
        ("forge", origin.forge.clone().map(Phrase::own).unwrap_or_default()),
        ("request", cells::request(origin)),
        ("commit", text(&origin.commit)),
        ("job", text(&origin.job_url)),
        ("started", cells::time(run.started_at).and(lasted)),
        ("serial", Phrase::own(format!("from {}{result}", run.source_serial))),
    ];
    facts.extend(of_spec(story));
    facts.push(("to write", names(&claimed(story, AccessMode::Write))));
    facts.push(("to read", names(&claimed(story, AccessMode::Read))));
    facts.extend(of_slice(story));
    if !run.tools.version.is_empty() {
        let providers: Vec<String> =
            run.tools.providers.iter().map(|(name, version)| format!("{name} {version}")).collect();
        facts.push(("versions", Phrase::own(format!("{} {}", run.tools.program, run.tools.version))));
        facts.push(("providers", names(&providers)));
    }
    facts.extend(version(story));
    facts.push(("lease taken by", super::explain::taken_by(story)));
    facts.push(("because", run.error.as_deref().map(reason).unwrap_or_default()));
    facts
}

/// The versions that it made.
fn version(story: &RunFacts) -> Option<(&'static str, Phrase)> {
    let gone = |serial| Phrase::own(format!("serial {serial}, what it changed was removed by ")).name("kl gc");
    let Some(newest) = story.committed.last() else { return story.removed().map(|serial| ("version", gone(serial))) };
    let exactly = match newest.fidelity.as_ref().map(Fidelity::exact) {
        Some(true) => ", exactly as planned",
        Some(false) => ", not exactly as planned",
        None => "",
    };
    let (mode, rows) = (newest.mode, story::changed(story.touched()));
    let text = match story.committed.as_slice() {
        [first, .., last] => {
            let versions = count(story.committed.len(), "version");
            format!("{versions}, serials {} to {}, {mode}, {rows}", first.serial, last.serial)
        }
        _ => format!("serial {}, {mode}, {rows}{exactly}", newest.serial),
    };
    let rest = story.removed().map(|serial| Phrase::own("; ").then(gone(serial))).unwrap_or_default();
    Some(("version", Phrase::own(text).then(rest)))
}

/// A reason of one line or of several, in one line.
fn reason(text: &str) -> Phrase {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Phrase::default().prose(lines.join("; "))
}

fn of_spec(story: &RunFacts) -> Vec<(&'static str, Phrase)> {
    let Some(id) = story.run.spec else { return Vec::new() };
    let mut facts = vec![("spec", Phrase::name_of(id.to_string()))];
    let Some(spec) = &story.spec else { return facts };
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    facts.push(("planned by", Phrase::own(spec.actor.0.clone()).and(planned_for(spec))));
    let digests =
        Phrase::own("shape ").name(short(&spec.digests.shape)).and(", values ").name(short(&spec.digests.values));
    facts.push(("digests", digests));
    facts.push(("scope", scope(spec)));
    facts
}

fn planned_for(spec: &PlanSpec) -> String {
    conflict::request(&spec.origin).map(|request| format!(" in {request}")).unwrap_or_default()
}

/// The selectors of the plan; empty for a plan of everything.
fn scope(spec: &PlanSpec) -> Phrase {
    let mut phrase = Phrase::default();
    if spec.scope.mode == PlanMode::Destroy {
        phrase = phrase.and("destroy");
    }
    let named = [("targets", &spec.scope.targets), ("files", &spec.scope.files), ("replace", &spec.scope.replace)];
    for (word, all) in named.into_iter().filter(|(_, all)| !all.is_empty()) {
        let gap = if phrase.is_empty() { "" } else { "; " };
        phrase = phrase.and(format!("{gap}{word} ")).names(all, NAMED);
    }
    phrase
}

fn of_slice(story: &RunFacts) -> Vec<(&'static str, Phrase)> {
    let Some(slice) = slice(&story.apply.events) else { return Vec::new() };
    let size = format!("{}: {} of {} rows, {}", slice.lane, slice.rows, slice.trunk, count(slice.targets, "target"));
    let mut facts =
        vec![("lane", Phrase::own(size)), ("lane because", Phrase::default().prose(slice.reasons.join("; ")))];
    if let Some(spec) = story.spec.as_ref().filter(|_| slice.lane == "narrow") {
        let closure: Vec<String> = spec.lane.closure.iter().map(ToString::to_string).collect();
        let closure =
            if closure.is_empty() { Phrase::own("nothing else") } else { Phrase::default().names(&closure, NAMED) };
        facts.push(("depends on", closure));
    }
    facts
}

/// A line of the timeline: how long after the start, and what happened.
fn moment(story: &RunFacts, recorded: &RecordedEvent) -> Phrase {
    let after = duration(between(story.run.started_at, recorded.at));
    let line = Phrase::own(format!("+{after:<7} "));
    match &recorded.event {
        RunEvent::Resource { address, action, step, elapsed_seconds } => {
            let word = match step {
                ResourceStep::Started => "…".to_owned(),
                ResourceStep::Progress => format!("still at it, {elapsed_seconds}s"),
                ResourceStep::Finished => format!("done, {elapsed_seconds}s"),
                ResourceStep::Failed => format!("failed, {elapsed_seconds}s"),
            };
            line.name(address.clone()).and(format!(": {action} {word}"))
        }
        RunEvent::ApplyFinished { success } => {
            let told = story::finished(*success);
            line.then(Phrase::bare_sign(told.tone)).and(" ").then(told.phrase)
        }
        event => match story::told_since(event, story.apply.aftermath.as_ref()) {
            Some(told) => {
                let sign = told.tone.sign();
                let line = if sign.is_empty() { line } else { line.then(Phrase::bare_sign(told.tone)).and(" ") };
                line.then(told.phrase)
            }
            None => line.and(bare(event)),
        },
    }
}

/// An event without a sentence of its own, by its kind.
fn bare(event: &RunEvent) -> String {
    let kind = serde_json::to_value(event).ok().and_then(|value| value.get("kind")?.as_str().map(str::to_owned));
    kind.unwrap_or_default().replace('_', " ")
}

/// For programs.
#[must_use]
pub fn document(story: &RunFacts, shown: Shown) -> Value {
    let events: Vec<&RecordedEvent> = story.apply.events.iter().filter(|recorded| recorded.seq > shown.after).collect();
    let next = events.get(..shown.limit).filter(|told| told.len() < events.len()).and_then(<[_]>::last);
    let run = &story.run;
    let spec = story.spec.as_ref();
    json!({
        "run": run.id,
        "state": story.state,
        "kind": run.kind,
        "status": run.status,
        "actor": run.actor,
        "origin": run.origin,
        "spec": run.spec,
        "planned_by": spec.map(|spec| &spec.actor),
        "digests": spec.map(|spec| &spec.digests),
        "scope": spec.map(|spec| &spec.scope),
        "source_serial": run.source_serial,
        "result_serial": run.result_serial,
        "tools": run.tools,
        "claims": run.claims,
        "slice": slice(&story.apply.events).map(|slice| json!({
            "lane": slice.lane,
            "reasons": slice.reasons,
            "rows": slice.rows,
            "trunk_rows": slice.trunk,
            "targets": slice.targets,
            "closure": spec.filter(|_| slice.lane == "narrow").map(|spec| &spec.lane.closure),
        })),
        "version": story.committed.last().map(document_of),
        "versions": story.committed.iter().map(document_of).collect::<Vec<_>>(),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "error": run.error,
        "later": story.later,
        "later_cut": story.later_cut,
        "aftermath": story.apply.aftermath,
        "conflict": run.conflict.iter().map(documents::blocker).collect::<Vec<_>>(),
        "events": events.iter().take(shown.limit).collect::<Vec<_>>(),
        "next_after": next.map(|last| last.seq),
    })
}

fn document_of(version: &Committed) -> Value {
    json!({
        "serial": version.serial,
        "mode": version.mode,
        "rows": version.rows,
        "rows_removed": version.removed,
        "as_planned": version.fidelity.as_ref().map(Fidelity::exact),
    })
}
