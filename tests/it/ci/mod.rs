//! `kl ci` end to end: real kl, real Terraform, a real database, and stand-ins for the forges over HTTP.

mod github;
mod gitlab;
mod matrix;
mod mishaps;
mod secrets;

use crate::harness::database::Database;
use crate::harness::site::Site;

/// A file with one resource.
fn one(name: &str, value: u32) -> String {
    format!("resource \"terraform_data\" \"{name}\" {{\n  input = {value}\n}}\n")
}

/// A repository with one project that has been applied once: `base`, `a` and `b`.
fn prepared(database: &Database) -> Site {
    let site = Site::on(database);
    site.write("kl.yaml", "projects:\n  - name: live\n    dir: live\n");
    site.write("live/main.tf", &one("base", 1));
    for name in ["a", "b"] {
        site.write(&format!("live/{name}.tf"), &one(name, 1));
    }
    drop(site.kl().args(["apply", "live", "--auto-approve", "--actor", "setup"]).exits(0));
    site
}

/// The state has this value.
#[track_caller]
fn assert_committed(site: &Site, name: &str, value: u32) {
    let address = format!("terraform_data.{name}");
    let shown = site.kl().args(["state", "show", &address, "--dir", "live"]).exits(0).stdout;
    assert!(shown.contains(&format!("\"value\": {value}")), "{shown}");
}
