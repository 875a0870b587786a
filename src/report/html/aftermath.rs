//! Conflicts and what became of them: every run that was refused, waited, was overtaken or left something behind, with who
//! was in its way, and how the change fared afterwards.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::view::RunView;
use crate::domain::coordination::reservation::{HeldAs, Reservation};
use crate::domain::id::{Actor, RunId};
use crate::domain::run::RunStatus;
use crate::domain::run::aftermath::{Aftermath, Became};
use crate::domain::run::again::{Again, again, settles};
use crate::domain::run::event::{ChangedRow, RowVersion};
use crate::report::phrase::Phrase;
use crate::report::story::{Told, Tone};
use crate::report::style::{between, count, duration};
use crate::report::{cells, changed_row, conflict};

/// So many reservations or rows of one meeting are told; the rest is counted.
const BY: usize = 8;

/// A run that met somebody else's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meeting {
    /// The run.
    pub(super) run: RunId,
    /// When.
    pub(super) at: DateTime<Utc>,
    /// What happened to it.
    pub(super) what: What,
    /// Whom or what it met.
    pub(super) by: Vec<By>,
    /// How many more there were.
    pub(super) more: usize,
    /// What became of it.
    pub(super) became: Told,
    /// Whether somebody still has to do something.
    pub(super) open: bool,
    /// The last run for the same change: meetings of one change that are open are one thing to do.
    pub(super) change: RunId,
}

/// What happened to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A reservation stood in its way.
    Refused,
    /// It stood in the queue.
    Waited,
    /// What it reads or writes had changed since its plan.
    Overtaken,
    /// The same, and planning again decided.
    Revalidated,
    /// Planning again gave another plan than the reviewed one.
    PlannedOtherwise,
    /// Somebody took its reservations.
    Lost,
    /// It changed real objects without a commit.
    LeftBehind,
}

/// Whom a run met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct By {
    /// The other run, if it was one.
    pub(super) run: Option<RunId>,
    /// In a sentence.
    pub(super) told: Phrase,
}

impl What {
    /// In a few words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Waited => "waited",
            Self::Overtaken => "plan overtaken",
            Self::Revalidated => "planned again",
            Self::PlannedOtherwise => "another plan",
            Self::Lost => "lost its lease",
            Self::LeftBehind => "left changes behind",
        }
    }

    /// How it is meant.
    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Waited => Tone::Waits,
            Self::Revalidated => Tone::Careful,
            Self::Refused | Self::Overtaken | Self::PlannedOtherwise | Self::Lost | Self::LeftBehind => Tone::Alarm,
        }
    }
}

/// All meetings of these runs, which stand in the order of their beginning; the newest first.
pub(super) fn meetings(runs: &[RunView], standing: &[Reservation], now: DateTime<Utc>) -> Vec<Meeting> {
    let places = runs.iter().enumerate().map(|(place, view)| (view.run.id, place)).collect();
    let book = Book { runs, places, standing, now };
    let mut found: Vec<Meeting> = (0..runs.len()).flat_map(|place| book.of(place)).collect();
    found.reverse();
    found
}

struct Book<'r> {
    runs: &'r [RunView],
    places: BTreeMap<RunId, usize>,
    standing: &'r [Reservation],
    now: DateTime<Utc>,
}

