//! `kl runs`: the runs of one state or of all, newest first, page by page.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::Session;
use super::args::runs::RunsArgs;
use crate::domain::coordination::reservation::AccessMode;
use crate::domain::id::{Actor, StateId, StateName};
use crate::domain::run::Run;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::cells;
use crate::report::page::Page;
use crate::report::phrase::Phrase;
use crate::store::Store;
use crate::store::model::RunQuery;

/// Runs the command.
pub async fn run(session: &Session, args: RunsArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let names: HashMap<StateId, StateName> =
        store.state_list().await?.into_iter().map(|head| (head.id, head.name)).collect();
    let now = store.now().await?;
    let query = query(store.as_ref(), &args, &names, now).await?;
    let mut runs = store.run_page(&query).await?;
    let more = runs.len() > args.limit as usize;
    runs.truncate(args.limit as usize);
    let next = runs.last().filter(|_| more).map(|run| run.id);

    let mut page = Page::default();
    if runs.is_empty() {
        let filters = [
            ("--since", args.since.is_some()),
            ("--status", args.status.is_some()),
            ("--actor", args.actor.is_some()),
            ("--request", args.request.is_some()),
            ("--before", args.before.is_some()),
        ];
        page.nothing(Phrase::own("No run."), &filters);
    } else {
        let several = args.state.is_none() && runs.iter().any(|run| run.state != runs[0].state);
        let row = |run: &Run| {
            let state = names.get(&run.state).filter(|_| several);
            vec![
                cells::run(run.id),
                state.map(|name| Phrase::own(name.as_str())).unwrap_or_default(),
                Phrase::own(run.kind.word()),
                cells::status(run.status),
                Phrase::own(run.actor.0.clone()),
                cells::request(&run.origin),
                cells::time(run.started_at),
                cells::took(run, now),
                run.result_serial.map(|serial| Phrase::own(serial.to_string())).unwrap_or_default(),
                Phrase::own(asked(run)),
            ]
        };
        let head = ["Run", "State", "Kind", "Status", "Actor", "Request", "Started", "Took", "Serial", "Asked for"];
        page.grid(&head, &runs.iter().map(row).collect::<Vec<_>>());
    }
    if let Some(next) = next {
        page.note(Phrase::own("Older ones: the same with ").name(format!("--before {next}")));
    }
    session.out.page(&page, || {
        let runs: Vec<Value> = runs.iter().map(|run| document(run, names.get(&run.state))).collect();
        json!({ "now": now, "runs": runs, "next": next })
    });
    Ok(Exit::Done)
}

async fn query(
    store: &dyn Store,
    args: &RunsArgs,
    names: &HashMap<StateId, StateName>,
    now: chrono::DateTime<chrono::Utc>,
) -> Result<RunQuery, KlError> {
    let state = match &args.state {
        None => None,
        Some(name) => {
            let found = names.iter().find(|(_, known)| *known == name);
            Some(found.map(|(id, _)| *id).ok_or_else(|| super::state::no_such_state(name))?)
        }
    };
    let before = match &args.before {
        Some(text) => {
            let run = super::find_run(store, text).await?;
            Some((run.started_at, run.id))
        }
        None => None,
    };
    Ok(RunQuery {
        state,
        since: args.since.map(|since| since.moment(now)),
        before,
        status: args.status,
        actor: args.actor.clone().map(Actor),
        request: args.request,
        limit: args.limit.saturating_add(1),
    })
}

/// `3 to write, 1 to read`.
fn asked(run: &Run) -> String {
    let writes = run.claims.iter().filter(|claim| claim.mode == AccessMode::Write).count();
    match (writes, run.claims.len() - writes) {
        (0, 0) => String::new(),
        (writes, reads) => format!("{writes} to write, {reads} to read"),
    }
}

fn document(run: &Run, state: Option<&StateName>) -> Value {
    json!({
        "run": run.id,
        "state": state,
        "kind": run.kind,
        "status": run.status,
        "actor": run.actor,
        "origin": run.origin,
        "spec": run.spec,
        "source_serial": run.source_serial,
        "result_serial": run.result_serial,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "claims": run.claims,
        "error": run.error,
    })
}
