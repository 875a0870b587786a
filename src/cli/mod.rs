//! The composition root: arguments to settings, store and sinks; results to output and exit codes.

pub mod abort;
pub mod apply;
pub mod args;
pub mod bounded;
pub mod ci;
pub mod db;
pub mod doctor;
pub mod env;
pub mod exec;
pub mod explain;
pub mod forecast;
pub mod gc;
mod git;
pub mod history;
pub mod init;
pub mod output;
pub mod plan;
pub mod project;
pub mod recover;
pub mod refresh;
pub mod report;
pub mod rows;
pub mod runs;
pub mod serve;
pub mod show;
pub mod state;
pub mod status;
pub mod token;
mod whole;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use args::serve::TokenCommand;
use args::{ActorArgs, ApplyCommand, Cli, Command, DbCommand, Global};
use camino::{Utf8Path, Utf8PathBuf};
use env::EnvSnapshot;
use output::Output;
use project::Place;
use tokio_util::sync::CancellationToken;

use crate::domain::id::RunId;
use crate::domain::run::Run;
use crate::error::KlError;
use crate::exit::Exit;
use crate::mishap::Mishaps;
use crate::pipeline::{Caller, Context};
use crate::signals::Signals;
use crate::store::{DatabaseUrl, Memory, Patience, Store};
use crate::terraform::Stop;

/// What a command works with.
pub struct Session {
    /// Global options.
    pub global: Global,
    /// The environment as it was.
    pub env: EnvSnapshot,
    /// Where results and talk go.
    pub out: Output,
    /// How the command is asked to stop.
    pub stop: Stop,
    /// What a test has ordered to go wrong.
    pub mishaps: Mishaps,
    /// The file of the embedded database, once it is known: a process works with one.
    pub database: Arc<OnceLock<Utf8PathBuf>>,
}

/// Runs a command; the exit code says how it went, and errors are printed.
pub async fn run(cli: Cli, env: EnvSnapshot, signals: Signals) -> Exit {
    let out = Output::new(&cli.global);
    let mishaps = Mishaps::read(env.named(env::MISHAP).as_deref(), env.named(env::MISHAP_LOG).map(Into::into));
    let mishaps = match mishaps {
        Ok(mishaps) => mishaps,
        Err(error) => {
            out.error(&KlError::usage(error));
            return Exit::Usage;
        }
    };
    let session = Session { global: cli.global, env, out, stop: signals.stop, mishaps, database: Arc::default() };
    // Signals are for the command of `kl exec`, however many: kl outlives it, to free its lock.
    let ours = !matches!(cli.command, Command::Exec(_));
    let work = command(&session, cli.command);
    let result = tokio::select! {
        result = work => result,
        error = ended(&session.stop), if ours => Err(error),
        () = acknowledge(&session, &signals.heard), if ours => unreachable!("it never ends"),
    };
    match result {
        Ok(exit) => exit,
        Err(error) => {
            session.out.error(&error);
            error.exit()
        }
    }
}

/// Says at once that the first signal was heard: what follows can take a while.
async fn acknowledge(session: &Session, heard: &CancellationToken) {
    heard.cancelled().await;
    session
        .out
        .say("Interrupted: stopping in good order; what is done is being recorded. A second signal ends kl at once.");
    std::future::pending::<()>().await;
}

/// How long a command that was told to end at once may take to put on record what it has done.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Waits for the second signal. What Terraform has done is on record a moment later, unless the database is away: then
/// the lease and the last checkpoint are left to speak.
async fn ended(stop: &Stop) -> KlError {
    stop.kill.cancelled().await;
    tokio::time::sleep(LAST_WORDS).await;
    KlError::failed("ended at once; what was running is left to its lease")
}

async fn command(session: &Session, command: Command) -> Result<Exit, KlError> {
    match command {
        Command::Plan(args) => plan::run(session, args).await,
        Command::Apply(args) => match args.command {
            Some(ApplyCommand::Abort(args)) => abort::run(session, args).await,
            None => apply::run(session, args).await,
        },
        Command::Refresh(args) => refresh::run(session, args).await,
        Command::Status(args) => match args.watch {
            Some(pause) => status::watch(session, args, pause).await,
            None => session.interruptible(status::run(session, args)).await,
        },
        Command::Runs(args) => session.interruptible(runs::run(session, args)).await,
        Command::Explain(args) => session.interruptible(explain::run(session, args)).await,
        Command::History(args) => session.interruptible(history::run(session, args)).await,
        Command::Blame(args) => session.interruptible(rows::blame(session, args)).await,
        Command::Forecast(args) => session.interruptible(forecast::run(session, args)).await,
        Command::Report(args) => session.interruptible(report::run(session, args)).await,
        Command::Show(args) => session.interruptible(show::run(session, args)).await,
        Command::Abort(args) => abort::run(session, args).await,
        Command::Recover(args) => recover::run(session, args).await,
        Command::Ci(command) => Box::pin(ci::run(session, command)).await,
        Command::Exec(args) => exec::run(session, args).await,
        Command::Serve(args) => serve::run(session, args).await,
        Command::Token(TokenCommand::Create(args)) => session.interruptible(token::create(session, args)).await,
        Command::Token(TokenCommand::List) => session.interruptible(token::list(session)).await,
        Command::Token(TokenCommand::Revoke(args)) => session.interruptible(token::revoke(session, args)).await,
        Command::State(command) => state::run(session, command).await,
        Command::Db(DbCommand::Migrate) => db::migrate(session).await,
        Command::Db(DbCommand::Roles(args)) => db::roles(session, &args),
        Command::Db(DbCommand::Check) => session.interruptible(db::check(session)).await,
        Command::Gc(args) => session.interruptible(gc::run(session, args)).await,
        Command::Init(args) => session.interruptible(init::run(session, args)).await,
        Command::Doctor(args) => session.interruptible(doctor::run(session, args)).await,
    }
}

