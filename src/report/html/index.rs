//! What the page's script knows of all runs at once; their stories it reads one by one, when somebody wants to see them.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::aftermath::Meeting;
use super::view::{self, RunView};
use super::{Report, embed};
use crate::domain::id::RunId;
use crate::domain::run::RunStatus;
use crate::report::markdown::{visible, web};
use crate::report::{cells, conflict};

/// The document. Texts that come again and again stand in lists, and runs name them by their place.
pub(super) fn index(report: &Report, meetings: &[Meeting]) -> Value {
    let places: HashMap<RunId, usize> =
        report.runs.iter().enumerate().map(|(place, view)| (view.run.id, place)).collect();
    let mut against: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for meeting in meetings {
        let by = meeting.by.iter().filter_map(|by| places.get(&by.run?).copied());
        against.entry(places[&meeting.run]).or_default().extend(by);
    }
    let (mut states, mut actors, mut requests, mut addresses) =
        (Texts::default(), Texts::default(), Texts::default(), Texts::default());
    let mut urls = Vec::new();
    let mut runs = Vec::new();
    for (place, view) in report.runs.iter().enumerate() {
        let run = &view.run;
        let mut one = Map::new();
        let mut put = |name: &str, value: Value| drop(one.insert(name.to_owned(), value));
        put("id", json!(run.id));
        put("state", json!(states.place(view.state.as_str())));
        put("kind", json!(run.kind.word()));
        put("status", json!(run.status.word()));
        put("actor", json!(actors.place(&run.actor.0)));
        put("from", millis(run.started_at));
        put("serial", json!(run.source_serial));
        put("writes", json!(view.writes.iter().map(|name| addresses.place(name)).collect::<Vec<_>>()));
        put("reads", json!(view.reads.iter().map(|name| addresses.place(name)).collect::<Vec<_>>()));
        if let Some(name) = conflict::request(&run.origin) {
            let at = requests.place(&name);
            urls.resize(requests.all.len(), Value::Null);
            if let (Value::Null, Some(url)) = (&urls[at], view::request_url(&run.origin)) {
                urls[at] = json!(url);
            }
            put("request", json!(at));
        }
        // What is not there is left out: most runs need few words.
        let mut some = |name: &str, value: Option<Value>| value.into_iter().for_each(|value| put(name, value));
        some("job", run.origin.job_url.as_deref().and_then(web).map(Value::from));
        some("to", run.ended_at.map(millis));
        some("result", run.result_serial.map(|serial| json!(serial)));
        some("exact", view.exact.map(Value::from));
        some("more", (view.more > 0).then(|| json!(view.more)));
        some("waited", view.waited.map(|(from, to)| json!([millis(from), to.map(millis)])));
        some("against", against.get(&place).map(|all| json!(unique(all))));
        runs.push(Value::Object(one));
    }
    json!({
        "now": millis(report.now),
        "statuses": statuses(&report.runs),
        "states": states.all,
        "actors": actors.all,
        "requests": requests.all,
        "request_urls": urls,
        "addresses": addresses.all,
        "runs": runs,
        "meetings": meetings.iter().map(|one| meeting(one, &places)).collect::<Vec<_>>(),
    })
}

fn meeting(meeting: &Meeting, places: &HashMap<RunId, usize>) -> Value {
    let by: Vec<Value> =
        meeting.by.iter().map(|by| json!([by.run.and_then(|run| places.get(&run)), embed::phrase(&by.told)])).collect();
    json!({
        "run": places[&meeting.run],
        "at": millis(meeting.at),
        "what": [embed::tone(meeting.what.tone()), meeting.what.tone().sign(), meeting.what.words()],
        "by": by,
        "more": meeting.more,
        "became": embed::told(&meeting.became),
        "open": meeting.open,
        "change": places.get(&meeting.change),
    })
}

/// The outcomes that there are, in the order of their loudness: word, label, tone, sign.
fn statuses(runs: &[RunView]) -> Vec<Value> {
    let all = [
        RunStatus::Started,
        RunStatus::Waiting,
        RunStatus::Reserved,
        RunStatus::Applying,
        RunStatus::Failed,
        RunStatus::Lost,
        RunStatus::Conflict,
        RunStatus::Stale,
        RunStatus::Aborted,
        RunStatus::Committed,
        RunStatus::Noop,
        RunStatus::DryRun,
    ];
    let used = all.into_iter().filter(|status| runs.iter().any(|view| view.run.status == *status));
    used.map(|status| {
        let label = status.word().replace('_', " ");
        json!([status.word(), label, embed::tone(cells::tone(status)), sign(status)])
    })
    .collect()
}

/// A sign of one letter for an outcome, so that no two look alike without colours.
pub(super) fn sign(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Committed => "✓",
        RunStatus::Noop => "·",
        RunStatus::DryRun => "○",
        RunStatus::Started | RunStatus::Reserved | RunStatus::Applying => "▸",
        RunStatus::Waiting => "…",
        RunStatus::Failed => "✗",
        RunStatus::Conflict => "⊘",
        RunStatus::Stale => "≠",
        RunStatus::Lost => "?",
        RunStatus::Aborted => "■",
    }
}

fn millis(at: DateTime<Utc>) -> Value {
    json!(at.timestamp_millis())
}

fn unique(all: &[usize]) -> Vec<usize> {
    let mut all = all.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}

/// Texts, each once.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    known: HashMap<String, usize>,
}

impl Texts {
    fn place(&mut self, text: &str) -> usize {
        let text = visible(text);
        *self.known.entry(text).or_insert_with_key(|text| {
            self.all.push(text.clone());
            self.all.len() - 1
        })
    }
}
