//! From what the store knows of a request to what its comment, checks and summaries show.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::{aftermath, life, stale, story, today};
use crate::domain::address::Address;
use crate::domain::coordination::forecast::{ForecastRelation, forecast};
use crate::domain::coordination::reservation::{Blocker, Claim, blockers};
use crate::domain::coordination::staleness::Staleness;
use crate::domain::id::{RunId, StateId};
use crate::domain::plan::changed::ChangedValue;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::request::{ForgeKind, RequestPhase, RequestRef};
use crate::domain::run::event::RecordedEvent;
use crate::domain::run::{Origin, Run};
use crate::error::KlError;
use crate::report::outlook::{Outlook, RunForecast};
use crate::report::view::{
    ApplyView, ForecastView, HistoryLine, NearbyRun, PlanView, PlannedView, ProjectView, RequestView,
};
use crate::store::Store;
use crate::store::model::{ApplyRecord, PlanOutcome, PlanRecord, ProjectRecord, RunQuery, StoredSpec};

/// So many specs of other requests are compared with a plan.
const MAX_FORECAST: u32 = 500;

/// So many runs are read at once to find those that overlapped with one; and so many of those that began before it are
/// looked at.
const BESIDE: u32 = 50;

/// So many runs that began before the end of one are looked at for those that overlapped with it, the newest ones.
const MAX_BESIDE: usize = 1000;

/// So many versions of the footprint are shown.
const MAX_HISTORY: u32 = 5;

/// Everything that is known of a request; none when the store does not know it.
pub async fn view(
    store: &dyn Store,
    request: &RequestRef,
    server_url: Option<&str>,
) -> Result<Option<RequestView>, KlError> {
    let Some(known) = store.request_find(request).await? else {
        return Ok(None);
    };
    let mut projects = Vec::new();
    for record in store.request_projects(request).await? {
        projects.push(project(store, request, known.facts.phase, record).await?);
    }
    Ok(Some(RequestView {
        request: request.clone(),
        head: known.facts.head,
        phase: known.facts.phase,
        now: store.now().await?,
        projects,
        server_url: server_url.map(str::to_owned),
    }))
}

async fn project(
    store: &dyn Store,
    request: &RequestRef,
    phase: RequestPhase,
    record: ProjectRecord,
) -> Result<ProjectView, KlError> {
    let ProjectRecord { place, state_name, plan, apply, .. } = record;
    let apply = match apply {
        Some(apply) => Some(applied(store, apply).await?),
        None => None,
    };
    // What is over has no forecast: the result says how it went.
    let pending = phase != RequestPhase::Closed && apply.is_none();
    let plan = match plan {
        Some(plan) => planned(store, request, place.state, plan, pending).await?,
        None => PlanView::Missing,
    };
    Ok(ProjectView { name: place.project, dir: place.dir, workspace: place.workspace, state: state_name, plan, apply })
}

async fn planned(
    store: &dyn Store,
    request: &RequestRef,
    state: StateId,
    record: PlanRecord,
    pending: bool,
) -> Result<PlanView, KlError> {
    let (spec, values) = match &record.outcome {
        PlanOutcome::Planned { spec, values } => (store.spec_find(*spec).await?, values.clone()),
        PlanOutcome::Failed { error } => {
            return Ok(PlanView::Failed {
                error: error.clone(),
                head: record.head,
                job_url: record.job_url,
                at: record.at,
            });
        }
        PlanOutcome::Dropped => return Ok(PlanView::Dropped),
    };
    let spec = read(&spec)?;
    let head = PlanOf { head: record.head, job_url: record.job_url, at: record.at };
    Ok(PlanView::Planned(Box::new(surroundings(store, Some(request), state, spec, values, head, pending).await?)))
}

/// A plan that belongs to no request, as it stands now.
pub async fn unattached(store: &dyn Store, spec: &PlanSpec, values: Vec<ChangedValue>) -> Result<PlanView, KlError> {
    let state = store.state_ensure(&spec.state.name).await?.id;
    let head = PlanOf {
        head: spec.origin.commit.clone().unwrap_or_default(),
        job_url: spec.origin.job_url.clone(),
        at: store.spec_find(spec.id).await?.created_at,
    };
    Ok(PlanView::Planned(Box::new(surroundings(store, None, state, spec.clone(), values, head, true).await?)))
}

/// A plan as it stands now, beside live runs and the plans of other open requests.
pub async fn outlook(store: &dyn Store, state: StateId, spec: &PlanSpec) -> Result<Outlook, KlError> {
    let of = PlanOf {
        head: spec.origin.commit.clone().unwrap_or_default(),
        job_url: spec.origin.job_url.clone(),
        at: store.now().await?,
    };
    let own = request_of(&spec.origin);
    let planned = surroundings(store, own.as_ref(), state, spec.clone(), Vec::new(), of, true).await?;
    let claims = spec.claims();
    let live = store.run_list(state, true, MAX_FORECAST).await?;
    let near = |run: Run| {
        let (relation, meetings) = forecast(&claims, &run.claims);
        RunForecast { kind: run.kind, run: nearby(run), relation, meetings }
    };
    let mut runs: Vec<RunForecast> = live.into_iter().filter(|run| run.spec != Some(spec.id)).map(near).collect();
    runs.sort_by(|a, b| b.relation.cmp(&a.relation).then_with(|| a.run.from.cmp(&b.run.from)));
    let applied = stale::applied_before(store, state, spec).await?;
    Ok(Outlook { planned, applied: applied.as_ref().map(life::cause), runs })
}

