//! What happens in a history, one step after another, told to the store and to the model: both must say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kl_runner::clock;
use kl_runner::domain::address::Pattern;
use kl_runner::domain::coordination::reservation::{Blocker, Claim};
use kl_runner::domain::id::{Actor, RunId, Serial, StateId};
use kl_runner::domain::run::workplace::{Host, Workplace};
use kl_runner::domain::run::{NewRun, Origin, RunEnd, RunKind, RunStatus, Tools};
use kl_runner::store::model::{Checkpoint, Snapshot, SoftWrite, VersionQuery};
use kl_runner::store::{Acquired, Ask, Held, Store, StoreError, Takeover};
use proptest::prelude::*;

use super::model::{Line, Model, PATTERNS, ROWS, Trunk, Work, effect, key, line, only};
use super::world::{World, commit, commit_of, write};

/// So many processes there are at a time.
const SLOTS: usize = 5;

/// A lease that ends only when a step says so.
pub(super) const LEASE: Duration = Duration::from_mins(15);

/// What happens next. A number that names a process or a run counts among those that there are.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A process asks, for a new run or for more.
    Ask { slot: usize, claims: Vec<Claim>, queue: bool },
    /// It renews its lease.
    Renew(usize),
    /// Its Terraform changes so many rows, with one more in flight or not; a checkpoint is taken.
    Work { slot: usize, rows: usize, in_flight: bool, workplace: bool },
    /// It commits.
    Commit(usize),
    /// It ends without a commit: well when nothing was changed, else with a quarantine.
    End(usize),
    /// It is killed. Its run stays as it is.
    Crash(usize),
    /// The lease of a run ends, and its place in the queue.
    LeaseEnds(usize),
    /// Somebody aborts a run.
    Abort(usize),
    /// A process begins to recover what a run has left in quarantine.
    Recover { slot: usize, of: usize },
    /// Somebody frees a quarantine.
    Discard(usize),
}

/// Histories.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let claim = (0..PATTERNS.len(), any::<bool>()).prop_map(|(which, write)| {
        let pattern = Pattern::parse(PATTERNS[which]).unwrap();
        if write { Claim::write(pattern) } else { Claim::read(pattern) }
    });
    let claims = prop_oneof![
        9 => prop::collection::vec(claim, 1..4),
        // A plain lock.
        1 => Just(vec![Claim::write(Pattern::Everything)]),
    ];
    let step = prop_oneof![
        8 => (0..SLOTS, claims, any::<bool>()).prop_map(|(slot, claims, queue)| Step::Ask { slot, claims, queue }),
        1 => (0..SLOTS).prop_map(Step::Renew),
        5 => (0..SLOTS, 0..4_usize, any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(slot, rows, in_flight, workplace)| Step::Work { slot, rows, in_flight, workplace }),
        5 => (0..SLOTS).prop_map(Step::Commit),
        3 => (0..SLOTS).prop_map(Step::End),
        2 => (0..SLOTS).prop_map(Step::Crash),
        3 => any::<usize>().prop_map(Step::LeaseEnds),
        1 => any::<usize>().prop_map(Step::Abort),
        3 => (0..SLOTS, any::<usize>()).prop_map(|(slot, of)| Step::Recover { slot, of }),
        1 => any::<usize>().prop_map(Step::Discard),
    ];
    prop::collection::vec(step, 1..32)
}

/// A process: what it knows itself, whatever the store says of its run.
struct Process {
    run: usize,
    held: Option<Held>,
    claims: BTreeSet<Claim>,
    saw: Trunk,
    saw_serial: i64,
    work: Work,
}

/// One history on a state of its own.
pub(super) struct Story<'a> {
    world: &'a mut World,
    store: Arc<dyn Store>,
    state: StateId,
    slots: [Option<Process>; SLOTS],
    model: Model,
    /// The run of each serial, from 1 on.
    committed: Vec<usize>,
}

type Told = Result<(), TestCaseError>;

/// The rows of a snapshot.
pub(super) fn trunk(snapshot: &Snapshot) -> Trunk {
    let keys: BTreeMap<_, usize> = (0..ROWS.len()).map(|row| (key(row), row)).collect();
    snapshot.rows.iter().map(|(row, _)| (keys[&row.key], row.body.text().to_owned())).collect()
}

