//! The library behind `kl`: many changes to one Terraform state at the same time, safely.
//!
//! Rooms, from the core outward (docs/architecture.md has the whole map):
//!
//! - [`domain`]: pure values and decisions: addresses, states, plans, reservations.
//! - [`store`]: what kl remembers, on SQLite or PostgreSQL.
//! - [`terraform`]: the real binary, as a process.
//! - [`workspace`]: isolated working directories.

pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod error;
pub mod exit;
pub mod forge;
pub mod mishap;
pub mod pipeline;
pub mod report;
pub mod server;
pub mod signals;
pub mod store;
pub mod telemetry;
pub mod terraform;
pub mod workspace;
