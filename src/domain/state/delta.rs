//! What changed between two sets of rows, and which of it a run may commit.