impl Session {
    /// The database's address: `--database`, else the environment, else the embedded one of the place.
    pub fn database(&self, place: &Place) -> Result<DatabaseUrl, KlError> {
        let given = self.global.database.clone().or_else(|| self.env.get(env::DATABASE_URL));
        let text = given.unwrap_or_else(|| place.default_database().to_string());
        let url = text.parse::<DatabaseUrl>().map_err(|error| {
            KlError::usage("the database's address cannot be used")
                .because(error)
                .hint("give a path for SQLite, or postgres://USER@HOST/DATABASE")
        })?;
        if let Some(file) = url.file() {
            self.database.get_or_init(|| file.to_owned());
        }
        Ok(url)
    }

    /// Opens the store of a place for a command that only looks, or that needs something to be there.
    pub async fn store_existing(&self, place: &Place) -> Result<Arc<dyn Store>, KlError> {
        Ok(crate::store::open_existing(&self.database(place)?).await?.with_mishaps(self.mishaps.clone()))
    }

    /// The database's address for a command that may make it. Says so where an empty file stands in its place: without a
    /// memory, everything looks as if it had yet to be created.
    fn database_to_begin(&self, place: &Place) -> Result<DatabaseUrl, KlError> {
        let url = self.database(place)?;
        if url.is_empty_file() {
            let sign = crate::report::style::warn("warning:");
            self.out.say(&format!(
                "{sign} the file of the database {url} is empty: a new one begins in it, without any state"
            ));
        }
        Ok(url)
    }

    /// The store of a place for a plan, which makes an embedded one only when it has something to keep.
    pub async fn memory(&self, place: &Place) -> Result<Memory, KlError> {
        Ok(match Memory::find(&self.database_to_begin(place)?).await? {
            Memory::Open(store) => Memory::Open(store.with_mishaps(self.mishaps.clone())),
            new @ Memory::New(_) => new,
        })
    }

    /// The same, with patience for a server that is away.
    pub async fn memory_in_time(&self, place: &Place, wait: Duration) -> Result<Memory, KlError> {
        let patience = Patience { limit: wait, stop: self.stop.interrupt.clone() };
        Ok(match Memory::find_in_time(&self.database(place)?, &patience).await? {
            Memory::Open(store) => Memory::Open(store.with_mishaps(self.mishaps.clone())),
            new @ Memory::New(_) => new,
        })
    }

    /// Opens the store of a place, and makes an embedded one that does not exist.
    pub async fn store(&self, place: &Place) -> Result<Arc<dyn Store>, KlError> {
        Ok(crate::store::open(&self.database_to_begin(place)?).await?.with_mishaps(self.mishaps.clone()))
    }

    /// Work that leaves nothing half-done, and therefore ends with the first signal.
    pub async fn interruptible<T>(&self, work: impl Future<Output = Result<T, KlError>>) -> Result<T, KlError> {
        tokio::select! {
            result = work => result,
            () = self.stop.interrupt.cancelled() => Err(KlError::failed("interrupted")),
        }
    }

    /// Reads standard input on a thread of its own: nothing else could stop it.
    pub async fn stdin<T: Send + 'static>(
        &self,
        read: impl FnOnce(std::io::Stdin) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, KlError> {
        let reading = async {
            let read = tokio::task::spawn_blocking(move || read(std::io::stdin())).await;
            read.map_err(std::io::Error::other)
                .flatten()
                .map_err(|error| KlError::usage("cannot read standard input").because(error))
        };
        self.interruptible(reading).await
    }

    /// Asks a question on the terminal; only `yes` is yes, as with Terraform.
    pub async fn ask(&self, question: &str) -> Result<bool, KlError> {
        self.out.ask(question);
        let answer = self.stdin(|input| {
            let mut answer = String::new();
            input.read_line(&mut answer).map(|_| answer)
        });
        Ok(answer.await?.trim() == "yes")
    }

    /// The store of the current directory, which must exist.
    pub async fn store_here(&self) -> Result<Arc<dyn Store>, KlError> {
        self.store_existing(&Place::find(Utf8Path::new("."))?).await
    }

    /// Who asks.
    pub fn caller(&self, actor: &ActorArgs) -> Caller {
        let (actor, ci) = project::identity(actor, &self.env);
        Caller {
            sink: self.out.sink(),
            actor,
            origin: ci.origin,
            stop: self.stop.clone(),
            mishaps: self.mishaps.clone(),
            database: self.database.clone(),
        }
    }

    /// Everything that a story needs.
    pub fn context(&self, store: Arc<dyn Store>, actor: &ActorArgs) -> Context {
        self.caller(actor).with(store)
    }
}

/// The one run that a person means by an id, or by its beginning or end.
pub async fn find_run(store: &dyn Store, text: &str) -> Result<Run, KlError> {
    if let Ok(id) = text.parse::<RunId>() {
        return Ok(store.run_find(id).await?);
    }
    // Shorter pieces would match by chance.
    if text.len() < 4 {
        return Err(KlError::usage(format!("{text:?} is too short for a run's id")).hint("`kl runs` shows the ids"));
    }
    let mut found = store.run_search(text).await?;
    match (found.pop(), found.is_empty()) {
        (None, _) => {
            Err(KlError::usage(format!("there is no run {text}")).hint("`kl runs` and `kl history` show the ids"))
        }
        (Some(run), true) => Ok(run),
        (Some(_), false) => {
            Err(KlError::usage(format!("more than one run is called {text}")).hint("give the whole id"))
        }
    }
}
