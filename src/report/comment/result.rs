//! What an apply came to: the new serial, or what went wrong and exactly what to do next; with the run's timeline.

use super::near;
use super::place::{self, Place};
use super::status::{Settled, Status, in_flight, quarantined};
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::id::RunId;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::redact::credentials::scrubbed;
use crate::domain::run::aftermath::{Aftermath, Became};
use crate::domain::run::again::Again;
use crate::domain::run::event::{RecordedEvent, ResourceStep, RunEvent};
use crate::domain::run::{Run, RunKind, RunStatus};
use crate::report::budget::{Node, Rank};
use crate::report::markdown::{Block, Inline, Language, Table};
use crate::report::mermaid::{self, Bar, Look};
use crate::report::phrase::Phrase;
use crate::report::plan::Counts;
use crate::report::style::{between, count, duration};
use crate::report::view::{ApplyView, Made};
use crate::report::{conflict, story};

/// So many addresses are named; the rest is counted.
const NAMED: usize = 10;
/// So many bars of resources, and so many of other runs.
const BARS: usize = 12;

/// The result, without a heading.
#[must_use]
pub fn nodes(apply: &ApplyView, spec: Option<&PlanSpec>, place: &Place) -> Vec<Node> {
    let status = Status::of_apply(apply);
    let mut nodes = vec![Node::block(Rank::Vital, "result", Block::paragraph(&sentence(apply, &status, spec)))];
    if let Some(run) = &apply.run
        && !run.conflict.is_empty()
    {
        nodes.push(near::blockers(&run.conflict, place, Rank::Vital));
    }
    nodes.extend(stale(apply));
    let error = apply.run.as_ref().and_then(|run| run.error.as_deref()).or(apply.error.as_deref());
    if let (Some(error), false) = (error, matches!(status, Status::Conflict(_) | Status::Applied(_))) {
        nodes.push(Node::block(Rank::Vital, "error", Block::fence(Language::Text, &scrubbed(error))));
    }
    nodes.extend(left_behind(apply, &status));
    nodes.extend(next(apply, &status));
    nodes.extend(facts(apply));
    nodes.extend(timeline(apply, place));
    nodes
}

/// What came of it, in a sentence.
#[must_use]
pub fn sentence(apply: &ApplyView, status: &Status, spec: Option<&PlanSpec>) -> Inline {
    let Some(run) = &apply.run else {
        let line = Inline::own("Nothing was applied: the job ended before there was a run, at ");
        return with_job(line.and(&place::time(apply.at)).own_and("."), apply);
    };
    let done = spec.map(|spec| Counts::of(spec).done()).unwrap_or_default();
    match status {
        Status::Applied(Some(serial)) => {
            let from = Inline::text(&run.source_serial.to_string());
            let line = Inline::own("**Committed serial ").and(&Inline::text(&serial.to_string())).own_and("**");
            let line = if done.is_empty() { line } else { line.own_and(": ").and(&Inline::text(&done)) };
            line.own_and(". The plan was made at serial ").and(&from).own_and(".")
        }
        Status::Applied(None) => {
            let line = Inline::own("There was nothing to do: ");
            match story::ended_because(&apply.events, run.status) {
                Some(reason) => line.and(&Inline::text(reason)).own_and("."),
                None => line.own_and("the state already is what the plan asked for."),
            }
        }
        Status::Conflict(_) => Inline::own("**Nothing was changed.** Others have reserved what this apply needs."),
        Status::Refused => Inline::own(
            "**Nothing was changed.** The reviewed plan no longer held when it was to be applied, and kl applies only what was reviewed.",
        ),
        Status::Quarantined => Inline::own(
            "**Some objects have really changed, and the state does not know it yet.** They stay reserved, so that nobody works on them in the meantime.",
        ),
        Status::Settled(Settled::TakenOver) => Inline::own(
            "**The apply failed half-way**, and a recovery has taken over what it had done; the state is in step.",
        ),
        Status::Settled(Settled::InPart) => Inline::own(
            "**The apply failed half-way**, and a recovery has taken over what it had done, but for what somebody else had changed since.",
        ),
        Status::Settled(Settled::Discarded) => Inline::own(
            "**The apply failed half-way**, and the record of what it had done was dropped; the rows are free.",
        ),
        Status::Lost if !reserved(apply) => {
            Inline::own("**The run was not heard of any more** before it had reserved anything. Nothing was changed.")
        }
        Status::Lost => Inline::own(
            "**The run stopped renewing its lease while it was at work**, and its reservations are gone. Nothing was committed.",
        ),
        Status::Aborted => Inline::own("**The run was ended from outside.** Nothing was committed."),
        Status::Applying => Inline::own("The apply is under way."),
        _ => Inline::own("**The apply failed.** The state is as it was before."),
    }
}

