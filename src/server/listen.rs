//! Connections: how many there are, how long they may take to say what they want, and how all of them come to an end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Server;
use super::request::answer;
use super::seat::{Seat, Seats};
use super::slow::Hasty;
use super::tls::Tls;

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 32 << 10;

/// The pause after a connection that could not be accepted: the process may have no more files to open.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until it is told to stop, and lets what has begun come to its end.
pub(super) async fn run(server: Arc<Server>, listener: TcpListener, tls: Option<Arc<Tls>>, stop: CancellationToken) {
    let seats = Seats::new(server.limits.connections);
    let (tasks, cut) = (TaskTracker::new(), server.cut.clone());
    loop {
        let next = async {
            match listener.accept().await {
                // Whoever comes meanwhile waits in the system's queue.
                Ok((stream, peer)) => Ok((stream, peer, seats.take().await)),
                Err(error) => Err(error),
            }
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        let (stream, peer, seat) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (server, tls, stop, cut) = (Arc::clone(&server), tls.clone(), stop.clone(), cut.clone());
        tasks.spawn(async move {
            let talk = Box::pin(connection(server, stream, peer.ip(), Arc::clone(&seat), tls, stop));
            tokio::select! {
                () = cut.cancelled() => tracing::warn!(peer = %peer.ip(), "a request took too long for the server's end"),
                () = seat.lost() => tracing::debug!(peer = %peer.ip(), "a silent connection was ended: its place is needed"),
                () = talk => {}
            }
        });
    }
    drop(listener);
    // Whoever has not come to the end of a request's head has begun nothing, and holds up whoever is to listen next.
    seats.silent_go();
    tasks.close();
    server.work.close();
    let end = tokio::time::Instant::now() + server.limits.grace;
    if tokio::time::timeout_at(end, tasks.wait()).await.is_err() {
        cut.cancel();
        tasks.wait().await;
    }
    // What clients have left behind is worked on still.
    if tokio::time::timeout_at(end, server.work.wait()).await.is_err() {
        tracing::warn!(requests = server.work.len(), "the server ends before all that was begun is done");
    }
}

/// One connection, from its first byte to its last.
async fn connection(
    server: Arc<Server>,
    stream: TcpStream,
    peer: IpAddr,
    seat: Arc<Seat>,
    tls: Option<Arc<Tls>>,
    stop: CancellationToken,
) {
    // Answers are short, and whoever waits for one asks next.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "a connection has ended before it began");
        return;
    }
    let sent = Arc::clone(&seat);
    let stream = Hasty::new(stream, server.limits.unread, server.limits.answer, move || sent.sent());
    let Some(tls) = tls else {
        return requests(server, stream, peer, seat, stop).await;
    };
    match tokio::time::timeout(server.limits.head, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => requests(server, stream, peer, seat, stop).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS came about"),
        Err(_) => tracing::debug!(%peer, "no TLS came about in time"),
    }
}

/// The requests of one connection.
async fn requests<S>(server: Arc<Server>, stream: S, peer: IpAddr, seat: Arc<Seat>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let head = server.limits.head;
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (server, seat) = (Arc::clone(&server), Arc::clone(&seat));
        seat.asked();
        async move {
            let answered = Box::pin(answer(server, request.map(Body::new), peer)).await;
            seat.answered();
            Ok::<_, Infallible>(answered)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(MAX_HEAD);
    let mut talk = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = talk.as_mut() => ended,
        () = stop.cancelled() => {
            talk.as_mut().graceful_shutdown();
            talk.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection has broken off");
    }
}
