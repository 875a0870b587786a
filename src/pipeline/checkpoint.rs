//! Checkpoints: what Terraform has done so far is copied into the store while it applies, so that no crash loses it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::Utf8PathBuf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Context;
use super::bench::blocking;
use super::record::Recorder;
use crate::domain::address::Pattern;
use crate::domain::id::Serial;
use crate::domain::run::event::{ResourceStep, RunEvent};
use crate::domain::run::half_made;
use crate::domain::run::in_flight::InFlight;
use crate::domain::run::unshown::{Intent, with_unshown, without_a_state};
use crate::domain::run::workplace::Workplace;
use crate::domain::state::delta::{Distance, distance};
use crate::domain::state::{Body, Row, RowKey, document};
use crate::error::KlError;
use crate::store::model::Checkpoint;
use crate::terraform::UiEvent;
use crate::workspace::{self, WorkspaceError};

/// At most one checkpoint in this time.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// The slice that Terraform works on.
#[derive(Clone)]
pub struct Watched {
    /// Where Terraform has its state.
    pub state_path: Utf8PathBuf,
    /// Where it leaves its state when it cannot write it there.
    pub errored: Utf8PathBuf,
    /// The rows that the apply starts from.
    pub before: Vec<Row>,
    /// The serial of the trunk that they come from.
    pub serial: Serial,
    /// What the apply is to do.
    pub intent: Intent,
    /// Instances that the plan found different in reality and that the apply does not write. Terraform takes them into its
    /// state as it has found them; they are not what the run has done.
    pub drifted: BTreeSet<String>,
}

/// What a checkpoint keeps.
pub struct Kept {
    /// Rows that differ from the slice, and those of what is in flight.
    pub changed: Vec<Pattern>,
    /// What Terraform was working on, and what it did, or may have done, without a trace in its state.
    pub in_flight: Vec<String>,
}

impl From<&Checkpoint> for Kept {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self { changed: checkpoint.changed.clone(), in_flight: checkpoint.in_flight.clone() }
    }
}

/// Writes events and checkpoints beside a running apply.
pub struct Scribe {
    sender: UnboundedSender<UiEvent>,
    task: JoinHandle<InFlight>,
}

impl Scribe {
    /// Starts writing; `workplace` is completed by the process group, once there is one.
    pub fn start(ctx: Context, recorder: Recorder, watched: Watched, workplace: Workplace) -> Self {
        let (sender, receiver) = unbounded_channel();
        let task = tokio::spawn(write(ctx, recorder, watched, workplace, receiver));
        Self { sender, task }
    }

    /// Hands over an event of Terraform; never blocks.
    pub fn sender(&self) -> UnboundedSender<UiEvent> {
        self.sender.clone()
    }

    /// Waits until everything is written. Returns what Terraform began with and never finished.
    pub async fn finish(self) -> InFlight {
        drop(self.sender);
        self.task.await.unwrap_or_default()
    }
}

async fn write(
    ctx: Context,
    recorder: Recorder,
    watched: Watched,
    workplace: Workplace,
    mut events: UnboundedReceiver<UiEvent>,
) -> InFlight {
    let mut in_flight = InFlight::default();
    let mut due: Option<Instant> = None;
    let mut last: Option<Instant> = None;
    let mut batch = Vec::new();
    loop {
        let wait = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            received = events.recv_many(&mut batch, 256) => {
                if received == 0 {
                    return in_flight;
                }
                for event in &batch {
                    if let UiEvent::Started(group) = event {
                        let workplace = Workplace { group: Some(*group), ..workplace.clone() };
                        if let Err(error) = ctx.store.workplace_put(recorder.run(), &workplace).await {
                            ctx.warn(format!("the process group could not be recorded: {error}"));
                        }
                    }
                }
                let told: Vec<RunEvent> = batch.drain(..).filter_map(|event| run_event(event, &mut in_flight)).collect();
                let worked = told.iter().any(|event| {
                    matches!(event, RunEvent::Resource { step: ResourceStep::Started | ResourceStep::Finished | ResourceStep::Failed, .. })
                });
                // The timeline must not stop the apply: a checkpoint that fails, or an event that is lost while the
                // database is away, is made good by the one after it.
                if let Err(error) = recorder.record_all(told).await {
                    ctx.warn(format!("the timeline could not be written: {error}"));
                }
                if worked && due.is_none() {
                    // The first one at once: what it says of objects in flight may be all that is known of them.
                    due = Some(last.map_or_else(Instant::now, |last| last + DEBOUNCE));
                }
            }
            () = wait => {
                due = None;
                last = Some(Instant::now());
                if let Err(error) = put(&ctx, &recorder, &watched, &in_flight).await {
                    ctx.warn(format!("a checkpoint could not be written: {}", error.message()));
                }
            }
        }
    }
}

