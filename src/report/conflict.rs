//! A reservation conflict in words: who holds what, since when, until when, and what of ours met it.

use super::style::{between, bold, dim, duration, loud, plain};
use crate::domain::coordination::reservation::{Blocker, HeldAs};

/// So many of our own addresses are named for one reservation; the rest is counted.
const MAX_MET: usize = 5;
/// So many reservations are written out; the rest is counted.
const MAX_BLOCKERS: usize = 10;

/// One line that fits a title: the pattern and the holder.
#[must_use]
pub fn title(blockers: &[Blocker]) -> String {
    match blockers {
        [] => "blocked".to_owned(),
        [first, rest @ ..] => {
            let reservation = &first.reservation;
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
            format!(
                "{} is reserved by {}{more}",
                plain(&reservation.claim.pattern.to_string()),
                plain(&reservation.holder.0)
            )
        }
    }
}

/// The whole story, a paragraph for each reservation in the way, and what to do.
#[must_use]
pub fn text(blockers: &[Blocker]) -> String {
    let mut out = String::new();
    for blocker in blockers.iter().take(MAX_BLOCKERS) {
        let reservation = &blocker.reservation;
        let verb = match (reservation.held_as, reservation.acquired_at) {
            (HeldAs::Quarantine, _) => "is quarantined by",
            (HeldAs::Lock, _) => "is locked by",
            (HeldAs::Run, Some(_)) => "is held by",
            (HeldAs::Run, None) => "is waited for by",
        };
        out.push_str(&format!(
            "{} {} ({}) {verb} {}\n",
            loud("✗"),
            bold(plain(&reservation.claim.pattern.to_string())),
            reservation.claim.mode.word(),
            bold(plain(&reservation.holder.0)),
        ));
        let held = between(reservation.acquired_at.unwrap_or(reservation.asked_at), blocker.at);
        let verb = if reservation.acquired_at.is_some() { "held" } else { "waiting" };
        let until = match (reservation.held_as, reservation.expires_at) {
            (HeldAs::Quarantine, _) | (_, None) => "does not expire".to_owned(),
            (_, Some(expires)) if expires > blocker.at => {
                format!("expires in {}", duration(between(blocker.at, expires)))
            }
            (_, Some(_)) => "lease has ended".to_owned(),
        };
        out.push_str(&format!("    run      {}\n", reservation.run));
        if let Some(request) = reservation.origin.request {
            let repository = reservation.origin.repository.as_deref().unwrap_or_default();
            out.push_str(&format!("    request  {}#{request}\n", plain(repository)));
        }
        out.push_str(&format!("    {verb:<8} for {}, {until}\n", duration(held)));
        let met: Vec<String> = blocker
            .met
            .iter()
            .take(MAX_MET)
            .map(|claim| format!("{} ({})", plain(&claim.pattern.to_string()), claim.mode.word()))
            .collect();
        let more = blocker.met.len().saturating_sub(MAX_MET);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        out.push_str(&format!("    meets    our {}{more}\n", met.join(", ")));
    }
    if blockers.len() > MAX_BLOCKERS {
        out.push_str(&dim(format!("  … and {} more reservations\n", blockers.len() - MAX_BLOCKERS)));
    }
    out
}

/// What the person can do about it.
#[must_use]
pub fn hints(blockers: &[Blocker]) -> Vec<String> {
    let mut hints = Vec::new();
    let quarantine = blockers.iter().find(|blocker| blocker.reservation.held_as == HeldAs::Quarantine);
    if let Some(blocker) = quarantine {
        let run = blocker.reservation.run;
        hints.push(format!(
            "run {run} failed after it had changed real objects; `kl recover {run}` brings the state back in step"
        ));
    }
    if blockers.iter().any(|blocker| blocker.reservation.held_as == HeldAs::Run) {
        hints.push("try again when the holder is done, or let kl wait in turn with `--wait 10m`".to_owned());
        hints.push("`kl status` shows every reservation; `kl abort RUN` ends a run whose job is dead".to_owned());
    }
    hints
}
