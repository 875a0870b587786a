//! The HTTP backend for plain Terraform (`backend "http"`): states, and locks that are reservations (design §12).

pub mod access;
pub mod answer;
mod lock;
pub mod route;
mod state;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use http_body_util::LengthLimitError;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::domain::coordination::lock::LockId;
use crate::domain::id::{Actor, RunId, StateId, StateName};
use crate::domain::run::Origin;
use crate::domain::state::incoming::Known;
use crate::store::model::{LockEnd, LockFreed};
use crate::store::{Store, StoreError};
use access::Access;
use answer::Answer;
use route::{Route, Verb};

/// What a request may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest body, in bytes.
    pub body: usize,
    /// How long a request may take, from its first byte to the answer.
    pub time: Duration,
}

impl Default for Limits {
    /// The largest states that are known have tens of megabytes; their writers wait for minutes.
    fn default() -> Self {
        Self { body: 256 << 20, time: Duration::from_mins(2) }
    }
}

/// The longest lock document, in bytes.
const MAX_LOCK: usize = 64 << 10;

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
}

/// So many different refusals are kept; a client that goes on asking says nothing new.
const MAX_REFUSALS: usize = 8;

impl Server {
    /// A backend on a store. `actor` is who acts; without one it is whoever the lock documents name.
    pub fn new(store: Arc<dyn Store>, access: Access, actor: Option<Actor>, origin: Origin, limits: Limits) -> Self {
        let (known, granted) = (Mutex::default(), Mutex::default());
        let (asked, refused, untold) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        Self { store, access, actor, origin, limits, known, granted, asked, refused, untold }
    }

    /// Answers on a listener until it is told to stop; requests that have begun are answered before.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) -> std::io::Result<()> {
        let router = Router::new().fallback(answer).with_state(self);
        axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
    }

    /// How many requests about states there were.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// The requests about states that were refused with a text that Terraform does not show: all but those for a lock
    /// that others hold.
    pub fn refusals(&self) -> Vec<Answer> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, answer: &Answer) {
        let shown = matches!(answer.status, ..400 | 404 | 423 | 500..);
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown && untold.len() < MAX_REFUSALS && !untold.contains(answer) {
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

    async fn handle(&self, route: Route, headers: &HeaderMap, body: Body) -> Answer {
        match route {
            Route::Health => Answer::text(200, "ok"),
            Route::Ready => match self.store.schema_check().await {
                Ok(()) => Answer::text(200, "ok"),
                Err(error) => Answer::of(&error),
            },
            Route::State { verb, name, lock } => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let answered = match self.access.check(headers, verb, &name) {
                    Ok(()) => self.state(verb, &name, lock, headers, body).await,
                    Err(refused) => Err(refused),
                };
                let answer = answered.unwrap_or_else(|refused| refused);
                self.remember(&answer);
                answer
            }
        }
    }

    async fn state(
        &self,
        verb: Verb,
        name: &StateName,
        lock: Option<LockId>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Answer, Answer> {
        match verb {
            Verb::Read => state::read(self, name).await,
            Verb::Write => state::write(self, name, lock, headers, whole(body, self.limits.body).await?).await,
            Verb::Remove => state::remove(self, name, lock).await,
            Verb::Lock => lock::lock(self, name, &whole(body, MAX_LOCK).await?).await,
            Verb::Unlock => lock::unlock(self, name, &whole(body, MAX_LOCK).await?).await,
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

/// Answers a request, in time, and notes that in the log: what was asked and how it ended, and nothing that is secret.
async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let answer = match route::route(head.method.as_str(), head.uri.path(), head.uri.query()) {
        Err(refused) => refused,
        Ok(route) => {
            let handled = Box::pin(server.handle(route, &head.headers, body));
            tokio::time::timeout(server.limits.time, handled)
                .await
                .unwrap_or_else(|_| Answer::text(503, format!("no answer within {:?}; try again", server.limits.time)))
        }
    };
    tracing::info!(
        method = head.method.as_str(),
        path = head.uri.path(),
        status = answer.status,
        bytes = answer.body.len(),
        took = ?began.elapsed(),
        "answered"
    );
    answer.into()
}
