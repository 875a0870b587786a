//! The points that a command passes, what can go wrong at each of them, and how many are tried at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::NamedTempFile;

use crate::harness::database::{Backend, Database};
use crate::harness::kl::Kl;

/// So many are tried at once where the machine has work to do.
pub(super) const BUSY: usize = 4;

/// So many where kl waits most of the time, for a lease or for a database that is away.
pub(crate) const IDLE: usize = 12;

/// What can go wrong. A stall is longer than a lease of a second.
const KINDS: [&str; 4] = ["kill", "fail", "down", "stall:1300"];

/// Whether a store call only reads: it leaves nothing behind, so its beginning stands for its middle and its end.
fn only_reads(point: &str) -> bool {
    ["read ", "list ", "find ", "look for ", "count "]
        .iter()
        .any(|verb| point.strip_prefix("store/").is_some_and(|call| call.starts_with(verb)))
}

/// The points that a command passes: of each the first time and the last; of what only reads its beginning.
pub(crate) fn points(command: Kl, code: i32) -> Vec<String> {
    let log = NamedTempFile::new().unwrap();
    drop(command.env("KL_MISHAP_LOG", log.path()).exits(code));
    let mut passed: BTreeMap<String, u32> = BTreeMap::new();
    for point in fs::read_to_string(log.path()).unwrap().lines() {
        *passed.entry(point.to_owned()).or_default() += 1;
    }
    let counts = |point: &str| !only_reads(point) || point.ends_with("/begin");
    let ends = passed
        .into_iter()
        .filter(|(point, _)| counts(point))
        .flat_map(|(point, count)| BTreeSet::from([1, count]).into_iter().map(move |nth| format!("{point}#{nth}")));
    ends.collect()
}

/// Those of the points that are not among these, which another test tries. `KL_MISHAPS=all` leaves nothing to others.
pub(crate) fn untried(points: Vec<String>, tried: &[String]) -> Vec<String> {
    points.into_iter().filter(|point| all() || !tried.contains(point)).collect()
}

/// Those of the points that are not only questions which another test has cut off.
pub(crate) fn telling(points: Vec<String>, tried: &[String]) -> Vec<String> {
    let questions: Vec<String> = tried.iter().filter(|point| only_reads(point)).cloned().collect();
    untried(points, &questions)
}

/// The answers that a connection can lose, each of them once.
pub(super) fn lost_answers(database: &Database, points: &[String]) -> Vec<String> {
    let answers = points.iter().filter(|point| point.contains("/done#"));
    answers.filter(|_| database.backend() == Backend::Postgres).map(|point| format!("{point}=fail")).collect()
}

/// Whether every kind of mishap is to be tried at every point.
fn all() -> bool {
    std::env::var_os("KL_MISHAPS").is_some_and(|value| value == "all")
}

/// The points at which a step can fail. After a transaction that is a lost answer, which only a connection can lose.
pub(super) fn that_can_fail(database: &Database, points: Vec<String>) -> Vec<String> {
    let can = |point: &String| database.backend() == Backend::Postgres || !point.contains("/done#");
    points.into_iter().filter(can).collect()
}

/// What goes wrong where: in the suite one mishap at each point, of all kinds in turn and not the same ones on both
/// databases. `KL_MISHAPS=all` has every kind at every point.
pub(crate) fn mishaps(database: &Database, points: &[String]) -> Vec<String> {
    of_kinds(&KINDS, database, points)
}

/// The same without what only takes longer: that interrupts nothing.
pub(crate) fn interruptions(database: &Database, points: &[String]) -> Vec<String> {
    of_kinds(&KINDS[..3], database, points)
}

fn of_kinds(kinds: &[&str], database: &Database, points: &[String]) -> Vec<String> {
    let shift = usize::from(database.backend() == Backend::Postgres);
    let of = |(number, point): (usize, &String)| {
        // An answer is lost only to who asks again, and not every command does: see `that_can_fail`.
        let kinds: Vec<&&str> = kinds.iter().filter(|kind| **kind != "fail" || !point.contains("/done#")).collect();
        let chosen = |nth: &usize| all() || *nth == (number + shift) % kinds.len();
        (0..kinds.len()).filter(chosen).map(|nth| format!("{point}={}", kinds[nth])).collect::<Vec<_>>()
    };
    points.iter().enumerate().flat_map(of).collect()
}

/// Tries something at every point, several at once; each attempt gets the number of its point.
pub(crate) fn try_each(points: &[String], attempt: impl Fn(usize, &str) + Sync) {
    try_at_once(BUSY, points, attempt);
}

/// The same with so many at once.
pub(crate) fn try_at_once(at_once: usize, points: &[String], attempt: impl Fn(usize, &str) + Sync) {
    assert!(points.len() >= 6, "{points:?}");
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((number, point)) = points.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attempt(number, point)));
                    if tried.is_err() {
                        failed.lock().unwrap().push(point.clone());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "what went wrong is above; at these points: {failed:?}");
}
