//! `kl history`: the versions of a state, each with why it was allowed and how planning again came out; what changed since
//! a plan; the life of one resource.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::args::runs::HistoryArgs;
use super::args::value::Since;
use super::project::Place;
use super::{Session, rows};
use crate::domain::id::{Actor, RunId, Serial};
use crate::domain::run::event::{RecordedEvent, RunEvent};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::cells;
use crate::report::page::Page;
use crate::report::phrase::Phrase;
use crate::report::story::Tone;
use crate::report::style::{between, count, duration};
use crate::store::Store;
use crate::store::model::{Version, VersionQuery};

/// So many versions are told, unless `--limit` says otherwise.
pub(super) const LIMIT: u32 = 20;

/// So many timelines are read at once.
const OUTLINES: usize = 200;

/// Runs the command.
pub async fn run(session: &Session, args: HistoryArgs) -> Result<Exit, KlError> {
    if let Some(spec) = &args.since_plan {
        return rows::since_plan(session, &args, spec).await;
    }
    if let Some(address) = &args.address {
        return rows::address(session, &args, address).await;
    }
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let store = session.store_existing(&place).await?;
    let Some(head) = store.state_find(&name).await? else {
        return Err(super::state::no_such_state(&name));
    };
    let with_rows = args.rows || session.out.json();
    let since = moment(store.as_ref(), args.since).await?;
    let limit = args.limit.unwrap_or(LIMIT);
    let query = VersionQuery { before: args.before, since, limit: limit.saturating_add(1), with_rows };
    let mut found = store.version_list(head.id, query).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| more).map(|version| version.serial);
    let mut versions = Vec::with_capacity(found.len());
    for chunk in found.chunks(OUTLINES) {
        let runs: Vec<RunId> = chunk.iter().filter_map(|version| version.run).collect();
        let outlines = store.event_outlines(&runs).await?;
        for version in chunk {
            let events = version.run.and_then(|run| outlines.get(&run)).map_or(&[][..], Vec::as_slice);
            versions.push((Why::of(events), version.clone()));
        }
    }
    let filters = [("--since", args.since.is_some()), ("--before", args.before.is_some())];
    let mut page = page(&versions, args.rows, &filters);
    if let Some(next) = next {
        page.note(Phrase::own("Older ones: the same with ").name(format!("--before {next}")));
    }
    session.out.page(&page, || {
        let documents = versions.iter().map(|(why, version)| document(why, version)).collect::<Vec<_>>();
        json!({ "state": name, "serial": head.serial, "versions": documents, "next_before": next })
    });
    Ok(Exit::Done)
}

/// The moment that `--since` means, by the database's clock.
pub(super) async fn moment(store: &dyn Store, since: Option<Since>) -> Result<Option<DateTime<Utc>>, KlError> {
    Ok(match since {
        Some(since) => Some(since.moment(store.now().await?)),
        None => None,
    })
}

/// That a run stood in the queue.
#[derive(Default)]
struct Waited {
    /// For how long.
    time: Duration,
    /// Behind whom, as far as its timeline says.
    behind: Vec<Actor>,
}

/// Why the run of a version went through, from its timeline.
#[derive(Default)]
struct Why {
    /// How planning again compared with the spec.
    replan: Option<String>,
    /// How many other runs were live when it got its reservations.
    beside: Option<usize>,
    /// How many rows outside of its footprint had changed since its plan, without those that were as before again.
    outside: Option<usize>,
    /// For how long it had waited in turn, and behind whom.
    waited: Option<Waited>,
    /// The serial that its rows were taken back to.
    back_to: Option<Serial>,
    /// How many of these had changed and were back as they were.
    back: Option<usize>,
    /// Whether rows of its footprint had changed, and planning again said that the plan still holds.
    revalidated: bool,
    /// `narrow` or `footprint`.
    lane: Option<String>,
    /// Whether exactly what was planned was committed.
    as_planned: Option<bool>,
}

