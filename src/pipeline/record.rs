//! Telling and remembering: every event of a run goes to its stored timeline and to whoever listens.

use std::sync::Arc;

use crate::domain::id::RunId;
use crate::domain::run::event::{ResourceStep, RunEvent};
use crate::report::event::{Progress, Sink};
use crate::store::{Store, StoreError};

/// The timeline of one run.
#[derive(Clone)]
pub struct Recorder {
    store: Arc<dyn Store>,
    sink: Arc<dyn Sink>,
    run: RunId,
}

impl Recorder {
    /// The timeline of a recorded run.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, sink: Arc<dyn Sink>, run: RunId) -> Self {
        Self { store, sink, run }
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Tells an event that the timeline has already, or that the store cannot be reached for.
    pub fn tell(&self, event: &RunEvent) {
        self.sink.emit(&Progress::Run(event.clone()));
    }

    /// Tells events that the timeline has already.
    pub fn tell_all(&self, events: &[RunEvent]) {
        for event in events {
            self.tell(event);
        }
    }

    /// Stores an event that has been told.
    pub async fn append(&self, event: RunEvent) -> Result<(), StoreError> {
        self.store.event_append(self.run, &[event]).await
    }

    /// Tells and stores an event.
    pub async fn record(&self, event: RunEvent) -> Result<(), StoreError> {
        self.record_all(vec![event]).await
    }

    /// Tells and stores events in their order. Progress of a single resource is told, but not stored.
    pub async fn record_all(&self, events: Vec<RunEvent>) -> Result<(), StoreError> {
        for event in &events {
            self.sink.emit(&Progress::Run(event.clone()));
        }
        let kept: Vec<RunEvent> = events
            .into_iter()
            .filter(|event| !matches!(event, RunEvent::Resource { step: ResourceStep::Progress, .. }))
            .collect();
        if kept.is_empty() {
            return Ok(());
        }
        self.store.event_append(self.run, &kept).await
    }
}
