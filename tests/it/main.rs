//! The one integration binary: a module for each subject.
#![expect(clippy::disallowed_methods, reason = "tests start processes and read the environment")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cases;
mod configuration;
mod generated;
mod lab;
mod terraform_process;
mod workspace;
