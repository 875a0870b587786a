//! The pure core: values in, values out. No file, socket, clock, process or randomness.

pub mod address;
pub mod coordination;
pub mod digest;
pub mod graph;
pub mod id;
pub mod json;
pub mod nearest;
pub mod plan;
pub mod redact;
pub mod request;
pub mod run;
pub mod state;
pub mod token;
