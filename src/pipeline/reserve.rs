//! Reserving: all or nothing, in turn if asked to wait, and the heartbeat that keeps the lease.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::Context;
use super::record::Recorder;
use crate::domain::coordination::reservation::{Blocker, Claim, HeldAs};
use crate::domain::id::RunId;
use crate::domain::run::event::{Holder, RunEvent};
use crate::domain::run::{RunStatus, Tools};
use crate::error::KlError;
use crate::report::{conflict, style};
use crate::store::{Acquired, Ask, Held, Store, StoreError};
use crate::terraform::Stop;

/// The lease of a run, unless `--lease` says otherwise (design §6).
pub const DEFAULT_LEASE: Duration = Duration::from_mins(15);
/// The longest time between two renewals.
const HEARTBEAT: Duration = Duration::from_mins(1);
/// The longest time in which an abort, or a lost lease, stays unnoticed.
const WATCH: Duration = Duration::from_secs(2);
/// How long the store may take to answer the heartbeat.
const ANSWER: Duration = Duration::from_secs(20);
/// The time between two tries of a run that waits.
const RETRY: Duration = Duration::from_millis(500);

/// How long a Terraform that was asked to stop may finish what is in flight when nobody hurries: after `--timeout`, and
/// when somebody has ended the run, whose rows stay reserved for what it does meanwhile.
pub(super) const LEISURE: Duration = Duration::from_mins(2);

/// What came of asking.
pub enum Outcome {
    /// Everything was granted.
    Granted {
        /// The proof.
        held: Held,
        /// The versions of the runs beside.
        tools_beside: Vec<(RunId, Tools)>,
    },
    /// Something stands in the way, and the time to wait is over.
    Blocked(Refusal),
}

/// Reservations that were not to be had.
pub struct Refusal {
    /// What stands in the way.
    pub blockers: Vec<Blocker>,
    /// For how long the run waited in turn; none when it did not.
    pub waited: Option<Duration>,
}

impl Refusal {
    /// What stands in the way, in a line, and for how long it was waited for.
    #[must_use]
    pub fn title(&self) -> String {
        let title = conflict::title(&self.blockers);
        match self.waited {
            Some(waited) => format!("{title}, also after {} in turn", style::duration(waited)),
            None => title,
        }
    }

    /// Puts it on the timeline; told it is by the error.
    pub async fn remember(&self, recorder: &Recorder, dry_run: bool) -> Result<(), StoreError> {
        let title = conflict::title(&self.blockers);
        let waited_seconds = self.waited.map(|waited| waited.as_secs());
        recorder.append(RunEvent::Refused { title, waited_seconds, dry_run }).await
    }

    /// What to tell.
    #[must_use]
    pub fn error(&self) -> KlError {
        conflict::error_titled(&self.title(), &self.blockers)
    }
}

/// Asks for the claims, and waits in turn for at most `wait`.
pub async fn acquire(
    ctx: &Context,
    recorder: &Recorder,
    claims: &[Claim],
    lease: Duration,
    wait: Option<Duration>,
) -> Result<Outcome, KlError> {
    let started = Instant::now();
    let mut waits: Option<RunEvent> = None;
    loop {
        let left = wait.map(|wait| wait.saturating_sub(started.elapsed())).unwrap_or_default();
        let ask = Ask { run: recorder.run(), claims: claims.to_vec(), lease, queue: !left.is_zero() };
        let acquired = ctx.store.reservation_acquire(&ask).await?;
        // The store has this on both timelines already.
        let refused = matches!(acquired, Acquired::Blocked { .. });
        for from in acquired.reclaimed() {
            recorder.tell(&RunEvent::Reclaimed { from: *from, refused });
        }
        match acquired {
            Acquired::Granted { held, tools_beside, event, .. } => {
                recorder.tell(&event);
                return Ok(Outcome::Granted { held, tools_beside });
            }
            // A quarantine ends when somebody recovers or discards it, and not by waiting.
            Acquired::Blocked { blockers, .. }
                if left.is_zero() || blockers.iter().any(|one| one.reservation.held_as == HeldAs::Quarantine) =>
            {
                let waited = waits.is_some().then(|| started.elapsed());
                return Ok(Outcome::Blocked(Refusal { blockers, waited }));
            }
            Acquired::Blocked { blockers, .. } => {
                let now = RunEvent::waiting(&blockers);
                if waits.as_ref() != Some(&now) {
                    recorder.record(now.clone()).await?;
                    waits = Some(now);
                }
            }
        }
        pause(ctx, left).await?;
    }
}

/// Waits until it is time to try again.
pub(super) async fn pause(ctx: &Context, left: Duration) -> Result<(), KlError> {
    tokio::select! {
        () = tokio::time::sleep(RETRY.min(left)) => Ok(()),
        () = ctx.stop.interrupt.cancelled() => Err(KlError::failed("interrupted while waiting for its turn")),
    }
}

