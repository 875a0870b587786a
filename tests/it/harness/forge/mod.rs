//! Stand-ins for GitHub and GitLab on loopback: they remember what they are told, answer as the real ones do, can be made
//! to fail, and hold every request and every answer against the official API descriptions.

mod contract;
pub(crate) mod github;
mod history;
mod server;

pub(crate) use history::{FileChange, Merge, OpenRequest};
pub(crate) use server::Fault;
