//! What runs that were cut off left on this machine: a Terraform that goes on alone, and work directories.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::Context;
use super::bench::{blocking, temp_dir};
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::id::RunId;
use crate::domain::run::workplace::{ProcessGroup, Workplace};
use crate::error::KlError;
use crate::exit::Exit;
use crate::store::{Store, StoreError};
use crate::terraform::{Applies, ApplyLog, applies_in, group, read_apply_log};
use crate::workspace::{self, Closed, Found, LeftBehind, this_host};

/// A directory that somebody is just clearing up is looked at again this often, this many times.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Whether a work directory that is not found has been on another machine, where it may be still. One that was on this
/// machine is gone.
#[must_use]
pub fn is_elsewhere(place: &Workplace) -> bool {
    !this_host().has_directories_of(&place.host)
}

/// What a run that has ended left.
pub enum Leftover {
    /// Nothing: all that it did is in the store.
    Nothing,
    /// Somebody still works for it.
    Working(Working),
    /// Its work directory, and nobody works there any more.
    Here(Box<Here>),
    /// Something that cannot be seen from here.
    Elsewhere(Workplace),
    /// Its work directory may be there, and this kl must not look into it: why, and what to do.
    Closed(KlError),
}

/// Somebody still works for a run that has ended.
pub struct Working {
    run: RunId,
    workplace: Workplace,
    who: Worker,
    so_far: Option<Box<Here>>,
}

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    Kl,
    Terraform,
    /// What a Terraform that was killed had started, and what cannot be ended from here.
    Rest,
}

/// A work directory in which nobody works any more; nobody else touches it meanwhile.
pub struct Here {
    /// Where the run worked.
    pub workplace: Workplace,
    /// The slice's state as Terraform left it; none when it is torn, or when there is none.
    pub state: Option<String>,
    /// What Terraform said; none when no apply was started.
    pub log: Option<ApplyLog>,
    dir: LeftBehind,
}

impl Working {
    /// Why nothing can be taken over yet, and what to do.
    #[must_use]
    pub fn refusal(&self) -> KlError {
        let Self { run, workplace, who, .. } = self;
        let Workplace { host, dir, group, .. } = workplace;
        let which = group.map(|group| format!(" ({group})")).unwrap_or_default();
        match who {
            Worker::Kl => {
                KlError::new(Exit::Conflict, format!("the kl of run {run} is still there: it works in {dir} on {host}"))
                    .hint("wait for it; if it is paused, let it go on or end it")
            }
            Worker::Terraform => {
                let error = KlError::new(
                    Exit::Conflict,
                    format!("Terraform of run {run} is still working{which}, in {dir} on {host}"),
                );
                // A script in front of it may have died before it.
                let target = group.map(|group| {
                    let whole = if group::leader_lives(&group) { "" } else { "-- -" };
                    format!("`kill -INT {whole}{}`", group.id)
                });
                let how = target.unwrap_or_else(|| "SIGINT".to_owned());
                error.hint(format!(
                    "wait for it, or stop it with {how}: it finishes what it has begun with and writes its state"
                ))
            }
            Worker::Rest => {
                let error = KlError::new(
                    Exit::Conflict,
                    format!(
                        "Terraform of run {run} has ended or was killed, and what it had started still works{which} on \
                         {host}: a provider may go on making objects that nobody writes down"
                    ),
                );
                match group {
                    Some(group) => error.hint(format!("end it with `kill -KILL -- -{}`", group.id)),
                    None => error,
                }
            }
        }
    }

    /// Whether both kl and Terraform have ended: what still works will put down nothing.
    #[must_use]
    pub fn is_a_rest(&self) -> bool {
        self.who == Worker::Rest
    }

    /// What Terraform has done so far, where that can be seen.
    #[must_use]
    pub fn so_far(&self) -> Option<&Here> {
        self.so_far.as_deref()
    }
}

impl Here {
    /// Clears the directory away.
    pub async fn clear(self, ctx: &Context) {
        let Self { dir, .. } = self;
        let path = dir.dir().to_owned();
        let removed = blocking(move || dir.remove()).await;
        if let Err(error) = removed.and_then(|removed| Ok(removed?)) {
            ctx.warn(format!(
                "the work directory {path} holds a part of the state and could not be removed: {}",
                error.message()
            ));
        }
    }
}

