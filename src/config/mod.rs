//! What the user wants: `kl.yaml`, and the CI job that kl runs in.

mod check;
pub mod ci;
mod decode;
pub mod duration;
pub mod file;
pub mod glob;
pub mod order;
pub mod policy;
pub mod projects;
pub mod read;
mod yaml;
