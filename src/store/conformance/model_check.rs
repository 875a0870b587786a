//! Random stories of four runs, told to the store and to a model in memory that knows nothing but
//! [`Claim::conflicts_with`]. Both must say the same after every step.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::fixture::{Fixture, LEASE, commit, pattern};
use crate::domain::coordination::reservation::{AccessMode, Claim};
use crate::domain::id::{RunId, StateId};
use crate::domain::run::{RunEnd, RunStatus};
use crate::store::{Acquired, Ask, Held, StoreError};

const SLOTS: usize = 4;
const CASES: u32 = 12;
const PATTERNS: &[&str] = &["*", "module.m.*", "module.m[0].a.x", "a.x", "a.x[0]", "a.x[\"0\"]", "b.y", "output.o"];

/// What one of the four does next.
#[derive(Debug, Clone)]
enum Step {
    Ask { slot: usize, claims: Vec<Claim>, queue: bool },
    Renew(usize),
    LeaseEnds(usize),
    Commit(usize),
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let claim = (0..PATTERNS.len(), any::<bool>()).prop_map(|(which, write)| Claim {
        pattern: pattern(PATTERNS[which]),
        mode: if write { AccessMode::Write } else { AccessMode::Read },
    });
    let ask = (0..SLOTS, prop::collection::vec(claim, 1..4), any::<bool>())
        .prop_map(|(slot, claims, queue)| Step::Ask { slot, claims, queue });
    let step = prop_oneof![
        6 => ask,
        1 => (0..SLOTS).prop_map(Step::Renew),
        2 => (0..SLOTS).prop_map(Step::LeaseEnds),
        2 => (0..SLOTS).prop_map(Step::Commit),
        1 => (0..SLOTS).prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..24)
}

/// One run as the model sees it.
#[derive(Debug, Default)]
struct Slot {
    run: Option<RunId>,
    held: Option<Held>,
    granted: BTreeSet<Claim>,
    waiting: Option<(u64, BTreeSet<Claim>)>,
    lease_ended: bool,
}

impl Slot {
    fn ends(&mut self) {
        self.run = None;
        self.granted.clear();
        self.waiting = None;
        self.lease_ended = false;
    }
}

#[derive(Default)]
struct Model {
    slots: [Slot; SLOTS],
    ticket: u64,
    serial: i64,
}

/// A reservation in the way, or one that stands: run, pattern, mode, whether it waits.
type Line = (RunId, String, &'static str, bool);

fn lines(run: RunId, claims: &BTreeSet<Claim>, waits: bool) -> impl Iterator<Item = Line> {
    claims.iter().map(move |claim| (run, claim.pattern.to_string(), claim.mode.word(), waits))
}

impl Model {
    fn standing(&self) -> BTreeSet<Line> {
        let mut all = BTreeSet::new();
        for slot in &self.slots {
            if let Some(run) = slot.run {
                all.extend(lines(run, &slot.granted, false));
                all.extend(slot.waiting.iter().flat_map(|(_, claims)| lines(run, claims, true)));
            }
        }
        all
    }

    /// What must come of an ask: the runs that lose their leases, and what is in the way.
    fn ask(&mut self, asker: usize, claims: &[Claim], queue: bool) -> (BTreeSet<RunId>, BTreeSet<Line>) {
        let meets = |theirs: &Claim| claims.iter().any(|ours| ours.conflicts_with(theirs));
        let mut lost = BTreeSet::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if number != asker && slot.lease_ended && slot.granted.iter().any(meets) {
                lost.extend(slot.run);
                slot.ends();
            }
        }
        let place = self.slots[asker].waiting.as_ref().map_or(u64::MAX, |(ticket, _)| *ticket);
        let mut in_the_way = BTreeSet::new();
        for (number, slot) in self.slots.iter().enumerate() {
            let Some(run) = slot.run.filter(|_| number != asker) else { continue };
            in_the_way.extend(lines(run, &slot.granted.iter().filter(|one| meets(one)).cloned().collect(), false));
            if let Some((ticket, claims)) = &slot.waiting
                && *ticket < place
            {
                in_the_way.extend(lines(run, &claims.iter().filter(|one| meets(one)).cloned().collect(), true));
            }
        }
        let slot = &mut self.slots[asker];
        if in_the_way.is_empty() {
            slot.granted.extend(claims.iter().cloned());
            slot.waiting = None;
            slot.lease_ended = false;
        } else if queue {
            let ticket = slot.waiting.as_ref().map_or_else(
                || {
                    self.ticket += 1;
                    self.ticket
                },
                |(ticket, _)| *ticket,
            );
            slot.waiting = Some((ticket, claims.iter().cloned().collect()));
        } else {
            slot.waiting = None;
        }
        (lost, in_the_way)
    }
}

