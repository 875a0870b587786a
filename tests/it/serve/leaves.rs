//! Clients that go away in the midst of a request: what has begun comes to its end, is on record, and leaves no lock that
//! nobody knows of.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Server, empty, lock, token};
use crate::backend::{shell, site};
use crate::harness::database::Database;
use crate::harness::wait_until;
use crate::stage::{assert_tidy, runs};

on_both_databases!(
    who_leaves_in_the_midst_of_a_request_cuts_nothing_off,
    kl_exec_frees_what_is_granted_to_somebody_who_has_left,
    a_removal_that_is_cut_off_leaves_no_lock,
);

const LIMIT: Duration = Duration::from_mins(1);

/// The moments of a step at which somebody may leave.
const MOMENTS: [&str; 3] = ["begin", "commit", "done"];

fn who_leaves_in_the_midst_of_a_request_cuts_nothing_off(database: &Database) {
    let site = site(database, "");
    let secret = token(&site, "ci", "live", "write");
    let login = STANDARD.encode(format!("kl:{secret}"));
    let steps = [
        ("LOCK", "/states/live", lock("one"), "lock the state"),
        ("POST", "/states/live?ID=one", empty(1, "l"), "write the state"),
        ("UNLOCK", "/states/live", lock("one"), "unlock the state"),
    ];
    for ((method, path, body, step), moment) in steps.iter().zip(MOMENTS.into_iter().rev()) {
        let (point, log) = (format!("store/{step}/{moment}"), site.path(method));
        let kl = site.kl().args(["serve", "--listen", "127.0.0.1:0"]);
        let kl = kl.env("KL_MISHAP", format!("{point}#1=stall:700")).env("KL_MISHAP_LOG", log.as_str());
        let server = Server::of(kl, None);
        let length = body.len();
        let mut client = TcpStream::connect(server.address()).unwrap();
        write!(
            client,
            "{method} {path} HTTP/1.1\r\nHost: kl\r\nAuthorization: Basic {login}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        wait_until(&format!("{point} is reached"), LIMIT, || {
            fs::read_to_string(&log).ok()?.lines().any(|line| line == point).then_some(())
        });
        drop(client);
        // It is done, and the log says for whom.
        let line = wait_until("it is in the log", LIMIT, || {
            server.log().lines().find(|line| line.contains(&format!("method=\"{method}\""))).map(str::to_owned)
        });
        let id = &secret[4..20];
        for part in ["status=200", "unheard=\"the client had left\"", id] {
            assert!(line.contains(part), "{part}: {line}");
        }
        // Whoever asks again for what was done already is told so.
        assert_eq!(server.asks(method, path, Some(&secret), body).status, 200);
        let live = usize::from(*method != "UNLOCK");
        assert_eq!(runs(database, "reserved").len(), live, "{method}");
        drop(server.stops());
    }
    assert_tidy(database, 1);
}

fn kl_exec_frees_what_is_granted_to_somebody_who_has_left(database: &Database) {
    let site = site(database, "");
    for moment in MOMENTS {
        let (point, log) = (format!("lock the state/{moment}"), site.path(moment));
        let script = format!(
            "curl -s -u kl:$TF_HTTP_PASSWORD -X LOCK -d '{{\"ID\":\"one\"}}' $TF_HTTP_ADDRESS & \
             until grep -qs '{point}' {log}; do sleep 0.02; done; kill -9 $!"
        );
        let kl = shell(&site, &script).env("KL_MISHAP", format!("store/{point}#1=stall:700"));
        let said = kl.env("KL_MISHAP_LOG", log.as_str()).exits(0).stderr;
        assert!(said.contains("without giving its lock back"), "{moment}: {said}");
        assert!(runs(database, "reserved").is_empty(), "{moment}");
    }
    assert_eq!(runs(database, "failed").len(), MOMENTS.len());
}

fn a_removal_that_is_cut_off_leaves_no_lock(database: &Database) {
    let site = site(database, "");
    let secret = token(&site, "chief", "live", "admin");
    let server = Server::start(&site);
    let document = empty(1, "l").replace("\"outputs\":{}", r#""outputs":{"o":{"value":1,"type":"number"}}"#);
    for (method, path, body, status) in [
        ("LOCK", "/states/live", lock("one"), 200),
        ("POST", "/states/live?ID=one", document, 200),
        ("DELETE", "/states/live", String::new(), 423),
        ("UNLOCK", "/states/live", lock("one"), 200),
    ] {
        assert_eq!(server.asks(method, path, Some(&secret), &body).status, status, "{method}");
    }
    drop(server.stops());
    let login = STANDARD.encode(format!("kl:{secret}"));
    for moment in MOMENTS {
        let kl = site.kl().args(["serve", "--listen", "127.0.0.1:0"]);
        let server = Server::of(kl.env("KL_MISHAP", format!("store/write the state at once/{moment}#1=kill")), None);
        let mut client = TcpStream::connect(server.address()).unwrap();
        write!(client, "DELETE /states/live HTTP/1.1\r\nHost: kl\r\nAuthorization: Basic {login}\r\n\r\n").unwrap();
        drop(client.read_to_end(&mut Vec::new()));
        assert_eq!(server.ends().0.signal(), Some(9), "{moment}");
        let newest = if moment == "done" { 2 } else { 1 };
        assert_tidy(database, newest);
    }
    let server = Server::start(&site);
    // Its answer was lost: whoever asks once more hears that it is done, and nothing is done twice.
    assert_eq!(server.asks("DELETE", "/states/live", Some(&secret), "").status, 200);
    let gone = server.asks("GET", "/states/live", Some(&secret), "").body;
    for part in ["\"serial\": 2", "\"lineage\": \"l\"", "\"resources\": []"] {
        assert!(gone.contains(part), "{part}: {gone}");
    }
    assert_eq!(server.asks("LOCK", "/states/live", Some(&secret), &lock("two")).status, 200);
    assert_eq!(server.asks("DELETE", "/states/live?ID=two", Some(&secret), "").status, 200);
    assert_eq!(server.asks("DELETE", "/states/live?ID=three", Some(&secret), "").status, 409);
    assert_eq!(server.asks("UNLOCK", "/states/live", Some(&secret), &lock("two")).status, 200);
    drop(server.stops());
    assert_tidy(database, 2);
}
