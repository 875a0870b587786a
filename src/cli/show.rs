//! `kl show`: one run, its envelope and its timeline.

use super::Session;
use super::args::runs::ShowArgs;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::story;
use crate::report::envelope::{self, Shown};

/// Runs the command.
pub async fn run(session: &Session, args: ShowArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let run = super::find_run(store.as_ref(), &args.run).await?;
    let facts = story::of_run(store.as_ref(), run).await?;
    let shown = Shown { after: args.after, limit: args.limit as usize };
    session.out.page(&envelope::page(&facts, shown), || envelope::document(&facts, shown));
    Ok(Exit::Done)
}
