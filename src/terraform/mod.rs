//! The real Terraform or OpenTofu binary: finding it, calling it, reading what it says.
//!
//! [`Terraform::locate`] finds it; its methods are Terraform's verbs. Each takes a [`Stop`] and says in its error
//! what Terraform said.

mod cache;
pub mod command;
mod diagnostic;
mod environment;
mod error;
mod events;
mod follow;
pub mod group;
mod input;
mod locate;
mod lock_file;
mod log;
mod process;
mod version;

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use camino::{Utf8Path, Utf8PathBuf};

pub use command::{ApplyRequest, Dirs, PlanRequest};
pub use diagnostic::{Diagnostic, Severity};
pub use environment::{Environment, OWN_SECRETS};
pub use error::{Failure, TerraformError};
pub use events::{Subject, UiEvent};
pub use follow::{Applies, applies_in};
pub use input::{Input, Variable};
pub use lock_file::{LOCK_FILE, providers_locked};
pub use log::{ApplyLog, read_apply_log};
pub use process::Stop;
pub use version::{Product, Version};

use command::Invocation;
use input::InputFiles;
use process::{Ended, Output, Said, Stopped};

/// What is needed to find Terraform.
#[derive(Debug)]
pub struct LocateRequest<'a> {
    /// A program that the user named: a path (a relative one counts from `dir`) or a name on PATH.
    pub program: Option<&'a str>,
    /// The root module's directory in the checkout, absolute: version managers choose by directory.
    pub dir: &'a Utf8Path,
    /// The environment that Terraform is to get, before it is pinned.
    pub environment: Environment,
    /// Where providers are cached unless `TF_PLUGIN_CACHE_DIR` says so; none: every init fetches its own.
    pub plugin_cache: Option<&'a Utf8Path>,
}

/// A program that is known to be Terraform or OpenTofu, with the environment that it is called in.
#[derive(Debug, Clone)]
pub struct Terraform {
    program: Utf8PathBuf,
    version: Version,
    product: Product,
    script: bool,
    environment: Environment,
    dropped: Vec<String>,
    plugin_cache: Option<Utf8PathBuf>,
}

/// A plan that was made.
#[derive(Debug)]
pub struct PlanOutcome {
    /// Whether there is something to apply; also moves, imports and outputs count.
    pub changes: bool,
    /// What Terraform warned of.
    pub warnings: Vec<Diagnostic>,
}

/// An apply that succeeded.
#[derive(Debug)]
pub struct ApplyOutcome {
    /// What Terraform warned of.
    pub warnings: Vec<Diagnostic>,
}

/// Takes the events of a plan or an apply as they come; must not block.
pub type OnEvent<'a> = &'a mut (dyn FnMut(UiEvent) + Send);

/// The exit code of `plan -detailed-exitcode` that says: there are changes.
const EXIT_CHANGES: i32 = 2;

/// What is shown instead of a state that Terraform could not write and says in its place.
const NOT_WRITTEN: &str = "Terraform could not write its state: no space left, or a file that may not get longer";

/// How much of the output that is not JSON is kept for error messages.
const KEPT_NOISE: usize = 16 * 1024;

/// kl's own cache, where there can be one. A home directory that is missing or read-only, as in some containers, costs
/// a download and must not fail a run.
fn own_cache(dir: Option<&Utf8Path>) -> Option<Utf8PathBuf> {
    let dir = dir?;
    match std::fs::create_dir_all(dir) {
        Ok(()) => Some(dir.to_owned()),
        Err(error) => {
            tracing::info!(%dir, %error, "providers are not cached");
            None
        }
    }
}

impl Terraform {
    /// Finds the program, and refuses one that is too old or something else.
    pub async fn locate(request: LocateRequest<'_>) -> Result<Self, TerraformError> {
        let mut environment = request.environment;
        let dropped = environment.pin();
        let located = locate::locate(request.program, request.dir, &environment).await?;
        let users = environment.get("TF_PLUGIN_CACHE_DIR").and_then(|dir| dir.to_str()).map(Utf8PathBuf::from);
        // A relative one counts from where Terraform is started.
        let plugin_cache = users.map(|dir| request.dir.join(dir)).or_else(|| own_cache(request.plugin_cache));
        if let Some(dir) = &plugin_cache {
            environment.set("TF_PLUGIN_CACHE_DIR", dir.as_str());
        }
        let locate::Located { program, version, product, script } = located;
        Ok(Self { program, version, product, script, environment, dropped, plugin_cache })
    }

