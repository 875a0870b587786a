//! The facts behind the sentences about a run.

use super::later::why;
use super::{Committed, Point, RunFacts, Topic, point};
use crate::domain::coordination::reservation::{AccessMode, Blocker, Claim};
use crate::domain::id::{Actor, RunId};
use crate::domain::run::event::{RecordedEvent, ResourceStep, RunEvent};
use crate::domain::run::fidelity::Fidelity;
use crate::domain::run::{RunKind, RunStatus};
use crate::report::phrase::Phrase;
use crate::report::plan::{Counts, via_words};
use crate::report::story::{Tone, ended_because};
use crate::report::style::{between, count, duration};
use crate::report::{cells, changed_row, conflict};

/// So many names stand in one line; the rest is counted.
const NAMED: usize = 10;

/// What the run meant to do: counts, and what it asked for.
pub(super) fn plan(story: &RunFacts) -> Option<Point> {
    let of = |mode: AccessMode| -> Vec<String> {
        let claims = story.run.claims.iter().filter(|claim: &&Claim| claim.mode == mode);
        claims.map(|claim| claim.pattern.to_string()).collect()
    };
    let (writes, reads) = (of(AccessMode::Write), of(AccessMode::Read));
    let mut facts = Vec::new();
    if let Some(spec) = &story.spec {
        let line = Phrase::own("planned by ").strong(spec.actor.0.clone());
        facts.push(line.then(request(story)).and(format!(" with {} {}", spec.tools.program, spec.tools.version)));
    }
    if !writes.is_empty() {
        facts.push(Phrase::own("to write: ").names(&writes, NAMED));
    }
    if !reads.is_empty() {
        facts.push(Phrase::own("to read: ").names(&reads, NAMED));
    }
    for entry in story.spec.iter().flat_map(|spec| &spec.read).take(NAMED) {
        facts.push(Phrase::own("reads ").name(entry.pattern.to_string()).and(", used by ").name(via_words(&entry.via)));
    }
    let phrase = match &story.spec {
        Some(spec) if story.run.kind == RunKind::Recover => {
            Phrase::own("What that run had planned: ").and(Counts::of(spec).sentence())
        }
        Some(spec) if spec.has_changes() => Phrase::own("The plan: ").and(Counts::of(spec).sentence()),
        Some(_) => Phrase::own("The plan changes nothing"),
        None if writes.is_empty() && reads.is_empty() => return None,
        None => {
            Phrase::own(format!("It asked for {} to write and {} to read", count(writes.len(), "pattern"), reads.len()))
        }
    };
    Some(point(Topic::Plan, Tone::Quiet, phrase, facts))
}

fn request(story: &RunFacts) -> Phrase {
    let origin = story.spec.as_ref().map(|spec| &spec.origin);
    match origin.and_then(conflict::request) {
        Some(request) => Phrase::own(format!(" in {request}")),
        None => Phrase::default(),
    }
}

/// The facts behind an event.
pub(super) fn behind(story: &RunFacts, event: &RunEvent) -> Vec<Phrase> {
    match event {
        RunEvent::StaleCheckPassed { outside, more, .. } => {
            let rest = (*more > 0).then(|| Phrase::own(format!("and {} more", count(*more, "row"))));
            outside.iter().flat_map(|row| changed_row::facts(row, "outside")).chain(rest).collect()
        }
        RunEvent::StaleCheckFailed { read, write, .. } => {
            let writes = write.iter().flat_map(|row| changed_row::facts(row, "it writes"));
            writes.chain(read.iter().flat_map(|row| changed_row::facts(row, "it reads"))).collect()
        }
        RunEvent::Refused { .. } => blockers(&story.run.conflict),
        RunEvent::Waiting { behind, .. } => behind.iter().map(|run| other(story, *run, None)).collect(),
        RunEvent::Reclaimed { from: run, .. }
        | RunEvent::Recovers { of: run }
        | RunEvent::TakenOver { by: run, .. } => {
            vec![other(story, *run, None)]
        }
        // A recovery begins with what another run holds.
        RunEvent::Reserved { beside, .. } if beside.is_empty() && story.run.kind == RunKind::Recover => Vec::new(),
        RunEvent::Reserved { beside, .. } if beside.is_empty() => {
            vec![Phrase::own("no other live run held anything on this state at that moment")]
        }
        RunEvent::Reserved { beside, .. } => beside
            .iter()
            .map(|neighbour| other(story, neighbour.run, Some(&neighbour.actor)).and(why(neighbour.relation)))
            .collect(),
        RunEvent::LaneChosen { lane, reasons, .. } => {
            let mut facts: Vec<Phrase> = reasons.iter().map(|reason| Phrase::default().prose(reason)).collect();
            let closure = story.spec.as_ref().filter(|_| lane == "narrow").map(|spec| &spec.lane.closure);
            if let Some(closure) = closure {
                let names: Vec<String> = closure.iter().map(ToString::to_string).collect();
                facts.push(if names.is_empty() {
                    Phrase::own("what it writes depends on no other resource")
                } else {
                    Phrase::own("enough, because what it writes depends on these alone: ").names(&names, NAMED)
                });
            }
            facts
        }
        RunEvent::Replanned { differences, .. } => {
            differences.iter().map(|difference| Phrase::default().prose(difference)).collect()
        }
        RunEvent::VersionsDiffer { differences } => {
            differences.iter().map(|difference| Phrase::default().prose(difference)).collect()
        }
        RunEvent::Quarantined { addresses } | RunEvent::InFlight { addresses } => {
            addresses.iter().map(|address| Phrase::name_of(address.clone())).collect()
        }
        RunEvent::NotRecovered { rows } => rows.iter().flat_map(|row| changed_row::facts(row, "left alone")).collect(),
        _ => Vec::new(),
    }
}