fn run_event(event: UiEvent, in_flight: &mut InFlight) -> Option<RunEvent> {
    event.tell(in_flight);
    let (subject, step, elapsed_seconds) = match event {
        UiEvent::ApplyStart(subject) => (subject, ResourceStep::Started, 0),
        UiEvent::ApplyProgress { subject, elapsed_seconds } => (subject, ResourceStep::Progress, elapsed_seconds),
        UiEvent::ApplyComplete { subject, elapsed_seconds, .. } => (subject, ResourceStep::Finished, elapsed_seconds),
        UiEvent::ApplyErrored { subject, elapsed_seconds } => (subject, ResourceStep::Failed, elapsed_seconds),
        _ => return None,
    };
    Some(RunEvent::Resource { address: subject.address, action: subject.action, step, elapsed_seconds })
}

/// Takes a checkpoint now, where there is anything to keep.
pub async fn put(ctx: &Context, recorder: &Recorder, watched: &Watched, in_flight: &InFlight) -> Result<Kept, KlError> {
    let Watched { state_path, errored, before, serial, intent, drifted } = watched;
    let (path, errored) = (state_path.clone(), errored.clone());
    let nothing_yet = before.is_empty() && in_flight.nothing_finished();
    let text = match blocking(move || workspace::read_left(&path, Some(&errored))).await? {
        Ok(Some(text)) => text,
        // The first apply of a state has no file, or one without a byte in it, before Terraform has finished its first
        // object.
        Ok(None) if nothing_yet => String::new(),
        Err(WorkspaceError::Torn { .. }) if nothing_yet && is_empty(state_path) => String::new(),
        // Of what nothing is known nothing can be said.
        Ok(None) if in_flight.nothing_finished() && in_flight.addresses().next().is_none() => {
            return Err(gone(state_path));
        }
        Ok(None) | Err(WorkspaceError::Torn { .. }) => {
            return put_without_a_state(ctx, recorder, in_flight, watched).await;
        }
        Err(error) => return Err(error.into()),
    };
    let text = half_made::tainted(text, in_flight, before)?;
    let after = document::read(&text)?;
    let in_flight = with_unshown(in_flight, intent, before, &after.rows)?;
    let mut changed = changed_patterns(before, &after.rows)?;
    changed.retain(|pattern| !drifted.contains(&pattern.to_string()));
    let checkpoint = checkpoint(text, changed, &in_flight, *serial);
    // One that says less than the one before has to replace it.
    if !checkpoint.changed.is_empty() || ctx.store.checkpoint_find(recorder.run()).await?.is_some() {
        ctx.store.checkpoint_put(recorder.run(), &checkpoint).await?;
    }
    Ok(Kept::from(&checkpoint))
}

/// Somebody has removed what Terraform works with.
pub(super) fn gone(state_path: &Utf8PathBuf) -> KlError {
    KlError::failed(format!("the state that terraform worked on is gone: {state_path}"))
        .hint("somebody has removed the work directory while terraform applied: exempt `kl-*` from what clears TMPDIR")
}

/// Terraform was cut off while it wrote its state, or the state was removed: the checkpoint before has what there is, and
/// what was ended since is in no state.
async fn put_without_a_state(
    ctx: &Context,
    recorder: &Recorder,
    in_flight: &InFlight,
    watched: &Watched,
) -> Result<Kept, KlError> {
    let stored = ctx.store.checkpoint_find(recorder.run()).await?;
    let recorded = stored.as_ref().map(Checkpoint::recorded).unwrap_or_default();
    let (state, changed) = stored.map(|stored| (stored.state, stored.changed)).unwrap_or_default();
    // That there were provisioners may have been heard after it was taken.
    let state = half_made::tainted(state, in_flight, &watched.before)?;
    let in_flight = without_a_state(in_flight, &watched.intent, &recorded);
    let checkpoint = checkpoint(state, changed, &in_flight, watched.serial);
    ctx.store.checkpoint_put(recorder.run(), &checkpoint).await?;
    Ok(Kept::from(&checkpoint))
}

/// A checkpoint of these changes.
pub(super) fn checkpoint(
    state: String,
    mut changed: Vec<Pattern>,
    in_flight: &InFlight,
    slice_serial: Serial,
) -> Checkpoint {
    // What was in flight when the lights went out may exist: its address is kept reserved, too.
    changed.extend(in_flight.addresses().filter_map(|address| Pattern::parse(address).ok()));
    changed.sort();
    changed.dedup();
    let in_flight = in_flight.addresses().map(str::to_owned).collect();
    Checkpoint { state, changed, in_flight, slice_serial: Some(slice_serial) }
}

fn is_empty(path: &Utf8PathBuf) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.len() == 0)
}

/// The rows of resources and outputs whose content is another one.
pub(super) fn changed_patterns(before: &[Row], after: &[Row]) -> Result<Vec<Pattern>, KlError> {
    let old: BTreeMap<&RowKey, &Body> = before.iter().map(|row| (&row.key, &row.body)).collect();
    let new: BTreeMap<&RowKey, &Body> = after.iter().map(|row| (&row.key, &row.body)).collect();
    let mut changed = Vec::new();
    for key in old.keys().chain(new.keys()).copied().collect::<BTreeSet<_>>() {
        let apart = match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => distance(old, new)?,
            _ => Distance::Hard,
        };
        if apart == Distance::Hard
            && let Some(pattern) = key.pattern().filter(|pattern| !pattern.is_data())
        {
            changed.push(pattern);
        }
    }
    Ok(changed)
}
