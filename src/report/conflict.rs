//! A reservation conflict in words: who holds what, since when, until when, and what of ours met it.

use super::style::{between, bold, dim, duration, loud, plain};
use crate::domain::coordination::reservation::{Blocker, HeldAs, Reservation};
use crate::domain::request::ForgeKind;
use crate::domain::run::Origin;
use crate::error::KlError;
use crate::exit::Exit;

/// So many of our own addresses are named for one reservation; the rest is counted.
const MAX_MET: usize = 5;
/// So many reservations are written out; the rest is counted.
const MAX_BLOCKERS: usize = 10;

/// What is to be told about one reservation in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What is reserved.
    pub pattern: String,
    /// `read` or `write`.
    pub mode: &'static str,
    /// How it is reserved: `is held by`, `is quarantined by`.
    pub verb: &'static str,
    /// Who.
    pub holder: String,
    /// `owner/name#7`, for a run that came from a request.
    pub request: Option<String>,
    /// `held for 4m 10s`, `waiting for 3s`: at the time of the meeting.
    pub since: String,
    /// `expires in 10m 50s`, `does not expire`: at the time of the meeting.
    pub until: String,
    /// What of ours met it, each with its mode.
    pub met: Vec<(String, &'static str)>,
    /// How many more of ours did.
    pub more: usize,
}

/// One line that fits a title: the pattern and the holder.
#[must_use]
pub fn title(blockers: &[Blocker]) -> String {
    match blockers {
        [] => "blocked".to_owned(),
        [first, rest @ ..] => {
            let reservation = &first.reservation;
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
            let verb = match (reservation.held_as, reservation.acquired_at) {
                (HeldAs::Run, Some(_)) => "is reserved by",
                _ => verb(reservation),
            };
            format!("{} {verb} {}{more}", plain(&reservation.claim.pattern.to_string()), plain(&reservation.holder.0))
        }
    }
}

/// How a reservation is held, as a verb.
#[must_use]
pub fn verb(reservation: &Reservation) -> &'static str {
    match (reservation.held_as, reservation.acquired_at) {
        (HeldAs::Quarantine, _) => "is quarantined by",
        (_, None) => "is waited for by",
        (HeldAs::Lock, Some(_)) => "is locked by",
        (HeldAs::Run, Some(_)) => "is held by",
    }
}

/// The request that a run came from, as its forge writes it.
#[must_use]
pub fn request(origin: &Origin) -> Option<String> {
    let sign = origin.forge.as_deref().and_then(ForgeKind::from_word).map_or('#', ForgeKind::sign);
    let number = origin.request?;
    Some(format!("{}{sign}{number}", origin.repository.as_deref().unwrap_or_default()))
}

/// What is to be told about a reservation in the way.
#[must_use]
pub fn told(blocker: &Blocker) -> Told {
    let reservation = &blocker.reservation;
    let held = duration(between(reservation.acquired_at.unwrap_or(reservation.asked_at), blocker.at));
    let until = match (reservation.held_as, reservation.expires_at) {
        (HeldAs::Quarantine, _) | (_, None) => "does not expire".to_owned(),
        (_, Some(expires)) if expires > blocker.at => {
            format!("expires in {}", duration(between(blocker.at, expires)))
        }
        (_, Some(_)) => "lease has ended".to_owned(),
    };
    Told {
        pattern: reservation.claim.pattern.to_string(),
        mode: reservation.claim.mode.word(),
        verb: verb(reservation),
        holder: reservation.holder.0.clone(),
        request: request(&reservation.origin),
        since: format!("{} for {held}", if reservation.acquired_at.is_some() { "held" } else { "waiting" }),
        until,
        met: blocker.met.iter().take(MAX_MET).map(|claim| (claim.pattern.to_string(), claim.mode.word())).collect(),
        more: blocker.met.len().saturating_sub(MAX_MET),
    }
}

