//! LOCK and UNLOCK: the lock of the whole state is a reservation like any other, without a lease.

use std::sync::PoisonError;

use chrono::{DateTime, Utc};

use super::Server;
use super::access::Pass;
use super::answer::Answer;
use crate::clock;
use crate::domain::address::Pattern;
use crate::domain::coordination::lock::{LockId, LockInfo};
use crate::domain::coordination::reservation::{Blocker, Claim, HeldAs};
use crate::domain::id::{Actor, RunId, StateName};
use crate::domain::run::{NewRun, RunKind, Tools};
use crate::domain::token::Role;
use crate::report::conflict;
use crate::store::model::{LockEnd, LockFreed, LockTaken, PlainLock, StateHead};

/// So many reservations in the way are told; the rest is counted.
const MAX_TOLD: usize = 5;

/// So many locks that were refused are remembered: those of the last minutes matter. Who is forgotten has to ask once
/// more to get a place in the queue.
const MAX_REFUSED: usize = 1_000;

/// LOCK: all of the state, or a refusal that names who is in the way.
pub(super) async fn lock(server: &Server, pass: &Pass, name: &StateName, body: &[u8]) -> Result<Answer, Answer> {
    let info = LockInfo::read(body).map_err(|error| Answer::text(400, error.to_string()))?;
    let head = server.store.state_ensure(name).await?;
    take(server, pass, &head, &info).await.map(|()| Answer::done())
}

/// The answer to whose one command may not lock: a lock document, as Terraform hides the text of a 403 (facts E1).
pub(super) fn not_allowed(why: &str, state: &StateName) -> Answer {
    // A line that begins with a space is left as it is; others are wrapped.
    document(409, &format!("refused by kl:\n  {why}"), "", state.as_str(), DateTime::default())
}

/// The run that stands for a lock.
pub(super) fn run(server: &Server, pass: &Pass, head: &StateHead, info: &LockInfo) -> NewRun {
    NewRun {
        id: clock::new_run_id(),
        state: head.id,
        kind: RunKind::Plain,
        actor: server.who(pass, &info.who),
        origin: server.origin.clone(),
        spec: None,
        source_serial: head.serial,
        tools: Tools {
            program: "terraform".to_owned(),
            version: info.version.clone(),
            providers: std::collections::BTreeMap::new(),
        },
        claims: vec![Claim::write(Pattern::Everything)],
    }
}

/// Takes the lock.
async fn take(server: &Server, pass: &Pass, head: &StateHead, info: &LockInfo) -> Result<(), Answer> {
    let run = run(server, pass, head, info);
    // Whoever asks with the same id once more waits for its turn, and gets a place in the queue.
    let asked = (head.id, info.id.clone());
    let again = server.refused().contains(&asked);
    if server.access.is_for_one() {
        // Before it is taken: an error does not say that it was not.
        server.taken().insert(asked.clone());
    }
    match server.store.lock_take(&run, info, again).await? {
        LockTaken::Granted(run) => {
            server.refused().remove(&asked);
            server.holds(run);
            Ok(())
        }
        LockTaken::Blocked { blockers, lock } => {
            server.taken().remove(&asked);
            let mut refused = server.refused();
            if refused.len() >= MAX_REFUSED {
                refused.clear();
            }
            refused.insert(asked);
            Err(server.refusal(&blockers, lock.as_ref(), head.name.as_str()))
        }
    }
}

/// A refusal that Terraform shows.
fn document(status: u16, story: &str, holder: &str, state: &str, at: DateTime<Utc>) -> Answer {
    match serde_json::to_string(&LockInfo::refusal(story, holder, state, at)) {
        Ok(text) => Answer::json(status, text).because(story),
        Err(_) => Answer::text(500, "the refusal cannot be written"),
    }
}

/// Who is in the way, for the terminal of whoever wanted the lock, and what can be done there. `prefix` stands before what
/// Terraform is to be told. Terraform wraps all lines but those that begin with a space: what is to be copied has such one.
fn story(blockers: &[Blocker], lock: Option<&PlainLock>, prefix: &str) -> String {
    let mut lines = vec!["refused by kl, because others work on the state:".to_owned()];
    for blocker in blockers.iter().take(MAX_TOLD) {
        let told = conflict::told(blocker);
        let plain = |text: &str| crate::report::style::plain(text);
        let run = blocker.reservation.run;
        let request = told.request.map(|request| format!(", {}", plain(&request))).unwrap_or_default();
        let what = match (blocker.reservation.held_as, lock) {
            (HeldAs::Lock, Some(lock)) if lock.run == run => format!("the state, with lock {},", plain(&lock.id.0)),
            _ => format!("{} ({})", plain(&told.pattern), told.mode),
        };
        let (verb, holder) = (told.verb, plain(&told.holder));
        lines.push(format!("  {what} {verb} {holder}{request}: {}, {}; run {run}", told.since, told.until));
    }
    if blockers.len() > MAX_TOLD {
        lines.push(format!("  and {} more", blockers.len() - MAX_TOLD));
    }
    let held = |how: HeldAs| {
        let is = |one: &&Blocker| one.reservation.held_as == how && one.reservation.acquired_at.is_some();
        blockers.iter().find(is).map(|blocker| blocker.reservation.run)
    };
    if let Some(run) = held(HeldAs::Quarantine) {
        lines.push(
            "that run ended after it had changed real objects, or perhaps; this brings the state back in step:".into(),
        );
        lines.push(format!("  kl recover {run}"));
    }
    if let Some(run) = held(HeldAs::Lock) {
        let lock = lock.filter(|lock| lock.run == run);
        let id = lock.map_or_else(|| "ID".to_owned(), |lock| argument(&lock.id.0));
        lines.push("if that terraform is dead, either of these frees its lock:".to_owned());
        lines.push(format!("  kl abort {run}"));
        lines.push(format!("  {prefix}terraform force-unlock -force {id}"));
    }
    if blockers.iter().any(|one| one.reservation.held_as == HeldAs::Run || one.reservation.acquired_at.is_none()) {
        lines.push("`kl status` shows every reservation; `kl abort RUN` ends a run whose job is dead".to_owned());
    }
    let kept = blockers.iter().any(|one| one.reservation.held_as == HeldAs::Quarantine);
    let waiting = if kept {
        "waiting does not end that, with -lock-timeout neither"
    } else {
        "-lock-timeout=10m lets terraform try again for so long"
    };
    lines.push(waiting.to_owned());
    lines.join("\n")
}

