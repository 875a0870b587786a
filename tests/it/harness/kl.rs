//! The real `kl` in an environment that a test controls: cleared, with a home and a temporary directory of its own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use regex::Regex;

use super::wait_until;

/// No command of a test takes so long, unless it hangs.
const LIMIT: Duration = Duration::from_mins(2);

/// A command line of kl, to be run.
#[derive(Clone)]
#[must_use = "nothing runs before `exits` or `spawn`"]
pub(crate) struct Kl {
    program: OsString,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    dir: Utf8PathBuf,
    stdin: Option<String>,
    socket: Option<Arc<OwnedFd>>,
    scrub: Scrub,
}

impl Kl {
    /// kl in a directory, with these variables and no others.
    pub(crate) fn new(dir: &Utf8Path, env: BTreeMap<OsString, OsString>, scrub: Scrub) -> Self {
        Self {
            program: env!("CARGO_BIN_EXE_kl").into(),
            args: Vec::new(),
            env,
            dir: dir.to_owned(),
            stdin: None,
            socket: None,
            scrub,
        }
    }

    /// Another program in the same surroundings.
    pub(crate) fn instead(mut self, program: impl Into<OsString>) -> Self {
        self.program = program.into();
        self
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub(crate) fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Takes a variable away.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.env.remove(OsStr::new(name));
        self
    }

    /// Runs in this directory; a relative one counts from where the command would have run.
    pub(crate) fn dir(mut self, dir: impl AsRef<Utf8Path>) -> Self {
        self.dir = self.dir.join(dir);
        self
    }

    /// Gives this on standard input; without it there is none.
    pub(crate) fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// Gives this socket as standard input.
    pub(crate) fn stdin_socket(mut self, socket: impl Into<OwnedFd>) -> Self {
        self.socket = Some(Arc::new(socket.into()));
        self
    }

    /// Also replaces this in [`Said::scrubbed`].
    pub(crate) fn scrub(mut self, pattern: &str, placeholder: &'static str) -> Self {
        self.scrub.add(pattern, placeholder);
        self
    }

    /// Runs to the end, which must come with this exit code; else panics with everything that was said.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Said {
        self.spawn().exits(code)
    }

    /// Starts it, and goes on at once.
    #[track_caller]
    pub(crate) fn spawn(self) -> Running {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.dir)
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(socket) = &self.socket {
            command.stdin(Stdio::from(socket.try_clone().unwrap()));
        }
        let line = self.line();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), self.stdin) {
            // On a thread of its own: the program may talk before it listens. One that does not listen is no error.
            thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
        }
        let stdout = Stream::of(child.stdout.take());
        let stderr = Stream::of(child.stderr.take());
        Running { line, child, stdout, stderr, scrub: self.scrub }
    }

    /// The command line, for messages.
    fn line(&self) -> String {
        let program = Utf8Path::from_path(self.program.as_ref()).and_then(Utf8Path::file_name).unwrap_or("kl");
        let args = self.args.iter().map(|arg| format!(" {}", arg.display()));
        format!("{program}{}", args.collect::<String>())
    }
}

/// A command that runs. Dropping it kills it.
#[must_use = "a command that is not waited for is killed"]
pub(crate) struct Running {
    line: String,
    child: Child,
    stdout: Stream,
    stderr: Stream,
    scrub: Scrub,
}

impl Running {
    /// Waits until it has said something on standard error.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let what = format!("`{}` says {text:?}", self.line);
        wait_until(&what, LIMIT, || {
            if self.stderr.text().contains(text) {
                return Some(());
            }
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                self.stderr.finish();
                let said = self.stderr.text();
                assert!(said.contains(text), "{}", self.report(&format!("ended ({status}) and never said {text:?}")));
            }
            None
        });
    }

    /// Waits until it has printed something so many times as a result.
    #[track_caller]
    pub(crate) fn wait_to_print(&mut self, text: &str, times: usize) {
        let what = format!("`{}` prints {text:?}", self.line);
        wait_until(&what, LIMIT, || (self.stdout.text().matches(text).count() >= times).then_some(()));
    }

    /// What it has said on standard error so far.
    pub(crate) fn said_so_far(&self) -> String {
        self.stderr.text()
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Sends a signal to it, and to it alone.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the process can be signalled");
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().expect("process ids are small"))
    }

    /// Waits for the end, which must come with this exit code; else panics with everything that was said.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Said {
        let (running, status) = self.ended();
        assert!(status.code() == Some(code), "{}", running.report(&format!("ended with {status}, not with {code}")));
        running.said()
    }

    /// Waits for the end, however it comes. For processes that a test has killed.
    #[track_caller]
    pub(crate) fn ends(self) -> (ExitStatus, Said) {
        let (running, status) = self.ended();
        (status, running.said())
    }

    #[track_caller]
    fn ended(mut self) -> (Self, ExitStatus) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                self.stdout.finish();
                self.stderr.finish();
                return (self, status);
            }
            assert!(began.elapsed() < LIMIT, "{}", self.report(&format!("still runs after {LIMIT:?}")));
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn said(&self) -> Said {
        Said { stdout: self.stdout.text(), stderr: self.stderr.text(), scrub: self.scrub.clone() }
    }

    fn report(&self, what: &str) -> String {
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        format!("`{}` {what}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---", self.line)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    /// Its results.
    pub(crate) stdout: String,
    /// Its talk.
    pub(crate) stderr: String,
    scrub: Scrub,
}

impl Said {
    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{}", self.stdout))
    }

    /// Both streams in one text for a snapshot, with placeholders for what differs from run to run.
    pub(crate) fn scrubbed(&self) -> String {
        self.scrub.apply(&format!("--- stdout\n{}--- stderr\n{}", self.stdout, self.stderr))
    }
}

/// Replaces what differs from run to run, in the order of the rules.
#[derive(Debug, Clone)]
pub(crate) struct Scrub(Vec<(Regex, &'static str)>);

impl Scrub {
    /// A test's directory becomes `[SITE]`; then digests, ids, times and durations get their placeholders.
    pub(crate) fn of(site: &Utf8Path) -> Self {
        let mut scrub = Self(Vec::new());
        scrub.add(&regex::escape(site.as_str()), "[SITE]");
        scrub.add(r"\b[0-9a-f]{64}\b", "[DIGEST]");
        scrub.add(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "[ID]");
        scrub.add(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC|[+-]\d\d:\d\d)?", "[TIME]");
        scrub.add(r"\b\d+(\.\d+)?(ms|s|m|h|d)\b( \d+(ms|s|m|h)\b)*", "[DURATION]");
        scrub
    }

    /// Adds a rule, after the others.
    pub(crate) fn add(&mut self, pattern: &str, placeholder: &'static str) {
        self.0.push((Regex::new(pattern).unwrap_or_else(|error| panic!("{error}")), placeholder));
    }

    /// Applies the rules.
    pub(crate) fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (pattern, placeholder)| {
            pattern.replace_all(&text, regex::NoExpand(placeholder)).into_owned()
        })
    }
}

/// A stream that is drained while the program runs.
struct Stream {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let mut pipe = pipe.expect("the stream is piped");
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
            }
        });
        Self { text, reader: Some(reader) }
    }

    /// Waits for the rest. A grandchild that outlives its parent may keep the stream open: then not for ever.
    fn finish(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        let began = Instant::now();
        while !reader.is_finished() && began.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}
