//! `kl status`: live runs and what is reserved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Session;
use super::args::runs::StatusArgs;
use crate::domain::coordination::reservation::{HeldAs, Reservation};
use crate::domain::id::{RunId, Serial};
use crate::domain::run::{Run, RunStatus};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::page::Page;
use crate::report::phrase::Phrase;
use crate::report::standing::{self, LeftOut, MAX_PATTERNS, Standing};
use crate::report::style::between;
use crate::store::{QUEUE_TTL, Store};

/// Runs the command.
pub async fn run(session: &Session, args: StatusArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let (page, states, now) = look(store.as_ref(), &args).await?;
    session.out.page(&page, || standing::document(&states, now));
    Ok(Exit::Done)
}

/// Runs the command again and again, until somebody has seen enough.
pub async fn watch(session: &Session, args: StatusArgs, pause: Duration) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    loop {
        let round = async {
            let (page, states, now) = look(store.as_ref(), &args).await?;
            session.out.screen(&page, || standing::document(&states, now));
            tokio::time::sleep(pause).await;
            Ok::<_, KlError>(())
        };
        tokio::select! {
            looked = round => looked?,
            () = session.stop.interrupt.cancelled() => return Ok(Exit::Done),
        }
    }
}

/// What is running and what is reserved now: the page for people, and what it is made of.
async fn look(store: &dyn Store, args: &StatusArgs) -> Result<(Page, Vec<Standing>, DateTime<Utc>), KlError> {
    let mut heads = store.state_list().await?;
    if let Some(name) = &args.state {
        heads.retain(|head| head.name == *name);
        if heads.is_empty() {
            return Err(KlError::usage(format!("the database has no state {:?}", name.as_str()))
                .hint("`kl state list --all` shows the states"));
        }
    }
    let now = store.now().await?;
    let since = args.since.map(|since| since.moment(now));
    let before = match &args.before {
        Some(text) => Some(super::find_run(store, text).await?.id),
        None => None,
    };
    let mut states = Vec::new();
    for head in &heads {
        let mut state = Standing {
            state: head.name.clone(),
            serial: head.serial,
            runs: store.run_list(head.id, true, u32::MAX).await?,
            left_out: LeftOut::default(),
            reservations: store.reservation_list(head.id).await?,
            unrecorded: BTreeSet::new(),
            silent: BTreeMap::new(),
            behind: BTreeMap::new(),
            known: Vec::new(),
        };
        // Planned once and never applied: perhaps only a name that was mistyped. Who asks for it by name gets it.
        if state.idle() && head.serial == Serial(0) && args.state.is_none() {
            continue;
        }
        state.silent = silent(store, &state.runs, &state.reservations, now).await?;
        state.find_behind(now);
        state.select(since, before, args.limit as usize);
        // Only what is too long to be written out is shown by module, which takes a look at the whole trunk.
        if crowded(&state.reservations) {
            let trunk = store.snapshot(head.id, None).await?;
            state.known = trunk.rows.iter().filter_map(|(row, _)| row.key.address().cloned()).collect();
        }
        state.unrecorded = unrecorded(store, &state.reservations).await?;
        states.push(state);
    }
    let mut page = standing::page(&states, now);
    if heads.is_empty() {
        page.note(Phrase::own("There is no state yet; ").name("kl plan").and(" makes the first one."));
    } else if states.is_empty() {
        let text = "No state has a version yet, and nothing is running; ";
        page.note(Phrase::own(text).name("kl apply").and(" makes the first one."));
    }
    Ok((page, states, now))
}

/// The runs that look alive, hold nothing, wait for nothing, and were not heard of for longer than a place in the queue
/// is kept.
async fn silent(
    store: &dyn Store,
    runs: &[Run],
    reservations: &[Reservation],
    now: DateTime<Utc>,
) -> Result<BTreeMap<RunId, DateTime<Utc>>, KlError> {
    let has_some: BTreeSet<RunId> = reservations.iter().map(|one| one.run).collect();
    let without: Vec<&Run> = runs
        .iter()
        .filter(|run| matches!(run.status, RunStatus::Started | RunStatus::Waiting) && !has_some.contains(&run.id))
        .filter(|run| between(run.started_at, now) >= QUEUE_TTL)
        .collect();
    if without.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<RunId> = without.iter().map(|run| run.id).collect();
    let timelines = store.event_lists(&ids).await?;
    let heard = without.into_iter().map(|run| {
        let last = timelines.get(&run.id).and_then(|events| events.last()).map(|event| event.at);
        (run.id, last.unwrap_or(run.started_at))
    });
    Ok(heard.filter(|(_, heard)| between(*heard, now) >= QUEUE_TTL).collect())
}

/// Whether some run has more reserved than is written out one by one.
fn crowded(reservations: &[Reservation]) -> bool {
    let mut held: BTreeMap<RunId, usize> = BTreeMap::new();
    for reservation in reservations {
        *held.entry(reservation.run).or_default() += 1;
    }
    held.values().any(|count| *count > MAX_PATTERNS)
}

/// The runs with a quarantine that left no checkpoint.
async fn unrecorded(store: &dyn Store, reservations: &[Reservation]) -> Result<BTreeSet<RunId>, KlError> {
    let kept = reservations.iter().filter(|one| one.held_as == HeldAs::Quarantine).map(|one| one.run);
    let mut unrecorded = BTreeSet::new();
    for run in kept.collect::<BTreeSet<RunId>>() {
        if store.checkpoint_find(run).await?.is_none() {
            unrecorded.insert(run);
        }
    }
    Ok(unrecorded)
}
