//! What becomes of reservations and rows, given what stands: values in, values out, for both databases.

pub(in crate::store) mod footprint;
pub(in crate::store) mod ranges;

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::StoreError;
use super::model::{Checkpoint, Commit, LineageRule, RowWrite, Source};
use crate::domain::address::Pattern;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::{
    AccessMode, Blocker, Claim, HeldAs, Relation, Reservation, blockers, relation,
};
use crate::domain::id::{Lineage, RunId, Serial};
use crate::domain::run::RunStatus;
use crate::domain::run::event::{Neighbour, ResourceStep, RunEvent};
use crate::domain::state::{Body, ContentHash, RowKey, RowKeyDigest};

/// A reservation that has not been released, with its number in the database.
#[derive(Debug, Clone)]
pub(in crate::store) struct Unreleased {
    pub(in crate::store) id: i64,
    pub(in crate::store) reservation: Reservation,
}

impl Unreleased {
    /// Whether it was granted, as against one that waits.
    pub(in crate::store) fn granted(&self) -> bool {
        self.reservation.acquired_at.is_some()
    }

    /// Whether it is part of this run's quarantine.
    pub(in crate::store) fn quarantined_by(&self, run: RunId) -> bool {
        self.reservation.run == run && self.reservation.held_as == HeldAs::Quarantine
    }

    fn ended(&self, now: DateTime<Utc>) -> bool {
        self.reservation.expires_at.is_some_and(|end| end <= now)
    }
}

/// The reservations alone.
pub(in crate::store) fn reservations(standing: &[Unreleased]) -> Vec<Reservation> {
    standing.iter().map(|one| one.reservation.clone()).collect()
}

/// Splits off the places in the queue that nobody came back for.
pub(in crate::store) fn left_queue(
    standing: Vec<Unreleased>,
    now: DateTime<Utc>,
) -> (Vec<Unreleased>, Vec<Unreleased>) {
    standing.into_iter().partition(|one| !one.granted() && one.ended(now))
}

/// The runs whose leases have ended and whose reservations stand in the way of `asked`.
pub(in crate::store) fn ended_in_the_way(
    run: RunId,
    asked: &[Claim],
    standing: &[Unreleased],
    now: DateTime<Utc>,
) -> Vec<RunId> {
    let ended: Vec<Reservation> = standing
        .iter()
        .filter(|one| one.granted() && one.reservation.held_as == HeldAs::Run && one.ended(now))
        .map(|one| one.reservation.clone())
        .collect();
    let mut runs: Vec<RunId> =
        blockers(run, i64::MIN, asked, &ended, now).into_iter().map(|blocker| blocker.reservation.run).collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}

/// What a run's quarantine covers.
pub(in crate::store) fn quarantine(run: RunId, standing: &[Unreleased]) -> Vec<Claim> {
    let claims = standing.iter().filter(|one| one.quarantined_by(run)).map(|one| one.reservation.claim.clone());
    distinct(&claims.collect::<Vec<_>>())
}

/// What stands in the way of taking over a quarantine: reservations of runs that live, and plain locks. Other
/// quarantines do not, or two that overlap would wait for each other for ever; of a row in both, the commit leaves
/// what is not as it was.
pub(in crate::store) fn live_blockers(
    run: RunId,
    claims: &[Claim],
    standing: &[Unreleased],
    now: DateTime<Utc>,
) -> Vec<Blocker> {
    let live: Vec<Reservation> = standing
        .iter()
        .filter(|one| one.granted() && one.reservation.held_as != HeldAs::Quarantine)
        .map(|one| one.reservation.clone())
        .collect();
    blockers(run, i64::MIN, claims, &live, now)
}

/// The claims without repetitions, in their order.
pub(in crate::store) fn distinct(claims: &[Claim]) -> Vec<Claim> {
    let mut seen = HashSet::new();
    claims.iter().filter(|claim| seen.insert(*claim)).cloned().collect()
}

/// Whether these reservations are for exactly these claims.
pub(in crate::store) fn same_claims(standing: &[&Unreleased], claims: &[Claim]) -> bool {
    let ours: HashSet<&Claim> = standing.iter().map(|one| &one.reservation.claim).collect();
    ours.len() == claims.len() && claims.iter().all(|claim| ours.contains(claim))
}

/// The other live runs that hold reservations, and how each relates to `asked`, which conflicts with none of them.
pub(in crate::store) fn beside(run: RunId, asked: &[Claim], standing: &[Unreleased]) -> Vec<Neighbour> {
    let mut order = Vec::new();
    let mut theirs: HashMap<RunId, Vec<Claim>> = HashMap::new();
    for one in standing {
        let other = &one.reservation;
        if other.run != run && one.granted() && other.held_as == HeldAs::Run {
            theirs
                .entry(other.run)
                .or_insert_with(|| {
                    order.push((other.run, other.holder.clone()));
                    Vec::new()
                })
                .push(other.claim.clone());
        }
    }
    order
        .into_iter()
        .map(|(run, actor)| Neighbour {
            run,
            actor,
            relation: theirs.get(&run).map_or(Relation::Disjoint, |claims| relation(asked, claims)),
        })
        .collect()
}