/// A run that begins.
pub(super) fn new_run(state: StateId, kind: RunKind) -> NewRun {
    NewRun {
        id: clock::new_run_id(),
        state,
        kind,
        actor: Actor("alice".to_owned()),
        origin: Origin::default(),
        spec: None,
        source_serial: Serial(0),
        tools: Tools { program: "terraform".to_owned(), version: "1.11.4".to_owned(), providers: [].into() },
        claims: Vec::new(),
    }
}

/// A checkpoint of this work.
pub(super) fn checkpoint(work: &Work) -> Checkpoint {
    Checkpoint {
        state: String::new(),
        changed: work.done.iter().map(|(row, _)| only(*row)).collect(),
        in_flight: work.in_flight.iter().map(|row| ROWS[*row].to_owned()).collect(),
        slice_serial: Some(Serial(work.slice_serial)),
    }
}

fn lines(blockers: &[Blocker]) -> BTreeSet<Line> {
    blockers.iter().map(|one| line(&one.reservation)).collect()
}

impl<'a> Story<'a> {
    pub(super) async fn begins(world: &'a mut World) -> Self {
        let state = world.new_state().await;
        let store = world.store();
        Self { world, store, state, slots: Default::default(), model: Model::new(), committed: Vec::new() }
    }

    fn id(&self, slot: usize) -> Option<RunId> {
        self.slots[slot].as_ref().map(|process| self.model.runs[process.run].id)
    }

    /// Whether the run of a process lives, as the model has it.
    fn lives(&self, slot: usize) -> bool {
        self.slots[slot].as_ref().is_some_and(|process| !self.model.runs[process.run].status.ended())
    }

    async fn start(&mut self, slot: usize, kind: RunKind) -> usize {
        let new = new_run(self.state, kind);
        self.store.run_start(&new).await.unwrap();
        let run = self.model.starts(new.id, kind == RunKind::Recover);
        let (claims, saw, work) = (BTreeSet::new(), Trunk::new(), Work::default());
        self.slots[slot] = Some(Process { run, held: None, claims, saw, saw_serial: 0, work });
        run
    }

    pub(super) async fn tell(&mut self, step: &Step) -> Told {
        match step {
            Step::Ask { slot, claims, queue } => self.ask(*slot, claims, *queue).await?,
            Step::Renew(slot) => self.renew(*slot).await?,
            Step::Work { slot, rows, in_flight, workplace } => {
                self.work(*slot, *rows, *in_flight, *workplace).await?;
            }
            Step::Commit(slot) => self.commit(*slot).await?,
            Step::End(slot) => self.end(*slot).await?,
            Step::Crash(slot) => self.slots[*slot] = None,
            Step::LeaseEnds(nth) => {
                let live = self.model.live();
                if let Some(run) = live.get(nth % live.len().max(1)) {
                    self.world.lease_ends(self.model.runs[*run].id).await;
                    self.model.lease_ends(*run);
                }
            }
            Step::Abort(nth) => {
                let live = self.model.live();
                if let Some(run) = live.get(nth % live.len().max(1)) {
                    let run_id = self.model.runs[*run].id;
                    let before = self.store.run_abort(run_id, &Actor("carol".to_owned())).await.unwrap();
                    prop_assert_eq!(before, self.model.runs[*run].status);
                    self.model.aborts(*run);
                }
            }
            Step::Recover { slot, of } => self.recover(*slot, *of).await?,
            Step::Discard(nth) => {
                let left = self.model.quarantined();
                if let Some(run) = left.get(nth % left.len().max(1)) {
                    let run = &mut self.model.runs[*run];
                    let freed = self.store.quarantine_release(run.id, &Actor("carol".to_owned())).await.unwrap();
                    prop_assert_eq!(freed, std::mem::take(&mut run.quarantine).len() as u64);
                }
            }
        }
        let standing = self.store.reservation_list(self.state).await.unwrap();
        prop_assert_eq!(standing.iter().map(line).collect::<BTreeSet<Line>>(), self.model.standing());
        Ok(())
    }

