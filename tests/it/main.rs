//! The one integration binary: a module for each subject.

mod lab;
mod terraform_process;
mod workspace;