/// UNLOCK: with a lock document, by the lock's holder; with nothing, by `terraform force-unlock`.
pub(super) async fn unlock(server: &Server, pass: &Pass, name: &StateName, body: &[u8]) -> Result<Answer, Answer> {
    let (end, who) = if body.trim_ascii().is_empty() {
        pass.allows(Role::Admin, name).map_err(|why| Answer::text(403, format!("{why}: it takes the lock away")))?;
        (LockEnd::Forced, "terraform force-unlock".to_owned())
    } else {
        let info = LockInfo::read(body).map_err(|error| Answer::text(400, error.to_string()))?;
        (LockEnd::Returned(info.id), info.who)
    };
    let head = server.store.state_find(name).await?.ok_or_else(not_locked)?;
    let freed = server.store.lock_free(head.id, &end, &server.who(pass, &who)).await?;
    if let (LockEnd::Returned(id), LockFreed::Freed(_) | LockFreed::TakenAway(_)) = (&end, &freed) {
        server.taken().remove(&(head.id, id.clone()));
    }
    match freed {
        LockFreed::Freed(_) => {
            server.known().remove(&head.id);
            Ok(Answer::done())
        }
        LockFreed::NotLocked => Err(not_locked()),
        LockFreed::TakenAway(run) => {
            Err(Answer::text(409, format!("the lock was taken away before: `kl show {run}` says by whom")))
        }
        LockFreed::Other(lock) => Err(other(&lock)),
    }
}

fn not_locked() -> Answer {
    Answer::text(409, "no plain terraform holds a lock on the state; `kl status` shows what runs hold")
}

/// The answer to who has another lock than the one that is held.
pub(super) fn other(lock: &PlainLock) -> Answer {
    let LockId(id) = &lock.id;
    Answer::text(409, format!("another lock is held: {id}, by {}; run {}", lock.holder, lock.run))
}

/// An id as a word of a shell. What is no plain word has to be looked up.
fn argument(id: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/@".contains(letter);
    if id.chars().all(plain) && !id.starts_with('-') { id.to_owned() } else { "ID".to_owned() }
}

impl Server {
    /// The answer to who cannot have the lock: a lock document, because anything else hides the reason (facts E1).
    pub(super) fn refusal(&self, blockers: &[Blocker], lock: Option<&PlainLock>, state: &str) -> Answer {
        let story = story(blockers, lock, if self.access.is_for_one() { "kl exec -- " } else { "" });
        let holder = blockers.first().map_or("", |blocker| blocker.reservation.holder.0.as_str());
        let at = blockers.first().map(|blocker| blocker.at).unwrap_or_default();
        document(423, &story, holder, state, at)
    }

    /// Remembers, for whoever serves one command, a run that stands for a lock of it.
    fn holds(&self, run: RunId) {
        if self.access.is_for_one() {
            self.runs.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
        }
    }

    /// Who acts: whoever runs the server, else whoever has the pass and the document names.
    pub(super) fn who(&self, pass: &Pass, named: &str) -> Actor {
        self.actor.clone().unwrap_or_else(|| pass.actor(named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::coordination::reservation::Reservation;
    use crate::domain::run::Origin;

    fn blocker(held_as: HeldAs) -> Blocker {
        let at = DateTime::default();
        let reservation = Reservation {
            run: clock::new_run_id(),
            holder: Actor("alice".to_owned()),
            origin: Origin::default(),
            claim: Claim::write(Pattern::Everything),
            held_as,
            asked_at: at,
            acquired_at: Some(at),
            expires_at: None,
            ticket: 1,
        };
        Blocker { reservation, met: Vec::new(), at }
    }

    #[test]
    fn waiting_is_advised_where_it_helps() {
        for (in_the_way, helps) in [
            (vec![blocker(HeldAs::Run)], true),
            (vec![blocker(HeldAs::Lock)], true),
            (vec![blocker(HeldAs::Quarantine)], false),
            (vec![blocker(HeldAs::Run), blocker(HeldAs::Quarantine)], false),
        ] {
            let said = story(&in_the_way, None, "");
            assert_eq!(said.contains("-lock-timeout=10m"), helps, "{said}");
            assert_eq!(said.contains("waiting does not end that"), !helps, "{said}");
        }
    }
}
