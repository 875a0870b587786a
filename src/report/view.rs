//! What a request's comment, check and summary are made of: facts from the database, before any wording.

use chrono::{DateTime, Utc};

use crate::domain::address::Address;
use crate::domain::coordination::forecast::{ForecastRelation, Meeting};
use crate::domain::coordination::reservation::{Blocker, Reservation};
use crate::domain::coordination::staleness::Staleness;
use crate::domain::id::{Actor, RunId, Serial, SpecId, StateName};
pub use crate::domain::plan::changed::ChangedValue;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::request::{RequestPhase, RequestRef};
use crate::domain::run::aftermath::Aftermath;
use crate::domain::run::again::Again;
use crate::domain::run::event::RecordedEvent;
use crate::domain::run::{Run, RunStatus};

/// A request with all of its projects.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestView {
    /// Which request.
    pub request: RequestRef,
    /// The commit at its head.
    pub head: String,
    /// Where it stands.
    pub phase: RequestPhase,
    /// The database's time when this was read.
    pub now: DateTime<Utc>,
    /// Its projects, in the order of their names.
    pub projects: Vec<ProjectView>,
    /// The page of the forge's own server, as `https://github.com`, for links.
    pub server_url: Option<String>,
}

/// One project of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectView {
    /// Its name.
    pub name: String,
    /// The root module, relative to the repository.
    pub dir: String,
    /// The Terraform workspace.
    pub workspace: String,
    /// The state that it is mapped to.
    pub state: StateName,
    /// What the newest plan job came to.
    pub plan: PlanView,
    /// What the apply came to, once there was one.
    pub apply: Option<ApplyView>,
}

/// What the newest plan job of a project came to.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanView {
    /// There is a spec.
    Planned(Box<PlannedView>),
    /// Planning failed.
    Failed {
        /// Why, in a sentence without secrets.
        error: String,
        /// The commit.
        head: String,
        /// The job's page.
        job_url: Option<String>,
        /// When.
        at: DateTime<Utc>,
    },
    /// The request touched the project once and no longer does.
    Dropped,
    /// No plan job has finished: the project came with the merge.
    Missing,
}

/// A spec and everything around it that matters before the merge.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedView {
    /// The spec.
    pub spec: PlanSpec,
    /// Values of changed attributes, already masked; empty unless `show_values` is set.
    pub values: Vec<ChangedValue>,
    /// The commit that was planned.
    pub head: String,
    /// When.
    pub at: DateTime<Utc>,
    /// The job's page.
    pub job_url: Option<String>,
    /// The trunk's serial now.
    pub trunk_serial: Serial,
    /// What changed in the trunk since the plan.
    pub since: Staleness,
    /// Reservations that would block an apply if it started now.
    pub in_the_way: Vec<Blocker>,
    /// All other reservations on the state that stand now, for the reader's orientation.
    pub beside: Vec<Reservation>,
    /// Other open requests with a spec on the same state.
    pub forecast: Vec<ForecastView>,
    /// The newest versions that touched what this plan reads or writes.
    pub history: Vec<HistoryLine>,
    /// The resource instances of the trunk, so that `module.web.*` is only said where all of a module is meant. None
    /// when they were not looked up: then every pattern is shown as it is.
    pub known: Option<Vec<Address>>,
}

/// How another open request relates to this plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForecastView {
    /// The other request.
    pub request: RequestRef,
    /// Its title.
    pub title: String,
    /// Open, or merged and not applied yet.
    pub phase: RequestPhase,
    /// Who planned it.
    pub actor: Actor,
    /// Its spec.
    pub spec: SpecId,
    /// What the two amount to.
    pub relation: ForecastRelation,
    /// Where they meet, the worst first.
    pub meetings: Vec<Meeting>,
}

/// A version that touched the footprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLine {
    /// Its serial.
    pub serial: Serial,
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub actor: Actor,
    /// The request that it came from.
    pub request: Option<RequestRef>,
    /// The run.
    pub run: Option<RunId>,
    /// `apply`, `refresh`, `import` or `recover`.
    pub source: &'static str,
    /// The rows of our footprint that it touched.
    pub rows: Vec<String>,
}

/// What an apply came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplyView {
    /// The run; none when the apply was refused before there was one.
    pub run: Option<Run>,
    /// Its timeline.
    pub events: Vec<RecordedEvent>,
    /// Other runs on the same state that overlapped with it in time, by their beginning.
    pub beside: Vec<NearbyRun>,
    /// Why it failed, when there is no run to say so.
    pub error: Option<String>,
    /// What to do next, as commands and sentences.
    pub next: Vec<String>,
    /// What has become of it by now, where it did not go through; none for others.
    pub today: Option<Today>,
    /// What has become of what it left half-done; none where nobody has done anything about all of that.
    pub aftermath: Option<Aftermath>,
    /// The job's page.
    pub job_url: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

/// What has become, by now, of a run that did not go through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Today {
    /// The later run by which the same change was made.
    pub made: Option<Made>,
    /// The apply of the same spec that made it, where what it wrote was changed since without a plan.
    pub undone: Option<Made>,
    /// What would stand in the way of the same reservations now.
    pub in_the_way: Vec<Blocker>,
}

/// A change that was made after all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The version; none where there was nothing left to do.
    pub serial: Option<Serial>,
    /// The run that made it.
    pub run: RunId,
    /// Who.
    pub actor: Actor,
    /// How that run took the change up.
    pub how: Again,
}

/// Another run on the same state, for the picture of who worked at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearbyRun {
    /// The run.
    pub run: RunId,
    /// Who.
    pub actor: Actor,
    /// The request that it came from.
    pub request: Option<RequestRef>,
    /// Where it stands.
    pub status: RunStatus,
    /// From when.
    pub from: DateTime<Utc>,
    /// Until when; none while it goes on.
    pub to: Option<DateTime<Utc>>,
}
