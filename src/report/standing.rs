//! What is running and what is reserved now: live runs, those that wait, quarantines, plain locks.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::page::Page;
use super::phrase::Phrase;
use super::story::{self, Told, Tone};
use super::style::{between, count, duration};
use super::{cells, json as documents};
use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::compact::compact;
use crate::domain::coordination::reservation::{AccessMode, Claim, HeldAs, Reservation, blockers};
use crate::domain::id::{RunId, Serial, StateName};
use crate::domain::run::event::{self, Holder};
use crate::domain::run::{Run, RunStatus};

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
    /// What was left out of it.
    pub left_out: LeftOut,
    /// Everything that is reserved, waited for, quarantined or locked.
    pub reservations: Vec<Reservation>,
    /// Runs with a quarantine of which nothing is on record that could be recovered.
    pub unrecorded: BTreeSet<RunId>,
    /// Live runs that neither hold nor wait for anything, and when they were heard of last.
    pub silent: BTreeMap<RunId, DateTime<Utc>>,
    /// Behind whom each run waits that does.
    pub behind: BTreeMap<RunId, Vec<Holder>>,
    /// The resource instances of the trunk, so that patterns too many to be written out can be shown by module; empty
    /// where they were not looked up.
    pub known: Vec<Address>,
}

/// What a page of what goes on does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// How many runs, live or with something reserved, come behind the page.
    pub older: usize,
    /// The last run of the page, where some come behind it.
    pub next: Option<RunId>,
    /// Whether filters have hidden something.
    pub hidden: bool,
}

impl Standing {
    /// Keeps the newest runs, live or with something reserved, and what is reserved by them: those that began since a
    /// moment, that come behind another run, at most so many.
    pub fn select(&mut self, since: Option<DateTime<Utc>>, before: Option<RunId>, limit: usize) {
        let mut began: BTreeMap<RunId, DateTime<Utc>> = BTreeMap::new();
        for one in &self.reservations {
            let asked = began.entry(one.run).or_insert(one.asked_at);
            *asked = one.asked_at.min(*asked);
        }
        began.extend(self.runs.iter().map(|run| (run.id, run.started_at)));
        let all = began.len();
        // The ids of runs are in the order of time.
        let kept = began
            .into_iter()
            .rev()
            .filter(|(run, at)| since.is_none_or(|since| *at >= since) && before.is_none_or(|before| *run < before));
        let mut kept: Vec<RunId> = kept.map(|(run, _)| run).collect();
        let older = kept.len().saturating_sub(limit);
        let hidden = kept.len() < all;
        kept.truncate(limit);
        self.left_out = LeftOut { older, next: kept.last().copied().filter(|_| older > 0), hidden };
        let kept: BTreeSet<RunId> = kept.into_iter().collect();
        self.runs.retain(|run| kept.contains(&run.id));
        self.reservations.retain(|one| kept.contains(&one.run));
    }

    /// Finds out behind whom each run waits, by what is reserved.
    pub fn find_behind(&mut self, now: DateTime<Utc>) {
        let mut waits: BTreeMap<RunId, (i64, Vec<Claim>)> = BTreeMap::new();
        for one in self.reservations.iter().filter(|one| one.acquired_at.is_none()) {
            waits.entry(one.run).or_insert((one.ticket, Vec::new())).1.push(one.claim.clone());
        }
        let behind = |(run, (ticket, claims)): (RunId, (i64, Vec<Claim>))| {
            (run, event::holders(&blockers(run, ticket, &claims, &self.reservations, now)))
        };
        self.behind = waits.into_iter().map(behind).collect();
    }

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
            let phrase = Phrase::own(if state.left_out.hidden {
                "what is running or reserved is hidden by --since or --before"
            } else {
                "nothing is running, nothing is reserved"
            });
            page.point(Told { tone: Tone::Quiet, phrase }, Vec::new());
            continue;
        }
        if !state.runs.is_empty() {
            let rows: Vec<_> = state.runs.iter().map(|run| row(run, state.silent.get(&run.id), now)).collect();
            page.grid(&["Run", "Kind", "Status", "Actor", "Request", "Since"], &rows);
            if let Some(run) = state.runs.iter().map(|run| run.id).find(|run| state.silent.contains_key(run)) {
                page.note(
                    Phrase::own("A run that was not heard of blocks nobody: ")
                        .name(format!("kl abort {run}"))
                        .and(" ends it when it is dead, as ")
                        .name("kl gc --yes")
                        .and(" does after an hour."),
                );
            }
        }
        for run in holders(&state.reservations) {
            let own = state.reservations.iter().filter(|one| one.run == run);
            let (granted, waiting): (Vec<&Reservation>, Vec<&Reservation>) =
                own.partition(|one| one.acquired_at.is_some() || one.held_as == HeldAs::Quarantine);
            for part in [granted, waiting] {
                if let Some((told, mut facts)) = held(run, &part, &state.known, now) {
                    let behind = state.behind.get(&run).filter(|all| part[0].acquired_at.is_none() && !all.is_empty());
                    facts.extend(behind.map(|all| Phrase::own("behind ").then(story::people(all))));
                    facts.extend(way_out(run, part[0], state.unrecorded.contains(&run), now));
                    page.point(told, facts);
                }
            }
        }
        if let Some(next) = state.left_out.next {
            let of = if states.len() > 1 { format!("--state {} ", state.state.as_str()) } else { String::new() };
            let older = count(state.left_out.older, "older run");
            page.note(Phrase::own(format!("{older}: the same with ")).name(format!("{of}--before {next}")));
        }
    }
    page
}

