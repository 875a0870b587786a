//! What is known of what a run did: from its checkpoint, its timeline, and what it left on this machine.

use std::collections::{BTreeMap, BTreeSet};

use super::checkpoint::{changed_patterns, checkpoint};
use super::leftover::{Here, Leftover};
use super::{Context, done};
use crate::domain::address::Pattern;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::AccessMode;
use crate::domain::id::Serial;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::Run;
use crate::domain::run::event::{ResourceStep, RunEvent};
use crate::domain::run::half_made;
use crate::domain::run::in_flight::{Effect, InFlight};
use crate::domain::run::unshown::{Intent, with_unshown, without_a_state};
use crate::domain::run::workplace::Workplace;
use crate::domain::state::delta::{Distance, distance};
use crate::domain::state::document::{self, StateDocument};
use crate::domain::state::{Body, Row, RowKey};
use crate::error::KlError;
use crate::store::StoreError;
use crate::store::model::Checkpoint;

/// What is known of a run that ended without a commit.
pub struct Evidence {
    /// What it did; none when nothing is on record.
    pub checkpoint: Option<Checkpoint>,
    /// What of this the store did not know: it is new, or another one there.
    pub news: Vec<Pattern>,
    /// Objects that were being created when the run was cut off, and that may exist without being in any state.
    pub unknown: Vec<String>,
    /// Where Terraform may have gone on unseen.
    pub unseen: Option<Workplace>,
    /// What Terraform brought to its end when kl no longer heard it, for the run's timeline.
    pub unheard: Vec<RunEvent>,
    /// The work directory, to be cleared away when all of this is in the trunk.
    pub here: Option<Here>,
}

/// Gathers what is known of a run, given what it left.
pub async fn gather(ctx: &Context, run: &Run, leftover: Leftover) -> Result<Evidence, KlError> {
    let stored = ctx.store.checkpoint_find(run.id).await?;
    let events: Vec<RunEvent> = ctx.store.event_list(run.id).await?.into_iter().map(|one| one.event).collect();
    match leftover {
        Leftover::Here(here) => {
            let intent = intent(ctx, run, Some(here.workplace.slice_serial)).await?;
            let (checkpoint, actions) = complete(ctx, run, stored.clone(), &here, &intent).await?;
            let news = news(run, stored.as_ref(), &checkpoint)?;
            let unknown = unknown(ctx, run, &checkpoint, &actions, &intent).await?;
            let unheard = unheard(&here, &events);
            Ok(Evidence { checkpoint: Some(checkpoint), news, unknown, unseen: None, unheard, here: Some(*here) })
        }
        Leftover::Elsewhere(workplace) => {
            let ended = events.iter().any(|event| matches!(event, RunEvent::ApplyFinished { .. }));
            // The last checkpoint comes after the end, and one that was cut off before names what it does not have. Where the
            // last one could not be written an older one is stored, which does not name what came after it.
            let whole = |stored: &Checkpoint| stored.in_flight.is_empty() && has_all_finished(stored, &events);
            let whole = ended && stored.as_ref().is_some_and(whole);
            let unseen = (!whole).then_some(workplace);
            on_record(ctx, run, stored, unseen).await
        }
        Leftover::Closed(error) => Err(error),
        Leftover::Nothing | Leftover::Working(_) => on_record(ctx, run, stored, None).await,
    }
}

/// Whether a checkpoint has all that Terraform finished, as the timeline tells.
fn has_all_finished(stored: &Checkpoint, events: &[RunEvent]) -> bool {
    let recorded = stored.recorded();
    events.iter().all(|event| match event {
        RunEvent::Resource { address, action, step: ResourceStep::Finished, .. } => {
            action == "read" || recorded.contains(address)
        }
        _ => true,
    })
}

/// What the store knows of a run, from its checkpoint and its timeline alone.
pub async fn on_record(
    ctx: &Context,
    run: &Run,
    stored: Option<Checkpoint>,
    unseen: Option<Workplace>,
) -> Result<Evidence, KlError> {
    let unknown = match &stored {
        Some(stored) => {
            let events: Vec<RunEvent> = ctx.store.event_list(run.id).await?.into_iter().map(|one| one.event).collect();
            let intent = intent(ctx, run, stored.slice_serial).await?;
            unknown(ctx, run, stored, &begun(&events), &intent).await?
        }
        None => Vec::new(),
    };
    Ok(Evidence { checkpoint: stored, news: Vec::new(), unknown, unseen, unheard: Vec::new(), here: None })
}