/// Which run it was, how long it took, and where its output is.
fn facts(apply: &ApplyView) -> Option<Node> {
    let run = apply.run.as_ref()?;
    let line = Inline::own("Run ").and(&place::run(run.id)).own_and(" by ").and(&Inline::text(&run.actor.0));
    let line = match run.ended_at {
        Some(end) => line.own_and(", ").and(&Inline::text(&duration(between(run.started_at, end)))).own_and("."),
        None => line.own_and(", since ").and(&place::time(run.started_at)).own_and("."),
    };
    Some(Node::block(Rank::Near, "note", Block::paragraph(&with_job(line, apply))))
}

fn with_job(line: Inline, apply: &ApplyView) -> Inline {
    match place::job(apply.job_url.as_deref()) {
        Some(job) => line.own_and(" Its output is on the page of the ").and(&job).own_and("."),
        None => line,
    }
}

/// What made the plan stale, as the run found it.
fn stale(apply: &ApplyView) -> Option<Node> {
    let run = apply.run.as_ref().filter(|run| run.status == RunStatus::Stale)?;
    let told: Vec<Inline> = apply
        .events
        .iter()
        .filter(|recorded| {
            matches!(&recorded.event, RunEvent::StaleCheckFailed { .. })
                || matches!(&recorded.event, RunEvent::Replanned { differences, .. } if !differences.is_empty())
        })
        .filter_map(|recorded| story::told(&recorded.event))
        .map(|told| told.phrase.markdown())
        .collect();
    (!told.is_empty() && run.status.ended()).then(|| Node::block(Rank::Vital, "reason", Block::list(&told)))
}

/// Objects that a failed run has left behind.
fn left_behind(apply: &ApplyView, status: &Status) -> Option<Node> {
    let mut lines = Vec::new();
    let changed = if matches!(status, Status::Settled(_)) { Vec::new() } else { quarantined(apply) };
    let unknown = in_flight(apply);
    if !changed.is_empty() {
        let phrase = Phrase::own(format!("Changed for real and kept reserved ({}): ", count(changed.len(), "object")));
        lines.push(phrase.names(&changed, NAMED).markdown());
    }
    if !unknown.is_empty() {
        let phrase = Phrase::own("Cut off while working on ").names(&unknown, NAMED);
        let phrase = match apply.aftermath.as_ref().filter(|aftermath| aftermath.became.looked_at()) {
            Some(aftermath) => phrase.then(story::found_out(aftermath)),
            None => phrase.and(": whether they exist is known to the provider only"),
        };
        lines.push(phrase.markdown());
    }
    if let Some(Aftermath { became: Became::Recovered { left, .. }, .. }) = &apply.aftermath
        && !left.is_empty()
    {
        let event = RunEvent::NotRecovered { rows: left.clone() };
        lines.extend(story::told(&event).map(|told| told.phrase.markdown()));
    }
    (!lines.is_empty()).then(|| Node::block(Rank::Vital, "object left behind", Block::list(&lines)))
}

/// What to do now: what kl was told, else what follows from the result.
fn next(apply: &ApplyView, status: &Status) -> Option<Node> {
    // What the job was told to do has been done since, or begun.
    let settled = apply.aftermath.is_some() || made(apply, status).is_some();
    let steps = if apply.next.is_empty() || settled { advice(apply, status) } else { apply.next.clone() };
    (!steps.is_empty()).then(|| {
        let lines: Vec<Inline> = steps.iter().map(|step| Inline::hint(step)).collect();
        let blocks = [Block::paragraph(&Inline::own("**Next**")), Block::list(&lines)];
        Node::block(Rank::Vital, "next step", Block::stack(&blocks))
    })
}

