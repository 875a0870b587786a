//! What a page needs of one run: its story, when it waited and for whom, what it wrote and read, and what depends on what.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::embed;
use crate::domain::coordination::reservation::AccessMode;
use crate::domain::id::{RunId, StateName};
use crate::domain::request::{ForgeKind, RequestRef};
use crate::domain::run::aftermath::Aftermath;
use crate::domain::run::event::{ChangedRow, RunEvent};
use crate::domain::run::fidelity::Fidelity;
use crate::domain::run::{Origin, Run, RunStatus};
use crate::report::comment::place::Place;
use crate::report::explain::{self, RunFacts};
use crate::report::markdown::{visible, web};
use crate::report::phrase::Phrase;
use crate::report::plan::via_words;
use crate::report::style::count;

/// So many addresses of one run are on the page; the rest is counted.
pub(super) const ADDRESSES: usize = 200;
/// So many facts stand behind one sentence; the rest is counted.
const FACTS: usize = 20;

/// One run on the page.
#[derive(Debug, Clone)]
pub struct RunView {
    pub(super) run: Run,
    pub(super) state: StateName,
    /// From when until when it stood in the queue; no end while it does.
    pub(super) waited: Option<(DateTime<Utc>, Option<DateTime<Utc>>)>,
    /// Behind which runs.
    pub(super) behind: Vec<RunId>,
    /// What had changed since its plan, in what it reads or writes.
    pub(super) overtaken: Option<Overtaken>,
    /// How planning again came out, in a word.
    pub(super) replanned: Option<String>,
    /// When it was planned again for the last time, and how that plan differs from the reviewed one.
    pub(super) differs: Option<(DateTime<Utc>, Vec<String>)>,
    /// Whose ended leases it took.
    pub(super) reclaimed: Vec<RunId>,
    /// What it had changed for real without a commit.
    pub(super) left: BTreeSet<String>,
    /// What has become of that.
    pub(super) aftermath: Option<Aftermath>,
    /// Whether it committed exactly what was planned, where that can be told.
    pub(super) exact: Option<bool>,
    /// What it wrote, or wanted to write.
    pub(super) writes: Vec<String>,
    /// What it read, or wanted to read.
    pub(super) reads: Vec<String>,
    /// How many more addresses it named.
    pub(super) more: usize,
    /// The story, for the page's script.
    pub(super) story: Value,
}

/// A plan that something else came before.
#[derive(Debug, Clone)]
pub(super) struct Overtaken {
    pub(super) at: DateTime<Utc>,
    pub(super) rows: Vec<ChangedRow>,
    pub(super) revalidate: bool,
}

impl RunView {
    /// What a page needs of what is known of a run.
    #[must_use]
    pub fn of(facts: &RunFacts) -> Self {
        let mut view = Self {
            run: facts.run.clone(),
            state: facts.state.clone(),
            waited: None,
            behind: Vec::new(),
            overtaken: None,
            replanned: None,
            differs: None,
            reclaimed: Vec::new(),
            left: BTreeSet::new(),
            aftermath: facts.apply.aftermath.clone(),
            exact: facts.fidelity().map(Fidelity::exact),
            writes: Vec::new(),
            reads: Vec::new(),
            more: 0,
            story: story(facts),
        };
        for recorded in &facts.apply.events {
            view.note(recorded.at, &recorded.event);
        }
        if let Some((_, until @ None)) = &mut view.waited {
            *until = view.run.ended_at;
        }
        view.addresses(facts);
        view
    }