async fn tell(f: &Fixture, state: StateId, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
    match step {
        Step::Ask { slot, claims, queue } => {
            let run = match model.slots[*slot].run {
                Some(run) => run,
                None => f.run(state, &format!("slot {slot}")).await,
            };
            model.slots[*slot].run = Some(run);
            let (lost, in_the_way) = model.ask(*slot, claims, *queue);
            let ask = Ask { run, claims: claims.clone(), lease: LEASE, queue: *queue };
            match f.store.reservation_acquire(&ask).await.unwrap() {
                Acquired::Granted { held, reclaimed, .. } => {
                    prop_assert_eq!(in_the_way, BTreeSet::new());
                    prop_assert_eq!(BTreeSet::from_iter(reclaimed), lost);
                    model.slots[*slot].held = Some(held);
                }
                Acquired::Blocked { blockers, reclaimed } => {
                    let found: BTreeSet<Line> = blockers
                        .iter()
                        .map(|one| &one.reservation)
                        .map(|one| {
                            let claim = &one.claim;
                            (one.run, claim.pattern.to_string(), claim.mode.word(), one.acquired_at.is_none())
                        })
                        .collect();
                    prop_assert_eq!(found, in_the_way);
                    prop_assert_eq!(BTreeSet::from_iter(reclaimed), lost);
                }
            }
        }
        Step::Renew(slot) => {
            let slot = &mut model.slots[*slot];
            if let Some(held) = &slot.held {
                let lives = slot.run == Some(held.run());
                let renewed = f.store.reservation_renew(held).await;
                let agrees = matches!((&renewed, lives), (Ok(_), true) | (Err(StoreError::LeaseLost { .. }), false));
                prop_assert!(agrees, "{renewed:?}");
                slot.lease_ended &= !lives;
            }
        }
        Step::LeaseEnds(slot) => {
            let slot = &mut model.slots[*slot];
            if let Some(run) = slot.run {
                f.lease_ends(run).await;
                slot.lease_ended = !slot.granted.is_empty();
                slot.waiting = None;
            }
        }
        Step::Commit(slot) => {
            if let Some(held) = &model.slots[*slot].held {
                let lives = model.slots[*slot].run == Some(held.run());
                match f.store.run_commit(held, &commit(Vec::new())).await {
                    Ok(committed) => {
                        prop_assert!(lives);
                        model.serial += 1;
                        prop_assert_eq!(committed.serial.0, model.serial);
                        model.slots[*slot].ends();
                    }
                    Err(StoreError::LeaseLost { .. }) => prop_assert!(!lives),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        Step::End(slot) => {
            if let Some(run) = model.slots[*slot].run {
                f.store.run_end(run, &RunEnd::plain(RunStatus::Noop)).await.unwrap();
                model.slots[*slot].ends();
            }
        }
    }
    let standing: BTreeSet<Line> = f
        .store
        .reservation_list(state)
        .await
        .unwrap()
        .into_iter()
        .map(|one| (one.run, one.claim.pattern.to_string(), one.claim.mode.word(), one.acquired_at.is_none()))
        .collect();
    prop_assert_eq!(standing, model.standing());
    Ok(())
}

pub(super) async fn it_does_as_the_model_says(f: &Fixture) {
    let number = AtomicU32::new(0);
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let told = tokio::task::block_in_place(|| {
        runner.run(&steps(), |steps| {
            let state = format!("story {}", number.fetch_add(1, Ordering::Relaxed));
            tokio::runtime::Handle::current().block_on(async {
                let state = f.state(&state).await.id;
                let mut model = Model::default();
                for step in &steps {
                    tell(f, state, &mut model, step).await?;
                }
                Ok(())
            })
        })
    });
    if let Err(failure) = told {
        panic!("{failure}");
    }
}
