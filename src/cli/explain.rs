//! `kl explain`: the story of one run in sentences, each with the facts behind it.

use super::Session;
use super::args::runs::ExplainArgs;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::story;
use crate::report::explain;

/// Runs the command.
pub async fn run(session: &Session, args: ExplainArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let run = super::find_run(store.as_ref(), &args.run).await?;
    let facts = story::of_run(store.as_ref(), run).await?;
    session.out.page(&explain::page(&facts, args.limit as usize), || explain::document(&facts));
    Ok(Exit::Done)
}
