//! Hostile input: whatever stands in a file, an event or an answer, kl ends with a value or an error, soon, and never by a
//! panic or a full stack.
//!
//! Each test mutates well-formed seeds. In the suite it makes a fixed number of inputs from a fixed seed; by hand,
//! `KL_FUZZ_SECONDS=600 cargo nextest run -E 'test(/^fuzz::/)' --no-capture` goes on for so long with seeds of its own, which
//! it prints. `KL_FUZZ_SEED=N` repeats one. The input that is being read is in `target/tmp/fuzz-NAME`, also after a crash.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail their test")]

mod forge;
pub(crate) mod mutate;
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime};

use mutate::{Dice, mutant};

/// How many inputs a test makes in the suite.
const INPUTS: usize = 1_500;

/// The stack that a reader has at most: that of a worker of the runtime.
const STACK: usize = 2 * 1024 * 1024;

/// No input may take longer. Inputs are short; the machine may be slow, and the program not optimised.
const SLOWEST: Duration = Duration::from_secs(10);

/// How long to go on, and from which seed.
pub(crate) fn plan() -> (Option<Duration>, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("KL_FUZZ_SECONDS").map(Duration::from_secs);
    let fresh =
        || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| u64::try_from(now.as_nanos() & 0xffff_ffff).unwrap_or(0));
    let seed = number("KL_FUZZ_SEED").unwrap_or_else(|| if seconds.is_some() { fresh() } else { 1 });
    (seconds, seed)
}

#[expect(clippy::print_stderr, reason = "a seed that nobody sees repeats nothing")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// Feeds a reader with the seeds and with what mutation makes of them.
fn fuzz(name: &'static str, seeds: Vec<Vec<u8>>, read: impl Fn(&[u8]) + Send + 'static) {
    assert!(!seeds.is_empty(), "{name} has seeds");
    let worker = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(move || {
        let (seconds, seed) = plan();
        say(&format!("fuzz {name}: KL_FUZZ_SEED={seed}"));
        let path = format!("{}/fuzz-{name}", env!("CARGO_TARGET_TMPDIR"));
        let (began, mut dice, mut made) = (Instant::now(), Dice::new(seed), 0_usize);
        loop {
            let input = seeds.get(made).cloned().unwrap_or_else(|| mutant(&mut dice, &seeds));
            fs::write(&path, &input).expect("the directory for tests is ours");
            let start = Instant::now();
            let ended = catch_unwind(AssertUnwindSafe(|| read(&input)));
            let took = start.elapsed();
            assert!(ended.is_ok(), "fuzz {name}: input {made} of seed {seed} made it panic: {path}");
            assert!(took < SLOWEST, "fuzz {name}: input {made} of seed {seed} took {took:?}: {path}");
            made += 1;
            if seconds.map_or(made >= INPUTS, |limit| began.elapsed() >= limit) {
                break;
            }
        }
        say(&format!("fuzz {name}: {made} inputs in {:?}", began.elapsed()));
        fs::remove_file(&path).expect("it was just written");
    });
    worker.expect("a thread can be started").join().unwrap_or_else(|_| panic!("fuzz {name} has failed: see above"));
}
