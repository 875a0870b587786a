//! The one integration binary: a module for each subject.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs, read their environment and look at the clock; the rule is for kl itself"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[macro_use]
mod harness;

mod action;
mod address_text;
mod architecture;
mod backend;
mod bad_input;
mod cases;
mod ci;
mod ci_projects;
mod clock;
mod concurrency;
mod configuration;
mod crash;
mod day;
mod demo;
mod forges;
mod fuzz;
mod generated;
mod github;
mod gitlab;
mod inputs;
mod kl_yaml;
mod lab;
mod mishaps;
mod naming;
mod operations;
mod plain;
mod provider_secrets;
mod report;
mod roles;
mod secrets;
mod serve;
mod setup;
mod simulation;
mod since;
mod stage;
mod state_document;
mod state_import;
mod stress;
mod template;
mod terraform_process;
mod third_party;
mod travel;
mod trouble;
mod upkeep;
mod views;
mod workflows;
mod workspace;
