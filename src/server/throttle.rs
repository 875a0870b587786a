//! Failed logins: counted by whom they came from and for which token, and slowed down, in a memory that is bounded.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::answer::Answer;
use crate::domain::token::TokenId;

/// So many failures in a row are nobody's concern: a token that was pasted badly, a job with an old one.
const FREE: u32 = 3;

/// The wait after the next one; each failure after that doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// After so many failures of one token from one address, further ones are answered at once and with no other word than to
/// go away. Who comes from there with the right token still gets in: many can stand behind one proxy, and the public
/// part of a token is no secret.
const TOO_MANY_OF_ONE: u32 = 20;

/// The same for failures from one address, whatever the tokens.
const TOO_MANY_OF_ALL: u32 = 200;

/// How many tokens are looked at at once for those who have failed so often: they must not keep the database busy.
const SUSPECTS: usize = 2;

/// When who has failed so often had better ask again.
const SHUT: Duration = Duration::from_secs(30);

/// After so long without another one, failures are forgotten.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// So many counts are kept; beyond that the older half is forgotten.
const MAX_COUNTS: usize = 10_000;

/// So many answers wait at once: each keeps its connection.
const MAX_WAITING: usize = 64;

/// Whose failures are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Whose {
    /// All from an address.
    Peer(IpAddr),
    /// Those from an address for a token, or for what is no token.
    Pair(IpAddr, Option<TokenId>),
}

#[derive(Debug, Clone, Copy)]
struct Count {
    failures: u32,
    last: Instant,
}

/// What is to be done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Answer it, after so long.
    Wait(Duration),
    /// Turn it away at once.
    TooMany,
}

