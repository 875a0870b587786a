//! What happened to a run, event by event, in sentences: for the terminal, for `kl show`, and for comments.

use std::time::Duration;

use super::changed_row;
use super::phrase::Phrase;
use super::style::{bold, count, dim, duration, good, loud, warn};
use crate::domain::id::{Actor, RunId};
use crate::domain::plan::compare::Relation;
use crate::domain::run::RunStatus;
use crate::domain::run::aftermath::{Aftermath, Became};
use crate::domain::run::event::{ChangedRow, Holder, RecordedEvent, RunEvent};

/// So many rows are named in one line; the rest is counted.
const MAX_NAMED: usize = 5;

/// How a sentence is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// It went well.
    Good,
    /// To keep in mind.
    Careful,
    /// It needs somebody.
    Alarm,
    /// It goes on, later.
    Waits,
    /// A step, in the background.
    Quiet,
    /// A step that deserves a line of its own.
    Step,
}

/// A sentence about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// How it is meant.
    pub tone: Tone,
    /// The sentence.
    pub phrase: Phrase,
}

impl Tone {
    /// A sign that says the same without colours.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Careful | Self::Alarm => "!",
            Self::Waits => "…",
            Self::Quiet => "·",
            Self::Step => "",
        }
    }
}

impl Told {
    /// The line for a terminal.
    #[must_use]
    pub fn terminal(&self) -> String {
        let text = self.phrase.terminal();
        let sign = self.tone.sign();
        match self.tone {
            Tone::Good => format!("{} {text}", good(sign)),
            Tone::Careful | Tone::Waits => format!("{} {text}", warn(sign)),
            Tone::Alarm => format!("{} {text}", loud(sign)),
            Tone::Quiet => dim(format!("{sign} {text}")),
            Tone::Step => bold(text),
        }
    }
}

/// How Terraform came to its end.
#[must_use]
pub fn finished(success: bool) -> Told {
    let (tone, text) =
        if success { (Tone::Good, "Terraform finished well") } else { (Tone::Alarm, "Terraform failed") };
    Told { tone, phrase: Phrase::own(text) }
}

/// How many rows a version changed, each of them once, whatever happened to it.
#[must_use]
pub fn changed(rows: usize) -> String {
    format!("{} changed", count(rows, "row"))
}

/// Why a run ended as it did, when its timeline says so.
#[must_use]
pub fn ended_because(events: &[RecordedEvent], as_what: RunStatus) -> Option<&str> {
    events.iter().rev().find_map(|recorded| match &recorded.event {
        RunEvent::Ended { reason, status } if status == as_what.word() => reason.as_deref(),
        _ => None,
    })
}

/// The sentence for an event of a timeline, in the light of what came after it.
#[must_use]
pub fn told_since(event: &RunEvent, aftermath: Option<&Aftermath>) -> Option<Told> {
    match (event, aftermath) {
        (RunEvent::InFlight { addresses }, Some(aftermath)) if aftermath.became.looked_at() => {
            let phrase = Phrase::own("Cut off while working on ").names(addresses, MAX_NAMED);
            Some(Told { tone: Tone::Careful, phrase: phrase.then(found_out(aftermath)) })
        }
        (RunEvent::TakenOver { by, actor }, Some(aftermath)) => Some(taken_over(*by, actor, aftermath)),
        _ => told(event),
    }
}

/// `; the recovery by judy has looked what became of it: kl explain RUN`.
#[must_use]
pub fn found_out(aftermath: &Aftermath) -> Phrase {
    Phrase::own("; the recovery by ")
        .strong(aftermath.actor.0.clone())
        .and(" has looked what became of it: ")
        .name(format!("kl explain {}", aftermath.run))
}

/// That a recovery has taken over what a run left, and what came of that.
fn taken_over(by: RunId, actor: &Actor, aftermath: &Aftermath) -> Told {
    let (tone, what, then) = match &aftermath.became {
        Became::Recovered { left, .. } if left.is_empty() => (Tone::Good, "Recovered: what it left was", String::new()),
        Became::Recovered { left, .. } => {
            let rows = count(left.len(), "row");
            let then = format!("; {rows} left as the state has them, because somebody else had changed them since");
            (Tone::Careful, "Recovered in part: what it left was", then)
        }
        Became::Forgotten => (Tone::Good, "What it left was", String::new()),
        Became::UnderWay => (Tone::Waits, "What it left is being", String::new()),
        Became::Kept => {
            let then = format!("; it is not in the state yet, and stays reserved: kl recover {}", aftermath.run);
            (Tone::Alarm, "What it left was", then)
        }
        Became::Dropped => {
            (Tone::Alarm, "What it left was", ", and then dropped: its real objects are nobody's".to_owned())
        }
    };
    let phrase = handed(what, by, actor);
    let phrase = if aftermath.run == by {
        phrase
    } else {
        let Aftermath { run, actor, .. } = aftermath;
        phrase.and(", and after that by ").strong(actor.0.clone()).and(", run ").name(run.to_string())
    };
    Told { tone, phrase: phrase.and(then) }
}