/// A run as its neighbours know it.
#[must_use]
pub fn nearby(run: Run) -> NearbyRun {
    NearbyRun {
        run: run.id,
        request: request_of(&run.origin),
        actor: run.actor,
        status: run.status,
        from: run.started_at,
        to: run.ended_at,
    }
}

/// What an apply that belongs to no request came to.
pub async fn of_run(store: &dyn Store, run: RunId, job_url: Option<String>) -> Result<ApplyView, KlError> {
    let at = store.now().await?;
    applied(store, ApplyRecord { run: Some(run), error: None, next: Vec::new(), job_url, at }).await
}

/// Of what, where and when a plan was made.
struct PlanOf {
    head: String,
    job_url: Option<String>,
    at: DateTime<Utc>,
}

/// A stored spec as a value.
///
/// # Errors
/// When what is stored is not a spec of this kl.
pub fn read(stored: &StoredSpec) -> Result<PlanSpec, KlError> {
    PlanSpec::read(&stored.spec.document).map_err(|error| {
        KlError::failed(format!("the stored spec {} cannot be read", stored.spec.id))
            .because(error)
            .hint("it was stored by another version of kl; plan again")
    })
}

/// What is around a spec: what changed since, what is reserved, who else is near.
async fn surroundings(
    store: &dyn Store,
    request: Option<&RequestRef>,
    state: StateId,
    spec: PlanSpec,
    values: Vec<ChangedValue>,
    of: PlanOf,
    pending: bool,
) -> Result<PlannedView, KlError> {
    let claims = spec.claims();
    let trunk_serial = store.state_find(&spec.state.name).await?.map_or(spec.state.serial, |head| head.serial);
    let mut view = PlannedView {
        values,
        head: of.head,
        at: of.at,
        job_url: of.job_url,
        trunk_serial,
        since: Staleness::default(),
        in_the_way: Vec::new(),
        beside: Vec::new(),
        forecast: Vec::new(),
        history: history(store, state, &claims).await?,
        known: known(store, state, claims.len()).await?,
        spec,
    };
    if !pending || !view.spec.has_changes() {
        return Ok(view);
    }
    view.since = stale::since(store, state, &view.spec).await?;
    let standing = store.reservation_list(state).await?;
    view.in_the_way = blockers(nobody(), i64::MAX, &claims, &standing, store.now().await?);
    view.beside = standing;
    view.beside.retain(|one| !view.in_the_way.iter().any(|blocker| blocker.reservation == *one));
    for other in store.open_specs(state, MAX_FORECAST).await? {
        if Some(&other.request) == request {
            continue;
        }
        // One that another version of kl has stored says nothing that this one could compare.
        let Ok(theirs) = read(&other.spec) else { continue };
        if !theirs.has_changes() {
            continue;
        }
        let (relation, meetings) = forecast(&claims, &theirs.claims());
        view.forecast.push(ForecastView {
            request: other.request,
            title: other.title,
            phase: other.phase,
            actor: theirs.actor,
            spec: theirs.id,
            relation,
            meetings,
        });
    }
    view.forecast.sort_by(|a, b| b.relation.cmp(&a.relation).then_with(|| a.request.cmp(&b.request)));
    Ok(view)
}

/// How the newest spec of a project in a request stands now.
pub struct Validity {
    /// The spec.
    pub spec: PlanSpec,
    /// What changed since.
    pub since: Staleness,
    /// Reservations that would block an apply if it started now.
    pub in_the_way: Vec<Blocker>,
}

/// Looks at the newest spec of a project in a request; none when there is none, or the newest plan failed.
pub async fn validity(store: &dyn Store, request: &RequestRef, project: &str) -> Result<Option<Validity>, KlError> {
    let records = store.request_projects(request).await?;
    let record = records.into_iter().find(|record| record.place.project == project);
    let Some((place, PlanOutcome::Planned { spec, .. })) =
        record.and_then(|record| record.plan.map(|plan| (record.place, plan.outcome)))
    else {
        return Ok(None);
    };
    let spec = read(&store.spec_find(spec).await?)?;
    let since = stale::since(store, place.state, &spec).await?;
    let held = store.reservation_list(place.state).await?;
    let in_the_way = blockers(nobody(), i64::MAX, &spec.claims(), &held, store.now().await?);
    Ok(Some(Validity { spec, since, in_the_way }))
}

