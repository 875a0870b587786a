//! `kl show`: one run, its envelope and its timeline.

use serde_json::json;

use super::Session;
use super::args::runs::ShowArgs;
use crate::domain::run::Run;
use crate::domain::run::event::{RecordedEvent, RunEvent};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::{between, bold, dim, duration, plain};
use crate::report::{conflict, json, terminal};

/// Runs the command.
pub async fn run(session: &Session, args: ShowArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let run = super::find_run(store.as_ref(), &args.run).await?;
    let events = store.event_list(run.id).await?;
    session.out.result(&told(&run, &events), || {
        json!({
            "run": run.id,
            "kind": run.kind,
            "status": run.status,
            "actor": run.actor,
            "origin": run.origin,
            "spec": run.spec,
            "source_serial": run.source_serial,
            "result_serial": run.result_serial,
            "tools": run.tools,
            "claims": run.claims,
            "started_at": run.started_at,
            "ended_at": run.ended_at,
            "error": run.error,
            "conflict": run.conflict.iter().map(json::blocker).collect::<Vec<_>>(),
            "events": events,
        })
    });
    Ok(Exit::Done)
}

fn told(run: &Run, events: &[RecordedEvent]) -> String {
    let mut text = format!("{} {}: {}\n", bold("Run"), run.id, bold(run.status.word()));
    let mut fact = |name: &str, value: String| text.push_str(&format!("  {name:<9} {value}\n"));
    fact("kind", run.kind.word().to_owned());
    fact("actor", plain(&run.actor.0));
    if let Some(request) = run.origin.request {
        fact("request", format!("{}#{request}", plain(run.origin.repository.as_deref().unwrap_or_default())));
    }
    if let Some(url) = &run.origin.job_url {
        fact("job", plain(url));
    }
    if let Some(spec) = run.spec {
        fact("spec", spec.to_string());
    }
    let lasted = run.ended_at.map(|end| format!(" for {}", duration(between(run.started_at, end)))).unwrap_or_default();
    fact("started", format!("{}{lasted}", run.started_at.format("%Y-%m-%d %H:%M:%S UTC")));
    let result = run.result_serial.map(|serial| format!(" → {serial}")).unwrap_or_default();
    fact("serial", format!("{}{result}", run.source_serial));
    if let Some(error) = &run.error {
        fact("because", plain(error));
    }
    if !run.conflict.is_empty() {
        text.push_str(&conflict::text(&run.conflict));
    }
    text.push_str(&format!("{}\n", bold("Timeline")));
    for recorded in events {
        let after = duration(between(run.started_at, recorded.at));
        let told = terminal::line(&recorded.event).unwrap_or_else(|| bare(&recorded.event));
        text.push_str(&format!("  {} {}\n", dim(format!("+{after:<7}")), told.trim_start()));
    }
    text
}

/// An event without a sentence of its own, by its kind.
fn bare(event: &RunEvent) -> String {
    let kind = serde_json::to_value(event).ok().and_then(|value| value.get("kind")?.as_str().map(str::to_owned));
    dim(format!("· {}", kind.unwrap_or_default().replace('_', " ")))
}