/// Another run, by what is known of it.
pub(super) fn other(story: &RunFacts, id: RunId, actor: Option<&Actor>) -> Phrase {
    let known = story.others.get(&id);
    let line = Phrase::own("run ").name(id.to_string());
    let line = match actor.or(known.map(|run| &run.actor)) {
        Some(actor) => line.and(" by ").strong(actor.0.clone()),
        None => line,
    };
    match known {
        Some(run) => {
            let request = run.request.as_ref().map(|request| format!(" for {request}")).unwrap_or_default();
            line.and(format!("{request}, since ")).then(cells::time(run.from)).and(", ").then(cells::status(run.status))
        }
        None => line,
    }
}

/// What stood in the way, each with what of ours met it.
pub(in crate::report) fn blockers(blockers: &[Blocker]) -> Vec<Phrase> {
    let line = |blocker: &Blocker| {
        let told = conflict::told(blocker);
        let met: Vec<String> = told.met.iter().map(|(pattern, mode)| format!("{pattern} ({mode})")).collect();
        let request = told.request.map(|request| format!(" for {request}")).unwrap_or_default();
        Phrase::name_of(told.pattern)
            .and(format!(" ({}) {} ", told.mode, told.verb))
            .strong(told.holder)
            .and(format!("{request}, run "))
            .name(blocker.reservation.run.to_string())
            .and(format!(", {}, {}; it met our ", told.since, told.until))
            .names(&met, NAMED)
            .and(if told.more > 0 { format!(" and {} more", told.more) } else { String::new() })
    };
    blockers.iter().map(line).collect()
}

/// What Terraform did to single resources.
pub(super) fn resources(events: &[RecordedEvent]) -> Option<Point> {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let mut seconds = 0;
    for recorded in events {
        let RunEvent::Resource { address, action, step, elapsed_seconds } = &recorded.event else { continue };
        let line = || Phrase::name_of(address.clone()).and(format!(": {action}, {elapsed_seconds}s"));
        let broken = || {
            let line = Phrase::toned(Tone::Alarm, "failed").and(": ").name(address.clone());
            line.and(format!(", {action}, after {elapsed_seconds}s"))
        };
        match step {
            ResourceStep::Finished => done.push(line()),
            ResourceStep::Failed => failed.push(broken()),
            ResourceStep::Started | ResourceStep::Progress => continue,
        }
        seconds = seconds.max(*elapsed_seconds);
    }
    if done.is_empty() && failed.is_empty() {
        return None;
    }
    let longest = duration(std::time::Duration::from_secs(seconds));
    let text = format!("Terraform finished {}, the longest in {longest}", count(done.len(), "object"));
    let (tone, phrase) = match failed.len() {
        0 => (Tone::Quiet, Phrase::own(text)),
        number => (Tone::Alarm, Phrase::own(text).and(format!("; {} failed", count(number, "object")))),
    };
    failed.extend(done);
    Some(point(Topic::Work, tone, phrase, failed))
}

