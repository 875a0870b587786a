//! What people and programs get to read.

pub mod conflict;
pub mod event;
pub mod json;
pub mod live;
pub mod markdown;
pub mod plan;
pub mod style;
pub mod table;
pub mod terminal;
pub mod view;