/// The failures so far.
pub(super) struct Throttle {
    counts: Mutex<HashMap<Whose, Count>>,
    waiting: Semaphore,
    suspects: Semaphore,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self { counts: Mutex::default(), waiting: Semaphore::new(MAX_WAITING), suspects: Semaphore::new(SUSPECTS) }
    }

    /// Waits for the turn of a token to be looked at: at once, but where it was wrong far too often.
    pub(super) async fn turn(&self, peer: IpAddr, token: &TokenId) -> Option<SemaphorePermit<'_>> {
        if self.is_suspect(peer, token, Instant::now()) { self.suspects.acquire().await.ok() } else { None }
    }

    /// Counts a failure, lets it wait, and gives the answer for it.
    pub(super) async fn failed(&self, peer: IpAddr, token: Option<&TokenId>, answer: Answer) -> Answer {
        let Verdict::Wait(time) = self.count(peer, token, Instant::now()) else {
            return too_many();
        };
        if time.is_zero() {
            return answer;
        }
        let Ok(_place) = self.waiting.try_acquire() else {
            return too_many();
        };
        tokio::time::sleep(time).await;
        answer
    }

    /// Forgets the failures of who has got in.
    pub(super) fn passed(&self, peer: IpAddr, token: &TokenId) {
        let peer = network(peer);
        let mut counts = self.counts();
        counts.remove(&Whose::Pair(peer, Some(token.clone())));
        counts.remove(&Whose::Peer(peer));
    }

    /// Whether a token from an address was wrong far too often.
    fn is_suspect(&self, peer: IpAddr, token: &TokenId, now: Instant) -> bool {
        let peer = network(peer);
        let counts = self.counts();
        let beyond = |whose: &Whose, limit: u32| {
            let count = counts.get(whose).filter(|count| now.saturating_duration_since(count.last) < FORGOTTEN);
            count.is_some_and(|count| count.failures >= limit)
        };
        beyond(&Whose::Pair(peer, Some(token.clone())), TOO_MANY_OF_ONE) || beyond(&Whose::Peer(peer), TOO_MANY_OF_ALL)
    }

    fn count(&self, peer: IpAddr, token: Option<&TokenId>, now: Instant) -> Verdict {
        let peer = network(peer);
        let mut counts = self.counts();
        let mut one_more = |whose: Whose| {
            if counts.len() >= MAX_COUNTS && !counts.contains_key(&whose) {
                make_room(&mut counts, now);
            }
            let count = counts.entry(whose).or_insert(Count { failures: 0, last: now });
            if now.saturating_duration_since(count.last) >= FORGOTTEN {
                count.failures = 0;
            }
            count.failures = count.failures.saturating_add(1);
            count.last = now;
            count.failures
        };
        let of_pair = one_more(Whose::Pair(peer, token.cloned()));
        let of_peer = one_more(Whose::Peer(peer));
        drop(counts);
        if of_peer > TOO_MANY_OF_ALL || of_pair > TOO_MANY_OF_ONE {
            return Verdict::TooMany;
        }
        let beyond = of_pair.max(of_peer).saturating_sub(FREE);
        Verdict::Wait(match beyond.checked_sub(1) {
            None => Duration::ZERO,
            Some(doubled) => LONGEST_WAIT.min(FIRST_WAIT * 2_u32.saturating_pow(doubled.min(8))),
        })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Whose, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets what may be forgotten, and the older half of the rest, so that there is room for a while.
fn make_room(counts: &mut HashMap<Whose, Count>, now: Instant) {
    counts.retain(|_, count| now.saturating_duration_since(count.last) < FORGOTTEN);
    let mut times: Vec<Instant> = counts.values().map(|count| count.last).collect();
    if times.len() >= MAX_COUNTS {
        let half = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(half);
        let middle = *middle;
        let mut left = half;
        // Many may be of one moment.
        counts.retain(|_, count| {
            let stays = count.last > middle || left == 0;
            left -= usize::from(!stays);
            stays
        });
    }
}

/// Who owns one address of IPv6 owns its whole /64.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

fn too_many() -> Answer {
    Answer::text(429, "too many failed logins; try again later, with a token that is right").after(SHUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn id(number: u64) -> TokenId {
        format!("{number:016x}").parse().unwrap()
    }

    #[test]
    fn failures_are_slowed_down_until_somebody_gets_in() {
        let (throttle, now, token) = (Throttle::new(), Instant::now(), id(1));
        let waits: Vec<Verdict> = (0..10).map(|_| throttle.count(peer(1), Some(&token), now)).collect();
        let wait = |milliseconds| Verdict::Wait(Duration::from_millis(milliseconds));
        assert_eq!(waits[..3], [wait(0), wait(0), wait(0)]);
        assert_eq!(waits[3..], [250, 500, 1000, 2000, 4000, 4000, 4000].map(wait));
        // Others are not concerned, and another token from there is by the address alone.
        assert_eq!(throttle.count(peer(2), Some(&token), now), wait(0));
        assert_eq!(throttle.count(peer(1), Some(&id(2)), now), wait(4000));
        throttle.passed(peer(1), &token);
        assert_eq!(throttle.count(peer(1), Some(&token), now), wait(0));
        // And time forgets.
        for _ in 0..10 {
            throttle.count(peer(1), None, now);
        }
        assert_eq!(throttle.count(peer(1), None, now + FORGOTTEN), wait(0));
    }

    #[test]
    fn far_too_many_of_one_token_are_turned_away_and_looked_at_in_turn() {
        let (throttle, now, token) = (Throttle::new(), Instant::now(), id(1));
        for _ in 0..TOO_MANY_OF_ONE {
            assert!(!throttle.is_suspect(peer(1), &token, now));
            assert_ne!(throttle.count(peer(1), Some(&token), now), Verdict::TooMany);
        }
        assert_eq!(throttle.count(peer(1), Some(&token), now), Verdict::TooMany);
        assert!(throttle.is_suspect(peer(1), &token, now));
        assert!(!throttle.is_suspect(peer(1), &id(2), now) && !throttle.is_suspect(peer(2), &token, now));
        assert!(!throttle.is_suspect(peer(1), &token, now + FORGOTTEN));
        throttle.passed(peer(1), &token);
        assert!(!throttle.is_suspect(peer(1), &token, now));
    }

    #[test]
    fn an_address_that_tries_everything_is_turned_away_and_memory_stays_small() {
        let (throttle, now) = (Throttle::new(), Instant::now());
        for number in 0..=TOO_MANY_OF_ALL {
            let verdict = throttle.count(peer(1), Some(&id(u64::from(number))), now);
            assert_eq!(verdict == Verdict::TooMany, number == TOO_MANY_OF_ALL, "{number}");
        }
        for number in 0..2 * MAX_COUNTS {
            let [.., c, d] = u32::try_from(number).unwrap().to_be_bytes();
            throttle.count(
                IpAddr::from([10, 1, c, d]),
                None,
                now + Duration::from_micros(u64::try_from(number).unwrap()),
            );
        }
        assert!(throttle.counts().len() <= MAX_COUNTS);
    }

    #[test]
    fn a_whole_network_is_one_peer() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    }
}
