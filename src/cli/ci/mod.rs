//! `kl ci`: what a CI job does, from the forge's event to comment, check, summary and exit code.

mod apply;
mod check;
mod comment;
mod finish;
pub(super) mod job;
mod outcome;
mod plan;
mod projects;
mod publish;
mod requests;

use super::Session;
use super::args::ci::{CiCommand, CiJobArgs};
use crate::error::KlError;
use crate::exit::Exit;
use job::Job;

/// Runs the command.
pub async fn run(session: &Session, command: CiCommand) -> Result<Exit, KlError> {
    match command {
        CiCommand::Plan(args) => plan::run(&Job::start(session, &args.job)?, &args).await,
        CiCommand::Apply(args) => Box::pin(apply::run(&Job::start(session, &args.job)?, &args)).await,
        CiCommand::Check(args) => check::run(&Job::start(session, &args.job)?).await,
        CiCommand::Finish(args) => {
            let job = CiJobArgs { projects: Vec::new(), actor: args.actor.clone() };
            finish::run(&Job::start(session, &job)?, &args).await
        }
        CiCommand::Projects(args) => session.interruptible(projects::run(session, args)).await,
    }
}
