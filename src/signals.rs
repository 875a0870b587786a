//! SIGINT and SIGTERM: the first asks Terraform to stop, the second ends it at once.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::terraform::Stop;

/// CI kills a job about ten seconds after the first signal; what Terraform has done must be on record before.
const GRACE: Duration = Duration::from_secs(8);

/// What signals lead to.
#[derive(Clone)]
pub struct Signals {
    /// How work is asked to stop.
    pub stop: Stop,
    /// Cancelled by the first signal, and by nothing else: other things stop work, too.
    pub heard: CancellationToken,
}

/// Listens for signals from now on.
#[must_use]
pub fn listen() -> Signals {
    let heard = CancellationToken::new();
    let stop = Stop {
        interrupt: CancellationToken::new(),
        kill: CancellationToken::new(),
        hurry: heard.clone(),
        grace: GRACE,
    };
    let (told, first) = (stop.clone(), heard.clone());
    tokio::spawn(async move {
        let (Ok(mut int), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
            tracing::warn!("signals cannot be caught; an interrupted apply leaves its lease to run out");
            return;
        };
        loop {
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
            }
            if first.is_cancelled() {
                told.kill.cancel();
            }
            first.cancel();
            told.interrupt.cancel();
        }
    });
    Signals { stop, heard }
}
