//! Clients that do not take their answers: a connection is given up when nothing goes out for too long, or when one
//! answer takes too long as a whole.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A connection on which writing has its time.
pub(super) struct Hasty<S> {
    stream: S,
    stall: Duration,
    whole: Duration,
    /// Since when there is something to be written, all of which has not gone out yet.
    since: Option<Instant>,
    /// Ends when nothing has gone out for too long.
    timer: Option<Pin<Box<Sleep>>>,
    /// Called when all that there was to be written has gone out.
    sent: Box<dyn Fn() + Send + Sync>,
}

impl<S> Hasty<S> {
    /// Gives a connection up when no byte goes out for as long as `stall`, or when what there is to write takes `whole`.
    pub(super) fn new(stream: S, stall: Duration, whole: Duration, sent: impl Fn() + Send + Sync + 'static) -> Self {
        Self { stream, stall, whole, since: None, timer: None, sent: Box::new(sent) }
    }

    /// Looks how long writing has taken, after another try of it.
    fn watch<T>(&mut self, context: &mut Context<'_>, tried: Poll<Result<T>>) -> Poll<Result<T>> {
        let now = Instant::now();
        let end = *self.since.get_or_insert(now) + self.whole;
        if tried.is_ready() {
            self.timer = None;
            return if now < end { tried } else { Poll::Ready(Err(slow())) };
        }
        let stall = now + self.stall;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(stall.min(end))));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(slow()))
    }
}

fn slow() -> Error {
    Error::new(ErrorKind::TimedOut, "the client does not take its answer")
}

impl<S: AsyncRead + Unpin> AsyncRead for Hasty<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Hasty<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_flush(context);
        let flushed = ready!(self.watch(context, tried));
        // Only what is written as a whole is flushed.
        self.since = None;
        if flushed.is_ok() {
            (self.sent)();
        }
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, tried)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const STALL: Duration = Duration::from_millis(200);
    const WHOLE: Duration = Duration::from_millis(600);

    #[tokio::test]
    async fn who_takes_nothing_is_given_up_and_who_takes_its_time_is_not() {
        let (stream, mut client) = duplex(8);
        let mut hasty = Hasty::new(stream, STALL, WHOLE, || {});
        // Each answer has its time anew.
        for _ in 0..4 {
            let taken = tokio::spawn(async move {
                tokio::time::sleep(STALL * 3 / 4).await;
                let mut bytes = [0; 16];
                client.read_exact(&mut bytes).await.unwrap();
                client
            });
            hasty.write_all(&[1; 16]).await.unwrap();
            hasty.flush().await.unwrap();
            client = taken.await.unwrap();
        }
        let began = Instant::now();
        let error = hasty.write_all(&[1; 16]).await.unwrap_err();
        assert!(error.kind() == ErrorKind::TimedOut && began.elapsed() >= STALL, "{error}");
    }

    #[tokio::test]
    async fn an_answer_that_trickles_away_has_its_time() {
        let (stream, mut client) = duplex(8);
        let mut hasty = Hasty::new(stream, STALL, WHOLE, || {});
        let trickle = tokio::spawn(async move {
            while client.read_u8().await.is_ok() {
                tokio::time::sleep(STALL / 4).await;
            }
        });
        let began = Instant::now();
        let error = hasty.write_all(&[1; 10_000]).await.unwrap_err();
        assert!(error.kind() == ErrorKind::TimedOut && began.elapsed() >= WHOLE, "{error}");
        drop(hasty);
        trickle.await.unwrap();
    }
}
