//! What runs in CI jobs: `kl ci …`.

pub mod projects;

use super::Session;
use super::args::ci::CiCommand;
use crate::error::KlError;
use crate::exit::Exit;

/// Runs the command.
pub async fn run(session: &Session, command: CiCommand) -> Result<Exit, KlError> {
    match command {
        CiCommand::Projects(args) => session.interruptible(projects::run(session, args)).await,
    }
}
