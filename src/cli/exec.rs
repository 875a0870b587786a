//! `kl exec -- terraform …`: one command with kl's HTTP backend beside it, on the loopback interface, for as long as it
//! runs.

mod elsewhere;
mod errored;
mod line;
mod signals;

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::Session;
use super::args::exec::ExecArgs;
use super::project::{Place, workspace};
use super::token::new_token;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::Context;
use crate::pipeline::adopt::{DATA_DIR, selected_workspace};
use crate::report::style::plain;
use crate::server::access::Access;
use crate::server::{Limits, Server, route};
use crate::store::Patience;
use crate::terraform::OWN_SECRETS;
use line::Line;
use signals::Signals;

/// For how long a database that is away is waited for: shorter than a request may take, so that Terraform hears of it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where the command finds the address of all states, when it may read others: Terraform's configurations see no other
/// part of the environment than variables.
const STATES_VARIABLE: &str = "TF_VAR_kl_states";

/// Runs the command.
pub async fn run(session: &Session, args: ExecArgs) -> Result<Exit, KlError> {
    let line = Line::of(&args.command, |name| session.env.named(name));
    if let Some(verb) = line.unlocked {
        return Err(KlError::usage(format!(
            "`{verb}` with -lock=false could not write the state when its work is done"
        ))
        .hint("leave -lock=false out: kl takes no write without the lock; `plan` and `console` may do without it"));
    }
    let place = Place::find(&line.chdir.map_or_else(|| args.dir.clone(), |inside| args.dir.join(inside)))?;
    let name = place.state(&args.state, &session.env)?;
    let workspace = workspace(&args.state, &session.env).filter(|workspace| workspace != "default");
    // A script may go elsewhere, or write its configuration first: it is told, and not kept from it.
    let doubt = if line.about_states {
        elsewhere::check(session, &place.dir, &line)?;
        None
    } else if line.terraform {
        None
    } else {
        elsewhere::check_here(session, &place.dir, &line).err()
    };
    if line.about_states
        && let Some(workspace) = &workspace
    {
        session.out.say(&format!(
            "The HTTP backend has no workspaces: the state is {:?}, and terraform.workspace is \"default\", not {workspace:?}.",
            name.as_str()
        ));
    }
    let ctx = session.context(session.store(&place).await?, &args.actor);
    let patience = Patience { limit: PATIENCE, stop: CancellationToken::new() };
    let ctx = Context { store: ctx.store.patient(patience), caller: ctx.caller };
    if let Some(doubt) = &doubt {
        ctx.warn(format!("a terraform that the command starts here would not work on kl's state: {}", doubt.chain()));
    }

    // A kl that was killed could not take what its terraform did: that is the only record of it.
    let pushes = args.command.iter().any(|word| word == "push");
    if line.about_states
        && let Some(told) = errored::told(ctx.store.as_ref(), &name, &place.dir, pushes).await?
    {
        ctx.warn(told);
    }
    let token = new_token()?;
    let access = Access::to(name.clone(), &token).reading(args.reads.clone());
    let token = token.expose();
    let (actor, origin) = (ctx.actor.clone(), ctx.origin.clone());
    let server = Arc::new(Server::new(ctx.store.clone(), access, Some(actor), origin, Limits::default()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let cannot = |error| KlError::failed("cannot listen on the loopback interface").because(error);
    let listener = listener.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(server.clone().serve(listener, None, stop.clone()));

    let base = format!("http://{address}");
    let address = format!("{base}{}", route::path(&name));
    let mut environment = route::environment(&address, &token).to_vec();
    let states = format!("{base}{}", route::STATES);
    if !args.reads.is_empty() {
        environment.push((STATES_VARIABLE, &states));
    }
    let ended = execute(session, &args, &place.dir, line.terraform, &environment).await;
    stop.cancel();
    if let Err(error) = serving.await {
        tracing::warn!(%error, "the backend ended with an error");
    }
    // Whatever became of the command: nobody is left who could give the lock back.
    let freed = server.free_left_behind(&ctx.actor).await;
    // Terraform shows no more of a refusal than its number.
    for refused in server.refusals() {
        ctx.warn(format!("kl refused what the command asked for ({}): {}", refused.status, refused.body.trim_end()));
    }
    let status = ended?;
    if let Err(error) = server.command_ended(status.code(), status.signal()).await {
        ctx.warn(format!("how the command ended could not be put on record: {error}"));
    }
    for run in freed? {
        ctx.warn(format!(
            "the command ended without giving its lock back; it is free again (`kl show {run}`). Where its terraform was \
             killed, what it did since its last write is in no file: compare the provider with `kl state list`"
        ));
    }
    // Nobody knows what another program was to do.
    let should_have_asked = !line.terraform || (line.about_states && status.success() && !line.asks_nothing);
    if should_have_asked && server.asked() == 0 {
        ctx.warn(format!(
            "the command never asked for the state {:?}. If it changed anything, it did so with another state: does its \
             configuration have `backend \"http\" {{}}`, without an address there, in -backend-config or from an earlier init?",
            name.as_str()
        ));
    }
    Ok(code(status))
}

fn data_dir(session: &Session, dir: &Utf8Path) -> Utf8PathBuf {
    dir.join(session.env.get("TF_DATA_DIR").unwrap_or_else(|| DATA_DIR.to_owned()))
}

/// Whether the checkout has a workspace selected, for a backend that had more than one. Terraform would look for it.
fn selects(session: &Session, dir: &Utf8Path) -> bool {
    selected_workspace(&data_dir(session, dir)).is_some_and(|selected| selected != "default")
}

/// Runs the command to its end, with the backend in its environment.
async fn execute(
    session: &Session,
    args: &ExecArgs,
    dir: &Utf8Path,
    terraform: bool,
    environment: &[(&str, &str)],
) -> Result<ExitStatus, KlError> {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(KlError::usage("there is no command to run"));
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "the command belongs to the person at the terminal: it keeps its streams"
    )]
    let mut command = Command::new(program);
    command
        .args(rest)
        .current_dir(&args.dir)
        .env_clear()
        .envs(session.env.all())
        // Part of the state's name; the backend has none.
        .env_remove("TF_WORKSPACE")
        .envs(environment.iter().copied());
    if terraform {
        if selects(session, dir) {
            // There is only this one.
            command.env("TF_WORKSPACE", "default");
        }
        for name in OWN_SECRETS {
            command.env_remove(name);
        }
    }
    let shown = plain(&program.display().to_string());
    let cannot_wait = |error| KlError::failed(format!("{shown} cannot be waited for")).because(error);
    let signals = Signals::listen().map_err(cannot_wait)?;
    signals.prepare(&mut command);
    if session.stop.interrupt.is_cancelled() {
        return Err(KlError::failed(format!("interrupted before {shown} began")));
    }
    let mut child =
        command.spawn().map_err(|error| KlError::usage(format!("{shown} cannot be started")).because(error))?;
    signals.wait(&mut child, terraform).await.map_err(cannot_wait)
}

/// The command's exit code; 128 and the number of the signal for one that was killed, as shells have it.
fn code(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(0) => Exit::Done,
        Some(code) => Exit::Command(code),
        None => Exit::Failed,
    }
}
