//! What the store must do, in memory: no SQL, nothing but [`Claim::conflicts_with`] and the rules of the design.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use kl_runner::domain::address::{Address, Pattern};
use kl_runner::domain::coordination::reservation::{AccessMode, Claim, HeldAs, Reservation};
use kl_runner::domain::id::RunId;
use kl_runner::domain::run::RunStatus;
use kl_runner::domain::state::RowKey;

/// The rows that a history is about.
pub(super) const ROWS: [&str; 9] = [
    "a.x[0]",
    "a.x[1]",
    "a.x[\"0\"]",
    "b.y",
    "module.m[0].a.x",
    "module.m[0].b.y[0]",
    "module.m[1].a.x",
    "module.n.a.x",
    "output.o",
];

/// What runs ask for, beside the whole state.
pub(super) const PATTERNS: [&str; 11] = [
    "a.x",
    "a.x[0]",
    "a.x[\"0\"]",
    "b.y",
    "module.m.*",
    "module.m[0].*",
    "module.m[0].a.x",
    "module.m[1].a.x",
    "module.n.*",
    "output.o",
    "c.z",
];

/// The key of a row.
pub(super) fn key(row: usize) -> RowKey {
    match ROWS[row].strip_prefix("output.") {
        Some(name) => RowKey::Output(name.to_owned()),
        None => RowKey::object(Address::parse(ROWS[row]).unwrap()),
    }
}

/// The pattern that covers a row and nothing else.
pub(super) fn only(row: usize) -> Pattern {
    key(row).pattern().unwrap()
}

/// The rows that some of these claims cover.
pub(super) fn covered(claims: &BTreeSet<Claim>, mode: Option<AccessMode>) -> Vec<usize> {
    let covers = |row: &usize| {
        claims.iter().any(|claim| mode.is_none_or(|mode| claim.mode == mode) && claim.pattern.intersects(&only(*row)))
    };
    (0..ROWS.len()).filter(covers).collect()
}

/// The trunk: a text for each row that exists.
pub(super) type Trunk = BTreeMap<usize, String>;

/// What a run makes of its rows, given what it saw of all that it had reserved: of a lost update or a stale read nothing
/// after it would be right. Some rows end.
pub(super) fn effect(name: impl Hash, claims: &BTreeSet<Claim>, saw: &Trunk) -> Vec<(usize, Option<String>)> {
    let reads = covered(claims, None);
    let one = |row: usize| {
        let mut hasher = DefaultHasher::new();
        (&name, row).hash(&mut hasher);
        for read in &reads {
            (read, saw.get(read)).hash(&mut hasher);
        }
        let hash = hasher.finish();
        (row, (!hash.is_multiple_of(5)).then(|| format!("\"{hash:016x}\"")))
    };
    covered(claims, Some(AccessMode::Write)).into_iter().map(one).collect()
}

/// What Terraform has done in a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Work {
    pub(super) done: Vec<(usize, Option<String>)>,
    pub(super) in_flight: Vec<usize>,
    pub(super) slice_serial: i64,
}

impl Work {
    pub(super) fn touched(&self) -> Vec<Pattern> {
        self.done.iter().map(|(row, _)| *row).chain(self.in_flight.iter().copied()).map(only).collect()
    }
}

/// A run as it should stand.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) recovers: bool,
    pub(super) status: RunStatus,
    pub(super) granted: BTreeSet<Claim>,
    pub(super) waiting: Option<(u64, BTreeSet<Claim>)>,
    pub(super) lease_ended: bool,
    pub(super) quarantine: BTreeSet<Claim>,
    pub(super) checkpoint: Option<Work>,
    pub(super) workplace: bool,
    /// The run whose quarantine it has taken over.
    pub(super) of: Option<usize>,
}

/// A reservation that stands: run, pattern, mode, whether it waits, whether it is a quarantine.
pub(super) type Line = (RunId, String, &'static str, bool, bool);

/// What the store says of one.
pub(super) fn line(one: &Reservation) -> Line {
    let quarantined = one.held_as == HeldAs::Quarantine;
    (one.run, one.claim.pattern.to_string(), one.claim.mode.word(), one.acquired_at.is_none(), quarantined)
}

/// Everything that the store should know of one state.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) runs: Vec<Run>,
    /// The trunk after each serial; the first is the empty state.
    pub(super) history: Vec<Trunk>,
    /// The serial that last changed a row.
    pub(super) changed_at: BTreeMap<usize, i64>,
    ticket: u64,
}

