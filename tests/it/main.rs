//! The one integration binary: a module for each subject.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs, read their environment and look at the clock; the rule is for kl itself"
)]

#[macro_use]
mod harness;

mod lab;
mod terraform_process;
mod workspace;
