//! The HTTP backend for plain Terraform (`backend "http"`): states, and locks that are reservations (design §12).

pub mod access;
pub mod answer;
mod listen;
mod lock;
mod request;
pub mod route;
mod seat;
mod slow;
mod state;
mod throttle;
pub mod tls;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use hyper::body::Body as _;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::coordination::lock::LockId;
use crate::domain::id::{Actor, RunId, StateId, StateName};
use crate::domain::run::Origin;
use crate::domain::run::event::RunEvent;
use crate::domain::state::incoming::Known;
use crate::domain::token::Role;
use crate::store::model::{LockEnd, LockFreed};
use crate::store::{Store, StoreError};
use access::{Access, Pass};
use answer::Answer;
use request::Asked;
use route::{Route, Verb};
use state::Writing;
use tls::Tls;

/// What clients may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest body, in bytes.
    pub body: usize,
    /// How long a request may take, from the end of its head to the answer.
    pub time: Duration,
    /// How long the head of a request may take, and how long a connection may be idle; the same for the beginnings of TLS.
    pub head: Duration,
    /// So many requests about states are worked on at once; others wait.
    pub requests: usize,
    /// The documents that are taken in at once have so many bytes together; others wait. One of any length is always let in.
    pub memory: usize,
    /// How long a client may take no byte of its answer.
    pub unread: Duration,
    /// How long a client may take for its whole answer.
    pub answer: Duration,
    /// So many connections there are at once. For a further one the one goes that has been silent for the longest; where
    /// requests are worked on on all of them, it waits.
    pub connections: usize,
    /// How long requests that have begun may go on when the server is to end.
    pub grace: Duration,
}

impl Default for Limits {
    /// The largest states that are known have tens of megabytes; their writers wait for minutes.
    fn default() -> Self {
        Self {
            body: 256 << 20,
            time: Duration::from_mins(2),
            head: Duration::from_secs(20),
            requests: 32,
            memory: 512 << 20,
            unread: Duration::from_secs(30),
            answer: Duration::from_mins(10),
            connections: 512,
            grace: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// How much room a document takes, in pages: all that it may have, where nobody says how long it is.
    fn pages(&self, body: &Body) -> u32 {
        let limit = u64::try_from(self.body).unwrap_or(u64::MAX);
        let length = body.size_hint().upper().map_or(limit, |length| length.min(limit));
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(self.memory);
        u32::try_from(length.div_ceil(PAGE)).unwrap_or(u32::MAX)
    }
}

/// The unit in which room for documents is counted, in bytes.
const PAGE: usize = 1 << 10;

/// The longest lock document, in bytes.
const MAX_LOCK: usize = 64 << 10;

/// For so long an answer about the database's health is good: anybody may ask for it.
const READY: Duration = Duration::from_secs(1);

/// For so long the database's health is waited for.
const READY_WAIT: Duration = Duration::from_secs(5);

/// The backend.
pub struct Server {
    store: Arc<dyn Store>,
    access: Access,
    actor: Option<Actor>,
    origin: Origin,
    limits: Limits,
    /// What the states look like whose locks are held: a long apply writes again and again.
    known: Mutex<HashMap<StateId, Known>>,
    /// The locks that were taken here, as far as is known, and have not been given back.
    taken: Mutex<HashSet<(StateId, LockId)>>,
    /// The runs of the locks that were taken here by one command.
    runs: Mutex<BTreeSet<RunId>>,
    asked: AtomicU64,
    /// The locks that were refused, and may be asked for again.
    refused: Mutex<HashSet<(StateId, LockId)>>,
    /// Refusals whose texts clients do not show.
    untold: Mutex<Vec<Answer>>,
    /// Places for requests that are worked on.
    places: Semaphore,
    /// Room for documents, in pages of [`PAGE`] bytes.
    room: Semaphore,
    /// The requests that are worked on, also those whose clients have left.
    work: TaskTracker,
    /// Cancelled when the server ends whatever is being answered.
    cut: CancellationToken,
    /// Whether the database could be asked, and when that was found out.
    ready: tokio::sync::Mutex<Option<(Instant, Answer)>>,
}

/// So many different refusals are kept; a client that goes on asking says nothing new.
const MAX_REFUSALS: usize = 8;

impl Server {
    /// A backend on a store. `actor` is who acts; without one it is whoever the lock documents name.
    pub fn new(store: Arc<dyn Store>, access: Access, actor: Option<Actor>, origin: Origin, limits: Limits) -> Self {
        Self {
            store,
            access,
            actor,
            origin,
            limits,
            known: Mutex::default(),
            taken: Mutex::default(),
            runs: Mutex::default(),
            asked: AtomicU64::new(0),
            refused: Mutex::default(),
            untold: Mutex::default(),
            places: Semaphore::new(limits.requests),
            room: Semaphore::new(limits.memory.div_ceil(PAGE)),
            work: TaskTracker::new(),
            cut: CancellationToken::new(),
            ready: tokio::sync::Mutex::default(),
        }
    }

    /// Answers on a listener until it is told to stop; requests that have begun are answered before, for as long as
    /// [`Limits::grace`] lets them. With `tls` nothing else is spoken.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, tls: Option<Arc<Tls>>, stop: CancellationToken) {
        listen::run(self, listener, tls, stop).await;
    }

    /// How many requests read or wrote a state.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// The requests about states that were refused with a text that Terraform does not show: all but those for a lock.
    /// They are kept for whoever serves one command, and for nobody else.
    pub fn refusals(&self) -> Vec<Answer> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, answer: &Answer) {
        let shown = answer.json || matches!(answer.status, ..400 | 404 | 423 | 500..);
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown && self.access.is_for_one() && untold.len() < MAX_REFUSALS && !untold.contains(answer) {
            untold.push(answer.clone());
        }
    }

