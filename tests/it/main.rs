//! The one integration binary: a module for each subject.

mod configuration;
mod generated;
mod lab;
mod terraform_process;
mod workspace;