/// The whole story, a paragraph for each reservation in the way, and what to do.
#[must_use]
pub fn text(blockers: &[Blocker]) -> String {
    let mut out = String::new();
    for blocker in blockers.iter().take(MAX_BLOCKERS) {
        let told = told(blocker);
        out.push_str(&format!(
            "{} {} ({}) {} {}\n",
            loud("✗"),
            bold(plain(&told.pattern)),
            told.mode,
            told.verb,
            bold(plain(&told.holder)),
        ));
        out.push_str(&format!("    run      {}\n", blocker.reservation.run));
        if let Some(request) = &told.request {
            out.push_str(&format!("    request  {}\n", plain(request)));
        }
        // `held for` and `waiting for` stand under the labels.
        let (label, since) = told.since.split_once(' ').unwrap_or((&told.since, ""));
        out.push_str(&format!("    {label:<8} {since}, {}\n", told.until));
        let met: Vec<String> = told.met.iter().map(|(pattern, mode)| format!("{} ({mode})", plain(pattern))).collect();
        let more = if told.more > 0 { format!(" and {} more", told.more) } else { String::new() };
        out.push_str(&format!("    meets    our {}{more}\n", met.join(", ")));
    }
    if blockers.len() > MAX_BLOCKERS {
        out.push_str(&dim(format!("  … and {} more reservations\n", blockers.len() - MAX_BLOCKERS)));
    }
    out
}

/// The error of a command that something stands in the way of: title, story, and what to do.
#[must_use]
pub fn error(blockers: &[Blocker]) -> KlError {
    error_titled(&title(blockers), blockers)
}

/// The same with more in the title.
#[must_use]
pub fn error_titled(title: &str, blockers: &[Blocker]) -> KlError {
    let error = KlError::new(Exit::Conflict, format!("{title}\n{}", text(blockers).trim_end()));
    hints(blockers).into_iter().fold(error, KlError::hint)
}

/// What a person can do about a plan that no longer holds.
#[must_use]
pub fn stale_hints() -> [&'static str; 2] {
    [
        "run `kl plan` again and have the new plan reviewed",
        "with `--on-stale revalidate` kl plans again itself, and goes on if the plan is the same",
    ]
}

/// So many addresses that were changed outside Terraform are named; the rest is counted.
const MAX_DRIFTED: usize = 10;

/// What a person can do about objects that were changed outside Terraform, where that makes another plan of the reviewed one.
#[must_use]
pub fn drift_hint(drifted: &[String]) -> String {
    let more = drifted.len().saturating_sub(MAX_DRIFTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = drifted.iter().take(MAX_DRIFTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "changed outside Terraform: {names}{more}; `kl refresh` takes over what is there now, and a new plan without that \
         puts back what the configuration says"
    )
}

/// What the person can do about it.
#[must_use]
pub fn hints(blockers: &[Blocker]) -> Vec<String> {
    let mut hints = Vec::new();
    let quarantine = blockers.iter().find(|blocker| blocker.reservation.held_as == HeldAs::Quarantine);
    if let Some(blocker) = quarantine {
        let run = blocker.reservation.run;
        hints.push(format!(
            "run {run} ended after it had changed real objects, or perhaps; `kl recover {run}` brings the state back in step, \
             and says so where nothing is on record"
        ));
    }
    let locks = |one: &&Blocker| one.reservation.held_as == HeldAs::Lock && one.reservation.acquired_at.is_some();
    let lock = blockers.iter().find(locks);
    let runs =
        blockers.iter().any(|one| one.reservation.held_as == HeldAs::Run || one.reservation.acquired_at.is_none());
    if runs || lock.is_some() {
        hints.push("try again when the holder is done, or let kl wait in turn with `--wait 10m`".to_owned());
    }
    if let Some(blocker) = lock {
        hints.push(format!(
            "a plain terraform holds the lock of the whole state; if it is dead, `kl abort {}` or `terraform force-unlock` \
             frees it",
            blocker.reservation.run
        ));
    }
    if runs {
        hints.push(
            "a plan that reads or writes what the holder changes is stale then: plan again, or apply with \
             `--on-stale revalidate`"
                .to_owned(),
        );
        hints.push("`kl status` shows every reservation; `kl abort RUN` ends a run whose job is dead".to_owned());
    }
    hints
}
