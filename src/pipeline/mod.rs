//! The stories of kl: plan, apply, refresh, recover, import. Each file tells one, in the order in which it happens.

pub mod adopt;
mod aftermath;
pub mod apply;
pub mod bench;
pub mod checkpoint;
pub mod commit;
pub mod done;
pub mod edit;
pub mod errand;
pub mod errored;
pub mod evidence;
pub mod execute;
pub mod finish;
pub mod import;
pub mod inputs;
pub mod intervening;
mod later;
pub mod leak;
pub mod leftover;
pub mod life;
pub mod moves;
pub mod preflight;
pub mod record;
pub mod recover;
pub mod refresh;
pub mod report;
pub mod request;
pub mod reserve;
pub mod stale;
pub mod story;
pub mod today;
pub mod travel;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use camino::Utf8PathBuf;

use crate::config::policy::{ClosureRule, DestroyGuard, OnFailure, OnStale, Policies};
use crate::domain::id::{Actor, StateName};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::Origin;
use crate::error::KlError;
use crate::mishap::Mishaps;
use crate::report::event::{Progress, Sink, Stage};
use crate::store::{Patience, Store};
use crate::terraform::{Stop, Terraform, Variable};

/// Who asks: somebody to tell, who acts, from where, and how it is asked to stop.
#[derive(Clone)]
pub struct Caller {
    /// Where progress goes.
    pub sink: Arc<dyn Sink>,
    /// Who acts.
    pub actor: Actor,
    /// From where.
    pub origin: Origin,
    /// How to stop.
    pub stop: Stop,
    /// What a test has ordered to go wrong.
    pub mishaps: Mishaps,
    /// The file of the embedded database, once one was opened: no mirror takes it in.
    pub database: Arc<OnceLock<Utf8PathBuf>>,
}

/// What every story needs: who asks, and the memory. Whatever needs only the caller takes the context as one.
#[derive(Clone)]
pub struct Context {
    /// The memory.
    pub store: Arc<dyn Store>,
    /// Who asks.
    pub caller: Caller,
}

impl Deref for Context {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

/// A root module with its inputs, as the user named it.
#[derive(Clone)]
pub struct Project {
    /// The checkout's root module, absolute.
    pub dir: Utf8PathBuf,
    /// The same, relative to the repository.
    pub name: String,
    /// The Terraform workspace.
    pub workspace: String,
    /// The state.
    pub state: StateName,
    /// Variable files, relative to the root module or absolute.
    pub var_files: Vec<String>,
    /// Variables from the command line.
    pub variables: Vec<Variable>,
    /// The program.
    pub terraform: Terraform,
    /// Whether the isolated directory stays.
    pub keep_workspace: bool,
}

/// The rules that the repository sets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// When rows of the footprint changed since the plan.
    pub on_stale: OnStale,
    /// Refuse whenever a planned write target changed, whatever `on_stale` says.
    pub strict: bool,
    /// The oldest spec that may be applied.
    pub max_plan_age: Option<Duration>,
    /// How wide the read set is.
    pub closure: ClosureRule,
    /// What becomes of the rows that a failed apply has finished.
    pub on_failure: OnFailure,
    /// Whether a failed `check` block stops a plan and an apply.
    pub fail_on_check: bool,
    /// How many objects a plan may destroy.
    pub destroy: DestroyGuard,
    /// Whether values of changed attributes are kept to be shown, masked where they are sensitive.
    pub show_values: bool,
}

impl From<Policies> for Rules {
    fn from(policies: Policies) -> Self {
        Self {
            on_stale: policies.on_stale,
            strict: false,
            max_plan_age: policies.max_plan_age,
            closure: policies.closure,
            on_failure: policies.on_failure,
            fail_on_check: policies.fail_on_check,
            destroy: policies.destroy,
            show_values: policies.show_values,
        }
    }
}

impl Rules {
    /// Whether the results of the configuration's checks let a plan pass.
    ///
    /// # Errors
    /// Names the checks that fail.
    pub fn check_checks(&self, failed: &[String]) -> Result<(), KlError> {
        if !self.fail_on_check || failed.is_empty() {
            return Ok(());
        }
        Err(KlError::failed(format!("the configuration's own checks fail: {}", failed.join(", ")))
            .hint("terraform's warnings say why; `fail_on_check: false` in kl.yaml lets such plans pass"))
    }

    /// Whether the guard against destruction lets a plan pass.
    ///
    /// # Errors
    /// Says how many objects it destroys, and how many may be.
    pub fn check_destroy(&self, spec: &PlanSpec) -> Result<(), KlError> {
        let count = spec.destroyed();
        if self.destroy.allows(count) {
            return Ok(());
        }
        Err(KlError::usage(format!(
            "the plan destroys {}, and the policy is `destroy: {}`",
            crate::report::style::count(usize::try_from(count).unwrap_or(usize::MAX), "object"),
            self.destroy
        ))
        .hint("change `policies.destroy` in kl.yaml, or give --allow-destroy to `kl apply` when this is meant"))
    }
}

impl Context {
    /// The same context for a run with this lease: while it lasts, a database that is away is waited for.
    #[must_use]
    pub(crate) fn patient(&self, lease: Duration) -> Self {
        let patience = Patience { limit: lease, stop: self.stop.hurry.clone() };
        Self { store: self.store.patient(patience), caller: self.caller.clone() }
    }
}

impl Caller {
    /// The context, once there is a memory.
    #[must_use]
    pub fn with(self, store: Arc<dyn Store>) -> Context {
        Context { store, caller: self }
    }

    /// Says that a stage begins.
    ///
    /// # Errors
    /// When a test wants it to fail.
    pub(crate) async fn begins(&self, stage: Stage) -> Result<(), KlError> {
        self.sink.emit(&Progress::Begins(stage));
        let passed = self.mishaps.pass(|| format!("stage/{stage:?}").to_lowercase()).await;
        passed.map_err(|struck| KlError::failed(struck.to_string()))
    }

    /// Says something that a person should know.
    pub(crate) fn warn(&self, message: impl Into<String>) {
        self.sink.emit(&Progress::Warning(message.into()));
    }
}
