//! What the user wants: `kl.yaml`, and the CI job that kl runs in.

pub mod ci;
pub mod file;
