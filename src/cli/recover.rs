//! `kl recover`: take over, or drop, what a failed run has really done.

use serde_json::json;

use super::Session;
use super::args::RecoverArgs;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::recover;
use crate::report::style::{count, good};

/// Runs the command.
pub async fn run(session: &Session, args: RecoverArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let run = super::find_run(store.as_ref(), &args.run).await?;
    let ctx = session.context(store, &args.actor);
    if args.discard {
        let freed = recover::discard(&ctx, run.id).await?;
        let what = count(usize::try_from(freed).unwrap_or(usize::MAX), "reservation");
        session
            .out
            .result(&format!("{} Dropped: {what} freed.\n", good("✓")), || json!({ "run": run.id, "freed": freed }));
        return Ok(Exit::Done);
    }
    let committed = recover::recover(&ctx, run.id).await?;
    let rows = count(committed.rows_opened.max(committed.rows_closed), "row");
    session.out.result(&format!("{} Recovered {rows} as serial {}.\n", good("✓"), committed.serial), || {
        json!({
            "run": run.id,
            "serial": committed.serial,
            "rows_opened": committed.rows_opened,
            "rows_closed": committed.rows_closed,
        })
    });
    Ok(Exit::Done)
}
