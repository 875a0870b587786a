//! How long kl waits for a forge, and when it asks again.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

/// How long kl bears with a forge. The default is for real ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The first wait after a failure; it doubles, with jitter, from there on.
    pub first: Duration,
    /// The longest wait that kl chooses by itself.
    pub longest: Duration,
    /// The longest that one thing may take in all, waits included. Checks and comments are a courtesy: a job does not
    /// stand still for an hour because the forge's rate limit is used up.
    pub total: Duration,
    /// The longest that one answer may take.
    pub answer: Duration,
    /// How long a second takes when the forge says how many to wait. Shorter in tests.
    pub second: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(20),
            total: Duration::from_mins(3),
            answer: Duration::from_secs(30),
            second: Duration::from_secs(1),
        }
    }
}

impl Patience {
    /// Patience for one thing, from now on.
    pub(super) fn begin(self) -> Budget {
        let delays = ExponentialBuilder::default()
            .with_min_delay(self.first)
            .with_max_delay(self.longest)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times()
            .build();
        Budget { delays, ends: Instant::now() + self.total, patience: self }
    }
}

/// What is left of the patience for one thing.
pub(super) struct Budget {
    delays: ExponentialBackoff,
    ends: Instant,
    patience: Patience,
}

impl Budget {
    /// How long the next answer may take.
    pub(super) fn for_an_answer(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now()).min(self.patience.answer)
    }

    /// Waits before another attempt: as long as the forge asked for, in seconds, or as long as the back-off says,
    /// whichever is longer. Gives false, at once, when that would take too long in all.
    pub(super) async fn pause(&mut self, asked: Option<u64>) -> bool {
        let chosen = self.delays.next().unwrap_or(self.patience.longest);
        let asked = asked.map_or(Duration::ZERO, |seconds| {
            self.patience.second.saturating_mul(u32::try_from(seconds).unwrap_or(u32::MAX))
        });
        let wait = chosen.max(asked);
        if wait >= self.ends.saturating_duration_since(Instant::now()) {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasty() -> Patience {
        Patience {
            first: Duration::from_millis(1),
            longest: Duration::from_millis(4),
            total: Duration::from_millis(100),
            second: Duration::from_millis(10),
            ..Patience::default()
        }
    }

    #[tokio::test]
    async fn patience_ends_in_time_however_often_it_is_asked_for() {
        let mut budget = hasty().begin();
        let ends = budget.ends;
        let mut pauses = 0;
        while budget.pause(None).await {
            pauses += 1;
        }
        assert!(pauses > 3, "{pauses}");
        assert!(ends + Duration::from_millis(100) > Instant::now(), "it gave up long after its time");
    }

    #[tokio::test]
    async fn what_the_forge_asks_for_is_waited_for_or_not_at_all() {
        let mut budget = hasty().begin();
        let began = Instant::now();
        assert!(budget.pause(Some(2)).await);
        assert!(began.elapsed() >= Duration::from_millis(20));
        let long = Patience { total: Duration::from_mins(3), ..Patience::default() };
        let began = Instant::now();
        assert!(!long.begin().pause(Some(3_000)).await);
        assert!(!long.begin().pause(Some(u64::MAX)).await);
        assert!(began.elapsed() < Duration::from_secs(1));
    }
}
