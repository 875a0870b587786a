//! The only place that starts a process: own group, output drained, stopped gently and then for good.
//!
//! A provider outlives a killed Terraform and goes on creating objects, so Terraform leads a process group of its own,
//! and the group is killed when Terraform has ended, and when the future is dropped. Only an apply that came to its own end
//! has ended its providers itself: what is left of its group then, a provisioner has started in order to stay. What kl
//! cannot do is survive its own SIGKILL. An apply writes into files for that reason ([`super::follow`]): it finishes alone, and its state
//! file and its log tell whoever comes next what it did. Other verbs write into pipes, and die when nobody reads them.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::select;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::command::Invocation;
use super::error::TerraformError;
use super::follow::{self, Lines, OutputFiles};
use super::group;
use crate::domain::run::workplace::ProcessGroup;

/// How a command is asked to stop.
#[derive(Debug, Clone)]
pub struct Stop {
    /// Asks Terraform once to stop: it waits for what is in flight and writes the state.
    pub interrupt: CancellationToken,
    /// Kills it at once.
    pub kill: CancellationToken,
    /// Cancelled when whoever runs kl wants it to end, and will soon kill it: nothing can be waited for any more. Other
    /// things stop Terraform, too, and leave kl its time.
    pub hurry: CancellationToken,
    /// Cancelled when there is little time left for a Terraform that was asked to stop: because of the hurry, or because
    /// somebody else may have what it works on.
    pub soon: CancellationToken,
    /// How long it may take from then on, before it is cut off.
    pub grace: Duration,
}

impl Stop {
    /// Never asks.
    #[must_use]
    pub fn never() -> Self {
        let never = CancellationToken::new;
        Self { interrupt: never(), kill: never(), hurry: never(), soon: never(), grace: Duration::ZERO }
    }
}

/// What to do with standard output.
pub(super) enum Output<'a> {
    /// Give it back as a whole.
    Capture,
    /// Hand over each line as it comes; the callback must not block.
    Lines(OnSaid<'a>),
    /// The same, by way of files in this directory: the process does not notice when kl dies.
    Files(&'a Utf8Path, OnSaid<'a>),
}

