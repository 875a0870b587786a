//! Who came while a run held something, and what became of it: told by what those runs have on their own record.

use super::request;
use crate::domain::id::RunId;
use crate::domain::run::Run;
use crate::domain::run::event::{RecordedEvent, RunEvent};
use crate::report::explain::{Later, Met};
use crate::report::view::NearbyRun;
use crate::store::model::RunQuery;
use crate::store::{Store, StoreError};

/// So many runs that began while a run held something are looked at, the newest ones.
const MOST: usize = 5000;

/// At least so many of those that began before are looked at: one that asks, or takes a lease, may be one of them.
const EARLIER: usize = 200;

/// So many runs are read at once.
const PAGE: u32 = 500;

/// So many timelines are read at once.
const OUTLINES: usize = 50;

/// Those that met a run, the first one first; and whether there were more runs than are looked at.
pub(super) async fn came(
    store: &dyn Store,
    run: &Run,
    events: &[RecordedEvent],
) -> Result<(Vec<(Later, NearbyRun)>, bool), StoreError> {
    let last = RunId(uuid::Uuid::max());
    let mut before = held_until(run, events).map(|end| (end, last));
    let (mut others, mut looked, mut earlier) = (Vec::new(), 0, 0);
    let cut = loop {
        let query = RunQuery { state: Some(run.state), before, limit: PAGE, ..RunQuery::default() };
        let page = store.run_page(&query).await?;
        let Some(oldest) = page.last() else { break false };
        before = Some((oldest.started_at, oldest.id));
        looked += page.len();
        earlier += page.iter().filter(|other| other.started_at < run.started_at).count();
        let all = page.len() < PAGE as usize || earlier >= EARLIER;
        let met = |other: &Run| other.id != run.id && other.ended_at.is_none_or(|end| end >= run.started_at);
        others.extend(page.into_iter().filter(met));
        if all || looked >= MOST {
            break !all;
        }
    };
    others.reverse();
    let mut found = Vec::new();
    // An outline names all that had changed beside a plan: few of them are in the memory at once.
    for page in others.chunks(OUTLINES) {
        let ids: Vec<RunId> = page.iter().map(|other| other.id).collect();
        let outlines = store.event_outlines(&ids).await?;
        for other in page {
            let events = outlines.get(&other.id).map_or(&[][..], Vec::as_slice);
            if let Some(met) = met(run.id, other, events) {
                found.push((Later { run: other.id, met }, request::nearby(other.clone())));
            }
        }
    }
    Ok((found, cut))
}

/// Until when a run held something: with what it left in quarantine. None while it does.
fn held_until(run: &Run, events: &[RecordedEvent]) -> Option<chrono::DateTime<chrono::Utc>> {
    // What was kept beside a recovery, or came after it, is the run's own still.
    let last = events.iter().rev().find_map(|recorded| match recorded.event {
        RunEvent::TakenOver { .. } | RunEvent::Discarded { .. } => Some(Some(recorded.at)),
        RunEvent::Quarantined { .. } => Some(None),
        _ => None,
    });
    last.unwrap_or(run.ended_at)
}

/// What another run met of this one, by its own record: the worst of it.
fn met(run: RunId, other: &Run, events: &[RecordedEvent]) -> Option<Met> {
    let mut found = None;
    for recorded in events {
        let met = match &recorded.event {
            RunEvent::Reserved { beside, .. } => {
                let neighbour = beside.iter().find(|neighbour| neighbour.run == run);
                neighbour.map(|neighbour| Met::Beside { relation: neighbour.relation })
            }
            RunEvent::Waiting { behind, .. } => behind.contains(&run).then_some(Met::Behind),
            RunEvent::Reclaimed { from, refused: false } => (*from == run).then_some(Met::Took),
            _ => None,
        };
        found = found.max(met);
    }
    let blockers = other.conflict.iter().filter(|blocker| blocker.reservation.run == run);
    let patterns: Vec<String> = blockers.map(|blocker| blocker.reservation.claim.pattern.to_string()).collect();
    let refused = (!patterns.is_empty()).then_some(Met::Refused { patterns });
    found.max(refused)
}
