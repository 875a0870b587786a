//! Tokens: what is shown and kept of them, what they open, and what becomes of who has none.

use std::time::{Duration, Instant};

use super::{Server, empty, lock, token};
use crate::harness::database::Database;
use crate::harness::site::Site;

on_both_databases!(
    a_token_is_shown_once_and_kept_as_a_digest,
    what_a_token_does_not_allow_is_refused_and_changes_nothing,
    a_token_that_has_ended_opens_nothing,
    failed_logins_are_slowed_down_and_others_get_in,
);

fn a_token_is_shown_once_and_kept_as_a_digest(database: &Database) {
    let site = Site::on(database);
    let create = |name: &str| site.kl().args(["token", "create", name, "--states", "live/**", "--role", "write"]);
    let said = create("ci-prod").args(["--actor", "alice"]).exits(0);
    let first = said.stdout.trim_end().to_owned();
    assert!(first.starts_with("klt_") && first.len() == 85 && said.stdout.lines().count() == 1, "{first}");
    assert!(said.stderr.contains("shown this once") && !said.stderr.contains(&first), "{}", said.stderr);
    let made = create("laptop").args(["--expires-in", "90d", "--format", "json"]).exits(0).json();
    let second = made["token"].as_str().unwrap();
    assert!(
        made["expires_at"].is_string() && made["states"] == "live/**" && second.contains(made["id"].as_str().unwrap())
    );

    let said = create("ci-prod").exits(3).stderr;
    assert!(said.contains("there is a token \"ci-prod\" already") && said.contains("kl token revoke"), "{said}");
    for wrong in [&["--expires-in", "0s"][..], &["--expires-in", "20000d"], &["--role", "root"]] {
        drop(
            site.kl()
                .args(["token", "create", "x", "--states", "**", "--role", "read"])
                .args(wrong.iter().copied())
                .exits(3),
        );
    }
    drop(site.kl().args(["token", "create", "a\nb", "--states", "**", "--role", "read"]).exits(3));

    let listed = |format: &str| site.kl().args(["token", "list", "--format", format]).exits(0).stdout;
    for format in ["table", "json", "markdown"] {
        let said = listed(format);
        for part in ["ci-prod", "laptop", "live/**", "write", "valid"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains(&first[21..]) && !said.contains(&second[21..]), "{said}");
    }
    let kept = database.rows("SELECT id, name, role, states, hash, created_by FROM access_tokens");
    assert_eq!(kept.len(), 2);
    for text in kept.into_iter().flatten().flatten() {
        assert!(!first[21..].contains(&text) && !second[21..].contains(&text), "{text} is of a token's secret");
    }

    // By its name, its id, or the token itself, which is not repeated.
    let revoke = |text: &str| site.kl().args(["token", "revoke", text, "--actor", "bob"]);
    drop(revoke("ci-prod").exits(0));
    assert_eq!(listed("json").matches("\"revoked\"").count(), 1);
    let said = revoke(second).exits(0);
    assert!(!said.stdout.contains(second) && said.stdout.contains("laptop"), "{}", said.stdout);
    let said = revoke("nobody").exits(3).stderr;
    assert!(said.contains("no token of this name or id"), "{said}");
    // The name is free again.
    let third = create("ci-prod").exits(0).stdout;
    drop(revoke(&third[4..20]).exits(0));
    let tokens = site.kl().args(["token", "list", "--format", "json"]).exits(0).json();
    assert_eq!(tokens["tokens"].as_array().unwrap().len(), 3);
    assert!(tokens["tokens"].as_array().unwrap().iter().all(|token| token["revoked_by"] == "bob"));
}