fn meets(claims: &[Claim], theirs: &Claim) -> bool {
    claims.iter().any(|ours| ours.conflicts_with(theirs))
}

impl Run {
    /// Its reservations, each with whether it waits and whether it is a quarantine.
    fn reservations(&self) -> impl Iterator<Item = (&Claim, bool, bool)> {
        let waiting = self.waiting.iter().flat_map(|(_, claims)| claims);
        let granted = self.granted.iter().map(|claim| (claim, false, false));
        let quarantined = self.quarantine.iter().map(|claim| (claim, false, true));
        granted.chain(quarantined).chain(waiting.map(|claim| (claim, true, false)))
    }

    fn line(&self, (claim, waits, quarantined): (&Claim, bool, bool)) -> Line {
        (self.id, claim.pattern.to_string(), claim.mode.word(), waits, quarantined)
    }

    /// Ends it; of what it may write, what meets one of these patterns stays.
    fn ends(&mut self, status: RunStatus, changed: &[Pattern]) {
        self.status = status;
        self.waiting = None;
        self.lease_ended = false;
        let kept = |claim: &Claim| {
            claim.mode == AccessMode::Write && changed.iter().any(|pattern| pattern.intersects(&claim.pattern))
        };
        self.quarantine = std::mem::take(&mut self.granted).into_iter().filter(kept).collect();
    }

    fn is_cut_off(&mut self, status: RunStatus) {
        let all = self.recovers || self.workplace;
        let touched = self.checkpoint.as_ref().map(Work::touched).unwrap_or_default();
        self.ends(status, if all { &[Pattern::Everything] } else { &touched });
    }
}

impl Model {
    pub(super) fn new() -> Self {
        Self { history: vec![Trunk::new()], ..Self::default() }
    }

    pub(super) fn trunk(&self) -> &Trunk {
        self.history.last().unwrap()
    }

    pub(super) fn serial(&self) -> i64 {
        i64::try_from(self.history.len()).unwrap() - 1
    }

    pub(super) fn starts(&mut self, id: RunId, recovers: bool) -> usize {
        self.runs.push(Run {
            id,
            recovers,
            status: RunStatus::Started,
            granted: BTreeSet::new(),
            waiting: None,
            lease_ended: false,
            quarantine: BTreeSet::new(),
            checkpoint: None,
            workplace: false,
            of: None,
        });
        self.runs.len() - 1
    }

    pub(super) fn standing(&self) -> BTreeSet<Line> {
        self.runs.iter().flat_map(|run| run.reservations().map(|one| run.line(one))).collect()
    }

    /// The runs that left a quarantine.
    pub(super) fn quarantined(&self) -> Vec<usize> {
        (0..self.runs.len()).filter(|run| !self.runs[*run].quarantine.is_empty()).collect()
    }

    /// The runs that live.
    pub(super) fn live(&self) -> Vec<usize> {
        (0..self.runs.len()).filter(|run| !self.runs[*run].status.ended()).collect()
    }

    /// Who asks takes what others have left to expire.
    fn reclaim(&mut self, asker: usize, claims: &[Claim]) -> BTreeSet<RunId> {
        let mut lost = BTreeSet::new();
        for (number, run) in self.runs.iter_mut().enumerate() {
            if number != asker && run.lease_ended && run.granted.iter().any(|claim| meets(claims, claim)) {
                lost.insert(run.id);
                run.is_cut_off(RunStatus::Lost);
            }
        }
        lost
    }