/// Open requests of the same repository whose plans are near these ones, those that meet them first. `all` keeps those that
/// are independent, too.
pub async fn neighbours(
    store: &dyn Store,
    request: &RequestRef,
    specs: &[&PlanSpec],
    all: bool,
) -> Result<Vec<RequestRef>, KlError> {
    let mut found: BTreeMap<RequestRef, ForecastRelation> = BTreeMap::new();
    for spec in specs.iter().filter(|spec| spec.has_changes()) {
        let Some(head) = store.state_find(&spec.state.name).await? else { continue };
        let claims = spec.claims();
        for other in store.open_specs(head.id, MAX_FORECAST).await? {
            let here = other.request.forge == request.forge && other.request.repository == request.repository;
            if !here || other.request == *request || other.phase != RequestPhase::Open {
                continue;
            }
            // One that another version of kl has stored says nothing that this one could compare.
            let Ok(theirs) = read(&other.spec) else { continue };
            let (relation, _) = forecast(&claims, &theirs.claims());
            if theirs.has_changes() && (all || relation != ForecastRelation::Independent) {
                let worst = found.entry(other.request).or_insert(relation);
                *worst = relation.max(*worst);
            }
        }
    }
    let mut near: Vec<(RequestRef, ForecastRelation)> = found.into_iter().collect();
    near.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| b.0.number.cmp(&a.0.number)));
    Ok(near.into_iter().map(|(request, _)| request).collect())
}

/// A run that holds nothing: whoever holds something is somebody else.
fn nobody() -> RunId {
    RunId(uuid::Uuid::nil())
}

/// With more claims than this, a reader is helped by `module.web.*` for all of a module.
const FEW_CLAIMS: usize = 20;

/// The resource instances of the trunk, where they are worth reading it.
async fn known(store: &dyn Store, state: StateId, claims: usize) -> Result<Option<Vec<Address>>, KlError> {
    if claims <= FEW_CLAIMS {
        return Ok(None);
    }
    let snapshot = store.snapshot(state, None).await?;
    Ok(Some(snapshot.rows.iter().filter_map(|(row, _)| row.key.address().cloned()).collect()))
}

async fn history(store: &dyn Store, state: StateId, claims: &[Claim]) -> Result<Vec<HistoryLine>, KlError> {
    let touching = store.versions_touching(state, claims, None, MAX_HISTORY).await?;
    Ok(touching
        .into_iter()
        .map(|version| HistoryLine {
            serial: version.serial,
            at: version.at,
            request: request_of(&version.origin),
            actor: version.actor,
            run: version.run,
            source: version.source.word(),
            rows: version.rows.iter().map(|(row, _)| row.to_string()).collect(),
        })
        .collect())
}

/// The request that something came from.
#[must_use]
pub fn request_of(origin: &Origin) -> Option<RequestRef> {
    Some(RequestRef {
        forge: ForgeKind::from_word(origin.forge.as_deref()?)?,
        repository: origin.repository.clone()?,
        number: origin.request?,
    })
}

async fn applied(store: &dyn Store, record: ApplyRecord) -> Result<ApplyView, KlError> {
    let (run, events) = match record.run {
        Some(run) => (Some(store.run_find(run).await?), store.event_list(run).await?),
        None => (None, Vec::new()),
    };
    let beside = match &run {
        Some(run) => beside(store, run, &events).await?,
        None => Vec::new(),
    };
    let (today, aftermath) = match &run {
        Some(run) => (today::look(store, run).await?, aftermath::look(store, run, &events).await?),
        None => (None, None),
    };
    Ok(ApplyView {
        run,
        events,
        beside,
        today,
        aftermath,
        error: record.error,
        next: record.next,
        job_url: record.job_url,
        at: record.at,
    })
}

/// Other runs that overlapped in time with one, by their beginning. Those beside which it got its reservations stand on its
/// own timeline, however long before they had begun.
async fn beside(store: &dyn Store, run: &Run, events: &[RecordedEvent]) -> Result<Vec<NearbyRun>, KlError> {
    let overlaps = |other: &Run| {
        other.id != run.id
            && other.ended_at.is_none_or(|end| end > run.started_at)
            && run.ended_at.is_none_or(|end| other.started_at < end)
    };
    let mut found: BTreeMap<RunId, NearbyRun> = BTreeMap::new();
    let mut before = run.ended_at.map(|end| (end, RunId(uuid::Uuid::max())));
    let (mut looked, mut earlier) = (0, 0);
    while looked < MAX_BESIDE && earlier < BESIDE as usize {
        let query = RunQuery { state: Some(run.state), before, limit: BESIDE, ..RunQuery::default() };
        let page = store.run_page(&query).await?;
        let Some(oldest) = page.last() else { break };
        before = Some((oldest.started_at, oldest.id));
        looked += page.len();
        earlier += page.iter().filter(|other| other.started_at < run.started_at).count();
        let last = page.len() < BESIDE as usize;
        found.extend(page.into_iter().filter(overlaps).map(|other| (other.id, nearby(other))));
        if last {
            break;
        }
    }
    for id in story::neighbours(events).filter(|id| *id != run.id).take(MAX_BESIDE) {
        if !found.contains_key(&id)
            && let Some(other) = story::found(store.run_find(id).await)?.filter(overlaps)
        {
            found.insert(id, nearby(other));
        }
    }
    let mut found: Vec<NearbyRun> = found.into_values().collect();
    found.sort_by_key(|other| (other.from, other.run));
    Ok(found)
}
