//! Many at once on one state: plain Terraforms among themselves, beside runs of kl, and a crowd that wants one lock.

use std::sync::Arc;

use nix::sys::signal::Signal;
use reqwest::Client;
use serde_json::Value;

use super::{Server, empty, lock, token};
use crate::backend::site;
use crate::harness::database::{Database, block_on};
use crate::harness::site::Site;
use crate::stage::{CHAIN, Gates, assert_tidy, runs};

on_both_databases!(
    plain_applies_follow_each_other,
    a_plain_apply_and_a_kl_apply_keep_each_other_out,
    the_lock_of_a_killed_terraform_stays_until_somebody_takes_it_away,
    of_two_hundred_that_lock_at_once_one_wins_each_time,
);

const APPLY: [&str; 3] = ["apply", "-auto-approve", "-input=false"];

fn plain_applies_follow_each_other(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    let secret = token(&site, "ci", "live", "write");
    let server = Server::start(&site);
    drop(server.terraform(&site, "live", &secret, &["init", "-input=false"]).exits(0));
    let apply = |value: usize, more: &[&str]| {
        let value = format!("-var=value={value}");
        server.terraform(&site, "live", &secret, &APPLY).args([var.as_str(), &value]).args(more.iter().copied())
    };

    // The second is told of the first.
    gates.close("apply");
    let first = apply(1, &[]).spawn();
    gates.reached("apply");
    let said = apply(2, &[]).exits(1).stderr;
    assert!(said.contains("already locked") && said.contains("is locked by ci ("), "{said}");
    gates.open("apply");
    drop(first.exits(0));
    assert_tidy(database, 1);

    // Those that wait come in turn, whatever the turn is.
    let waiting: Vec<_> = (2..6).map(|value| apply(value, &["-lock-timeout=90s"]).spawn()).collect();
    for one in waiting {
        drop(one.exits(0));
    }
    assert_tidy(database, 5);
    assert_eq!(runs(database, "committed").len(), 5);
    let pulled = site.kl().args(["state", "pull", "live"]).exits(0).json();
    assert_eq!((&pulled["serial"], pulled["resources"].as_array().map(Vec::len)), (&5.into(), Some(3)));
    drop(server.stops());
}

fn a_plain_apply_and_a_kl_apply_keep_each_other_out(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    let secret = token(&site, "ci", "live", "write");
    let server = Server::start(&site);
    drop(server.terraform(&site, "live", &secret, &["init", "-input=false"]).exits(0));
    let plain =
        |more: &[&str]| server.terraform(&site, "live", &secret, &APPLY).arg(var.as_str()).args(more.iter().copied());
    let own = |value: &str| {
        site.kl().args(["apply", "live", "--auto-approve", "--actor", "bob", "--var", value, &format!("-{var}")])
    };

    gates.close("apply");
    let running = own("value=1").spawn();
    gates.reached("apply");
    let said = plain(&[]).exits(1).stderr;
    let run = runs(database, "applying").remove(0);
    for part in ["already locked", "bob", &run, "expires in"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let waiting = plain(&["-var=value=1", "-lock-timeout=60s"]).spawn();
    gates.open("apply");
    drop(running.exits(0));
    drop(waiting.exits(0));
    assert_tidy(database, 1);

    gates.close("apply");
    let running = plain(&["-var=value=2"]).spawn();
    gates.reached("apply");
    let said = own("value=3").exits(2).stderr;
    assert!(said.contains("is locked by") && said.contains("ci (") && said.contains("does not expire"), "{said}");
    let waiting = own("value=3").args(["--wait", "1m"]).spawn();
    gates.open("apply");
    drop(running.exits(0));
    drop(waiting.exits(0));
    // Each sees what the other did.
    let said = plain(&["-var=value=3"]).exits(0).stdout;
    assert!(said.contains("No changes"), "{said}");
    assert_tidy(database, 3);
    drop(server.stops());
}

fn the_lock_of_a_killed_terraform_stays_until_somebody_takes_it_away(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let var = format!("-var={}", gates.var());
    let (secret, admin) = (token(&site, "ci", "live", "write"), token(&site, "chief", "**", "admin"));
    let server = Server::start(&site);
    let run = |token: &str, args: &[&str]| server.terraform(&site, "live", token, args);
    drop(run(&secret, &["init", "-input=false"]).exits(0));
    gates.close("apply");
    let running = run(&secret, &APPLY).arg(var.as_str()).spawn();
    gates.reached("apply");
    running.signal(Signal::SIGKILL);
    gates.open("apply");
    drop(running.ends());

    let said = run(&secret, &APPLY).arg(var.as_str()).exits(1).stderr;
    assert!(said.contains("is locked by ci ("), "{said}");
    let said = site.kl().args(["status"]).exits(0).stdout;
    assert!(said.contains("locked by") && said.contains("ci ("), "{said}");
    // Who may write may not take it away, and who may do that does.
    drop(run(&secret, &["force-unlock", "-force", "x"]).exits(1));
    assert_eq!(runs(database, "reserved").len(), 1);
    drop(run(&admin, &["force-unlock", "-force", "x"]).exits(0));
    assert_eq!(runs(database, "aborted").len(), 1);
    drop(run(&secret, &APPLY).arg(var.as_str()).exits(0));
    assert_tidy(database, 1);
    drop(server.stops());
}

fn of_two_hundred_that_lock_at_once_one_wins_each_time(database: &Database) {
    let site = Site::on(database);
    let secret = token(&site, "crowd", "**", "write");
    let server = Arc::new(Server::start(&site));
    let path = "/states/crowd";
    block_on(async {
        let client = Client::new();
        for round in 1..=2_i64 {
            let tasks: Vec<_> = (0..200)
                .map(|number| {
                    let (server, client, secret) = (Arc::clone(&server), client.clone(), secret.clone());
                    tokio::spawn(async move {
                        let id = format!("{round}-{number}");
                        (server.ask(&client, "LOCK", path, Some(&secret), &lock(&id)).await, id)
                    })
                })
                .collect();
            let mut winners = Vec::new();
            for task in tasks {
                let (answered, id) = task.await.unwrap();
                match answered.status {
                    200 => winners.push(id),
                    423 => {
                        let document: Value = serde_json::from_str(&answered.body).unwrap();
                        assert!(document["ID"].as_str().unwrap().contains("is locked by crowd (alice@laptop)"));
                    }
                    _ => panic!("{answered:?}"),
                }
            }
            let [winner] = winners.as_slice() else { panic!("{winners:?}") };
            // The winner writes, and whoever comes with another lock does not.
            let write = format!("{path}?ID={winner}");
            let other = server.ask(&client, "POST", &format!("{path}?ID=x"), Some(&secret), &empty(round, "one")).await;
            assert_eq!(other.status, 409, "{other:?}");
            assert_eq!(server.ask(&client, "POST", &write, Some(&secret), &empty(round, "one")).await.status, 200);
            assert_eq!(server.ask(&client, "UNLOCK", path, Some(&secret), &lock(winner)).await.status, 200);
        }
    });
    assert_tidy(database, 2);
    assert_eq!(runs(database, "committed").len(), 2);
    assert_eq!(database.value("SELECT count(*) FROM runs"), Some("2".into()));
}