    async fn ask(&mut self, slot: usize, claims: &[Claim], queue: bool) -> Told {
        let run = match &self.slots[slot] {
            Some(process) if self.model.runs[process.run].recovers => return Ok(()),
            Some(process) => process.run,
            None => self.start(slot, RunKind::Apply).await,
        };
        let ask = Ask { run: self.model.runs[run].id, claims: claims.to_vec(), lease: LEASE, queue };
        let answer = self.store.reservation_acquire(&ask).await;
        if !self.lives(slot) {
            prop_assert!(matches!(answer, Err(StoreError::LeaseLost { .. })), "{answer:?}");
            return Ok(());
        }
        let (lost, in_the_way) = self.model.asks(run, claims, queue);
        match answer.unwrap() {
            Acquired::Granted { held, reclaimed, .. } => {
                prop_assert_eq!(in_the_way, BTreeSet::new());
                prop_assert_eq!(BTreeSet::from_iter(reclaimed), lost);
                let now = self.store.snapshot(self.state, None).await.unwrap();
                let process = self.slots[slot].as_mut().unwrap();
                process.held = Some(held);
                process.claims.extend(claims.iter().cloned());
                process.saw_serial = now.head.serial.0;
                process.saw = trunk(&now);
            }
            Acquired::Blocked { blockers, reclaimed } => {
                prop_assert_eq!(lines(&blockers), in_the_way);
                prop_assert_eq!(BTreeSet::from_iter(reclaimed), lost);
            }
        }
        Ok(())
    }

    async fn renew(&mut self, slot: usize) -> Told {
        let lives = self.lives(slot);
        let Some(process) = &self.slots[slot] else { return Ok(()) };
        if let Some(held) = &process.held {
            match self.store.reservation_renew(held).await {
                Ok(_) => {
                    prop_assert!(lives);
                    self.model.runs[process.run].lease_ended = false;
                }
                Err(StoreError::LeaseLost { .. }) => prop_assert!(!lives),
                Err(error) => panic!("{error}"),
            }
        }
        Ok(())
    }

    /// Terraform goes on even when its run was ended from outside.
    async fn work(&mut self, slot: usize, rows: usize, in_flight: bool, workplace: bool) -> Told {
        let (lives, id) = (self.lives(slot), self.id(slot));
        let (Some(process), Some(id)) = (self.slots[slot].as_mut(), id) else { return Ok(()) };
        let run = &mut self.model.runs[process.run];
        if process.held.is_none() || run.recovers {
            return Ok(());
        }
        let advanced = self.store.run_advance(id, RunStatus::Applying).await;
        prop_assert!(
            matches!((&advanced, lives), (Ok(()), true) | (Err(StoreError::LeaseLost { .. }), false)),
            "{advanced:?}"
        );
        if lives {
            run.status = RunStatus::Applying;
        }
        if workplace {
            let host = Host { name: "build-7".to_owned(), machine: None, boot: None, processes: None };
            let slice_serial = Serial(process.saw_serial);
            let place = Workplace { host, dir: "/somewhere".to_owned(), group: None, slice_serial };
            self.store.workplace_put(id, &place).await.unwrap();
            run.workplace = true;
        }
        let mut all = effect(process.run, &process.claims, &process.saw);
        let rest = all.split_off(rows.min(all.len()));
        process.work = Work {
            done: all,
            in_flight: rest.into_iter().take(usize::from(in_flight)).map(|(row, _)| row).collect(),
            slice_serial: process.saw_serial,
        };
        self.store.checkpoint_put(id, &checkpoint(&process.work)).await.unwrap();
        run.checkpoint = Some(process.work.clone());
        Ok(())
    }

