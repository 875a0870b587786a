//! `kl state rm` and `kl state mv`: rows leave the state, or stand elsewhere in it.

use serde_json::json;

use super::{head, target};
use crate::cli::Session;
use crate::cli::args::state::{EditArgs, MvArgs, RmArgs};
use crate::cli::project::Place;
use crate::domain::address::Target;
use crate::domain::id::{RunId, Serial};
use crate::domain::run::RunKind;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::edit::{self, Outcome};
use crate::pipeline::errand::Errand;
use crate::report::style::{count, good, loud, plain};
use crate::report::travel::REAL_OBJECTS;

fn errand(kind: RunKind, edit: &EditArgs) -> Errand {
    Errand { kind, lease: edit.reserve.lease, wait: edit.reserve.wait }
}

/// `kl state rm`.
pub(super) async fn remove(session: &Session, args: RmArgs) -> Result<Exit, KlError> {
    let targets = args.addresses.iter().map(|text| target(text)).collect::<Result<Vec<Target>, _>>()?;
    let place = Place::find(&args.edit.dir)?;
    let name = place.state(&args.edit.state, &session.env)?;
    let (store, head) = head(session, &place, &name).await?;
    let ctx = session.context(store, &args.edit.actor);
    let errand = errand(RunKind::Remove, &args.edit);
    let removed = edit::remove(&ctx, &head, &targets, errand, args.edit.dry_run).await?;
    for missing in &removed.missing {
        session.out.say(&format!("{} the state has nothing at {}", loud("!"), plain(&missing.to_string())));
    }
    let rows: Vec<String> = removed.rows.iter().map(ToString::to_string).collect();
    let verb = if matches!(removed.outcome, Outcome::Looked) { "Would remove" } else { "Removed" };
    let mut text = rows.iter().fold(String::new(), |text, row| text + &format!("{verb} {}\n", plain(row)));
    text.push_str(&told(&removed.outcome, &count(rows.len(), "row"), "Removed"));
    if !matches!(removed.outcome, Outcome::Before { .. }) {
        text.push_str(&format!("{} {REAL_OBJECTS}: they exist, and nothing manages them.\n", loud("!")));
    }
    session.out.result(&text, || {
        let (run, serial, before) = facts(&removed.outcome);
        json!({
            "state": name, "dry_run": args.edit.dry_run, "rows": rows, "run": run, "serial": serial, "done_before": before,
            "missing": removed.missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    });
    Ok(Exit::Done)
}

/// `kl state mv`.
pub(super) async fn move_rows(session: &Session, args: MvArgs) -> Result<Exit, KlError> {
    let (from, to) = (target(&args.from)?, target(&args.to)?);
    let place = Place::find(&args.edit.dir)?;
    let name = place.state(&args.edit.state, &session.env)?;
    let (store, head) = head(session, &place, &name).await?;
    let ctx = session.context(store, &args.edit.actor);
    let errand = errand(RunKind::Move, &args.edit);
    let moved = edit::move_rows(&ctx, &head, (&from, &to), errand, args.edit.dry_run).await?;
    let verb = if matches!(moved.outcome, Outcome::Looked) { "Would move" } else { "Moved" };
    let mut text = moved.moves.iter().fold(String::new(), |text, (from, to)| {
        text + &format!(
            "{verb} {} to {}
",
            plain(&from.to_string()),
            plain(&to.to_string())
        )
    });
    text.push_str(&told(&moved.outcome, &count(moved.moves.len(), "row"), "Moved"));
    for row in &moved.left {
        text.push_str(&format!(
            "{} {} still depends on the former address: others work on it, and its next apply puts that right.\n",
            loud("!"),
            plain(&row.to_string())
        ));
    }
    session.out.result(&text, || {
        let (run, serial, before) = facts(&moved.outcome);
        let moves: Vec<_> =
            moved.moves.iter().map(|(from, to)| json!({ "from": from.to_string(), "to": to.to_string() })).collect();
        let left: Vec<String> = moved.left.iter().map(ToString::to_string).collect();
        json!({
            "state": name, "dry_run": args.edit.dry_run, "moves": moves, "left": left, "run": run, "serial": serial,
            "done_before": before,
        })
    });
    Ok(Exit::Done)
}

fn told(outcome: &Outcome, rows: &str, verb: &str) -> String {
    match outcome {
        Outcome::Looked => "Dry run: nothing was changed.\n".to_owned(),
        Outcome::Done { run, committed } => {
            format!("{} {verb} {rows} as serial {} by run {run}.\n", good("✓"), committed.serial)
        }
        Outcome::Before { serial } => format!("{} Nothing to do: serial {serial} has done this already.\n", good("✓")),
    }
}

/// The run, the version, and whether it had been done before.
fn facts(outcome: &Outcome) -> (Option<RunId>, Option<Serial>, bool) {
    match outcome {
        Outcome::Looked => (None, None, false),
        Outcome::Done { run, committed } => (Some(*run), Some(committed.serial), false),
        Outcome::Before { serial } => (None, Some(*serial), true),
    }
}
