//! What depends on what: the configuration's blocks and references, and the closure over them.

pub mod configuration;
pub mod dot;
pub mod manifest;
