//! Simulations: whatever runs do to one state, in whatever order, the trunk is what some serial order of the committed
//! ones makes of it, and nobody waits for longer than its turn.
//!
//! `story` tells random histories to the real store and to a model in memory, step by step, and makes one that fails as
//! short as it can; in `crowd` processes really work at the same time. Both are short in the suite, with a fixed seed.
//! `KL_FUZZ_SECONDS=600 cargo nextest run -E 'test(/^simulation::/)' --no-capture` goes on for so long with seeds of its
//! own, which are printed. `KL_FUZZ_SEED=N` repeats one.

mod crowd;
mod model;
mod story;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio::runtime::Runtime;

use crate::fuzz::{plan, say};
use crate::harness::database::{Database, on};
use story::{Story, steps};
use world::World;

on_both_databases!(any_history_goes_as_the_model_says, what_is_done_at_once_could_have_been_done_in_turn);

/// So many histories are told at the same time, each on a state of its own.
const AT_ONCE: u8 = 4;

/// So many histories of each of them go into one database: checking it takes longer the more there is in it.
const HISTORIES: u32 = 16;

/// Rounds in the suite.
const ROUNDS: u64 = 1;

/// A round on this database, then more on fresh ones, each with a seed of its own: until the time is over, if there is
/// one.
fn rounds(what: &str, database: &Database, in_the_suite: u64, round: impl Fn(&Database, u64)) {
    let (limit, seed) = plan();
    let began = Instant::now();
    say(&format!("simulation of {what} on {:?}: KL_FUZZ_SEED={seed}", database.backend()));
    let mut done = 0;
    while done == 0 || limit.map_or(done < in_the_suite, |limit| began.elapsed() < limit) {
        let seed = seed.wrapping_add(done);
        // The first one repeats a failure.
        let _says = Failing(format!("simulation of {what} failed; KL_FUZZ_SEED={seed} repeats it"));
        if done == 0 {
            round(database, seed);
        } else {
            on(database.backend(), |fresh| round(&fresh, seed));
        }
        done += 1;
    }
    say(&format!("simulation of {what} on {:?}: {done} rounds in {:?}", database.backend(), began.elapsed()));
}

/// Says which seed repeats what has failed.
struct Failing(String);

impl Drop for Failing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&self.0);
        }
    }
}

fn any_history_goes_as_the_model_says(database: &Database) {
    let (told, steps) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    rounds("histories", database, ROUNDS, |database, seed| {
        let runtime = Runtime::new().unwrap();
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for teller in 0..AT_ONCE {
                let (handle, failures, told, steps) = (runtime.handle(), &failures, &told, &steps);
                scope.spawn(move || {
                    if let Err(failure) = histories(handle, database, seed, teller, (told, steps)) {
                        failures.lock().unwrap().push(failure);
                    }
                });
            }
        });
        let failures = failures.into_inner().unwrap();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    });
    let (told, steps) = (told.into_inner(), steps.into_inner());
    say(&format!("{told} histories, {steps} steps in {:?}", began.elapsed()));
}

/// What one teller tells.
fn histories(
    handle: &tokio::runtime::Handle,
    database: &Database,
    seed: u64,
    teller: u8,
    (told, done): (&AtomicUsize, &AtomicUsize),
) -> Result<(), String> {
    let mut bytes = [teller; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: HISTORIES, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let world = Mutex::new(handle.block_on(World::on(database)));
    let outcome = runner.run(&steps(), |steps| {
        let mut world = world.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        handle.block_on(async {
            let history = async {
                let mut story = Story::begins(&mut world).await;
                for step in &steps {
                    story.tell(step).await?;
                }
                story.ends().await
            };
            told.fetch_add(1, Ordering::Relaxed);
            done.fetch_add(steps.len(), Ordering::Relaxed);
            tokio::time::timeout(Duration::from_mins(1), history).await.expect("no step waits for another for ever")
        })
    });
    outcome.map_err(|failure| failure.to_string())
}

fn what_is_done_at_once_could_have_been_done_in_turn(database: &Database) {
    rounds("a crowd", database, 1, |database, seed| Runtime::new().unwrap().block_on(crowd::works(database, seed)));
}
