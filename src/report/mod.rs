//! What people and programs get to read.

pub mod annotation;
pub mod budget;
pub mod cells;
pub mod changed_row;
pub mod check;
pub mod comment;
pub mod conflict;
pub mod envelope;
pub mod event;
pub mod explain;
pub mod forecast;
pub mod html;
pub mod json;
pub mod life;
pub mod live;
pub mod markdown;
pub mod mermaid;
pub mod outlook;
pub mod page;
pub mod phrase;
pub mod plan;
pub mod standing;
pub mod story;
pub mod style;
pub mod summary;
pub mod table;
pub mod terminal;
pub mod travel;
pub mod view;

#[cfg(test)]
mod fixture;