impl Book<'_> {
    fn of(&self, place: usize) -> Vec<Meeting> {
        let view = &self.runs[place];
        let change = self.later(place).last().map_or(view.run.id, |(_, last)| last.run.id);
        let mut found = Vec::new();
        let mut meet = |at, what, all: Vec<By>, (became, open): (Told, bool)| {
            let more = all.len().saturating_sub(BY);
            let by = all.into_iter().take(BY).collect();
            found.push(Meeting { run: view.run.id, at, what, by, more, became, open, change });
        };
        let refused = !view.run.conflict.is_empty();
        if let (Some((at, until)), false) = (view.waited, refused) {
            let by = view.behind.iter().map(|run| self.other(*run)).collect();
            meet(at, What::Waited, by, self.after_waiting(view, at, until));
        }
        if let Some(overtaken) = &view.overtaken {
            let rows = overtaken.rows.iter().flat_map(|row| self.changed(row)).collect();
            let (what, became) = if overtaken.revalidate {
                (What::Revalidated, self.revalidated(place))
            } else {
                (What::Overtaken, self.taken_up(place))
            };
            meet(overtaken.at, what, rows, became);
        } else if let (Some((at, differences)), RunStatus::Stale) = (&view.differs, view.run.status) {
            let by = differences.iter().map(|one| By { run: None, told: Phrase::default().prose(one) });
            meet(*at, What::PlannedOtherwise, by.collect(), self.taken_up(place));
        }
        if refused {
            let by = view.run.conflict.iter().map(|blocker| {
                let told = conflict::told(blocker);
                let request = told.request.map(|request| format!(" for {request}")).unwrap_or_default();
                By {
                    run: Some(blocker.reservation.run),
                    told: Phrase::name_of(told.pattern)
                        .and(format!(" ({}) {} ", told.mode, told.verb))
                        .strong(told.holder)
                        .and(format!("{request}, {}", told.since)),
                }
            });
            let at = view.run.conflict.first().map_or(view.run.started_at, |blocker| blocker.at);
            meet(at, What::Refused, by.collect(), self.taken_up(place));
        }
        if view.run.status == RunStatus::Lost {
            let takers = self.runs.iter().filter(|other| other.reclaimed.contains(&view.run.id));
            let by = takers.map(|other| self.other(other.run.id)).collect();
            meet(view.run.ended_at.unwrap_or(self.now), What::Lost, by, self.taken_up(place));
        }
        if !view.left.is_empty() {
            let by = view.left.iter().map(|row| By { run: None, told: Phrase::name_of(row.clone()) }).collect();
            meet(view.run.ended_at.unwrap_or(self.now), What::LeftBehind, by, self.cleaned_up(view));
        }
        found
    }

    /// Who changed a row, version by version.
    fn changed(&self, row: &ChangedRow) -> Vec<By> {
        let by = |version: &RowVersion| {
            let mut version = version.clone();
            // An older timeline does not say for which request it was, but the page may know the run.
            if let (None, Some(run)) = (version.origin.request, version.run.and_then(|run| self.find(run))) {
                version.origin = run.run.origin.clone();
            }
            let told = Phrase::name_of(row.row.clone()).and(" ").then(changed_row::did(&version));
            By { run: version.run, told }
        };
        row.known().iter().map(by).collect()
    }

    /// Another run by its actor and request, as far as it is on the page.
    fn other(&self, run: RunId) -> By {
        let told = match self.find(run) {
            Some(view) => {
                let request = self.request(run).map(|request| format!(" for {request}")).unwrap_or_default();
                Phrase::default().strong(view.run.actor.0.clone()).and(format!("{request}, run ")).name(run.to_string())
            }
            None => Phrase::own("run ").name(run.to_string()),
        };
        By { run: Some(run), told }
    }

    fn find(&self, run: RunId) -> Option<&RunView> {
        self.places.get(&run).map(|place| &self.runs[*place])
    }

    fn request(&self, run: RunId) -> Option<String> {
        self.find(run).and_then(|view| conflict::request(&view.run.origin))
    }

    fn after_waiting(&self, view: &RunView, from: DateTime<Utc>, until: Option<DateTime<Utc>>) -> (Told, bool) {
        let waited = duration(between(from, until.unwrap_or(self.now)));
        let (tone, text, open) = match (until, view.run.status, view.run.result_serial) {
            (None, ..) => (Tone::Waits, format!("Still waiting, for {waited} now"), false),
            (_, RunStatus::Committed, Some(serial)) => {
                (Tone::Good, format!("Went on after {waited}, and committed serial {serial}"), false)
            }
            (_, RunStatus::Noop | RunStatus::DryRun, _) => {
                (Tone::Good, format!("Went on after {waited}; there was nothing to do"), false)
            }
            (_, status, _) if !status.ended() => {
                (Tone::Waits, format!("Went on after {waited}, and is at work"), false)
            }
            (_, status, _) => {
                let status = status.word().replace('_', " ");
                (Tone::Alarm, format!("Waited for {waited}, and ended as {status}"), false)
            }
        };
        (Told { tone, phrase: Phrase::own(text) }, open)
    }

    /// Later runs that take the same change up again, and how.
    fn later(&self, place: usize) -> Vec<(Again, &RunView)> {
        let first = &self.runs[place].run;
        self.runs.iter().skip(place + 1).filter_map(|other| Some((again(first, &other.run)?, other))).collect()
    }

    /// Whether a change that did not go through was made later.
    fn taken_up(&self, place: usize) -> (Told, bool) {
        let view = &self.runs[place];
        let later = self.later(place);
        if let Some((how, done)) = later.iter().find(|(how, other)| settles(*how, &other.run)) {
            let did = match how {
                Again::Applied => "Applied again",
                Again::Planned => "Planned again, and applied",
                Again::Followed => "Followed by another plan for some of the same rows, applied",
            };
            let phrase = match done.run.result_serial {
                Some(serial) => Phrase::own(format!("{did} at "))
                    .then(cells::time(done.run.started_at))
                    .and(format!(" as serial {serial}")),
                None => Phrase::own("Tried again at ")
                    .then(cells::time(done.run.started_at))
                    .and(": there was nothing left to do"),
            };
            return (Told { tone: Tone::Good, phrase: phrase.then(self.after_whom(view, done)) }, false);
        }
        if let Some((_, last)) = later.last() {
            let live = !last.run.status.ended();
            let times =
                if later.len() > 1 { format!("{} times, the last one at ", later.len()) } else { "at ".to_owned() };
            let phrase = Phrase::own(format!("Tried again {times}"))
                .then(cells::time(last.run.started_at))
                .and(if live { ", and still at work: " } else { ", and not applied: " })
                .then(cells::status(last.run.status));
            return (Told { tone: if live { Tone::Waits } else { Tone::Alarm }, phrase }, !live);
        }
        (Told { tone: Tone::Careful, phrase: Phrase::own("Not tried again yet").then(self.now_free(view)) }, true)
    }

    /// `, after bob's run had ended`, when that is why it went through.
    fn after_whom(&self, view: &RunView, done: &RunView) -> Phrase {
        let mut holders: Vec<&Actor> = Vec::new();
        for blocker in &view.run.conflict {
            let ended = self.find(blocker.reservation.run).and_then(|other| other.run.ended_at);
            if ended.is_none_or(|ended| ended > done.run.ended_at.unwrap_or(self.now)) {
                return Phrase::default();
            }
            if !holders.contains(&&blocker.reservation.holder) {
                holders.push(&blocker.reservation.holder);
            }
        }
        match holders.as_slice() {
            [] => Phrase::default(),
            [one] => Phrase::own(", after ").strong(one.0.clone()).and("'s run had ended"),
            [first, rest @ ..] => Phrase::own(", after the runs of ")
                .strong(first.0.clone())
                .and(format!(" and {} had ended", count(rest.len(), "other"))),
        }
    }

    /// Whether what stood in the way is gone.
    fn now_free(&self, view: &RunView) -> Phrase {
        if view.run.conflict.is_empty() {
            return Phrase::default();
        }
        let held = view.run.conflict.iter().filter(|blocker| {
            let theirs = &blocker.reservation;
            self.standing.iter().any(|one| one.run == theirs.run && one.claim.pattern.intersects(&theirs.claim.pattern))
        });
        match held.count() {
            0 => Phrase::own("; what stood in the way is free by now"),
            number => Phrase::own(format!("; {} still in the way", are(number, "reservation"))),
        }
    }

    /// What came of planning again; and, where it was refused by that, whether the change was made later.
    fn revalidated(&self, place: usize) -> (Told, bool) {
        let view = &self.runs[place];
        let line =
            Phrase::own("Planned again: ").strong(view.replanned.clone().unwrap_or_else(|| "not yet".to_owned()));
        let status = view.run.status;
        let (tone, phrase) = match view.run.result_serial {
            Some(serial) => (Tone::Good, line.and(format!("; committed as serial {serial}"))),
            None if view.went_well() => (Tone::Good, line.and("; there was nothing to do")),
            None if !status.ended() => (Tone::Waits, line.and("; still at work")),
            None => {
                let (later, open) = self.taken_up(place);
                let line = line.and("; not applied: ").then(cells::status(status)).and(". ");
                return (Told { tone: later.tone, phrase: line.then(later.phrase) }, open);
            }
        };
        (Told { tone, phrase }, false)
    }

    /// What became of objects that were changed without a commit.
    fn cleaned_up(&self, view: &RunView) -> (Told, bool) {
        let kept = |by: RunId| {
            let phrase = Phrase::own("Still kept reserved; ")
                .name(format!("kl recover {by}"))
                .and(" takes over what was really changed");
            (Told { tone: Tone::Alarm, phrase }, true)
        };
        let id = view.run.id;
        if self.standing.iter().any(|one| one.run == id && one.held_as == HeldAs::Quarantine) {
            return kept(id);
        }
        let done = |tone, phrase| (Told { tone, phrase }, false);
        let Some(Aftermath { run, actor, at, became }) = &view.aftermath else {
            return done(Tone::Good, Phrase::own("Freed since"));
        };
        let told = |what: &str| Phrase::own(what).then(cells::time(*at));
        let by = |phrase: Phrase| phrase.and(" by ").strong(actor.0.clone());
        match became {
            Became::Kept => kept(*run),
            Became::UnderWay => done(Tone::Waits, by(told("Being recovered since "))),
            Became::Recovered { serial, left } => {
                let phrase = match serial {
                    Some(serial) => by(told("Recovered at ").and(format!(" as serial {serial}"))),
                    None => by(told("Recovered at ")).and("; there was nothing to take over"),
                };
                if left.is_empty() {
                    return done(Tone::Good, phrase);
                }
                let rows = format!("; {} left as the state had them: ", count(left.len(), "row"));
                done(Tone::Careful, phrase.and(rows).name(format!("kl explain {run}")))
            }
            Became::Dropped => done(Tone::Careful, by(told("Dropped at ")).and(": its real objects are nobody's")),
            Became::Forgotten => done(Tone::Good, by(Phrase::own("Taken over")).and(", run ").name(run.to_string())),
        }
    }
}

fn are(number: usize, thing: &str) -> String {
    format!("{} {}", count(number, thing), if number == 1 { "is" } else { "are" })
}
