//! `kl abort` and `kl apply abort`: end a run from outside.

use serde_json::json;

use super::Session;
use super::args::runs::AbortArgs;
use super::project::identity;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::good;

/// Runs the command.
pub async fn run(session: &Session, args: AbortArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let run = super::find_run(store.as_ref(), &args.run).await?;
    let (actor, _) = identity(&args.actor, &session.env);
    let before = store.run_abort(run.id, &actor).await?;
    let now = store.run_find(run.id).await?;
    let quarantined =
        store.reservation_list(run.state).await?.iter().filter(|reservation| reservation.run == run.id).count();
    let mut text = if before.ended() {
        format!("Run {} had ended before: {}.\n", run.id, before.word())
    } else {
        format!("{} Run {} is ended; it was {}.\n", good("✓"), run.id, before.word())
    };
    if quarantined > 0 {
        text.push_str(&format!("It had changed real objects: `kl recover {}` takes them over.\n", run.id));
    }
    session
        .out
        .result(&text, || json!({ "run": run.id, "before": before, "status": now.status, "quarantined": quarantined }));
    Ok(Exit::Done)
}