    async fn commit(&mut self, slot: usize) -> Told {
        let lives = self.lives(slot);
        let Some(process) = &self.slots[slot] else { return Ok(()) };
        let (Some(held), run) = (&process.held, process.run) else { return Ok(()) };
        let (mut ours, mut theirs) = (commit(), Vec::new());
        if self.model.runs[run].recovers {
            // As `kl recover` does: each row only where nobody has changed it since.
            let serial = Serial(process.work.slice_serial);
            let changed = self.store.rows_changed_since(self.state, serial).await.unwrap();
            let changed: BTreeSet<_> = changed.into_iter().map(|change| change.key).collect();
            let now = self.store.snapshot(self.state, None).await.unwrap();
            for (row, value) in &process.work.done {
                let late = self.model.changed_at.get(row).is_some_and(|at| *at > serial.0);
                prop_assert_eq!(changed.contains(&key(*row)), late);
                if !late {
                    let found = now.rows.iter().find(|(found, _)| found.key == key(*row));
                    let expected = found.map(|(found, _)| found.body.hash());
                    ours.soft.push(SoftWrite { write: write(*row, value.as_deref()), expected });
                    if !self.model.reserved_beside(run, *row) {
                        theirs.push((*row, value.clone()));
                    }
                }
            }
        } else {
            // The store gets what the process saw when it was granted; the model what holds now.
            ours = commit_of(&effect(run, &process.claims, &process.saw));
            theirs = effect(run, &process.claims, self.model.trunk());
        }
        match self.store.run_commit(held, &ours).await {
            Ok(committed) => {
                prop_assert!(lives);
                self.model.commits(run, &theirs);
                self.committed.push(run);
                prop_assert_eq!(committed.serial.0, self.model.serial());
                self.slots[slot] = None;
            }
            Err(StoreError::LeaseLost { .. }) => prop_assert!(!lives),
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    async fn end(&mut self, slot: usize) -> Told {
        let Some(process) = self.slots[slot].take() else { return Ok(()) };
        let run = &self.model.runs[process.run];
        let changed = if run.recovers { vec![Pattern::Everything] } else { process.work.touched() };
        let end = if changed.is_empty() {
            RunEnd::plain(RunStatus::Noop)
        } else {
            RunEnd { quarantine: changed.clone(), ..RunEnd::failed("broken") }
        };
        self.store.run_end(run.id, &end).await.unwrap();
        self.model.ends(process.run, end.status, &changed);
        Ok(())
    }

    async fn recover(&mut self, slot: usize, nth: usize) -> Told {
        let left = self.model.quarantined();
        let Some(of) = left.get(nth % left.len().max(1)).copied() else { return Ok(()) };
        if self.slots[slot].is_some() {
            return Ok(());
        }
        let run = self.start(slot, RunKind::Recover).await;
        let (ours, theirs) = (self.model.runs[run].id, self.model.runs[of].id);
        let answer = self.store.quarantine_adopt(ours, theirs, LEASE, false).await.unwrap();
        let (_, free) = self.model.adopts(run, of);
        match answer {
            Takeover::Held { held, .. } => {
                prop_assert!(free);
                let process = self.slots[slot].as_mut().unwrap();
                process.held = Some(held);
                process.work = self.model.runs[run].checkpoint.clone().unwrap_or_default();
            }
            Takeover::Blocked(blockers) => prop_assert!(!free && !blockers.is_empty()),
        }
        Ok(())
    }

    /// What must hold at the end.
    pub(super) async fn ends(self) -> Told {
        for run in &self.model.runs {
            prop_assert_eq!(self.store.run_find(run.id).await.unwrap().status, run.status);
        }
        for (serial, expected) in self.model.history.iter().enumerate() {
            let at = Serial(i64::try_from(serial).unwrap());
            let then = self.store.snapshot(self.state, Some(at)).await.unwrap();
            prop_assert_eq!(&trunk(&then), expected, "serial {}", serial);
        }
        let query = VersionQuery { before: None, since: None, limit: 1_000, with_rows: true };
        let versions = self.store.version_list(self.state, query).await.unwrap();
        let runs: Vec<_> = versions.iter().rev().map(|version| version.run).collect();
        prop_assert_eq!(runs, self.committed.iter().map(|run| Some(self.model.runs[*run].id)).collect::<Vec<_>>());
        let check = self.store.database_check().await.unwrap();
        prop_assert!(check.sound(), "{:?}", check.violations);
        Ok(())
    }
}
