//! The HTTP backend for plain Terraform (`backend "http"`): states, and locks that are reservations (design §12).

pub mod access;
pub mod answer;
mod listen;
mod lock;
pub mod route;
mod state;
mod throttle;
pub mod tls;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use http_body_util::LengthLimitError;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::domain::coordination::lock::LockId;
use crate::domain::id::{Actor, RunId, StateId, StateName};
use crate::domain::run::Origin;
use crate::domain::state::incoming::Known;
use crate::domain::token::TokenId;
use crate::store::model::{LockEnd, LockFreed};
use crate::store::{Store, StoreError};
use access::Access;
use answer::Answer;
use route::{Route, Verb};
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
    /// So many connections there are at once; others wait to be accepted.
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
            connections: 512,
            grace: Duration::from_secs(30),
        }
    }
}

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
    /// The locks that were granted here and have not been given back.
    granted: Mutex<HashMap<RunId, (StateId, LockId)>>,
    asked: AtomicU64,
    /// The locks that were refused, and may be asked for again.
    refused: Mutex<HashSet<(StateId, LockId)>>,
    /// Refusals whose texts clients do not show.
    untold: Mutex<Vec<Answer>>,
    /// Places for requests that are worked on.
    places: Semaphore,
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
            granted: Mutex::default(),
            asked: AtomicU64::new(0),
            refused: Mutex::default(),
            untold: Mutex::default(),
            places: Semaphore::new(limits.requests),
            ready: tokio::sync::Mutex::default(),
        }
    }

    /// Answers on a listener until it is told to stop; requests that have begun are answered before, for as long as
    /// [`Limits::grace`] lets them. With `tls` nothing else is spoken.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, tls: Option<Arc<Tls>>, stop: CancellationToken) {
        listen::run(self, listener, tls, stop).await;
    }

    /// How many requests about states there were.
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

    /// Frees the locks that were granted here and never given back, and the places of those that were waited for, because
    /// whoever asked for them has ended. Returns the runs of those that were held.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn free_left_behind(&self, by: &Actor) -> Result<Vec<RunId>, StoreError> {
        let left: Vec<(StateId, LockId)> = self.granted().values().cloned().collect();
        let mut freed = Vec::new();
        for (state, id) in left {
            if let LockFreed::Freed(run) = self.store.lock_free(state, &LockEnd::LeftBehind(id), by).await? {
                self.granted().remove(&run);
                freed.push(run);
            }
        }
        let waited: Vec<(StateId, LockId)> = self.refused().drain().collect();
        for (state, id) in waited {
            self.store.lock_free(state, &LockEnd::GivenUp(id), by).await?;
        }
        Ok(freed)
    }

    fn refused(&self) -> MutexGuard<'_, HashSet<(StateId, LockId)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<StateId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn granted(&self) -> MutexGuard<'_, HashMap<RunId, (StateId, LockId)>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
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

    async fn handle(&self, request: &Asked<'_>, route: Route, body: Body) -> Answer {
        match route {
            Route::Health => Answer::text(200, "ok"),
            Route::Ready => self.ready().await,
            Route::State { verb, name, lock } => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let answered = self.state(request, verb, &name, lock, body).await;
                let answer = answered.unwrap_or_else(|refused| refused);
                self.remember(&answer);
                answer
            }
        }
    }

    async fn state(
        &self,
        request: &Asked<'_>,
        verb: Verb,
        name: &StateName,
        lock: Option<LockId>,
        body: Body,
    ) -> Result<Answer, Answer> {
        let pass = self.access.admit(&*self.store, request.headers, request.peer).await?;
        request.log.token(pass.id());
        if let Err(why) = pass.allows(verb.role(), name) {
            return Err(match verb {
                Verb::Lock => lock::not_allowed(&why, name),
                _ => Answer::text(403, why),
            });
        }
        let _place = self.places.acquire().await.map_err(|_| Answer::text(503, "the server ends"))?;
        match verb {
            Verb::Read => state::read(self, name).await,
            Verb::Write => state::write(self, name, lock, request.headers, whole(body, self.limits.body).await?).await,
            Verb::Remove => state::remove(self, &pass, name, lock).await,
            Verb::Lock => lock::lock(self, &pass, name, &whole(body, MAX_LOCK).await?).await,
            Verb::Unlock => lock::unlock(self, &pass, name, &whole(body, MAX_LOCK).await?).await,
        }
    }
}

/// The whole body, or why there is none.
async fn whole(body: Body, limit: usize) -> Result<Vec<u8>, Answer> {
    match axum::body::to_bytes(body, limit).await {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => {
            let source = std::error::Error::source(&error);
            let long = source.is_some_and(<dyn std::error::Error>::is::<LengthLimitError>);
            Err(if long {
                Answer::text(413, format!("the body is longer than {limit} bytes"))
            } else {
                Answer::text(400, "the body ends before its end; nothing was changed")
            })
        }
    }
}

/// A request, beside what it asks for.
struct Asked<'r> {
    headers: &'r HeaderMap,
    peer: IpAddr,
    log: &'r Log,
}

/// What is found out about a request while it is worked on.
#[derive(Default)]
struct Log {
    token: Mutex<Option<TokenId>>,
}

impl Log {
    fn token(&self, id: Option<&TokenId>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = id.cloned();
    }
}

/// Answers a request, in time, and notes that in the log: what was asked and how it ended, and nothing that is secret.
async fn answer(server: Arc<Server>, request: Request, peer: IpAddr) -> Response {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let log = Log::default();
    let asked = Asked { headers: &head.headers, peer, log: &log };
    let answer = match route::route(head.method.as_str(), head.uri.path(), head.uri.query()) {
        Err(refused) => refused,
        Ok(route) => {
            let handled = Box::pin(server.handle(&asked, route, body));
            tokio::time::timeout(server.limits.time, handled)
                .await
                .unwrap_or_else(|_| Answer::text(503, format!("no answer within {:?}; try again", server.limits.time)))
        }
    };
    let token = log.token.into_inner().unwrap_or_else(PoisonError::into_inner);
    tracing::info!(
        method = head.method.as_str(),
        path = head.uri.path(),
        status = answer.status,
        bytes = answer.body.len(),
        milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        %peer,
        token = token.as_ref().map(TokenId::as_str),
        "answered"
    );
    answer.into()
}