    /// What must come of an ask: the runs that lose their leases, and what is in the way.
    pub(super) fn asks(&mut self, asker: usize, claims: &[Claim], queue: bool) -> (BTreeSet<RunId>, BTreeSet<Line>) {
        let lost = self.reclaim(asker, claims);
        let place = self.runs[asker].waiting.as_ref().map_or(u64::MAX, |(ticket, _)| *ticket);
        let mut in_the_way = BTreeSet::new();
        for (_, run) in self.runs.iter().enumerate().filter(|(number, _)| *number != asker) {
            let earlier = run.waiting.as_ref().is_some_and(|(ticket, _)| *ticket < place);
            let met = run.reservations().filter(|(claim, waits, _)| (!waits || earlier) && meets(claims, claim));
            in_the_way.extend(met.map(|one| run.line(one)));
        }
        let ticket = &mut self.ticket;
        let run = &mut self.runs[asker];
        if in_the_way.is_empty() {
            run.granted.extend(claims.iter().cloned());
            run.waiting = None;
            run.lease_ended = false;
            run.status = forward(run.status, RunStatus::Reserved);
        } else if queue {
            let mut next = || {
                *ticket += 1;
                *ticket
            };
            let ticket = run.waiting.as_ref().map_or_else(&mut next, |(ticket, _)| *ticket);
            run.waiting = Some((ticket, claims.iter().cloned().collect()));
            run.status = forward(run.status, RunStatus::Waiting);
        } else {
            run.waiting = None;
        }
        (lost, in_the_way)
    }

    /// The lease of a run ends, and its place in the queue.
    pub(super) fn lease_ends(&mut self, run: usize) {
        let run = &mut self.runs[run];
        run.lease_ended = !run.granted.is_empty();
        run.waiting = None;
    }

    pub(super) fn aborts(&mut self, run: usize) {
        self.runs[run].is_cut_off(RunStatus::Aborted);
    }

    /// A run says that it ends, and what it changed. One that was ended from outside settles what is kept for it.
    pub(super) fn ends(&mut self, run: usize, status: RunStatus, changed: &[Pattern]) {
        let run = &mut self.runs[run];
        if !run.status.ended() {
            return run.ends(status, changed);
        }
        if run.recovers || !matches!(run.status, RunStatus::Lost | RunStatus::Aborted) {
            return;
        }
        let kept = std::mem::take(&mut run.quarantine);
        run.quarantine =
            kept.into_iter().filter(|claim| changed.iter().any(|pattern| pattern.intersects(&claim.pattern))).collect();
        for pattern in changed {
            if !run.quarantine.iter().any(|claim| claim.pattern.intersects(pattern)) {
                run.quarantine.insert(Claim::write(pattern.clone()));
            }
        }
    }

    /// What must come of taking over a quarantine: the runs that lose their leases, and whether it can be done.
    pub(super) fn adopts(&mut self, run: usize, of: usize) -> (BTreeSet<RunId>, bool) {
        let claims: Vec<Claim> = self.runs[of].quarantine.iter().cloned().collect();
        let lost = self.reclaim(run, &claims);
        let free = !self.runs.iter().any(|other| other.granted.iter().any(|claim| meets(&claims, claim)));
        if free {
            self.runs[run].granted = std::mem::take(&mut self.runs[of].quarantine);
            let checkpoint = self.runs[of].checkpoint.clone();
            self.runs[run].checkpoint = checkpoint;
            self.runs[run].of = Some(of);
            self.runs[run].status = RunStatus::Reserved;
        }
        (lost, free)
    }

    /// A run commits these writes: the effect of all runs so far, in the order of their serials.
    pub(super) fn commits(&mut self, run: usize, writes: &[(usize, Option<String>)]) {
        let mut trunk = self.trunk().clone();
        let serial = self.serial() + 1;
        for (row, value) in writes {
            let before = match value {
                Some(value) => trunk.insert(*row, value.clone()),
                None => trunk.remove(row),
            };
            if before != *value {
                self.changed_at.insert(*row, serial);
            }
        }
        self.history.push(trunk);
        self.runs[run].ends(RunStatus::Committed, &[]);
        self.runs[run].workplace = false;
    }

    /// Whether somebody else has a granted claim on a row. What a run kept when it heard late that it was ended is no
    /// obstacle to the one that recovers it.
    pub(super) fn reserved_beside(&self, run: usize, row: usize) -> bool {
        let of = self.runs[run].of;
        let claims = |(number, other): (usize, &Run)| -> Vec<Claim> {
            let kept = other.quarantine.iter().filter(|_| of != Some(number));
            if number == run { Vec::new() } else { other.granted.iter().chain(kept).cloned().collect() }
        };
        self.runs.iter().enumerate().flat_map(claims).any(|claim| claim.pattern.intersects(&only(row)))
    }
}

fn forward(now: RunStatus, to: RunStatus) -> RunStatus {
    match (now, to) {
        (RunStatus::Applying, _) | (RunStatus::Reserved, RunStatus::Waiting) => now,
        _ => to,
    }
}
