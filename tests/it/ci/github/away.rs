//! The database is away when the job's last step comes, and with the machine would go what Terraform did.

use std::fs;

use super::{Desk, Killed};
use crate::harness::database::Database;
use crate::trouble::server::Server;

#[test]
fn a_database_that_is_away_at_the_last_step_is_waited_for() {
    let Some(server) = Server::start() else { return };
    let database = Database::postgres(&server.url());
    let desk = Desk::new(&database);
    let Killed { checkout, push, go, .. } = desk.killed_at_work();
    fs::write(&go, "").unwrap();
    server.stops("fast");
    let finish = || desk.on_push(checkout.dir(), "alice", &push).args(["ci", "finish", "--wait"]);
    let said = finish().arg("1s").spawn().ends();
    assert!(!said.0.success(), "{said:?}");
    let left = desk.site.leftovers();
    assert_eq!(left.len(), 1);
    let dir = desk.site.path("tmp").join(&left[0]);
    let named = format!("save them before it goes: {dir}");
    assert!(said.1.stderr.contains(&named), "{said:?}");

    let mut waits = finish().arg("2m").spawn();
    waits.wait_for("the database does not answer, trying again");
    server.starts();
    let said = waits.exits(0).stderr;
    assert!(said.contains("kl recover") && said.contains("terraform_data.a"), "{said}");
    assert_eq!(desk.site.leftovers(), Vec::<String>::new());
}
