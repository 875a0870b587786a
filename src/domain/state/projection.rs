//! Rows to a state document: the inverse of [`super::document`].
