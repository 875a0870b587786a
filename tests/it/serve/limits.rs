//! What a client may cost: heads that never end, bodies that are too long, connections, and time; and how a server ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kl_runner::domain::id::StateName;
use kl_runner::domain::run::Origin;
use kl_runner::domain::token::Token;
use kl_runner::forge::install_tls_provider;
use kl_runner::server::access::Access;
use kl_runner::server::{Limits, Server};
use kl_runner::store::open;
use reqwest::{Body, Certificate, Client};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Server as Program, lock};
use crate::harness::database::block_on;
use crate::harness::site::Site;

/// A server in this process, with limits that a test can wait for.
struct Served {
    address: SocketAddr,
    token: String,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    _dir: TempDir,
}

/// One with the lock `x` on its state held already.
async fn serve(limits: Limits) -> Served {
    install_tls_provider();
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("kl.db").display().to_string().parse().unwrap()).await.unwrap();
    let token = Token::of([1; 8], [2; 32]);
    let start = async |limits: Limits| {
        let access = Access::to(StateName::new("live").unwrap(), &token);
        let server = Arc::new(Server::new(store.clone(), access, None, Origin::default(), limits));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        (address, stop.clone(), tokio::spawn(server.serve(listener, None, stop)))
    };
    let (address, stop, serving) = start(Limits::default()).await;
    let url = format!("http://{address}/locks/live");
    let asked = Client::new().post(url).basic_auth("kl", Some(token.expose())).body(lock("x")).send().await.unwrap();
    assert_eq!(asked.status().as_u16(), 200);
    stop.cancel();
    serving.await.unwrap();
    let (address, stop, serving) = start(limits).await;
    Served { address, token: token.expose(), stop, serving, _dir: dir }
}

impl Served {
    fn request(&self, body: impl Into<Body>) -> reqwest::RequestBuilder {
        let url = format!("http://{}/states/live?ID=x", self.address);
        Client::new().post(url).basic_auth("kl", Some(&self.token)).body(body)
    }

    /// The head of a request, sent by somebody who takes in little at once.
    async fn begins(&self, line: &str, length: usize) -> TcpStream {
        self.begins_with(line, length, "").await
    }

    async fn begins_with(&self, line: &str, length: usize, header: &str) -> TcpStream {
        use base64::Engine as _;
        let login = base64::engine::general_purpose::STANDARD.encode(format!("kl:{}", self.token));
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut stream = socket.connect(self.address).await.unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: kl\r\nAuthorization: Basic {login}\r\nContent-Length: {length}\r\n{header}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// A request that is worked on, and whose body stays away.
    async fn stalled(&self) -> TcpStream {
        let mut stream =
            self.begins_with("POST /states/live?ID=x", 100, "Expect: 100-continue\r\nConnection: close\r\n").await;
        let mut wanted = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut wanted).await.unwrap();
        assert!(wanted.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&wanted));
        stream.write_all(b"{").await.unwrap();
        stream
    }
}

fn small() -> Limits {
    Limits { head: Duration::from_millis(300), ..Limits::default() }
}