/// Whether a run ever got what it had asked for.
fn reserved(apply: &ApplyView) -> bool {
    apply.events.iter().any(|recorded| matches!(recorded.event, RunEvent::Reserved { .. }))
}

/// What a result asks for.
#[must_use]
pub fn advice(apply: &ApplyView, status: &Status) -> Vec<String> {
    let Some(run) = &apply.run else {
        return Vec::new();
    };
    let id = run.id;
    if let Some(made) = made(apply, status) {
        return vec![made];
    }
    let steps = match status {
        Status::Conflict(_) => blocked(apply, run),
        Status::Refused => {
            let planned_again = apply.events.iter().any(|one| matches!(one.event, RunEvent::Replanned { .. }));
            let hints = conflict::stale_hints().into_iter().take(if planned_again { 1 } else { 2 });
            let told = |wanted: fn(&RunEvent) -> bool| apply.events.iter().any(|one| wanted(&one.event));
            let seen = if told(|event| matches!(event, RunEvent::StaleCheckFailed { .. })) {
                format!("`kl show {id}` tells what changed, and by whom; nothing is left to clean up")
            } else {
                format!("`kl show {id}` tells how the new plan differs; nothing is left to clean up")
            };
            let outside = apply.events.iter().find_map(|one| match &one.event {
                RunEvent::DriftObserved { addresses, .. } => Some(conflict::drift_hint(addresses)),
                _ => None,
            });
            outside.into_iter().chain(hints.map(str::to_owned)).chain([seen]).collect()
        }
        Status::Settled(Settled::InPart) => vec![
            "Run the job again, or plan again, for what is left to do".to_owned(),
            "Compare what was not recovered with the real objects: `kl refresh` takes over what they are by now"
                .to_owned(),
        ],
        Status::Settled(_) => vec!["Run the job again, or plan again, for what is left to do".to_owned()],
        Status::Lost if !reserved(apply) => vec!["Run the job again; nothing is left to clean up".to_owned()],
        Status::Lost if quarantined(apply).is_empty() => {
            let spec = run.spec.map_or_else(|| "kl-plan.json".to_owned(), |spec| spec.to_string());
            vec![
                format!(
                    "`kl history --since-plan {spec}` says whether the plan still holds: somebody else had its rows"
                ),
                "Where it does, run the job again; nothing is left to clean up".to_owned(),
            ]
        }
        Status::Quarantined | Status::Lost => kept(apply, id),
        Status::Failed | Status::Aborted if run.kind == RunKind::Plain => after_plain(apply, run),
        Status::Failed | Status::Aborted => vec![
            "Run the job again when the cause is gone; nothing is left to clean up".to_owned(),
            format!("`kl show {id}` shows every step"),
        ],
        _ => Vec::new(),
    };
    undone(apply, run).or_else(|| followed(apply)).into_iter().chain(steps).collect()
}

/// What is left of a plain Terraform that came to no good end: of its work kl knows what it has written.
fn after_plain(apply: &ApplyView, run: &Run) -> Vec<String> {
    let locked = apply.events.iter().any(|recorded| matches!(recorded.event, RunEvent::Locked { .. }));
    let first = if locked {
        "Where its terraform was killed, what it did since its last write is in no file: compare the provider with \
         `kl state list`. Otherwise, where it did anything without the lock, that is in `errored.tfstate`, in the directory \
         where it ran, if that file is still there: `terraform state push errored.tfstate` there takes it over \
         (`kl exec --` in front of it, where there is no server)"
    } else {
        "Run it again when the cause is gone; nothing is left to clean up"
    };
    vec![first.to_owned(), format!("`kl show {}` shows every step", run.id)]
}