/// Takes what a process says; must not block.
pub(super) type OnSaid<'a> = &'a mut (dyn FnMut(Said<'_>) + Send);

/// What is heard of a process.
pub(super) enum Said<'a> {
    /// It runs, as the leader of this group.
    Started(ProcessGroup),
    /// It wrote a line.
    Line(&'a str),
}

/// How a process was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It ended by itself after it was asked.
    Asked,
    /// It was told to drop what it was doing, or killed.
    Cut,
}

/// A process that has ended.
pub(super) struct Ended {
    /// How.
    pub(super) status: ExitStatus,
    /// Standard output, when it was captured.
    pub(super) stdout: Vec<u8>,
    /// The end of standard error.
    pub(super) stderr: String,
    /// Whether and how it was stopped.
    pub(super) stopped: Option<Stopped>,
    /// How long it ran.
    pub(super) took: Duration,
}

/// How much of standard error is kept: enough for every diagnostic, little beside a `TF_LOG=trace`.
const KEPT_STDERR: usize = 64 * 1024;

/// After the grace, Terraform is interrupted a second time. It gives up at once then, but between two writes of its
/// state file, which a SIGKILL could tear.
const LAST_CALL: Duration = Duration::from_millis(1500);

/// How often it is looked whether a group is empty.
const PAUSE: Duration = Duration::from_millis(50);

/// How long output is waited for after the group is dead. Only a process that left the group can still hold the pipe.
const DRAIN: Duration = Duration::from_secs(2);

/// The same after a second signal: what Terraform has done must be on record before a third one, which nobody survives.
const DRAIN_KILLED: Duration = Duration::from_millis(200);

/// Starts the process, sees it to its end, and leaves no member of its group alive.
pub(super) async fn run(invocation: &Invocation, stop: &Stop, mut output: Output<'_>) -> Result<Ended, TerraformError> {
    let began = Instant::now();
    if stop.interrupt.is_cancelled() || stop.kill.is_cancelled() {
        return Err(TerraformError::Cancelled { command: invocation.name(), after: Duration::ZERO, cut: false });
    }
    let files_error = |source| TerraformError::Output { command: invocation.name(), source };
    let files = match &output {
        Output::Files(dir, _) => Some(OutputFiles::create(dir).map_err(files_error)?),
        Output::Capture | Output::Lines(_) => None,
    };
    let applies = files.is_some();
    let mut child = spawn(invocation, files.as_ref()).await?;
    let mut group = Group::of(&child, invocation.script);
    if let (Output::Lines(each) | Output::Files(_, each), Some(leader)) = (&mut output, group.leader) {
        each(Said::Started(group::of(leader.as_raw())));
    }
    // From here on, only the process has its end of the files.
    let files = files.map(OutputFiles::into_readers);
    let wait_error = |source| TerraformError::Wait { command: invocation.name(), source };

    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut captured, mut tail) = (Vec::new(), Vec::new());
    let ended = CancellationToken::new();
    let supervised = {
        let mut drain = Box::pin(async {
            match (files, output) {
                (Some(readers), Output::Files(_, each)) => {
                    let mut lines = Lines::default();
                    tokio::join!(
                        follow::whole(readers.stdout, &ended, |chunk| lines
                            .push(chunk, &mut |line| each(Said::Line(line)))),
                        follow::bounded(readers.stderr, &ended, |chunk| keep_tail(&mut tail, chunk)),
                    );
                    lines.finish(&mut |line| each(Said::Line(line)));
                }
                (_, output) => {
                    tokio::join!(read_output(stdout, output, &mut captured), read_tail(stderr, &mut tail));
                }
            }
        });
        let mut drained = false;
        let supervised = {
            let mut supervise = Box::pin(supervise(&mut child, &group, stop));
            loop {
                select! {
                    ended = &mut supervise => break ended,
                    () = &mut drain, if !drained => drained = true,
                }
            }
        };
        // A script may give any code for a Terraform that was killed.
        if applies
            && !invocation.script
            && supervised.as_ref().is_ok_and(|(status, stopped)| own_end(*status, *stopped))
        {
            group.leave();
        }
        drop(group);
        ended.cancel();
        if !drained {
            // A time-out is no error: what was read so far is there.
            let patience = if stop.kill.is_cancelled() { DRAIN_KILLED } else { DRAIN };
            let _ = timeout(patience, drain).await;
        }
        supervised
    };
    let (status, stopped) = supervised.map_err(wait_error)?;
    let stderr = String::from_utf8_lossy(&tail).into_owned();
    Ok(Ended { status, stdout: captured, stderr, stopped, took: began.elapsed() })
}

/// Whether Terraform came to its own end, well or badly, and did not crash.
fn own_end(status: ExitStatus, stopped: Option<Stopped>) -> bool {
    matches!(status.code(), Some(0 | 1)) && stopped != Some(Stopped::Cut)
}

/// Starts the process. A program file that someone is just writing (an installer) is tried again for a moment.
async fn spawn(invocation: &Invocation, files: Option<&OutputFiles>) -> Result<Child, TerraformError> {
    let mut tries = 0;
    loop {
        let streams = files.map(OutputFiles::streams).transpose();
        let streams = streams.map_err(|source| TerraformError::Output { command: invocation.name(), source })?;
        let (stdout, stderr) = streams.unwrap_or_else(|| (Stdio::piped(), Stdio::piped()));
        #[expect(clippy::disallowed_methods, reason = "the one place where processes are started")]
        let mut command = Command::new(&invocation.program);
        command
            .args(&invocation.args)
            .env_clear()
            .envs(invocation.environment.iter())
            .current_dir(&invocation.dir)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .kill_on_drop(true);
        match command.spawn() {
            Err(source) if source.kind() == io::ErrorKind::ExecutableFileBusy && tries < 10 => {
                tries += 1;
                sleep(Duration::from_millis(50)).await;
            }
            Err(source) => return Err(TerraformError::Spawn { program: invocation.program.clone(), source }),
            Ok(child) => return Ok(child),
        }
    }
}

