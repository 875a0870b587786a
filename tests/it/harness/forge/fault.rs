//! What can be made to go wrong at a stand-in, and what then becomes of an answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::Response;
use tokio::sync::watch;

use super::server::{Reply, Request};

/// What goes wrong.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Nothing is done, and this is the answer.
    Status(u16),
    /// Nothing is done: too many requests in a short time.
    SecondaryLimit {
        /// Seconds to wait.
        retry_after: u64,
    },
    /// Nothing is done: the hour's requests are used up.
    UsedUp {
        /// Seconds until there are new ones.
        reset: u64,
    },
    /// Nothing is done, and the connection is cut.
    Cut,
    /// It is done, and the connection is cut before the answer.
    DoneThenCut,
    /// It is done, and this is the answer.
    DoneThen(u16),
    /// The answer takes its time.
    Slow(Duration),
    /// Nothing is done until the test opens the gate.
    Held(Gate),
}

/// Where requests wait for the test.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// One that is closed.
    pub(crate) fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets everything through, from now on.
    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn pass(&self) {
        // An error would mean that nobody can open it any more; we hold it ourselves.
        drop(self.0.subscribe().wait_for(|open| *open).await);
    }
}

impl Fault {
    /// What a request gets. `answer` does what it asks for, and gives the true answer.
    pub(super) async fn response(self, answer: impl FnOnce() -> Reply + Send) -> Response {
        match self {
            Self::Status(status) => Reply::refusal(status, "Server Error").into_response(),
            Self::SecondaryLimit { retry_after } => {
                Reply::refusal(403, "You have exceeded a secondary rate limit. Please wait a few minutes.")
                    .header("retry-after", retry_after.to_string())
                    .into_response()
            }
            Self::UsedUp { reset } => {
                let reset = chrono::Utc::now().timestamp().unsigned_abs() + reset;
                Reply::refusal(403, "API rate limit exceeded for installation.")
                    .header("x-ratelimit-remaining", "0")
                    .header("x-ratelimit-reset", reset.to_string())
                    .into_response()
            }
            Self::Cut => cut(),
            Self::DoneThenCut => {
                drop(answer());
                cut()
            }
            Self::DoneThen(status) => {
                drop(answer());
                Reply::refusal(status, "Server Error").into_response()
            }
            Self::Slow(wait) => {
                let reply = answer();
                tokio::time::sleep(wait).await;
                reply.into_response()
            }
            Self::Held(gate) => {
                gate.pass().await;
                answer().into_response()
            }
        }
    }
}

/// Ends the connection without an answer: its task unwinds, without a word on standard error.
fn cut() -> Response {
    std::panic::resume_unwind(Box::new("the connection is cut"))
}

struct Armed {
    method: &'static str,
    part: String,
    fault: Fault,
    left: usize,
}

/// What is to go wrong next.
#[derive(Default)]
pub(super) struct Faults(Mutex<Vec<Armed>>);

impl Faults {
    /// The next requests of this method whose path holds `part` go wrong, so many times.
    pub(super) fn arm(&self, method: &'static str, part: &str, fault: Fault, times: usize) {
        self.0.lock().unwrap().push(Armed { method, part: part.into(), fault, left: times });
    }

    /// Nothing goes wrong any more.
    pub(super) fn disarm(&self) {
        self.0.lock().unwrap().clear();
    }

    /// What goes wrong with this request.
    pub(super) fn next(&self, request: &Request) -> Option<Fault> {
        let mut armed = self.0.lock().unwrap();
        let next = armed
            .iter_mut()
            .find(|armed| armed.left > 0 && armed.method == request.method && request.path.contains(&armed.part))?;
        next.left -= 1;
        Some(next.fault.clone())
    }

    /// What did not come.
    pub(super) fn left(&self) -> Vec<String> {
        let armed = self.0.lock().unwrap();
        let left = armed.iter().filter(|armed| armed.left > 0);
        left.map(|it| format!("{:?} on {} {} did not happen", it.fault, it.method, it.part)).collect()
    }
}