/// Whether the kl of a run is dead for sure: it worked in a directory of this machine, or planned in one, and no longer holds
/// that.
pub async fn is_dead_here(store: &dyn Store, run: RunId) -> Result<bool, StoreError> {
    let Some(workplace) = store.workplace_find(run).await? else {
        let found = blocking(|| workspace::left_in(&temp_dir())).await.unwrap_or_default();
        return Ok(found.iter().any(|left| left.plans_for() == Some(run)));
    };
    if is_elsewhere(&workplace) {
        return Ok(false);
    }
    // What cannot be seen proves nothing.
    Ok(matches!(find(Utf8Path::new(&workplace.dir)).await, Ok(Found::Left(left)) if left.run() == Some(run)))
}

/// Looks for what a run that has ended left. What a Terraform that was killed had started, and what works on without it, is
/// ended first: a provider would go on making objects that nobody writes down.
pub async fn look(ctx: &Context, run: RunId) -> Result<Leftover, KlError> {
    let Some(workplace) = ctx.store.workplace_find(run).await? else {
        return Ok(Leftover::Nothing);
    };
    let place = workplace.clone();
    let working = |who, so_far| Leftover::Working(Working { run, workplace: place.clone(), who, so_far });
    let dir = Utf8PathBuf::from(&workplace.dir);
    let group = workplace.group.filter(|_| this_host().sees_processes_of(&workplace.host));
    let at_work = || group.map(|group| group::working_in(&group, &dir)).unwrap_or_default();
    let left = match find(&dir).await? {
        Found::Left(left) if left.run() == Some(run) => left,
        Found::InUse if terraform_in(&dir)? == Applies::Still => return Ok(working(Worker::Terraform, None)),
        Found::InUse => return Ok(working(Worker::Kl, None)),
        Found::Closed(why) => return Ok(Leftover::Closed(closed(run, &workplace, why))),
        // The directory is of another run that came to work at the same place, or gone.
        Found::Left(_) | Found::Nothing => {
            return Ok(match at_work().iter().map(|member| member.terraform).max() {
                Some(true) => working(Worker::Terraform, None),
                Some(false) => working(Worker::Rest, None),
                None => Leftover::Elsewhere(workplace),
            });
        }
    };
    let applies = terraform_in(&dir)?;
    let here = read(ctx, workplace, left).await?;
    // A script in front of it may have ended before it, and without locks its processes alone tell.
    let lives = match applies {
        Applies::Still => true,
        Applies::NoLonger => at_work().iter().any(|member| member.terraform),
        Applies::Unknown => group.is_some_and(|group| group::lives(&group)),
    };
    if lives {
        return Ok(working(Worker::Terraform, Some(Box::new(here))));
    }
    // What is left of one that came to its own end was started in order to stay.
    let killed = !here.log.as_ref().is_some_and(|log| log.ended);
    if let Some(group) = group.filter(|_| killed && !at_work().is_empty()) {
        if !end(&group, &dir).await {
            return Ok(working(Worker::Rest, None));
        }
        ctx.warn(format!(
            "Terraform of run {run} was killed; what it had started ({group}) was still at work, and is ended now"
        ));
    }
    Ok(Leftover::Here(Box::new(here)))
}

/// Why a directory that is there tells nothing. Taken for gone, what it tells would be made a second time.
fn closed(run: RunId, Workplace { host, dir, .. }: &Workplace, why: Closed) -> KlError {
    let refused = |what: String| KlError::new(Exit::Conflict, what);
    let error = match why {
        Closed::OfUser(user) => refused(format!(
            "the work directory of run {run}, {dir} on {host}, belongs to user {user}, so this kl does not look into it"
        ))
        .hint(format!("run it as that user: `sudo -u '#{user}' kl recover {run}`")),
        Closed::Writable(mode) => refused(format!(
            "the work directory of run {run}, {dir} on {host}, can be written by others (mode {mode:o}), so what it tells \
             may be theirs"
        ))
        .hint(format!("when nobody has changed anything in it: `chmod go-w {dir}`, then `kl recover {run}`")),
        Closed::Unclear => refused(format!(
            "the work directory of run {run}, {dir} on {host}, does not say whose it is: its owner.json cannot be understood"
        )),
    };
    error.hint("nothing was freed; should it be none of that run, remove it, and kl takes the run's own for gone")
}

