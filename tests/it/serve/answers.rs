//! The table of answers in docs/backend.md: every code that the server can give stands in it, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

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

    let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/backend.md")).unwrap();
    let row = Regex::new(r"(?m)^\| (\d{3}(?:, \d{3})*) \|").unwrap();
    let told: BTreeSet<u16> = row
        .captures_iter(&docs)
        .flat_map(|row| row[1].split(", ").map(|code| code.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    assert_eq!(told, codes);
}