/// Waits for the end, and stops the process when asked to.
async fn supervise(child: &mut Child, group: &Group, stop: &Stop) -> io::Result<(ExitStatus, Option<Stopped>)> {
    select! {
        status = child.wait() => return Ok((status?, None)),
        () = stop.interrupt.cancelled() => {}
        () = stop.kill.cancelled() => return kill_now(child, group).await,
    }
    group.interrupt();
    let gentle = async {
        let status = child.wait().await;
        group.followed().await;
        status
    };
    let too_long = async {
        stop.soon.cancelled().await;
        sleep(stop.grace).await;
    };
    select! {
        status = gentle => return Ok((status?, Some(Stopped::Asked))),
        () = stop.kill.cancelled() => return kill_now(child, group).await,
        () = too_long => {}
    }
    group.interrupt();
    select! {
        status = child.wait() => Ok((status?, Some(Stopped::Cut))),
        () = stop.kill.cancelled() => kill_now(child, group).await,
        () = sleep(LAST_CALL) => kill_now(child, group).await,
    }
}

async fn kill_now(child: &mut Child, group: &Group) -> io::Result<(ExitStatus, Option<Stopped>)> {
    group.kill();
    Ok((child.wait().await?, Some(Stopped::Cut)))
}

/// The process group that Terraform leads; killed when this goes out of scope, unless it is left.
struct Group {
    leader: Option<Pid>,
    /// Whether the leader is a script in front of the real program.
    script: bool,
}

impl Group {
    fn of(child: &Child, script: bool) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Self { leader, script }
    }

    /// One SIGINT to Terraform alone: it tells its providers itself (they ignore the signal), and ends what
    /// `local-exec` runs. A second one, which it would get if anything in the group passed the signal on, makes it give
    /// up what is in flight. A shell script in front of it does not pass signals on, so there all get it, as they
    /// would from Ctrl-C on a terminal.
    fn interrupt(&self) {
        if let Some(leader) = self.leader {
            let sent = if self.script { killpg(leader, Signal::SIGINT) } else { kill(leader, Signal::SIGINT) };
            report("SIGINT", sent);
        }
    }

    /// Waits for the members that outlive the leader. A script may die from the interrupt at once, in front of a
    /// Terraform that is still finishing what is in flight.
    async fn followed(&self) {
        let Some(leader) = self.leader.filter(|_| self.script) else { return };
        while killpg(leader, None).is_ok() {
            sleep(PAUSE).await;
        }
    }

    /// Lets those live that are left.
    fn leave(&mut self) {
        self.leader = None;
    }

    /// SIGKILL to every member. The number of the group cannot be given to anyone else while a member lives. When none
    /// lives, it is sent right after the end of the leader: numbers are not used again that fast.
    fn kill(&self) {
        if let Some(leader) = self.leader {
            report("SIGKILL", killpg(leader, Signal::SIGKILL));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

fn report(signal: &str, sent: Result<(), Errno>) {
    match sent {
        // Nobody left (macOS says EPERM for a group of which only a zombie is left).
        Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => {}
        Err(error) => tracing::warn!(signal, %error, "cannot signal Terraform"),
    }
}

/// Reads standard output to its end. Reading errors end it: the exit status tells what matters.
async fn read_output(stdout: Option<impl AsyncRead + Unpin>, output: Output<'_>, captured: &mut Vec<u8>) {
    let Some(mut stdout) = stdout else { return };
    match output {
        Output::Capture => {
            if let Err(error) = stdout.read_to_end(captured).await {
                tracing::warn!(%error, "cannot read Terraform's output");
            }
        }
        Output::Lines(each) | Output::Files(_, each) => {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while matches!(stdout.read_until(b'\n', &mut line).await, Ok(length) if length > 0) {
                each(Said::Line(String::from_utf8_lossy(&line).trim_end()));
                line.clear();
            }
        }
    }
}

/// Reads standard error to its end and keeps the last part.
async fn read_tail(stderr: Option<impl AsyncRead + Unpin>, tail: &mut Vec<u8>) {
    let Some(mut stderr) = stderr else { return };
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(length) = stderr.read(&mut chunk).await {
        if length == 0 {
            break;
        }
        keep_tail(tail, &chunk[..length]);
    }
}

fn keep_tail(tail: &mut Vec<u8>, chunk: &[u8]) {
    tail.extend_from_slice(chunk);
    if tail.len() > 2 * KEPT_STDERR {
        tail.drain(..tail.len() - KEPT_STDERR);
    }
}
