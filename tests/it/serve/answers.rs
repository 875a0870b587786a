//! The table of answers in docs/backend.md: every code that the server can give stands in it, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use kl_runner::server::Limits;
use kl_runner::server::route::{self, Route};
use regex::Regex;

use super::Server;
use crate::harness::site::Site;

/// The codes that are written down in the server's sources.
fn written() -> BTreeSet<u16> {
    let code = Regex::new(r"(?:Answer::text|Answer::json|Self::text|Self::json|document)\(\s*(\d{3}),").unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server");
    let mut codes = BTreeSet::from([200]);
    for entry in fs::read_dir(sources).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        codes.extend(code.captures_iter(&text).map(|found| found[1].parse::<u16>().unwrap()));
    }
    // Nobody is there to hear it: it stands in the log alone.
    codes.remove(&499);
    codes
}

/// The code of the answer to bytes as they are.
fn answer(server: &Server, bytes: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    drop(stream.write_all(bytes));
    let mut said = Vec::new();
    drop(stream.read_to_end(&mut said));
    let said = String::from_utf8_lossy(&said);
    said.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn every_code_stands_in_the_table_and_no_other() {
    let site = Site::new();
    let server = Server::start(&site);
    // What is answered before anybody of ours hears of it.
    // As long as a head may be, and not at its end yet: a longer one would be cut off while it is sent.
    let long = |begun: &str| format!("{begun}{}", "x".repeat((32 << 10) - begun.len()));
    let mut codes = written();
    for (request, code) in [
        ("?\r\n\r\n".to_owned(), 400),
        (long("GET /"), 431),
        (long("GET / HTTP/1.1\r\nHost: kl\r\nX: "), 431),
        // What Terraform is told in place of a number.
        (
            "PUT /healthz HTTP/1.1\r\nHost: kl\r\nUser-Agent: Go-http-client/1.1\r\nConnection: close\r\n\r\n"
                .to_owned(),
            303,
        ),
    ] {
        let given = answer(&server, request.as_bytes());
        assert_eq!(given, code, "{request:.40}");
        codes.insert(given);
    }
    drop(server.stops());

    let docs = page();
    let row = Regex::new(r"(?m)^\| (\d{3}(?:, \d{3})*) \|").unwrap();
    let told: BTreeSet<u16> = row
        .captures_iter(&docs)
        .flat_map(|row| row[1].split(", ").map(|code| code.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    assert_eq!(told, codes);
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/backend.md")).unwrap()
}

/// What stands in the table of requests can be asked, and is what the table says.
#[test]
fn every_request_of_the_table_is_what_it_says() {
    let docs = page();
    let row = Regex::new(r"(?m)^\| (read|write|remove|lock|unlock|alive) \| (.+) \|$").unwrap();
    let way = Regex::new(r"([A-Z]+)(?: \(or ([A-Z]+)\))? `(/[^`]+)`").unwrap();
    let mut ways = 0;
    for row in row.captures_iter(&docs) {
        for way in way.captures_iter(&row[2]) {
            let (path, query) = way[3].split_once('?').map_or((&way[3], None), |(path, query)| (path, Some(query)));
            for method in [way.get(1), way.get(2)].into_iter().flatten() {
                ways += 1;
                let asked = match route::route(method.as_str(), path, query) {
                    Ok(Route::State { verb, .. }) => format!("{verb:?}").to_lowercase(),
                    Ok(Route::Health | Route::Ready) => "alive".to_owned(),
                    Err(refused) => panic!("{method:?} {path}: {refused:?}"),
                };
                assert_eq!(asked, row[1], "{} {path}", method.as_str());
            }
        }
    }
    assert!(ways >= 13, "{ways}");
}

/// The limits are the ones that are told.
#[test]
fn every_limit_is_what_the_page_says() {
    let (docs, limits) = (page(), Limits::default());
    let mebibytes = |bytes: usize| format!("{} MiB", bytes >> 20);
    let minutes = |time: Duration| format!("{} minutes", time.as_secs() / 60);
    let seconds = |time: Duration| format!("{} seconds", time.as_secs());
    for (what, told) in [
        ("a state document", mebibytes(limits.body)),
        ("documents that are taken in at once", mebibytes(limits.memory)),
        ("a request, from the end of its head to its answer", minutes(limits.time)),
        ("the head of a request, the beginnings of TLS", seconds(limits.head)),
        ("requests about states that are worked on at once", limits.requests.to_string()),
        ("connections at once", limits.connections.to_string()),
        ("a client that takes no byte", format!("{}; {}", seconds(limits.unread), minutes(limits.answer))),
        ("requests that have begun", seconds(limits.grace)),
    ] {
        let row = docs.lines().find(|line| line.strip_prefix("| ").is_some_and(|line| line.starts_with(what)));
        let row = row.unwrap_or_else(|| panic!("there is no row about {what}"));
        assert!(row.ends_with(&format!("| {told} |")), "{row}: {told}");
    }
}
