//! What depends on what: the configuration's blocks and references, and the closure over them.

pub mod closure;
pub mod configuration;
pub mod dot;
pub mod graph_edges;
pub mod manifest;
pub mod plan_edges;
pub mod tree;