    /// Frees the locks that were taken here and never given back, and the places of those that were waited for, because
    /// whoever asked for them has ended. What was begun comes to its end before. Returns the runs of those that were held.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn free_left_behind(&self, by: &Actor) -> Result<Vec<RunId>, StoreError> {
        self.work.close();
        self.work.wait().await;
        let taken: Vec<(StateId, LockId)> = self.taken().iter().cloned().collect();
        let mut freed = Vec::new();
        for (state, id) in &taken {
            if let LockFreed::Freed(run) = self.store.lock_free(*state, &LockEnd::LeftBehind(id.clone()), by).await? {
                freed.push(run);
            }
        }
        // Of what ended with an error nobody knows whether it stands in the queue.
        let waited: Vec<(StateId, LockId)> = self.refused().drain().chain(taken).collect();
        for (state, id) in waited {
            self.store.lock_free(state, &LockEnd::GivenUp(id), by).await?;
        }
        self.taken().clear();
        Ok(freed)
    }

    /// Puts on record how the command has ended, with each run that stands for a lock of it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn command_ended(&self, code: Option<i32>, signal: Option<i32>) -> Result<(), StoreError> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for run in runs {
            self.store.event_append(run, &[RunEvent::CommandEnded { code, signal }]).await?;
        }
        Ok(())
    }

    fn refused(&self) -> MutexGuard<'_, HashSet<(StateId, LockId)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<StateId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> MutexGuard<'_, HashSet<(StateId, LockId)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the database can be asked, as it was found out a moment ago or is now.
    async fn ready(&self) -> Answer {
        let mut known = self.ready.lock().await;
        if let Some((at, answer)) = known.as_ref()
            && at.elapsed() < READY
        {
            return answer.clone();
        }
        let answer = match tokio::time::timeout(READY_WAIT, self.store.schema_check()).await {
            Ok(Ok(())) => Answer::text(200, "ok"),
            Ok(Err(error)) => Answer::of(&error),
            Err(_) => Answer::text(503, "the database does not answer"),
        };
        *known = Some((Instant::now(), answer.clone()));
        answer
    }

    async fn handle(&self, request: &Asked, route: Route, body: &mut Body) -> Answer {
        match route {
            Route::Health => Answer::text(200, "ok"),
            Route::Ready => {
                let ready = request.while_waited_for(async { Ok(self.ready().await) });
                ready.await.unwrap_or_else(|refused| refused)
            }
            Route::State { verb, name, lock } => {
                // A lock alone says little: the state itself may be somewhere else.
                if !matches!(verb, Verb::Lock | Verb::Unlock) {
                    self.asked.fetch_add(1, Ordering::Relaxed);
                }
                let answered = self.state(request, verb, &name, lock, body).await;
                let answer = answered.unwrap_or_else(|refused| refused);
                self.remember(&answer);
                answer
            }
        }
    }

    async fn state(
        &self,
        request: &Asked,
        verb: Verb,
        name: &StateName,
        lock: Option<LockId>,
        body: &mut Body,
    ) -> Result<Answer, Answer> {
        let ready = self.prepare(request, verb, name, lock, body);
        let Ready { pass, place: _place, task } = request.while_waited_for(ready).await?;
        // From here on nothing is left half-done, also when the client leaves or its time is over.
        match task {
            Task::Read => state::read(self, name).await,
            Task::Write { writing, document, room: _room } => writing.write(self, &request.headers, document).await,
            Task::Remove(lock) => state::remove(self, &pass, name, lock).await,
            Task::Lock(body) => lock::lock(self, &pass, name, &body).await,
            Task::Unlock(body) => lock::unlock(self, &pass, name, &body).await,
        }
    }

    /// Everything that can be refused without changing anything, and that a client has to be waited for with.
    async fn prepare(
        &self,
        request: &Asked,
        verb: Verb,
        name: &StateName,
        lock: Option<LockId>,
        body: &mut Body,
    ) -> Result<Ready<'_>, Answer> {
        let pass = self.access.admit(&*self.store, request).await?;
        if verb == Verb::Remove && pass.allows(Role::Write, name).is_ok() {
            let given = request::whole(body, MAX_LOCK).await?;
            state::removes(self, &request.headers, &given)?;
        }
        if let Err(why) = pass.allows(verb.role(), name) {
            // A lock document is what Terraform asks again after, for as long as -lock-timeout says: it would not help. Whoever
            // serves one command cannot send anybody to an address that says why.
            return Err(match verb {
                Verb::Lock if self.access.is_for_one() => lock::not_allowed(&why, name),
                _ => Answer::text(403, why),
            });
        }
        // What was made under such a name elsewhere stays where it is.
        let doubtful = !self.access.is_for_one() && !name.has_whole_parts();
        if doubtful && self.store.state_find(name).await?.is_none() {
            return Err(Answer::text(
                400,
                format!(
                    "there is no state {:?}, and none is begun whose name has a / at its ends, or two in a row",
                    name.as_str()
                ),
            ));
        }
        let ends = |_| Answer::text(503, "the server ends");
        let place = async || self.places.acquire().await.map_err(ends);
        Ok(match verb {
            Verb::Read => Ready { pass, place: place().await?, task: Task::Read },
            Verb::Remove => Ready { pass, place: place().await?, task: Task::Remove(lock) },
            Verb::Write => {
                let writing = Writing::find(self, name, lock).await?;
                // Whoever waits for room takes nobody's place.
                let room = self.room.acquire_many(self.limits.pages(body)).await.map_err(ends)?;
                let place = place().await?;
                let document = request::whole(body, self.limits.body).await?;
                Ready { pass, place, task: Task::Write { writing, document, room } }
            }
            Verb::Lock => {
                let place = place().await?;
                Ready { pass, place, task: Task::Lock(request::whole(body, MAX_LOCK).await?) }
            }
            Verb::Unlock => {
                let place = place().await?;
                Ready { pass, place, task: Task::Unlock(request::whole(body, MAX_LOCK).await?) }
            }
        })
    }
}

/// A request that is ready to be worked on, with the place that it takes meanwhile.
struct Ready<'s> {
    pass: Pass,
    place: SemaphorePermit<'s>,
    task: Task<'s>,
}

/// What is to be done, with all that the client had to say.
enum Task<'s> {
    Read,
    Write { writing: Writing, document: Vec<u8>, room: SemaphorePermit<'s> },
    Remove(Option<LockId>),
    Lock(Vec<u8>),
    Unlock(Vec<u8>),
}