/// What to do about what is kept reserved: by a run itself, or by a recovery that has taken it over.
fn kept(apply: &ApplyView, run: RunId) -> Vec<String> {
    let id = match &apply.aftermath {
        Some(Aftermath { run, actor, became: Became::UnderWay, .. }) => {
            return vec![format!(
                "Run {run} by {actor} is taking over what was really changed: wait for it; if it is dead, `kl abort {run}` \
                 ends it, and `kl recover {run}` goes on from there"
            )];
        }
        Some(aftermath) => aftermath.run,
        None => run,
    };
    vec![
        format!("`kl recover {id}` takes what was really changed into the state, and frees it"),
        format!("`kl recover {id} --discard` frees it without that, once the objects are cleaned up by hand"),
        format!("`kl show {run}` shows every step; running the job again recovers first, and then goes on"),
    ]
}

/// That the change was made after all, where nothing of this run is left to be recovered.
fn made(apply: &ApplyView, status: &Status) -> Option<String> {
    let kept = !matches!(status, Status::Settled(_)) && !quarantined(apply).is_empty();
    let made = apply.today.as_ref().filter(|_| !kept)?.made.as_ref()?;
    let how = match made.how {
        Again::Applied => "the same spec was applied",
        Again::Planned => "the change was planned again, and applied",
        Again::Followed => return None,
    };
    Some(format!("Nothing is left to do: {how} {}", as_what(made)))
}

/// That the change was made after all, and is so no longer.
fn undone(apply: &ApplyView, run: &Run) -> Option<String> {
    let (undone, spec) = (apply.today.as_ref()?.undone.as_ref()?, run.spec?);
    Some(format!(
        "The same spec was applied {}, and what it wrote was changed since without a plan: `kl history --since-plan {spec}`",
        as_what(undone)
    ))
}

/// That somebody went on with another plan, which may or may not have made the change.
fn followed(apply: &ApplyView) -> Option<String> {
    let made = apply.today.as_ref()?.made.as_ref().filter(|made| made.how == Again::Followed)?;
    Some(format!("Another plan for some of the same rows was applied since, {}", as_what(made)))
}

fn as_what(made: &Made) -> String {
    let Made { serial, run, actor, .. } = made;
    match serial {
        Some(serial) => format!("as serial {serial} by {actor}, run {run}"),
        None => format!("by {actor}, run {run}, which found nothing left to do"),
    }
}

/// What to do about what stood in the way: whether it still does is looked up, where it can be.
fn blocked(apply: &ApplyView, run: &Run) -> Vec<String> {
    match &apply.today {
        // What helps an apply of kl to wait is not for Terraform.
        None if run.kind == RunKind::Plain => {
            let hints = conflict::hints(&run.conflict).into_iter().filter(|hint| !hint.contains("`--"));
            // A quarantine does not end by waiting.
            let ends = run.conflict.iter().all(|blocker| blocker.reservation.held_as != HeldAs::Quarantine);
            let wait = "`-lock-timeout=10m` lets terraform wait in turn for so long".to_owned();
            hints.chain(Some(wait).filter(|_| ends)).collect()
        }
        None => conflict::hints(&run.conflict),
        Some(today) if today.in_the_way.is_empty() => {
            vec!["What stood in the way is gone by now: apply again; a plan that no longer holds is refused".to_owned()]
        }
        Some(today) => {
            let first = format!("Still in the way: {}", conflict::title(&today.in_the_way));
            std::iter::once(first).chain(conflict::hints(&today.in_the_way)).collect()
        }
    }
}

/// The run's story: a picture beside other runs, and every step in words.
fn timeline(apply: &ApplyView, place: &Place) -> Option<Node> {
    let run = apply.run.as_ref()?;
    let mut nodes = Vec::new();
    if let Some(chart) = mermaid::timeline(&bars(run, apply)) {
        let block = Block::fence(Language::Mermaid, chart.trim_end());
        nodes.push(Node::block(Rank::Picture, "timeline", block));
    }
    let mut table = Table::new(&["After", "Step"]);
    for recorded in &apply.events {
        if let Some(told) = story::told_since(&recorded.event, apply.aftermath.as_ref()) {
            let sign = match told.tone.sign() {
                "" => Inline::default(),
                sign => Inline::own(sign).own_and(" "),
            };
            table.row([
                Inline::text(&duration(between(run.started_at, recorded.at)).replace(' ', "\u{A0}")),
                sign.and(&told.phrase.markdown()),
            ]);
        }
    }
    nodes.push(Node::rows(Rank::Background, "step", table, 100));
    if !apply.beside.is_empty() {
        let others = apply.beside.iter().take(BARS).map(|other| {
            let request = other.request.as_ref().map(|request| Inline::own(" for ").and(&place.request(request, true)));
            Inline::text(&other.actor.0)
                .and(&request.unwrap_or_default())
                .own_and(", ")
                .and(&Inline::text(&other.status.word().replace('_', " ")))
                .own_and(" (")
                .and(&place::run(other.run))
                .own_and(")")
        });
        let more = apply.beside.len().saturating_sub(BARS);
        let more = (more > 0).then(|| Inline::text(&format!("and {more} more")));
        let line = Inline::own("At work on the same state at the same time: ");
        let line = line.and(&Inline::join(others.chain(more), "; "));
        nodes.push(Node::block(Rank::Background, "note", Block::paragraph(&line)));
    }
    Some(Node::details("Timeline of the run", nodes))
}

