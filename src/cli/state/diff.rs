//! `kl state diff`: two serials of a state side by side.

use super::head;
use crate::cli::Session;
use crate::cli::args::state::DiffArgs;
use crate::cli::project::Place;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::travel;
use crate::report::travel::Diff;

/// Runs the command.
pub(super) async fn run(session: &Session, args: DiffArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let (store, head) = head(session, &place, &name).await?;
    let before = travel::at(store.as_ref(), &head, Some(args.before)).await?;
    let after = travel::at(store.as_ref(), &head, args.after).await?;
    let differences = travel::diff(store.as_ref(), &before, &after).await?;
    let diff = Diff {
        state: &name,
        from: before.head.serial,
        to: after.head.serial,
        differences: &differences,
        values: args.show_values,
    };
    session.out.page(&diff.page(), || diff.document());
    Ok(Exit::Done)
}