/// `What it left was taken over by judy, run …`.
fn handed(what: &str, by: RunId, actor: &Actor) -> Phrase {
    Phrase::own(format!("{what} taken over by ")).strong(actor.0.clone()).and(", run ").name(by.to_string())
}

fn rows(all: &[ChangedRow]) -> Vec<String> {
    all.iter().map(changed_row::line).collect()
}

/// The sentence for an event; none for what would only repeat another one, and for single resources.
#[must_use]
#[expect(
    clippy::too_many_lines,
    reason = "a table with a sentence for each event; the compiler sees that none is missing"
)]
pub fn told(event: &RunEvent) -> Option<Told> {
    let say = |tone, phrase| Some(Told { tone, phrase });
    let named = |text: &str, names: &[String]| Phrase::own(text).names(names, MAX_NAMED);
    match event {
        RunEvent::SpecLoaded { spec, source_serial, trunk_serial } => say(
            Tone::Quiet,
            Phrase::own("Spec ")
                .name(spec.to_string())
                .and(format!(", planned at serial {source_serial}; the state is at serial {trunk_serial}")),
        ),
        RunEvent::StaleCheckPassed { outside, .. } if outside.is_empty() => None,
        RunEvent::StaleCheckPassed { outside, more, .. } => {
            let rest = if *more > 0 { format!("; {} beyond those", count(*more, "row")) } else { String::new() };
            let text = "Changed since the plan, outside of what it reads and writes: ";
            say(Tone::Good, named(text, &rows(outside)).and(rest))
        }
        RunEvent::StaleCheckFailed { read, write, revalidate } => {
            let all: Vec<ChangedRow> = write.iter().chain(read).cloned().collect();
            let then = if *revalidate { "; planning again decides" } else { "; the plan no longer holds" };
            say(Tone::Alarm, named("Changed since the plan: ", &rows(&all)).and(then))
        }
        RunEvent::Waiting { behind, who } => {
            say(Tone::Waits, Phrase::own("Waiting in turn behind ").then(holders(behind, who)))
        }
        RunEvent::Refused { title, waited_seconds, dry_run } => {
            say(Tone::Alarm, refused(title, *waited_seconds, *dry_run))
        }
        RunEvent::Reserved { writes, reads, beside, .. } => {
            let beside = match beside.len() {
                0 => String::new(),
                number => format!(", beside {}", count(number, "other run")),
            };
            say(
                Tone::Good,
                Phrase::own(format!("Reserved {} to write, {reads} to read{beside}", count(*writes, "pattern"))),
            )
        }
        RunEvent::Reclaimed { from, refused: true } => say(
            Tone::Careful,
            Phrase::own("The lease of run ")
                .name(from.to_string())
                .and(" had ended; something is in the way all the same"),
        ),
        RunEvent::Reclaimed { from, refused: false } => {
            say(Tone::Careful, Phrase::own("Took over the ended lease of run ").name(from.to_string()))
        }
        RunEvent::LaneChosen { lane, reasons, slice_rows, trunk_rows, targets } => {
            let size = format!(": {slice_rows} of {trunk_rows} rows, {}", count(*targets, "target"));
            let phrase = Phrase::own("Lane ").prose(lane).and(size);
            say(Tone::Quiet, if reasons.is_empty() { phrase } else { sentences(phrase.and(": "), reasons) })
        }
        RunEvent::Replanned { relation, differences, .. } if differences.is_empty() => {
            say(Tone::Good, Phrase::own("Planned again: ").prose(relation.replace('_', " ")))
        }
        RunEvent::Replanned { relation, differences, .. } => say(
            if relation == Relation::Refined.word() { Tone::Quiet } else { Tone::Careful },
            sentences(Phrase::own("Planned again: ").strong(relation.replace('_', " ")).and(": "), differences),
        ),
        RunEvent::Revalidated { relation } if relation == Relation::ValuesDiffer.word() => say(
            Tone::Careful,
            Phrase::own(
                "Revalidated: planned again on what had changed, the same changes with other values, which were accepted",
            ),
        ),
        RunEvent::Revalidated { relation } => say(
            Tone::Good,
            Phrase::own("Revalidated: planned again on what had changed, the plan still holds (")
                .prose(relation.replace('_', " "))
                .and(")"),
        ),
        RunEvent::ValuesAccepted { by } => {
            let phrase = Phrase::own("The other values were accepted by ").strong(by.0.clone());
            say(Tone::Careful, phrase.and(" (--accept-values); nobody has reviewed them"))
        }
        RunEvent::CommandEnded { code, signal } => Some(command_ended(*code, *signal)),
        RunEvent::FellBack { reason } => {
            say(Tone::Careful, Phrase::own("Falling back to the footprint lane: ").prose(reason))
        }
        RunEvent::VersionsDiffer { differences } => {
            say(Tone::Careful, sentences(Phrase::own("Other versions: "), differences))
        }
        RunEvent::ApplyStarted => say(Tone::Step, Phrase::own("Applying")),
        RunEvent::DriftObserved { addresses } => {
            say(Tone::Careful, named("Differs in reality, left alone (kl refresh takes it over): ", addresses))
        }
        RunEvent::SoftRows { left, .. } if left.is_empty() => None,
        RunEvent::SoftRows { left, .. } => say(Tone::Quiet, named("Metadata left as the state has it: ", left)),
        RunEvent::Committed { serial, rows_opened, rows_closed, rows_touched, .. } => {
            let rows = changed(rows_touched.unwrap_or((*rows_opened).max(*rows_closed)));
            let phrase = Phrase::own("Committed serial ").strong(serial.to_string()).and(format!(" ({rows})"));
            say(Tone::Good, phrase)
        }
        RunEvent::LeaseLate { reason } => {
            say(Tone::Careful, Phrase::own("The lease could not be renewed yet: ").prose(reason))
        }
        RunEvent::LeaseRenewed { .. } => say(Tone::Good, Phrase::own("The lease is renewed again")),
        RunEvent::LeaseLost { to: Some(taker), refused } => {
            let (when, what) = if *refused {
                ("The lease had ended when ", " asked for what it held, and did not get it, run ")
            } else {
                ("The lease had ended, and ", " has taken the reservations, run ")
            };
            let taker = (taker.actor.0.clone(), taker.run.to_string());
            say(Tone::Alarm, Phrase::own(when).strong(taker.0).and(what).name(taker.1))
        }
        RunEvent::LeaseLost { to: None, .. } => {
            say(Tone::Alarm, Phrase::own("It was not heard of any more: whatever it had reserved is free"))
        }
        RunEvent::CheckpointKept { rows, in_flight } => {
            let in_flight =
                if *in_flight > 0 { format!(", and which {in_flight} it was working on") } else { String::new() };
            let text =
                format!("Checkpoint: what terraform did to {}{in_flight}, is kept with the run", count(*rows, "row"));
            say(Tone::Careful, Phrase::own(text))
        }
        RunEvent::Quarantined { addresses } => say(
            Tone::Alarm,
            named("Changed for real, or perhaps, and not in the state yet; kept reserved: ", addresses),
        ),
        RunEvent::InFlight { addresses } => say(
            Tone::Alarm,
            Phrase::own("Cut off while working on ").names(addresses, MAX_NAMED).and(": look at the provider"),
        ),
        RunEvent::NotRecovered { rows: left } => {
            say(Tone::Alarm, named("Not recovered, because it was changed since: ", &rows(left)))
        }
        RunEvent::Recovers { of } => {
            say(Tone::Quiet, Phrase::own("Taking over what run ").name(of.to_string()).and(" left"))
        }
        RunEvent::TakenOver { by, actor } => say(Tone::Careful, handed("What it left was", *by, actor)),
        RunEvent::Discarded { by, freed } => say(
            Tone::Alarm,
            Phrase::own("Dropped by ").strong(by.0.clone()).and(format!(
                ": {} freed; its real objects are nobody's",
                count(usize::try_from(*freed).unwrap_or(usize::MAX), "reservation")
            )),
        ),
        RunEvent::ForgeUnreachable { what, reason } => {
            say(Tone::Careful, Phrase::own("The forge did not take ").prose(what).and(": ").prose(reason))
        }
        RunEvent::Aborted { by } => say(Tone::Alarm, Phrase::own("Ended from outside by ").prose(&by.0)),
        RunEvent::Locked { who, operation, .. } => {
            let who = if who.is_empty() { "a plain terraform" } else { who };
            let what = if operation.is_empty() { String::new() } else { format!(" ({operation})") };
            say(Tone::Good, Phrase::own("Locked the whole state for ").prose(who).prose(what))
        }
        RunEvent::Unlocked { forced: false, .. } => say(Tone::Quiet, Phrase::own("The lock was given back")),
        RunEvent::Unlocked { by, forced: true } => {
            say(Tone::Alarm, Phrase::own("The lock was taken away by ").prose(&by.0).and(" (force-unlock)"))
        }
        RunEvent::RollingBack { .. } | RunEvent::Removing { .. } | RunEvent::Moving { .. } => errand(event),
        RunEvent::Warning { message } => say(Tone::Careful, Phrase::own("warning: ").prose(message)),
        RunEvent::Resource { .. } | RunEvent::ApplyFinished { .. } | RunEvent::Ended { .. } => None,
    }
}

