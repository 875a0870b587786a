//! Requests as nobody would make them by accident: paths, heads and bodies that mutation has made of good ones.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Server, empty, lock, token};
use crate::backend::BACKEND;
use crate::fuzz::mutate::{Dice, mutant};
use crate::fuzz::{plan, say};
use crate::harness::database::Database;
use crate::harness::site::Site;

on_both_databases!(whatever_is_sent_the_server_lives_and_the_state_is_what_somebody_wrote);

/// How many requests are made in the suite.
const REQUESTS: usize = 400;

fn request(method: &str, target: &str, login: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {target} HTTP/1.1\r\nHost: kl\r\nConnection: close\r\nAuthorization: Basic {login}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// What comes back; nothing when the connection is only cut.
fn send(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    // A server that has heard enough closes the connection.
    drop(stream.write_all(bytes));
    drop(stream.shutdown(Shutdown::Write));
    let mut said = Vec::new();
    drop(stream.read_to_end(&mut said));
    String::from_utf8_lossy(&said).into_owned()
}

fn whatever_is_sent_the_server_lives_and_the_state_is_what_somebody_wrote(database: &Database) {
    let site = Site::on(database);
    site.write("live/backend.tf", BACKEND);
    let (read, admin) = (token(&site, "reader", "live", "read"), token(&site, "chief", "other", "admin"));
    let writer = token(&site, "ci", "live", "write");
    let server = Server::start(&site);
    let document = empty(1, "one");
    for (method, path, body) in [
        ("LOCK", "/states/live", lock("one")),
        ("POST", "/states/live?ID=one", document.clone()),
        ("UNLOCK", "/states/live", lock("one")),
    ] {
        assert_eq!(server.asks(method, path, Some(&writer), &body).status, 200);
    }
    let before = site.kl().args(["state", "pull", "live"]).exits(0).stdout;

    let login = |token: &str| STANDARD.encode(format!("kl:{token}"));
    let mut seeds = Vec::new();
    for token in [&read, &admin] {
        for (method, target, body) in [
            ("GET", "/states/live", String::new()),
            ("LOCK", "/states/other", lock("one")),
            ("POST", "/states/other?ID=one", document.clone()),
            ("UNLOCK", "/states/other", lock("one")),
            ("DELETE", "/states/live", String::new()),
            ("POST", "/locks/live", lock("two")),
            ("POST", "/unlocks/live", String::new()),
            ("GET", "/readyz", String::new()),
        ] {
            seeds.push(request(method, target, &login(token), &body));
        }
    }
    let (seconds, seed) = plan();
    say(&format!("hostile requests: KL_FUZZ_SEED={seed}"));
    let mut dice = Dice::new(seed);
    let began = std::time::Instant::now();
    let mut made = 0;
    loop {
        let bytes = seeds.get(made).cloned().unwrap_or_else(|| mutant(&mut dice, &seeds));
        let said = send(&server, &bytes);
        let status = said.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        // 501 and 505 are answers, too: hyper gives none of them, so whatever begins with a 5 is a fault of ours.
        assert!(status.is_none_or(|status| !status.starts_with('5')), "{}\n{said}", String::from_utf8_lossy(&bytes));
        made += 1;
        if seconds.map_or(made >= REQUESTS, |limit| began.elapsed() >= limit) {
            break;
        }
    }
    assert_eq!(server.asks("GET", "/healthz", None, "").status, 200);
    assert_eq!(site.kl().args(["state", "pull", "live"]).exits(0).stdout, before);
    let said = server.stops().stderr;
    assert!(!said.contains("panicked"), "{said}");
    drop(site.kl().args(["db", "check"]).exits(0));
}