fn row(run: &Run, silent: Option<&DateTime<Utc>>, now: DateTime<Utc>) -> Vec<Phrase> {
    let status = match silent {
        // A place is kept for so long only after the last time that somebody asked.
        Some(_) if run.status == RunStatus::Waiting => cells::status(run.status).and(", its place has lapsed"),
        Some(heard) => {
            let silence = duration(between(*heard, now));
            cells::status(run.status).and(format!(", not heard of for {silence}"))
        }
        None => cells::status(run.status),
    };
    vec![
        cells::run(run.id),
        Phrase::own(run.kind.word()),
        status,
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
    let ended = first.expires_at.is_some_and(|expires| expires <= now);
    let (tone, verb) = match (first.held_as, first.acquired_at) {
        (HeldAs::Quarantine, _) => (Tone::Alarm, "quarantined by "),
        (_, None) => (Tone::Waits, "waited for by "),
        (HeldAs::Lock, Some(_)) => (Tone::Careful, "locked by "),
        (HeldAs::Run, Some(_)) if ended => (Tone::Alarm, "still reserved by "),
        (HeldAs::Run, Some(_)) => (Tone::Good, "reserved by "),
    };
    let until = match first.expires_at {
        Some(expires) if expires > now => format!("expires in {}", duration(between(now, expires))),
        Some(_) if first.acquired_at.is_none() => "its place has lapsed".to_owned(),
        Some(_) => "its lease has ended: whoever needs the rows next takes them".to_owned(),
        None => "does not expire".to_owned(),
    };
    let phrase =
        Phrase::own(verb).strong(first.holder.0.clone()).and(" (run ").name(run.to_string()).and(format!("), {until}"));
    let lines: Vec<Phrase> = [AccessMode::Write, AccessMode::Read]
        .into_iter()
        .flat_map(|mode| {
            let of_mode = own.iter().filter(|reservation| reservation.claim.mode == mode);
            let patterns: Vec<Pattern> = of_mode.map(|reservation| reservation.claim.pattern.clone()).collect();
            // By what this run holds alone: the same hold reads the same, whatever else stands beside it.
            let shown = if own.len() > MAX_PATTERNS { compact(&patterns, known) } else { patterns };
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

/// Whether somebody should have renewed it by now.
fn lease_ended(reservation: &Reservation, now: DateTime<Utc>) -> bool {
    reservation.expires_at.is_some_and(|expires| expires <= now)
}

/// What frees the rows of a run that will not do so itself.
fn way_out(run: RunId, own: &Reservation, unrecorded: bool, now: DateTime<Utc>) -> Vec<Phrase> {
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
        HeldAs::Run if own.acquired_at.is_some() && lease_ended(own, now) => vec![
            Phrase::own("nobody renews it: its job is dead, or cut off from the database; ")
                .name(format!("kl recover {run}"))
                .and(" ends it and takes over what it has changed; the next run that needs these rows ends it, too"),
        ],
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
                    "silent_since": state.silent.get(&run.id),
                    "behind": state.behind.get(&run.id).into_iter().flatten().collect::<Vec<_>>(),
                })).collect::<Vec<_>>(),
                "left_out": state.left_out.older,
                "next_before": state.left_out.next,
                "reservations": state.reservations.iter().map(documents::reservation).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "now": now, "states": states })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{at, blocker, run, run_id};

    /// A state with what these runs have asked for: each `RUN seconds`, granted or not, until when.
    fn standing(asked: &[(u128, Option<i64>, i64)]) -> Standing {
        let reservation = |(number, granted, expires): &(u128, Option<i64>, i64)| Reservation {
            run: run_id(*number),
            acquired_at: granted.map(at),
            asked_at: at(600),
            expires_at: Some(at(*expires)),
            ..blocker("aws_vpc.main", HeldAs::Run, &[]).reservation
        };
        Standing {
            state: StateName::new("prod").unwrap(),
            serial: Serial(7),
            runs: Vec::new(),
            left_out: LeftOut::default(),
            reservations: asked.iter().map(reservation).collect(),
            silent: BTreeMap::new(),
            unrecorded: BTreeSet::new(),
            behind: BTreeMap::new(),
            known: Vec::new(),
        }
    }

    fn told(standing: Standing) -> String {
        anstream::adapter::strip_str(&page(&[standing], at(1_000)).terminal()).to_string()
    }

    #[test]
    fn who_waits_does_not_hold_and_an_ended_lease_is_not_calm() {
        let text = told(standing(&[(12, Some(600), 1_500), (12, None, 1_500)]));
        assert!(text.contains("✓ reserved by ") && text.contains("… waited for by "), "{text}");
        let text = told(standing(&[(12, None, 1_500)]));
        assert!(!text.contains("reserved by"), "{text}");
        let text = told(standing(&[(12, Some(600), 900)]));
        assert!(text.contains("! still reserved by ") && !text.contains('✓'), "{text}");
        assert!(text.contains("its lease has ended: whoever needs the rows next takes them"), "{text}");
    }

    #[test]
    fn a_page_has_the_newest_and_says_what_it_left_out() {
        let three = || standing(&[(11, Some(600), 1_500), (12, Some(600), 1_500), (13, None, 1_500)]);
        let (mut first, mut second, mut none) = (three(), three(), three());
        first.runs = vec![Run { id: run_id(13), started_at: at(600), ..run(crate::domain::run::RunStatus::Waiting) }];
        first.select(None, None, 2);
        let runs = |standing: &Standing| holders(&standing.reservations);
        assert_eq!(runs(&first), [run_id(12), run_id(13)]);
        assert_eq!(first.left_out, LeftOut { older: 1, next: Some(run_id(12)), hidden: false });
        let text = told(first);
        assert!(text.contains(&format!("1 older run: the same with --before {}", run_id(12))), "{text}");
        second.select(None, Some(run_id(12)), 2);
        assert_eq!((runs(&second), second.left_out.next), (vec![run_id(11)], None));
        none.select(Some(at(601)), None, 2);
        assert!(none.idle() && none.left_out.hidden);
        assert!(told(none).contains("hidden by --since or --before"));
    }

    #[test]
    fn who_waits_is_told_behind_whom() {
        let mut standing = standing(&[(12, Some(600), 1_500), (13, None, 1_500), (14, None, 1_500)]);
        for (place, one) in standing.reservations.iter_mut().enumerate() {
            one.ticket = i64::try_from(place).unwrap();
        }
        standing.find_behind(at(1_000));
        let (holder, waiter) = (format!("bob (run {})", run_id(12)), format!("bob (run {})", run_id(13)));
        let text = told(standing);
        assert!(text.contains(&format!("behind {holder}\n")), "{text}");
        assert!(text.contains(&format!("behind {holder}, {waiter}\n")), "{text}");
        assert_eq!(text.matches("behind ").count(), 2, "{text}");
    }

    #[test]
    fn an_ended_lease_says_what_to_do() {
        let loud = told(standing(&[(12, Some(600), 900)]));
        let line =
            format!("nobody renews it: its job is dead, or cut off from the database; kl recover {}", run_id(12));
        assert!(loud.contains(&line), "{loud}");
        let calm = told(standing(&[(12, Some(600), 1_500)]));
        assert!(!calm.contains("nobody renews it"), "{calm}");
    }

    #[test]
    fn a_hold_reads_the_same_whatever_stands_beside_it() {
        let holds = |held: &[(u128, String)]| {
            let reservation = |(number, pattern): &(u128, String)| Reservation {
                run: run_id(*number),
                acquired_at: Some(at(600)),
                expires_at: Some(at(1_500)),
                ..blocker(pattern, HeldAs::Run, &[]).reservation
            };
            Standing {
                reservations: held.iter().map(reservation).collect(),
                known: held.iter().filter_map(|(_, pattern)| Address::parse(pattern).ok()).collect(),
                ..standing(&[])
            }
        };
        let mut held = vec![(2, "module.web.x.a".to_owned()), (2, "module.web.x.b".to_owned())];
        let alone = told(holds(&held));
        held.extend((0..9).map(|number| (3, format!("module.db.x.y[{number}]"))));
        let beside = told(holds(&held));
        for text in [&alone, &beside] {
            assert!(text.contains("write module.web.x.a\n      write module.web.x.b\n"), "{text}");
        }
        assert!(beside.contains("write module.db.*\n"), "{beside}");
    }
}
