//! An apply that comes to an early end: what is recorded of it, what is told, and what is salvaged.

use std::time::Duration;

use super::ApplyFailure;
use crate::domain::id::RunId;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{RunEnd, RunStatus};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::record::Recorder;
use crate::pipeline::{Context, execute, recover};
use crate::report::event::Stage;

/// How a story inside a run ends early.
pub(super) struct Halt {
    pub(super) end: RunEnd,
    pub(super) error: KlError,
    /// What Terraform was working on when it was cut off.
    pub(super) in_flight: Vec<String>,
}

impl Halt {
    /// An end with this error, and with nothing in flight.
    pub(super) fn new(end: RunEnd, error: KlError) -> Self {
        Self { end, error, in_flight: Vec::new() }
    }
}

impl<E: Into<KlError>> From<E> for Halt {
    fn from(error: E) -> Self {
        let error = error.into();
        let status = match error.exit() {
            Exit::Stale => RunStatus::Stale,
            _ => RunStatus::Failed,
        };
        let end = RunEnd { error: Some(error.on_record()), ..RunEnd::plain(status) };
        Self::new(end, error)
    }
}

impl<E: Into<KlError>> From<E> for Box<Halt> {
    fn from(error: E) -> Self {
        Box::new(Halt::from(error))
    }
}

/// Ends the run as the halt says. A store that cannot be reached now leaves the lease to run out.
pub(super) async fn finish(ctx: &Context, recorder: &Recorder, halt: Halt) -> ApplyFailure {
    let Halt { end, mut error, in_flight } = halt;
    let run = recorder.run();
    if !end.quarantine.is_empty() {
        let addresses = end.quarantine.iter().map(ToString::to_string).collect();
        drop(recorder.record(RunEvent::Quarantined { addresses }).await);
    }
    // One that was ended from outside is told as the store has it, whatever else went wrong by that.
    let outside = ctx.store.run_find(run).await.ok().filter(|run| run.status.ended());
    let (status, reason) = match outside {
        Some(run) => (run.status, run.error),
        None => (end.status, end.error.clone()),
    };
    drop(recorder.record(RunEvent::Ended { status: status.word().to_owned(), reason }).await);
    let closed = ctx.store.run_end(run, &end).await;
    if let Err(trouble) = &closed {
        error = error.hint(format!(
            "the run could not be closed ({trouble}): `kl abort {run}` does that once the database answers, and its \
             reservations end with the lease at the latest"
        ));
    }
    if !end.quarantine.is_empty() {
        // A run that still looks alive is not recovered.
        let when = if closed.is_ok() { "" } else { "after that, " };
        error = error.hint(format!(
            "{when}`kl recover {run}` takes over what terraform has done; `kl recover {run} --discard` drops it"
        ));
        error = error.hint(if in_flight.is_empty() {
            "applying the same spec again recovers first and goes on from there".to_owned()
        } else {
            format!(
                "look at the provider for {}: what exists and is in no state has to be imported or deleted before the \
                 spec is applied again",
                in_flight.join(", ")
            )
        });
    }
    ApplyFailure { run: Some(run), blockers: end.conflict, error }
}

/// `on_failure: salvage`: what terraform has done is committed at once, unless a person has to look first.
pub(super) async fn salvaged(ctx: &Context, run: RunId, lease: Duration, mut failure: ApplyFailure) -> ApplyFailure {
    let attempt = async {
        ctx.begins(Stage::Recover).await?;
        recover::by_same_spec(ctx, run, lease).await
    };
    failure.error = match attempt.await {
        Ok(recover::Attempt::Done) => failure
            .error
            .without_hints()
            .hint("what terraform had done is in the state, as `on_failure: salvage` says; plan again for the rest"),
        Ok(recover::Attempt::TooEarly(why) | recover::Attempt::Refused(why)) | Err(why) => {
            failure.error.hint(format!("what terraform had done could not be salvaged: {}", why.message()))
        }
    };
    failure
}

pub(super) async fn after_failure(recorder: &Recorder, broken: execute::Broken) -> Halt {
    let mut halt = Halt::from(broken.error);
    if !broken.in_flight.is_empty() {
        drop(recorder.record(RunEvent::InFlight { addresses: broken.in_flight.clone() }).await);
        halt.in_flight = broken.in_flight;
    }
    halt.end.quarantine = broken.changed;
    halt
}