/// What a later checkpoint of a run has, and an earlier one had not, or otherwise.
fn news(run: &Run, stored: Option<&Checkpoint>, now: &Checkpoint) -> Result<Vec<Pattern>, KlError> {
    let Some(stored) = stored else { return Ok(now.changed.clone()) };
    let (before, after) = (document::read(&stored.state)?.rows, document::read(&now.state)?.rows);
    let changed = changed_patterns(&of_the_run(run, before.into_iter()), &of_the_run(run, after.into_iter()))?;
    let (then, now_known) = (stored.recorded(), now.recorded());
    let new = |pattern: &&Pattern| {
        let found_out = || now_known.contains(&pattern.to_string()) && !then.contains(&pattern.to_string());
        !stored.changed.contains(pattern) || changed.contains(pattern) || found_out()
    };
    Ok(now.changed.iter().filter(new).cloned().collect())
}

/// What a Terraform that goes on alone has done so far, and is working on.
pub async fn so_far(ctx: &Context, run: &Run, here: &Here) -> Result<Checkpoint, KlError> {
    let stored = ctx.store.checkpoint_find(run.id).await?;
    let intent = intent(ctx, run, Some(here.workplace.slice_serial)).await?;
    Ok(complete(ctx, run, stored, here, &intent).await?.0)
}

/// What the run was to do, as far as its spec is still there: without what earlier applies of it had done when the run cut
/// its slice.
async fn intent(ctx: &Context, run: &Run, slice_serial: Option<Serial>) -> Result<Intent, KlError> {
    let Some(id) = run.spec else { return Ok(Intent::default()) };
    let spec = match ctx.store.spec_find(id).await {
        Ok(stored) => PlanSpec::read(&stored.spec.document).ok(),
        Err(StoreError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(spec) = spec else { return Ok(Intent::default()) };
    let intent = Intent::of(&spec.write);
    let Some(serial) = slice_serial.filter(|serial| *serial > spec.state.serial) else { return Ok(intent) };
    let Ok(done) = done::by_same_spec(ctx, run.state, &spec, Some(serial)).await else {
        // The history is gone: all of it may have been left to do.
        return Ok(intent);
    };
    let before = ctx.store.snapshot(run.state, Some(serial)).await?.rows;
    Ok(intent.without(&done.made, &done.updated, &before.into_iter().map(|(row, _)| row).collect::<Vec<Row>>())?)
}

/// What the log says of ended objects, and the timeline does not.
fn unheard(here: &Here, events: &[RunEvent]) -> Vec<RunEvent> {
    // Of a replacement, the end of the old object is no end of the new one.
    let heard: BTreeSet<(&str, &str)> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Resource { address, action, step: ResourceStep::Finished, .. } => Some((&**address, &**action)),
            _ => None,
        })
        .collect();
    let Some(in_flight) = here.log.as_ref().map(|log| &log.in_flight) else { return Vec::new() };
    let unheard = in_flight.effects().filter(|(address, effect)| !heard.contains(&(*address, effect.action())));
    let event = |(address, effect): (&str, Effect)| RunEvent::Resource {
        address: address.to_owned(),
        action: effect.action().to_owned(),
        step: ResourceStep::Finished,
        elapsed_seconds: in_flight.seconds(address).unwrap_or(0),
    };
    unheard.map(event).collect()
}

/// What was begun and not ended, by the timeline.
fn begun(events: &[RunEvent]) -> InFlight {
    let mut in_flight = InFlight::default();
    for event in events {
        if let RunEvent::Resource { address, action, step, elapsed_seconds } = event {
            match step {
                ResourceStep::Started => in_flight.began(address, action),
                ResourceStep::Finished => in_flight.completed(address, *elapsed_seconds),
                ResourceStep::Failed => in_flight.errored(address),
                ResourceStep::Progress => {}
            }
        }
    }
    in_flight
}

