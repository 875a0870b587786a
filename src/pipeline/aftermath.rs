//! Who has now what runs left half-done, and what came of it: looked up from one recovery to the next.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::story::found;
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::id::{Actor, RunId};
use crate::domain::run::Run;
use crate::domain::run::aftermath::{Aftermath, Became, LastWord, last_word};
use crate::domain::run::event::RecordedEvent;
use crate::store::{Store, StoreError};

/// A recovery that has taken over what a run left.
struct Heir {
    of: RunId,
    run: RunId,
    at: DateTime<Utc>,
    actor: Actor,
}

/// What has become of what a run left; none where nobody has done anything about it, or it left more since.
pub(super) async fn look(
    store: &dyn Store,
    run: &Run,
    events: &[RecordedEvent],
) -> Result<Option<Aftermath>, StoreError> {
    Ok(look_all(store, &[(run, events)], &[]).await?.remove(&run.id))
}

/// The same of each of some runs with their timelines. `known` are runs that need not be read again.
pub(super) async fn look_all(
    store: &dyn Store,
    timelines: &[(&Run, &[RecordedEvent])],
    known: &[Run],
) -> Result<HashMap<RunId, Aftermath>, StoreError> {
    let mut all = HashMap::new();
    let mut heirs = Vec::new();
    for (run, events) in timelines {
        let Some((word, more)) = last_word(events) else { continue };
        // What came late is the run's own again.
        if more && keeps(store, run).await? {
            continue;
        }
        match word {
            LastWord::Dropped(at, by) => {
                let dropped = Aftermath { run: run.id, actor: by.clone(), at, became: Became::Dropped };
                all.insert(run.id, dropped);
            }
            LastWord::TakenOver(by, at, actor) => heirs.push(Heir { of: run.id, run: by, at, actor: actor.clone() }),
        }
    }
    while !heirs.is_empty() {
        let ids: Vec<RunId> = heirs.iter().map(|heir| heir.run).collect();
        let outlines = store.event_outlines(&ids).await?;
        for Heir { of, run, at, actor } in std::mem::take(&mut heirs) {
            let events = outlines.get(&run).map_or(&[][..], Vec::as_slice);
            if let Some((LastWord::TakenOver(by, at, actor), _)) = last_word(events) {
                heirs.push(Heir { of, run: by, at, actor: actor.clone() });
                continue;
            }
            let status = match known.iter().find(|other| other.id == run) {
                Some(recovery) => Some(recovery.status),
                None => found(store.run_find(run).await)?.map(|recovery| recovery.status),
            };
            let became = status.map_or(Became::Forgotten, |status| Became::of(status, events));
            all.insert(of, Aftermath { run, actor, at, became });
        }
    }
    Ok(all)
}

/// Whether something is still quarantined for a run.
async fn keeps(store: &dyn Store, run: &Run) -> Result<bool, StoreError> {
    let standing = store.reservation_list(run.state).await?;
    Ok(standing.iter().any(|one| one.run == run.id && one.held_as == HeldAs::Quarantine))
}
