//! A state as rows: what a row is, how a state document becomes rows, and back.

pub mod comparison;
pub mod delta;
pub mod difference;
pub mod document;
pub mod incoming;
mod layout;
pub mod moving;
pub mod projection;
pub mod row;

pub use row::{Body, ContentHash, Row, RowKey, RowKeyDigest, Touched};