/// What happens to a run's reservations when it ends: some stay as a quarantine, the others are released.
#[derive(Debug, Default)]
pub(in crate::store) struct Ending {
    pub(in crate::store) keep: Vec<i64>,
    pub(in crate::store) release: Vec<i64>,
    pub(in crate::store) quarantined: Vec<String>,
}

/// Sorts a run's reservations by whether they cover rows that Terraform changed.
pub(in crate::store) fn ending(run: RunId, standing: &[Unreleased], changed: &[Pattern]) -> Ending {
    let claims: Vec<Claim> = changed.iter().cloned().map(Claim::write).collect();
    let index = ClaimIndex::new(&claims);
    let mut ending = Ending::default();
    for one in standing.iter().filter(|one| one.reservation.run == run) {
        let claim = &one.reservation.claim;
        let covers_changes = one.granted()
            && claim.mode == AccessMode::Write
            && (one.reservation.held_as == HeldAs::Quarantine || index.meeting(&claim.pattern).next().is_some());
        if covers_changes {
            ending.keep.push(one.id);
            ending.quarantined.push(claim.pattern.to_string());
        } else {
            ending.release.push(one.id);
        }
    }
    ending
}

/// The checkpoint of a run that was cut off, completed by what its timeline knows: an object that Terraform began with
/// after the last checkpoint, or finished without getting into one, may exist although no state has it.
pub(in crate::store) fn completed(checkpoint: Option<&Checkpoint>, events: &[RunEvent]) -> Option<Checkpoint> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut finished: BTreeSet<&str> = BTreeSet::new();
    for event in events {
        if let RunEvent::Resource { address, action, step, .. } = event {
            match step {
                _ if action == "read" => {}
                ResourceStep::Started => drop(open.insert(address)),
                ResourceStep::Finished | ResourceStep::Failed => {
                    open.remove(address.as_str());
                    finished.insert(address);
                }
                ResourceStep::Progress => {}
            }
        }
    }
    let recorded = checkpoint.map(Checkpoint::recorded).unwrap_or_default();
    let in_flight: BTreeSet<String> = checkpoint
        .iter()
        .flat_map(|checkpoint| checkpoint.in_flight.iter().map(String::as_str))
        .filter(|address| !finished.contains(address))
        .chain(open.iter().copied())
        .chain(finished.iter().copied().filter(|address| !recorded.contains(*address)))
        .map(str::to_owned)
        .collect();
    match checkpoint {
        None if in_flight.is_empty() => None,
        // Nothing is known of their content, so nothing of it may be committed: they are only in flight.
        None => Some(Checkpoint {
            state: String::new(),
            changed: Vec::new(),
            in_flight: in_flight.into_iter().collect(),
            slice_serial: None,
        }),
        Some(checkpoint) => Some(Checkpoint { in_flight: in_flight.into_iter().collect(), ..checkpoint.clone() }),
    }
}

/// The parts of a run's quarantine that cover nothing of what it changed.
pub(in crate::store) fn kept_for_nothing(run: RunId, standing: &[Unreleased], changed: &[Pattern]) -> Vec<i64> {
    let claims: Vec<Claim> = changed.iter().cloned().map(Claim::write).collect();
    let index = ClaimIndex::new(&claims);
    standing
        .iter()
        .filter(|one| one.quarantined_by(run) && index.meeting(&one.reservation.claim.pattern).next().is_none())
        .map(|one| one.id)
        .collect()
}

/// The claims that would keep what a run changed and that its quarantine does not cover yet.
pub(in crate::store) fn not_kept(run: RunId, standing: &[Unreleased], changed: &[Pattern]) -> Vec<Claim> {
    let kept = quarantine(run, standing);
    let index = ClaimIndex::new(&kept);
    let new: Vec<Claim> =
        changed.iter().filter(|pattern| index.meeting(pattern).next().is_none()).cloned().map(Claim::write).collect();
    distinct(&new)
}

/// Whether all that a run holds is in another one's quarantine, too.
pub(in crate::store) fn kept_by(other: RunId, run: RunId, standing: &[Unreleased]) -> bool {
    let kept = quarantine(other, standing);
    let kept: HashSet<&Claim> = kept.iter().collect();
    let mut own = standing.iter().filter(|one| one.reservation.run == run && one.granted());
    own.all(|one| kept.contains(&one.reservation.claim))
}

/// The rows whose real objects a run that ended in its midst may have changed: those that its checkpoint saw changed,
/// and those that Terraform was working on. An address that cannot be read covers everything the run could write.
pub(in crate::store) fn touched(checkpoint: Option<&Checkpoint>) -> Vec<Pattern> {
    let Some(checkpoint) = checkpoint else {
        return Vec::new();
    };
    let in_flight = checkpoint.in_flight.iter().map(|text| Pattern::parse(text).unwrap_or(Pattern::Everything));
    checkpoint.changed.iter().cloned().chain(in_flight).collect()
}

/// A row of the trunk that a commit is about.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Current {
    pub(in crate::store) id: i64,
    pub(in crate::store) hash: ContentHash,
}