/// How the command of a plain Terraform has ended.
fn command_ended(code: Option<i32>, signal: Option<i32>) -> Told {
    let told = |tone, text: String| Told { tone, phrase: Phrase::own(text) };
    let written = "what it wrote until then stays written";
    match (code, signal) {
        (Some(0), _) => told(Tone::Quiet, "The command ended well".to_owned()),
        // That is no failure where `-detailed-exitcode` asked for it.
        (Some(2), _) => told(
            Tone::Careful,
            "The command ended with exit code 2: with -detailed-exitcode its plan has changes, else it failed"
                .to_owned(),
        ),
        (Some(code), _) => told(Tone::Alarm, format!("The command failed: it ended with exit code {code}; {written}")),
        (None, Some(signal)) => told(Tone::Alarm, format!("The command was ended by signal {signal}; {written}")),
        (None, None) => told(Tone::Alarm, format!("Nobody knows how the command ended; {written}")),
    }
}

/// Runs by their people.
#[must_use]
pub fn people(who: &[Holder]) -> Phrase {
    holders(&who.iter().map(|holder| holder.run).collect::<Vec<_>>(), who)
}

/// Runs by their people, as far as these are known.
fn holders(runs: &[RunId], who: &[Holder]) -> Phrase {
    let shown = runs.iter().take(MAX_NAMED).enumerate().fold(Phrase::default(), |phrase, (place, run)| {
        let phrase = if place > 0 { phrase.and(", ") } else { phrase };
        match who.iter().find(|holder| holder.run == *run) {
            Some(holder) => phrase.strong(holder.actor.0.clone()).and(" (run ").name(run.to_string()).and(")"),
            None => phrase.and("run ").name(run.to_string()),
        }
    });
    let more = runs.len().saturating_sub(MAX_NAMED);
    if more > 0 { shown.and(format!(" and {more} more")) } else { shown }
}

