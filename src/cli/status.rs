//! `kl status`: live runs and what is reserved.

use std::time::Duration;

use serde_json::{Value, json};

use super::Session;
use super::args::runs::StatusArgs;
use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::compact::compact;
use crate::domain::coordination::reservation::{AccessMode, HeldAs, Reservation};
use crate::domain::id::Serial;
use crate::domain::run::Run;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::json;
use crate::report::style::{between, bold, dim, duration, loud, plain, warn};
use crate::report::table::columns;
use crate::store::Store;

/// So many reservations of one run are written out; the rest is counted.
const MAX_PATTERNS: usize = 8;

/// Runs the command.
pub async fn run(session: &Session, args: StatusArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let (text, document) = look(store.as_ref(), &args).await?;
    session.out.result(&text, || document);
    Ok(Exit::Done)
}

/// From the top left corner of an empty screen; where there is no screen, the writer strips it.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Runs the command again and again, until somebody has seen enough.
pub async fn watch(session: &Session, args: StatusArgs, pause: Duration) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    loop {
        let round = async {
            let (text, document) = look(store.as_ref(), &args).await?;
            session.out.result(&format!("{CLEAR}{text}"), || document);
            tokio::time::sleep(pause).await;
            Ok::<_, KlError>(())
        };
        tokio::select! {
            looked = round => looked?,
            () = session.stop.interrupt.cancelled() => return Ok(Exit::Done),
        }
    }
}

/// What is running and what is reserved now: for people, and for programs.
async fn look(store: &dyn Store, args: &StatusArgs) -> Result<(String, Value), KlError> {
    let mut heads = store.state_list().await?;
    if let Some(name) = &args.state {
        heads.retain(|head| head.name == *name);
        if heads.is_empty() {
            return Err(KlError::usage(format!("the database has no state {:?}", name.as_str()))
                .hint("`kl state list --all` shows the states"));
        }
    }
    let now = store.now().await?;
    let mut text = String::new();
    let mut documents = Vec::new();
    for head in &heads {
        let runs = store.run_list(head.id, true, 1000).await?;
        let reservations = store.reservation_list(head.id).await?;
        // Planned once and never applied: perhaps only a name that was mistyped. Who asks for it by name gets it.
        let idle = runs.is_empty() && reservations.is_empty();
        if idle && head.serial == Serial(0) && args.state.is_none() {
            continue;
        }
        documents.push(json!({
            "state": head.name,
            "serial": head.serial,
            "runs": runs.iter().map(|run| json!({
                "run": run.id,
                "kind": run.kind,
                "status": run.status,
                "actor": run.actor,
                "origin": run.origin,
                "started_at": run.started_at,
            })).collect::<Vec<_>>(),
            "reservations": reservations.iter().map(json::reservation).collect::<Vec<_>>(),
        }));
        text.push_str(&format!("{} at serial {}\n", bold(plain(head.name.as_str())), head.serial));
        if idle {
            text.push_str(&dim("  nothing is running, nothing is reserved\n"));
            continue;
        }
        text.push_str(&indent(&runs_table(&runs, now)));
        // Only what is too long to be written out is shown by module, which takes a look at the whole trunk.
        let known = if reservations.len() > MAX_PATTERNS {
            let trunk = store.snapshot(head.id, None).await?;
            trunk.rows.iter().filter_map(|(row, _)| row.key.address().cloned()).collect()
        } else {
            Vec::new()
        };
        text.push_str(&indent(&reservations_text(&reservations, &known, now)));
    }
    if heads.is_empty() {
        text.push_str("There is no state yet; `kl plan` makes the first one.\n");
    } else if documents.is_empty() {
        text.push_str("No state has a version yet, and nothing is running; `kl apply` makes the first one.\n");
    }
    Ok((text, json!({ "now": now, "states": documents })))
}

fn indent(text: &str) -> String {
    text.lines().fold(String::new(), |text, line| text + "  " + line + "\n")
}

fn runs_table(runs: &[Run], now: chrono::DateTime<chrono::Utc>) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let request = run.origin.request.map(|number| format!("#{number}")).unwrap_or_default();
            vec![
                run.id.to_string(),
                run.kind.word().to_owned(),
                run.status.word().to_owned(),
                plain(&run.actor.0),
                request,
                duration(between(run.started_at, now)),
            ]
        })
        .collect();
    columns(&["RUN", "KIND", "STATUS", "ACTOR", "REQUEST", "SINCE"], &rows)
}

fn reservations_text(reservations: &[Reservation], known: &[Address], now: chrono::DateTime<chrono::Utc>) -> String {
    let mut text = String::new();
    let mut runs: Vec<_> = reservations.iter().map(|reservation| reservation.run).collect();
    runs.sort();
    runs.dedup();
    for run in runs {
        let own: Vec<&Reservation> = reservations.iter().filter(|reservation| reservation.run == run).collect();
        let Some(first) = own.first() else { continue };
        let kind = match (first.held_as, first.acquired_at) {
            (HeldAs::Quarantine, _) => loud("quarantined by"),
            (_, None) => warn("waited for by"),
            (HeldAs::Lock, Some(_)) => warn("locked by"),
            (HeldAs::Run, Some(_)) => "reserved by".to_owned(),
        };
        let until = match first.expires_at {
            Some(expires) if expires > now => format!("expires in {}", duration(between(now, expires))),
            Some(_) => warn("lease has ended"),
            None => "does not expire".to_owned(),
        };
        text.push_str(&format!("{kind} {} (run {run}), {until}\n", bold(plain(&first.holder.0))));
        let lines: Vec<String> = [AccessMode::Write, AccessMode::Read]
            .into_iter()
            .flat_map(|mode| {
                let of_mode = own.iter().filter(|reservation| reservation.claim.mode == mode);
                let patterns: Vec<Pattern> = of_mode.map(|reservation| reservation.claim.pattern.clone()).collect();
                let shown = if known.is_empty() { patterns } else { compact(&patterns, known) };
                shown.into_iter().map(move |pattern| format!("  {:<5} {}\n", mode.word(), plain(&pattern.to_string())))
            })
            .collect();
        text.extend(lines.iter().take(MAX_PATTERNS).map(String::as_str));
        if lines.len() > MAX_PATTERNS {
            text.push_str(&dim(format!("  … and {} more\n", lines.len() - MAX_PATTERNS)));
        }
        if first.held_as == HeldAs::Quarantine {
            text.push_str(&format!("  `kl recover {run}` takes over what the run has really done\n"));
        }
    }
    text
}