impl Why {
    /// The last word of each kind counts.
    fn of(events: &[RecordedEvent]) -> Self {
        let mut why = Self::default();
        let mut since = None;
        for recorded in events {
            match &recorded.event {
                RunEvent::Replanned { relation, .. } => why.replan = Some(relation.replace('_', " ")),
                RunEvent::Waiting { who, .. } => {
                    since.get_or_insert(recorded.at);
                    let waited = why.waited.get_or_insert_default();
                    for holder in who {
                        if !waited.behind.contains(&holder.actor) {
                            waited.behind.push(holder.actor.clone());
                        }
                    }
                }
                // A plain Terraform that has waited gets the whole state.
                RunEvent::Reserved { .. } | RunEvent::Locked { .. } => {
                    if let RunEvent::Reserved { beside, .. } = &recorded.event {
                        why.beside = Some(beside.len());
                    }
                    if let (Some(since), Some(waited)) = (since.take(), &mut why.waited) {
                        waited.time += between(since, recorded.at);
                    }
                }
                RunEvent::RollingBack { to, .. } => why.back_to = Some(*to),
                RunEvent::StaleCheckPassed { outside, more, more_back } => {
                    let back = outside.iter().filter(|row| row.back).count() + more_back;
                    (why.outside, why.back) = (Some(outside.len() + more - back), Some(back));
                }
                RunEvent::Revalidated { .. } => why.revalidated = true,
                RunEvent::Committed { as_planned, .. } => why.as_planned = *as_planned,
                RunEvent::LaneChosen { lane, .. } => why.lane = Some(lane.clone()),
                _ => {}
            }
        }
        why
    }

    /// In a few words.
    fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(serial) = self.back_to {
            words.push(format!("back to serial {serial}"));
        }
        if let Some(waited) = &self.waited {
            let behind: Vec<&str> = waited.behind.iter().map(|actor| actor.0.as_str()).collect();
            let whom = if behind.is_empty() { String::new() } else { format!(" behind {}", behind.join(" and ")) };
            words.push(format!("waited {}{whom}", duration(waited.time)));
        }
        if self.revalidated {
            words.push("revalidated".to_owned());
        }
        if let Some(outside) = self.outside.filter(|outside| *outside > 0) {
            words.push(format!("{} changed outside", count(outside, "row")));
        }
        if let Some(back) = self.back.filter(|back| *back > 0) {
            words.push(format!("{} changed outside and back", count(back, "row")));
        }
        match self.beside {
            Some(0) => words.push("no other run was live".to_owned()),
            Some(number) => words.push(format!("began beside {}", count(number, "run"))),
            None => {}
        }
        words.join(", ")
    }
}

fn page(versions: &[(Why, Version)], with_rows: bool, filters: &[(&str, bool)]) -> Page {
    let mut page = Page::default();
    if versions.is_empty() {
        page.nothing(Phrase::own("No version yet."), filters);
        return page;
    }
    let cells = |(why, version): &(Why, Version)| {
        vec![
            Phrase::own(version.serial.to_string()),
            cells::time(version.at),
            Phrase::own(version.actor.0.clone()),
            Phrase::own(version.source.word()),
            Phrase::own(version.mode.word()),
            cells::request(&version.origin),
            Phrase::own(version.rows_touched.to_string()),
            why.replan.clone().map(Phrase::own).unwrap_or_default(),
            match why.as_planned {
                Some(true) => Phrase::own("exactly"),
                Some(false) => Phrase::toned(Tone::Careful, "not exactly"),
                None => Phrase::default(),
            },
            Phrase::own(why.words()),
            version.run.map(cells::run).unwrap_or_default(),
        ]
    };
    let head = ["Serial", "Time", "Actor", "Source", "Mode", "Request", "Rows", "Re-plan", "As planned", "Why", "Run"];
    if !with_rows {
        page.grid(&head, &versions.iter().map(cells).collect::<Vec<_>>());
        return page;
    }
    for version in versions {
        page.grid(&head, &[cells(version)]);
        let rows = version.1.rows.iter();
        page.items(rows.map(|(row, touched)| Phrase::own(touched.sign()).and(" ").name(row.to_string())).collect());
    }
    page
}

fn document(why: &Why, version: &Version) -> serde_json::Value {
    json!({
        "serial": version.serial,
        "source_serial": version.source_serial,
        "at": version.at,
        "actor": version.actor,
        "origin": version.origin,
        "run": version.run,
        "spec": version.spec,
        "source": version.source,
        "mode": version.mode,
        "terraform_version": version.terraform_version,
        "rows_opened": version.rows_opened,
        "rows_closed": version.rows_closed,
        "rows_touched": version.rows_touched,
        "replan": why.replan,
        "revalidated": why.revalidated,
        "waited": why.waited.as_ref().map(|waited| json!({
            "seconds": waited.time.as_secs(),
            "behind": waited.behind,
        })),
        "back_to": why.back_to,
        "beside": why.beside,
        "changed_outside": why.outside,
        "back_outside": why.back,
        "lane": why.lane,
        "as_planned": why.as_planned,
        "rows": version.rows.iter().map(|(row, touched)| json!({
            "row": row.to_string(),
            "kind": row.kind(),
            "touched": touched,
        })).collect::<Vec<_>>(),
    })
}
