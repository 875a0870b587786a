//! `kl state …`: states come in and out, are looked at, and change without Terraform.

mod adopt;
mod diff;
mod edit;
mod import;
mod look;
mod rollback;

use std::sync::Arc;

use super::Session;
use super::args::state::StateCommand;
use super::project::Place;
use crate::domain::address::Target;
use crate::domain::id::{Serial, StateName};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::travel;
use crate::store::Store;
use crate::store::model::{Snapshot, StateHead};

/// Runs the command.
pub async fn run(session: &Session, command: StateCommand) -> Result<Exit, KlError> {
    match command {
        StateCommand::Import(args) => import::run(session, args).await,
        StateCommand::Adopt(args) => adopt::run(session, args).await,
        StateCommand::Pull(args) => session.interruptible(look::pull(session, args)).await,
        StateCommand::List(args) => session.interruptible(look::list(session, args)).await,
        StateCommand::Show(args) => session.interruptible(look::show(session, args)).await,
        StateCommand::Diff(args) => session.interruptible(diff::run(session, args)).await,
        StateCommand::Rollback(args) => rollback::run(session, args).await,
        StateCommand::Rm(args) => edit::remove(session, args).await,
        StateCommand::Mv(args) => edit::move_rows(session, args).await,
    }
}

/// The error for a state that does not exist.
pub fn no_such_state(name: &StateName) -> KlError {
    KlError::usage(format!("the database has no state {:?}", name.as_str()))
        .hint("`kl state list --all` shows the states; `kl plan` or `kl state import` makes a new one")
}

/// The store of a place and the state in it, which must exist.
async fn head(session: &Session, place: &Place, name: &StateName) -> Result<(Arc<dyn Store>, StateHead), KlError> {
    let store = session.store_existing(place).await?;
    match store.state_find(name).await? {
        Some(head) => Ok((store, head)),
        None => Err(no_such_state(name)),
    }
}

/// A state at a serial; the newest, if none is given.
async fn snapshot(session: &Session, place: &Place, name: &StateName, at: Option<Serial>) -> Result<Snapshot, KlError> {
    let (store, head) = head(session, place, name).await?;
    travel::at(store.as_ref(), &head, at).await
}

/// What a person names.
fn target(text: &str) -> Result<Target, KlError> {
    Target::parse(text).map_err(|error| {
        KlError::usage(format!("{text:?} is no address"))
            .because(error)
            .hint("a resource, an instance, a module; keys need quotes for the shell: 'x.y[\"a\"]'")
    })
}