    /// The program's path.
    #[must_use]
    pub fn program(&self) -> &Utf8Path {
        &self.program
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The value that its environment gives for an input variable.
    #[must_use]
    pub fn variable_in_environment(&self, name: &str) -> Option<&str> {
        self.environment.get(&format!("TF_VAR_{name}"))?.to_str()
    }

    /// Terraform or OpenTofu.
    #[must_use]
    pub fn product(&self) -> Product {
        self.product
    }

    /// The names of environment variables that were kept from it, for a warning.
    #[must_use]
    pub fn dropped_variables(&self) -> &[String] {
        &self.dropped
    }

    /// Initialises the mirror: backend, modules, providers. Inits that share a provider cache take turns.
    pub async fn init(&self, dirs: &Dirs, stop: &Stop) -> Result<(), TerraformError> {
        self.initialise(dirs, Vec::new(), stop).await
    }

    /// Initialises a mirror that has kept its own backend, with the settings in these files; `anew` disregards what the
    /// data directory knows of it.
    pub async fn init_own_backend(
        &self,
        dirs: &Dirs,
        settings: &[Utf8PathBuf],
        anew: bool,
        stop: &Stop,
    ) -> Result<(), TerraformError> {
        let files = settings.iter().map(|file| format!("-backend-config={file}"));
        self.initialise(dirs, files.chain(anew.then(|| "-reconfigure".to_owned())).collect(), stop).await
    }

    /// The state document that the backend has; empty when it has none.
    pub async fn state_pull(&self, dirs: &Dirs, stop: &Stop) -> Result<String, TerraformError> {
        let invocation = self.invocation(dirs, command::state_pull(dirs));
        self.text(&invocation, stop, TerraformError::Pull).await
    }

    /// Takes the backend's lock and gives it back, to see whether somebody else has it. Changes nothing.
    pub async fn state_lock(&self, dirs: &Dirs, stop: &Stop) -> Result<(), TerraformError> {
        let invocation = self.invocation(dirs, command::state_lock(dirs));
        self.text(&invocation, stop, TerraformError::Lock).await.map(drop)
    }

    /// The workspaces that the backend has.
    pub async fn workspace_list(&self, dirs: &Dirs, stop: &Stop) -> Result<Vec<String>, TerraformError> {
        let invocation = self.invocation(dirs, command::workspace_list(dirs));
        Ok(command::workspaces(&self.text(&invocation, stop, TerraformError::Workspaces).await?))
    }

    async fn initialise(&self, dirs: &Dirs, more: Vec<String>, stop: &Stop) -> Result<(), TerraformError> {
        let lock_file_exists = dirs.root_module_dir.join(LOCK_FILE).exists();
        let mut invocation = self.invocation(dirs, [command::init(dirs, lock_file_exists), more].concat());
        if !lock_file_exists {
            // Without checksums to compare with, Terraform would fetch every provider again and write it over the one
            // in the cache, which another apply may be running ("text file busy"). The lock file that this makes
            // incomplete is the mirror's, which nobody keeps.
            invocation.environment.set("TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE", "1");
        }
        let turn = match &self.plugin_cache {
            Some(dir) => Some(cache::lock(dir, stop).await?),
            None => None,
        };
        let ended = process::run(&invocation, stop, Output::Capture).await?;
        drop(turn);
        succeed(&invocation, &ended, Heard::default(), TerraformError::Init)
    }

    /// Plans, and saves the plan.
    pub async fn plan(
        &self,
        dirs: &Dirs,
        request: &PlanRequest,
        stop: &Stop,
        on_event: OnEvent<'_>,
    ) -> Result<PlanOutcome, TerraformError> {
        let given = given(dirs, &request.inputs)?;
        let invocation = self.invocation(dirs, command::plan(dirs, request, given.paths()));
        let (ended, heard) = listen(&invocation, stop, on_event, None).await?;
        if ended.status.code() == Some(EXIT_CHANGES) {
            return Ok(PlanOutcome { changes: true, warnings: heard.warnings() });
        }
        let warnings = heard.warnings();
        succeed(&invocation, &ended, heard, TerraformError::Plan)?;
        Ok(PlanOutcome { changes: false, warnings })
    }

    /// The saved plan as JSON. It holds every sensitive value in clear, so it is handed over in memory.
    pub async fn show_json(&self, dirs: &Dirs, plan: &Utf8Path, stop: &Stop) -> Result<String, TerraformError> {
        let invocation = self.invocation(dirs, command::show(dirs, plan));
        self.text(&invocation, stop, TerraformError::Show).await
    }

    /// The graph that a plan would walk, as DOT.
    pub async fn graph_dot(&self, dirs: &Dirs, stop: &Stop) -> Result<String, TerraformError> {
        let invocation = self.invocation(dirs, command::graph(dirs));
        self.text(&invocation, stop, TerraformError::Graph).await
    }

    /// Applies exactly the saved plan. After an error, too, the state file holds what was done; after
    /// [`TerraformError::Cancelled`] with `cut`, without what was in flight. What it says goes by way of files in
    /// `dirs.output_dir`, so that it finishes alone when kl is killed.
    pub async fn apply(
        &self,
        dirs: &Dirs,
        request: &ApplyRequest,
        stop: &Stop,
        on_event: OnEvent<'_>,
    ) -> Result<ApplyOutcome, TerraformError> {
        let given = given(dirs, &request.inputs)?;
        let invocation = self.invocation(dirs, command::apply(dirs, request, given.paths()));
        let (ended, heard) = listen(&invocation, stop, on_event, Some(&dirs.output_dir)).await?;
        let warnings = heard.warnings();
        succeed(&invocation, &ended, heard, TerraformError::Apply)?;
        Ok(ApplyOutcome { warnings })
    }

    fn invocation(&self, dirs: &Dirs, args: Vec<String>) -> Invocation {
        Invocation {
            program: self.program.clone(),
            args,
            environment: command::environment(&self.environment, dirs),
            dir: dirs.checkout_dir.clone(),
            script: self.script,
        }
    }

    async fn text(
        &self,
        invocation: &Invocation,
        stop: &Stop,
        error: fn(Failure) -> TerraformError,
    ) -> Result<String, TerraformError> {
        let mut ended = process::run(invocation, stop, Output::Capture).await?;
        let output = std::mem::take(&mut ended.stdout);
        succeed(invocation, &ended, Heard::default(), error)?;
        Ok(String::from_utf8(output).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

/// The inputs of a command, in files that are there as long as it runs.
fn given(dirs: &Dirs, inputs: &[Input]) -> Result<InputFiles, TerraformError> {
    InputFiles::write(&dirs.output_dir, inputs)
        .map_err(|source| TerraformError::Inputs { dir: dirs.output_dir.clone(), source })
}

/// What was heard of a command with `-json`.
#[derive(Default)]
struct Heard {
    diagnostics: Vec<Diagnostic>,
    noise: String,
}

impl Heard {
    /// Keeps what an event says for people. A line of JSON that was cut off is left out: it may hold values.
    fn heard(&mut self, event: &UiEvent) {
        match event {
            UiEvent::Diagnostic(diagnostic) => self.diagnostics.push(diagnostic.clone()),
            UiEvent::StateDump if !self.noise.contains(NOT_WRITTEN) => self.hears(NOT_WRITTEN),
            _ => {}
        }
    }

    /// Keeps a line that is no event.
    fn hears(&mut self, line: &str) {
        if self.noise.len() < KEPT_NOISE {
            self.noise.push_str(line);
            self.noise.push('\n');
        }
    }

    fn warnings(&self) -> Vec<Diagnostic> {
        self.diagnostics.iter().filter(|found| found.severity == Severity::Warning).cloned().collect()
    }
}

/// Runs a command with `-json`, hands its events on and keeps its diagnostics.
async fn listen(
    invocation: &Invocation,
    stop: &Stop,
    on_event: OnEvent<'_>,
    output_dir: Option<&Utf8Path>,
) -> Result<(Ended, Heard), TerraformError> {
    let mut heard = Heard::default();
    let mut each = |said: Said<'_>| match said {
        Said::Started(group) => on_event(UiEvent::Started(group)),
        Said::Line(line) => match UiEvent::parse(line) {
            Some(event) => {
                heard.heard(&event);
                on_event(event);
            }
            None => heard.hears(line),
        },
    };
    let output = match output_dir {
        Some(dir) => Output::Files(dir, &mut each),
        None => Output::Lines(&mut each),
    };
    let ended = process::run(invocation, stop, output).await?;
    Ok((ended, heard))
}

/// Success only for exit code 0. One that was stopped and did not make it is cancelled, whatever it says.
fn succeed(
    invocation: &Invocation,
    ended: &Ended,
    heard: Heard,
    error: fn(Failure) -> TerraformError,
) -> Result<(), TerraformError> {
    if ended.status.success() {
        return Ok(());
    }
    if let Some(stopped) = ended.stopped {
        let (command, after) = (invocation.name(), ended.took);
        return Err(TerraformError::Cancelled { command, after, cut: stopped == Stopped::Cut });
    }
    let Heard { mut diagnostics, noise } = heard;
    diagnostics.extend(diagnostic::from_text(&noise));
    diagnostics.extend(diagnostic::from_text(&ended.stderr));
    let rest = diagnostic::without_colours(&format!("{noise}{}", ended.stderr));
    Err(error(Failure { ended: how(ended.status), diagnostics, rest }))
}

/// How a process ended, in words.
fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(9)) => "it was killed (signal 9), by someone else or for lack of memory".to_owned(),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended in an unknown way".to_owned(),
    }
}
