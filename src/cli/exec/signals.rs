//! Signals for the command of `kl exec`: whoever they were sent to, it hears each of them once. Terraform takes a second
//! interrupt for an order to drop everything.

use std::fs::File;
use std::future::pending;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill, killpg, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};

use super::line::is_terraform;
use crate::signals::ignored;

/// Within so long the same signal is the same one: `timeout` sends one to us, and one to our whole group.
const SAME: Duration = Duration::from_secs(1);

/// The signals that would end kl before it has freed its lock.
pub(super) struct Signals {
    interrupt: UnixSignal,
    terminate: UnixSignal,
    quit: UnixSignal,
    /// None where it is ignored, as `nohup` has it: then it stays so for the command, too.
    hangup: Option<UnixSignal>,
    /// None where the command shares our group, in the foreground of a terminal.
    apart: Option<Apart>,
}

/// The command has a process group of its own: what is sent to ours reaches us alone.
struct Apart {
    /// A terminal in whose background we are, and may get to its foreground.
    terminal: Option<Terminal>,
}

/// What a shell does for its jobs is for us to do there.
struct Terminal {
    device: File,
    /// Ctrl-Z.
    pause: UnixSignal,
    /// The command has stopped, or ended.
    child: UnixSignal,
    given: bool,
}

impl Signals {
    /// Listens from now on, before the command begins: when a terminal is gone there is nobody left to ask for it.
    ///
    /// # Errors
    /// When signals cannot be caught.
    pub(super) fn listen() -> std::io::Result<Self> {
        let hangup = if ignored(Signal::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
        let apart = match File::open("/dev/tty").ok() {
            // It sends Ctrl-C, Ctrl-\ and its end to the command as well, whatever the standard input is.
            Some(device) if in_the_foreground(&device) => None,
            Some(device) => {
                let pause = signal(SignalKind::from_raw(Signal::SIGTSTP as i32))?;
                let child = signal(SignalKind::child())?;
                Some(Apart { terminal: Some(Terminal { device, pause, child, given: false }) })
            }
            None => Some(Apart { terminal: None }),
        };
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, quit: signal(SignalKind::quit())?, hangup, apart })
    }

    /// Gives the command its process group.
    pub(super) fn prepare(&self, command: &mut Command) {
        if self.apart.is_some() {
            command.process_group(0);
        }
    }

    async fn next(&mut self) -> Signal {
        let Self { interrupt, terminate, quit, hangup, apart } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        let jobs = async {
            match apart.as_mut().and_then(|apart| apart.terminal.as_mut()) {
                Some(terminal) => tokio::select! {
                    _ = terminal.pause.recv() => Signal::SIGTSTP,
                    _ = terminal.child.recv() => Signal::SIGCHLD,
                },
                None => pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Signal::SIGINT,
            _ = terminate.recv() => Signal::SIGTERM,
            _ = quit.recv() => Signal::SIGQUIT,
            _ = hung_up => Signal::SIGHUP,
            job = jobs => job,
        }
    }

    /// Waits for the end, and hands on the signals that the command, which may be Terraform itself, does not get anyway.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(super) async fn wait(mut self, child: &mut Child, terraform: bool) -> std::io::Result<ExitStatus> {
        let mut handed: Vec<(Signal, Instant)> = Vec::new();
        let status = loop {
            let heard = tokio::select! {
                status = child.wait() => break status,
                heard = self.next() => heard,
            };
            let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw) else { continue };
            match (heard, &mut self.apart) {
                (Signal::SIGCHLD, Some(Apart { terminal: Some(terminal) })) => {
                    if let Some(status) = terminal.stops_with(id) {
                        break Ok(status);
                    }
                }
                (Signal::SIGCHLD, _) | (Signal::SIGINT | Signal::SIGQUIT | Signal::SIGHUP, None) => {}
                (_, apart) => {
                    handed.retain(|(_, at)| at.elapsed() < SAME);
                    if handed.iter().all(|(signal, _)| *signal != heard) {
                        handed.push((heard, Instant::now()));
                        hand_on(id, heard, terraform, apart.is_some());
                    }
                }
            }
        };
        if let Some(Apart { terminal: Some(terminal) }) = &self.apart {
            terminal.take_back();
        }
        status
    }
}

/// A Terraform hears it alone, and tells its providers itself. Everything else might not pass it on: there all of its group
/// get it, as they would from Ctrl-C at a terminal.
fn hand_on(command: Pid, heard: Signal, terraform: bool, apart: bool) {
    // It may be what a script has become.
    let program = std::fs::read_link(format!("/proc/{command}/exe"));
    let program = program.as_ref().ok().and_then(|path| path.file_name()?.to_str());
    let alone = !apart || (heard != Signal::SIGTSTP && program.map_or(terraform, is_terraform));
    let sent = if alone { kill(command, heard) } else { killpg(command, heard) };
    if let Err(error) = sent {
        tracing::debug!(%error, "the command has ended before it heard the signal");
    }
}

fn in_the_foreground(terminal: &File) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
}

impl Terminal {
    /// Stops with a command that has stopped: so the shell sees it, and whoever gets us to the foreground gets it there,
    /// where it can ask. Of one that has ended it tells how: nobody else can then.
    fn stops_with(&mut self, command: Pid) -> Option<ExitStatus> {
        let why = match waitpid(command, Some(WaitPidFlag::WUNTRACED | WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Stopped(_, why)) => why,
            Ok(WaitStatus::Exited(_, code)) => return Some(ExitStatus::from_raw(code << 8)),
            Ok(WaitStatus::Signaled(_, why, _)) => return Some(ExitStatus::from_raw(why as i32)),
            _ => return None,
        };
        let asks = matches!(why, Signal::SIGTTIN | Signal::SIGTTOU);
        if !(asks && in_the_foreground(&self.device))
            && let Err(error) = raise(Signal::SIGSTOP)
        {
            tracing::debug!(%error, "cannot stop with the command");
        }
        // From here on somebody has continued us.
        self.given |= in_the_foreground(&self.device) && tcsetpgrp(&self.device, command).is_ok();
        if let Err(error) = killpg(command, Signal::SIGCONT) {
            tracing::debug!(%error, "the command has ended before it went on");
        }
        None
    }

    /// Others in our group may want to read from it.
    fn take_back(&self) {
        if !self.given || in_the_foreground(&self.device) {
            return;
        }
        // Whoever does that from the background is stopped for it otherwise.
        let mut background = SigSet::empty();
        background.add(Signal::SIGTTOU);
        let taken = background.thread_block().and_then(|()| {
            let taken = tcsetpgrp(&self.device, getpgrp());
            background.thread_unblock().and(taken)
        });
        if let Err(error) = taken {
            tracing::debug!(%error, "the terminal stays where it is");
        }
    }
}
