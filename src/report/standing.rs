//! What is running and what is reserved now: live runs, those that wait, quarantines, plain locks.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::page::Page;
use super::phrase::Phrase;
use super::story::{Told, Tone};
use super::style::{between, count, duration};
use super::{cells, json as documents};
use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::compact::compact;
use crate::domain::coordination::reservation::{AccessMode, HeldAs, Reservation};
use crate::domain::id::{RunId, Serial, StateName};
use crate::domain::run::Run;

/// So many reservations of one run are written out; the rest is counted.
pub const MAX_PATTERNS: usize = 8;

/// A state and what goes on in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub state: StateName,
    /// The serial of its trunk.
    pub serial: Serial,
    /// Runs that have not ended, the newest first.
    pub runs: Vec<Run>,
    /// How many live runs there are besides.
    pub more: usize,
    /// Everything that is reserved, waited for, quarantined or locked.
    pub reservations: Vec<Reservation>,
    /// Runs with a quarantine of which nothing is on record that could be recovered.
    pub unrecorded: BTreeSet<RunId>,
    /// The resource instances of the trunk, so that patterns too many to be written out can be shown by module; empty
    /// where they were not looked up.
    pub known: Vec<Address>,
}

impl Standing {
    /// Whether nothing is running and nothing is reserved.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.runs.is_empty() && self.reservations.is_empty()
    }
}

/// For people.
#[must_use]
pub fn page(states: &[Standing], now: DateTime<Utc>) -> Page {
    let mut page = Page::default();
    for state in states {
        page.title(Phrase::default().strong(state.state.as_str()).and(format!(" at serial {}", state.serial)));
        if state.idle() {
            let phrase = Phrase::own("nothing is running, nothing is reserved");
            page.point(Told { tone: Tone::Quiet, phrase }, Vec::new());
            continue;
        }
        if !state.runs.is_empty() {
            let rows: Vec<_> = state.runs.iter().map(|run| row(run, now)).collect();
            page.grid(&["Run", "Kind", "Status", "Actor", "Request", "Since"], &rows);
        }
        if state.more > 0 {
            page.note(Phrase::own(format!("and {} more", count(state.more, "live run"))));
        }
        for run in holders(&state.reservations) {
            let own: Vec<&Reservation> = state.reservations.iter().filter(|one| one.run == run).collect();
            if let Some((told, mut facts)) = held(run, &own, &state.known, now) {
                facts.extend(way_out(run, own[0], state.unrecorded.contains(&run)));
                page.point(told, facts);
            }
        }
    }
    page
}

fn row(run: &Run, now: DateTime<Utc>) -> Vec<Phrase> {
    vec![
        cells::run(run.id),
        Phrase::own(run.kind.word()),
        cells::status(run.status),
        Phrase::own(run.actor.0.clone()),
        cells::request(&run.origin),
        Phrase::own(duration(between(run.started_at, now))),
    ]
}

/// The runs that have something reserved, or wait for it.
fn holders(reservations: &[Reservation]) -> Vec<RunId> {
    let mut runs: Vec<RunId> = reservations.iter().map(|reservation| reservation.run).collect();
    runs.sort();
    runs.dedup();
    runs
}

/// What one run holds, or waits for: in a sentence, with the patterns behind it.
fn held(run: RunId, own: &[&Reservation], known: &[Address], now: DateTime<Utc>) -> Option<(Told, Vec<Phrase>)> {
    let first = own.first()?;
    let (tone, verb) = match (first.held_as, first.acquired_at) {
        (HeldAs::Quarantine, _) => (Tone::Alarm, "quarantined by "),
        (_, None) => (Tone::Waits, "waited for by "),
        (HeldAs::Lock, Some(_)) => (Tone::Careful, "locked by "),
        (HeldAs::Run, Some(_)) => (Tone::Good, "reserved by "),
    };
    let until = match first.expires_at {
        Some(expires) if expires > now => format!("expires in {}", duration(between(now, expires))),
        Some(_) => "its lease has ended".to_owned(),
        None => "does not expire".to_owned(),
    };
    let phrase =
        Phrase::own(verb).strong(first.holder.0.clone()).and(" (run ").name(run.to_string()).and(format!("), {until}"));
    let lines: Vec<Phrase> = [AccessMode::Write, AccessMode::Read]
        .into_iter()
        .flat_map(|mode| {
            let of_mode = own.iter().filter(|reservation| reservation.claim.mode == mode);
            let patterns: Vec<Pattern> = of_mode.map(|reservation| reservation.claim.pattern.clone()).collect();
            let shown = if known.is_empty() { patterns } else { compact(&patterns, known) };
            shown.into_iter().map(move |pattern| Phrase::own(format!("{:<5} ", mode.word())).name(pattern.to_string()))
        })
        .collect();
    let more = lines.len().saturating_sub(MAX_PATTERNS);
    let mut facts: Vec<Phrase> = lines.into_iter().take(MAX_PATTERNS).collect();
    if more > 0 {
        facts.push(Phrase::own(format!("… and {more} more")));
    }
    Some((Told { tone, phrase }, facts))
}

/// What frees the rows of a run that will not do so itself.
fn way_out(run: RunId, own: &Reservation, unrecorded: bool) -> Vec<Phrase> {
    let command = Phrase::default().name(format!("kl recover {run}"));
    match own.held_as {
        HeldAs::Quarantine if unrecorded => vec![
            Phrase::own("nothing of it is on record; its work directory may tell more, where that is still there: ")
                .then(command),
            Phrase::own("else look at the real objects, then ")
                .name(format!("kl recover {run} --discard"))
                .and(" frees the rows"),
        ],
        HeldAs::Quarantine => vec![command.and(" takes over what the run has really done")],
        HeldAs::Lock if own.acquired_at.is_some() => {
            vec![Phrase::default().name(format!("kl abort {run}")).and(" frees the lock, when its terraform is dead")]
        }
        HeldAs::Lock | HeldAs::Run => Vec::new(),
    }
}

/// For programs.
#[must_use]
pub fn document(states: &[Standing], now: DateTime<Utc>) -> Value {
    let states: Vec<Value> = states
        .iter()
        .map(|state| {
            json!({
                "state": state.state,
                "serial": state.serial,
                "runs": state.runs.iter().map(|run| json!({
                    "run": run.id,
                    "kind": run.kind,
                    "status": run.status,
                    "actor": run.actor,
                    "origin": run.origin,
                    "started_at": run.started_at,
                })).collect::<Vec<_>>(),
                "more_runs": state.more,
                "reservations": state.reservations.iter().map(documents::reservation).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "now": now, "states": states })
}
