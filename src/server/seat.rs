//! Connections on which nothing is asked: when there are too many, the one that has been silent for the longest goes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// All connections that there may be at once.
pub(super) struct Seats {
    places: Arc<Semaphore>,
    silent: Mutex<Silent>,
    /// Somebody has fallen silent.
    fell_silent: Notify,
}

/// The connections that have not come to the end of a request's head, in the order in which they began to be so.
#[derive(Default)]
struct Silent {
    next: u64,
    connections: BTreeMap<u64, CancellationToken>,
}

/// The place of one connection, until this is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    at: Mutex<At>,
    /// Cancelled when another connection is to have the place, or nobody any more.
    lost: CancellationToken,
    _place: Option<OwnedSemaphorePermit>,
}

/// What happens on a connection.
#[derive(Clone, Copy)]
enum At {
    /// No head of a request has come to its end.
    Silent(u64),
    /// A request is worked on.
    Asked,
    /// There is an answer, and not all of it has gone out yet.
    Answered,
}

impl Seats {
    pub(super) fn new(places: usize) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(places));
        Arc::new(Self { places, silent: Mutex::default(), fell_silent: Notify::new() })
    }

    /// A place for a connection that has just come. When all are taken, the connection that has been silent for the longest
    /// makes room; when there is a request on each of them, one has to come to its end.
    pub(super) async fn take(self: &Arc<Self>) -> Arc<Seat> {
        let place = tokio::select! {
            biased;
            place = Arc::clone(&self.places).acquire_owned() => place.ok(),
            never = self.make_room() => match never {},
        };
        let lost = CancellationToken::new();
        let at = Mutex::new(At::Silent(self.silent().add(lost.clone())));
        Arc::new(Seat { seats: Arc::clone(self), at, lost, _place: place })
    }

    /// Takes the place of who says nothing, as soon as there is one, and waits to be dropped.
    async fn make_room(&self) -> Infallible {
        while !self.silent().oldest_goes() {
            self.fell_silent.notified().await;
        }
        std::future::pending().await
    }

    /// All go on which nothing is asked: nobody is served any more.
    pub(super) fn silent_go(&self) {
        let mut silent = self.silent();
        while silent.oldest_goes() {}
    }

    fn silent(&self) -> MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Silent {
    fn add(&mut self, lost: CancellationToken) -> u64 {
        let at = self.next;
        self.next += 1;
        self.connections.insert(at, lost);
        at
    }

    /// Whether there was one to go.
    fn oldest_goes(&mut self) -> bool {
        self.connections.pop_first().map(|(_, lost)| lost.cancel()).is_some()
    }
}

impl Seat {
    /// Waits until another connection is to have the place, or nobody any more.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// The head of a request has come to its end.
    pub(super) fn asked(&self) {
        if let At::Silent(at) = self.becomes(At::Asked) {
            self.seats.silent().connections.remove(&at);
        }
    }

    /// There is an answer.
    pub(super) fn answered(&self) {
        self.becomes(At::Answered);
    }

    /// All that there was to be sent has gone out.
    pub(super) fn sent(&self) {
        let mut at = self.at();
        if matches!(*at, At::Answered) {
            *at = At::Silent(self.seats.silent().add(self.lost.clone()));
            self.seats.fell_silent.notify_one();
        }
    }

    fn becomes(&self, next: At) -> At {
        std::mem::replace(&mut *self.at(), next)
    }

    fn at(&self) -> MutexGuard<'_, At> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.asked();
    }
}
