//! What the user wants: `kl.yaml`, and the CI job that kl runs in.

pub mod affected;
pub mod catalog;
mod check;
pub mod ci;
mod decode;
pub mod discover;
pub mod duration;
pub mod event;
pub mod file;
pub mod glob;
pub mod order;
pub mod policy;
pub mod projects;
pub mod read;
pub mod walk;
mod yaml;