    fn note(&mut self, at: DateTime<Utc>, event: &RunEvent) {
        match event {
            RunEvent::Waiting { behind, .. } => {
                self.waited.get_or_insert((at, None));
                self.behind.extend(behind.iter().filter(|run| !self.behind.contains(run)).copied().collect::<Vec<_>>());
            }
            // A plain Terraform that has waited gets the whole state.
            RunEvent::Reserved { .. } | RunEvent::Locked { .. } => {
                if let Some((_, until @ None)) = &mut self.waited {
                    *until = Some(at);
                }
            }
            RunEvent::StaleCheckFailed { read, write, revalidate } => {
                let rows = write.iter().chain(read).cloned().collect();
                self.overtaken = Some(Overtaken { at, rows, revalidate: *revalidate });
            }
            RunEvent::Replanned { relation, differences, .. } => {
                self.replanned = Some(relation.replace('_', " "));
                self.differs = Some((at, differences.clone()));
            }
            RunEvent::Reclaimed { from, refused: false } => self.reclaimed.push(*from),
            RunEvent::Quarantined { addresses } => self.left.extend(addresses.iter().cloned()),
            _ => {}
        }
    }

    fn addresses(&mut self, facts: &RunFacts) {
        let of = |mode: AccessMode| -> Vec<String> {
            let claims = self.run.claims.iter().filter(|claim| claim.mode == mode);
            claims.map(|claim| claim.pattern.to_string()).collect()
        };
        // What was only reserved was not written: of a run that made versions, their rows say what it wrote.
        let mut writes = if facts.committed.is_empty() { of(AccessMode::Write) } else { Vec::new() };
        for row in facts.committed.iter().flat_map(|committed| &committed.rows) {
            let name = row.split_once(' ').map_or(row.as_str(), |(_, name)| name);
            if !writes.iter().any(|known| known == name) {
                writes.push(name.to_owned());
            }
            if writes.len() > ADDRESSES {
                break;
            }
        }
        let all = facts.touched().max(writes.len());
        writes.truncate(ADDRESSES);
        let mut reads = of(AccessMode::Read);
        reads.retain(|read| !writes.contains(read));
        self.more = all - writes.len() + reads.len().saturating_sub(ADDRESSES);
        reads.truncate(ADDRESSES);
        (self.writes, self.reads) = (writes, reads);
    }

    /// Whether its change is made, or there was nothing left to do.
    pub(super) fn went_well(&self) -> bool {
        matches!(self.run.status, RunStatus::Committed | RunStatus::Noop)
    }
}

/// The page of the request that a run came from. The forge's server is the one that has the page of its job.
pub(super) fn request_url(origin: &Origin) -> Option<String> {
    let request = RequestRef {
        forge: ForgeKind::from_word(origin.forge.as_deref()?)?,
        repository: origin.repository.clone()?,
        number: origin.request?,
    };
    let (server, _) = origin.job_url.as_deref()?.split_once(&format!("/{}/", request.repository))?;
    let place = Place { forge: Some(request.forge), server_url: Some(server.to_owned()), ..Place::default() };
    web(&place.request_url(&request)?)
}

/// The sentences of `kl explain`, with the facts behind them, and what depends on what.
fn story(facts: &RunFacts) -> Value {
    let points: Vec<Value> = explain::points(facts)
        .into_iter()
        .map(|point| {
            let more = point.facts.len().saturating_sub(FACTS);
            let mut behind: Vec<Value> = point.facts.iter().take(FACTS).map(embed::phrase).collect();
            if more > 0 {
                behind.push(embed::phrase(&Phrase::own(format!("and {} more", count(more, "fact")))));
            }
            json!([point.topic.title(), embed::told(&point.told), behind])
        })
        .collect();
    let mut edges = Vec::new();
    if let Some(spec) = &facts.spec {
        let data = spec.data.iter().filter_map(|entry| Some((&entry.pattern, entry.via.as_ref()?)));
        let reads = spec.read.iter().map(|entry| (&entry.pattern, &entry.via));
        for (pattern, via) in reads.chain(data).take(ADDRESSES) {
            edges.push(json!([visible(&pattern.to_string()), visible(&via.from), visible(&via_words(via))]));
        }
    }
    let tools = &facts.run.tools;
    let tools = if tools.program.is_empty() { String::new() } else { format!("{} {}", tools.program, tools.version) };
    json!({
        "headline": embed::phrase(&explain::headline(facts)),
        "points": points,
        "edges": edges,
        "tools": visible(&tools),
        "spec": facts.run.spec,
    })
}
