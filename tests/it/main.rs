//! The one integration binary: a module for each subject.
#![expect(clippy::disallowed_methods, reason = "tests start processes and read the environment")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod architecture;
#[macro_use]
mod harness;

mod cases;
mod configuration;
mod demo;
mod generated;
mod lab;
mod terraform_process;
mod third_party;
mod workspace;