/// Ends what a Terraform that was killed had started; says whether it is gone.
async fn end(group: &ProcessGroup, dir: &Utf8Path) -> bool {
    for _ in 0..TRIES {
        let members = group::working_in(group, dir);
        if members.is_empty() {
            return true;
        }
        members.iter().for_each(group::Member::kill);
        tokio::time::sleep(PAUSE).await;
    }
    false
}

async fn read(ctx: &Context, workplace: Workplace, left: LeftBehind) -> Result<Here, KlError> {
    let (left, state, log) = blocking(move || {
        let state = left.read_state();
        let log = read_apply_log(left.dir());
        (left, state, log)
    })
    .await?;
    let dir = left.dir();
    let state = state.unwrap_or_else(|error| {
        ctx.warn(format!("the state that is left in {dir} cannot be read: {error}"));
        None
    });
    let log =
        log.map_err(|error| KlError::failed(format!("cannot read what the apply said in {dir}")).because(error))?;
    Ok(Here { workplace, state, log, dir: left })
}

/// What is at the place of a work directory. One that is in use for a moment, because somebody looks whether it can be
/// cleared away, is waited for.
async fn find(dir: &Utf8Path) -> Result<Found, KlError> {
    let mut found = workspace::find(dir)?;
    for _ in 0..TRIES {
        if !matches!(found, Found::InUse) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        found = workspace::find(dir)?;
    }
    Ok(found)
}

/// The work directories on this machine in which a run was at work whose kl is dead, for whoever cannot ask the database
/// whether that run still needs them.
pub async fn records_here() -> Vec<Utf8PathBuf> {
    let found = blocking(|| workspace::left_in(&temp_dir())).await.unwrap_or_default();
    found.iter().filter(|left| left.run().is_some()).map(|left| left.dir().to_owned()).collect()
}

fn terraform_in(dir: &Utf8Path) -> Result<Applies, KlError> {
    applies_in(dir)
        .map_err(|error| KlError::failed(format!("cannot see whether somebody works in {dir}")).because(error))
}

/// Clears away what dead runs and plans left in the directory for temporary files: it holds parts of states. Not what
/// belongs to a run that lives or waits for its recovery, or to a run of another database. Never fails.
pub async fn sweep(store: &dyn Store) {
    let found = blocking(|| workspace::left_in(&temp_dir())).await.unwrap_or_default();
    for left in found {
        let dir = left.dir().to_owned();
        match may_go(store, &left).await {
            Ok(true) => {
                let removed = blocking(move || left.remove()).await;
                tracing::info!(%dir, ok = matches!(removed, Ok(Ok(()))), "cleared away what a dead run left");
            }
            Ok(false) => {}
            Err(error) => tracing::info!(%dir, error = error.message(), "cannot see whether this may be cleared away"),
        }
    }
}

async fn may_go(store: &dyn Store, left: &LeftBehind) -> Result<bool, KlError> {
    if left.kept() || terraform_in(left.dir())? == Applies::Still {
        return Ok(false);
    }
    // That of a run which only planned is the sign of its death, for as long as nobody has ended it.
    let Some(run) = left.run().or(left.plans_for()) else {
        return Ok(true);
    };
    let found = match store.run_find(run).await {
        Err(StoreError::NotFound { .. }) => return Ok(false),
        found => found?,
    };
    if !found.status.ended() {
        return Ok(false);
    }
    let standing = store.reservation_list(found.state).await?;
    let waits = standing.iter().any(|one| one.run == run && one.held_as == HeldAs::Quarantine);
    // While its workplace is on record, the store does not know all that Terraform did: also after a recovery elsewhere.
    Ok(!waits && store.workplace_find(run).await?.is_none())
}
