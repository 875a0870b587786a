//! One request: from its head to its answer, and to its line in the log. What it has begun in the store comes to its end
//! whatever becomes of its client.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{EXPECT, USER_AGENT};
use axum::response::Response;
use http_body_util::{BodyExt as _, LengthLimitError};
use hyper::body::Body as _;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Reader};
use super::{Server, route};
use crate::domain::token::TokenId;

/// So much of a body that nobody wants is read all the same, in so much time, and as long as it goes on coming: who is cut
/// off while it sends does not hear why.
const UNWANTED: usize = 16 << 20;
const UNWANTED_TIME: Duration = Duration::from_secs(10);
const UNWANTED_PAUSE: Duration = Duration::from_secs(1);

/// What Terraform and OpenTofu say that they are: so far what Go says of whoever says nothing else.
const TERRAFORMS: [&str; 3] = ["Go-http-client/", "Terraform/", "OpenTofu/"];

/// A request, beside what it asks for.
pub(super) struct Asked {
    pub(super) headers: HeaderMap,
    pub(super) peer: IpAddr,
    pub(super) log: Log,
    /// Until when it has to be ready to be worked on, and how long that is from its beginning.
    until: (Instant, Duration),
    /// Cancelled when the client has left, or is cut off.
    left: CancellationToken,
    /// Cancelled when the server ends, and cuts off whoever is still there.
    cut: CancellationToken,
}

/// What is found out about a request while it is worked on.
#[derive(Default)]
pub(super) struct Log {
    token: Mutex<Option<TokenId>>,
}

impl Log {
    /// Notes the token that was shown.
    pub(super) fn token(&self, id: Option<&TokenId>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = id.cloned();
    }
}

impl Asked {
    /// What can be left undone: it has its time, and ends when the client leaves.
    pub(super) async fn while_waited_for<T>(&self, work: impl Future<Output = Result<T, Answer>>) -> Result<T, Answer> {
        let (until, time) = self.until;
        tokio::select! {
            biased;
            () = self.left.cancelled() => Err(if self.cut.is_cancelled() {
                Answer::text(503, "the server ended before the request was there, and nothing was done")
            } else {
                Answer::text(499, "the client left before anything was done")
            }),
            done = work => done,
            () = tokio::time::sleep_until(until) => Err(over(time)),
        }
    }
}

fn over(time: Duration) -> Answer {
    Answer::text(503, format!("no answer within {time:?}; try again"))
}

/// The whole body, or why there is none.
pub(super) async fn whole(body: &mut Body, limit: usize) -> Result<Vec<u8>, Answer> {
    let long = || Answer::text(413, format!("the body is longer than {limit} bytes"));
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(long());
    }
    match axum::body::to_bytes(std::mem::take(body), limit).await {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => {
            let source = std::error::Error::source(&error);
            Err(if source.is_some_and(<dyn std::error::Error>::is::<LengthLimitError>) {
                long()
            } else {
                Answer::text(400, "the body ends before its end; nothing was changed")
            })
        }
    }
}

/// Reads what is left of a body that nobody wants, within bounds.
async fn drop_body(mut body: Body) {
    let mut read = 0;
    let reading = async {
        while read < UNWANTED
            && let Ok(Some(Ok(frame))) = tokio::time::timeout(UNWANTED_PAUSE, body.frame()).await
        {
            if let Some(data) = frame.data_ref() {
                read += data.len();
            }
        }
    };
    // What does not come in time does not come.
    drop(tokio::time::timeout(UNWANTED_TIME, reading).await);
}

/// Answers a request, in time. It is worked on beside its connection: a client that goes away cannot cut off what it has
/// begun in the store.
pub(super) async fn answer(server: Arc<Server>, request: Request, peer: IpAddr) -> Response {
    let time = server.limits.time;
    let reader = reader(&server, request.headers());
    let (left, late) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let _leaves = left.clone().drop_guard();
    let (tell, told) = oneshot::channel();
    let (work, is_late) = (server.work.clone(), Arc::clone(&late));
    work.spawn(async move {
        // Whoever waits may have gone, which is on record then.
        drop(tell.send(worked_on(&server, request, peer, left, &is_late).await));
    });
    match tokio::time::timeout(time, told).await {
        Ok(Ok(answer)) => answer.for_reader(reader),
        Ok(Err(_)) => Answer::text(500, "the request could not be worked on; kl's log says why").into(),
        Err(_) => {
            late.store(true, Ordering::Relaxed);
            over(time).into()
        }
    }
}

/// Who shows the answer to a person. Whoever serves one command tells its refusals in other ways.
fn reader(server: &Server, headers: &HeaderMap) -> Reader {
    if from_terraform(headers) && !server.access.is_for_one() { Reader::Terraform } else { Reader::Any }
}

/// Whether a request comes from a Terraform or an OpenTofu, as far as can be told.
pub(super) fn from_terraform(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    TERRAFORMS.iter().any(|name| agent.starts_with(name))
}

/// Works on a request, and notes in the log what was asked and how it ended, and nothing that is secret.
async fn worked_on(
    server: &Server,
    request: Request,
    peer: IpAddr,
    left: CancellationToken,
    late: &AtomicBool,
) -> Answer {
    let (began, time) = (Instant::now(), server.limits.time);
    let (head, mut body) = request.into_parts();
    let asked = Asked {
        headers: head.headers,
        peer,
        log: Log::default(),
        until: (began + time, time),
        left,
        cut: server.cut.clone(),
    };
    let answer = match route::route(head.method.as_str(), head.uri.path(), head.uri.query()) {
        Err(refused) => refused,
        Ok(route) => server.handle(&asked, route, &mut body).await,
    };
    // Who asks first whether to send a body has not sent it.
    if !body.is_end_stream() && !asked.headers.contains_key(EXPECT) && !asked.left.is_cancelled() {
        drop_body(body).await;
    }
    let token = asked.log.token.into_inner().unwrap_or_else(PoisonError::into_inner);
    let unheard = match (late.load(Ordering::Relaxed), asked.left.is_cancelled()) {
        (true, _) => Some("its time was over: 503"),
        (false, true) if asked.cut.is_cancelled() => Some("the server's time was over"),
        (false, true) => Some("the client had left"),
        (false, false) => None,
    };
    tracing::info!(
        method = head.method.as_str(),
        path = head.uri.path(),
        status = answer.status,
        bytes = answer.body.len(),
        milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        %peer,
        token = token.as_ref().map(TokenId::as_str),
        reason = answer.reason(),
        unheard,
        "answered"
    );
    answer
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn whoever_is_cut_off_by_the_servers_end_has_not_left() {
        let (left, cut) = (CancellationToken::new(), CancellationToken::new());
        let asked = Asked {
            headers: HeaderMap::new(),
            peer: Ipv4Addr::LOCALHOST.into(),
            log: Log::default(),
            until: (Instant::now() + UNWANTED_TIME, UNWANTED_TIME),
            left: left.clone(),
            cut: cut.clone(),
        };
        let stalled = || asked.while_waited_for(std::future::pending::<Result<(), Answer>>());
        left.cancel();
        assert_eq!(stalled().await.unwrap_err().status, 499);
        cut.cancel();
        let answer = stalled().await.unwrap_err();
        assert_eq!(
            (answer.status, answer.reason()),
            (503, Some("the server ended before the request was there, and nothing was done"))
        );
    }
}
