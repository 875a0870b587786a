//! Stand-ins for GitHub and GitLab on loopback: they remember what they are told, answer as the real ones do, can be made
//! to fail, and hold every request and every answer against the official API descriptions.

mod contract;
mod fault;
pub(crate) mod github;
pub(crate) mod gitlab;
mod history;
mod repository;
mod server;
mod stand_in;
mod written;

pub(crate) use fault::{Fault, Gate};
pub(crate) use history::{FileChange, Merge, OpenRequest};
pub(crate) use server::Behaviour;
pub(crate) use stand_in::StandIn;