/// Renews the lease in the background until it is dropped. When the lease is lost, or cannot be renewed before it
/// ends, Terraform is asked to stop.
pub struct Heartbeat {
    task: JoinHandle<()>,
    lost: Arc<OnceLock<Loss>>,
}

/// How long the store has to say whether a lease that should have ended has been taken.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Why a run no longer has its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Somebody ended the run.
    Aborted,
    /// Another run took the reservations when the lease had ended.
    Taken,
    /// The lease could not be renewed in time: the database gave no answer.
    RanOut,
}

impl Heartbeat {
    /// Starts beating.
    pub fn start(store: Arc<dyn Store>, recorder: Recorder, held: &Held, stop: Stop) -> Self {
        let lost = Arc::new(OnceLock::new());
        let task = tokio::spawn(beat(store, recorder, held.for_renewal(), stop, Arc::clone(&lost)));
        Self { task, lost }
    }

    /// When the lease is gone: why.
    #[must_use]
    pub fn lost(&self) -> Option<Loss> {
        self.lost.get().copied()
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn beat(store: Arc<dyn Store>, recorder: Recorder, held: Held, stop: Stop, lost: Arc<OnceLock<Loss>>) {
    let lease = held.lease();
    let interval = HEARTBEAT.min(lease / 4).max(Duration::from_millis(50));
    // Measured by this process: while the database is away, nothing else tells the time.
    let mut good_until = Instant::now() + lease;
    let mut renew_at = Instant::now() + interval;
    let mut late_before = false;
    let loss = loop {
        tokio::time::sleep(WATCH.min(interval).min(good_until.saturating_duration_since(Instant::now()))).await;
        if Instant::now() < renew_at {
            // Only a look, so that an abort does not have to wait for the next renewal.
            match in_time(good_until, store.run_find(held.run())).await {
                Ok(run) if run.status.ended() => break ended_as(run.status),
                _ => continue,
            }
        }
        let asked = Instant::now();
        // One that was paused until now asks all the same: whether the rows are somebody else's, only the store knows.
        match in_time(good_until.max(asked + LAST_WORD), store.reservation_renew(&held)).await {
            Ok(expires_at) => {
                // Counted from the question: how long the answer took is part of the lease.
                good_until = asked + lease;
                // One that was paused until the answer came has to ask again at once.
                let now = Instant::now();
                renew_at = if now < good_until { now + interval } else { now };
                if std::mem::take(&mut late_before) {
                    drop(in_time(good_until, recorder.record(RunEvent::LeaseRenewed { expires_at })).await);
                }
            }
            Err(StoreError::LeaseLost { .. }) => {
                let now = in_time(Instant::now() + interval, store.run_find(held.run())).await;
                break now.map_or(Some(Loss::Taken), |run| ended_as(run.status));
            }
            Err(error) => {
                late_before = true;
                let late = RunEvent::LeaseLate { reason: error.to_string() };
                // The database is probably away: the timeline has to do without it.
                recorder.tell(&late);
                drop(in_time(good_until, recorder.append(late)).await);
                // Only a question that was asked after the end counts as unanswered: one that was paused with a question
                // on its way wakes up late, and has not heard yet who has its rows now.
                if asked >= good_until {
                    break Some(Loss::RanOut);
                }
            }
        }
    };
    if let Some(loss) = loss {
        lost.get_or_init(|| loss);
        match loss {
            Loss::Aborted => {}
            // The store has this on the timeline already.
            Loss::Taken => {
                let (to, refused) =
                    in_time(Instant::now() + interval, taker(store.as_ref(), held.run())).await.unwrap_or_default();
                recorder.tell(&RunEvent::LeaseLost { to, refused });
            }
            Loss::RanOut => {
                let message =
                    "the lease ran out while the database gave no answer; asking terraform to stop".to_owned();
                recorder.tell(&RunEvent::Warning { message });
            }
        }
        stop.interrupt.cancel();
        if loss == Loss::Aborted {
            tokio::time::sleep(LEISURE).await;
        }
        // Without a lease somebody else may work on the same rows: what Terraform still does there has to end soon.
        stop.soon.cancel();
    }
}

/// Who has asked for what a run had reserved, as its timeline tells, and whether they did not get it.
async fn taker(store: &dyn Store, run: RunId) -> Result<(Option<Holder>, bool), StoreError> {
    let events = store.event_list(run).await?;
    let told = events.into_iter().rev().find_map(|recorded| match recorded.event {
        RunEvent::LeaseLost { to: Some(to), refused } => Some((Some(to), refused)),
        _ => None,
    });
    Ok(told.unwrap_or_default())
}

/// What to tell of a run that came to an end before its work did: as the store has it, else as its heartbeat found it. None
/// for one that was left to end by itself.
pub async fn lost(ctx: &Context, run: RunId, found: Option<Loss>) -> Option<KlError> {
    let stored = ctx.store.run_find(run).await.ok().filter(|run| run.status.ended());
    let loss = stored.as_ref().and_then(|run| ended_as(run.status)).or(found)?;
    let since = |error: KlError| match stored.as_ref().and_then(|run| run.spec) {
        Some(spec) => error.hint(format!(
            "`kl history --since-plan {spec}` says whether the plan still holds; where it does, apply it again"
        )),
        None => error.hint("try again"),
    };
    Some(match loss {
        Loss::Aborted => KlError::failed("the run was aborted from outside, so nothing was committed")
            .hint("apply the spec again when the reason is gone"),
        Loss::Taken => {
            let why = stored.as_ref().and_then(|run| run.error.clone());
            let why = why.unwrap_or_else(|| "another run has taken its reservations".to_owned());
            since(KlError::failed(format!("the run is lost: {}; nothing was committed", style::plain(&why))))
        }
        Loss::RanOut => since(KlError::failed(
            "the lease ran out while the database gave no answer, so terraform was stopped and nothing was committed",
        )),
    })
}

/// How a run was ended from outside. Its own end is seen, too, when it comes just before nobody looks any more.
fn ended_as(status: RunStatus) -> Option<Loss> {
    match status {
        RunStatus::Aborted => Some(Loss::Aborted),
        RunStatus::Lost => Some(Loss::Taken),
        _ => None,
    }
}

/// Waits for an answer of the store, but not beyond the lease: a connection that has gone silent must not keep
/// Terraform running on reservations that somebody else has by now.
async fn in_time<T>(good_until: Instant, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let limit = ANSWER.min(good_until.saturating_duration_since(Instant::now()));
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(StoreError::Database { operation: "answer in time", source: Box::new(elapsed) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::address::Pattern;
    use crate::domain::id::{Actor, Serial, StateName};
    use crate::domain::run::{NewRun, Origin, RunKind};
    use crate::mishap::Mishaps;
    use crate::report::event::{Progress, Sink};
    use crate::store::{DatabaseUrl, open};

    struct Deaf;

    impl Sink for Deaf {
        fn emit(&self, _: &Progress) {}
    }

    /// A run with a lease on a store that meets the mishap, until its timeline is long enough, and why it lost the lease.
    async fn beats(
        lease: Duration,
        mishap: &str,
        enough: impl Fn(&[RunEvent]) -> bool,
    ) -> (Held, Vec<RunEvent>, Option<Loss>) {
        let dir = tempfile::tempdir().unwrap();
        let file = camino::Utf8Path::from_path(dir.path()).unwrap().join("kl.db");
        let store = open(&DatabaseUrl::sqlite(file)).await.unwrap();
        let state = store.state_ensure(&StateName::new("prod").unwrap()).await.unwrap().id;
        let run = NewRun {
            id: crate::clock::new_run_id(),
            state,
            kind: RunKind::Apply,
            actor: Actor("alice".to_owned()),
            origin: Origin::default(),
            spec: None,
            source_serial: Serial(0),
            tools: Tools { program: String::new(), version: String::new(), providers: [].into() },
            claims: Vec::new(),
        };
        store.run_start(&run).await.unwrap();
        let claims = vec![Claim::write(Pattern::Everything)];
        let ask = Ask { run: run.id, claims, lease, queue: false };
        let Acquired::Granted { held, .. } = store.reservation_acquire(&ask).await.unwrap() else { panic!("blocked") };
        let unlucky = store.with_mishaps(Mishaps::read(Some(mishap), None).unwrap());
        let recorder = Recorder::new(store.clone(), Arc::new(Deaf), run.id);
        let heartbeat = Heartbeat::start(unlucky, recorder, &held, Stop::never());
        let told = loop {
            let told: Vec<RunEvent> =
                store.event_list(run.id).await.unwrap().into_iter().map(|recorded| recorded.event).collect();
            if enough(&told) {
                break told;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        (held, told, heartbeat.lost())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_renewal_that_is_late_is_on_record_and_so_is_the_next_one() {
        let (held, told, lost) =
            beats(Duration::from_secs(4), "store/renew the lease/begin#1=fail", |told| told.len() == 3).await;
        assert!(matches!(&told[1], RunEvent::LeaseLate { reason } if reason.contains("renew the lease")), "{told:?}");
        let renewed = |event: &RunEvent| matches!(event, RunEvent::LeaseRenewed { expires_at } if *expires_at > held.expires_at());
        assert!(renewed(&told[2]), "{told:?}");
        assert_eq!(lost, None);
    }

    /// As for one that was paused while it asked: the answer's time is over, and nobody has the rows.
    #[tokio::test(flavor = "multi_thread")]
    async fn one_whose_question_outlasted_the_lease_asks_once_more() {
        // That it was late may be on record, too, where the database is quick.
        let renewed = |told: &[RunEvent]| told.iter().any(|event| matches!(event, RunEvent::LeaseRenewed { .. }));
        let stall = "store/renew the lease/begin#1=stall:4000";
        let (_, told, lost) = beats(Duration::from_secs(1), stall, renewed).await;
        assert!(told.len() <= 3, "{told:?}");
        assert_eq!(lost, None);
    }
}