fn bars(run: &Run, apply: &ApplyView) -> Vec<Bar> {
    let last = apply.events.last().map_or(apply.at, |recorded| recorded.at);
    let until = run.ended_at.unwrap_or(last);
    let at = |found: fn(&RunEvent) -> bool| {
        apply.events.iter().find(|recorded| found(&recorded.event)).map(|recorded: &RecordedEvent| recorded.at)
    };
    let reserved = at(|event| matches!(event, RunEvent::Reserved { .. }));
    let began = at(|event| matches!(event, RunEvent::ApplyStarted));
    let finished = at(|event| matches!(event, RunEvent::ApplyFinished { .. }));
    let mut bars = Vec::new();
    let mut bar = |name: &str, look, from, to| {
        let section = "This run".to_owned();
        bars.push(Bar { section, name: name.to_owned(), look, from, to });
    };
    let failed =
        run.status.ended() && !matches!(run.status, RunStatus::Committed | RunStatus::Noop | RunStatus::DryRun);
    let end = |to: Option<_>| to.unwrap_or(until);
    let look = |over: bool| {
        if over {
            Look::Done
        } else if failed {
            Look::Failed
        } else {
            Look::Active
        }
    };
    bar("check and reserve", look(reserved.is_some()), run.started_at, end(reserved));
    if let Some(reserved) = reserved {
        bar("plan again", look(began.is_some()), reserved, end(began));
    }
    if let Some(began) = began {
        let well = finished.is_some() && !failed;
        bar("apply", if well { Look::Done } else { look(false) }, began, end(finished));
    }
    bars.extend(resources(apply, until));
    bars.extend(apply.beside.iter().take(BARS).map(|other| {
        let request = other.request.as_ref().map(|request| format!(" {}", request.number)).unwrap_or_default();
        Bar {
            section: "Other runs".to_owned(),
            name: format!("{}{request}", other.actor),
            look: match other.status {
                RunStatus::Committed | RunStatus::Noop | RunStatus::DryRun => Look::Done,
                status if status.ended() => Look::Failed,
                _ => Look::Active,
            },
            from: other.from.max(run.started_at - chrono::Duration::minutes(10)),
            to: other.to.unwrap_or(until),
        }
    }));
    bars
}

/// The resources that took longest.
fn resources(apply: &ApplyView, until: chrono::DateTime<chrono::Utc>) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for recorded in &apply.events {
        let RunEvent::Resource { address, step, .. } = &recorded.event else { continue };
        let look = match step {
            ResourceStep::Started => {
                let name = address.clone();
                bars.push(Bar {
                    section: "Resources".to_owned(),
                    name,
                    look: Look::Active,
                    from: recorded.at,
                    to: until,
                });
                continue;
            }
            ResourceStep::Progress => continue,
            ResourceStep::Finished => Look::Done,
            ResourceStep::Failed => Look::Failed,
        };
        if let Some(bar) = bars.iter_mut().rev().find(|bar| bar.name == *address && bar.look == Look::Active) {
            bar.look = look;
            bar.to = recorded.at;
        }
    }
    bars.sort_by_key(|bar| (bar.look == Look::Done, std::cmp::Reverse(bar.to - bar.from)));
    bars.truncate(BARS);
    bars.sort_by_key(|bar| bar.from);
    bars
}
