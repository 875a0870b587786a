//! Progress on a terminal and in a log, from the pipeline's events.

use std::io::Write;
use std::sync::Mutex;

use super::event::{Progress, Sink};
use super::style::{bold, count, dim, good, loud, plain, warn};
use crate::domain::run::event::{ChangedRow, ResourceStep, RunEvent};

/// So many rows are named in one line; the rest is counted.
const MAX_NAMED: usize = 5;

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
            | RunEvent::LeaseLost
            | RunEvent::InFlight { .. }
            | RunEvent::NotRecovered { .. }
            | RunEvent::Quarantined { .. }
    )
}

/// Some names, and how many more.
fn names(all: &[String]) -> String {
    let shown: Vec<String> = all.iter().take(MAX_NAMED).map(|name| plain(name)).collect();
    let more = all.len().saturating_sub(MAX_NAMED);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

fn rows(all: &[ChangedRow]) -> String {
    let told: Vec<String> =
        all.iter().map(|row| format!("{} (serial {} by {})", row.row, row.serial, row.actor)).collect();
    names(&told)
}

/// The line for an event; none for what would only repeat another line.
#[must_use]
pub fn line(event: &RunEvent) -> Option<String> {
    Some(match event {
        RunEvent::SpecLoaded { spec, source_serial, trunk_serial } => {
            dim(format!("· Spec {spec}, planned at serial {source_serial}; the state is at serial {trunk_serial}"))
        }
        RunEvent::StaleCheckPassed { outside } if outside.is_empty() => return None,
        RunEvent::StaleCheckPassed { outside } => {
            format!("{} Changed since the plan, outside of what it reads and writes: {}", good("✓"), rows(outside))
        }
        RunEvent::StaleCheckFailed { read, write, revalidate } => {
            let all: Vec<ChangedRow> = write.iter().chain(read).cloned().collect();
            let then = if *revalidate { "planning again decides" } else { "the plan no longer holds" };
            format!("{} Changed since the plan: {}; {then}", loud("!"), rows(&all))
        }
        RunEvent::Waiting { behind } => {
            format!(
                "{} Waiting in turn behind {}",
                warn("…"),
                behind.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            )
        }
        RunEvent::Reserved { writes, reads, beside, .. } => {
            let beside = match beside.len() {
                0 => String::new(),
                number => format!(", beside {}", count(number, "other run")),
            };
            format!("{} Reserved {} to write, {reads} to read{beside}", good("✓"), count(*writes, "pattern"))
        }
        RunEvent::Reclaimed { from } => format!("{} Took over the ended lease of run {from}", warn("!")),
        RunEvent::LaneChosen { lane, reasons, slice_rows, trunk_rows, targets } => {
            let why = if reasons.is_empty() { String::new() } else { format!(": {}", names(reasons)) };
            dim(format!("· Lane {lane}: {slice_rows} of {trunk_rows} rows, {}{why}", count(*targets, "target")))
        }
        RunEvent::Replanned { relation, differences } if differences.is_empty() => {
            format!("{} Planned again: {}", good("✓"), relation.replace('_', " "))
        }
        RunEvent::Replanned { relation, differences } => {
            format!("· Planned again: {}: {}", bold(relation.replace('_', " ")), names(differences))
        }
        RunEvent::FellBack { reason } => format!("{} Falling back to the footprint lane: {}", warn("!"), plain(reason)),
        RunEvent::VersionsDiffer { differences } => format!("{} Other versions: {}", warn("!"), names(differences)),
        RunEvent::ApplyStarted => bold("Applying"),
        RunEvent::Resource { address, action, step, elapsed_seconds } => {
            resource_line(address, action, *step, *elapsed_seconds)
        }
        RunEvent::DriftObserved { addresses } => {
            format!("{} Differs in reality, left alone (kl refresh takes it over): {}", warn("!"), names(addresses))
        }
        RunEvent::SoftRows { left, .. } if left.is_empty() => return None,
        RunEvent::SoftRows { left, .. } => dim(format!("· Metadata left as the state has it: {}", names(left))),
        RunEvent::Committed { serial, rows_opened, rows_closed } => {
            let rows = (*rows_opened).max(*rows_closed);
            format!("{} Committed serial {} ({} changed)", good("✓"), bold(serial), count(rows, "row"))
        }
        RunEvent::LeaseLate { reason } => {
            format!("{} The lease could not be renewed yet: {}", warn("!"), plain(reason))
        }
        RunEvent::LeaseLost => loud("! The lease is lost: another run has taken the reservations"),
        RunEvent::Quarantined { addresses } => {
            format!(
                "{} Changed for real, or perhaps, and not in the state yet; kept reserved: {}",
                loud("!"),
                names(addresses)
            )
        }
        RunEvent::InFlight { addresses } => {
            format!("{} Cut off while working on {}: look at the provider", loud("!"), names(addresses))
        }
        RunEvent::NotRecovered { rows: left } => {
            format!("{} Not recovered, because it was changed since: {}", loud("!"), rows(left))
        }
        RunEvent::Aborted { by } => format!("{} Ended from outside by {}", loud("!"), plain(&by.0)),
        RunEvent::Warning { message } => format!("{} {}", warn("warning:"), plain(message)),
        RunEvent::LeaseRenewed { .. } | RunEvent::ApplyFinished { .. } | RunEvent::Ended { .. } => return None,
    })
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