/// A row that gets a new content.
#[derive(Debug)]
pub(in crate::store) struct Opened<'a> {
    pub(in crate::store) digest: RowKeyDigest,
    pub(in crate::store) key: &'a RowKey,
    pub(in crate::store) body: &'a Body,
}

/// What a commit does to the trunk.
#[derive(Debug, Default)]
pub(in crate::store) struct Changes<'a> {
    pub(in crate::store) close: Vec<i64>,
    pub(in crate::store) open: Vec<Opened<'a>>,
    pub(in crate::store) left: Vec<RowKey>,
    /// How many rows it changes: one that gets another content is closed and opened.
    pub(in crate::store) touched: usize,
}

/// The digests of all rows that a commit is about.
pub(in crate::store) fn concerned(commit: &Commit) -> Vec<RowKeyDigest> {
    let soft = commit.soft.iter().map(|soft| &soft.write);
    commit.writes.iter().chain(soft).map(|write| write.key.digest()).collect()
}

/// Compares a commit with the trunk: what changes nothing is skipped; a soft row is taken only where the trunk still
/// has what the run saw and no other run has reserved it.
pub(in crate::store) fn changes<'a>(
    run: RunId,
    commit: &'a Commit,
    trunk: &HashMap<RowKeyDigest, Current>,
    standing: &[Unreleased],
) -> Changes<'a> {
    let mut changes = Changes::default();
    let mut done = HashSet::new();
    // Of two writes of one row the later counts, as in a state document.
    for write in commit.writes.iter().rev() {
        let digest = write.key.digest();
        if done.insert(digest) {
            changes.add(digest, write, trunk.get(&digest));
        }
    }
    let others: Vec<Claim> = standing
        .iter()
        .filter(|one| one.granted() && one.reservation.run != run)
        .map(|one| one.reservation.claim.clone())
        .collect();
    let others = ClaimIndex::new(&others);
    for soft in &commit.soft {
        let digest = soft.write.key.digest();
        if !done.insert(digest) {
            continue;
        }
        let current = trunk.get(&digest);
        if current.map(|row| row.hash) == soft.write.body.as_ref().map(Body::hash) {
            continue;
        }
        // Nobody reserves a check result alone: only a reservation of the whole state covers it.
        let pattern = soft.write.key.pattern();
        let reserved = match &pattern {
            Some(pattern) => others.meeting(pattern).next().is_some(),
            None => others.meeting(&Pattern::Everything).any(|claim| claim.pattern == Pattern::Everything),
        };
        if current.map(|row| row.hash) == soft.expected && !reserved {
            changes.add(digest, &soft.write, current);
        } else {
            changes.left.push(soft.write.key.clone());
        }
    }
    changes
}

/// What a run's timeline says of its commit.
pub(in crate::store) fn told(commit: &Commit, serial: Serial, changes: &Changes<'_>) -> Vec<RunEvent> {
    let mut events = Vec::new();
    // A refresh and a recovery have nothing but such rows, and their versions name them.
    if commit.source == Source::Apply && !commit.soft.is_empty() {
        let stay: HashSet<&RowKey> = changes.left.iter().collect();
        let (left, taken): (Vec<&RowKey>, Vec<&RowKey>) =
            commit.soft.iter().map(|soft| &soft.write.key).partition(|key| stay.contains(key));
        let names = |keys: Vec<&RowKey>| keys.into_iter().map(ToString::to_string).collect();
        events.push(RunEvent::SoftRows { taken: names(taken), left: names(left) });
    }
    events.push(RunEvent::Committed {
        serial,
        rows_opened: changes.open.len(),
        rows_closed: changes.close.len(),
        rows_touched: Some(changes.touched),
        as_planned: commit.as_planned,
    });
    events
}

impl<'a> Changes<'a> {
    fn add(&mut self, digest: RowKeyDigest, write: &'a RowWrite, current: Option<&Current>) {
        if current.map(|row| row.hash) == write.body.as_ref().map(Body::hash) {
            return;
        }
        self.touched += 1;
        self.close.extend(current.map(|row| row.id));
        if let Some(body) = &write.body {
            self.open.push(Opened { digest, key: &write.key, body });
        }
    }
}

/// The status of a run after it was granted its reservations, or queued for them: it never goes back.
pub(in crate::store) fn forward(now: RunStatus, to: RunStatus) -> RunStatus {
    match (now, to) {
        (RunStatus::Applying, _) | (RunStatus::Reserved, RunStatus::Waiting) => now,
        _ => to,
    }
}

/// The lineage of a state after a commit: given once, never changed.
pub(in crate::store) fn lineage<'a>(
    has: Option<&'a Lineage>,
    rule: &'a LineageRule,
) -> Result<&'a Lineage, StoreError> {
    match (has, rule) {
        (Some(has), LineageRule::Must(must)) if has != must => {
            Err(StoreError::Stale(format!("the state's lineage is {has}, not {must}")))
        }
        (Some(has), _) => Ok(has),
        (None, LineageRule::OrNew(new) | LineageRule::Must(new)) => Ok(new),
    }
}