/// Everything that comes until the other side ends it.
async fn rest(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    // A connection that is reset has ended, too.
    drop(stream.read_to_end(&mut said).await);
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_never_ends_and_an_idle_connection_are_cut() {
    let served = serve(small()).await;
    for begun in ["", "GET /healthz HT", "GET /healthz HTTP/1.1\r\nHost: kl\r\nX-Slow: "] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let began = Instant::now();
        let said = rest(&mut stream).await;
        assert!(began.elapsed() < Duration::from_secs(20) && !said.contains("200"), "{begun:?}: {said}");
    }
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: kl\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.contains("200 OK"));
    // A head that is far too long.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!("GET /healthz HTTP/1.1\r\nHost: kl\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    drop(stream.write_all(head.as_bytes()).await);
    assert!(!rest(&mut stream).await.contains("200 OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_long_is_refused() {
    let served = serve(Limits { body: 1000, ..small() }).await;
    let answered = served.request("x".repeat(1001)).send().await.unwrap();
    assert_eq!(answered.status().as_u16(), 413);
    assert!(answered.text().await.unwrap().contains("longer than 1000 bytes"));
    assert_eq!(served.request("x".repeat(1000)).send().await.unwrap().status().as_u16(), 400);
}

/// Whoever may not write is told so before anything large is taken in.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_nobody_wants_is_not_waited_for() {
    let served = serve(Limits::default()).await;
    for (line, status) in [
        ("POST /states/live?ID=another", "409"),
        ("POST /states/live", "409"),
        ("POST /states/other?ID=x", "403"),
        ("POST /states/live?ID=x", "413"),
    ] {
        let mut stream = served.begins(line, 300 << 20).await;
        let said = tokio::time::timeout(Duration::from_secs(20), rest(&mut stream)).await.unwrap();
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {said}");
    }
    // Who sends it all the same hears why, and not that the connection broke.
    let url = format!("http://{}/states/live?ID=another", served.address);
    let asked = Client::new().post(url).basic_auth("kl", Some(&served.token)).body(vec![b' '; 8 << 20]);
    let answered = asked.send().await.unwrap();
    assert_eq!(answered.status().as_u16(), 409);
    assert!(answered.text().await.unwrap().contains("another lock is held: x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_wait_until_there_is_room_for_them() {
    let served = serve(Limits { memory: 1 << 10, ..Limits::default() }).await;
    let mut first = served.stalled().await;
    let read =
        || Client::new().get(format!("http://{}/states/live", served.address)).basic_auth("kl", Some(&served.token));
    let second = tokio::spawn(served.request("x".repeat(2000)).send());
    assert_eq!(read().send().await.unwrap().status().as_u16(), 404);
    assert!(!second.is_finished());
    first.write_all(" ".repeat(99).as_bytes()).await.unwrap();
    assert!(rest(&mut first).await.starts_with("HTTP/1.1 400"));
    // One that is larger than all the room there is has its turn as well.
    assert_eq!(second.await.unwrap().unwrap().status().as_u16(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_take_an_answer_is_given_up() {
    let served = serve(Limits { connections: 1, unread: Duration::from_millis(300), ..Limits::default() }).await;
    let value = "x".repeat(16 << 20);
    let document = format!(
        r#"{{"version":4,"serial":1,"lineage":"l","outputs":{{"a":{{"value":"{value}","type":"string"}}}},"resources":[]}}"#
    );
    assert_eq!(served.request(document).send().await.unwrap().status().as_u16(), 200);
    let deaf = served.begins("GET /states/live", 0).await;
    // It had the only connection.
    let health = format!("http://{}/healthz", served.address);
    assert_eq!(Client::new().get(health).send().await.unwrap().status().as_u16(), 200);
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stays_away_has_its_time() {
    let served = serve(Limits { time: Duration::from_millis(300), ..Limits::default() }).await;
    let said = rest(&mut served.stalled().await).await;
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("no answer within"), "{said}");
}

/// Who says nothing, half a request, or nothing more, keeps nobody out; who has asked is answered all the same.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_make_room_for_those_that_ask() {
    let served = serve(Limits { connections: 20, ..Limits::default() }).await;
    let mut asking = served.stalled().await;
    let whole = "GET /healthz HTTP/1.1\r\nHost: kl\r\n\r\n";
    let mut silent = Vec::new();
    for begun in ["", "GET /healthz HTTP/1.1\r\nHost: k", whole, &format!("{whole}GET /")] {
        for _ in 0..100 {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            // Among so many some have had to go before they could say all of it.
            drop(stream.write_all(begun.as_bytes()).await);
            silent.push(stream);
        }
        let began = Instant::now();
        let health = format!("http://{}/healthz", served.address);
        assert_eq!(Client::new().get(health).send().await.unwrap().status().as_u16(), 200, "{begun:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{begun:?}: it had to wait for {:?}", began.elapsed());
    }
    asking.write_all(" ".repeat(99).as_bytes()).await.unwrap();
    assert!(rest(&mut asking).await.starts_with("HTTP/1.1 400"));
    // The oldest of them have been let go.
    assert!(!rest(&mut silent[0]).await.contains("200 OK"));
}

/// Nor its end: whoever is to listen next would be waited for, while nobody answers.
#[test]
fn who_has_asked_nothing_does_not_hold_up_a_servers_end() {
    use std::io::{Read as _, Write as _};
    let site = Site::new();
    for (server, begun) in [
        (Program::start(&site), "G"),
        (Program::start(&site), "GET /states/live HTTP/1.1\r\nHost: k"),
        (Program::start_with_tls(&site), ""),
        (Program::start_with_tls(&site), "\u{16}\u{3}\u{1}"),
    ] {
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream.write_all(begun.as_bytes()).unwrap();
        // It is accepted when the next one is.
        let trusted = server.authority.iter().map(|authority| Certificate::from_pem(authority.as_bytes()).unwrap());
        let client = Client::builder().tls_certs_only(trusted).build().unwrap();
        assert_eq!(block_on(server.ask(&client, "GET", "/healthz", None, "")).status, 200);
        let began = Instant::now();
        drop(server.stops());
        assert!(began.elapsed() < Duration::from_secs(10), "{begun:?}: {:?}", began.elapsed());
        drop(stream.read_to_end(&mut Vec::new()));
    }
}

/// Whoever comes while one server ends and the next one begins waits for that.
#[test]
fn a_socket_that_somebody_keeps_open_is_listened_on_by_one_server_after_the_other() {
    use std::io::{Read as _, Write as _};
    let site = Site::new();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let start = || {
        let kl = site.kl().args(["serve", "--listen-stdin"]).stdin_socket(socket.try_clone().unwrap());
        Program::of(kl, None)
    };
    let first = start();
    assert_eq!(first.address(), socket.local_addr().unwrap().to_string());
    assert_eq!(first.asks("GET", "/healthz", None, "").status, 200);
    drop(first.stops());
    let mut between = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    between.write_all(b"GET /healthz HTTP/1.1\r\nHost: kl\r\nConnection: close\r\n\r\n").unwrap();
    let second = start();
    let mut said = String::new();
    between.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    drop(second.stops());
    // What is no such socket is refused, and so is one that others can reach, without TLS.
    let serve = || site.kl().args(["serve", "--listen-stdin"]);
    let said = serve().stdin("").exits(3).stderr;
    assert!(said.contains("the standard input is no socket to listen on"), "{said}");
    let connected = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let said = serve().stdin_socket(connected).exits(3).stderr;
    assert!(said.contains("is a connection, and no socket that listens") && said.contains("Accept=no"), "{said}");
    let open = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let said = serve().stdin_socket(open).exits(3).stderr;
    assert!(said.contains("can be reached by others"), "{said}");
}

/// More than a server takes by itself, before any of them has begun with TLS.
#[test]
fn hundreds_of_silent_connections_do_not_hold_a_server_up() {
    let site = Site::new();
    let server = Program::start_with_tls(&site);
    let silent: Vec<_> = (0..600).map(|_| std::net::TcpStream::connect(server.address()).unwrap()).collect();
    let began = Instant::now();
    let trusted = Certificate::from_pem(server.authority.as_ref().unwrap().as_bytes()).unwrap();
    let client = Client::builder().tls_certs_only([trusted]).build().unwrap();
    assert_eq!(block_on(server.ask(&client, "GET", "/healthz", None, "")).status, 200);
    assert!(began.elapsed() < Duration::from_secs(5), "it had to wait for {:?}", began.elapsed());
    drop(silent);
    drop(server.stops());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_when_all_places_are_taken_waits_for_one() {
    // One that is worked on has the only connection.
    let served = serve(Limits { connections: 1, time: Duration::from_millis(700), ..Limits::default() }).await;
    let (mut stalled, began) = (served.stalled().await, Instant::now());
    let health = format!("http://{}/healthz", served.address);
    assert_eq!(Client::new().get(health).send().await.unwrap().status().as_u16(), 200);
    assert!(began.elapsed() >= Duration::from_millis(600), "{:?}", began.elapsed());
    assert!(rest(&mut stalled).await.starts_with("HTTP/1.1 503"));
    // One that is worked on holds the only place.
    let served = serve(Limits { requests: 1, time: Duration::from_millis(700), ..Limits::default() }).await;
    let mut stalled = served.stalled().await;
    let answered = served.request("{}").send().await.unwrap();
    assert!([400, 503].contains(&answered.status().as_u16()), "{answered:?}");
    assert!(rest(&mut stalled).await.starts_with("HTTP/1.1 503"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_begun_is_answered_before_the_end_and_has_its_time_for_that() {
    let served = serve(Limits::default()).await;
    let mut asking = served.stalled().await;
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    // It is known to be accepted when the next one is answered.
    assert_eq!(served.request("{}").send().await.unwrap().status().as_u16(), 400);
    served.stop.cancel();
    // Nobody is accepted any more, and who has asked nothing is let go.
    assert_eq!(rest(&mut idle).await, "");
    asking.write_all(" ".repeat(99).as_bytes()).await.unwrap();
    let said = rest(&mut asking).await;
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    served.serving.await.unwrap();
    assert!(TcpStream::connect(served.address).await.is_err());

    let served = serve(Limits { grace: Duration::from_millis(300), ..Limits::default() }).await;
    let mut asking = served.stalled().await;
    served.stop.cancel();
    let began = Instant::now();
    served.serving.await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300) && began.elapsed() < Duration::from_secs(20));
    assert_eq!(rest(&mut asking).await, "");
}