/// The checkpoint that the run would have taken last, from the files that it left.
async fn complete(
    ctx: &Context,
    run: &Run,
    stored: Option<Checkpoint>,
    here: &Here,
    intent: &Intent,
) -> Result<(Checkpoint, InFlight), KlError> {
    let serial = here.workplace.slice_serial;
    let log = here.log.as_ref();
    let in_flight = log.map(|log| log.in_flight.clone()).unwrap_or_default();
    let snapshot = ctx.store.snapshot(run.state, Some(serial)).await?;
    let before = of_the_run(run, snapshot.rows.into_iter().map(|(row, _)| row));
    let older = stored.as_ref().map(|stored| document::read(&stored.state)).transpose()?;
    // Before Terraform has finished its first object there need not be any file.
    let nothing_yet = before.is_empty() && stored.is_none() && in_flight.nothing_finished();
    let text = here.state.clone().or_else(|| nothing_yet.then(String::new));
    let newer = text.and_then(|text| Some((document::read(&text).ok()?, text)));
    // A state that had no version yet got a lineage from Terraform, which the trunk need not have taken.
    let lineage = snapshot.head.lineage.as_ref().filter(|_| serial.0 > 0);
    if let Some((newer, text)) = newer
        && follows(&newer, older.as_ref(), lineage)
    {
        let text = half_made::tainted(text, &in_flight, &before)?;
        let after = of_the_run(run, document::read(&text)?.rows.into_iter());
        let changed = changed_patterns(&before, &after)?;
        let in_flight = with_unshown(&in_flight, intent, &before, &after)?;
        return Ok((checkpoint(text, changed, &in_flight, serial), in_flight));
    }
    // The state was torn: what finished since the checkpoint is in no state.
    let mut stored = stored.unwrap_or_else(|| checkpoint(String::new(), Vec::new(), &InFlight::default(), serial));
    stored.state = half_made::tainted(stored.state, &in_flight, &before)?;
    let in_flight = without_a_state(&in_flight, intent, &stored.recorded());
    Ok((checkpoint(stored.state, stored.changed, &in_flight, serial), in_flight))
}

/// Whether a state is a later one of the same history.
fn follows(newer: &StateDocument, older: Option<&StateDocument>, trunk: Option<&crate::domain::id::Lineage>) -> bool {
    let older = older.filter(|older| older.lineage.is_some());
    let lineage = older.and_then(|older| older.lineage.as_ref()).or(trunk);
    let same = lineage.is_none() || newer.lineage.is_none() || newer.lineage.as_ref() == lineage;
    same && older.is_none_or(|older| newer.serial >= older.serial)
}

/// The rows that a run may write.
fn of_the_run(run: &Run, rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let index = ClaimIndex::new(&run.claims);
    let writes = |pattern: Pattern| index.meeting(&pattern).any(|claim| claim.mode == AccessMode::Write);
    rows.filter(|row| row.key.pattern().is_some_and(writes)).collect()
}

/// Objects in flight that were being created and that the checkpoint's state does not have. An action that is not known
/// may have been that.
async fn unknown(
    ctx: &Context,
    run: &Run,
    checkpoint: &Checkpoint,
    actions: &InFlight,
    intent: &Intent,
) -> Result<Vec<String>, KlError> {
    let meant = |address: &str| intent.effect(address).map(Effect::action);
    let action = |address: &str| actions.action(address).filter(|action| !action.is_empty()).or_else(|| meant(address));
    let may_be_new = |address: &&String| !matches!(action(address), Some("update" | "delete" | "read"));
    let candidates: Vec<&String> = checkpoint.in_flight.iter().filter(may_be_new).collect();
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let before = match checkpoint.slice_serial {
        Some(serial) => ctx.store.snapshot(run.state, Some(serial)).await?.rows,
        None => Vec::new(),
    };
    let before: BTreeMap<RowKey, Body> = before.into_iter().map(|(row, _)| (row.key, row.body)).collect();
    let mut made = BTreeSet::new();
    for row in document::read(&checkpoint.state)?.rows {
        let new = match before.get(&row.key) {
            Some(before) => distance(before, &row.body)? == Distance::Hard,
            None => true,
        };
        if new && row.key.qualifier().is_empty() {
            made.insert(row.key.address_text());
        }
    }
    Ok(candidates.into_iter().filter(|address| !made.contains(*address)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_is_older_than_what_was_finished_is_not_whole() {
        let finished = |address: &str, action: &str| RunEvent::Resource {
            address: address.to_owned(),
            action: action.to_owned(),
            step: ResourceStep::Finished,
            elapsed_seconds: 1,
        };
        let changed = vec![Pattern::parse("x.first").unwrap()];
        let stored = Checkpoint { state: String::new(), changed, in_flight: Vec::new(), slice_serial: None };
        let mut events = vec![finished("data.x.seen", "read"), finished("x.first", "create")];
        assert!(has_all_finished(&stored, &events));
        events.push(finished("x.second", "create"));
        assert!(!has_all_finished(&stored, &events));
    }
}