/// What stood in the way, and what that ended.
fn refused(title: &str, waited_seconds: Option<u64>, dry_run: bool) -> Phrase {
    let what = if dry_run { "Refused, in a dry run: " } else { "Refused: " };
    let phrase = Phrase::own(what).strong(title);
    match waited_seconds {
        Some(seconds) => {
            phrase.and(format!("; it had waited in turn for {}, and gave up", duration(Duration::from_secs(seconds))))
        }
        None => phrase,
    }
}

/// The sentence for what a change without Terraform sets out to do.
fn errand(event: &RunEvent) -> Option<Told> {
    let (tone, phrase) = match event {
        RunEvent::RollingBack { to, addresses } => {
            let what = Phrase::own("Taking back to serial ").strong(to.to_string()).and(": ");
            let what = if addresses.is_empty() { what.and("all rows") } else { what.names(addresses, MAX_NAMED) };
            (Tone::Careful, what.and("; real objects stay as they are"))
        }
        RunEvent::Removing { addresses } => {
            let what = Phrase::own("Removing from the state ").names(addresses, MAX_NAMED);
            (Tone::Careful, what.and("; real objects stay as they are"))
        }
        RunEvent::Moving { from, to } => (Tone::Quiet, Phrase::own("Moving ").name(from).and(" to ").name(to)),
        _ => return None,
    };
    Some(Told { tone, phrase })
}

/// Some sentences from outside, and how many more there are.
fn sentences(phrase: Phrase, all: &[String]) -> Phrase {
    let shown: Vec<String> = all.iter().take(MAX_NAMED).cloned().collect();
    let more = all.len().saturating_sub(MAX_NAMED);
    let phrase = phrase.prose(shown.join(", "));
    if more > 0 { phrase.and(format!(" and {more} more")) } else { phrase }
}