/// Everything that a role or a pattern keeps out, and that what it lets in does its work.
fn what_a_token_does_not_allow_is_refused_and_changes_nothing(database: &Database) {
    let site = Site::on(database);
    let [read, write, admin] = ["read", "write", "admin"].map(|role| token(&site, role, "live/*", role));
    let every = token(&site, "every", "**", "admin");
    let server = Server::start(&site);
    let web = "/states/live%2Fweb";
    let ask = |method: &str, path: &str, token: &str, body: &str| server.asks(method, path, Some(token), body);
    let expect = |asked: super::Answered, status: u16, part: &str| {
        assert!(asked.status == status && asked.body.contains(part), "{asked:?}");
        asked
    };
    let document = empty(1, "one");

    // Without a right token there is nothing, and the answer asks for one.
    let nobody = expect(server.asks("GET", web, None, ""), 401, "give the token");
    assert_eq!(nobody.headers["www-authenticate"], "Basic realm=\"kl\"");
    expect(ask("GET", web, "secret", ""), 401, "not right");
    let wrong = format!("{}{}", &read[..84], if read.ends_with('0') { '1' } else { '0' });
    expect(ask("LOCK", web, &wrong, &lock("x")), 401, "not right");
    expect(ask("GET", web, &read, ""), 404, "no such state");

    // No lock document: Terraform would ask again for as long as -lock-timeout says.
    for (token, path, part) in [
        (&read, web, "may only read"),
        (&write, "/states/live", "is for states like \"live/*\", not for \"live\""),
        (&admin, "/states/live%2Fweb%2Feu", "is for states like"),
    ] {
        expect(ask("LOCK", path, token, &lock("x")), 403, part);
    }
    expect(ask("GET", "/states/other", &admin, ""), 403, "is for states like");
    assert_eq!(database.value("SELECT count(*) FROM states"), Some("0".into()), "nothing came to be");

    // One slash too many is no other state.
    for path in ["/states/live%2F", "/states/live/", "/states/live%2Fweb/", "/states//web", "/states/live//"] {
        for (method, body) in [("LOCK", lock("one")), ("GET", String::new())] {
            expect(ask(method, path, &every, &body), 400, "none is begun whose name has a /");
        }
    }
    assert_eq!(database.value("SELECT count(*) FROM states"), Some("0".into()));

    expect(ask("LOCK", web, &write, &lock("one")), 200, "");
    // With `unlock_method = "DELETE"` Terraform would remove the state.
    expect(ask("DELETE", web, &write, &lock("one")), 400, "this is an unlock");
    for (method, path, body) in [
        ("POST", format!("{web}?ID=one"), document.as_str()),
        ("DELETE", format!("{web}?ID=one"), ""),
        ("DELETE", web.to_owned(), ""),
        ("UNLOCK", web.to_owned(), &lock("one")),
        ("UNLOCK", web.to_owned(), ""),
        ("POST", "/unlocks/live%2Fweb".to_owned(), &lock("one")),
    ] {
        expect(ask(method, &path, &read, body), 403, "may ");
    }
    for (method, path) in [("DELETE", format!("{web}?ID=one")), ("UNLOCK", web.to_owned())] {
        expect(ask(method, &path, &write, ""), 403, "this needs the role admin");
    }
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("0".into()));
    assert_eq!(database.value("SELECT actor FROM runs WHERE ended_at IS NULL"), Some("write (alice@laptop)".into()));

    expect(ask("POST", &format!("{web}?ID=one"), &write, &document), 200, "");
    expect(ask("GET", web, &read, ""), 200, "\"serial\": 1");
    expect(ask("UNLOCK", web, &write, &lock("one")), 200, "");
    expect(ask("LOCK", web, &write, &lock("two")), 200, "");
    expect(ask("UNLOCK", web, &admin, ""), 200, "");
    expect(ask("DELETE", web, &admin, ""), 200, "");
    assert_eq!(database.value("SELECT count(*) FROM runs WHERE ended_at IS NULL"), Some("0".into()));
    let tokens = site.kl().args(["token", "list", "--format", "json"]).exits(0).json();
    assert!(tokens["tokens"].as_array().unwrap().iter().all(|token| token["last_used_at"].is_string()), "{tokens}");

    // A token that was cut off when it was copied.
    expect(ask("GET", "/states/live%2Fcut", &admin[..40], ""), 401, "the token is not right");

    let said = server.stops().stderr;
    let cut = said.lines().find(|line| line.contains("live%2Fcut")).unwrap();
    assert!(cut.contains(&format!("token=\"{}\"", &admin[4..20])), "{cut}");
    let id = &write[4..20];
    for part in [
        "status=403",
        "status=401",
        "status=200",
        "method=\"LOCK\"",
        "path=\"/states/live%2Fweb\"",
        "peer=127.0.0.1",
        &format!("token=\"{id}\""),
        // Why something was refused stands nowhere else: Terraform shows no more than a number.
        "reason=\"give the token as the password\"",
        "may only read",
        "this needs the role admin",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let failed = said.lines().find(|line| line.contains("status=401") && line.contains("LOCK")).unwrap();
    assert!(failed.contains(&format!("token=\"{}\"", &read[4..20])), "{failed}");
    for secret in [&read, &write, &admin] {
        assert!(!said.contains(&secret[21..]), "{said}");
    }
}

