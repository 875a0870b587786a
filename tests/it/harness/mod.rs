//! What tests of the whole program stand on: the real binary, databases, checkouts, the real Terraform.
//!
//! A test usually makes a [`site::Site`], writes a configuration into its checkout, and runs [`kl::Kl`]:
//!
//! ```ignore
//! on_both_databases!(an_apply_is_committed);
//!
//! fn an_apply_is_committed(database: &Database) {
//!     let site = Site::on(database);
//!     site.write("live/main.tf", r#"resource "terraform_data" "a" {}"#);
//!     site.kl().args(["apply", "live", "--auto-approve"]).exits(0);
//!     assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("1".into()));
//! }
//! ```

#[macro_use]
pub(crate) mod database;
pub(crate) mod browser;
mod check;
pub(crate) mod forge;
pub(crate) mod kl;
pub(crate) mod providers;
pub(crate) mod runners;
pub(crate) mod site;
pub(crate) mod terraform;

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Looks again and again until there is something to see, and gives it. Panics when the time is up: a test waits for
/// what it can observe, and never for a time that somebody guessed.
pub(crate) fn wait_until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < limit, "waited {limit:?} in vain until {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Whether this is a CI job, where nothing may be left out.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}
