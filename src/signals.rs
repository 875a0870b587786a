//! SIGINT, SIGTERM and SIGHUP: the first asks Terraform to stop, a second one ends it at once.

use std::time::Duration;

use camino::Utf8Path;
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::bounded::{self, MAX_TEXT};
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

/// What a hang-up (SIGHUP: the terminal was closed, or the connection to it broke) means for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// The same as SIGINT, unless it is ignored, as `nohup` has it. However many come, they do not count as a second
    /// signal: a shell and the kernel both send one when a terminal is closed.
    Stops,
    /// The command has a use of its own for it.
    IsItsOwn,
}

/// Listens for signals from now on.
#[must_use]
pub fn listen(hangup: Hangup) -> Signals {
    let heard = CancellationToken::new();
    let stop = Stop {
        interrupt: CancellationToken::new(),
        kill: CancellationToken::new(),
        hurry: heard.clone(),
        soon: CancellationToken::new(),
        grace: GRACE,
    };
    let (told, first) = (stop.clone(), heard.clone());
    let hangup = hangup == Hangup::Stops && !ignored(Signal::SIGHUP);
    tokio::spawn(async move {
        let (Ok(mut int), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
            tracing::warn!("signals cannot be caught; an interrupted apply leaves its lease to run out");
            return;
        };
        let mut insisted = false;
        let mut hangups = if hangup { signal(SignalKind::hangup()).ok() } else { None };
        loop {
            let hung_up = async {
                match &mut hangups {
                    Some(hangups) => hangups.recv().await,
                    None => std::future::pending().await,
                }
            };
            let insists = tokio::select! {
                _ = int.recv() => true,
                _ = term.recv() => true,
                _ = hung_up => false,
            };
            if insists && std::mem::replace(&mut insisted, true) {
                told.kill.cancel();
            }
            first.cancel();
            told.soon.cancel();
            told.interrupt.cancel();
        }
    });
    Signals { stop, heard }
}

/// Whether this process was started with a signal ignored; not, where that cannot be seen.
#[must_use]
pub fn ignored(signal: Signal) -> bool {
    let status = bounded::file(Utf8Path::new("/proc/self/status"), MAX_TEXT).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal as u32 - 1)) != 0
}
