//! Progress on a terminal and in a log, from the pipeline's events.

use std::io::Write;
use std::sync::Mutex;

use super::event::{Progress, Sink};
use super::story;
use super::style::{dim, good, loud, plain, warn};
use crate::domain::run::event::{ResourceStep, RunEvent};

/// Writes a line for every event. Talk goes to standard error, so that standard output stays data.
pub struct TerminalSink<W: Write + Send> {
    out: Mutex<W>,
    quiet: bool,
}

impl<W: Write + Send> TerminalSink<W> {
    /// A sink that writes to `out`; a quiet one only writes warnings.
    pub fn new(out: W, quiet: bool) -> Self {
        Self { out: Mutex::new(out), quiet }
    }
}

impl<W: Write + Send> Sink for TerminalSink<W> {
    fn emit(&self, progress: &Progress) {
        let important = match progress {
            Progress::Begins(_) => false,
            Progress::Run(event) => matters(event),
            Progress::Warning(_) | Progress::WorkspaceKept(_) => true,
        };
        if (important || !self.quiet)
            && let Some(text) = text(progress)
            && let Ok(mut out) = self.out.lock()
        {
            // A closed standard error must not end an apply.
            drop(writeln!(out, "{text}"));
        }
    }
}

/// The line for something that the pipeline tells; none for what would only repeat another line.
#[must_use]
pub fn text(progress: &Progress) -> Option<String> {
    match progress {
        Progress::Begins(stage) => Some(format!("{} {}", dim("·"), stage.words())),
        Progress::Run(event) => line(event),
        Progress::Warning(text) => Some(format!("{} {}", warn("warning:"), plain(text))),
        Progress::WorkspaceKept(path) => Some(format!("The workspace was kept: {path}")),
    }
}

fn matters(event: &RunEvent) -> bool {
    matches!(
        event,
        RunEvent::Warning { .. }
            | RunEvent::FellBack { .. }
            | RunEvent::LeaseLost { .. }
            | RunEvent::InFlight { .. }
            | RunEvent::NotRecovered { .. }
            | RunEvent::Quarantined { .. }
            | RunEvent::ForgeUnreachable { .. }
    )
}

/// The line for an event; none for what would only repeat another line.
#[must_use]
pub fn line(event: &RunEvent) -> Option<String> {
    match event {
        RunEvent::Resource { address, action, step, elapsed_seconds } => {
            Some(resource_line(address, action, *step, *elapsed_seconds))
        }
        RunEvent::Warning { message } => Some(format!("{} {}", warn("warning:"), plain(message))),
        _ => story::told(event).map(|told| told.terminal()),
    }
}

fn resource_line(address: &str, action: &str, step: ResourceStep, seconds: u64) -> String {
    let address = plain(address);
    match step {
        ResourceStep::Started => format!("  {address}: {action} …"),
        ResourceStep::Progress => dim(format!("  {address}: still at it ({seconds}s)")),
        ResourceStep::Finished => format!("  {address}: {} {}", good("done"), dim(format!("({action}, {seconds}s)"))),
        ResourceStep::Failed => format!("  {address}: {} {}", loud("failed"), dim(format!("({action}, {seconds}s)"))),
    }
}