fn a_token_that_has_ended_opens_nothing(database: &Database) {
    let site = Site::on(database);
    let (brief, gone, lasting) = (
        token(&site, "brief", "**", "admin"),
        token(&site, "gone", "**", "admin"),
        token(&site, "lasting", "**", "read"),
    );
    let server = Server::start(&site);
    for token in [&brief, &gone, &lasting] {
        assert_eq!(server.asks("GET", "/states/live", Some(token), "").status, 404);
    }
    // From now on, also for a server that runs.
    drop(site.kl().args(["token", "revoke", "gone"]).exits(0));
    database.execute("UPDATE access_tokens SET expires_at = created_at WHERE name = 'brief'");
    for (token, part) in [(&brief, "has expired"), (&gone, "was revoked")] {
        for method in ["GET", "POST", "DELETE", "LOCK", "UNLOCK"] {
            let asked = server.asks(method, "/states/live", Some(token), &lock("x"));
            assert!(asked.status == 401 && asked.body.contains(part), "{asked:?}");
            drop(server.asks("GET", "/states/live", Some(&lasting), ""));
        }
    }
    assert_eq!(database.value("SELECT count(*) FROM states"), Some("0".into()));
    let listed = site.kl().args(["token", "list"]).exits(0).stdout;
    assert!(listed.contains("expired") && listed.contains("revoked") && listed.contains("valid"), "{listed}");
}

fn failed_logins_are_slowed_down_and_others_get_in(database: &Database) {
    let site = Site::on(database);
    let right = token(&site, "ci", "**", "read");
    let server = Server::start(&site);
    // Somebody knows the public part of the token, and stands behind the same proxy.
    let wrong = format!("{}{}", &right[..21], "0".repeat(64));
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(server.asks("GET", "/states/live", Some(&wrong), "").status, 401);
    }
    assert!(began.elapsed() >= Duration::from_millis(750), "the fourth and the fifth waited");
    // Who fails beside that does not wait for it, once somebody got in from there.
    assert_eq!(server.asks("GET", "/states/live", Some(&right), "").status, 404);
    // Many at once, of one token: the most wait, the rest is turned away, and the right one gets in among them.
    let answers: Vec<super::Answered> = std::thread::scope(|scope| {
        let ask = || server.asks("GET", "/states/live", Some(&wrong), "");
        let tasks: Vec<_> = (0..60).map(|_| scope.spawn(ask)).collect();
        assert_eq!(server.asks("GET", "/states/live", Some(&right), "").status, 404);
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| [401, 429].contains(&answer.status)), "{answers:?}");
    // Somebody who gets in makes the others' failures forgotten; there are too many of them all the same.
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{refused:?}");
    assert_eq!(server.asks("GET", "/states/live", Some(&right), "").status, 404);
}