/// What came of it: whether the commit was exactly what was planned, or why there was none.
pub(super) fn outcome(story: &RunFacts) -> Vec<Point> {
    let run = &story.run;
    let mut points: Vec<Point> = written(story).into_iter().collect();
    points.extend(story.removed().map(|serial| {
        let text = format!("Serial {serial}; what it changed was removed by ");
        point(Topic::Outcome, Tone::Quiet, Phrase::own(text).name("kl gc"), Vec::new())
    }));
    points.extend(story.fidelity().map(exactly));
    if !run.status.ended() {
        points.push(point(Topic::Outcome, Tone::Waits, Phrase::own("It has not ended yet"), Vec::new()));
    } else if run.status != RunStatus::Committed || !story.has_committed() {
        let came = if story.has_committed() { "what it had committed by then stays" } else { "nothing was committed" };
        let lasted = duration(between(run.started_at, run.ended_at.unwrap_or(run.started_at)));
        let phrase = Phrase::own("Ended as ").strong(run.status.word().replace('_', " "));
        let tone = match run.status {
            RunStatus::Noop | RunStatus::DryRun => Tone::Good,
            _ => Tone::Alarm,
        };
        let reason = run.error.as_deref().or_else(|| ended_because(&story.apply.events, run.status));
        let why = reason.into_iter().flat_map(str::lines).map(|line| Phrase::default().prose(line)).collect();
        points.push(point(Topic::Outcome, tone, phrase.and(format!(" after {lasted}; {came}")), why));
    }
    points
}

/// How its versions were written, with what each of them changed.
fn written(story: &RunFacts) -> Option<Point> {
    let newest = story.committed.last()?;
    let several = story.committed.len() > 1;
    let mode = match newest.mode {
        "snapshot" if several => "Each time a whole document was compared with the state",
        "snapshot" => "A whole document was compared with the state",
        "refresh" => "The rows that differ in reality were taken over",
        "recover" => "The rows that an earlier run had left were taken over",
        "rollback" => "The rows were put back as they were at an earlier serial",
        _ => "Only the rows that changed were written",
    };
    Some(point(Topic::Outcome, Tone::Quiet, Phrase::own(format!("{mode} ({})", newest.mode)), changed(story)))
}

/// What each of its versions changed, row by row.
pub(in crate::report) fn changed(story: &RunFacts) -> Vec<Phrase> {
    let several = story.committed.len() > 1;
    let of = |version: &Committed| {
        let mut rows: Vec<Phrase> = version.rows.iter().map(|row| Phrase::name_of(row.clone())).collect();
        if version.removed > 0 {
            let more = format!("and {} more; what became of that was removed by ", count(version.removed, "row"));
            rows.push(Phrase::own(more).name("kl gc"));
        }
        let at = |row: Phrase| if several { row.and(format!(", in serial {}", version.serial)) } else { row };
        rows.into_iter().map(at).collect::<Vec<_>>()
    };
    story.committed.iter().flat_map(of).collect()
}

fn exactly(fidelity: &Fidelity) -> Point {
    let rows = count(fidelity.as_planned, "row");
    let mut facts = Vec::new();
    let mut fact = |text: &str, names: &[String]| {
        if !names.is_empty() {
            facts.push(Phrase::own(text).names(names, NAMED));
        }
    };
    fact("planned, and the version did not change it: ", &fidelity.unchanged);
    fact("planned, and something else happened: ", &fidelity.otherwise);
    fact("not planned: ", &fidelity.unplanned);
    fact("came along, as data, checks and metadata may: ", &fidelity.along);
    if fidelity.recovered > 0 {
        let rows = count(fidelity.recovered, "row");
        facts.push(Phrase::own(format!("of these, {rows} with what a recovery of an earlier apply had brought in")));
    }
    if fidelity.rows_exact() && fidelity.other_values {
        let text = format!("Committed the planned rows with other values, which were accepted unreviewed: {rows}");
        return point(Topic::Outcome, Tone::Careful, Phrase::own(text), facts);
    }
    if fidelity.other_values {
        facts.push(Phrase::own("other values than the reviewed ones, which were accepted"));
    }
    if fidelity.exact() {
        let phrase = Phrase::own("Committed exactly what was planned").and(format!(": {rows}"));
        return point(Topic::Outcome, Tone::Good, phrase, facts);
    }
    let phrase = Phrase::own("Not exactly what was planned").and(format!(": {rows} as planned, and"));
    point(Topic::Outcome, Tone::Careful, phrase, facts)
}
