//! `kl show`: one run, its envelope and its timeline.

use super::Session;
use super::args::runs::ShowArgs;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::story;
use crate::report::envelope;

/// Runs the command.
pub async fn run(session: &Session, args: ShowArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let run = super::find_run(store.as_ref(), &args.run).await?;
    let facts = story::of_run(store.as_ref(), run).await?;
    session.out.page(&envelope::page(&facts), || envelope::document(&facts));
    Ok(Exit::Done)
}
