//! `kl serve`: the HTTP backend for every state of the database, for whoever has a token.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Session;
use super::args::serve::ServeArgs;
use super::bounded::{self, MAX_TEXT};
use super::project::Place;
use crate::domain::run::Origin;
use crate::error::KlError;
use crate::exit::Exit;
use crate::server::access::Access;
use crate::server::tls::Tls;
use crate::server::{Limits, Server};
use crate::store::{Patience, open_with};

/// For how long a request waits for a database that is away. Longer than a restart, and shorter than Terraform's own
/// patience, which asks again after a 503.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connections to the database: enough for the requests that are worked on at once, most of whose time is spent elsewhere.
const CONNECTIONS: u32 = 16;

/// Serves until it is told to stop.
pub async fn run(session: &Session, args: ServeArgs) -> Result<Exit, KlError> {
    let files = args.tls_cert.zip(args.tls_key);
    let handed_over = if args.listen_stdin { Some(standard_input()?) } else { None };
    let asked = match &handed_over {
        Some(listener) => listener.local_addr().map_err(no_socket)?,
        None => args.listen,
    };
    if files.is_none() && !asked.ip().is_loopback() && !args.insecure_listen {
        return Err(KlError::usage(format!(
            "{asked} can be reached by others, and without TLS they could read tokens and states"
        ))
        .hint("give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy that speaks TLS")
        .hint("--insecure-listen does it all the same"));
    }
    let tls = match &files {
        Some((chain, key)) => Some(Arc::new(read_tls(chain, key)?)),
        None => None,
    };
    let url = session.database(&Place::find(Utf8Path::new("."))?)?;
    let store = open_with(&url, CONNECTIONS).await?.with_mishaps(session.mishaps.clone());
    let no_token = store.token_list().await?.is_empty();
    let patience = Patience { limit: PATIENCE, stop: CancellationToken::new() };
    let limits = Limits::default();
    let server = Server::new(store.patient(patience), Access::stored(), None, Origin::default(), limits);

    let cannot = |error| KlError::usage(format!("cannot listen on {asked}")).because(error);
    let listener = match handed_over {
        Some(listener) => TcpListener::from_std(listener).map_err(cannot)?,
        None => TcpListener::bind(asked).await.map_err(cannot)?,
    };
    let address = listener.local_addr().map_err(cannot)?;
    // From here on a hang-up ends nothing.
    let mut hangups = signal(SignalKind::hangup()).map_err(cannot)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    session.out.say(&format!("Listening on {scheme}://{address}; states are at {scheme}://{address}/states/NAME"));
    if no_token {
        session.out.say("There is no token yet, so nobody gets in: `kl token create --help`");
    }

    let serving = Box::pin(Arc::new(server).serve(listener, tls.clone(), session.stop.interrupt.clone()));
    let reloading = async {
        while hangups.recv().await.is_some() {
            if let (Some(tls), Some((chain, key))) = (&tls, &files) {
                reload(tls, chain, key);
            }
        }
        // No signal can come any more.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serving => {}
        () = reloading => {}
    }
    session.out.say("Ended: every request that had begun was answered, or had its time.");
    Ok(Exit::Done)
}

/// The listening socket that is the standard input. Whoever opened it keeps it open, so that those who come while another
/// server takes over from this one wait in its queue and are not turned away.
fn standard_input() -> Result<std::net::TcpListener, KlError> {
    let socket = || std::io::stdin().as_fd().try_clone_to_owned().map_err(no_socket);
    // A socket that listens is connected with nobody.
    if std::net::TcpStream::from(socket()?).peer_addr().is_ok() {
        return Err(KlError::usage("the standard input is a connection, and no socket that listens")
            .hint("systemd hands that over with Accept=no"));
    }
    let listener = std::net::TcpListener::from(socket()?);
    listener.set_nonblocking(true).map_err(no_socket)?;
    Ok(listener)
}

fn no_socket(error: std::io::Error) -> KlError {
    KlError::usage("the standard input is no socket to listen on").because(error)
}

fn pem(path: &Utf8PathBuf) -> Result<Vec<u8>, KlError> {
    bounded::file(path, MAX_TEXT).map_err(|error| KlError::usage(format!("cannot read {path}")).because(error))
}

fn read_tls(chain: &Utf8PathBuf, key: &Utf8PathBuf) -> Result<Tls, KlError> {
    let wrong = |error| KlError::usage(format!("cannot speak TLS with {chain} and {key}")).because(error);
    Tls::new(&pem(chain)?, &pem(key)?).map_err(wrong)
}

/// Shows the certificate as it is in its file now; one that cannot be used changes nothing.
fn reload(tls: &Tls, chain: &Utf8PathBuf, key: &Utf8PathBuf) {
    let replaced = pem(chain).and_then(|chain_pem| {
        let wrong = |error| KlError::usage(format!("cannot speak TLS with {chain} and {key}")).because(error);
        tls.replace(&chain_pem, &pem(key)?).map_err(wrong)
    });
    match replaced {
        Ok(()) => tracing::info!(%chain, "the certificate was read again"),
        Err(error) => tracing::error!(error = error.chain(), "the certificate stays as it was"),
    }
}
