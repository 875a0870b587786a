//! `kl abort` and `kl apply abort`: end a run from outside.

use serde_json::json;

use super::Session;
use super::args::runs::AbortArgs;
use super::project::identity;
use crate::domain::id::RunId;
use crate::domain::run::RunKind;
use crate::domain::run::workplace::Workplace;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::leftover;
use crate::report::style::{good, plain};
use crate::store::Store;

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
        text.push_str(&left(store.as_ref(), run.id).await?);
    }
    if run.kind == RunKind::Plain && !before.ended() {
        text.push_str(
            "If its terraform lives, it can no longer write its state. What it did then is in errored.tfstate, in the \
             directory where it ran: `terraform state push errored.tfstate` there takes it over (`kl exec --` in front of it, \
             where there is no server), as long as nobody has gone on since. Then it would take that back, with -force \
             without a word: `kl exec -- terraform plan` there says what to do instead.\n",
        );
    }
    session
        .out
        .result(&text, || json!({ "run": run.id, "before": before, "status": now.status, "quarantined": quarantined }));
    Ok(Exit::Done)
}

/// What a run that may have changed something leaves to be done.
async fn left(store: &dyn Store, run: RunId) -> Result<String, KlError> {
    let place = store.workplace_find(run).await?;
    if store.checkpoint_find(run).await?.is_some() {
        let mut text = format!("It had changed real objects, or perhaps: `kl recover {run}` takes them over.\n");
        if let Some(place) = place.filter(leftover::is_elsewhere) {
            text.push_str(&format!(
                "Its Terraform may go on in {} on {}: first `kl recover {run}` there, which knows more than what is on \
                 record.\n",
                plain(&place.dir),
                plain(&place.host.name)
            ));
        }
        return Ok(text);
    }
    let mut text = "It may have changed real objects, and nothing of it is on record.\n".to_owned();
    if let Some(Workplace { host, dir, .. }) = place {
        let (dir, host) = (plain(&dir), plain(&host.name));
        text.push_str(&format!(
            "Its work directory was {dir} on {host}: `kl recover {run}` there takes over what that tells.\n"
        ));
    }
    text.push_str(&format!("Else look at the real objects, then `kl recover {run} --discard` frees the rows.\n"));
    Ok(text)
}
