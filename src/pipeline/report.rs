//! From what the store knows of many runs to a page about all of them, by few statements however many runs there are.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};

use super::{aftermath, request, story, today};
use crate::domain::coordination::reservation::Reservation;
use crate::domain::id::{RunId, Serial, SpecId, StateId, StateName};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::Run;
use crate::domain::run::event::RecordedEvent;
use crate::error::KlError;
use crate::report::explain::RunFacts;
use crate::report::html::{Report, RunView};
use crate::report::view::{ApplyView, NearbyRun, Today};
use crate::store::Store;
use crate::store::model::{RunQuery, StateHead, Version};

/// So many runs are read, told and forgotten at a time: a timeline may be long.
const AT_ONCE: usize = 100;

/// Which runs a page is about.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Only those of this state; none: of all.
    pub state: Option<StateId>,
    /// Only those that began since.
    pub since: Option<DateTime<Utc>>,
    /// At most so many, the newest.
    pub limit: u32,
}

/// Everything that a page tells.
pub async fn of_runs(store: &dyn Store, asked: Selection) -> Result<Report, KlError> {
    let now = store.now().await?;
    let query = RunQuery {
        state: asked.state,
        since: asked.since,
        limit: asked.limit.saturating_add(1),
        ..RunQuery::default()
    };
    let mut runs = store.run_page(&query).await?;
    let cut = runs.len() > asked.limit as usize;
    runs.truncate(asked.limit as usize);
    runs.reverse();
    // After the runs: each of them has its state by then.
    let mut heads = store.state_list().await?;
    heads.retain(|head| asked.state.is_none_or(|state| state == head.id));

    let mut others: HashMap<RunId, Option<NearbyRun>> =
        runs.iter().map(|run| (run.id, Some(request::nearby(run.clone())))).collect();
    let names: HashMap<StateId, StateName> = heads.iter().map(|head| (head.id, head.name.clone())).collect();
    let mut standing = Vec::new();
    for head in &heads {
        standing.extend(store.reservation_list(head.id).await?);
    }
    let mut views = Vec::with_capacity(runs.len());
    for chunk in runs.chunks(AT_ONCE) {
        for facts in told(store, chunk, &names, &mut others, (&runs, &standing), now).await? {
            views.push(RunView::of(&facts));
        }
    }
    // A state that no run is about and that has no version is a name that somebody mistyped.
    let used = |head: &StateHead| head.serial > Serial(0) || runs.iter().any(|run| run.state == head.id);
    heads.retain(used);
    let states = heads.into_iter().map(|head| (head.name, head.serial)).collect();
    Ok(Report { now, states, runs: views, standing, since: asked.since, cut })
}

/// What [`story::of_run`] tells of each of some runs.
async fn told(
    store: &dyn Store,
    runs: &[Run],
    names: &HashMap<StateId, StateName>,
    others: &mut HashMap<RunId, Option<NearbyRun>>,
    (all_runs, standing): (&[Run], &[Reservation]),
    now: DateTime<Utc>,
) -> Result<Vec<RunFacts>, KlError> {
    let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    let mut timelines = store.event_lists(&ids).await?;
    let specs = specs(store, runs).await?;
    let mut versions: HashMap<RunId, Vec<Version>> = HashMap::new();
    for version in store.versions_of_runs(&ids).await? {
        if let Some(run) = version.run {
            versions.entry(run).or_default().push(version);
        }
    }
    let mut recovered: HashMap<SpecId, Vec<Version>> = HashMap::new();
    for version in store.recovered_versions(&specs.keys().copied().collect::<Vec<_>>()).await? {
        if let Some(spec) = version.spec {
            recovered.entry(spec).or_default().push(version);
        }
    }
    let lines: Vec<(&Run, &[RecordedEvent])> =
        runs.iter().filter_map(|run| Some((run, timelines.get(&run.id)?.as_slice()))).collect();
    let mut aftermaths = aftermath::look_all(store, &lines, all_runs).await?;
    let mut all = Vec::with_capacity(runs.len());
    for run in runs {
        let state = names.get(&run.state).cloned();
        let state = state.ok_or_else(|| KlError::failed("the state of the run does not exist"))?;
        let events = timelines.remove(&run.id).unwrap_or_default();
        let spec = run.spec.and_then(|id| specs.get(&id)).cloned();
        let (named, soft) = story::named(&events);
        let mut known = BTreeMap::new();
        for id in named {
            // A run that began before those of the page is looked up once.
            let other = match others.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(story::found(store.run_find(id).await)?.map(request::nearby)),
            };
            if let Some(other) = other {
                known.insert(id, other.clone());
            }
        }
        let versions = versions.remove(&run.id).unwrap_or_default();
        let recovered = run.spec.and_then(|spec| recovered.get(&spec)).map_or(&[][..], Vec::as_slice);
        let committed = story::committed(run, &versions, spec.as_ref(), recovered, &soft, story::other_values(&events));
        // Who else was at work is on the page itself.
        let apply = ApplyView {
            run: Some(run.clone()),
            events,
            beside: Vec::new(),
            error: None,
            next: Vec::new(),
            today: today::unmade(run).then(|| Today {
                made: today::made(run, all_runs.iter()),
                undone: None,
                in_the_way: today::in_the_way(run, standing, now),
            }),
            aftermath: aftermaths.remove(&run.id),
            job_url: run.origin.job_url.clone(),
            at: now,
        };
        let run = run.clone();
        let later = Vec::new();
        all.push(RunFacts { run, state, apply, spec, others: known, later, later_cut: false, committed });
    }
    Ok(all)
}

/// The specs of some runs, as far as this kl can read them.
async fn specs(store: &dyn Store, runs: &[Run]) -> Result<HashMap<SpecId, PlanSpec>, KlError> {
    let mut ids: Vec<SpecId> = runs.iter().filter_map(|run| run.spec).collect();
    ids.sort_unstable();
    ids.dedup();
    let stored = store.spec_list(&ids).await?;
    Ok(stored.into_iter().filter_map(|one| Some((one.spec.id, PlanSpec::read(&one.spec.document).ok()?))).collect())
}
